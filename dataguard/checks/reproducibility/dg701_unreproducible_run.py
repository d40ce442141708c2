"""DG701: two runs from the same seeds give different batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dataguard.checks.common.check import check
from dataguard.model import Finding, Judgement, Location, Looked, NotApplicable, Severity, known

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.reproducibility.divergence import Divergence
    from dataguard.lab.reproducibility.observations import Cause
    from dataguard.lab.reproducibility.seeded_run import Runs
    from dataguard.lab.reproducibility.stage_trace import StageDifference


@check("DG701", "unreproducible-run", Severity.ERROR, since="2026.2")
def dg701_unreproducible_run(lab: Lab) -> Judgement:
    """Two runs with the same seeds give different batches.

    Symptom: training again with the same seed gives another result; two models cannot be compared, and a bug cannot be
        reproduced. A warning if nothing in the code asks for reproducible runs; then generators need no seed.
    Cause: a generator without a seed (`numpy.random.default_rng()`, `random.Random()`, `os.urandom`), the clock, or
        `id()`.
    Fix: seed each generator: in a worker from `torch.initial_seed()`, else from the seed of the run.
    Links: https://docs.pytorch.org/docs/stable/notes/randomness.html
    """
    one, two = lab.reproducibility.pair
    where = lab.reproducibility.divergence
    if where and (raced := {**one.used, **two.used}):
        raise NotApplicable(f"results are taken as they are ready ({', '.join(raced)}): see DG702")
    if where:
        cause, claims = lab.reproducibility.cause, tuple(_claims(lab, one.runs))
        if not claims:
            _need_defect(lab, cause)
        stage = lab.reproducibility.stage(where)
        yield Finding(
            message=f"two runs with the same seeds differ first in {_stage_of(where, stage)}{_from(cause)}",
            evidence=known({**dict(_evidence(lab, where, stage)), "expected by": claims}),
            at=_location(lab, where, stage, cause),
            mild=not claims,
        )
    return Looked({"runs": 2, "samples": one.runs.samples + two.runs.samples})


def _need_defect(lab: Lab, cause: Cause | None) -> None:
    """Raise NotApplicable for differences that may be intended where nothing asks for reproducible runs."""
    way = "set [tool.dataguard.contract] deterministic = true to require the same batches"
    if cause and cause.is_random:
        raise NotApplicable(f"no seed is set anywhere, and {', '.join(cause.used)} gets none: {way}")
    if cause is None and not lab.reproducibility.differs_alone:
        raise NotApplicable(f"no seed is set anywhere, and only what several workers share differs: {way}")


def _claims(lab: Lab, runs: Runs) -> Iterator[str]:
    """What shows that runs are meant to be reproducible."""
    if lab.settings.contract.get("deterministic"):
        yield "contract.deterministic"
    if lab.target.takes("seed"):
        yield "the factory's argument seed"
    yield from runs.seeded_by


def _stage_of(where: Divergence, stage: StageDifference | None) -> str:
    if stage is None or not stage.name:
        return {"sample": "a sample as the dataset returns it", "order of indices": "the order of indices"}.get(
            where.stage, where.stage
        )
    return f"what {stage.path} ({stage.name}) is given" if stage.before else f"{stage.path} ({stage.name})"


def _from(cause: Cause | None) -> str:
    return f", because of {', '.join(cause.used)}" if cause else ""


def _evidence(lab: Lab, where: Divergence, stage: StageDifference | None) -> Iterator[tuple[str, Any]]:
    yield "first difference", f"{where.where}, num_workers={where.workers}"
    yield "index", where.index
    yield "leaves", [f"{where.stage}{leaf}" for leaf in where.leaves]
    if stage:
        yield "values that differ", f"{stage.changed:,} of {stage.of:,}"
        yield "largest difference", None if stage.by is None else float(f"{stage.by:.3g}")
    if where.epoch:
        yield "epoch 0", "the same in both runs"
    if where.workers != lab.facts.num_workers:
        yield f"num_workers={lab.facts.num_workers}", "the same in both runs"


def _location(lab: Lab, where: Divergence, stage: StageDifference | None, cause: Cause | None) -> Location | None:
    if cause:
        return Location(*next(iter(cause.used.values())))
    if not where.stage.startswith("sample"):
        return Location(what=lab.facts.collate if stage else lab.facts.sampler)
    if stage and stage.at and stage.name:
        return Location(*stage.at, stage.name)
    return lab.dataset.location
