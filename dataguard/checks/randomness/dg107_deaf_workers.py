"""DG107: changes of state do not reach the workers, or are lost in them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.drift import reads_agree, shifts
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, Undecided, without_empty
from dataguard.stats.coincidence import is_random

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.randomness.worker_draws import WorkerDraws


@check("DG107", "deaf-workers", Severity.WARNING)
def dg107_deaf_workers(lab: Lab) -> Judgement:
    """State changed in the main process does not reach the workers, or state changed in the workers is lost.

    Symptom: no error; a curriculum stays at its first stage, a stream keeps its first order, `set_epoch` has no effect;
        or anything that depends on the samples read so far restarts with every epoch.
    Cause: each worker has a copy of the dataset and of collate_fn. With `persistent_workers=True` it keeps the copy of
        the first epoch; without, what reading changed in it, such as a counter, is lost with the epoch; other workers
        never see it.
    Fix: store state that changes in shared memory, as `torch.zeros((), dtype=torch.long).share_memory_()` or a
        `multiprocessing.Value`. Or count in the main process, pass the count to the dataset in `set_epoch`, and restart
        the workers in each epoch, with `persistent_workers=False`.
    Links: https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading
    """
    facts = lab.facts
    if facts.num_workers == 0:
        raise NotApplicable("num_workers=0: there is only one copy of the dataset")
    may_miss_epoch = facts.persistent and bool(facts.epoch_hooks)
    may_lose_state = not facts.persistent or (facts.num_workers > 1 and facts.kind == "map")
    if not may_miss_epoch and not may_lose_state:
        raise NotApplicable("persistent workers keep what they change, and the loader has no set_epoch")
    exercised = {"workers": facts.num_workers}
    unchanged: list[str] = []
    if may_miss_epoch:
        unchanged, exercised = _unchanged_stream(lab) if facts.kind == "stream" else _unchanged_leaves(lab)
    if unchanged:
        hook = facts.epoch_hooks[0]
        yield Finding(
            message=f"{hook.what} does not reach the workers: {unchanged[0]} is the same in epochs 0 and 1",
            evidence={"unchanged": unchanged, "with restarted workers": "it changes", "persistent_workers": True},
            at=hook,
        )
    elif may_lose_state:
        steady = facts.default_collate and reads_agree(lab)
        exercised |= lab.dataset.readings.exercised if steady else {"reads": lab.randomness.carryover.reads}
        yield from () if steady else _losses(lab)
    return Coverage(exercised)


def _losses(lab: Lab) -> Iterator[Finding]:
    """What depends on earlier reads, where workers have no record of them."""
    facts, lost, changed = lab.facts, lab.randomness.carryover.lost, lab.randomness.carryover.changed
    apart = f"each of {facts.num_workers} workers sees only its own reads"
    reason = apart if facts.persistent else "workers lose that state after every epoch"
    messages = {leaf: f"{leaf} depends on {effect.value}, and {reason}" for leaf, effect in lost.items()}
    certain = [leaf for leaf, effect in lost.items() if effect.name != "ITSELF"]
    if messages and not certain:
        raise Undecided(f"{next(iter(messages.values()))}: its source is modified in place, or state is lost")
    labels = {f"sample{leaf}" for leaf in shifts(lab)} if certain and facts.kind == "map" else {}
    certain = [leaf for leaf in certain if leaf not in labels]  # those are wrong in one process as well: see DG306
    leaves = [leaf for leaf in certain if leaf.startswith("sample")] or ([] if labels else certain)
    if leaves:
        evidence = {"leaves": leaves, "changed by reading": [attribute.what for attribute in changed]}
        settings = {"frozen RNGs": "all that were found", "persistent_workers": facts.persistent}
        yield Finding(messages[leaves[0]], without_empty({**evidence, **settings}), changed[0] if changed else None)


def _unchanged_leaves(lab: Lab) -> tuple[list[str], dict[str, int]]:
    """The leaves that change with the epoch in restarted workers, but not in persistent ones."""
    same_items = lab.randomness.same_items
    persistent, restarted = same_items(), same_items(persistent=False)
    if _only_restarted(persistent, restarted):  # not by chance, as what varies rarely does
        persistent, restarted = same_items(0), same_items(0, persistent=False)
    unchanged = _only_restarted(persistent, restarted)
    if unchanged:  # and not because every start of a worker changes it
        unannounced = same_items(0, persistent=False, announce=False)
        unchanged = [path for path in unchanged if not _changes(unannounced, path)]
    return unchanged, {
        "draws": 2 * persistent.draws,
        "items": persistent.items,
        "workers": persistent.workers,
        "epochs": 2,
    }


def _only_restarted(persistent: WorkerDraws, restarted: WorkerDraws) -> list[str]:
    """The leaves that change with the epoch in restarted workers only."""
    return [path for path in restarted.seeded if _changes(restarted, path) and not _changes(persistent, path)]


def _changes(draws: WorkerDraws, path: str) -> bool:
    """Whether a leaf that is not random with seeded generators differs in the second epoch."""
    drawn = draws.seeded.get(path, {})
    first, second = drawn.get((0, 0), ()), drawn.get((0, 1), ())
    return not is_random(first) and not is_random(second) and first != second


def _unchanged_stream(lab: Lab) -> tuple[list[str], dict[str, int]]:
    """The same for a stream, whose order counts as well."""
    observe = partial(lab.streams.stream, lab.facts.num_workers, seeded=True)
    persistent, restarted = observe(), observe(persistent=False)
    if min(map(len, persistent.again), default=0) < 2:
        raise Undecided("the second epoch yields too few samples")
    unchanged = restarted.begins_differently and not persistent.begins_differently
    unchanged = unchanged and not observe(persistent=False, announce=False).begins_differently
    return ["the stream"] if unchanged else [], {
        "samples": persistent.total,
        "workers": lab.facts.num_workers,
        "epochs": 2,
    }
