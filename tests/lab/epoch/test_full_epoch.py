"""Scans of all samples: what they find beyond the first ones, what they keep, and how ranks share them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataguard.core.model import UsageError
from dataguard.engine import scan
from dataguard.lab.core.records import LeafRecord, SampleRecord
from dataguard.lab.epoch.full_epoch import FullSchedule, RankAssignment
from dataguard.lab.spy import sample_ledger
from dataguard.lab.spy.recording import MOST_STRUCTURES, RecordSampler
from dataguard.lab.spy.sample_ledger import Ledger, read_ledgers, resolution_for
from dataguard.process.torchrun import clear_torchrun_variables, team_of
from dataguard.report import Report
from dataguard.settings.settings import Settings
from tests.loaders import whole
from tests.support.faces import EVERY_FACE

LAUNCHED = {
    "RANK": "1",
    "WORLD_SIZE": "2",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "TORCHELASTIC_RUN_ID": "run",
}


def record(number: int, *, shape: int = 1, nan: int = 0) -> SampleRecord:
    leaf = LeafRecord("[0]", "Tensor", "float32", (shape,), number.to_bytes(8, "little"), nan)
    return SampleRecord(0, 0, number, 0, number, str(number), 0.0, (leaf,))


def judged(name: str, **settings: Any) -> Report:
    return scan(f"tests.loaders.whole:{name}", Settings(timeout=10, **settings))


def failing(report: Report) -> list[tuple[str, str, str]]:
    return [(result.loader, result.code, finding.message) for result in report.results for finding in result.findings]


LATE = {"shuffled": "DG501", "labelled": "DG502", "raising": "DG513", "losing": "DG204"}
"""Loaders with a defect that comes late, and the check that finds it."""


@pytest.fixture(scope="module")
def everything() -> Report:
    """A scan of all samples of loaders with a defect that comes late; DG513 is judged whatever is selected."""
    return judged("several", select=("DG0", "DG501", "DG502", "DG204"), all=True)


@pytest.mark.scan
def test_what_comes_late_is_found_among_all_samples_only(everything: Report) -> None:
    assert not failing(judged("several", select=tuple(LATE.values()), seed=1))
    assert {loader: code for loader, code, _ in failing(everything)} == LATE
    assert len(failing(everything)) == len(LATE)


@pytest.mark.scan
def test_a_healthy_stream_is_read_to_its_end() -> None:
    report = judged("healthy", select=("DG0", "DG2"), all=True)
    assert not failing(report)
    assert {result.code: result for result in report.results}["DG002"].exercised["samples"] == whole.MANY


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=60), st.integers(1, 4), st.integers(0, 9))
def test_what_portions_keep_is_what_the_whole_would(kinds: list[tuple[int, bool]], world: int, keep: int) -> None:
    records = [record(number, shape=shape, nan=nan) for number, (shape, nan) in enumerate(kinds)]
    portions = [list(filter(RecordSampler(keep).keeps, records[rank::world])) for rank in range(world)]
    merged = sorted((one for portion in portions for one in portion), key=lambda one: one.batch)
    kept, expected = (list(filter(RecordSampler(keep).keeps, several)) for several in (merged, records))
    assert kept == expected


def test_samples_of_ever_new_shapes_are_not_all_kept() -> None:
    sampler = RecordSampler(10)
    assert sum(sampler.keeps(record(number, shape=number)) for number in range(2000)) == MOST_STRUCTURES


BATCHES = st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=4), max_size=30)


@given(BATCHES, st.integers(1, 5), st.integers(1, 3))
def test_ranks_take_turns_with_the_batches(batches: list[list[int]], world: int, workers: int) -> None:
    ranks = [FullSchedule(batches, None, RankAssignment(rank, world, workers), batched=True) for rank in range(world)]
    dealt = [
        (rank.assignment.place(*divmod(number, workers)), batch) for rank in ranks for number, batch in enumerate(rank)
    ]
    assert [batch for _, batch in sorted(dealt)] == batches
    assert [place for place, _ in sorted(dealt)] == list(range(len(batches)))
    assert len({rank.digest.digest() for rank in ranks}) == 1
    assert all(list(rank.sizes or []) == [len(batch) for batch in batches] for rank in ranks)


def test_indices_that_do_not_exist_are_left_out() -> None:
    assert list(FullSchedule([[1, 5], [6, 7]], 6, RankAssignment(), batched=True)) == [[1, 5]]
    assert list(FullSchedule([1, 5, 6], 6, RankAssignment(), batched=False)) == [1, 5]


@pytest.mark.parametrize(("samples", "level"), [(0, 0), (10**6, 0), (10**6 + 1, 1), (3 * 10**6, 2), (10**8, 7)])
def test_a_stream_of_more_than_a_million_samples_is_sampled(samples: int, level: int) -> None:
    assert resolution_for(samples).level == level
    assert samples >> level <= sample_ledger.MOST_SAMPLES


def test_a_ledger_takes_some_bytes_of_each_sample_and_keeps_the_same_ones_everywhere(tmp_path: Path) -> None:
    many = 20_000
    accounts = []
    for level, worker in ((0, 0), (2, 1), (2, 2)):
        ledger = Ledger(tmp_path, worker, sample_ledger.LedgerResolution(level, 8))
        order = range(many) if worker < 2 else range(many - 1, -1, -1)
        ledger.enter(0, (record(hash((number, "mixed")) & (2**64 - 1)) for number in order))
        accounts.append(read_ledgers(tmp_path, 0)[worker])
    every, some, others = accounts
    assert [account.samples for account in accounts] == [many] * 3
    assert sum(map(len, every.columns.values())) * 8 <= 100 * many
    assert len(some.identities) == pytest.approx(many / 4, rel=0.1)
    assert Counter(some.identities) == Counter(others.identities)
    assert set(some.identities) <= set(every.identities)
    assert Counter(some.columns["[0]"]) == Counter(others.columns["[0]"])


def test_a_sample_that_is_a_bare_tensor_is_counted_once(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, None, sample_ledger.EVERY_SAMPLE)
    ledger.enter(0, [replace(one, leaves=(replace(one.leaves[0], path=""),)) for one in map(record, range(5))])
    account = read_ledgers(tmp_path, 0)[-1]
    assert [len(account.identities), account.samples, account.paths] == [5, 5, [""]]


def test_a_ledger_counts_each_epoch_by_itself(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, None, sample_ledger.EVERY_SAMPLE)
    for epoch, samples in enumerate((5, 3)):
        ledger.enter(epoch, map(record, range(samples)))
    assert [read_ledgers(tmp_path, epoch)[-1].samples for epoch in (0, 1)] == [5, 3]


def test_a_process_of_its_own_is_no_team() -> None:
    assert team_of({}) is None
    assert team_of({"WORLD_SIZE": "1", "RANK": "0"}) is None


def test_torchrun_makes_a_team() -> None:
    team = team_of(LAUNCHED)
    assert team is not None
    assert (team.rank, team.world, team.port, team.local, team.leads) == (1, 2, 29500, True, False)
    environ = {**LAUNCHED, "PATH": "/bin"}
    clear_torchrun_variables(environ)
    assert environ == {"PATH": "/bin"}


def test_ranks_of_another_launcher_are_told_how_to_start() -> None:
    with pytest.raises(UsageError, match="torchrun --nproc-per-node=N -m dataguard scan TARGET --all"):
        team_of({"WORLD_SIZE": "4", "RANK": "0"})


def launch(ranks: int, target: str, *options: str, cwd: Path, environ: Mapping[str, str]) -> subprocess.Popen[str]:
    """Let torchrun start a scan of all samples."""
    command = ["-m", "torch.distributed.run", f"--nproc-per-node={ranks}", "-m", "dataguard", "scan", target, "--all"]
    return subprocess.Popen(
        [sys.executable, *command, "--format", "json", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(HERE), **environ},
    )


HERE = Path(__file__).parents[3]


def launched(
    ranks: int, target: str, *options: str, cwd: Path = HERE, environ: Mapping[str, str] | None = None
) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    """A scan that torchrun starts: the one report that comes of it, and how it ended."""
    process = launch(ranks, target, *options, cwd=cwd, environ=environ or {})
    output, errors = process.communicate(timeout=120)
    return json.loads(output), subprocess.CompletedProcess(process.args, process.returncode, output, errors)


RANKS = (1, 2, 4) if EVERY_FACE else (2,)


@pytest.mark.scan
def test_any_number_of_ranks_finds_the_same(everything: Report) -> None:
    found = [
        (result.loader, result.code, result.status.value, [one.message for one in result.findings])
        for result in everything.results
    ]
    for ranks in RANKS:
        shared, done = launched(ranks, "tests.loaders.whole:several", "--select", ",".join(("DG0", *LATE.values())))
        assert found == [
            (result["loader"], result["code"], result["status"], [one["message"] for one in result["findings"]])
            for result in shared["results"]
        ]
        assert done.stderr.count("exitcode  : 1") == ranks
