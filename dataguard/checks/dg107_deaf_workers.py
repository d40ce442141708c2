"""DG107: workers that live on do not hear what the main process changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity, Undecided, check
from dataguard.odds import is_random

if TYPE_CHECKING:
    from dataguard.lab import Lab
    from dataguard.lab.workers import SameItems


@check("DG107", "deaf-workers", Severity.WARNING)
def dg107_deaf_workers(lab: Lab) -> Judgement:
    """What the main process changes between epochs never reaches workers that live on.

    Symptom: no error at all; a curriculum stays at its first stage, a stream keeps its first order, `set_epoch` has no
        effect.
    Cause: with `persistent_workers=True` each worker keeps the copy of the dataset that it got in the first epoch.
    Fix: hold what changes where workers look at it too, as `torch.zeros((), dtype=torch.long).share_memory_()` or a
        `multiprocessing.Value`; or let workers start anew, with `persistent_workers=False`.
    Links: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader
    """
    facts = lab.facts
    if facts.num_workers == 0:
        raise NotApplicable("num_workers=0: there is one copy of the dataset")
    if not facts.persistent:
        raise NotApplicable("workers start anew for each epoch, from what the main process has by then")
    if not facts.epoch_hooks:
        raise NotApplicable("neither dataset nor sampler has a set_epoch that workers should hear of")
    if facts.kind == "stream":
        deaf, looked = _deaf_stream(lab)
    else:
        deaf, looked = _deaf_leaves(lab)
    if deaf:
        hook = facts.epoch_hooks[0]
        yield Finding(
            message=f"{hook.what} does not reach the workers: {deaf[0]} is the same in epoch 1 as in epoch 0",
            evidence={"unchanged": deaf, "with workers that start anew": "it changes", "persistent_workers": True},
            at=hook,
        )
    return looked


def _deaf_leaves(lab: Lab) -> tuple[list[str], Looked]:
    """The leaves that change with the epoch in workers that start anew, and not in those that live on."""
    own, anew = lab.same_items(), lab.same_items(persistent=False)
    found = [path for path in anew.pinned if _changes(anew, path) and not _changes(own, path)]
    if found:  # and not because each start of a worker makes something up
        untold = lab.same_items(persistent=False, announce=False)
        found = [path for path in found if not _changes(untold, path)]
    return found, Looked({"draws": 2 * own.draws, "items": own.items, "workers": own.workers, "epochs": 2})


def _changes(draws: SameItems, path: str) -> bool:
    """Whether a leaf that pinned generators hold still is another one in the second epoch."""
    seats = draws.pinned.get(path, {})
    first, second = seats.get((0, 0), ()), seats.get((0, 1), ())
    return not is_random(first) and not is_random(second) and first != second


def _deaf_stream(lab: Lab) -> tuple[list[str], Looked]:
    """The same for a stream, whose order counts as well."""
    workers = lab.facts.num_workers
    own, anew = lab.stream(workers, pin=True), lab.stream(workers, pin=True, persistent=False)
    if min(map(len, own.again), default=0) < 2:
        raise Undecided("too few samples of a second epoch came out")
    deaf = anew.begins_otherwise and not own.begins_otherwise
    if deaf:
        deaf = not lab.stream(workers, pin=True, persistent=False, announce=False).begins_otherwise
    return ["the stream"] if deaf else [], Looked({"samples": own.total, "workers": workers, "epochs": 2})
