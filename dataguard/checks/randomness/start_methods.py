"""What DG104 and DG105 share: the trial of a spawned worker, and the items that spawned and forked workers read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.model import NotApplicable
from dataguard.stats.coincidence import is_random

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.randomness.same_items import SameItems
    from dataguard.lab.randomness.spawned_reads import SpawnTrial

SPAWN = "spawn (the default on macOS and Windows; on Linux, Python 3.14 has forkserver)"
"""What a loader meets elsewhere that leaves the start method to the platform."""


def spawn_trial(lab: Lab) -> SpawnTrial:
    """The trial of a loader whose workers are forked. Raises NotApplicable if the loader asks for that."""
    if lab.facts.start_given:
        raise NotApplicable(f"the loader asks for {lab.facts.start_method}, which pickles nothing")
    return lab.randomness.spawn_trial


def differing_items(spawned: SameItems, forked: SameItems) -> dict[str, list[str]]:
    """The indices at which a leaf is the same in every forked worker, but differs in the first spawned worker."""
    paths = {*spawned.seeded, *forked.seeded}
    return {path: indices for path in paths if (indices := _differing(path, spawned, forked))}


def _differing(path: str, spawned: SameItems, forked: SameItems) -> list[str]:
    drawn = forked.seeded.get(path, {})
    groups, found = drawn.get((0, 0), ()), spawned.seeded.get(path, {}).get((0, 0), ())
    if is_random(groups) or any(other != groups for (_, epoch), other in drawn.items() if not epoch):
        return []
    items = len(forked.shown)
    if not groups or not found:
        return list(forked.shown)
    differ = {number % items for number, (one, two) in enumerate(zip(groups, found, strict=True)) if one != two}
    return [forked.shown[item] for item in sorted(differ)]
