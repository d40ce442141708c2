"""DG523: which groups are judged, and which are labels or numbered apart."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dataguard.checks.splits.dg523_shared_group import FEWEST_GROUPS, _are_labels, _may_be_groups, _restarts
from dataguard.lab.core.records import LeafRecord, Numbers, ValueSummary
from dataguard.lab.splits.index_contents import Groups

GROUPS = Groups("speaker", {0: "S1", 1: "S1", 2: "S2"})


@pytest.mark.parametrize(
    ("names", "times", "judged"),
    [
        ([f"S{number}" for number in range(FEWEST_GROUPS)], 2, True),
        ([f"S{number}" for number in range(FEWEST_GROUPS)], 1, False),
        ([f"S{number}" for number in range(FEWEST_GROUPS - 1)], 9, False),
        ([f"topic {chr(97 + number)}" for number in range(FEWEST_GROUPS)], 2, False),
    ],
)
def test_many_numbered_groups_of_several_samples(names: list[str], times: int, judged: bool) -> None:
    assert _may_be_groups(dict.fromkeys(names, times)) is judged


@pytest.mark.parametrize(
    ("own", "theirs", "restarts"),
    [
        ("0 1 2", "0 1", True),
        ("P01 P02", "P01 P02 P03", True),
        ("0 2", "1 2 3", True),
        ("P0 P2", "P1 P2 P3", False),
        ("0 2", "3 4", False),
        ("4 5", "5 6", False),
        ("a b", "a", False),
    ],
)
def test_numbers_without_a_gap(own: str, theirs: str, restarts: bool) -> None:
    assert _restarts(dict.fromkeys(own.split(), 1), dict.fromkeys(theirs.split(), 1)) is restarts


def are_labels(labels: tuple[int, ...] | None, *, leaf: bool = True, mask: bool = False) -> bool:
    leaves = [LeafRecord("['x']", "Tensor", "float32", (3, 8, 8), b"")]
    leaves += [LeafRecord("['speaker']", "str", None, None, b"")] * leaf
    leaves += [LeafRecord("['mask']", "Tensor", "uint8", (8, 8), b"")] * mask
    leaves += [LeafRecord("['y']", "int", None, None, b"")] * bool(labels)
    numbers = [(Numbers("['y']", "int64", (), label, label, True),) for label in labels or ()]
    summaries = [ValueSummary(None, 0, place, place, each) for place, each in enumerate(numbers)]
    epoch = SimpleNamespace(samples=[SimpleNamespace(leaves=leaves)], value_summaries=summaries)
    return _are_labels(epoch, GROUPS)  # type: ignore[arg-type]


def test_what_is_to_be_predicted() -> None:
    assert are_labels((4, 4, 7)), "the speaker by another number"
    assert not are_labels((4, 5, 7))
    assert not are_labels((4, 4, 4))
    assert are_labels(None), "nothing but the input is beside the speaker"
    assert not are_labels(None, mask=True)
    assert not are_labels(None, leaf=False)
