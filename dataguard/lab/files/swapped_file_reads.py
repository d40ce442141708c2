"""One sample, read again and again with other image files, each time in a fork of its own, so that no cache answers."""

from __future__ import annotations

import importlib
import os
import pickle
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch.utils.data.dataloader import default_collate

from dataguard.lab.core.leaves import array_of, describe, iter_leaves
from dataguard.lab.files.file_substitution import Handed, Handing
from dataguard.lab.files.file_survey import Known, Place
from dataguard.lab.process.flight_recorder import FlightRecorder
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.leaf_root import collated_alone
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rng.global_rng import SEED, seeded
from dataguard.model import Undecided
from dataguard.target.variants import Loader

T = TypeVar("T")
_PIXELS = 64
"""A leaf of fewer numbers is no image."""
_SHOWN = 4096


@dataclass(frozen=True, slots=True)
class Picture:
    """A leaf with rows and columns: its least, middle and largest value, and some of its pixels, evenly spaced."""

    digest: bytes
    shape: tuple[int, ...]
    dtype: str
    low: float
    middle: float
    high: float
    pixels: np.ndarray

    @property
    def channels(self) -> int:
        """How many channels it has, wherever they stand; 1 for rows and columns alone."""
        return 1 if len(self.shape) < 3 else min(self.shape[-3], self.shape[-1])


@dataclass(frozen=True, slots=True)
class View:
    """What came out of a sample: its pictures by path, the digests of all leaves, and the files that were handed over.

    `root` is what paths begin with; `taken` tells whether the exchanged file was among the files.
    """

    root: str
    pictures: dict[str, Picture]
    digests: dict[str, bytes]
    handed: tuple[Handed, ...]
    contents: tuple[bytes, ...]
    taken: bool

    def content(self, known: Known) -> bytes:
        """The content of a file that was handed over. Raises Undecided where it was not, this time."""
        return self.contents[self._part(known)]

    def name(self, known: Known) -> str:
        """What a file is called this time. Raises Undecided where it was not handed over."""
        return self.handed[self._part(known)].name

    def _part(self, known: Known) -> int:
        """Which of the files one is: that of its name, else a like one in its place.

        A loader that is built anew may write its files anew, into another folder.
        """
        names, part = [one.name for one in self.handed], known.part
        if known.name in names:
            return names.index(known.name)
        if part < len(names) and self.handed[part].header == known.header:
            return part
        raise Undecided("a second read of the sample uses other files")

    def unlike(self, other: View) -> set[str]:
        """The leaves in which two views of a sample differ."""
        paths = {*self.digests, *other.digests}
        return {path for path in paths if self.digests.get(path) != other.digests.get(path)}


class Exchange:
    """Reads samples of a loader with other files than their own, each time as if it were the first."""

    def __init__(self, build: Callable[[], Loader], folder: Path, modules: Sequence[str]) -> None:
        for module in modules:  # those that reading a sample imports
            with suppress(Exception):
                importlib.import_module(module)
        self._handing = Handing(folder)
        self._handing.install()
        self.loader = build()
        self._recorder = FlightRecorder(folder)
        Reader(self.loader, folder)  # this process passes for a worker
        self._seen: dict[Place, View] = {}
        self.is_stream = isinstance(self.loader.dataset, torch.utils.data.IterableDataset)

    def view(self, place: Place) -> View:
        """A sample as it is, with the contents of its files. Raises Undecided where the user's code raises."""
        seen = self._apart(lambda: self._view(place))
        if seen is None:
            raise Undecided("a second read of the sample alone raises")
        self._seen[place] = seen
        return seen

    def exchanged(self, known: Known, content: bytes, other: bytes) -> View:
        """A sample with another file in the place of the one of this content.

        Raises Undecided where the user's code raises, or does not ask for that file again.
        """
        before = self._seen.get(known.place)
        name = before.name(known) if before else known.name

        def run() -> View:
            self._handing.put(name, content, other)
            return self._view(known.place)

        seen = self._apart(run)
        if seen is None:
            raise Undecided("the sample cannot be read with a substitute for its file")
        if not seen.taken:
            raise Undecided("a second read of the sample does not open its file, which may be cached")
        return seen

    def collates(self, places: Sequence[Place]) -> bool:
        """Whether collate_fn makes a batch of these samples."""

        def collate() -> bool:
            self.loader.collate_fn([self._read(place) for place in places])
            return True

        return bool(self._apart(collate))

    def _view(self, place: Place) -> View:
        handing = self._handing
        handing.keeps = True
        handing.handed.clear()  # what was opened while the loader was built
        root, sample = self._collated(self._read(place))
        leaves = list(iter_leaves(sample))
        pictures = {path: picture for path, leaf in leaves for picture in [_picture(path, leaf)] if picture}
        digests = {path: describe(path, leaf).digest for path, leaf in leaves}
        return View(root, pictures, digests, tuple(handing.handed), tuple(handing.contents), handing.taken)

    def _read(self, place: Place) -> Any:
        """The sample itself. All forks begin in one state, so that held generators draw the same numbers in each."""
        self._recorder.mark(None, "sample", place)
        with gate("sample"), seeded(SEED):
            if self.is_stream:
                return next(islice(iter(self.loader.dataset), place, None))
            return self.loader.dataset[place]

    def _collated(self, sample: Any) -> tuple[str, Any]:
        """A batch of a sample alone, where the user's own collate_fn makes one: it may decode or turn images itself."""
        made = False
        if self.loader.batch_sampler is not None and self.loader.collate_fn is not default_collate:
            sample, made = collated_alone(self.loader, sample, SEED)
        return "batch" if made else "sample", sample

    @staticmethod
    def _apart(function: Callable[[], T]) -> T | None:
        """What a function returns in a fork of this process; None where it raises or dies."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(reading)
                answer = pickle.dumps(function())
                with os.fdopen(writing, "wb") as pipe:
                    pipe.write(answer)
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            answer = pipe.read()
        os.waitpid(pid, 0)
        found: T | None = pickle.loads(answer) if answer else None
        return found


def _picture(path: str, leaf: Any) -> Picture | None:
    array = array_of(leaf) if isinstance(leaf, torch.Tensor) else leaf
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub" or array.ndim < 2 or array.size < _PIXELS:
        return None
    flat = array.reshape(-1).astype(np.float64)
    numbers = (float(flat.min()), float(np.median(flat)), float(flat.max()))
    shown = flat[:: len(flat) // _SHOWN + 1].astype(np.float32)
    return Picture(describe(path, leaf).digest, array.shape, str(array.dtype), *numbers, shown)
