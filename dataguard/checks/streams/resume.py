"""Whether a restored loader goes on with what would have come. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dataguard.model import Undecided

if TYPE_CHECKING:
    from dataguard.lab.streams.resume import Batches, Point, Resumes, Run

TELLING = 0.5
"""The share of batches that differ from all others in a leaf by which batches are recognised."""
KNOWN = 0.9
"""The share of samples that were read before, from which on other batches mean another order."""


def faults(resumes: Resumes) -> dict[str, str]:
    """What is wrong after restoring, in words, by where the run was interrupted.

    Raises Undecided when two runs without interruption differ, or when nothing tells random batches from wrong ones.
    """
    reference, asked = resumes.reference, resumes.asked
    if asked.refused:
        return {"at no point": f"its state cannot be pickled: {asked.refused}"}
    stable = [path for path in _paths(reference) if _leaf(reference, path) == _leaf(asked, path)]
    if not stable:
        raise Undecided("two runs without any interruption yield different batches")
    found: dict[str, str] = {}
    doubts: list[Undecided] = []
    for where, runs in (("", resumes.restored), (" from JSON", resumes.by_json)):
        for point, run in runs.items():
            try:
                words = _fault(resumes, point, run, stable)
            except Undecided as doubt:
                doubts.append(doubt)
                continue
            if words and (not where or str(point) not in found):
                found[f"{point}{where}"] = words
    if doubts and not found:
        raise doubts[0]
    return found


def _paths(run: Run) -> list[str]:
    """The leaves that batches have."""
    return list(dict.fromkeys(path for epoch in run.epochs for batch in epoch for path, _ in batch))


def _leaf(run: Run, path: str) -> list[Batches]:
    """One leaf of every batch, epoch by epoch."""
    return [_only(epoch, path) for epoch in run.epochs]


def _only(batches: Batches, path: str) -> Batches:
    return tuple(tuple(part for part in batch if part[0] == path) for batch in batches)


def _fault(resumes: Resumes, point: Point, run: Run, stable: Sequence[str]) -> str | None:
    """What is wrong with the batches that come after restoring at a point, in words."""
    if run.refused:
        return f"load_state_dict raises {run.refused}"
    came, expected = run.epochs[0], resumes.reference.rest(point)
    if not resumes.reference.ended:  # what comes after the batches that were read is not known
        came = came[: len(expected)]
    if point.end and (not came or len(came) == len(expected)):
        return None  # either the end once more, or a new epoch, in whatever order
    wrong = [path for path in stable if _only(came, path) != _only(expected, path)]
    right = [path for path in stable if path not in wrong]
    if not wrong or any(_tells(resumes.reference, path) for path in right):
        return None
    whole = expected if point.end else resumes.reference.epochs[point.epoch]
    words = _words(whole, len(whole) - len(expected), came, stable)
    known = len(run.samples & resumes.reference.samples) > KNOWN * len(run.samples)
    if words is None and not known:
        raise Undecided("restored, the loader draws its samples anew: nothing tells whether they are the right ones")
    return words or "other batches came than would have"


def _tells(run: Run, path: str) -> bool:
    """Whether a leaf tells most batches of an epoch apart."""
    leaf = _only(run.epochs[0], path)
    return len(set(leaf)) > TELLING * len(leaf) and len(set(leaf)) > 1


def _words(epoch: Batches, after: int, came: Batches, stable: Sequence[str]) -> str | None:
    """Where in the epoch the restored loader goes on, where it does so at one of its batches, and not at the right one.

    At the right one it may still end too early or too late.
    """
    if not came:
        return f"nothing came, in place of {_batches(len(epoch) - after)}"
    first, *others = (tuple(part for part in batch if part[0] in stable) for batch in (came[0], *epoch))
    if others.count(first) != 1:
        return None
    ahead = others.index(first) - after
    if ahead == 0:
        rest = len(epoch) - after
        return f"{_batches(len(came))} came, in place of {rest}" if len(came) != rest else None
    return f"{_batches(-ahead)} came again" if ahead < 0 else f"{_batches(ahead)} left out"


def _batches(count: int) -> str:
    return f"{count} batch{'' if count == 1 else 'es'}"
