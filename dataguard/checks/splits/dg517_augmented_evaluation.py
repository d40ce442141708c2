"""DG517: evaluation on random samples."""

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
    """Evaluation samples are random, so a metric differs each time it is computed.

    Symptom: validation is worse than it should be, and jumps from epoch to epoch; the best checkpoint is a matter of
        luck; two evaluations of one model disagree.
    Cause: `random_split` or `Subset` shares one dataset, and so its transform, between training and evaluation; one
        factory builds both; a collate_fn that mixes samples serves both; crops or negatives are random.
    Fix: give evaluation its own dataset with a deterministic transform (resize, center crop), or seed a generator with
        the index.
    Links: https://docs.pytorch.org/vision/stable/transforms.html
    """
    lab.facts.need_role("val", "test", otherwise="training samples may be random")
    if lab.facts.kind == "stream":
        raise NotApplicable("a stream has no indices to read again")
    readings = lab.dataset.readings
    seeded = _seeded(readings)
    entropic = {} if seeded else _entropic(lab, readings)
    for leaves, why in (
        (seeded, "it changes with the random state"),
        (entropic, "it differs in every read"),
    ):
        if leaves:
            yield _finding(lab, leaves, why)
    random_leaves = () if seeded or entropic else lab.batches.random_leaves
    if random_leaves:
        by = f"{lab.facts.collate} draws it, while its samples stay the same"
        evidence = {"leaves": [f"batch{path}" for path in random_leaves]}
        yield Finding(f"batch{random_leaves[0]} is random in a {lab.facts.role} loader: {by}", evidence)
    return Looked(readings.exercised)


def _seeded(readings: Readings) -> dict[str, list[Index]]:
    """The leaves that depend on the random state and on nothing else that varies, with their indices."""
    found: dict[str, list[Index]] = {}
    states = readings.forward.passes
    same_state = readings.forward.same_state
    for place, index in enumerate(readings.items):
        for path, digest in same_state[0][place].digests.items():
            constant = all(answers[place].digests.get(path) == digest for answers in same_state)
            if constant and any(answers[place].digests.get(path) != digest for answers in states):
                found.setdefault(path, []).append(index)
    return found


def _entropic(lab: Lab, readings: Readings) -> dict[str, list[Index]]:
    """Inputs that vary under the same random state, differently in each process: they depend on system entropy."""
    moved = drifts(readings, lab.epoch.samples)
    inputs = {path: drift for path, drift in moved.items() if is_input(path, readings.forward.passes[0])}
    return {path: [readings.items[drift.item]] for path, drift in inputs.items() if not repeatable(lab, drift)}


def _finding(lab: Lab, leaves: dict[str, list[Index]], why: str) -> Finding:
    path, (index, *others) = next(iter(leaves.items()))
    drawn = lab.dataset.drawn_generators(lab.dataset.readings.items)
    if drawn:
        why = f"it is drawn from {' and '.join(state.path for state in drawn[:2])}"
    return Finding(
        message=f"sample{path} of index {index} is random in a {lab.facts.role} loader: {why}",
        evidence=known(
            {
                "leaves": [f"sample{one}" for one in leaves],
                "samples that vary": f"{1 + len(others)} of {len(lab.dataset.readings.items)}",
                "generators": {state.path: state.kind for state in drawn},
            }
        ),
        at=_place(drawn) or lab.dataset.location,
        repro=lab.repro.reads([index, index]),
    )


def _place(drawn: tuple[GeneratorState, ...]) -> Location | None:
    """Where a generator that is not global is stored."""
    held = next((state for state in drawn if state.at and not state.path.startswith("global ")), None)
    return Location(*held.at, held.path) if held and held.at else None
