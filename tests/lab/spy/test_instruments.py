"""Instruments of the spy: whatever a `Plan` names works in every process that reads samples, and travels there."""

from __future__ import annotations

import contextlib
import pickle
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader, Dataset, _DatasetKind
from torch.utils.data._utils.fetch import _MapDatasetFetcher

from dataguard.core.incident import LoaderRaised
from dataguard.lab.core.index_schedules import Spread
from dataguard.lab.core.instrument import Fetch, HookLists, Hooks, Instrument, Process
from dataguard.lab.core.records import SampleRecord
from dataguard.lab.process.incidents import read_spools
from dataguard.lab.rng.frozen_rng import (
    AdvancedRng,
    FrozenRngs,
    SeededFetches,
    SeededLibraries,
    SeededSamples,
    UnfrozenRng,
)
from dataguard.lab.rng.rng_discovery import RngCensus
from dataguard.lab.rng.seed_watch import FirstSeeds, SeedLog
from dataguard.lab.spy.drive import drive
from dataguard.lab.spy.recording import Records, ValueSummaries
from dataguard.lab.spy.sample_ledger import EVERY_SAMPLE, ContentHashes, GlobalWorkerIds
from dataguard.lab.spy.skip_unreadable import SkipUnreadable
from dataguard.lab.spy.usage_readings import LibraryThreads, UsageReadings
from dataguard.lab.spy.worker_spy import Plan, Watcher, install, watch_fetcher


class Numbers(Dataset[int]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        return index


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of the samples of a fetch: a record that no module of dataguard knows."""

    worker: int | None
    epoch: int
    fetch: int
    sum: int


@dataclass(frozen=True, slots=True)
class Sums(Instrument):
    def start(self, process: Process) -> Hooks:
        return _Sums(process)


class _Sums(Hooks):
    def __init__(self, process: Process) -> None:
        self.process = process

    def at_samples(self, fetch: Fetch, samples: Sequence[Any]) -> None:
        self.process.spool.write(Sum(self.process.worker, fetch.epoch, fetch.number, sum(samples)))


@pytest.mark.scan
def test_a_new_instrument_observes_every_worker_and_epoch(tmp_path: Path) -> None:
    loader = DataLoader(Numbers(), 2, num_workers=2, collate_fn=list, multiprocessing_context="fork")
    drive(loader, Plan(tmp_path, (Sums(),)), batches=(None, None))
    found = {record for record in read_spools(tmp_path) if isinstance(record, Sum)}
    assert found == {Sum(number % 2, epoch, number // 2, 4 * number + 1) for epoch in (0, 1) for number in range(4)}


@pytest.mark.scan
@pytest.mark.parametrize("workers", [0, 2])
def test_an_exception_of_dataguard_itself_is_no_failure_of_the_loader(tmp_path: Path, workers: int) -> None:
    broken: Any = "not a number"
    loader = DataLoader(Numbers(), 2, num_workers=workers)
    with pytest.raises(TypeError, match="str"):
        drive(loader, Plan(tmp_path, (Records(keep=broken),)))


@pytest.mark.parametrize("refused", [{"sampler": 5}, {"batch_sampler": [0, 1]}, {"sampler": map(int, "x")}])
def test_what_a_sampler_refuses_is_a_failure_of_the_loader(tmp_path: Path, refused: dict[str, Any]) -> None:
    (name,) = refused
    asked: dict[str, Any] = {name: Spread(refused[name], 8, None, 1, batched=name == "batch_sampler")}
    loader = DataLoader(Numbers(), **asked)
    with pytest.raises(LoaderRaised):
        drive(loader, Plan(tmp_path, (Records(),)))


@dataclass(frozen=True, slots=True)
class Named(Instrument):
    name: str
    log: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def around_fetch(self, fetch: Fetch) -> Iterator[None]:
        self.log.append(f"{self.name} begins")
        yield
        self.log.append(f"{self.name} ends")


def fetched(plan: Plan, batches: Sequence[list[int]]) -> list[list[int]]:
    """Fetch batches in this process; returns what collate_fn was given."""
    collated: list[list[int]] = []
    fetcher = _MapDatasetFetcher(Numbers(), True, collated.append, False)
    watch_fetcher(Watcher(plan, None), fetcher, iterable=False)
    for batch in batches:
        fetcher.fetch(batch)
    return collated


def test_the_first_instrument_is_the_outermost(tmp_path: Path) -> None:
    log: list[str] = []
    fetched(Plan(tmp_path, (Named("one", log), Named("two", log))), [[0]])
    assert log == ["one begins", "two begins", "two ends", "one ends"]


def test_enough_samples_are_enough(tmp_path: Path) -> None:
    assert fetched(Plan(tmp_path, (Sums(),), most=3), [[0, 1], [2, 3], [4, 5]]) == [[0, 1], [2, 3]]
    assert [record.sum for record in read_spools(tmp_path) if isinstance(record, Sum)] == [1, 5]


def test_a_later_watcher_replaces_an_earlier_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_DatasetKind, "create_fetcher", _DatasetKind.create_fetcher)
    dataset = Numbers()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        install(Watcher(Plan(tmp_path / name, (Sums(),)), None), dataset)
        assert list(DataLoader(dataset, 4, collate_fn=list)) == [None, None]
    assert [len(list(read_spools(tmp_path / name))) for name in ("one", "two")] == [2, 2]


def test_without_an_instrument_that_looks_at_samples_all_batches_are_collated(tmp_path: Path) -> None:
    assert fetched(Plan(tmp_path, (UsageReadings(),), most=0), [[0, 1], [2, 3]]) == [[0, 1], [2, 3]]


INSTRUMENTS = (
    AdvancedRng("dataset.rng", (1, 0)),
    ContentHashes(),
    FirstSeeds(),
    FrozenRngs(((1, 2),), UnfrozenRng("dataset.rng", (((0, 7),),))),
    GlobalWorkerIds(1, 2),
    LibraryThreads(1),
    Records(keep=64, ledger=EVERY_SAMPLE),
    RngCensus((0, 1)),
    SeededFetches((1, None)),
    SeededLibraries(("cv2",)),
    SeededSamples(1),
    SeedLog((0, 3), always=True),
    SkipUnreadable(),
    UsageReadings((4,), (1, 2), pages=True),
    ValueSummaries(64),
)


@pytest.mark.parametrize("instrument", INSTRUMENTS, ids=lambda one: type(one).__name__)
def test_an_instrument_travels_to_spawned_workers_and_defines_a_hook(instrument: Instrument, tmp_path: Path) -> None:
    assert pickle.loads(pickle.dumps(instrument)) == instrument
    assert any(vars(HookLists([instrument.start(Process(tmp_path, 0))])).values())


class SlowAtOnce(Numbers):
    def __getitems__(self, indices: Sequence[int]) -> list[int]:
        time.sleep(0.04)
        return list(indices)


@pytest.mark.scan
def test_samples_that_are_read_at_once_share_the_time(tmp_path: Path) -> None:
    drive(DataLoader(SlowAtOnce(), batch_size=8), Plan(tmp_path, (Records(),)), batches=(1,))
    seconds = [record.seconds for record in read_spools(tmp_path) if isinstance(record, SampleRecord)]
    assert len(seconds) == 8
    assert 0.04 <= sum(seconds) < 0.2
