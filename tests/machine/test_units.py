"""Sizes and spans in words."""

from __future__ import annotations

from dataguard.machine.units import counted, size, span


def test_sizes_and_spans_in_words() -> None:
    assert [size(count) for count in (0, 999, 4_100_000, 67108864, 2_500_000_000)] == [
        "0 B",
        "999 B",
        "4.1 MB",
        "67.1 MB",
        "2.5 GB",
    ]
    assert [span(seconds) for seconds in (5, 600, 18_000, 864_000, 1e9)] == [
        "5 seconds",
        "10 minutes",
        "5 hours",
        "10 days",
        "years",
    ]


def test_one_of_a_kind_is_singular_with_its_verb() -> None:
    assert [counted(count, "padded leaves") for count in (1, 2)] == ["1 padded leaf", "2 padded leaves"]
    assert [counted(count, "samples were") for count in (1, 1024)] == ["1 sample was", "1,024 samples were"]
