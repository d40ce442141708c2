"""DG209: a restored loader does not continue as it would have without an interruption."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, Undecided, without_empty
from dataguard.machine.units import counted

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.streams.resume import Batches, Point, Resumes, Run

DISTINCT_SHARE = 0.5
"""The share of batches that differ from all others in a leaf by which batches are recognised."""
KNOWN_SHARE = 0.9
"""The share of samples that were read before, from which on other batches mean a different order."""
OTHER_WORKERS = 2
"""The number of workers to try where the loader has none."""


@check("DG209", "broken-resume", Severity.ERROR)
def dg209_broken_resume(lab: Lab) -> Judgement:
    """A loader restored from its `state_dict` yields other batches than without an interruption.

    Symptom: after each restart some samples are seen again and others never, or the epoch restarts.
    Cause: the state lacks something that determines the remaining batches: the position in the epoch, the order of a
        shuffling sampler, the epoch number, or what the workers have prefetched; or it cannot be saved.
    Fix: save the number of batches already yielded, and the RNG state from which this epoch's order was drawn;
        torchdata's StatefulDataLoader does both for samplers and datasets that have a `state_dict`.
    Links: https://docs.pytorch.org/data/main/stateful_dataloader_tutorial.html
    """
    facts = lab.facts
    if facts.holder:
        raise NotApplicable(f"training iterates a {facts.holder} instead, which keeps its own state")
    resumes = lab.streams.resumes(facts.num_workers)
    found = faults(resumes)
    if found:
        point, fault = next(iter(found.items()))
        outcomes = {str(where): found.get(str(where), "continues correctly") for where in resumes.restored}
        yield Finding(
            message=f"restored {point}, the loader {fault}",
            evidence=without_empty(
                {
                    "after restoring": outcomes,
                    "batches per epoch": len(resumes.reference.epochs[0]),
                    "workers": facts.num_workers,
                }
            ),
            ambiguous={*found} <= {str(where) for where in resumes.restored if where.again},
        )
    looked = {"restarts": len(resumes.restored), "batches": sum(map(len, resumes.reference.epochs))}
    return Coverage(looked, None if found else _latent(lab))


def faults(resumes: Resumes) -> dict[str, str]:
    """What a restored loader does wrong, by where the run was interrupted.

    Raises Undecided when two uninterrupted runs differ, or when random and wrong batches cannot be distinguished.
    """
    reference, asked = resumes.reference, resumes.asked
    if asked.refused:
        return {"in another process": f"fails: its state cannot be pickled ({asked.refused})"}
    stable = [path for path in _paths(reference) if _leaf(reference, path) == _leaf(asked, path)]
    if not stable:
        raise Undecided("two uninterrupted runs yield different batches")
    found: dict[str, str] = {}
    doubts: list[Undecided] = []
    for where, runs in (("", resumes.restored), (" through JSON", resumes.by_json)):
        for point, run in runs.items():
            try:
                fault = _fault(resumes, point, run, stable)
            except Undecided as doubt:
                doubts.append(doubt)
                continue
            if fault and (not where or str(point) not in found):
                found[f"{point}{where}"] = fault
    if doubts and not found:
        raise doubts[0]
    return found


def _paths(run: Run) -> list[str]:
    """The leaves that batches have."""
    return list(dict.fromkeys(path for epoch in run.epochs for batch in epoch for path, _ in batch))


def _leaf(run: Run, path: str) -> list[Batches]:
    """One leaf of every batch, epoch by epoch."""
    return [_only(epoch, path) for epoch in run.epochs]


def _only(batches: Batches, path: str) -> Batches:
    return tuple(tuple(part for part in batch if part[0] == path) for batch in batches)


def _fault(resumes: Resumes, point: Point, run: Run, stable: Sequence[str]) -> str | None:
    """What is wrong with the batches that are yielded after restoring at a point."""
    if run.refused:
        return None if point.again else f"fails: {run.refused}"  # the user sees the error of a later restart
    yielded, expected = resumes.reference.compared(point, run)
    if point.end and (not yielded or len(yielded) == len(expected)):
        return None  # either the end once more, or a new epoch, in whatever order
    wrong = [path for path in stable if _only(yielded, path) != _only(expected, path)]
    right = [path for path in stable if path not in wrong]
    if not wrong or any(_identifies(resumes.reference, path) for path in right):
        return None
    whole = expected if point.end else resumes.reference.epochs[point.epoch]
    fault = _misplaced(whole, len(whole) - len(expected), yielded, stable)
    known = len(run.samples & resumes.reference.samples) > KNOWN_SHARE * len(run.samples)
    other = resumes.reseeded
    drawn = other is None or all(_leaf(resumes.reference, path) != _leaf(other, path) for path in wrong)
    if fault is None and not known and drawn:
        raise Undecided("the restored loader draws random samples, so its batches cannot be compared")
    return fault or "yields other batches than without the interruption"


def _identifies(run: Run, path: str) -> bool:
    """Whether most batches of an epoch differ in a leaf."""
    leaf = _only(run.epochs[0], path)
    return len(set(leaf)) > DISTINCT_SHARE * len(leaf) and len(set(leaf)) > 1


def _misplaced(epoch: Batches, after: int, yielded: Batches, stable: Sequence[str]) -> str | None:
    """Where in the epoch the restored loader continues, if it does so at one of its batches, but not at the right one.

    At the right one it may still end too early or too late.
    """
    if not yielded:
        return f"yields no batch instead of {len(epoch) - after}"
    first, *others = (tuple(part for part in batch if part[0] in stable) for batch in (yielded[0], *epoch))
    if others.count(first) != 1:
        return None
    ahead = others.index(first) - after
    if ahead == 0:
        rest = len(epoch) - after
        return f"yields {counted(len(yielded), 'batches')} instead of {rest}" if len(yielded) != rest else None
    return f"repeats {counted(-ahead, 'batches')}" if ahead < 0 else f"skips {counted(ahead, 'batches')}"


def _latent(lab: Lab) -> str | None:
    """What would break with workers, or without them."""
    other = 0 if lab.facts.num_workers else OTHER_WORKERS
    try:
        found = faults(lab.streams.resumes(other))
    except (NotApplicable, Undecided):
        return None
    return next((f"with num_workers={other}, restored {point}, it {fault}" for point, fault in found.items()), None)
