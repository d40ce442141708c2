"""What samples of two splits have in common: equal content, similar images, the same text, or the same series.

Pairs of samples that may be one are read again, and their values, the inputs of their transforms and their files are
compared. Images that were saved again at another quality or size are similar, but not equal: a small grey copy of each
file is compared with all others, and counts only if similarity is rare, because digits and video frames are similar
within a split as well. Windows of tokens or of a series may begin anywhere, so parts of them are compared.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice, product
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from xxhash import xxh3_64_intdigest

from dataguard.core.incident import LoaderFailed
from dataguard.lab.core.leaves import array_of, iter_leaves, leaves_of
from dataguard.lab.core.loader_facts import by_type, callables_of
from dataguard.lab.core.records import Index
from dataguard.lab.decoding.image_files import small_grey
from dataguard.lab.provenance.altered_values import CELLS, Cell
from dataguard.lab.provenance.reads_seen import ReadLog, merged
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rows.origins import Read
from dataguard.lab.rows.rows_changed import values_of
from dataguard.lab.splits.stored_contents import StoredContents
from dataguard.lab.spy.sample_ledger import bytes_of, is_rich, largest_of
from dataguard.lab.subject import Subject
from dataguard.process.originals import time
from dataguard.targets.variants import Loader

PAIR_DRAWS = (0, 1, 2, 3)
"""The generator states in which a sample is read: in one of them, augmentation may leave it unchanged. A flip with
probability 0.5 does in 15 of 16 cases."""


Observe = Callable[[object, Callable[[Callable[[], Loader], Path], Any]], Any]
"""Runs a function, after a key, with what builds the loader of a split, and a folder, in a separate process."""
Digests = tuple[tuple[str, bytes], ...]
"""The digest of each leaf of a sample, by path."""


@dataclass(frozen=True, slots=True)
class SamplePair:
    """An index of the earlier split and one of this split, which have something in common.

    `same`: their content is equal, and too rich for a coincidence; `identical`: all their leaves are equal, including
    labels, however small; `file` is a file that both are read from, or that of which the sample of this split reads the
    `copy`.
    """

    earlier: Index
    index: Index
    same: bool
    identical: bool
    file: str | None
    copy: str | None = None


def compare_pairs(
    sides: tuple[Observe, Observe], pairs: Sequence[tuple[Index, Index]], controls: tuple[Index, Index], parted: int
) -> Mapping[tuple[Index, Index], SamplePair]:
    """Read the samples of each pair, and compare their content; `controls` are other samples of each split.

    Content that several samples of a split share identifies none of them. Where contents differ, as after random crops,
    and both read one file or row, it is changed part by part, for so many pairs: `parted`. A side is what observes one
    of the splits, as a file may be open only once in a process.
    """
    contents: list[Mapping[Index, Content]] = []
    for side, (observe, control) in enumerate(zip(sides, controls, strict=True)):
        wanted = list(dict.fromkeys([*(pair[side] for pair in pairs), *([] if control is None else [control])]))
        read = observe(("contents", *wanted), partial(read_contents, indices=wanted))
        common = _common(read.values())
        contents.append({index: content.without(common) for index, content in read.items()})
    one, two = contents
    read_both = [pair for pair in pairs if pair[0] in one and pair[1] in two]
    unlike = [pair for pair in read_both if not one[pair[0]].contents & two[pair[1]].contents]
    shared = {pair: one[pair[0]].reads.keys() & two[pair[1]].reads.keys() for pair in read_both}
    parts: list[Mapping[Index, frozenset[Cell]]] = []
    for side, observe in enumerate(sides):
        sources = {
            pair[side]: tuple(dict.fromkeys(contents[side][pair[side]].reads[name] for name in sorted(shared[pair])))
            for pair in [pair for pair in unlike if shared[pair]][:parted]
        }
        parts.append(observe(("parts", *sources), partial(find_parts, sources=sources)) if sources else {})
    compared = {}
    for pair in read_both:
        earlier, index = pair
        same = pair not in unlike
        source, copy = min(((one[earlier].reads[name], two[index].reads[name]) for name in shared[pair]), default=_NONE)
        used = [found.get(place, frozenset()) for found, place in zip(parts, pair, strict=True)]
        if not same and all(used):
            both = len(used[0] & used[1])
            same = both > SAME_PARTS * min(map(len, used))
            source, copy = (source, copy) if both else _NONE
        identical = bool(one[earlier].digests & two[index].digests)
        compared[pair] = SamplePair(earlier, index, same, identical, source, None if copy == source else copy)
    return compared


_NONE: tuple[None, None] = (None, None)
"""The file of a pair that reads none in common, and its copy."""


PARTS: tuple[Cell, ...] = tuple((row, column) for row in range(CELLS) for column in range(CELLS))
PART_DRAWS = (0, 1)
"""The generator states in which parts are changed: two crops cover more of an image than one."""
PART_READS = len(PART_DRAWS) * (len(PARTS) + 1)
"""How many times a sample is read to find on which parts of a file it depends."""
SAME_PARTS = 0.5
"""The share of the parts that both samples of a pair use, of those that one of them does, above which both are one
sample: halves of an image share none, and thirds half of theirs, as a part in the middle is cut by their border."""


def find_parts(
    build: Callable[[], Loader], folder: Path, sources: Mapping[Index, Collection[str]]
) -> Mapping[Index, frozenset[Cell]]:
    """The parts of these sources on which the largest leaf of each sample depends; none if it depends on others."""
    reader, log = Reader(build(), folder), ReadLog()
    found: dict[Index, set[Cell]] = {index: set() for index in sources}
    for index, draw in product(sources, PART_DRAWS):
        with log.recorded():
            base = _largest_leaf(_read(reader, index, draw))
        units = np.array([number for number, unit in enumerate(log.units) if unit.source in sources[index]])
        for part in PARTS if len(units) else ():
            with log.changed(units, cell=part), log.recorded():
                other = _largest_leaf(_read(reader, index, draw))
            if not np.array_equal(other, base):
                found[index].add(part)
    return {index: frozenset(parts) for index, parts in found.items()}


def _largest_leaf(sample: Any) -> np.ndarray:
    """A copy of the largest leaf of a sample."""
    return max(values_of(sample).values(), key=lambda value: value.nbytes, default=np.empty(0))


@dataclass(frozen=True, slots=True)
class Content:
    """Digests of a sample's largest array and of its transforms' inputs, and what is read for it in every state.

    `reads` are sources by what identifies them: their name and rows, and the content of files. `digests` are those of
    all its leaves.
    """

    contents: frozenset[bytes] = frozenset()
    reads: Mapping[str, str] = field(default_factory=dict)
    digests: frozenset[Digests] = frozenset()

    def without(self, other: Content) -> Content:
        """What only this sample has."""
        reads = {name: source for name, source in self.reads.items() if name not in other.reads}
        return Content(self.contents - other.contents, reads, self.digests)


def _common(found: Collection[Content]) -> Content:
    """What several samples of a split have in common."""
    contents = Counter(chain.from_iterable(content.contents for content in found))
    reads = Counter(chain.from_iterable(content.reads for content in found))
    shared = frozenset(content for content, times in contents.items() if times > 1)
    return Content(shared, {name: name for name, times in reads.items() if times > 1})


def read_contents(build: Callable[[], Loader], folder: Path, indices: Sequence[Index]) -> Mapping[Index, Content]:
    """Read samples in some generator states, and once with recorded transforms."""
    reader, log = Reader(build(), folder), ReadLog()
    stored = StoredContents(reader.dataset)
    contents: dict[Index, set[bytes]] = {index: set() for index in indices}
    reads: dict[Index, Mapping[str, str]] = {}
    digests: dict[Index, frozenset[Digests]] = {}
    for index in indices:
        samples, states = [], []
        for draw in PAIR_DRAWS:
            with log.recorded():
                samples.append(_read(reader, index, draw))
            states.append(frozenset(merged(log.reads)))
        steady = frozenset.intersection(*(states if all(states) else states[:1]))  # a cached sample reads nothing
        reads[index] = {name: read.source for read in steady for name in names_of(read, stored)}
        digests[index] = frozenset(_digests(sample) for sample in samples if sample is not None)
        arrays = [largest_of(leaf for _, leaf in iter_leaves(sample)) for sample in samples]
        contents[index] = {digest_of(found) for found in arrays if found is not None and is_rich(found)}
    with inputs_of_transforms(reader.dataset) as received:
        for index in indices:
            received.clear()
            _read(reader, index, 0)
            contents[index] |= {digest_of(content) for content in received}
    return {index: Content(frozenset(contents[index]), reads[index], digests[index]) for index in indices}


def unit_of(read: Read) -> str:
    """The source and rows of a read as text."""
    rows = f"[{','.join(map(str, read.rows))}]" if read.rows else ""
    return f"{read.name}{rows}{read.part}"


def names_of(read: Read, stored: StoredContents) -> Iterator[str]:
    """What identifies a read: its source and rows; and the content that is stored there, which may be a copy."""
    yield unit_of(read)
    if read.file is not None and (content := stored.of(unit_of(read))):  # neither unknown nor poor
        yield f"content {content}"


@contextlib.contextmanager
def inputs_of_transforms(dataset: Any) -> Iterator[list[np.ndarray]]:
    """Collect the rich inputs of the transforms of a dataset, which are replaced meanwhile."""
    received: list[np.ndarray] = []
    replaced = [
        (state, name, value)
        for state, name, value in callables_of(dataset, by_type)
        if not isinstance(value, Dataset | DataLoader)
    ]
    for state, name, value in replaced:
        state[name] = _RecordingTransform(value, received)
    try:
        yield received
    finally:
        for state, name, value in replaced:
            state[name] = value


def _digests(sample: Any) -> Digests:
    return tuple((leaf.path, leaf.digest) for leaf in leaves_of(sample))


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

    def __init__(self, inner: Callable[..., Any], received: list[np.ndarray]) -> None:
        self._inner = inner
        self._received = received

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(Exception):  # any input is the transform's business
            given = (bytes_of(leaf) for _, leaf in iter_leaves([args, kwargs]))
            self._received.extend(one for one in given if one is not None and is_rich(one))
        return self._inner(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


THUMBNAIL_SIDE = 16
"""The side of a thumbnail in pixels: larger distinguishes more images, and is changed more by saving them again."""
LEAST_DEVIATION = 8.0
"""The standard deviation of the gray levels, 0 to 255, below which an image is too uniform to be identified: the noise
of its compression would decide."""
NEAR_CORRELATION = 0.998
"""The least correlation between two thumbnails of one photograph.

Photographs saved at half their size, as JPEG of quality 50, exceed it; cropped by 5 %, they do not.
"""
MOST_IMAGES = 10_000
"""Images of a split that are compared: a limit of time, as each is compared with all others."""
RARE_RATIO = 5
"""How many times more often images must be similar between two splits than within one: smaller finds duplicates of data
that repeats itself, larger fewer look-alikes."""
_ROWS_AT_ONCE = 256
"""Images that are compared with all others at once: 10 MB of correlations with 10,000 of them."""


@dataclass(frozen=True, slots=True)
class NearDuplicates:
    """How many images of a split, `of` how many, are similar to one of an earlier split, and the first pair."""

    count: int
    of: int
    earlier: str
    own: str


@dataclass(frozen=True, slots=True)
class Thumbnails:
    """Small copies of image files, each with mean 0 and norm 1: (images, 256), float32; and the files' names."""

    names: tuple[str, ...]
    copies: np.ndarray


def thumbnails_of(files: Iterable[str], seconds: float) -> Thumbnails:
    """Thumbnails of the image files that Pillow or OpenCV, whichever is imported, reads in so many seconds."""
    until = time.monotonic() + seconds
    names: list[str] = []
    copies: list[np.ndarray] = []
    for name in islice(files, MOST_IMAGES):
        if time.monotonic() > until:
            break
        copy = small_grey(name, THUMBNAIL_SIDE)
        if copy is not None and copy.std() >= LEAST_DEVIATION:
            grey = copy.astype(np.float32).reshape(-1)
            even = grey - grey.mean()
            names.append(name)
            copies.append(even / np.linalg.norm(even))
    return Thumbnails(tuple(names), np.array(copies, np.float32).reshape(-1, THUMBNAIL_SIDE * THUMBNAIL_SIDE))


def near_duplicates(earlier: Thumbnails, own: Thumbnails) -> NearDuplicates | None:
    """The images of a split that are similar to one of an earlier split.

    None without any, or if images of one split are just as similar to each other.
    """
    pairs = list(_pairs(earlier, own))
    within = sum(len(list(_pairs(thumbnails, thumbnails))) for thumbnails in (earlier, own)) / 2
    possible = sum(len(thumbnails.names) * (len(thumbnails.names) - 1) for thumbnails in (earlier, own)) / 2
    expected = within / max(possible, 1) * len(earlier.names) * len(own.names)
    if not pairs or len(pairs) <= RARE_RATIO * expected:
        return None
    return NearDuplicates(len({two for _, two in pairs}), len(own.names), *pairs[0])


def _pairs(one: Thumbnails, two: Thumbnails) -> Iterator[tuple[str, str]]:
    """The names of different files whose thumbnails are similar."""
    for start in range(0, len(one.names), _ROWS_AT_ONCE):
        rows, columns = np.nonzero(one.copies[start : start + _ROWS_AT_ONCE] @ two.copies.T >= NEAR_CORRELATION)
        named = ((one.names[start + row], two.names[column]) for row, column in zip(rows, columns, strict=True))
        yield from (pair for pair in named if pair[0] != pair[1])


MOST_WINDOWS = 256
"""How many samples of each split are read: a limit of time."""
RUN_STEPS = 4
"""Steps in a row that two windows share only if they are of one series; all of them differ. Floats of one sensor repeat
singly, and seldom in a row."""
SHORTEST_WINDOW, LONGEST_WINDOW = 12, 512
"""The steps of a window: the fewest, which hold nine runs, and the most that are compared, a limit of time."""
SHARED_RUNS = 0.5
"""The share of the runs of a window that another split has: smaller finds shorter overlaps, larger ignores more of
those that a window needs as its past."""

Runs = Sequence[int | None]
"""The digest of the run that begins at each step; None if its steps do not all differ."""


@dataclass(frozen=True, slots=True)
class SharedSeries:
    """How many `windows` of a split, `of` those that were read, lie inside the series of another one; and a `pair`.

    The pair holds an index of this split and one of the other, whose windows begin so many steps apart: `shift`.
    """

    windows: int
    of: int
    pair: tuple[Index, Index] | None = None
    shift: int = 0


def shared_series(subject: Subject, other: Subject) -> SharedSeries:
    """The windows whose end has a successor in the other split: those that follow on it, as in time, have none."""
    own, theirs = _windows(subject), _windows(other)
    inside = {run: (index, step) for index, runs in theirs.items() for step, run in enumerate(runs[:-1]) if run}
    known = inside.keys() | {runs[-1] for runs in theirs.values() if runs and runs[-1]}
    if len(known) < len(theirs):  # a pattern that repeats
        return SharedSeries(0, len(own))
    shared = {
        index: runs
        for index, runs in own.items()
        if runs and runs[-1] in inside and sum(run in known for run in runs if run) >= SHARED_RUNS * len(runs)
    }
    for index, runs in shared.items():
        earlier, step = inside[runs[-1] or 0]
        return SharedSeries(len(shared), len(own), (index, earlier), abs(len(runs) - 1 - step))
    return SharedSeries(0, len(own))


def _windows(subject: Subject) -> Mapping[Index, Runs]:
    if not any(_is_series(leaf.shape, leaf.dtype) for sample in subject.epoch.samples[:1] for leaf in sample.leaves):
        return {}
    indices = subject.epoch.asked(MOST_WINDOWS)
    subject.afford_reads("series", len(indices))
    found: Mapping[Index, Runs] = subject.observe(
        "series", lambda folder: _read_series_windows(subject.build, folder, indices)
    )
    return found


def _is_series(shape: Sequence[int] | None, dtype: Any) -> bool:
    return shape is not None and len(shape) in (1, 2) and max(shape) >= SHORTEST_WINDOW and "float" in str(dtype)


def _read_series_windows(build: Callable[..., Loader], folder: Path, indices: Sequence[Index]) -> Mapping[Index, Runs]:
    reader = Reader(build(), folder)
    return {index: _runs(reader.read(index)) for index in indices}


def _runs(sample: Any) -> Runs:
    """The runs of the largest series of a sample, along its longer axis."""
    leaves = (leaf for _, leaf in iter_leaves(sample) if isinstance(leaf, Tensor | np.ndarray))
    series = [array_of(leaf) for leaf in leaves if _is_series(leaf.shape, leaf.dtype)]
    if not series:
        return ()
    largest = max(series, key=lambda array: array.size)
    rows = largest.T if largest.ndim == 2 and largest.shape[0] < largest.shape[1] else largest
    steps = [row.tobytes() for row in np.ascontiguousarray(rows[:LONGEST_WINDOW])]
    runs = (steps[start : start + RUN_STEPS] for start in range(len(steps) - RUN_STEPS + 1))
    return [xxh3_64_intdigest(b"".join(run)) if len(set(run)) == RUN_STEPS else None for run in runs]
