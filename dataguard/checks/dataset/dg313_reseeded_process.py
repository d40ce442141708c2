"""DG313: reading a sample seeds a generator that the training process draws from as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.model import Coverage, Finding, Judgement, Location, NotApplicable, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.randomness.reseeded_process import Reseeded


@check("DG313", "reseeded-process", Severity.WARNING, since="2026.4")
def dg313_reseeded_process(lab: Lab) -> Judgement:
    """Reading a sample sets a global generator of the training process to the same state each time.

    Symptom: no error; dropout repeats its masks, and the shuffled order repeats in every epoch, because they are drawn
        after the same state. A validation loader does this to the training that continues after it.
    Cause: `__getitem__`, a transform or `collate_fn` calls `torch.manual_seed`, `numpy.random.seed` or `random.seed`,
        and the loader has no workers. A seed by index makes samples reproducible on purpose; what the process draws
        after the last sample of a batch repeats all the same.
    Fix: draw from a generator of your own: `numpy.random.default_rng(index)`, `torch.Generator().manual_seed(index)`;
        or save the global state before the read and restore it: `with torch.random.fork_rng():`.
    Links: https://docs.pytorch.org/docs/stable/random.html#torch.random.fork_rng
    """
    if lab.facts.num_workers:
        raise NotApplicable("workers read the samples, and their generators end with them")
    trace = lab.randomness.reseeded
    for reseeded in trace.found:
        if reseeded.seeding and reseeded.seeding.epochs and not reseeded.constant:
            continue  # the training loop may count that epoch, and no state comes twice
        yield Finding(message=_message_of(reseeded), evidence=_evidence_of(reseeded), at=_place_of(lab, reseeded))
    return Coverage({"samples": trace.samples, "epochs": trace.epochs})


def _message_of(reseeded: Reseeded) -> str:
    state = "one state" if reseeded.constant else "a state that depends on the sample alone"
    seeding = reseeded.seeding
    call = f": {seeding.kind}({seeding.seed if reseeded.constant else '...'})" if seeding else ""
    return f"reading a sample sets {_name_of(reseeded)} of the training process to {state}{call}"


def _evidence_of(reseeded: Reseeded) -> dict[str, object]:
    name = reseeded.path.removeprefix("global ")
    return without_empty(
        {
            "fix here": f"draw from a generator of your own: {_OWN.get(name, 'a new one')}",
            "the same state after": f"{reseeded.times} of {reseeded.reads} samples, in both of two epochs",
            "what repeats": _REPEATS.get(name),
        }
    )


def _place_of(lab: Lab, reseeded: Reseeded) -> Location | None:
    seeding = reseeded.seeding
    return Location(seeding.file, seeding.line, seeding.function) if seeding else lab.dataset.location


def _name_of(reseeded: Reseeded) -> str:
    return f"the global generator of {reseeded.path.removeprefix('global ')}"


_OWN = {
    "torch": "torch.Generator().manual_seed(...)",
    "numpy.random": "numpy.random.default_rng(...)",
    "random": "random.Random(...)",
}
"""What to draw from in place of each global generator."""
_REPEATS = {"torch": "dropout, initial weights, and the order that shuffle=True draws for the next epoch"}
"""What else a training process draws from a global generator."""
