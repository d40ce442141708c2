"""Which indices are asked for, and what is made of the answers: small datasets, read in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset

from dataguard.core.model import NotApplicable
from dataguard.lab.core.leaves import VALUES_AT_ONCE, leaves_of
from dataguard.lab.core.records import SampleRecord
from dataguard.lab.dataset.index_semantics import (
    Hints,
    IndexSemantics,
    _is_close,
    hints_of,
    probe_ends,
    probe_semantics,
)
from dataguard.lab.process.isolation import isolated
from sample_datasets._parts import picture


class Items(Dataset[Any]):
    """A dataset by a function of the index."""

    def __init__(self, length: int, give: Callable[[int], Any], **state: Any) -> None:
        self.length = length
        self.give = give
        self.__dict__.update(state)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.give(range(self.length)[index])


def semantics(dataset: Dataset[Any], folder: Path, hints: Hints = Hints()) -> IndexSemantics:  # noqa: B008
    loader: DataLoader[Any] = DataLoader(dataset)
    return probe_semantics(loader, folder, hints, probe_ends(loader, folder))


@settings(max_examples=20, deadline=None)
@given(period=st.integers(4, 40), rest=st.integers(5, 60))
def test_any_period_that_something_held_has_is_found(
    period: int, rest: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    held = [picture(number) for number in range(period)]
    dataset = Items(period + rest, lambda index: held[index % period], held=held)
    (found,) = semantics(dataset, tmp_path_factory.mktemp("semantics")).repeats
    assert period % found.period == 0 or found.period % period == 0
    assert (found.where, found.length) == ("dataset", period + rest)


@pytest.mark.parametrize(
    ("inputs", "labels", "period", "unequal"),
    [
        (lambda index: index % 291, lambda index: index % 291 % 7, 291, ()),
        (lambda index: index % 97, lambda index: index % 3, 291, ()),
        (lambda index: index % 97, lambda index: index * index // 7 % 10, 97, ("[1]",)),
        (lambda index: index % 97, lambda index: index, 97, ()),
        (lambda index: index % 12, lambda index: index % 12, None, ()),
        (lambda index: index, lambda index: index % 3, None, ()),
    ],
    ids=["both", "several times the inputs", "inputs only", "and the index", "toy", "none"],
)
def test_the_smallest_period_of_inputs_and_labels_is_named(
    inputs: Callable[[int], int],
    labels: Callable[[int], int],
    period: int | None,
    unequal: tuple[str, ...],
    tmp_path: Path,
) -> None:
    dataset = Items(166_285_257, lambda index: (picture(inputs(index)), labels(index)))
    samples = [
        SampleRecord(None, 0, 0, 0, index, str(index), 0.0, leaves_of(dataset[index]))
        for index in range(0, len(dataset), 300_007)
    ]
    found = semantics(dataset, tmp_path, hints_of(samples)).repeats
    assert [(one.period, one.unequal, one.numbered) for one in found] == ([(period, unequal, None)] if period else [])


def test_a_leaf_that_numbers_the_repetitions_is_told_apart(tmp_path: Path) -> None:
    held = [picture(number) for number in range(40)]
    dataset = Items(120, lambda index: (held[index % 40], index // 40), held=held)
    (found,) = semantics(dataset, tmp_path).repeats
    assert (found.period, found.unequal, found.numbered) == (40, ("[1]",), "[1]")


def test_a_period_without_a_matching_length_is_found_by_the_samples_of_an_epoch(tmp_path: Path) -> None:
    dataset = Items(101, lambda index: picture(index % 37))
    assert semantics(dataset, tmp_path).repeats == ()
    samples = [
        SampleRecord(None, 0, 0, 0, index, str(index), 0.0, leaves_of(dataset[index])) for index in range(0, 101, 2)
    ]
    hints = hints_of(samples)
    assert hints.distances == (74,)
    assert [period.period for period in semantics(dataset, tmp_path, Hints((37,))).repeats] == [37]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_samples_that_differ_repeat_nothing(number: int, tmp_path: Path) -> None:
    gives: list[Callable[[int], Any]] = [picture, lambda index: (picture(index), index % 4), lambda index: index % 4]
    assert semantics(Items(64, gives[number]), tmp_path).repeats == ()


def test_torchs_own_wrappers_are_looked_into(tmp_path: Path) -> None:
    wrapped = Items(60, lambda index: picture(index % 20))
    plain = Items(60, picture)
    assert [one.where for one in semantics(Subset(wrapped, [3, 1, 4]), tmp_path).repeats] == ["dataset.dataset"]
    assert [one.where for one in semantics(ConcatDataset([plain, wrapped]), tmp_path).repeats] == [
        "dataset.datasets[1]"
    ]
    assert semantics(ConcatDataset([plain] * 3), tmp_path).repeats == ()


def test_numbers_of_the_datasets_own_explain_a_repetition(tmp_path: Path) -> None:
    (times,) = semantics(Items(60, lambda index: picture(index % 20), times=3), tmp_path).repeats
    (length,) = semantics(Items(60, lambda index: picture(index % 20)), tmp_path).repeats
    assert (times.factor, length.factor, length.virtual) == ("times", None, "length")


@pytest.mark.scan
def test_a_label_that_takes_the_type_of_its_index_is_the_same(tmp_path: Path) -> None:
    class Modulo(Dataset[Any]):
        def __len__(self) -> int:
            return 20

        def __getitem__(self, index: int) -> Any:
            return torch.full((2, 2), float(index) * 0.1), index % 4

    # What follows seeds is not undone in the process that it runs in.
    found = isolated(lambda: semantics(Modulo(), tmp_path), tmp_path, timeout=20, allowed=60)
    assert not any(typed.unlike or typed.incident for typed in found.typed)


def test_one_sample_is_too_few(tmp_path: Path) -> None:
    with pytest.raises(NotApplicable, match="1 sample"):
        semantics(Items(1, picture), tmp_path)


def test_a_sample_may_hold_a_class_of_its_own(tmp_path: Path) -> None:
    """As a row of pandas does, whose class of arrays has a `shape` that is no shape."""
    rows = [{"x": picture(number), "type": torch.Tensor} for number in range(20)]
    assert semantics(Items(20, rows.__getitem__), tmp_path).repeats == ()


def test_a_few_samples_that_are_made_up_repeat_by_nature(tmp_path: Path) -> None:
    dataset = Items(40, lambda index: torch.ones(3 + index % 4))
    samples = [SampleRecord(None, 0, 0, 0, index, str(index), 0.0, leaves_of(dataset[index])) for index in range(40)]
    assert semantics(dataset, tmp_path, Hints((4,), hints_of(samples).various)).repeats == ()


@pytest.mark.parametrize("place", [0, VALUES_AT_ONCE, VALUES_AT_ONCE + 1])
def test_large_values_are_compared_in_all_places(place: int) -> None:
    one = torch.zeros(VALUES_AT_ONCE + 2)
    two = one.clone()
    two[place] = 1e-9
    assert _is_close(one, two)
    two[place] = 1
    assert not _is_close(one, two)
    assert not _is_close(one, one[:VALUES_AT_ONCE])


def test_of_distances_that_divide_another_only_that_one_is_read(tmp_path: Path) -> None:
    """None of 60, 40 and 30 is a period if samples 0 and 120 differ."""
    read: list[int] = []

    def value(index: int) -> Any:
        read.append(index)
        return picture(index)

    loader: DataLoader[Any] = DataLoader(Items(240, value))
    ends = probe_ends(loader, tmp_path)
    read.clear()
    assert probe_semantics(loader, tmp_path, Hints(), ends).repeats == ()
    assert {120, 80, 48} <= {*read}
    assert not {60, 40, 30} & {*read}
