"""Windows of tokens in two splits that hold the same text, wherever they begin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dataguard.lab.core.index import Index
from dataguard.lab.core.records import LeafRecord
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.spy.content_hashes import FEWEST_TOKENS, shingles_of
from dataguard.lab.subject import Subject
from dataguard.targets.variants import Loader

WINDOWS, ALL_WINDOWS = 256, 20_000
"""How many samples of each split are read, and how many if every sample is requested."""
FEWEST, VARIED = 64, 0.1
"""The fewest different shingles of a split, and their least share: others are a pattern, and no text."""
SAME, FEW = 0.8, 4
"""The share of the shingles of a window, of which there are so many at least, that make it text of the other split."""

Shingles = Mapping[Index, Sequence[int]]


@dataclass(frozen=True, slots=True)
class SharedText:
    """How many `windows` of a split, `of` those that were read, are text of another one; and the first `pair`.

    The pair holds an index of this split and one of the other.
    """

    windows: int
    of: int
    pair: tuple[Index, Index] | None


def shared_text(subject: Subject, other: Subject) -> SharedText | None:
    """The text that two splits have in common; None if a split has no tokens, or they are no text."""
    if not (_has_tokens(subject) and _has_tokens(other)):
        return None
    own, theirs = _shingles(subject), _shingles(other)
    if not (_is_text(own) and _is_text(theirs)):
        return None
    places = {shingle: index for index, shingles in theirs.items() for shingle in shingles}
    windows = {index: shingles for index, shingles in own.items() if len(shingles) >= FEW}
    shared = {
        index: known[0]
        for index, shingles in windows.items()
        if len(known := [places[shingle] for shingle in shingles if shingle in places]) >= SAME * len(shingles)
    }
    return SharedText(len(shared), len(windows), next(iter(shared.items()), None))


def _has_tokens(subject: Subject) -> bool:
    return any(_is_tokens(sample.leaves) for sample in subject.epoch.samples[:1])


def _is_tokens(leaves: Sequence[LeafRecord]) -> bool:
    """Whether a sample holds a long row of integers."""
    rows = [leaf for leaf in leaves if len(leaf.shape or ()) == 1 and "int" in (leaf.dtype or "")]
    listed = sum(leaf.kind == "int" for leaf in leaves)
    return max((leaf.size for leaf in rows), default=listed) >= FEWEST_TOKENS


def _is_text(shingles: Shingles) -> bool:
    every = [shingle for each in shingles.values() for shingle in each]
    return len(set(every)) >= max(FEWEST, VARIED * len(every))


def _shingles(subject: Subject) -> Shingles:
    indices = subject.epoch.asked(ALL_WINDOWS if subject.settings.all else WINDOWS)
    subject.afford_reads("shingles", len(indices))
    found: Shingles = subject.vary("shingles", lambda folder: _read(subject.build, folder, indices))
    return found


def _read(build: Callable[..., Loader], folder: Path, indices: Sequence[Index]) -> Shingles:
    reader = Reader(build(), folder)
    return {index: shingles_of(reader.read(index)) for index in indices}
