"""Research code that was scanned by hand: what was found in it, our judgement, and which planted bugs were found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

TRUE, HARMLESS, FALSE = "true", "true, but harmless", "false alarm"


@dataclass(frozen=True, slots=True)
class Judged:
    """Findings of one check in the loaders of a repository, and our judgement."""

    code: str
    loaders: int
    verdict: str
    why: str


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository at a commit: what kind of research, which loaders, and how many results were undecided."""

    name: str
    commit: str
    kind: str
    what: str
    loaders: int
    passed: int
    undecided: int
    judged: tuple[Judged, ...] = ()


@dataclass(frozen=True, slots=True)
class Planted:
    """A bug that was planted in a repository, and the checks that found it; none if it was missed."""

    name: str
    bug: str
    found: tuple[str, ...]
    note: str = ""
