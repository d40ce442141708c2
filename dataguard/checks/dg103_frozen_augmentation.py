"""DG103: random numbers that are drawn, and come out the same in every epoch."""

from __future__ import annotations

from collections.abc import Collection, Generator
from typing import TYPE_CHECKING

from dataguard.model import Finding, Judgement, Location, Looked, Severity, Undecided, check, known
from dataguard.odds import is_random

if TYPE_CHECKING:
    from dataguard.lab import Lab


@check("DG103", "frozen-augmentation", Severity.WARNING)
def dg103_frozen_augmentation(lab: Lab) -> Judgement:
    """Random numbers are drawn for samples, yet each index always comes out the same.

    Symptom: no error at all; training gains nothing from an augmentation that is there, and runs, but never varies.
    Cause: a generator is seeded with a constant in `__getitem__`, a transform or `collate_fn`, so that it starts over
        for every sample. Or a cache keeps samples that are augmented already: a dict or `functools.lru_cache` in a
        process that lives on, or memory that workers share.
    Fix: seed once and not for every sample: take the seed out, or make it `torch.initial_seed()` in the worker; for
        draws that can be repeated, seed from epoch and index, as `numpy.random.default_rng((epoch, index))`. Cache what
        was decoded, and augment what comes out of the cache.
    Links: https://docs.pytorch.org/docs/stable/notes/randomness.html
    """
    lab.facts.need_role("train", otherwise="evaluation should not vary")
    trace = lab.seedings
    leaves = [path for path in trace.steered if path.startswith("sample")] or list(trace.steered)
    chosen = [path for path in leaves if path in trace.plain or _another(lab, path, trace.changed.get(path, ()))]
    if chosen:
        raise Undecided(f"a constant seed decides {chosen[0]}, it may be by choosing which sample an index means")
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
        note = yield from _cached(lab)
    return Looked({"draws": trace.draws * trace.items, "items": trace.items}, note)


def _another(lab: Lab, path: str, changed: Collection[bytes]) -> bool:
    """Whether a leaf became that of another sample."""
    read = (leaf for sample in lab.epoch.samples for leaf in sample.leaves if f"sample{leaf.path}" == path)
    return any(leaf.digest in changed for leaf in read)


def _cached(lab: Lab) -> Generator[Finding, None, str | None]:
    """Samples that a cache gives as they were augmented at first; returns what to say of one that does not last."""
    plain = {f"sample{leaf.path}" for leaf in lab.epoch.samples[0].leaves if not leaf.shape}
    leaves = [path for path in lab.caches.leaves if path not in plain]
    if not leaves:  # a label that is drawn once is rightly kept
        return None
    if len(leaves) < len(lab.caches.leaves):
        raise Undecided(f"{leaves[0]} is drawn once for each index, and so is a label: they may have to stay together")
    changed = lab.caches.changed
    if not _lasts(lab, leaves[0]):
        return f"a cache keeps {leaves[0]} as it was augmented at first, but is gone with its worker after each epoch"
    yield Finding(
        message=f"{leaves[0]} is drawn once for each index, and given ever after: a cache holds it as it was augmented",
        evidence=known({"leaves": leaves, "changed by reading": [place.what for place in changed]}),
        at=changed[0] if changed else None,
    )
    return None


def _lasts(lab: Lab, leaf: str) -> bool:
    """Whether a cache outlives an epoch: its process does, or the user's own workers find it again in the next one."""
    if lab.facts.num_workers == 0 or lab.facts.persistent:
        return True
    draws = lab.same_items().as_is.get(leaf, {})
    first, second = draws.get((0, 0), ()), draws.get((0, 1), ())
    return first == second and not is_random(first)
