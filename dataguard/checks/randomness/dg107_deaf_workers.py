"""DG107: the main process and its workers do not hear of each other's changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.drift import shifts
from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity, Undecided, known
from dataguard.stats.coincidence import is_random

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.randomness.same_items import SameItems


@check("DG107", "deaf-workers", Severity.WARNING)
def dg107_deaf_workers(lab: Lab) -> Judgement:
    """What the main process changes between epochs does not reach the workers, or what workers change is lost.

    Symptom: no error at all; a curriculum stays at its first stage, a stream keeps its first order, `set_epoch` has no
        effect; or whatever goes by the samples read so far starts over with every epoch.
    Cause: each worker has a copy of the dataset. With `persistent_workers=True` it keeps the one of the first epoch;
        without, what reading changed in it (a counter, a table, a running mean) is gone when the epoch ends. No other
        worker ever sees it.
    Fix: hold what changes where every process looks at it, as `torch.zeros((), dtype=torch.long).share_memory_()` or a
        `multiprocessing.Value`. Or count in the main process, tell the dataset by `set_epoch`, and let workers start
        anew, with `persistent_workers=False`.
    Links: https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading
    """
    facts = lab.facts
    if facts.num_workers == 0:
        raise NotApplicable("num_workers=0: there is one copy of the dataset")
    told = facts.persistent and bool(facts.epoch_hooks)
    loses = not facts.persistent or (facts.num_workers > 1 and facts.kind == "map")
    if not told and not loses:
        raise NotApplicable("workers live on with what they change, and there is no set_epoch that they should hear of")
    looked = {"workers": facts.num_workers}
    deaf: list[str] = []
    if told:
        deaf, looked = _deaf_stream(lab) if facts.kind == "stream" else _deaf_leaves(lab)
    if deaf:
        hook = facts.epoch_hooks[0]
        yield Finding(
            message=f"{hook.what} does not reach the workers: {deaf[0]} is the same in epoch 1 as in epoch 0",
            evidence={"unchanged": deaf, "with workers that start anew": "it changes", "persistent_workers": True},
            at=hook,
        )
    elif loses:
        looked = {**looked, "reads": lab.randomness.carryover.reads}
        yield from _losses(lab)
    return Looked(looked)


def _losses(lab: Lab) -> Iterator[Finding]:
    """What depends on the reads before, where workers do not know of them."""
    facts, lost, changed = lab.facts, lab.randomness.carryover.lost, lab.randomness.carryover.changed
    apart = f"each of {facts.num_workers} workers knows its own reads only"
    ends = apart if facts.persistent else "workers forget that with every epoch"
    said = {leaf: f"{leaf} depends on {effect.value}, and {ends}" for leaf, effect in lost.items()}
    certain = [leaf for leaf, effect in lost.items() if effect.name != "ITSELF"]
    if said and not certain:
        raise Undecided(f"{next(iter(said.values()))}: its source is changed in place, or a state lost")
    labels = {f"sample{leaf}" for leaf in shifts(lab)} if certain and facts.kind == "map" else {}
    certain = [leaf for leaf in certain if leaf not in labels]  # those are wrong in one process as well: see DG306
    leaves = [leaf for leaf in certain if leaf.startswith("sample")] or ([] if labels else certain)
    if leaves:
        evidence = {"leaves": leaves, "changed by reading": [place.what for place in changed]}
        held = {"generators": "all that were found were held still", "persistent_workers": facts.persistent}
        yield Finding(said[leaves[0]], known({**evidence, **held}), changed[0] if changed else None)


def _deaf_leaves(lab: Lab) -> tuple[list[str], dict[str, int]]:
    """The leaves that change with the epoch in workers that start anew, and not in those that live on."""
    own, anew = lab.randomness.same_items(), lab.randomness.same_items(persistent=False)
    found = [path for path in anew.pinned if _changes(anew, path) and not _changes(own, path)]
    if found:  # and not because each start of a worker makes something up
        untold = lab.randomness.same_items(persistent=False, announce=False)
        found = [path for path in found if not _changes(untold, path)]
    return found, {"draws": 2 * own.draws, "items": own.items, "workers": own.workers, "epochs": 2}


def _changes(draws: SameItems, path: str) -> bool:
    """Whether a leaf that pinned generators hold still is another one in the second epoch."""
    seats = draws.pinned.get(path, {})
    first, second = seats.get((0, 0), ()), seats.get((0, 1), ())
    return not is_random(first) and not is_random(second) and first != second


def _deaf_stream(lab: Lab) -> tuple[list[str], dict[str, int]]:
    """The same for a stream, whose order counts as well."""
    workers = lab.facts.num_workers
    own, anew = lab.streams.stream(workers, pin=True), lab.streams.stream(workers, pin=True, persistent=False)
    if min(map(len, own.again), default=0) < 2:
        raise Undecided("too few samples of a second epoch came out")
    deaf = anew.begins_otherwise and not own.begins_otherwise
    if deaf:
        deaf = not lab.streams.stream(workers, pin=True, persistent=False, announce=False).begins_otherwise
    return ["the stream"] if deaf else [], {"samples": own.total, "workers": workers, "epochs": 2}
