"""DG103: random numbers that are drawn, and come out the same in every epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.randomness.frozen_draws import by_cache, by_index, need_no_choice
from dataguard.model import Finding, Judgement, Location, Looked, Severity

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG103", "frozen-augmentation", Severity.WARNING)
def dg103_frozen_augmentation(lab: Lab) -> Judgement:
    """Random numbers are drawn for samples, yet each index always comes out the same.

    Symptom: no error at all; training gains nothing from an augmentation that is there, and runs, but never varies.
    Cause: a generator is seeded with a constant in `__getitem__`, a transform or `collate_fn`, so that it starts over
        for every sample; or with the index alone, before a transform of a library draws. Or a cache keeps samples that
        are augmented already: a dict or `functools.lru_cache` in a process that lives on, or memory that workers share.
    Fix: seed once and not for every sample: take the seed out, or make it `torch.initial_seed()` in the worker; for
        draws that can be repeated, seed from epoch and index, as `numpy.random.default_rng((epoch, index))`. Cache what
        was decoded, and augment what comes out of the cache.
    Links: https://docs.pytorch.org/docs/stable/notes/randomness.html
    """
    lab.facts.need_role("train", otherwise="evaluation should not vary")
    trace = lab.randomness.seeds()
    leaves = [path for path in trace.steered if path.startswith("sample")] or list(trace.steered)
    need_no_choice(lab, trace, leaves)
    note = None
    if trace.constant and leaves and not trace.derived:
        seeding = trace.constant[0]
        yield Finding(
            message=f"{leaves[0]} never varies: {seeding.kind}({seeding.seed}) starts over for every sample",
            evidence={
                "leaves": leaves,
                "seeds": {f"{one.kind}({one.seed})": f"{one.file}:{one.line}" for one in trace.constant},
                "draws of each index" if lab.facts.kind == "map" else "runs compared": trace.draws,
            },
            at=Location(seeding.file, seeding.line, seeding.function),
        )
    elif lab.facts.kind == "map":
        yield from by_index(lab)
        note = yield from by_cache(lab)
    return Looked({"draws": trace.draws * trace.items, "items": trace.items}, note)
