"""What names the group of a sample, and where it is found."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import ConcatDataset, Dataset, Subset

from dataguard.lab.splits.index_contents import find_groups, is_group


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("patient", True),
        ("patient_id", True),
        ("patientID", True),
        ("PatientName", True),
        ("subjects", True),
        ("speaker_idx", True),
        ("session_no", True),
        ("group", True),
        ("param_groups", False),
        ("age_group", False),
        ("group_norm", False),
        ("patient_age", False),
        ("subjectivity", False),
        ("site", False),
        ("device_id", False),
        ("class", False),
        ("", False),
    ],
)
def test_names_of_groups(name: str, group: bool) -> None:
    assert is_group(name, None) is group


def test_a_declared_name_is_the_only_one() -> None:
    assert is_group("case", "case")
    assert not is_group("patient", "case")


class Held(Dataset[Any]):
    """Four samples, and what the dataset holds of them."""

    def __init__(self, **held: Any) -> None:
        self.__dict__.update(held)

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return range(4)[index]


EXPECTED = {0: "1", 3: "2"}


@pytest.mark.parametrize(
    "held",
    [
        {"patients": ["1", "1", "1", "2"]},
        {"patients": torch.tensor([1, 1, 1, 2])},
        {"records": [{"patients": number, "x": 0} for number in (1, 1, 1, 2)]},
        {"patients": ["1", "1", "1", "2"], "sites": ["a"] * 4, "groups": [[]] * 4, "session": "1"},
    ],
)
def test_where_groups_are_listed(held: dict[str, Any]) -> None:
    (groups,) = find_groups(Held(**held), [0, 3], None)
    assert (groups.name, groups.of) == ("patients", EXPECTED)


def test_a_data_frame_lists_groups() -> None:
    frame = pytest.importorskip("pandas").DataFrame({"patients": [1, 1, 1, 2], "value": 0.5})
    (groups,) = find_groups(Held(frame=frame), [0, 3], None)
    assert (groups.name, groups.of) == ("patients", EXPECTED)


def test_subsets_share_the_table_that_they_were_chosen_from() -> None:
    one, other = Held(patients=["1", "1", "1", "2"]), Held(patients=["1", "1", "3", "2"])
    (left,) = find_groups(Subset(one, [0, 3]), [0, 1], None)
    (right,) = find_groups(Subset(one, [1, 2]), [0, 1], None)
    (apart,) = find_groups(ConcatDataset([other, other]), [0, 7], None)
    assert left.of == {0: "1", 1: "2"}
    assert left.table == right.table != apart.table
    assert apart.of == {0: "1", 7: "2"}
    assert find_groups(one, [4], None) == find_groups(one, [], None) == ()
