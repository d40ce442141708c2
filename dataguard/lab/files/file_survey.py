"""The files that samples are read from, and samples read with other files in place of their own.

A survey reads samples only until their last file is passed to a decoder, so that hundreds of files are known in the
time that decoding a few of them takes. `SwappedFileReader` then reads single samples with one file replaced, each read
in a fork of its own, so that nothing an earlier read has cached is used. What it compares in a sample is given to it as
a function: `image_leaf` for images, `values_of` in `lab.sound` for sound.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch.utils.data.dataloader import default_collate

from dataguard.core.model import NotApplicable, Undecided
from dataguard.lab.core.leaves import array_of, describe, iter_leaves
from dataguard.lab.core.records import Index, streamed
from dataguard.lab.culprit.line_trace import LineTrace, Look
from dataguard.lab.decoding.file_substitution import (
    OPEN_ATTEMPTS,
    DecodedFile,
    EnoughFiles,
    FileSubstitution,
    Media,
    opens_of,
)
from dataguard.lab.decoding.image_files import Header
from dataguard.lab.process.endless_reads import one_read
from dataguard.lab.process.incidents import FlightRecorder
from dataguard.lab.process.isolation import in_fork
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.sample_reader import Reader, collated_alone
from dataguard.lab.rng.rng_discovery import SEED, seeded
from dataguard.lab.subject import Subject
from dataguard.process.originals import time
from dataguard.targets.variants import Loader

T = TypeVar("T")
H = TypeVar("H")
"""The header of a file."""
P = TypeVar("P")
"""What is compared of a leaf, such as its pixels."""
SampleIndex = Any
"""The index of a sample, or its position in a stream."""
FEWEST_WITHOUT_FILES = 8
"""After this many samples without any file, the others are assumed to have none either.

More find files that only later samples have; each is one more whole read of a loader without files. One is enough if no
module with a decoder is imported then.
"""
MOST_STREAM_SAMPLES = 24
"""How many samples of a stream are read: each must be read completely, which takes as long as training on it."""
BUDGET_SHARE = 0.02
"""The share of the budget after which no more samples are read: 1.2 s of the default 60."""
FULLY_READ = 2
"""How many samples are read completely, to find out how many files one has: the most of two, as one may be missing."""


@dataclass(frozen=True, slots=True)
class SampleFiles(Generic[H]):
    """The files of one sample, in the order in which they were first decoded."""

    index: SampleIndex
    decoded: tuple[DecodedFile[H], ...]


@dataclass(frozen=True, slots=True)
class MediaFile(Generic[H]):
    """A file of a sample, and its position among the files of that sample."""

    index: SampleIndex
    position: int
    name: str
    header: H


@dataclass(frozen=True, slots=True)
class FileSurvey(Generic[H]):
    """The files of some samples, and the decoder modules that were imported.

    `asked` is how many samples should have been read; there are fewer `samples` if time ran out.
    """

    samples: tuple[SampleFiles[H], ...]
    modules: tuple[str, ...]
    asked: int

    def need_all(self) -> None:
        """Raise Undecided if time ran out before all samples were read."""
        if len(self.samples) < self.asked:
            few = f"no such file found in {len(self.samples)} of {self.asked} samples"
            raise Undecided(f"{few}: raise --budget to look at more")

    @property
    def files(self) -> list[MediaFile[H]]:
        """The files whose headers could be read, each once."""
        by_name: dict[str, MediaFile[H]] = {}
        for sample in self.samples:
            for position, file in enumerate(sample.decoded):
                if file.header is not None:
                    by_name.setdefault(file.name, MediaFile(sample.index, position, file.name, file.header))
        return list(by_name.values())

    def of_samples(self, position: int) -> list[MediaFile[H]]:
        """The file at this position of each sample, if its header could be read; samples may share one."""
        decoded = [
            (sample.index, sample.decoded[position]) for sample in self.samples if position < len(sample.decoded)
        ]
        return [
            MediaFile(index, position, file.name, file.header) for index, file in decoded if file.header is not None
        ]

    def others(self, file: MediaFile[H]) -> list[H]:
        """The headers of the other files in the sample of a file."""
        (sample,) = (sample for sample in self.samples if sample.index == file.index)
        return [other.header for other in sample.decoded if other.header is not None and other.name != file.name]


ImageFile = MediaFile[Header]
ImageSurvey = FileSurvey[Header]


def survey_files(
    build: Callable[[], Loader], folder: Path, indices: Sequence[Index], seconds: float, media: Media[H]
) -> FileSurvey[H]:
    """Read samples until their files are known, in this disposable process."""
    substitution = FileSubstitution(folder, media)
    substitution.install()
    loader = build()
    reader = Reader(loader, folder)
    samples: list[SampleFiles[H]] = []
    whole = False
    with seeded(SEED):
        started = time.monotonic()
        for index in _reads(loader, reader, indices, substitution):
            if not samples:  # the first one imports and compiles what the others use
                started = time.monotonic()
            samples.append(SampleFiles(index, tuple(substitution.files)))
            substitution.install()  # it may have imported decoders
            decodes = any(decoder.module in sys.modules for decoder in media.decoders)
            without = FEWEST_WITHOUT_FILES if decodes else 1
            if len(samples) >= without and not any(sample.decoded for sample in samples):
                break
            if substitution.enough and not samples[-1].decoded:
                # Stopping a read has ended a generator that the dataset holds: from now on samples are read whole.
                reader.dataset, whole, substitution.enough = build().dataset, True, None
            elif substitution.stopped and substitution.enough is None:
                whole = True
            elif len(samples) >= FULLY_READ and indices and not whole:
                substitution.enough = max(len(sample.decoded) for sample in samples) or None
            if time.monotonic() - started > seconds:
                break
    modules = dict.fromkeys(decoder.module for decoder in media.decoders if decoder.module in sys.modules)
    kept = _without_preparation(samples)
    return FileSurvey(tuple(kept), tuple(modules), max(len(indices) - (len(samples) - len(kept)), 0))


def _without_preparation(samples: list[SampleFiles[H]]) -> list[SampleFiles[H]]:
    """Without the first sample if it decodes more files than any other: it may have read what all of them share."""
    counts = [len(sample.decoded) for sample in samples]
    return samples[1:] if len(counts) > FULLY_READ and counts[0] > max(counts[1:]) else samples


def _reads(
    loader: Loader, reader: Reader, indices: Sequence[Index], substitution: FileSubstitution[Any]
) -> Iterator[SampleIndex]:
    """Read sample after sample, and yield the index after each. Errors of single samples are ignored."""
    if not indices:
        with suppress(Exception):
            for position, _ in enumerate(islice(streamed(loader.dataset), MOST_STREAM_SAMPLES)):
                yield position
                substitution.files.clear()
        return
    for index in indices:
        substitution.files.clear()
        substitution.stopped = False
        with suppress(EnoughFiles, Exception):
            reader.dataset[index]
        if substitution.stopped and substitution.enough is None:  # it was caught, and others were read instead
            substitution.files.clear()
            with suppress(Exception):
                reader.dataset[index]
        yield index


def survey_build(build: Callable[[], Loader], folder: Path, media: Media[H]) -> tuple[FileSurvey[H], float]:
    """The files that are decoded while a loader is built, and the seconds that this takes.

    The first file is taken for that of sample 0, and so on: who replaces one has to see that the sample follows it.
    """
    substitution = FileSubstitution(folder, media)
    substitution.install()
    started = time.monotonic()
    build()
    seconds = time.monotonic() - started
    files = [file for file in substitution.files if file.header is not None]
    samples = tuple(SampleFiles(index, (file,)) for index, file in enumerate(files))
    modules = dict.fromkeys(decoder.module for decoder in media.decoders if decoder.module in sys.modules)
    return FileSurvey(samples, tuple(modules), len(samples)), seconds


class Bypassed(NotApplicable):
    """A file that should have been replaced was opened each time, perhaps by observations that run beside this one."""


class NotOpened(Undecided):
    """A sample does not open the file that should have been replaced."""


@dataclass(frozen=True, slots=True)
class SampleOutput(Generic[H, P]):
    """One read of a sample: the leaves that are compared, the digests of all, and the files that were decoded.

    Leaves are by path, and `root` is the start of paths. `substituted` says whether the replaced file was among the
    files, and `by_path` whether its decoder got another path.
    """

    root: str
    shown: dict[str, P]
    digests: dict[str, bytes]
    files: tuple[DecodedFile[H], ...]
    contents: tuple[bytes, ...]
    substituted: bool
    by_path: bool

    def content(self, file: MediaFile[H]) -> bytes:
        """The content of a file. Raises Undecided if it was not decoded this time."""
        return self.contents[self._position(file)]

    def name(self, file: MediaFile[H]) -> str:
        """The name of a file this time. Raises Undecided if it was not decoded."""
        return self.files[self._position(file)].name

    def beside(self, file: MediaFile[H]) -> list[tuple[MediaFile[H], bytes]]:
        """The other files of the sample with a header, and their contents."""
        own = self.name(file)
        return [
            (MediaFile(file.index, position, other.name, other.header), content)
            for position, (other, content) in enumerate(zip(self.files, self.contents, strict=True))
            if other.header is not None and other.name != own
        ]

    def _position(self, file: MediaFile[H]) -> int:
        """The position of a file: by its name, else where it was before if the header is the same.

        A loader that is rebuilt may write its files again, into another folder.
        """
        names, position = [decoded.name for decoded in self.files], file.position
        if file.name in names:
            return names.index(file.name)
        if position < len(names) and self.files[position].header == file.header:
            return position
        raise Undecided("a second read of the sample uses other files")

    def differing_leaves(self, other: SampleOutput[H, P]) -> set[str]:
        """The leaves that differ between two reads of a sample."""
        paths = {*self.digests, *other.digests}
        return {path for path in paths if self.digests.get(path) != other.digests.get(path)}


class SwappedFileReader(Generic[H, P]):
    """Reads samples of a loader with their own files or with others, each time as if for the first time.

    `read_leaf` is called with the path of a leaf and the leaf, and returns what is compared, or None for other leaves.
    With `rebuild`, the loader is rebuilt for every read, because it decodes its files while it is built.
    """

    def __init__(
        self,
        build: Callable[[], Loader],
        folder: Path,
        modules: Sequence[str],
        media: Media[H],
        read_leaf: Callable[[str, Any], P | None],
        rebuild: Callable[[], Loader] | None = None,
    ) -> None:
        for module in modules:  # which reading a sample imports
            with suppress(Exception):
                importlib.import_module(module)
        self._read_leaf = read_leaf
        self._rebuild = rebuild
        self._substitution = FileSubstitution(folder, media)
        self._substitution.install()
        self.loader = build()
        self._recorder = FlightRecorder(folder)
        Reader(self.loader, folder)  # emulates a worker in this process
        self._reads: dict[SampleIndex, SampleOutput[H, P]] = {}
        self.is_stream = isinstance(self.loader.dataset, torch.utils.data.IterableDataset)

    def warm_up(self, index: SampleIndex) -> None:
        """Read a sample of no interest in this process, so that no fork imports or compiles what reading needs."""
        if not self.is_stream and self._rebuild is None:
            with suppress(Exception):
                self._read(index)

    def read(self, index: SampleIndex) -> SampleOutput[H, P]:
        """A sample with its own files, and their contents. Raises Undecided if the user's code raises."""
        output = in_fork(lambda: self._output(index))
        if output is None:
            raise Undecided("a second read of the sample alone raises")
        self._reads[index] = output
        return output

    def read_swapped(
        self,
        file: MediaFile[H],
        content: bytes,
        other: bytes,
        draw: int = 0,
        beside: Sequence[tuple[MediaFile[H], bytes, bytes]] = (),
    ) -> SampleOutput[H, P]:
        """A sample with the file of this content replaced by another one, under the RNG state of this draw.

        Other files of the sample, `beside` this one, are replaced with it: each has its content, and another one.
        Raises Undecided if the user's code raises, NotOpened if it does not open that file again; Bypassed if the file
        itself is opened as well, in each attempt.
        """
        name = self._name(file)

        def run() -> SampleOutput[H, P]:
            for one, its_content, its_other in ((file, content, other), *beside):
                self._substitution.substitute(self._name(one), its_content, its_other)
            return self._output(file.index, draw)

        for _ in range(OPEN_ATTEMPTS):
            with opens_of(name) as opened:
                output = in_fork(run)
            if output is None:
                raise Undecided("the sample cannot be read with a substitute for its file")
            if not output.substituted:
                raise NotOpened(
                    "in another random state, the sample reads other files"
                    if draw
                    else "a second read of the sample does not open its file, which may be cached"
                )
            if not (opened.seen and output.by_path):
                return output
        raise Bypassed(f"a library opens {Path(name).name} itself, past its decoder, so it cannot be replaced")

    def followed(
        self, file: MediaFile[H], content: bytes, other: bytes, trace: Callable[[Mapping[str, Any]], LineTrace]
    ) -> Sequence[Look]:
        """What a trace of the loader's code sees while a sample is read with other content in its file."""

        def run() -> Sequence[Look]:
            self._substitution.substitute(self._name(file), content, other)
            if self._rebuild is not None:
                self.loader = self._rebuild()
            following = trace({"dataset": self.loader.dataset, "collate_fn": self.loader.collate_fn})
            with following.following():
                self._collated(self._read(file.index))
            return following.looks

        return in_fork(run) or ()

    def _name(self, file: MediaFile[H]) -> str:
        """The name of a file when its sample was last read."""
        before = self._reads.get(file.index)
        return before.name(file) if before else file.name

    def collates(self, indices: Sequence[SampleIndex]) -> bool:
        """Whether collate_fn makes a batch of these samples."""

        def collate() -> bool:
            self.loader.collate_fn([self._read(index) for index in indices])
            return True

        return bool(in_fork(collate))

    def _output(self, index: SampleIndex, draw: int = 0) -> SampleOutput[H, P]:
        substitution = self._substitution
        substitution.keeps = True
        substitution.files.clear()  # what was opened while the loader was built
        if self._rebuild is not None:
            self.loader = self._rebuild()
        root, sample = self._collated(self._read(index, draw))
        leaves = list(iter_leaves(sample))
        shown = {path: part for path, leaf in leaves if (part := self._read_leaf(path, leaf)) is not None}
        digests = {path: describe(path, leaf).digest for path, leaf in leaves}
        return SampleOutput(
            root,
            shown,
            digests,
            tuple(substitution.files),
            tuple(substitution.contents),
            substitution.substituted,
            substitution.by_path,
        )

    def _read(self, index: SampleIndex, draw: int = 0) -> Any:
        """The sample itself. All forks start from the same state, so RNG objects yield the same numbers in each."""
        self._recorder.mark(None, "sample", index)
        with gate("sample"), one_read(), seeded(SEED + draw):
            if self.is_stream:
                return next(islice(streamed(self.loader.dataset), index, None))
            return self.loader.dataset[index]

    def _collated(self, sample: Any) -> tuple[str, Any]:
        """A batch of a sample alone, if the user's own collate_fn makes one: it may decode or rotate images itself."""
        batched = False
        if self.loader.batch_sampler is not None and self.loader.collate_fn is not default_collate:
            sample, batched = collated_alone(self.loader, sample, SEED)
        return "batch" if batched else "sample", sample


def alone_if_bypassed(subject: Subject, key: str, run: Callable[[Path], T]) -> T:
    """Observe a subject with replaced files; while nothing runs beside it, if that opened the files themselves."""
    try:
        return subject.observe((key, "beside others"), run)
    except Bypassed:
        return subject.observe((key, "alone"), run, exclusive=True)


_FEWEST_PIXELS = 64
"""Leaves with fewer values are not images: 8 by 8, as for `is_image`."""
_MOST_PIXELS = 4096
"""Pixels of a leaf that are kept: the correlation of so many is known to about 1 / 64."""


@dataclass(frozen=True, slots=True)
class ImageLeaf:
    """A leaf with rows and columns: its minimum, median and maximum, and some evenly spaced pixels."""

    digest: bytes
    shape: tuple[int, ...]
    dtype: str
    low: float
    middle: float
    high: float
    pixels: np.ndarray

    @property
    def channels(self) -> int:
        """The number of channels, first or last; 1 without a channel dimension."""
        return 1 if len(self.shape) < 3 else min(self.shape[-3], self.shape[-1])


def image_leaf(path: str, leaf: Any) -> ImageLeaf | None:
    """The numbers of a leaf that has rows and columns; None for any other."""
    array = array_of(leaf) if isinstance(leaf, torch.Tensor) else leaf
    if (
        not isinstance(array, np.ndarray)
        or array.dtype.kind not in "fiub"
        or array.ndim < 2
        or array.size < _FEWEST_PIXELS
    ):
        return None
    flat = array.reshape(-1).astype(np.float64)
    numbers = (float(flat.min()), float(np.median(flat)), float(flat.max()))
    shown = flat[:: len(flat) // _MOST_PIXELS + 1].astype(np.float32)
    return ImageLeaf(describe(path, leaf).digest, array.shape, str(array.dtype), *numbers, shown)


ImageOutput = SampleOutput[Header, ImageLeaf]
ImageReader = SwappedFileReader[Header, ImageLeaf]
