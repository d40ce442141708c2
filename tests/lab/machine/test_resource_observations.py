"""Containers that grow, files that stay open, and datasets that are copied."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from dataguard.core.model import Status
from dataguard.engine import scan
from dataguard.lab.core.loader_facts import facts_of
from dataguard.lab.machine.growing_containers import GrowingContainers, find_copied_containers, find_growing_containers
from dataguard.lab.process.isolation import isolated
from dataguard.settings.settings import Settings
from sample_datasets import dg602_growing_worker as growing
from sample_datasets import dg603_copied_dataset as copied
from sample_datasets import dg604_leaking_handles as leaking
from tests.support.faces import runs


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)  # as in the host: a fork hangs otherwise


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
def test_large_containers_are_weighed() -> None:
    records = copied.listed()[:20_000]
    (container,) = find_copied_containers(copied.Records(records))
    assert (container.path, container.kind, container.entries) == ("dataset.records", "list", 20_000)
    assert 250 * 20_000 < container.bytes < 1000 * 20_000
    assert find_copied_containers(copied.Columns()) == ()
    assert find_copied_containers(copied.Records([records[0]] * 20_000))[0].bytes < 100_000


@pytest.mark.scan
def test_a_dataset_of_objects_is_copied_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = ast.parse(Path(copied.__file__).read_text(encoding="utf-8"))
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name[:3] in ("bad", "goo")]
    few = ("bad", "bad_dict", "good")
    names = [name for name in names if name in few or runs(f"dg603_copied_dataset:{name}")]
    monkeypatch.setenv("FACES", " ".join(f"dg603_copied_dataset:{name}" for name in names))
    settings = Settings(select=("DG0", "DG6"), contract={"memory_gb": 1})
    report = scan("tests.loaders.faces:named", settings)
    failed = {(result.loader, result.code) for result in report.results if result.status is Status.FAILED}
    assert failed == {(f"DG603.{name}", "DG603") for name in names if name.startswith("bad")}
    assert not report.count(Status.BROKEN)


@pytest.mark.scan
@pytest.mark.parametrize(("dataset", "open_files"), [(leaking.Kept, 1.0), (leaking.Circular, 0.0)])
def test_files_are_counted_after_a_collection(
    dataset: type[leaking.Recordings], open_files: float, tmp_path: Path
) -> None:
    assert growing_containers(lambda: DataLoader(dataset(), 4), tmp_path).opened == pytest.approx(open_files, abs=0.2)
