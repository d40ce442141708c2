"""What DG104 and DG105 share: the trial of a spawned worker, and the items that spawned and forked workers read."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from dataguard.core.incident import observed_or_none
from dataguard.core.model import Finding, Location, NotApplicable
from dataguard.stats.coincidence import is_random

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.randomness.spawn_trial import SpawnTrial
    from dataguard.lab.randomness.worker_draws import WorkerDraws

SPAWN = "spawn (the default on macOS and Windows; on Linux, Python 3.14 has forkserver)"
"""What a loader meets elsewhere that leaves the start method to the platform."""


def spawn_trial(lab: Lab) -> SpawnTrial:
    """The trial of a loader whose workers are forked. Raises NotApplicable if the loader asks for that."""
    if lab.facts.start_given:
        raise NotApplicable(f"the loader asks for {lab.facts.start_method}, which pickles nothing")
    return lab.randomness.spawn_trial


def diverging_line(lab: Lab) -> Location | None:
    """The line after which a value differs, if an emulated worker shows it; else where samples are made."""
    return observed_or_none(lambda: lab.randomness.diverging_line) or lab.dataset.location


def differing_items(spawned: WorkerDraws, forked: WorkerDraws) -> dict[str, list[str]]:
    """The indices at which a leaf is the same in every forked worker, but differs in the first spawned worker."""
    paths = {*spawned.seeded, *forked.seeded}
    return {path: indices for path in paths if (indices := _differing(path, spawned, forked))}


def _differing(path: str, spawned: WorkerDraws, forked: WorkerDraws) -> list[str]:
    drawn = forked.seeded.get(path, {})
    groups, spawned_groups = drawn.get((0, 0), ()), spawned.seeded.get(path, {}).get((0, 0), ())
    if is_random(groups) or any(other != groups for (_, epoch), other in drawn.items() if not epoch):
        return []
    items = len(forked.shown)
    if not groups or not spawned_groups:
        return list(forked.shown)
    differ = {
        number % items
        for number, (forked_group, spawned_group) in enumerate(zip(groups, spawned_groups, strict=True))
        if forked_group != spawned_group
    }
    return [forked.shown[item] for item in sorted(differ)]


def freed_views(lab: Lab) -> Generator[Finding, None, bool]:
    """A leaf that is read from memory which a tensor leaves when it is sent: whatever values a process finds there."""
    lost = tuple(f"batch{path}" for path in observed_or_none(lambda: lab.randomness.lost_views) or ())
    judged = lab.facts.spawns or not lab.facts.start_given
    freed = lost or (observed_or_none(lambda: lab.randomness.freed) if judged else None) or ()
    method = lab.facts.start_method if lab.facts.spawns else SPAWN
    for path in freed[:1]:
        sent = "reaches the main process with other values" if lost else f"is read from freed memory under {method}"
        yield Finding(
            message=f"{path} {sent}: it comes from a numpy view of a tensor that is sent, too",
            evidence={"leaves": list(freed), "freed": "the memory of the tensor, which moves to shared memory"},
            at=None if lost else diverging_line(lab),
            ambiguous=not lost and not lab.facts.spawns,
        )
    return bool(freed)
