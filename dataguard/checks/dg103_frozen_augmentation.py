"""DG103: random numbers that are the same for every sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.model import Finding, Judgement, Location, Looked, NotApplicable, Severity, Undecided, check

if TYPE_CHECKING:
    from dataguard.lab import Lab


@check("DG103", "frozen-augmentation", Severity.WARNING)
def dg103_frozen_augmentation(lab: Lab) -> Judgement:
    """Random numbers are drawn for every sample, yet each index always comes out the same.

    Symptom: no error at all; training gains nothing from an augmentation that is there, and runs, but never varies.
    Cause: a generator is seeded with a constant in `__getitem__`, a transform or `collate_fn`, so that it starts over
        for every sample.
    Fix: seed once and not for every sample: take the seed out, or make it `torch.initial_seed()` in the worker; for
        draws that can be repeated, seed from epoch and index, as `numpy.random.default_rng((epoch, index))`.
    Links: https://docs.pytorch.org/docs/stable/notes/randomness.html
    """
    role = lab.facts.role
    if role is None:
        raise NotApplicable(f'role unknown, name it: [tool.dataguard.roles] {lab.facts.name} = "train"')
    if role != "train":
        raise NotApplicable(f"role is {role}: evaluation should not vary")
    trace = lab.seedings
    leaves = [path for path in trace.steered if path.startswith("sample")] or list(trace.steered)
    chosen = [path for path in leaves if path in trace.plain]
    if chosen:
        raise Undecided(f"a constant seed decides {chosen[0]} as well: it may choose which sample an index means")
    if trace.constant and leaves:
        seeding = trace.constant[0]
        yield Finding(
            message=f"{leaves[0]} never varies: {seeding.kind}({seeding.seed}) starts over for every sample",
            evidence={
                "leaves": leaves,
                "seeds": {f"{one.kind}({one.seed})": f"{one.file}:{one.line}" for one in trace.constant},
                "draws of each index": trace.draws,
            },
            at=Location(seeding.file, seeding.line, seeding.function),
        )
    return Looked({"draws": trace.draws * trace.items, "items": trace.items})
