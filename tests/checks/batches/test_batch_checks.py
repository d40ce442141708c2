"""Checks of batches on plain records, and the lines that they give to run again."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dataguard.checks.batches.dg401_ragged_collate import dg401_ragged_collate
from dataguard.checks.batches.dg406_double_precision_batch import dg406_double_precision_batch
from dataguard.checks.batches.dg408_device_tensor_in_worker import dg408_device_tensor_in_worker
from dataguard.checks.dataset.dg305_shifting_structure import dg305_shifting_structure
from dataguard.core.model import Check, Coverage, Finding, NotApplicable
from dataguard.engine import scan
from dataguard.lab.batches.collate_trials import choose
from dataguard.lab.core.records import BatchRecord, Index, LeafRecord, SampleRecord
from dataguard.lab.reading.epoch_trace import EpochTrace
from dataguard.settings.settings import Settings
from tests.support.lines import NoLines
from tests.support.recordings import recordings, verdict_of

ROOT = Path(__file__).parents[3]


def leaf(path: str, dtype: str | None = "float32", shape: tuple[int, ...] = (8, 20), **more: Any) -> LeafRecord:
    return LeafRecord(path, "Tensor", dtype, shape, b"", **more)


def sample(index: Index, batch: int, *contents: bytes, worker: int | None = 0) -> SampleRecord:
    leaves = tuple(LeafRecord(f"[{n}]", "int", None, None, content) for n, content in enumerate(contents))
    return SampleRecord(worker, 0, batch, 0, index, str(index), 0.0, leaves)


def batch(number: int, *leaves: LeafRecord, worker: int | None = 0) -> BatchRecord:
    return BatchRecord(worker, 0, number, 2, (0, 1), 0.0, 0.0, leaves, 0)


def judged(check: Check, epoch: EpochTrace, **facts: Any) -> tuple[list[Finding], Coverage]:
    unplaced = {"batches": SimpleNamespace(lines=NoLines()), "dataset": SimpleNamespace(location=None)}
    lab: Any = SimpleNamespace(facts=SimpleNamespace(**facts), epoch=epoch, **unplaced)
    judgement = check.judge(lab)
    findings = []
    while True:
        try:
            findings.append(next(judgement))
        except StopIteration as stop:
            return findings, stop.value


def trace(*batches: BatchRecord, samples: tuple[SampleRecord, ...] = ()) -> EpochTrace:
    return EpochTrace(samples, batches, None, True, None)


@pytest.mark.parametrize(
    ("leaves", "found"),
    [
        ([leaf("[0]", "float64")], True),
        ([leaf("[0]"), leaf("[1]", "float64", (8,))], True),
        ([leaf("['x']"), leaf("['target']", "float64", (8,))], True),
        ([leaf("['x']"), leaf("['target']['boxes']", "float64", (5, 4))], True),
        ([leaf("['x']"), leaf("['target']['first']['scores']", "float64", (5,))], True),
        ([leaf("['x']"), leaf("['bbox_targets']", "float64", (8,))], True),
        ([leaf("['x']"), leaf("['depth']", "float64", (8, 20))], True),
        ([leaf("['x']"), leaf("['time']", "float64", (8,))], False),
        ([leaf("['x']", shape=(8, 3, 64, 64)), leaf("['camera']", "float64", (8, 3, 3))], False),
        ([leaf("[0]"), leaf("[1]"), leaf("[2]", "float64", (8,))], False),
        ([leaf("[0]", "float16"), leaf("[1]", "int64", (8,))], False),
        ([leaf("['x']"), leaf("['label']", None, ())], False),
    ],
    ids=lambda value: " ".join(one.path for one in value) if isinstance(value, list) else str(value),
)
def test_which_double_precision_matters(leaves: list[LeafRecord], found: bool) -> None:
    findings, looked = judged(dg406_double_precision_batch, trace(batch(0, *leaves)), double=False, batched=False)
    assert bool(findings) is found
    present = any(one.dtype == "float64" for one in leaves)
    assert bool(looked.note) is (present and not found)


@pytest.mark.parametrize("image", ["float32", "float64"])
def test_class_indices_are_left_to_the_form_of_labels(image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{dg406_double_precision_batch.judge.__module__}.float_indices", lambda _: "[1]")
    epoch = trace(batch(0, leaf("[0]", image), leaf("[1]", "float64", (8,))))
    findings, looked = judged(dg406_double_precision_batch, epoch, double=False)
    assert [one.evidence["float64 leaves"] for one in findings] == ([] if image == "float32" else [["batch[0]"]])
    assert looked.note == (None if findings else "batch[1] holds class indices as floats: see DG503")


def test_double_precision_by_default_is_meant() -> None:
    with pytest.raises(NotApplicable, match="default dtype"):
        judged(dg406_double_precision_batch, trace(batch(0, leaf("[0]", "float64"))), double=True)


def test_a_device_is_named_with_its_worker() -> None:
    epoch = trace(batch(0, leaf("['image']", device="cuda:0"), worker=3))
    (finding,), _ = judged(
        dg408_device_tensor_in_worker, epoch, num_workers=4, start_method="spawn", accelerator="cuda"
    )
    assert finding.message == "batch['image'] is on cuda:0 in worker 3"


def test_without_a_device_there_is_nothing_to_look_for() -> None:
    with pytest.raises(NotApplicable, match="no accelerator"):
        judged(dg408_device_tensor_in_worker, trace(batch(0, leaf("[0]"))), num_workers=2, accelerator=None)
    findings, looked = judged(
        dg408_device_tensor_in_worker, trace(batch(0, leaf("[0]"))), num_workers=2, accelerator="cuda"
    )
    assert (findings, looked.exercised) == ([], {"batches": 1})


@pytest.mark.parametrize("check", [dg401_ragged_collate, dg305_shifting_structure])
@pytest.mark.parametrize(("sizes", "single"), [((4, 4), False), ((4, 2), False), ((4, 1), True), (None, False)])
def test_a_sample_alone_is_tried_if_the_epoch_has_such_a_batch(
    check: Check, sizes: tuple[int, ...] | None, single: bool
) -> None:
    asked = []

    def mixed(_: Any, *, single: bool) -> None:
        asked.append(single)
        raise NotApplicable("no pairs")

    changes = {".epoch.sizes": sizes, ".batches": SimpleNamespace(mixed=mixed, lines=NoLines())}
    verdict_of(check.judge, recordings(check.stem)["bad"].having(changes).lab)
    assert asked == [single]


def test_the_batch_whose_samples_differ_most_is_chosen() -> None:
    alike = (sample(0, 0, b"a"), sample(1, 0, b"a"))
    varied = (sample(2, 1, b"a"), sample(3, 1, b"b"))
    assert choose(trace(batch(0), batch(1), samples=(*alike, *varied))) == (2, 3)


def test_a_sample_that_is_there_twice_is_taken_once() -> None:
    assert choose(trace(batch(0), samples=(sample(4, 0, b"a"), sample(4, 0, b"a"), sample(5, 0, b"b")))) == (4, 5)


def test_indices_that_cannot_be_asked_for_again_are_said() -> None:
    odd = SampleRecord(0, 0, 0, 0, None, "<slice>", 0.0, ())
    with pytest.raises(NotApplicable, match="indices are not"):
        choose(trace(batch(0), samples=(odd,)))


@pytest.mark.scan
def test_a_line_to_run_again_fails_as_the_loader_does() -> None:
    report = scan("sample_datasets.dg401_ragged_collate:unlike_dtype", Settings(select=("DG401",)))
    (finding,) = report.results[0].findings
    assert finding.repro is not None
    program, *arguments = shlex.split(finding.repro)
    assert program == "dataguard"
    outcome = subprocess.run(
        [sys.executable, "-m", program, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert outcome.returncode != 0
    # int64 before float32: an error in a worker only, of which torch 2.4 made a RuntimeError
    assert "TypeError" in outcome.stdout or "RuntimeError" in outcome.stdout
