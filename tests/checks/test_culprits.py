"""Findings point at the line to change: in samples, a line that is marked with `# culprit`."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader, Dataset, IterableDataset, SubsetRandomSampler

from dataguard.checks import CATALOGUE
from dataguard.core.model import Check
from dataguard.lab.culprit.construction import Blamed, place_of_part, selects
from dataguard.lab.culprit.drawing_part import line_of_own_part, steps_that_draw
from dataguard.lab.culprit.source_flow import endless_loop, left_over, selection
from tests.support.culprits import MARK, is_followed, line_of, source_at
from tests.support.recordings import Recording, recordings, verdict_of

FINDINGS = [
    pytest.param(check, recording, id=f"{check.code}-{name}")
    for check in CATALOGUE
    for name, recording in recordings(check.stem).items()
    if is_followed(check.code, name)
]


@pytest.mark.parametrize(("check", "recording"), FINDINGS)
def test_a_finding_points_at_the_marked_line(check: Check, recording: Recording) -> None:
    for finding in verdict_of(check.judge, recording.lab).findings:
        assert MARK in line_of(finding, "/project")


SAMPLES = import_module("sample_datasets.dg204_lost_samples")


@pytest.mark.parametrize(
    ("stem", "face"),
    [
        *(("dg201_unsharded_workers", face) for face in ("bad_batched", "bad_rank_only", "bad_split_in_init")),
        *(("dg201_unsharded_workers", face) for face in ("bad_filled", "bad_windows", "bad_texts")),
        ("dg204_lost_samples", "bad_ranks"),
    ],
)
def test_the_selection_of_a_stream_is_found_in_its_source(stem: str, face: str) -> None:
    make = getattr(import_module(f"sample_datasets.{stem}"), face)
    place = selection((make(0, 2) if face == "bad_ranks" else make()).dataset)
    assert place
    assert MARK in source_at(Path(place[0]), place[1])


def test_a_sampler_selects_before_it_shuffles() -> None:
    samplers = [
        SAMPLES.bad_dealt(0, 2).batch_sampler,
        SAMPLES.bad_cut_first(0, 2).sampler,
        SAMPLES.bad_cut_to_batches().sampler,
    ]
    for sampler in samplers:
        place = selection(sampler, first=True)
        assert place
        assert MARK in source_at(Path(place[0]), place[1])


class Whole(IterableDataset[int]):
    """Yields all that it holds, in each worker."""

    def __iter__(self) -> Iterator[int]:
        yield from range(8)  # culprit


class Around(IterableDataset[int]):
    """Buffers another stream."""

    def __init__(self, inner: IterableDataset[int]) -> None:
        self.inner = inner

    def __iter__(self) -> Iterator[int]:
        for number in self.inner:
            yield number + 1


class InParts(IterableDataset[int]):
    """Gives equal parts to two workers."""

    def __iter__(self) -> Iterator[int]:
        part = 9 // 2  # culprit
        begin = part
        yield from range(begin, begin + part)


@pytest.mark.parametrize("stream", [Around(Whole()), InParts()], ids=["inner", "rounded"])
def test_a_stream_loses_samples_where_it_selects(stream: IterableDataset[int]) -> None:
    place = selection(stream)
    assert place
    assert MARK in source_at(Path(place[0]), place[1])


class Forever(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        while True:  # culprit
            for number in range(4):
                if number == 3:
                    break
                yield number


class Until(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        while True:
            yield from range(4)
            if random.random() < 0.5:
                return


def test_a_loop_that_nothing_leaves_never_ends() -> None:
    place = endless_loop(Forever())
    assert place
    assert MARK in source_at(Path(place[0]), place[1])
    assert endless_loop(Until()) is endless_loop(Whole()) is None


def test_a_buffer_is_left_over_unless_it_is_drained() -> None:
    place = left_over(SAMPLES.bad_undrained_few().dataset)
    assert place
    assert MARK in source_at(Path(place[0]), place[1])
    assert left_over(SAMPLES.good().dataset) is left_over(SAMPLES.good_mixed().dataset) is None


class Rows(Dataset[Any]):
    """Rows of a list."""

    def __init__(self, rows: Sequence[int]) -> None:
        self.rows = rows

    def __getitem__(self, index: int) -> int:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)


def made(rows: Sequence[int], **settings: Any) -> DataLoader[Any]:
    return DataLoader(Rows(rows), **settings)


def literal() -> DataLoader[Any]:
    return made([1, 2, 3], drop_last=True)  # culprit


def listed_before() -> DataLoader[Any]:
    rows = [1, 2, 3]  # culprit
    return made(rows)


def subset() -> DataLoader[Any]:
    data = Rows(range(8))
    return DataLoader(data, sampler=SubsetRandomSampler(range(3)))  # culprit


@pytest.mark.parametrize(
    ("factory", "path", "blamed"),
    [
        (literal, "dataset", selects),
        (literal, "loader", lambda name, _: name == "drop_last"),
        (listed_before, "dataset", selects),
        (subset, "batch_sampler.sampler", selects),
    ],
)
def test_a_part_is_shown_where_its_arguments_are_decided(
    factory: Callable[[], DataLoader[Any]], path: str, blamed: Blamed
) -> None:
    found = place_of_part(factory, factory, lambda _: [path], blamed)
    assert found
    assert found[0] == path
    assert MARK in source_at(Path(found[1][0]), found[1][1])


class Times:
    """Multiplies by a random number."""

    def __init__(self, most: float) -> None:
        self.most = most

    def __call__(self, value: float) -> float:
        return value * random.uniform(0, self.most)


class Steps:
    """A pipeline."""

    def __init__(self, steps: Sequence[Any]) -> None:
        self.steps = steps

    def __call__(self, value: float) -> float:
        for step in self.steps:
            value = step(value)
        return value


class Changed(Rows):
    """Rows that are transformed."""

    def __init__(self, transform: Any) -> None:
        super().__init__(range(8))
        self.transform = transform

    def __getitem__(self, index: int) -> Any:
        return self.transform(super().__getitem__(index))


def own_step() -> tuple[DataLoader[Any], DataLoader[Any]]:
    steps = [abs, Times(2)]  # culprit
    return DataLoader(Changed(Steps(steps))), DataLoader(Changed(Times(3)))


def shared_step() -> tuple[DataLoader[Any], DataLoader[Any]]:
    step = Times(2)
    pipeline = Steps([abs, step])  # culprit
    return DataLoader(Changed(pipeline)), DataLoader(Changed(Steps([step])))


def shared_transform() -> tuple[DataLoader[Any], DataLoader[Any]]:
    transform = Times(2)
    evaluation = Changed(transform)  # culprit
    return DataLoader(evaluation), DataLoader(Changed(transform))


@pytest.mark.parametrize("factory", [own_step, shared_step, shared_transform])
def test_a_random_step_is_shown_where_evaluation_gets_it(
    factory: Callable[[], tuple[DataLoader[Any], DataLoader[Any]]],
) -> None:
    loader, _ = factory()
    steps = steps_that_draw(loader.dataset, "dataset.transform", lambda: loader.dataset[3], random.getstate)
    place = line_of_own_part(lambda: factory()[0], factory, ["dataset", *steps])
    assert place
    assert MARK in source_at(Path(place[0]), place[1])
