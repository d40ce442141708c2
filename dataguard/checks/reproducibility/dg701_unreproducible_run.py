"""DG701: two runs from the same seeds give different batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.reproducibility.stages import because_of, evidence_of, is_rounding, location_of, stage_of
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.reproducibility.runs import Cause
    from dataguard.lab.reproducibility.seeded_run import Runs


@check("DG701", "unreproducible-run", Severity.ERROR, since="2026.2")
def dg701_unreproducible_run(lab: Lab) -> Judgement:
    """Two runs with the same seeds give different batches.

    Symptom: training again with the same seed gives another result; two models cannot be compared, and a bug cannot be
        reproduced. A warning if nothing in the code asks for reproducible runs; then generators need no seed.
    Cause: a generator without a seed (`numpy.random.default_rng()`, `random.Random()`, `os.urandom`), the clock, or
        `id()`.
    Fix: seed each generator: in a worker from `torch.initial_seed()`, else from the seed of the run;
        `dataguard.training` has functions for the generators that a process shares.
    Links: https://docs.pytorch.org/docs/stable/notes/randomness.html
    """
    first, second = lab.reproducibility.pair
    where = lab.reproducibility.divergence
    if where and (raced := {**first.used, **second.used}):
        raise NotApplicable(f"results are taken as they are ready ({', '.join(raced)}): see DG702")
    if where:
        cause, claims = lab.reproducibility.cause, tuple(_claims(lab, first.runs))
        if not claims:
            _need_defect(lab, cause)
        stage = lab.reproducibility.stage(where)
        yield Finding(
            message=f"two runs with the same seeds differ first in {stage_of(where, stage)}{because_of(cause)}",
            evidence=without_empty({**dict(evidence_of(where, stage)), "expected by": claims}),
            at=location_of(lab, where, stage, cause),
            ambiguous=not claims or is_rounding(stage),
        )
    counts = {"runs": 2, "samples": first.runs.samples + second.runs.samples}
    return Coverage(counts, None if where else _without_workers(lab))


def _without_workers(lab: Lab) -> str | None:
    """What else a run without workers would read, if it is not the same."""
    if lab.reproducibility.differs_alone:
        return "the same with this number of workers; without workers, two runs differ"
    if lab.reproducibility.depends_on_workers:
        return "the same with this number of workers; without workers, other batches are read"
    return None


def _need_defect(lab: Lab, cause: Cause | None) -> None:
    """Raise NotApplicable for differences that may be intended where nothing asks for reproducible runs."""
    way = "set [tool.dataguard.contract] deterministic = true to require the same batches"
    if cause and cause.is_random:
        raise NotApplicable(f"no seed is set anywhere, and {', '.join(cause.used)} gets none: {way}")
    if lab.reproducibility.is_drawn:
        raise NotApplicable(f"no seed is set anywhere, and generators get other seeds in each run: {way}")
    if cause is None and not lab.reproducibility.differs_alone:
        raise NotApplicable(f"no seed is set anywhere, and only what several workers share differs: {way}")


def _claims(lab: Lab, runs: Runs) -> Iterator[str]:
    """What shows that runs are meant to be reproducible."""
    if lab.settings.contract.get("deterministic"):
        yield "contract.deterministic"
    if lab.target.takes("seed"):
        yield "the factory's argument seed"
    yield from runs.seeded_by
