"""Words and evidence for the first stage that differs between two runs. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dataguard.core.model import Location

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.reproducibility.runs import Cause, Divergence
    from dataguard.lab.reproducibility.seeded_run import StageDifference

ROUNDING = 1e-5
"""Differences below this may come from the order of floating-point operations, for instance in several threads."""


def stage_of(where: Divergence, stage: StageDifference | None) -> str:
    """The first stage that differs, in words."""
    if stage is None or not stage.name:
        whole = {"sample": "a sample as the dataset returns it", "order of indices": "the order of indices"}
        return whole.get(where.stage, where.stage)
    return f"what {stage.path} ({stage.name}) is given" if stage.before else f"{stage.path} ({stage.name})"


def is_rounding(stage: StageDifference | None) -> bool:
    """Whether values differ as little as sums do that are added up in another order."""
    return stage is not None and stage.by is not None and stage.by < ROUNDING


def because_of(cause: Cause | None) -> str:
    """The functions that are to blame, in words."""
    return f", because of {', '.join(cause.used)}" if cause else ""


def evidence_of(where: Divergence, stage: StageDifference | None) -> Iterator[tuple[str, Any]]:
    """Where the difference is, how large it is, and what is the same."""
    yield "first difference", f"{where.where}, num_workers={where.workers}"
    yield "index", where.index
    yield "leaves", [f"{where.stage}{leaf}" for leaf in where.leaves]
    if stage:
        yield "values that differ", f"{stage.changed:,} of {stage.of:,}"
        yield "largest difference", None if stage.by is None else float(f"{stage.by:.3g}")
        yield (
            "may be",
            "rounding: sums in another order, as with another number of threads" if is_rounding(stage) else None,
        )
    if where.epoch:
        yield "epoch 0", "the same in both runs"


def location_of(lab: Lab, where: Divergence, stage: StageDifference | None, cause: Cause | None) -> Location | None:
    """The line that calls such a function, else that of the first array that differs, the step, or the dataset."""
    if cause:
        return Location(*next(iter(cause.used.values())))
    if where.stage == "order of indices" and (maker := lab.reproducibility.seeds.maker):
        return Location(*maker)
    if not where.stage.startswith("sample"):
        return Location(what=lab.facts.collate if stage else lab.facts.sampler)
    if stage and stage.line:
        return Location(*stage.line)
    if stage and stage.at and stage.name:
        return Location(*stage.at, stage.name)
    return lab.dataset.location
