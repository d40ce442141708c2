"""DG103: random augmentation that never varies.

The augmentation of an index may be frozen by a constant seed, a seed by index, a cache of augmented samples, or draws
that are never applied; `by_index`, `by_cache` and `by_draw` find the last three, which no constant seed shows.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.incident import observed_or_none
from dataguard.core.model import Coverage, Finding, Judgement, Location, Severity, Undecided, without_empty
from dataguard.stats.coincidence import Groups, is_random, is_varied

if TYPE_CHECKING:
    from dataguard.lab.core.records import LeafRecord, Seeding
    from dataguard.lab.images.colour_charts import Colours
    from dataguard.lab.lab import Lab
    from dataguard.lab.randomness.constant_seeds import SeedTrace
    from dataguard.lab.randomness.worker_draws import WorkerDraws


@check("DG103", "frozen-augmentation", Severity.WARNING)
def dg103_frozen_augmentation(lab: Lab) -> Judgement:
    """Samples are augmented at random, but each index gets the same augmentation in every epoch.

    Symptom: no error; the augmentation runs but never varies, so training gains nothing from it.
    Cause: a generator is seeded with a constant in `__getitem__`, a transform or `collate_fn`, so it restarts for every
        sample; or it is seeded with the index alone before a library transform draws from it. Or a cache holds samples
        that are already augmented: a dict or `functools.lru_cache` in a long-lived process, or shared memory; or what
        it holds is returned without augmentation. Or an offset, an angle or a frame is drawn and never applied to what
        is returned.
    Fix: seed once, not for every sample: remove the seed, or use `torch.initial_seed()` in the worker; for reproducible
        draws, seed from epoch and index, as `numpy.random.default_rng((epoch, index))`. Cache decoded samples, and
        augment what you read from the cache.
    Links: https://docs.pytorch.org/docs/stable/notes/randomness.html
    """
    lab.facts.need_role("train", otherwise="evaluation data should not vary")
    draws = varied_draws(lab)
    if draws is not None:
        yield from by_draw(lab, varied=True)
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
                "fix here": fix_of(seeding),
                "leaves": leaves,
                "seeds": {
                    f"{seeding.kind}({seeding.seed})": f"{seeding.file}:{seeding.line}" for seeding in trace.constant
                },
                "draws per index" if lab.facts.kind == "map" else "runs compared": trace.draws,
            },
            at=Location(seeding.file, seeding.line, seeding.function),
        )
    elif lab.facts.kind == "map":
        indexed = [*by_index(lab)]
        yield from indexed
        note = yield from by_cache(lab)
        yield from by_draw(lab)
        note = note or (None if indexed else _unvaried(lab))
    return Coverage({"draws": trace.draws * trace.items, "items": trace.items}, note)


def _unvaried(lab: Lab) -> str | None:
    """A note where images are decoded and nothing of a sample or batch is random: augmentation may be missing."""
    draws = observed_or_none(lambda: lab.randomness.few_items)
    groups = [list(by.values()) for by in draws.as_is.values()] if draws else []
    if not groups or any(_differ(by) or any(len(set(group)) > 1 for each in by for group in each) for by in groups):
        return None
    images = _decoded(lab)
    return f"training samples never vary: nothing random follows {images.source}" if images else None


def _decoded(lab: Lab) -> Colours | None:
    """How samples follow the images that are decoded; None if none is."""
    images = observed_or_none(lambda: lab.images.charts)
    return images if images and images.decoded else None


def fix_of(seeding: Seeding) -> str:
    """What to write in place of a line that seeds for every sample."""
    if seeding.kind in _SHARED:
        return f"remove {seeding.kind}: torch seeds this generator in each worker and epoch"
    return "create the generator once in each worker, from torch.initial_seed(), and not for every sample"


_SHARED = ("random.seed", "random.setstate", "numpy.random.seed", "numpy.random.set_state", "torch.manual_seed")
"""Functions that seed a generator which a process shares, and which torch seeds."""


def varied_draws(lab: Lab) -> WorkerDraws | None:
    """Draws of the same items in which a sample varies: then nothing is frozen (map-style only).

    Its labels, and what all samples share, need not vary. None where another value is the same in all draws of an item,
    or in all but the first one.
    """
    stages = lambda: lab.randomness.first_items, lambda: lab.randomness.few_items
    return next((draws for stage in stages if (draws := observed_or_none(stage)) and _vary(lab, draws)), None)


def _vary(lab: Lab, draws: WorkerDraws) -> bool:
    labels = {f"sample{leaf.path}" for leaf in lab.epoch.samples[0].leaves if _is_plain(leaf)}
    drawn = {path: by.values() for path, by in draws.as_is.items() if path.startswith("sample") and path not in labels}
    unshared = [by for by in drawn.values() if not _is_shared(by)]
    return bool(unshared) and all(any(map(is_varied, by)) or _differ(by) for by in unshared)


def _is_shared(by: Collection[Groups]) -> bool:
    """Whether every draw of every item has one value, such as a mask of ones: nothing is augmented there."""
    return len({digest for groups in by for group in groups for digest in group}) == 1


def _differ(by: Collection[Groups]) -> bool:
    """Whether an item that was drawn once in each worker and epoch differs between them."""
    return all(len(group) == 1 for groups in by for group in groups) and len(set(by)) > 1


def _is_plain(leaf: LeafRecord) -> bool:
    """Whether a value is a class index, a name or the like, and no measure."""
    return not leaf.shape and not (leaf.dtype or leaf.kind).startswith(("float", "torch.float"))


def require_no_choice(lab: Lab, trace: SeedTrace, leaves: Sequence[str]) -> None:
    """Raise Undecided where a seed may select the sample that an index returns, and not how it is augmented."""
    chosen = [
        path for path in leaves if path in trace.plain or _is_another_sample(lab, path, trace.changed.get(path, ()))
    ]
    if chosen:
        raise Undecided(f"a constant seed determines {chosen[0]}, but may only select which sample an index returns")


def _is_another_sample(lab: Lab, path: str, changed: Collection[bytes]) -> bool:
    """Whether a leaf now holds the value of another sample."""
    read = (leaf for sample in lab.epoch.samples for leaf in sample.leaves if f"sample{leaf.path}" == path)
    return any(leaf.digest in changed for leaf in read)


def by_index(lab: Lab) -> Iterator[Finding]:
    """Augmentations that run after the user's code has seeded a generator with the index alone.

    Synthetic data are rightly seeded by their index as well; no library draws for them, and no image is decoded.
    """
    seeds = [seeding for seeding in lab.randomness.seeds().indexed if seeding.direct and not seeding.epochs]
    if not seeds:
        return
    trace = lab.randomness.seeds(always=True)
    leaves = [path for path in trace.dependent if path.startswith("sample") and path not in trace.plain]
    augmented = trace.libraries or (
        (images := _decoded(lab)) and any(f"{images.root}{fit.path}" in leaves for fit in images.fits)
    )
    if leaves and augmented and not any(_is_another_sample(lab, path, trace.changed[path]) for path in leaves):
        yield Finding(
            message=f"{leaves[0]} gets the same augmentation in every epoch: {seeds[0].kind} is seeded by index",
            evidence={
                "fix here": "make the seed of epoch and index, and not of the index alone",
                "leaves": leaves,
                "seeds": {
                    f"{seeding.kind}({seeding.seed}), ...": f"{seeding.file}:{seeding.line}" for seeding in seeds
                },
                "draws per index": trace.draws,
            }
            | without_empty({"drawn by": sorted(trace.libraries)}),
            at=Location(seeds[0].file, seeds[0].line, seeds[0].function),
        )


def by_cache(lab: Lab) -> Generator[Finding, None, str | None]:
    """Samples that a cache holds already augmented; returns a note about a cache that does not last."""
    plain = {f"sample{leaf.path}" for leaf in lab.epoch.samples[0].leaves if not leaf.shape}
    leaves = [path for path in lab.randomness.cached.leaves if path not in plain]
    if not leaves:  # a label that is drawn once is rightly kept
        yield from _at_first(lab, [path for path in lab.randomness.cached.once if path not in plain])
        return None
    if len(leaves) < len(lab.randomness.cached.leaves):
        raise Undecided(f"{leaves[0]} is drawn once per index, and so is a label: they may have to match")
    changed = lab.randomness.cached.changed
    if not _lasts(lab, leaves[0]):
        return f"a cache holds {leaves[0]} already augmented, but only until its worker exits after the epoch"
    yield Finding(
        message=f"{leaves[0]} is augmented once per index and never again: a cache holds the augmented sample",
        evidence=without_empty(
            {
                "fix here": "keep the sample as it is before it is augmented",
                "leaves": leaves,
                "changed by reading": [location.what for location in changed],
            }
        ),
        at=changed[0] if changed else None,
    )
    return None


def _at_first(lab: Lab, leaves: Sequence[str]) -> Iterator[Finding]:
    """Samples that are augmented when a cache does not hold them yet, and no more when it does."""
    if leaves and _lasts(lab, leaves[0]):
        changed = lab.randomness.cached.changed
        yield Finding(
            message=f"{leaves[0]} is augmented when its index is read first, and never again: what a cache holds is "
            "returned without augmentation",
            evidence=without_empty(
                {
                    "fix here": "augment what is read from the cache, too",
                    "leaves": leaves,
                    "changed by reading": [location.what for location in changed],
                }
            ),
            at=changed[0] if changed else None,
        )


def by_draw(lab: Lab, *, varied: bool = False) -> Iterator[Finding]:
    """Integers that the user's code draws for each sample, such as the offset of a crop, and that change nothing."""
    for draw in observed_or_none(lambda: lab.randomness.unused_draws(varied=varied)) or ():
        yield Finding(
            message=f"{draw.function} draws an integer from {draw.low} to {draw.high}, and no sample depends on it",
            evidence={
                "fix here": f"apply what {draw.function} returns to the sample, or remove the call",
                "samples": draw.items,
                "draws per sample": draw.draws,
                "confirmed by": f"{2 * draw.high - draw.low + 1} in its place changes no sample, and raises nothing",
            },
            at=draw.at,
        )


def _lasts(lab: Lab, leaf: str) -> bool:
    """Whether a cache outlives an epoch: its process does, or the user's own workers still see it in the next one."""
    if lab.facts.num_workers == 0 or lab.facts.persistent:
        return True
    draws = lab.randomness.few_items.as_is.get(leaf, {})
    first, second = draws.get((0, 0), ()), draws.get((0, 1), ())
    return first == second and not is_random(first)
