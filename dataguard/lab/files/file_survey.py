"""The image files of samples, and their headers.

Reading a sample stops when its last file is passed to a decoder, so that hundreds of files can be surveyed in the time
that decoding a few of them takes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from dataguard.lab.core.index import Index
from dataguard.lab.decoding.file_substitution import FILE_DECODERS, DecodedFile, EnoughFiles, FileSubstitution
from dataguard.lab.decoding.image_headers import Header
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rng.global_rng import SEED, seeded
from dataguard.model import Undecided
from dataguard.targets.variants import Loader

SampleIndex = Any
"""The index of a sample, or its position in a stream."""
WITHOUT = 8
"""After this many samples without any file, the others are assumed to have none either."""
MOST_OF_STREAM = 24
"""How many samples of a stream are read: they must be read completely."""
SHARE = 0.02
"""The share of the budget after which no more samples are read."""
FULLY_READ = 2
"""How many samples are read completely, to find out how many files one has."""


@dataclass(frozen=True, slots=True)
class SampleFiles:
    """The files of one sample, in the order in which they were first decoded."""

    index: SampleIndex
    decoded: tuple[DecodedFile, ...]


@dataclass(frozen=True, slots=True)
class ImageFile:
    """An image file of a sample, and its position among the files of that sample."""

    index: SampleIndex
    position: int
    name: str
    header: Header


@dataclass(frozen=True, slots=True)
class FileSurvey:
    """The files of some samples, and the decoder modules that were imported.

    `asked` is how many samples should have been read; there are fewer `samples` if time ran out.
    """

    samples: tuple[SampleFiles, ...]
    modules: tuple[str, ...]
    asked: int

    def need_all(self) -> None:
        """Raise Undecided if time ran out before all samples were read."""
        if len(self.samples) < self.asked:
            few = f"no such file found in {len(self.samples)} of {self.asked} samples"
            raise Undecided(f"{few}: raise --budget to look at more")

    @property
    def files(self) -> list[ImageFile]:
        """The files whose headers could be read, each once."""
        found: dict[str, ImageFile] = {}
        for sample in self.samples:
            for position, one in enumerate(sample.decoded):
                if one.header is not None:
                    found.setdefault(one.name, ImageFile(sample.index, position, one.name, one.header))
        return list(found.values())

    def others(self, file: ImageFile) -> list[Header]:
        """The headers of the other files in the sample of a file."""
        (sample,) = (sample for sample in self.samples if sample.index == file.index)
        return [one.header for one in sample.decoded if one.header is not None and one.name != file.name]


def survey_files(build: Callable[[], Loader], folder: Path, indices: Sequence[Index], seconds: float) -> FileSurvey:
    """Read samples until their files are known, in this disposable process."""
    substitution = FileSubstitution(folder)
    substitution.install()
    loader = build()
    reader = Reader(loader, folder)
    samples: list[SampleFiles] = []
    whole = False
    with seeded(SEED):
        started = time.monotonic()
        for index in _reads(loader, reader, indices, substitution):
            samples.append(SampleFiles(index, tuple(substitution.files)))
            substitution.install()  # it may have imported decoders
            if len(samples) >= WITHOUT and not any(sample.decoded for sample in samples):
                break
            if substitution.enough and not samples[-1].decoded:
                # Stopping a read has ended a generator that the dataset holds: from now on samples are read whole.
                reader.dataset, whole, substitution.enough = build().dataset, True, None
            elif len(samples) >= FULLY_READ and indices and not whole:
                substitution.enough = max(len(sample.decoded) for sample in samples) or None
            if time.monotonic() - started > seconds:
                break
    modules = dict.fromkeys(one.module for one in FILE_DECODERS if one.module in sys.modules)
    return FileSurvey(tuple(samples), tuple(modules), len(indices))


def _reads(
    loader: Loader, reader: Reader, indices: Sequence[Index], substitution: FileSubstitution
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
