"""Pairs of samples of two loaders, read again and compared: what they are, and what they are made of."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import DataLoader, Dataset

from dataguard.incident import LoaderFailed
from dataguard.lab.core.index import Index
from dataguard.lab.core.leaves import iter_leaves, leaves_of
from dataguard.lab.core.wrapped_datasets import by_type, callables_of
from dataguard.lab.decoding.file_opens import watched
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.spy.content_hashes import bytes_of, is_rich, largest_of
from dataguard.target.variants import Loader

DRAWS = (0, 1, 2, 3)
"""The states of the generators in which a sample is read: in one of them, augmentation may leave it as it is."""


Digests = tuple[tuple[str, bytes], ...]
"""The digest of each leaf of a sample, by its path."""


@dataclass(frozen=True, slots=True)
class Pair:
    """An index of the earlier split and one of this, of which something is equal.

    `same` tells that their content is, and that it says so much that this is no chance; `wholly` that all they hold is
    equal, labels included, however little that is; and `file` names one that both are made of.
    """

    earlier: Index
    index: Index
    same: bool
    wholly: bool
    file: str | None


def run_pairs(
    builds: tuple[Callable[[], Loader], Callable[[], Loader]],
    folder: Path,
    pairs: Sequence[tuple[Index, Index]],
    controls: tuple[Index, Index],
) -> Mapping[tuple[Index, Index], Pair]:
    """Read the samples of each pair, and compare what they are made of; `controls` are others of each split.

    What several samples of a split have tells none of them.
    """
    seen = []
    for place, (build, control) in enumerate(zip(builds, controls, strict=True)):
        wanted = list(dict.fromkeys([*(pair[place] for pair in pairs), *([] if control is None else [control])]))
        looks = _looks(build(), folder, wanted)
        common = _common(looks.values())
        seen.append({index: look.without(common) for index, look in looks.items()})
    one, two = seen
    found = {}
    for earlier, index in pairs:
        if earlier in one and index in two:
            files = one[earlier].files & two[index].files
            same = bool(one[earlier].contents & two[index].contents)
            wholly = bool(one[earlier].wholes & two[index].wholes)
            found[earlier, index] = Pair(earlier, index, same, wholly, min(files, default=None))
    return found


@dataclass(frozen=True, slots=True)
class _Look:
    """What one sample is made of: digests of its largest array and of what its transforms are given, and its files.

    `wholes` are digests of all that it holds.
    """

    contents: frozenset[bytes] = frozenset()
    files: frozenset[str] = frozenset()
    wholes: frozenset[Digests] = frozenset()

    def without(self, other: _Look) -> _Look:
        """What belongs to this sample alone."""
        return _Look(self.contents - other.contents, self.files - other.files, self.wholes)


def _common(looks: Collection[_Look]) -> _Look:
    """What several samples of a split have."""
    contents = Counter(chain.from_iterable(look.contents for look in looks))
    files = Counter(chain.from_iterable(look.files for look in looks))
    shared = frozenset(content for content, times in contents.items() if times > 1)
    return _Look(shared, frozenset(file for file, times in files.items() if times > 1))


def _looks(loader: Loader, folder: Path, indices: Sequence[Index]) -> dict[Index, _Look]:
    reader = Reader(loader, folder)
    contents: dict[Index, set[bytes]] = {index: set() for index in indices}
    files: dict[Index, set[str]] = {index: set() for index in indices}
    wholes: dict[Index, frozenset[Digests]] = {}
    for index in indices:
        with watched(functools.partial(_note, files[index])):
            samples = [_read(reader, index, draw) for draw in DRAWS]
        wholes[index] = frozenset(_digests(sample) for sample in samples if sample is not None)
        arrays = [largest_of(leaf for _, leaf in iter_leaves(sample)) for sample in samples]
        contents[index] = {digest_of(found) for found in arrays if found is not None and is_rich(found)}
    heard: set[bytes] = set()
    for state, name, value in callables_of(loader.dataset, by_type):
        if not isinstance(value, Dataset | DataLoader):
            state[name] = _Hearing(value, heard)
    for index in indices:
        heard.clear()
        _read(reader, index, 0)
        contents[index] |= heard
    return {index: _Look(frozenset(contents[index]), frozenset(files[index]), wholes[index]) for index in indices}


def _digests(sample: Any) -> Digests:
    return tuple((leaf.path, leaf.digest) for leaf in leaves_of(sample))


def _note(files: set[str], path: str) -> bool:
    files.add(path)
    return False


def _read(reader: Reader, index: Index, draw: int) -> Any:
    try:
        return reader.read(index, draw)
    except LoaderFailed:  # it cannot be read, or not with something else in the place of its transforms
        return None


def digest_of(content: np.ndarray) -> bytes:
    """A digest of the bytes of an array, whatever its type and shape."""
    return hashlib.blake2b(content.tobytes(), digest_size=16).digest()


class _Hearing:
    """Stands in for a transform, and notes what it is given."""

    def __init__(self, inner: Callable[..., Any], heard: set[bytes]) -> None:
        self._inner = inner
        self._heard = heard

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(Exception):  # whatever it is given, it is the transform's business
            given = (bytes_of(leaf) for _, leaf in iter_leaves([args, kwargs]))
            self._heard.update(digest_of(one) for one in given if one is not None and is_rich(one))
        return self._inner(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
