"""Batches that mix samples of different structure: the smallest ones that collate_fn refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from dataguard.lab.batches.settings_trials import ExampleSearch, MixedBatches, run_mixed_batches
from tests.support.items import Items


def mixed_batches(tmp_path: Path, make: Callable[[int], Any], collate: Any = None, *, size: int = 4) -> MixedBatches:
    """Mixed batches of the first six samples."""
    loader = DataLoader(Items(make), batch_size=size, collate_fn=collate)
    return run_mixed_batches(lambda: loader, tmp_path, range(6), size, ExampleSearch(), single=False)


def test_the_smallest_clash_is_a_pair(tmp_path: Path) -> None:
    clash = mixed_batches(tmp_path, lambda number: torch.zeros(2 + (number == 4))).clash
    assert clash is not None
    assert clash.indices == (0, 4)
    assert "equal size" in clash.incident.message
    assert [leaf.shape for (leaf,) in clash.samples] == [(2,), (3,)]


def test_three_that_clash_are_found_and_made_small(tmp_path: Path) -> None:
    def at_most_two_kinds(samples: list[int]) -> list[int]:
        if len(set(samples)) > 2:
            raise ValueError("too many kinds")
        return samples

    clash = mixed_batches(tmp_path, lambda number: number, at_most_two_kinds).clash
    assert clash is not None
    assert len(clash.indices) == len(set(clash.indices)) == 3


def test_the_search_gives_the_same_every_time(tmp_path: Path) -> None:
    def no_sum(samples: list[int]) -> list[int]:
        if sum(samples) > 11:
            raise ValueError("too much")
        return samples

    found = [mixed_batches(tmp_path, lambda number: number, no_sum).clash for _ in range(2)]
    assert found[0] == found[1] is not None


def test_samples_that_are_filtered_away_are_no_clash(tmp_path: Path) -> None:
    def keep(samples: list[int | None]) -> Tensor:
        return torch.stack([torch.tensor(sample) for sample in samples if sample is not None])

    assert mixed_batches(tmp_path, lambda number: number if number > 3 else None, keep).clash is None


def test_a_collate_that_takes_whole_batches_only_gets_them(tmp_path: Path) -> None:
    def fours(samples: list[Tensor]) -> Tensor:
        return torch.stack(samples).reshape(2, 2, 2)

    assert mixed_batches(tmp_path, lambda number: torch.zeros(2), fours).clash is None
    clash = mixed_batches(tmp_path, lambda number: torch.zeros(2 + number % 2), fours).clash
    assert clash is not None
    assert clash.indices == (0, 0, 0, 1)


def test_collate_may_write_into_the_samples_of_a_trial(tmp_path: Path) -> None:
    def pop(samples: list[dict[str, Tensor]]) -> Tensor:
        return pad_sequence([sample.pop("x") for sample in samples])

    assert mixed_batches(tmp_path, lambda number: {"x": torch.zeros(2 + number)}, pop).clash is None
