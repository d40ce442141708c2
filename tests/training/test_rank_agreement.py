"""DG202 and DG203 live: two ranks with gloo that read as many batches, and other ones, or not."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset

from dataguard.training.guard import guard
from tests.support.training_loops import Items, pair, train

pytestmark = pytest.mark.scan
CONTEXT = multiprocessing.get_context("fork")


class Stream(IterableDataset):
    def __init__(self, count: int, pause: float = 0.0) -> None:
        self.count = count
        self.pause = pause

    def __iter__(self) -> Iterator[Any]:
        yield from map(pair, range(self.count))
        time.sleep(self.pause)


def shard(count: int) -> Callable[[int], DataLoader]:
    """The shard of a rank, as `DistributedSampler` pads it."""

    def make(rank: int) -> DataLoader:
        data = Items(pair, count)
        return DataLoader(data, 4, sampler=DistributedSampler(data, 2, rank, shuffle=False))

    return make


def _rank(rank: int, folder: Path, make: Callable[[int], Any], options: Any, code: str, answers: Any) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    loader = guard(make(rank), name="train", ranks=True, on_violation="record", **options)
    train(loader, 3 if code == "DG202" else 2)
    report = guard.report()
    assert report.notes[0].startswith(f"train, rank {rank}: ")
    (result,) = [result for result in report.results if result.code == code]
    answers.put((rank, [finding.message for finding in result.findings], result.status.value, dict(result.exercised)))
    dist.destroy_process_group()


def ranks(folder: Path, make: Callable[[int], Any], code: str = "DG203", **options: Any) -> list[Any]:
    """What each of two ranks reports of its loader."""
    answers = CONTEXT.Queue()
    processes = [
        CONTEXT.Process(
            target=_rank, args=(rank, folder, make, {"rank_timeout": 60.0, **options}, code, answers), daemon=True
        )
        for rank in range(2)
    ]
    for process in processes:
        process.start()
    found = sorted(answers.get(timeout=60) for _ in processes)
    for process in processes:
        process.join(30)
    return found


@pytest.mark.parametrize(
    "make",
    [shard(9), shard(8), lambda rank: DataLoader(Stream(8), 4), lambda rank: DataLoader(Items(pair, 8 - rank), 4)],
    ids=["padded", "even", "stream", "a smaller last batch"],
)
def test_ranks_that_agree(make: Callable[[int], Any], tmp_path: Path) -> None:
    assert ranks(tmp_path, make) == [(rank, [], "passed", {"epochs": 2}) for rank in range(2)]


@pytest.mark.parametrize(
    ("make", "epochs"),
    [(lambda _: DataLoader(Stream(8), 4), 3), (lambda _: DataLoader(Items(pair, 8), 4), 2)],
    ids=["stream", "map-style"],
)
def test_ranks_that_read_the_same_batches(make: Callable[[int], Any], epochs: int, tmp_path: Path) -> None:
    for _, messages, status, _ in ranks(tmp_path, make, code="DG202"):
        assert messages == [f"ranks 0 and 1 read the same batches in epoch {epoch}" for epoch in range(epochs)]
        assert status == "failed"


def test_ranks_that_read_shards_of_their_own(tmp_path: Path) -> None:
    assert ranks(tmp_path, shard(16), code="DG202") == [(rank, [], "passed", {"epochs": 2}) for rank in range(2)]


def test_ranks_that_share_a_model(tmp_path: Path) -> None:
    for _, messages, status, _ in ranks(tmp_path, shard(16), code="DG202", same_batches=2):
        assert messages[0] == "ranks 0 and 1 share a model, and read different batches in epoch 0"
        assert status == "failed"


def test_uneven_lengths_are_found_before_the_first_batch(tmp_path: Path) -> None:
    def make(rank: int) -> DataLoader:
        return DataLoader(Items(pair, 12 - 4 * rank), 4)

    for _, messages, status, _ in ranks(tmp_path, make):
        assert messages[0] == "rank 1 has 2 batches in epoch 0, rank 0 has 3"
        assert status == "failed"


def test_uneven_streams_are_found_at_the_end(tmp_path: Path) -> None:
    for _, messages, _, _ in ranks(tmp_path, lambda rank: DataLoader(Stream(4 + 8 * rank), 4)):
        assert messages[0] == "rank 0 has 1 batch in epoch 0, rank 1 has 3"


def test_a_rank_that_does_not_end_is_found_by_the_others(tmp_path: Path) -> None:
    (_, messages, *_), _ = ranks(tmp_path, lambda rank: DataLoader(Stream(4, rank * 1.0), 4), rank_timeout=0.5)
    assert messages == ["rank 0 ended epoch 0 after 1 batch, and other ranks did not within 0.5 s"]


def test_one_process_has_nobody_to_compare_with() -> None:
    train(guard(shard(8)(0), ranks=True, on_violation="record"))
    assert {result.reason for result in guard.report().results if result.code == "DG203"} == {
        "there are no other ranks"
    }
