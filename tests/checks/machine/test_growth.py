"""DG601, DG602 and DG604: the room for batches, growth that few samples cannot show, and files that are closed late."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dataguard.checks.machine import dg602_growing_worker, dg604_leaking_handles
from dataguard.checks.machine.dg601_shm_headroom import dg601_shm_headroom, flight_of
from dataguard.checks.machine.dg602_growing_worker import FILE_BYTES
from dataguard.checks.machine.dg603_copied_dataset import _is_inside
from dataguard.checks.machine.growth import Growth, unseen_growth
from dataguard.core.model import Undecided
from dataguard.lab.machine.growing_containers import GrowingContainers
from dataguard.lab.subject import Repro
from tests.support.recordings import recordings, verdict_of

IN_FLIGHT = recordings("dg601_shm_headroom")["good"]
NEEDED = flight_of(IN_FLIGHT.lab).needed


@pytest.mark.parametrize(
    ("shared", "memory", "words"),
    [
        (NEEDED, None, None),
        (NEEDED, NEEDED, None),
        (NEEDED - 1, None, "/dev/shm has"),
        (NEEDED - 1, NEEDED, "/dev/shm has"),
        (NEEDED - 1, NEEDED - 1, "/dev/shm has"),
        (NEEDED, NEEDED - 1, "the memory limit leaves"),
    ],
)
def test_the_smaller_limit_is_named(shared: int, memory: int | None, words: str | None) -> None:
    lab = IN_FLIGHT.but({".machine": SimpleNamespace(shm_free=shared, memory_free=memory), ".repro": REPRO}).lab
    messages = [finding.message for finding in verdict_of(dg601_shm_headroom.judge, lab).findings]
    assert len(messages) == (words is not None)
    assert all(f"in total, but {words} " in one for one in messages)


REPRO = Repro("pkg:make", "make")


@pytest.mark.parametrize(("length", "seen"), [(1000, False), (10**9, True), (None, False)])
def test_growth_that_few_samples_cannot_show(length: int | None, seen: bool) -> None:
    """Two workers whose memory levels off, the second of which grew more."""
    workers = [[(x, rate * min(x, 500)) for x in range(0, 1300, 100)] for rate in (1, 1000)]
    lab: Any = SimpleNamespace(
        resources=SimpleNamespace(usage=SimpleNamespace(points=lambda _: workers)),
        settings=SimpleNamespace(memory=10**10),
        facts=SimpleNamespace(length=length),
    )
    note = unseen_growth(lab)
    assert note == ("growth below 66.67 B per sample would not have been seen" if seen else None)


def test_a_stream_may_still_fill_its_buffer() -> None:
    growth = Growth(rate=2.0, leaks=False, usage=USAGE, containers=None)
    lab: Any = SimpleNamespace(facts=SimpleNamespace(kind="stream"))
    assert not growth.is_too_much(lab, 9, 10)
    with pytest.raises(Undecided, match="a shuffle buffer of the stream may still be filling"):
        growth.is_too_much(lab, 11, 10)


@pytest.mark.parametrize("rate", [1.5 * FILE_BYTES, 2 * FILE_BYTES])
def test_memory_that_open_files_take(rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files stay open for each sample."""
    memory, files = (Growth(one, leaks=False, usage=USAGE, containers=None) for one in (rate, 2.0))
    monkeypatch.setattr(dg602_growing_worker, "growth_of", lambda *_, **__: memory)
    monkeypatch.setattr(dg602_growing_worker, "open_files", lambda _: files)
    lab: Any = None
    note = verdict_of(dg602_growing_worker.dg602_growing_worker.judge, lab).outcome.note
    assert note == "the growth comes from files left open: see DG604"


def test_a_container_inside_another_is_counted_with_it() -> None:
    assert _is_inside("dataset.a.b", ["dataset.a.b", "dataset.a", "dataset.c"])
    assert not _is_inside("dataset.c", ["dataset.a.b", "dataset.a", "dataset.c"])


USAGE: Any = SimpleNamespace(exercised={"samples": 8}, readings={0: [SimpleNamespace(descriptors=4)]})


@pytest.mark.parametrize(
    ("opened", "limit", "note"),
    [
        (0.9, 1024, "files stay open until garbage collection"),
        (1.0, 1024, "files stay open: 104 of 1,024 allowed per worker at the end"),
        (1.0, None, "files stay open: 104 per worker at the end"),
    ],
)
def test_files_that_stay_open(opened: float, limit: int | None, note: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two for each sample, and how many of them garbage collection leaves open."""
    growth = Growth(rate=2.0, leaks=False, usage=USAGE, containers=GrowingContainers((), opened))
    monkeypatch.setattr(dg604_leaking_handles, "open_files", lambda _: growth)
    facts = SimpleNamespace(kind="map", num_workers=2, length=100, persistent=False, shuffled=True)
    lab: Any = SimpleNamespace(machine=SimpleNamespace(open_files=limit), facts=facts)
    assert verdict_of(dg604_leaking_handles.dg604_leaking_handles.judge, lab).outcome.note == note


@pytest.mark.parametrize(("rate", "found"), [(7_000, False), (20_000, True)])
def test_a_library_that_warms_up_is_no_leak(rate: int, found: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """`torchaudio.load` takes 7 kB a call of the first 8,000, which no object of the loader keeps."""
    lab = recordings("dg602_growing_worker")["bad_history"].lab
    growth = Growth(rate, True, lab.resources.longer_usage, None)
    monkeypatch.setattr(dg602_growing_worker, "growth_of", lambda *_, **__: growth)
    verdict = verdict_of(dg602_growing_worker.dg602_growing_worker.judge, lab)
    assert bool(verdict.findings) is found
