"""Pairs of samples of two loaders, read again and compared: their values, inputs of transforms, and files."""

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
from dataguard.targets.variants import Loader

DRAWS = (0, 1, 2, 3)
"""The generator states in which a sample is read: in one of them, augmentation may leave it unchanged."""


Digests = tuple[tuple[str, bytes], ...]
"""The digest of each leaf of a sample, by path."""


@dataclass(frozen=True, slots=True)
class SamplePair:
    """An index of the earlier split and one of this split, which have something in common.

    `same`: their content is equal, and too rich for a coincidence; `identical`: all their leaves are equal, including
    labels, however small; `file` is a file that both are read from.
    """

    earlier: Index
    index: Index
    same: bool
    identical: bool
    file: str | None


def run_pairs(
    builds: tuple[Callable[[], Loader], Callable[[], Loader]],
    folder: Path,
    pairs: Sequence[tuple[Index, Index]],
    controls: tuple[Index, Index],
) -> Mapping[tuple[Index, Index], SamplePair]:
    """Read the samples of each pair, and compare their content; `controls` are other samples of each split.

    Content that several samples of a split share identifies none of them.
    """
    seen = []
    for place, (build, control) in enumerate(zip(builds, controls, strict=True)):
        wanted = list(dict.fromkeys([*(pair[place] for pair in pairs), *([] if control is None else [control])]))
        found = _contents(build(), folder, wanted)
        common = _common(found.values())
        seen.append({index: content.without(common) for index, content in found.items()})
    one, two = seen
    compared = {}
    for earlier, index in pairs:
        if earlier in one and index in two:
            files = one[earlier].files & two[index].files
            same = bool(one[earlier].contents & two[index].contents)
            identical = bool(one[earlier].digests & two[index].digests)
            compared[earlier, index] = SamplePair(earlier, index, same, identical, min(files, default=None))
    return compared


@dataclass(frozen=True, slots=True)
class _Content:
    """Digests of a sample's largest array and of its transforms' inputs, and its files.

    `digests` are those of all its leaves.
    """

    contents: frozenset[bytes] = frozenset()
    files: frozenset[str] = frozenset()
    digests: frozenset[Digests] = frozenset()

    def without(self, other: _Content) -> _Content:
        """What only this sample has."""
        return _Content(self.contents - other.contents, self.files - other.files, self.digests)


def _common(found: Collection[_Content]) -> _Content:
    """What several samples of a split have in common."""
    contents = Counter(chain.from_iterable(content.contents for content in found))
    files = Counter(chain.from_iterable(content.files for content in found))
    shared = frozenset(content for content, times in contents.items() if times > 1)
    return _Content(shared, frozenset(file for file, times in files.items() if times > 1))


def _contents(loader: Loader, folder: Path, indices: Sequence[Index]) -> dict[Index, _Content]:
    reader = Reader(loader, folder)
    contents: dict[Index, set[bytes]] = {index: set() for index in indices}
    files: dict[Index, set[str]] = {index: set() for index in indices}
    digests: dict[Index, frozenset[Digests]] = {}
    for index in indices:
        with watched(functools.partial(_note, files[index])):
            samples = [_read(reader, index, draw) for draw in DRAWS]
        digests[index] = frozenset(_digests(sample) for sample in samples if sample is not None)
        arrays = [largest_of(leaf for _, leaf in iter_leaves(sample)) for sample in samples]
        contents[index] = {digest_of(found) for found in arrays if found is not None and is_rich(found)}
    received: set[bytes] = set()
    for state, name, value in callables_of(loader.dataset, by_type):
        if not isinstance(value, Dataset | DataLoader):
            state[name] = _RecordingTransform(value, received)
    for index in indices:
        received.clear()
        _read(reader, index, 0)
        contents[index] |= received
    return {index: _Content(frozenset(contents[index]), frozenset(files[index]), digests[index]) for index in indices}


def _digests(sample: Any) -> Digests:
    return tuple((leaf.path, leaf.digest) for leaf in leaves_of(sample))


def _note(files: set[str], path: str) -> bool:
    files.add(path)
    return False


def _read(reader: Reader, index: Index, draw: int) -> Any:
    try:
        return reader.read(index, draw)
    except LoaderFailed:  # it cannot be read, or not with replaced transforms
        return None


def digest_of(content: np.ndarray) -> bytes:
    """A digest of the bytes of an array, whatever its dtype and shape."""
    return hashlib.blake2b(content.tobytes(), digest_size=16).digest()


class _RecordingTransform:
    """Replaces a transform, and records its inputs."""

    def __init__(self, inner: Callable[..., Any], received: set[bytes]) -> None:
        self._inner = inner
        self._received = received

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(Exception):  # any input is the transform's business
            given = (bytes_of(leaf) for _, leaf in iter_leaves([args, kwargs]))
            self._received.update(digest_of(one) for one in given if one is not None and is_rich(one))
        return self._inner(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
