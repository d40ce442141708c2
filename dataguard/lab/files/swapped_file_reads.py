"""Reads samples with other files than their own, each time in a new fork, so that no cache is used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch.utils.data.dataloader import default_collate

from dataguard.lab.core.leaves import describe, iter_leaves
from dataguard.lab.decoding.file_substitution import DecodedFile, FileSubstitution, Media
from dataguard.lab.decoding.kernel_opens import ATTEMPTS, opens_of
from dataguard.lab.files.file_survey import MediaFile, SampleIndex
from dataguard.lab.process.flight_recorder import FlightRecorder
from dataguard.lab.process.forked_calls import in_fork
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.leaf_root import collated_alone
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rng.global_rng import SEED, seeded
from dataguard.lab.subject import Subject
from dataguard.model import NotApplicable, Undecided
from dataguard.targets.variants import Loader

H = TypeVar("H")
"""The header of a file."""
T = TypeVar("T")
P = TypeVar("P")
"""What is looked at of a leaf, such as its pixels."""


class Bypassed(NotApplicable):
    """A file that should have been replaced was opened each time, perhaps by observations that run beside this one."""


@dataclass(frozen=True, slots=True)
class SampleOutput(Generic[H, P]):
    """One read of a sample: the leaves that are looked at, the digests of all, and the files that were decoded.

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

    def _position(self, file: MediaFile[H]) -> int:
        """The position of a file: by its name, else where it was before if the header is the same.

        A loader that is rebuilt may write its files again, into another folder.
        """
        names, position = [one.name for one in self.files], file.position
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

    `look` is called with the path of a leaf and the leaf, and returns what is looked at, or None for a leaf of no use.
    With `rebuild`, the loader is rebuilt for every read, because it decodes its files while it is built.
    """

    def __init__(
        self,
        build: Callable[[], Loader],
        folder: Path,
        modules: Sequence[str],
        media: Media[H],
        look: Callable[[str, Any], P | None],
        rebuild: Callable[[], Loader] | None = None,
    ) -> None:
        for module in modules:  # which reading a sample imports
            with suppress(Exception):
                importlib.import_module(module)
        self._look = look
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
        seen = in_fork(lambda: self._output(index))
        if seen is None:
            raise Undecided("a second read of the sample alone raises")
        self._reads[index] = seen
        return seen

    def read_swapped(self, file: MediaFile[H], content: bytes, other: bytes, draw: int = 0) -> SampleOutput[H, P]:
        """A sample with the file of this content replaced by another one, under the RNG state of this draw.

        Raises Undecided if the user's code raises, or does not open that file again; Bypassed if the file
        itself is opened as well, in each attempt.
        """
        before = self._reads.get(file.index)
        name = before.name(file) if before else file.name

        def run() -> SampleOutput[H, P]:
            self._substitution.substitute(name, content, other)
            return self._output(file.index, draw)

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

    def _output(self, index: SampleIndex, draw: int = 0) -> SampleOutput[H, P]:
        substitution = self._substitution
        substitution.keeps = True
        substitution.files.clear()  # what was opened while the loader was built
        if self._rebuild is not None:
            self.loader = self._rebuild()
        root, sample = self._collated(self._read(index, draw))
        leaves = list(iter_leaves(sample))
        shown = {path: part for path, leaf in leaves if (part := self._look(path, leaf)) is not None}
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
        with gate("sample"), seeded(SEED + draw):
            if self.is_stream:
                return next(islice(iter(self.loader.dataset), index, None))
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
        return subject.vary((key, "beside others"), run)
    except Bypassed:
        return subject.vary((key, "alone"), run, alone=True)
