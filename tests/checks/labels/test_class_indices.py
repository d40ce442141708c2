"""Class indices in a line."""

from __future__ import annotations

from collections.abc import Mapping

from dataguard.checks.common.labels import Classes, Kind, Labels
from dataguard.checks.labels.class_indices import balance


def labels(values: Mapping[int, int]) -> Labels:
    return Labels("[1]", Kind.SAMPLE, "int64", values, values, {}, sum(values.values()), fixed=True)


def test_balance_is_one_line() -> None:
    few = labels({0: 3, 2: 1, 255: 2})
    assert balance(few, (255,), Classes(4, "", declared=True)) == (
        "sample[1] has 2 of 4 classes in 6 samples: 0 × 3, 2 × 1; 255 marks no class"
    )
    many = labels({number: 2 + (number != 7) for number in range(40)})
    assert balance(many, ()) == "sample[1] has 40 classes in 119 samples: 2 to 3 of each, the rarest is 7"
