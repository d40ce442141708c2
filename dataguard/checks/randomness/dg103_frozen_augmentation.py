"""DG103: random augmentation that never varies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.randomness.frozen_draws import (
    by_cache,
    by_draw,
    by_index,
    require_no_choice,
    varied_draws,
)
from dataguard.model import Coverage, Finding, Judgement, Location, Severity

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG103", "frozen-augmentation", Severity.WARNING)
def dg103_frozen_augmentation(lab: Lab) -> Judgement:
    """Samples are augmented at random, but each index gets the same augmentation in every epoch.

    Symptom: no error; the augmentation runs but never varies, so training gains nothing from it.
    Cause: a generator is seeded with a constant in `__getitem__`, a transform or `collate_fn`, so it restarts for every
        sample; or it is seeded with the index alone before a library transform draws from it. Or a cache holds samples
        that are already augmented: a dict or `functools.lru_cache` in a long-lived process, or shared memory. Or an
        offset, an angle or a frame is drawn and never applied to what is returned.
    Fix: seed once, not for every sample: remove the seed, or use `torch.initial_seed()` in the worker; for reproducible
        draws, seed from epoch and index, as `numpy.random.default_rng((epoch, index))`. Cache decoded samples, and
        augment what you read from the cache.
    Links: https://docs.pytorch.org/docs/stable/notes/randomness.html
    """
    lab.facts.need_role("train", otherwise="evaluation data should not vary")
    draws = varied_draws(lab)
    if draws is not None:
        return Coverage({"draws": draws.draws * draws.items, "items": draws.items})
    trace = lab.randomness.seeds()
    leaves = [path for path in trace.dependent if path.startswith("sample")] or list(trace.dependent)
    if trace.constant:
        require_no_choice(lab, trace, leaves)
    note = None
    if trace.constant and leaves and not trace.derived:
        seeding = trace.constant[0]
        yield Finding(
            message=f"{leaves[0]} never varies: {seeding.kind}({seeding.seed}) is called for every sample",
            evidence={
                "leaves": leaves,
                "seeds": {f"{one.kind}({one.seed})": f"{one.file}:{one.line}" for one in trace.constant},
                "draws per index" if lab.facts.kind == "map" else "runs compared": trace.draws,
            },
            at=Location(seeding.file, seeding.line, seeding.function),
        )
    elif lab.facts.kind == "map":
        yield from by_index(lab)
        note = yield from by_cache(lab)
        yield from by_draw(lab)
    return Coverage({"draws": trace.draws * trace.items, "items": trace.items}, note)
