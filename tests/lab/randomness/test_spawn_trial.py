"""How the samples that a spawned and a forked worker read are compared."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dataguard.core.model import Undecided
from dataguard.lab.randomness.spawn_trial import _differing
from dataguard.lab.reading.experiment import Readings


def readings(shown: Mapping[int, str] | None = None, /, **leaves: str) -> Readings:
    """What a worker read: each leaf with a letter for each sample."""
    series = {path: {(0, 0): tuple(letter.encode() for letter in letters)} for path, letters in leaves.items()}
    return Readings(series, (), shown or {}, frozenset(), True)


def test_samples_are_named_by_index_or_by_their_number_in_a_stream() -> None:
    forked, spawned = {"sample": "abc", "batch": "xyz"}, {"sample": "aBC", "batch": "Xyz"}
    assert _differing(readings(None, **forked), readings(None, **spawned), {"sample"}) == {"sample": ("1", "2")}
    shown = {0: "7", 1: "8", 2: "9"}
    assert _differing(readings(shown, **forked), readings(shown, **spawned), {"sample", "batch"}) == {
        "sample": ("8", "9"),
        "batch": ("7",),
    }


def test_a_leaf_that_only_one_of_them_has_differs() -> None:
    assert _differing(readings(a="xy"), readings(a="xy", b="z"), {"a", "b"}) == {"b": ("0",)}


@pytest.mark.parametrize(
    ("forked", "spawned"),
    [(readings({0: "1"}, a="x"), readings({0: "2"}, a="y")), (readings(a="xy"), readings(a="x"))],
)
def test_other_samples_cannot_be_compared(forked: Readings, spawned: Readings) -> None:
    with pytest.raises(Undecided, match="draws different indices in each run"):
        _differing(forked, spawned, {"a"})
