"""Draws that come out the same for an index in every epoch, though no constant seeds them. Standard library only."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from typing import TYPE_CHECKING

from dataguard.model import Finding, Location, Undecided, known
from dataguard.stats.coincidence import is_random

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.randomness.constant_seeds import SeedTrace


def need_no_choice(lab: Lab, trace: SeedTrace, leaves: Sequence[str]) -> None:
    """Raise Undecided where a seed may decide which sample an index means, and not how that sample is augmented."""
    chosen = [path for path in leaves if path in trace.plain or _another(lab, path, trace.changed.get(path, ()))]
    if chosen:
        raise Undecided(f"a constant seed decides {chosen[0]}, it may be by choosing which sample an index means")


def _another(lab: Lab, path: str, changed: Collection[bytes]) -> bool:
    """Whether a leaf became that of another sample."""
    read = (leaf for sample in lab.epoch.samples for leaf in sample.leaves if f"sample{leaf.path}" == path)
    return any(leaf.digest in changed for leaf in read)


def by_index(lab: Lab) -> Iterator[Finding]:
    """Augmentations of a library, before which the user's code seeds a generator with the index alone.

    Data that are made up from their index are seeded so, too, and rightly; no library draws for them.
    """
    seeds = [seeding for seeding in lab.randomness.seeds().indexed if seeding.direct and not seeding.epochs]
    if not seeds:
        return
    trace = lab.randomness.seeds(always=True)
    leaves = [path for path in trace.steered if path.startswith("sample") and path not in trace.plain]
    if leaves and trace.libraries and not any(_another(lab, path, trace.changed[path]) for path in leaves):
        yield Finding(
            message=f"{leaves[0]} is augmented alike in every epoch: {seeds[0].kind} gets the same seed for an index",
            evidence={
                "leaves": leaves,
                "seeds": {f"{one.kind}({one.seed}) and so on": f"{one.file}:{one.line}" for one in seeds},
                "drawn by": sorted(trace.libraries),
                "draws of each index": trace.draws,
            },
            at=Location(seeds[0].file, seeds[0].line, seeds[0].function),
        )


def by_cache(lab: Lab) -> Generator[Finding, None, str | None]:
    """Samples that a cache gives as they were augmented at first; returns what to say of one that does not last."""
    plain = {f"sample{leaf.path}" for leaf in lab.epoch.samples[0].leaves if not leaf.shape}
    leaves = [path for path in lab.randomness.cached.leaves if path not in plain]
    if not leaves:  # a label that is drawn once is rightly kept
        return None
    if len(leaves) < len(lab.randomness.cached.leaves):
        raise Undecided(f"{leaves[0]} is drawn once for each index, and so is a label: they may have to stay together")
    changed = lab.randomness.cached.changed
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
    draws = lab.randomness.same_items().as_is.get(leaf, {})
    first, second = draws.get((0, 0), ()), draws.get((0, 1), ())
    return first == second and not is_random(first)
