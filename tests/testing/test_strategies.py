"""The public strategies: what they draw, how it shrinks, and that the page about them runs."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, find, given, settings
from hypothesis.errors import InvalidArgument
from hypothesis.strategies import SearchStrategy
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler

from dataguard.testing import strategies

PAGE = Path(__file__).parents[2] / "docs" / "toolbox.md"
QUICK = settings(max_examples=30, deadline=None)


class Numbers(Dataset[int]):
    def __init__(self, count: int = 40) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        return range(self.count)[index]


class Stream(IterableDataset[int]):
    def __init__(self, count: int = 100) -> None:
        self.count = count

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.count))


class Noise(Numbers):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index), random.random(), float(torch.rand(()))


def smallest(strategy: SearchStrategy[Any], wanted: Callable[[Any], bool]) -> Any:
    quiet = settings(derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    return find(strategy, wanted, settings=quiet)


@QUICK
@given(strategies.indices(Numbers(7)))
def test_indices_are_in_range(index: int) -> None:
    assert 0 <= index < 7


@pytest.mark.parametrize(("source", "end"), [(Numbers(), 39), (Stream(), 63), (Stream(5), 4)])
def test_samples_come_from_the_beginning_to_the_end(source: Dataset[int], end: int) -> None:
    assert smallest(strategies.samples(source), lambda sample: sample == end) == end
    assert smallest(strategies.samples(source), lambda sample: sample >= 3) == 3


def test_random_samples_are_the_same_each_time() -> None:
    drawn: set[tuple[float, ...]] = set()

    @QUICK
    @given(strategies.samples(Noise()))
    def draw(sample: tuple[float, ...]) -> None:
        drawn.add(sample[1:])

    draw()
    assert len(drawn) == 1


def test_drawing_leaves_global_generators_alone() -> None:
    @settings(max_examples=5, database=None)
    @given(strategies.samples(Noise()))
    def draw(_: Any) -> None:
        assert torch.equal(torch.get_rng_state(), before)

    torch.manual_seed(1)
    before = torch.get_rng_state()
    draw()


@QUICK
@given(strategies.batches(Numbers()))
def test_a_batch_of_a_dataset_holds_up_to_eight(batch: Tensor) -> None:
    assert 1 <= len(batch) <= 8
    assert len(set(batch.tolist())) == len(batch)


@QUICK
@given(strategies.batches(DataLoader(Numbers(), batch_size=6, collate_fn=sorted)))
def test_a_loader_lends_its_collate_and_its_size(batch: list[int]) -> None:
    assert batch == sorted(batch)
    assert 1 <= len(batch) <= 6


@QUICK
@given(strategies.batches(DataLoader(Numbers(), batch_size=6, drop_last=True)))
def test_with_drop_last_batches_are_full(batch: Tensor) -> None:
    assert len(batch) == 6


@QUICK
@given(strategies.batches(DataLoader(Numbers(), batch_sampler=BatchSampler(RandomSampler(Numbers()), 5, False))))
def test_a_batch_sampler_tells_its_size(batch: Tensor) -> None:
    assert 1 <= len(batch) <= 5


@QUICK
@given(strategies.batches(Stream(), collate_fn=list, min_size=2, max_size=3))
def test_batches_of_a_stream(batch: list[int]) -> None:
    assert 2 <= len(batch) <= 3


def test_a_batch_shrinks_to_the_fewest_samples() -> None:
    assert smallest(strategies.batches(Numbers(), list), lambda batch: len(batch) > 1) == [0, 1]
    assert smallest(strategies.batches(Numbers(), list), lambda batch: 17 in batch) == [17]


def test_a_failing_example_tells_its_indices() -> None:
    @settings(max_examples=200, database=None, derandomize=True)
    @given(strategies.batches(Numbers(), list))
    def fails(batch: list[int]) -> None:
        told.append(batch)
        assert 5 not in batch

    told: list[list[int]] = []
    with pytest.raises(AssertionError) as raised:
        fails()
    assert told[-1] == [5]
    if hasattr(raised.value, "__notes__"):  # exceptions have notes from Python 3.11 on
        assert "samples [5] of the dataset" in raised.value.__notes__


@pytest.mark.scan
@settings(max_examples=8, deadline=None)
@given(strategies.loader_settings(workers=(0, 1)))
def test_settings_make_loaders(arguments: dict[str, Any]) -> None:
    loader = DataLoader(Numbers(9), **arguments)
    seen = [int(number) for batch in loader for number in batch]
    size = arguments["batch_size"]
    assert sorted(seen) == list(range(9 // size * size if arguments["drop_last"] else 9))


def test_settings_shrink_to_no_workers() -> None:
    assert smallest(strategies.loader_settings(), lambda _: True) == {
        "batch_size": 1,
        "drop_last": False,
        "num_workers": 0,
    }


class Endless:
    def __getitem__(self, index: int) -> int:
        return index


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda: strategies.indices(Stream()), "is an iterable-style dataset"),
        (lambda: strategies.indices(Numbers(0)), "is empty"),
        (lambda: strategies.samples(Endless()), "has no length"),  # type: ignore[arg-type]
        (lambda: strategies.batches(DataLoader(Numbers(), batch_size=None)), "batching is off"),
        (lambda: strategies.batches(Numbers(3), min_size=4), "no batch has at least"),
        (lambda: strategies.samples(Stream(0)).validate(), "yields nothing"),
    ],
)
def test_what_cannot_be_drawn_is_said_at_once(draw: Callable[[], Any], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        draw()


@pytest.mark.scan
def test_the_example_of_the_page_runs() -> None:
    *_, code = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(code, str(PAGE), "exec"), names)
    tests = [test for name, test in names.items() if name.startswith("test_")]
    assert len(tests) == 3
    for test in tests:
        test()


def test_the_page_names_every_strategy() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in strategies.__all__ if f"`{name}(" not in page] == []
