"""Reads samples with other image files than their own, each time in a new fork, so that no cache is used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data.dataloader import default_collate

from dataguard.lab.core.leaves import array_of, describe, iter_leaves
from dataguard.lab.decoding.file_substitution import DecodedFile, FileSubstitution
from dataguard.lab.decoding.kernel_opens import ATTEMPTS, opens_of
from dataguard.lab.files.file_survey import ImageFile, SampleIndex
from dataguard.lab.process.flight_recorder import FlightRecorder
from dataguard.lab.process.forked_calls import in_fork
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.leaf_root import collated_alone
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rng.global_rng import SEED, seeded
from dataguard.model import NotApplicable, Undecided
from dataguard.targets.variants import Loader

_PIXELS = 64
"""Leaves with fewer values are not images."""
_SHOWN = 4096


class Bypassed(NotApplicable):
    """A file that should have been replaced was opened each time, perhaps by observations that run beside this one."""


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


@dataclass(frozen=True, slots=True)
class SampleOutput:
    """One read of a sample: its image leaves by path, the digests of all leaves, and the files that were decoded.

    `root` is the start of paths; `substituted` says whether the replaced file was among the files, and `by_path`
    whether its decoder got another path.
    """

    root: str
    images: dict[str, ImageLeaf]
    digests: dict[str, bytes]
    files: tuple[DecodedFile, ...]
    contents: tuple[bytes, ...]
    substituted: bool
    by_path: bool

    def content(self, file: ImageFile) -> bytes:
        """The content of a file. Raises Undecided if it was not decoded this time."""
        return self.contents[self._position(file)]

    def name(self, file: ImageFile) -> str:
        """The name of a file this time. Raises Undecided if it was not decoded."""
        return self.files[self._position(file)].name

    def _position(self, file: ImageFile) -> int:
        """The position of a file: by its name, else where it was before if the header is the same.

        A loader that is rebuilt may write its files again, into another folder.
        """
        names, position = [one.name for one in self.files], file.position
        if file.name in names:
            return names.index(file.name)
        if position < len(names) and self.files[position].header == file.header:
            return position
        raise Undecided("a second read of the sample uses other files")

    def differing_leaves(self, other: SampleOutput) -> set[str]:
        """The leaves that differ between two reads of a sample."""
        paths = {*self.digests, *other.digests}
        return {path for path in paths if self.digests.get(path) != other.digests.get(path)}


class SwappedFileReader:
    """Reads samples of a loader with their own files or with others, each time as if for the first time."""

    def __init__(self, build: Callable[[], Loader], folder: Path, modules: Sequence[str]) -> None:
        for module in modules:  # which reading a sample imports
            with suppress(Exception):
                importlib.import_module(module)
        self._substitution = FileSubstitution(folder)
        self._substitution.install()
        self.loader = build()
        self._recorder = FlightRecorder(folder)
        Reader(self.loader, folder)  # emulates a worker in this process
        self._reads: dict[SampleIndex, SampleOutput] = {}
        self.is_stream = isinstance(self.loader.dataset, torch.utils.data.IterableDataset)

    def read(self, index: SampleIndex) -> SampleOutput:
        """A sample with its own files, and their contents. Raises Undecided if the user's code raises."""
        seen = in_fork(lambda: self._output(index))
        if seen is None:
            raise Undecided("a second read of the sample alone raises")
        self._reads[index] = seen
        return seen

    def read_swapped(self, file: ImageFile, content: bytes, other: bytes) -> SampleOutput:
        """A sample with the file of this content replaced by another one.

        Raises Undecided if the user's code raises, or does not open that file again; Bypassed if the file
        itself is opened as well, in each attempt.
        """
        before = self._reads.get(file.index)
        name = before.name(file) if before else file.name

        def run() -> SampleOutput:
            self._substitution.substitute(name, content, other)
            return self._output(file.index)

        for _ in range(ATTEMPTS):
            with opens_of(name) as opened:
                seen = in_fork(run)
            if seen is None:
                raise Undecided("the sample cannot be read with a substitute for its file")
            if not seen.substituted:
                raise Undecided("a second read of the sample does not open its file, which may be cached")
            if not (opened.seen and seen.by_path):
                return seen
        raise Bypassed(f"a library opens {Path(name).name} itself, past its decoder, so it cannot be replaced")

    def collates(self, indices: Sequence[SampleIndex]) -> bool:
        """Whether collate_fn makes a batch of these samples."""

        def collate() -> bool:
            self.loader.collate_fn([self._read(index) for index in indices])
            return True

        return bool(in_fork(collate))

    def _output(self, index: SampleIndex) -> SampleOutput:
        substitution = self._substitution
        substitution.keeps = True
        substitution.files.clear()  # what was opened while the loader was built
        root, sample = self._collated(self._read(index))
        leaves = list(iter_leaves(sample))
        images = {path: image for path, leaf in leaves for image in [_image_leaf(path, leaf)] if image}
        digests = {path: describe(path, leaf).digest for path, leaf in leaves}
        return SampleOutput(
            root,
            images,
            digests,
            tuple(substitution.files),
            tuple(substitution.contents),
            substitution.substituted,
            substitution.by_path,
        )

    def _read(self, index: SampleIndex) -> Any:
        """The sample itself. All forks start from the same state, so RNG objects yield the same numbers in each."""
        self._recorder.mark(None, "sample", index)
        with gate("sample"), seeded(SEED):
            if self.is_stream:
                return next(islice(iter(self.loader.dataset), index, None))
            return self.loader.dataset[index]

    def _collated(self, sample: Any) -> tuple[str, Any]:
        """A batch of a sample alone, if the user's own collate_fn makes one: it may decode or rotate images itself."""
        batched = False
        if self.loader.batch_sampler is not None and self.loader.collate_fn is not default_collate:
            sample, batched = collated_alone(self.loader, sample, SEED)
        return "batch" if batched else "sample", sample


def _image_leaf(path: str, leaf: Any) -> ImageLeaf | None:
    array = array_of(leaf) if isinstance(leaf, torch.Tensor) else leaf
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub" or array.ndim < 2 or array.size < _PIXELS:
        return None
    flat = array.reshape(-1).astype(np.float64)
    numbers = (float(flat.min()), float(np.median(flat)), float(flat.max()))
    shown = flat[:: len(flat) // _SHOWN + 1].astype(np.float32)
    return ImageLeaf(describe(path, leaf).digest, array.shape, str(array.dtype), *numbers, shown)
