"""DG517: evaluation on samples that are another one at every read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.drift import drifts, is_input, repeatable
from dataguard.model import Finding, Judgement, Location, Looked, NotApplicable, Severity, known

if TYPE_CHECKING:
    from dataguard.lab.core.index import Index
    from dataguard.lab.core.records import GeneratorState
    from dataguard.lab.dataset.repeated_reads import Readings
    from dataguard.lab.lab import Lab


@check("DG517", "augmented-evaluation", Severity.WARNING)
def dg517_augmented_evaluation(lab: Lab) -> Judgement:
    """Samples of evaluation are drawn at random, so that a metric is another one each time it is taken.

    Symptom: validation is worse than it should be, and jumps from epoch to epoch; the best checkpoint is a lucky one;
        two runs over one model disagree.
    Cause: `random_split` or `Subset` shares one dataset, and so its transform, between training and evaluation; a
        factory builds both alike; a collate_fn that mixes samples serves both; crops or negatives are drawn.
    Fix: give evaluation a dataset of its own with a transform that draws nothing (resize, centre crop), or draw from a
        generator that is seeded by the index.
    Links: https://docs.pytorch.org/vision/stable/transforms.html
    """
    lab.facts.need_role("val", "test", otherwise="training may draw its samples at random")
    if lab.facts.kind == "stream":
        raise NotApplicable("a stream has no indices that could be read again")
    readings = lab.dataset.readings
    drawn = _drawn(readings)
    entropic = {} if drawn else _entropic(lab, readings)
    for leaves, why in (
        (drawn, "other random numbers make another one of it"),
        (entropic, "no two reads give the same"),
    ):
        if leaves:
            yield _finding(lab, leaves, why)
    blended = () if drawn or entropic else lab.batches.blended
    if blended:
        drawn_by = f"by {lab.facts.collate} in a {lab.facts.role} loader: its samples stay the same"
        evidence = {"leaves": [f"batch{path}" for path in blended]}
        yield Finding(f"batch{blended[0]} is drawn at random {drawn_by}", evidence)
    return Looked(readings.exercised)


def _drawn(readings: Readings) -> dict[str, list[Index]]:
    """The leaves that are the same as long as generators are, and others with other numbers; with their indices."""
    found: dict[str, list[Index]] = {}
    states = readings.forward.passes
    steady = readings.forward.steady
    for place, index in enumerate(readings.items):
        for path, digest in steady[0][place].digests.items():
            still = all(answers[place].digests.get(path) == digest for answers in steady)
            if still and any(answers[place].digests.get(path) != digest for answers in states):
                found.setdefault(path, []).append(index)
    return found


def _entropic(lab: Lab, readings: Readings) -> dict[str, list[Index]]:
    """Inputs that vary while all generators are held still, and in each process otherwise: by entropy of the system."""
    moved = drifts(readings, lab.epoch.samples)
    inputs = {path: drift for path, drift in moved.items() if is_input(path, readings.forward.passes[0])}
    return {path: [readings.items[drift.item]] for path, drift in inputs.items() if not repeatable(lab, drift)}


def _finding(lab: Lab, leaves: dict[str, list[Index]], why: str) -> Finding:
    path, (index, *others) = next(iter(leaves.items()))
    drawing = lab.dataset.drawing(lab.dataset.readings.items)
    by = f" from {' and '.join(state.path for state in drawing[:2])}" if drawing else ""
    return Finding(
        message=f"sample{path} of index {index} is drawn at random{by} in a {lab.facts.role} loader: {why}",
        evidence=known(
            {
                "leaves": [f"sample{one}" for one in leaves],
                "samples that vary": f"{1 + len(others)} of {len(lab.dataset.readings.items)}",
                "generators": {state.path: state.kind for state in drawing},
            }
        ),
        at=_place(drawing) or lab.dataset.place,
        repro=lab.repro.reads([index, index]),
    )


def _place(drawing: tuple[GeneratorState, ...]) -> Location | None:
    """Where a generator is held that is no shared one."""
    held = next((state for state in drawing if state.at and not state.path.startswith("global ")), None)
    return Location(*held.at, held.path) if held and held.at else None
