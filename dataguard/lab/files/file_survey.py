"""The files of samples, and their headers.

Reading a sample stops when its last file is passed to a decoder, so that hundreds of files can be surveyed in the time
that decoding a few of them takes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar

from dataguard.lab.core.index import Index
from dataguard.lab.decoding.file_substitution import DecodedFile, EnoughFiles, FileSubstitution, Media
from dataguard.lab.decoding.image_headers import Header
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rng.global_rng import SEED, seeded
from dataguard.model import Undecided
from dataguard.process.originals import time
from dataguard.targets.variants import Loader

H = TypeVar("H")
"""The header of a file."""
SampleIndex = Any
"""The index of a sample, or its position in a stream."""
WITHOUT = 8
"""After this many samples without any file, the others are assumed to have none either.

Fewer are enough if no module with a decoder is imported."""
MOST_OF_STREAM = 24
"""How many samples of a stream are read: they must be read completely."""
SHARE = 0.02
"""The share of the budget after which no more samples are read."""
FULLY_READ = 2
"""How many samples are read completely, to find out how many files one has."""


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
        found: dict[str, MediaFile[H]] = {}
        for sample in self.samples:
            for position, one in enumerate(sample.decoded):
                if one.header is not None:
                    found.setdefault(one.name, MediaFile(sample.index, position, one.name, one.header))
        return list(found.values())

    def of_samples(self, position: int) -> list[MediaFile[H]]:
        """The file at this position of each sample, if its header could be read; samples may share one."""
        found = [(sample.index, sample.decoded[position]) for sample in self.samples if position < len(sample.decoded)]
        return [MediaFile(index, position, one.name, one.header) for index, one in found if one.header is not None]

    def others(self, file: MediaFile[H]) -> list[H]:
        """The headers of the other files in the sample of a file."""
        (sample,) = (sample for sample in self.samples if sample.index == file.index)
        return [one.header for one in sample.decoded if one.header is not None and one.name != file.name]


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
            without = WITHOUT if any(one.module in sys.modules for one in media.decoders) else FULLY_READ
            if len(samples) >= without and not any(sample.decoded for sample in samples):
                break
            if substitution.enough and not samples[-1].decoded:
                # Stopping a read has ended a generator that the dataset holds: from now on samples are read whole.
                reader.dataset, whole, substitution.enough = build().dataset, True, None
            elif len(samples) >= FULLY_READ and indices and not whole:
                substitution.enough = max(len(sample.decoded) for sample in samples) or None
            if time.monotonic() - started > seconds:
                break
    modules = dict.fromkeys(one.module for one in media.decoders if one.module in sys.modules)
    return FileSurvey(tuple(samples), tuple(modules), len(indices))


def _reads(
    loader: Loader, reader: Reader, indices: Sequence[Index], substitution: FileSubstitution[Any]
) -> Iterator[SampleIndex]:
    """Read sample after sample, and yield the index after each. Errors of single samples are ignored."""
    if not indices:
        with suppress(Exception):
            for position, _ in enumerate(islice(iter(loader.dataset), MOST_OF_STREAM)):
                yield position
                substitution.files.clear()
        return
    for index in indices:
        substitution.files.clear()
        with suppress(EnoughFiles, Exception):
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
    modules = dict.fromkeys(one.module for one in media.decoders if one.module in sys.modules)
    return FileSurvey(samples, tuple(modules), len(samples)), seconds
