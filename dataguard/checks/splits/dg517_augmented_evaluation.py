"""DG517: evaluation on random samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.drift import Drift, drifts, is_input, repeatable, seeded_leaves
from dataguard.checks.splits.random_evaluation import random_shared, unmasked
from dataguard.core.incident import observed_or_none
from dataguard.core.model import Coverage, Finding, Judgement, Location, NotApplicable, Severity, without_empty
from dataguard.settings.parsers import EVALUATION

if TYPE_CHECKING:
    from dataguard.lab.core.records import GeneratorState, Index
    from dataguard.lab.dataset.repeated_reads import Readings
    from dataguard.lab.lab import Lab


@check("DG517", "augmented-evaluation", Severity.WARNING)
def dg517_augmented_evaluation(lab: Lab) -> Judgement:
    """Evaluation samples are random, so a metric differs each time it is computed.

    Symptom: validation is worse than it should be, and jumps from epoch to epoch; the best checkpoint is a matter of
        luck; two evaluations of one model disagree.
    Cause: one factory builds training and evaluation alike; a collate_fn that mixes samples serves both; crops or
        negatives are random. Where both share a dataset object, DG518 reports it.
    Fix: give evaluation its own dataset with a deterministic transform (resize, center crop), or seed a generator with
        the index.
    Links: https://docs.pytorch.org/vision/stable/transforms.html
    """
    lab.facts.need_role(*EVALUATION, otherwise="training samples may be random")
    if lab.facts.kind == "stream":
        raise NotApplicable("a stream has no indices to read again")
    readings = lab.dataset.readings
    drawn = seeded_leaves(readings)
    seeded = unmasked(lab, drawn)
    shared = random_shared(lab, seeded)
    if shared:
        raise NotApplicable(f"{shared.transform.path} is shared with {shared.other}: see DG518")
    entropic = {} if drawn else _entropic(lab, readings)
    if seeded:
        drawn_from = observed_or_none(lambda: lab.dataset.drawn_generators(readings.items)) or ()
        names = " and ".join(state.path for state in drawn_from[:2])
        why = f"it is drawn from {names}" if names else "it changes with the random state"
        yield _finding(lab, seeded, why, drawn_from)
    if entropic:
        apart = all(len(set(drift.series)) == 1 for drift in entropic.values())
        why = "all reads of one process agree, those of two differ" if apart else "it differs in every read"
        yield _finding(lab, {path: [readings.items[drift.item]] for path, drift in entropic.items()}, why, apart=apart)
    collated = None if drawn or entropic else lab.batches.random_leaves
    if collated and collated.others:
        by = f"{lab.facts.collate} draws it, while its samples stay the same"
        evidence = {"leaves": [f"batch{path}" for path in collated.others]}
        yield Finding(
            f"batch{collated.others[0]} is random in a {lab.facts.role} loader: {by}",
            evidence,
            lab.places.setting("collate_fn"),
        )
    masks = len(seeded) < len(drawn) or (collated is not None and collated.masked)
    return Coverage(readings.exercised, _MASKS if masks else None)


_MASKS = "tokens are masked at random, as usual: the loss of one model varies from evaluation to evaluation"


def _entropic(lab: Lab, readings: Readings) -> dict[str, Drift]:
    """Inputs that vary under the same random state, differently in each process: they depend on system entropy."""
    moved = drifts(readings, lab.epoch.samples)
    inputs = {path: drift for path, drift in moved.items() if is_input(path, readings.forward.passes[0])}
    return {path: drift for path, drift in inputs.items() if not repeatable(lab, drift)}


def _finding(
    lab: Lab, leaves: dict[str, list[Index]], why: str, drawn: tuple[GeneratorState, ...] = (), *, apart: bool = False
) -> Finding:
    path, (index, *others) = next(iter(leaves.items()))
    held = next((state for state in drawn if state.at and not state.path.startswith("global ")), None)
    return Finding(
        message=f"sample{path} of index {index} is random in a {lab.facts.role} loader: {why}",
        evidence=without_empty(
            {
                "fix here": f"give {lab.facts.name} a transform without random steps",
                "leaves": [f"sample{one}" for one in leaves],
                "samples that vary": f"{1 + len(others)} of {len(lab.dataset.readings.items)}" if others else None,
                "generators": {state.path: state.kind for state in drawn},
            }
        ),
        at=lab.places.random(index, path)
        or (Location(*held.at, held.path) if held and held.at else lab.dataset.location),
        repro=lab.repro.apart(index) if apart else lab.repro.samples(index, index),
        sample=index,
    )
