"""Whether indices return the same samples in two processes. Standard library only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataguard.lab.core.records import Index
    from dataguard.lab.reading.sample_reader import Answer


@dataclass(frozen=True, slots=True)
class Change:
    """The first index that returns something else, the leaves that differ there, and how many `of` all indices change.

    `whole`: every leaf that identifies samples differs.
    """

    index: Index
    leaves: tuple[str, ...]
    count: int
    of: int
    whole: bool

    @property
    def subject(self) -> str:
        """What changes, as the beginning of a message."""
        if self.whole:
            return f"dataset[{self.index!r}] is a different sample"
        return f"sample{self.leaves[0]} of index {self.index!r} differs"

    @property
    def evidence(self) -> dict[str, object]:
        """How many samples and which leaves change, for a finding."""
        return {
            "leaves": [f"sample{leaf}" for leaf in self.leaves],
            "samples that change": f"{self.count} of {self.of}",
        }


def compare(
    answers: Sequence[Answer],
    others: Sequence[Answer],
    again: Callable[[], Sequence[Answer]],
    unsteady: Callable[[], frozenset[str]] = frozenset,
) -> Change | None:
    """Compare the reads of two processes.

    `again` repeats the reads of the first one, and `unsteady` returns the leaves that vary from read to read: what
    varies anyway is ignored, also where it is equal by chance. Both are called only if something differs.
    """
    if all(_unlike(first, second) == () for first, second in zip(answers, others, strict=True)):
        return None
    unstable = unsteady() | varying(answers, again())
    changed = []
    for first, second in zip(answers, others, strict=True):
        leaves = set(first.digests) - unstable
        unlike = tuple(leaf for leaf in _unlike(first, second) if leaf in leaves)
        if unlike and not first.incident and not second.incident:
            identifying = {
                leaf for leaf in leaves if len({answer.digests.get(leaf) for answer in answers}) > len(answers) / 2
            }
            changed.append((first.index, unlike, identifying <= set(unlike)))
    return Change(*changed[0][:2], len(changed), len(answers), changed[0][2]) if changed else None


def _unlike(answer: Answer, other: Answer) -> tuple[str, ...]:
    """The leaves in which two answers differ."""
    first, second = answer.digests, other.digests
    return tuple(path for path in {**first, **second} if first.get(path) != second.get(path))


def varying(answers: Sequence[Answer], again: Sequence[Answer]) -> frozenset[str]:
    """The leaves that differ between two processes that should agree."""
    return frozenset(leaf for first, other in zip(answers, again, strict=True) for leaf in _unlike(first, other))


def is_reordered(answers: Sequence[Answer], others: Sequence[Answer], ignored: frozenset[str]) -> bool:
    """Whether the second process gives samples of the first one, labels and all. Some leaves are `ignored`.

    The first one may have read an index several times.
    """
    common = frozenset.intersection(*(frozenset(answer.digests) - ignored for answer in (*answers, *others)))
    indices = len({answer.index for answer in answers})
    identifying = any(len({answer.digests[leaf] for answer in answers}) > indices / 2 for leaf in common)
    contents, other_contents = (
        {tuple(answer.digests[leaf] for leaf in sorted(common)) for answer in part} for part in (answers, others)
    )
    return identifying and other_contents <= contents
