"""What grows, what is bounded, what is in flight, and datasets that are copied."""

from __future__ import annotations

import ast
import math
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch.utils.data import DataLoader

from dataguard.checks.machine.batches_in_flight import PAGE, flight_of
from dataguard.engine import scan
from dataguard.lab.core.instrument import Fetch, Process
from dataguard.lab.core.loader_facts import facts_of
from dataguard.lab.core.process_usage import Reading
from dataguard.lab.core.records import read_spools
from dataguard.lab.machine.copied_containers import find_copied_containers
from dataguard.lab.machine.growing_containers import GrowingContainers, find_growing_containers
from dataguard.lab.machine.worker_readings import UsagePlan
from dataguard.lab.process.isolation import isolated
from dataguard.lab.spy.usage_readings import UsageReadings, memory_taken
from dataguard.model import Status
from dataguard.settings.settings import Settings
from dataguard.stats.trend import common, trend
from sample_datasets import dg602_growing_worker as growing
from sample_datasets import dg603_copied_dataset as copied
from sample_datasets import dg604_leaking_handles as leaking

MB = 1 << 20


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)  # as in the host: a fork hangs otherwise


def curve(value: Callable[[float], float], readings: int = 13, samples: int = 1200) -> list[tuple[float, float]]:
    return [(x, value(x)) for x in (samples * number / (readings - 1) for number in range(readings))]


@pytest.mark.parametrize(
    ("value", "steady"),
    [
        (lambda x: 1000 * x, True),
        (lambda x: 1000 * x + 30 * MB * (x > 100), True),  # after a warm-up
        (lambda x: (1 << 17) * (1000 * x // (1 << 17)), True),  # in steps, as an allocator takes it
        (lambda x: 50 * MB * (1 - math.exp(-x / 200)), False),
        (lambda x: 1000 * min(x, 500), False),
        (lambda x: 1000 * min(x, 900), False),
        (lambda x: 30 * MB * (x > 500), False),
        (lambda x: 3 * MB * math.sin(x), False),
        (lambda x: 0, False),
        (lambda x: -1000 * x, False),
    ],
)
@pytest.mark.parametrize("readings", [4, 13])
def test_a_trend_is_steady_or_levels_off(value: Callable[[float], float], steady: bool, readings: int) -> None:
    found = trend(curve(value, readings), 1 << 16)
    assert found is not None
    assert found.steady == steady
    if steady and readings > 4:
        assert found.rate == pytest.approx(1000, rel=0.1)


def test_few_readings_tell_no_trend() -> None:
    assert trend(curve(lambda x: x, 3), 0) is None
    assert trend([(0, 1), (0, 2), (0, 3), (0, 4)], 0) is None
    assert common([]) is None
    assert common([trend(curve(lambda x: x), 0), None]) is None


def test_all_workers_have_to_agree() -> None:
    up, flat = trend(curve(lambda x: 1000 * x), MB / 4), trend(curve(lambda x: 0), MB / 4)
    both = common([up, up])
    assert both is not None
    assert both.steady
    mixed = common([up, flat])
    assert mixed is not None
    assert not mixed.steady


def growing_containers(make: Callable[[], DataLoader], folder: Path) -> GrowingContainers:
    facts = facts_of("it", make(), {}, "make")
    return isolated(lambda: find_growing_containers(make, folder, facts, None), folder, timeout=20, allowed=60)


@pytest.mark.scan
@pytest.mark.parametrize(
    ("loader", "path", "kind", "least", "most"),
    [
        (growing.bad_lru_cache, "dataset.<class Memoised>.decode", "lru_cache", None, None),
        (lambda: DataLoader(growing.Cached(), 8), "dataset.cache", "dict", None, None),
        (lambda: DataLoader(growing.Logged(1000), 8), "dataset.history", "list", None, None),
        (lambda: DataLoader(growing.Recently(10**6, 900), 8), "dataset.cache", "OrderedDict", 900, 1800),
        (growing.good_bytes, "dataset.cache", "dict", 15_000, 70_000),
        (growing.good_pool, "dataset.pool", "deque", 3000, 3000),
    ],
)
def test_a_container_that_grows_is_found_and_stuffed(
    loader: Callable[[], DataLoader], path: str, kind: str, least: int | None, most: int | None, tmp_path: Path
) -> None:
    (first, *_) = growing_containers(loader, tmp_path).found
    assert (first.path, first.kind) == (path, kind)
    assert first.rate == pytest.approx(1, abs=0.1)
    assert not first.in_generator
    if least is None or most is None:
        assert first.bound is None
    else:
        assert first.bound is not None
        assert least <= first.bound <= most


class Complaints(growing.Pictures):
    """Keeps what it has to say of every third picture."""

    def __init__(self) -> None:
        super().__init__(1000)
        self.complaints: list[str] = []

    def decode(self, number: int) -> torch.Tensor:
        if number % 3 == 0:
            self.complaints.append(f"picture {number}")
        return super().decode(number)


@pytest.mark.scan
def test_a_container_that_gets_nothing_of_most_samples_is_not_full(tmp_path: Path) -> None:
    (first,) = growing_containers(lambda: DataLoader(Complaints(), 8), tmp_path).found
    assert first.path == "dataset.complaints"
    assert first.rate == pytest.approx(1 / 3, abs=0.1)
    assert first.bound is None


@pytest.mark.scan
def test_nothing_is_found_where_nothing_grows(tmp_path: Path) -> None:
    assert growing_containers(lambda: DataLoader(growing.Pictures(1000), 8), tmp_path).found == ()


@pytest.mark.scan
@pytest.mark.parametrize(("dataset", "open_files"), [(leaking.Kept, 1.0), (leaking.Circular, 0.0)])
def test_files_are_counted_after_a_collection(
    dataset: type[leaking.Recordings], open_files: float, tmp_path: Path
) -> None:
    assert growing_containers(lambda: DataLoader(dataset(), 4), tmp_path).opened == pytest.approx(open_files, abs=0.2)


def readings(folder: Path, asked: UsageReadings, fetches: int, pause_after: int) -> list[Reading]:
    hooks = asked.start(Process(folder, None))
    for number in range(fetches):
        with hooks.around_fetch(Fetch(0, number, {}, [2 * number, 2 * number + 1])):
            pass
        time.sleep(0.2 if number == pause_after else 0)
    return [record for record in read_spools(folder) if isinstance(record, Reading)]


def test_readings_are_made_when_they_are_due_and_wished_ones_seldom(tmp_path: Path) -> None:
    found = readings(tmp_path, UsageReadings(needed=(7, 20), wished=tuple(range(2000))), 1000, pause_after=5)
    assert (found[0].samples, found[0].pages, found[0].spent) == (0, None, 0)
    assert {8, 14, 20} <= {one.samples for one in found}
    pairs = [(one, after) for one, after in pairwise(found) if after.samples not in (8, 20)]
    assert all(after.at - one.at >= 100 * (after.spent - one.spent) for one, after in pairs)


def test_pages_are_counted_where_that_is_asked_for(tmp_path: Path) -> None:
    first, *found = readings(tmp_path, UsageReadings(needed=(4, 10), pages=True), 8, pause_after=8)
    assert first.pages is None
    assert [one.samples for one in found] == [4, 10]
    assert all(one.pages is not None for one in found)


def test_nothing_is_read_without_a_moment(tmp_path: Path) -> None:
    assert readings(tmp_path, UsageReadings(), 5, pause_after=5) == []


@pytest.mark.parametrize("size", [1, 4, 7])
def test_readings_of_a_partial_stream_suffice_for_a_trend(size: int) -> None:
    needed = UsagePlan(1, 1500, 1500, size, reduced=False).readings(1500, stream=True).needed
    for end in range(7 * size, 1500, size):
        allocated = [0] + [-(-moment // size) * size for moment in needed if moment <= end]
        assert trend([(x, x) for x in allocated], 0) is not None, end


def test_memory_is_measured() -> None:
    held = memory_taken()
    grown = bytearray(b"x" * (64 * MB))
    assert memory_taken() - held == pytest.approx(len(grown), rel=0.1)


@pytest.mark.scan
def test_large_containers_are_weighed() -> None:
    records = copied.listed()[:20_000]
    (container,) = find_copied_containers(copied.Records(records))
    assert (container.path, container.kind, container.entries) == ("dataset.records", "list", 20_000)
    assert 250 * 20_000 < container.bytes < 1000 * 20_000
    assert find_copied_containers(copied.Columns()) == ()
    assert find_copied_containers(copied.Records([records[0]] * 20_000))[0].bytes < 100_000


def lab_of(sizes: Sequence[int], trial: int | None = None, samples: Sequence[int] = (), **facts: Any) -> Any:
    """A lab that saw batches of these sizes, and samples of so many bytes."""
    leaves = [
        SimpleNamespace(index=at, leaves=(SimpleNamespace(dtype="uint8", shape=(n,)),)) for at, n in enumerate(samples)
    ]
    known = {
        "num_workers": 2,
        "prefetch": 2,
        "pin_memory": False,
        "cuda": False,
        "mixes_samples": True,
        "batch_size": 2,
    }
    batches = tuple(SimpleNamespace(shared_bytes=size) for size in sizes)
    epoch = SimpleNamespace(batches=batches, sizes=None, whole=False, samples=leaves)
    return cast(
        "Any",
        SimpleNamespace(
            facts=SimpleNamespace(**(known | facts)),
            epoch=epoch,
            resources=SimpleNamespace(batch_bytes=lambda _: trial),
        ),
    )


QUEUES = PAGE * (3 * 3 + 5)


@pytest.mark.parametrize(
    ("lab", "needed"),
    [
        (lab_of([100] * 20), 600),
        (lab_of([1000] + [100] * 20), 1500),  # one is ten times as large: it is there once
        (lab_of([100, 120]), 100 + 120 + 4 * 110),
        (lab_of([100] * 20, pin_memory=True, cuda=True), 400),
        (lab_of([100] * 20, pin_memory=True), 600),
        (lab_of([100] * 20, trial=900, samples=[10, 10, 10, 90]), 900 + 500),
        (lab_of([100] * 20, trial=90, samples=[10, 10, 10, 90]), 600),
        (lab_of([100] * 20, trial=900, samples=[10] * 4), 600),
        (lab_of([100] * 20, trial=900, samples=[10, 10, 10, 90], mixes_samples=False), 600),
        (lab_of([]), 0),
    ],
)
def test_what_is_in_flight(lab: Any, needed: int) -> None:
    assert flight_of(lab).needed - QUEUES == needed


@pytest.mark.scan
def test_a_dataset_of_objects_is_copied_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = ast.parse(Path(copied.__file__).read_text(encoding="utf-8"))
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name[:3] in ("bad", "goo")]
    monkeypatch.setenv("FACES", " ".join(f"dg603_copied_dataset:{name}" for name in names))
    settings = Settings(select=("DG0", "DG6"), contract={"memory_gb": 1})
    report = scan("tests.loaders.faces:named", settings)
    failed = {(result.loader, result.code) for result in report.results if result.status is Status.FAILED}
    assert failed == {(f"DG603.{name}", "DG603") for name in names if name.startswith("bad")}
    assert not report.count(Status.BROKEN)
