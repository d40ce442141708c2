"""Whether `__getitems__` gives the samples that it is asked for, one for each index, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dataguard.lab.batches.collate_inputs import Handful, Refused
from dataguard.lab.core.index import Index
from dataguard.lab.core.leaves import leaves_of
from dataguard.model import NotApplicable


@dataclass(frozen=True, slots=True)
class Together:
    """Samples read by `__getitems__`, compared with the same ones read one by one.

    `given` tells for each place in the answer the asked indices whose sample stands there; empty where it is none of
    them, and then `parts` says for the first such place which leaf is of which sample.
    """

    asked: tuple[Index, ...]
    given: tuple[tuple[Index, ...], ...]
    parts: tuple[tuple[str, Index], ...] = ()


def gives_batches(handful: Handful) -> bool:
    """Whether `__getitems__` gives something else than samples: a batch that is put together already."""
    if not callable(getattr(handful.loader.dataset, "__getitems__", None)):
        return False
    answer = handful.read_together(handful.indices[:2])
    paths = {leaf.path for leaf in leaves_of(handful.samples[0])}
    inside = answer if isinstance(answer, list | tuple) else ()
    return all({leaf.path for leaf in leaves_of(one)} != paths for one in inside)


def ask_together(handful: Handful, order: Sequence[int]) -> Together | None:
    """Ask for the samples at these places by `__getitems__`.

    None where there is nothing to compare: the answer is a batch already, or samples are never twice the same.
    """
    dataset: Any = handful.loader.dataset
    if not callable(getattr(dataset, "__getitems__", None)):
        return None
    asked = [handful.indices[place] for place in order]
    try:
        answer = handful.read_together(asked)
        singly = [_stable(handful, index, handful.samples[place]) for index, place in zip(asked, order, strict=True)]
    except (Refused, NotApplicable):
        return None
    if not isinstance(answer, list | tuple):
        return None
    paths = set.intersection(*(set(one) for one in singly))
    got = [{leaf.path: leaf.digest for leaf in leaves_of(sample)} for sample in answer]
    telling = [path for path in sorted(paths) if len({one[path] for one in singly}) > 1]
    if not telling or not any(path in one for path in telling for one in got):
        return None
    owners = [
        {path: frozenset(n for n, one in enumerate(singly) if one[path] == sample.get(path)) for path in telling}
        for sample in got
    ]
    known = [path for path in telling if all(one[path] for one in owners)]
    if not known:  # nothing of it is what single reads give: they are augmented in another way
        return None
    given = [frozenset.intersection(*(one[path] for path in known)) for one in owners]
    pairs = next((one for one, both in zip(owners, given, strict=True) if not both), None)
    return Together(
        tuple(asked),
        tuple(tuple(asked[n] for n in sorted(both)) for both in given),
        tuple((path, asked[min(pairs[path])]) for path in known) if pairs else (),
    )


def _stable(handful: Handful, index: Index, first: Any) -> dict[str, bytes]:
    """The leaves of a sample that are the same when it is read again."""
    again = {leaf.path: leaf.digest for leaf in leaves_of(handful.read(index))}
    return {leaf.path: leaf.digest for leaf in leaves_of(first) if again.get(leaf.path) == leaf.digest}
