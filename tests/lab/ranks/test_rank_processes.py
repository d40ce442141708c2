"""Real ranks: a group that works, in the environment of a launcher, and that ends when one of its processes does."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import dataguard
from dataguard.core.incident import LoaderDied, LoaderHung
from dataguard.core.model import Status, Undecided
from dataguard.engine import scan
from dataguard.lab.process.isolation import isolated
from dataguard.lab.ranks.rank_processes import Rank, run_ranks
from dataguard.process.process_tree import adopt_orphans, descendants
from dataguard.settings.settings import Settings
from dataguard.settings.target_spelling import script_spelling
from tests.support.offspring import left_over

pytestmark = [pytest.mark.scan, pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")]

LAUNCHER = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR")


@pytest.fixture(autouse=True, scope="module")
def _nothing_escapes() -> None:
    torch.set_num_threads(1)  # as in the host: a fork hangs otherwise
    adopt_orphans()


def together(folder: Path, work: Callable[[Rank], Any], world: int = 2, timeout: float = 30) -> list[Any]:
    """Run the ranks as observations do: in a fork with a deadline, which leaves no process behind."""
    before = descendants()
    try:
        answers: list[Any] = isolated(lambda: run_ranks(world, folder, work), folder, timeout=timeout, allowed=60)
        return answers
    finally:
        assert left_over(before) == []


def test_they_form_a_group_in_the_environment_of_a_launcher(tmp_path: Path) -> None:
    def work(rank: Rank) -> tuple[Any, ...]:
        total = torch.tensor(dist.get_rank() + 1)
        dist.all_reduce(total)
        return rank.arguments, int(total), [os.environ[name] for name in LAUNCHER]

    assert together(tmp_path, work, world=3) == [
        ({"rank": rank, "world_size": 3}, 6, [str(rank), str(rank), "3", "3", "127.0.0.1"]) for rank in range(3)
    ]


def test_code_that_starts_the_group_itself_finds_it_started(tmp_path: Path) -> None:
    def work(rank: Rank) -> tuple[str, int]:
        dist.init_process_group("nccl", init_method="env://")
        return dist.get_backend(), dist.get_rank()

    assert together(tmp_path, work) == [("gloo", 0), ("gloo", 1)]


def test_what_one_raises_ends_them_all(tmp_path: Path) -> None:
    def work(rank: Rank) -> None:
        if rank.number:
            raise Undecided("rank 1 cannot")
        time.sleep(600)

    with pytest.raises(Undecided, match="rank 1 cannot"):
        together(tmp_path, work)


def test_one_that_dies_ends_them_all(tmp_path: Path) -> None:
    def work(rank: Rank) -> None:
        if rank.number:
            os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(600)

    with pytest.raises(LoaderDied) as caught:
        together(tmp_path, work)
    assert caught.value.incident.signal == "SIGSEGV"


def test_a_group_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    join = dist.init_process_group

    def fail_at_first(*args: Any, rank: int, **kwargs: Any) -> None:
        tried = tmp_path / "tried"
        if rank == 1 and not tried.exists():
            tried.touch()
            raise RuntimeError("Gloo connectFullMesh failed")
        join(*args, **{**kwargs, "rank": rank})

    monkeypatch.setattr(dist, "init_process_group", fail_at_first)
    assert together(tmp_path, lambda rank: rank.number) == [0, 1]


def test_ranks_that_wait_for_each_other_are_ended(tmp_path: Path) -> None:
    def work(rank: Rank) -> None:
        if rank.number == 0:
            dist.barrier()
        time.sleep(600)

    started = time.monotonic()
    with pytest.raises(LoaderHung):
        together(tmp_path, work, timeout=2)
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("fault", ["raises", "dies", "hangs"])
def test_a_scan_goes_on_when_another_rank_fails(fault: str) -> None:
    report = scan(f"tests.loaders.ranked:{fault}", Settings(select=("DG108", "DG501"), timeout=3))
    found = {result.code: result for result in report.results}
    assert found["DG501"].status is Status.PASSED
    assert found["DG108"].status is Status.INCONCLUSIVE
    assert "the loader fails" in (found["DG108"].reason or "")


def test_a_loader_in_hand_of_one_rank_is_not_tested_on_others() -> None:
    dataset = TensorDataset(torch.arange(64.0))
    loader = DataLoader(dataset, 4, sampler=DistributedSampler(dataset, 2, 0))
    report = dataguard.scan(loader, select="DG202,DG204")
    assert not report.failed
    reasons = {result.code: str(result.reason) for result in report.results if result.status is not Status.PASSED}
    assert "that of one rank" in reasons["DG202"]


FIXED, SAME = "num_replicas=1 is fixed", "each of 2 ranks reads all samples, but a trainer may shard them"


@pytest.mark.parametrize(
    ("target", "statuses", "reason"),
    [
        *[
            (target, "PASSED PASSED PASSED", "")
            for target in ("divides", "divides_if_in_a_group", "divides_rows", "divides_at_import")
        ],
        ("divides_some", "PASSED FAILED PASSED", ""),
        *[(target, "SKIPPED PASSED PASSED", SAME) for target in ("logs", "logs_and_draws_some")],
        ("fixed", "SKIPPED PASSED PASSED", FIXED),
    ],
)
def test_map_style_loaders_that_ask_for_their_rank_run_on_two(target: str, statuses: str, reason: str) -> None:
    report = scan(f"tests.loaders.ranked:{target}", Settings(select=("DG202", "DG204", "DG404")))
    assert [result.status.name for result in report.results] == statuses.split()
    assert reason in (report.results[0].reason or "")


@pytest.mark.parametrize(
    ("spelling", "status"),
    [
        ("tests.loaders.ranked:noisy", Status.PASSED),
        (script_spelling("-m tests.loaders.ranked", ()), Status.PASSED),
        (script_spelling("-m tests.loaders.ranked", ("seeded",)), Status.FAILED),
    ],
    ids=["factory", "script", "seeded script"],
)
def test_generators_that_the_system_seeds_differ_between_ranks(spelling: str, status: Status) -> None:
    report = scan(spelling, Settings(select=("DG108",), ranks=2))
    assert [result.status for result in report.results] == [status], report.results
