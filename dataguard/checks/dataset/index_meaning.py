"""Whether indices mean the same samples in two processes. Standard library only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataguard.lab.core.index import Index
    from dataguard.lab.reading.sample_reader import Answer


@dataclass(frozen=True, slots=True)
class Moved:
    """The first index that means something else, the leaves that differ there, and how many `of` all indices do.

    `whole` tells that every leaf differs that tells samples apart.
    """

    index: Index
    leaves: tuple[str, ...]
    count: int
    of: int
    whole: bool

    @property
    def evidence(self) -> dict[str, object]:
        """How much of the samples is another one, for a finding."""
        return {"leaves": [f"sample{leaf}" for leaf in self.leaves], "samples that change": self.count, "of": self.of}


def moved(
    one: Sequence[Answer],
    two: Sequence[Answer],
    again: Callable[[], Sequence[Answer]],
    unsteady: Callable[[], frozenset[str]] = frozenset,
) -> Moved | None:
    """Compare two processes.

    `again` gives what the first one reads once more, and `unsteady` the leaves that vary from read to read: what varies
    anyway is left out. Both are asked only where something differs.
    """
    if all(_unlike(first, second) == () for first, second in zip(one, two, strict=True)):
        return None
    wild = unsteady()
    stable = [set(first.digests) - wild - set(_unlike(first, other)) for first, other in zip(one, again(), strict=True)]
    found = []
    for first, second, leaves in zip(one, two, stable, strict=True):
        unlike = tuple(leaf for leaf in _unlike(first, second) if leaf in leaves)
        if unlike and not first.incident and not second.incident:
            telling = {leaf for leaf in leaves if len({answer.digests.get(leaf) for answer in one}) > len(one) / 2}
            found.append((first.index, unlike, telling <= set(unlike)))
    return Moved(*found[0][:2], len(found), len(one), found[0][2]) if found else None


def _unlike(one: Answer, two: Answer) -> tuple[str, ...]:
    """The leaves in which two answers differ."""
    first, second = one.digests, two.digests
    return tuple(path for path in {**first, **second} if first.get(path) != second.get(path))
