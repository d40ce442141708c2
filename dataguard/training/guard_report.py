"""What guarded loaders showed during training, as a report like that of a scan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dataguard.machine.environment import environment
from dataguard.machine.units import counted, span
from dataguard.model import Check, Result, Status
from dataguard.report import Report
from dataguard.training.randomness.changed_samples import EPOCHS
from dataguard.training.violations import watched
from dataguard.training.watch import Watch

NEVER = "never iterated: guard what the loop iterates, after `accelerator.prepare` and the like"


def report_of(watches: Sequence[Watch]) -> Report:
    """The report on some guarded loaders."""
    settings = {watch.name: str(watch.options) for watch in watches}
    return Report(
        targets=("guard",),
        results=tuple(_result(watch, check) for watch in watches for check in watched().values()),
        environment=environment(),
        settings=settings,
        seconds=sum(watch.spent for watch in watches),
        notes=tuple(_note(watch) for watch in watches),
    )


def _note(watch: Watch) -> str:
    """One line about a loader: how much was read, and who waited for whom."""
    if not watch.batches:
        return f"{watch.name}: {NEVER}"
    read = f"{watch.name}: {counted(watch.batches, 'batches')}, {counted(watch.epochs, 'whole epochs')}"
    read = "; ".join(filter(None, (read, watch.loss_mask.shares)))
    whole = watch.waited + watch.worked
    if not whole:  # a single batch
        return read
    waited, spent = watch.waited / whole, watch.spent / whole
    return f"{read}; the loop waited {waited:.0%} of {span(whole)}, the guard took {spent:.1%}"


def _result(watch: Watch, check: Check) -> Result:
    """The outcome of one check: failed if there was a violation."""
    findings = tuple(watch.alarm.findings.get(check.code, ()))
    status, reason = Status.FAILED, None
    exercised: Mapping[str, int] = {"batches": watch.batches}
    if watch.broken is not None:
        status, reason = Status.BROKEN, watch.broken
    elif findings and watch.alarm.counts[check.code] > len(findings):
        reason = f"the first {len(findings)} of {watch.alarm.counts[check.code]:,} violations"
    elif not findings:
        status, reason, exercised = _without_findings(watch, check.code)
    return Result(check.code, check.name, check.severity, watch.name, status, findings, reason, exercised)


def _without_findings(watch: Watch, code: str) -> tuple[Status, str | None, Mapping[str, int]]:
    for applies, reason in _conditions(watch, code):
        if not applies:
            return Status.SKIPPED, reason, {}
    exercised, enough = _exercised(watch)[code]
    fewest = f"fewer than {'four' if code == 'DG307' else 'two'} whole epochs"
    return (Status.PASSED, None, exercised) if enough else (Status.INCONCLUSIVE, fewest, {})


def _conditions(watch: Watch, code: str) -> Iterator[tuple[bool, str]]:
    """What must hold for a check to apply, each with the reason if it does not."""
    yield watch.batches > 0, NEVER
    yield watch.alarm.listens(code), "ignored"
    if code in ("DG206", "DG403"):
        yield watch.is_training, "no training with a sampler that shuffles: pass role='train' if it is one"
    if code in ("DG101", "DG102"):
        yield watch.replays.follows, "no training with workers and a map-style dataset"
    if code == "DG203":
        yield watch.ranks is not None, "ranks=True was not passed"
        yield bool(watch.ranks and watch.ranks.compared), "there are no other ranks"
    if code == "DG307":
        yield watch.changed is not None and watch.changed.follows, "no samples of floats, or the dataset has set_epoch"
    if code == "DG423":
        yield watch.loss_mask.batches > 0, "no batch has tokens and their labels"
    if code == "DG502":
        yield watch.labels.count is not None, "the number of classes is unknown: pass num_classes"
    if code == "DG801":
        yield watch.options.max_wait is not None, "max_wait was not passed"


def _exercised(watch: Watch) -> dict[str, tuple[Mapping[str, int], bool]]:
    """What a pass of each check is based on, and whether that is enough."""
    batches, twice = {"batches": watch.batches}, watch.trained > 1
    ranks = {"epochs": watch.ranks.compared if watch.ranks else 0}
    return {
        "DG101": ({"epochs": watch.trained}, twice),
        "DG102": ({"epochs": watch.trained}, twice),
        "DG203": (ranks, True),
        "DG206": ({"epochs": watch.trained}, twice),
        "DG305": (batches, True),
        "DG307": ({"epochs": watch.trained}, watch.trained >= EPOCHS),
        "DG403": (batches, True),
        "DG423": ({"batches": watch.loss_mask.batches}, True),
        "DG501": ({"batches": watch.checked}, True),
        "DG502": ({"batches": watch.checked}, True),
        "DG801": ({"epochs": watch.epochs}, True),
    }
