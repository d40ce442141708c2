"""Single samples, read directly as one of the loader's workers would, with all RNGs frozen; or collated alone.

`Reader` emulates the first worker in this disposable process, the user's `worker_init_fn` included.
"""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import _utils

from dataguard.core.incident import Incident, LoaderFailed
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.records import Index, LeafRecord, plain_index, streamed
from dataguard.lab.process.endless_reads import one_read
from dataguard.lab.process.incidents import FlightRecorder, incident_of
from dataguard.lab.process.write_protection import WriteRefused, refused_write
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.rng.frozen_rng import RngFreezer
from dataguard.lab.rng.rng_discovery import SEED, seeded
from dataguard.lab.spy.drive import announce_epoch
from dataguard.targets.variants import Loader


class Rooted:
    """The root of leaf paths; `collated`: leaves are those of a batch."""

    __slots__ = ()
    collated: bool

    @property
    def root(self) -> str:
        """The root of leaf paths."""
        return "batch" if self.collated else "sample"


def collated_alone(loader: Loader, sample: Any, seed: int) -> tuple[Any, bool]:
    """A batch of one sample, collated with seeded generators, and True; or the sample itself, and False."""
    with seeded(seed):
        try:
            return loader.collate_fn([sample]), True
        except Exception:  # noqa: BLE001 - it may need full batches; then the sample itself is enough
            return sample, False


DRAWS = 4
"""How many seeds there are for the generators."""


@dataclass(frozen=True)  # without slots, which have no room for a cached property
class Answer:
    """The result of `dataset[index]`: leaves, or the incident it raised."""

    index: Index
    leaves: tuple[LeafRecord, ...] = ()
    incident: Incident | None = None

    @cached_property
    def digests(self) -> Mapping[str, bytes]:
        """The content of every leaf, by its path."""
        return {leaf.path: leaf.digest for leaf in self.leaves}

    @property
    def shapes(self) -> tuple[tuple[object, ...], ...]:
        """The path, dtype and shape of every leaf."""
        return tuple((leaf.path, leaf.dtype or leaf.kind, leaf.shape) for leaf in self.leaves)

    @property
    def form(self) -> tuple[tuple[object, ...], ...]:
        """The path, dtype and rank of every leaf."""
        return tuple((leaf.path, leaf.dtype or leaf.kind, len(leaf.shape or ())) for leaf in self.leaves)


class Reader:
    """Reads samples of a loader's dataset in this disposable process, and counts them.

    If the loader has workers, this process emulates the first of them, the user's `worker_init_fn` included.
    """

    def __init__(self, loader: Loader, folder: Path, draws: int = DRAWS) -> None:
        self.loader = loader
        self.dataset: Any = loader.dataset
        self.reads = 0
        self._recorder = FlightRecorder(folder)
        self._roots = {"dataset": loader.dataset}
        self._freezer = RngFreezer([[SEED + draw] for draw in range(draws)])
        announce_epoch(loader, 0)
        if loader.num_workers:
            with contextlib.suppress(LoaderFailed):  # the epoch reports a failure; it may need a real worker
                emulate_worker(loader, self._recorder, loader.num_workers)

    def read(self, index: Any, draw: int = 0) -> Any:
        """The sample itself, with all RNGs frozen with seed number `draw`. Raises LoaderRaised."""
        with gate("sample"), self._frozen(index, draw):
            return self.dataset[index]

    def read_streamed(self, position: int, draw: int = 0) -> Any:
        """The sample at a position of a new pass over a stream, with all global RNGs seeded. Raises LoaderRaised."""
        with gate("sample"), one_read(), seeded(SEED + draw):
            return next(islice(streamed(self.dataset), position, None))

    def collated(self, sample: Any, draw: int = 0) -> tuple[Any, bool]:
        """A batch of one sample, and True; or the sample itself, and False if collate_fn cannot make one."""
        return collated_alone(self.loader, sample, SEED + draw)

    def read_as_is(self, index: Any) -> Any:
        """The sample itself, with no RNG frozen. Raises LoaderRaised."""
        self.reads += 1
        self._recorder.mark(None, "sample", index)
        with gate("sample"):
            return self.dataset[index]

    def ask(self, index: Any, draw: int = 0, dataset: Any = None) -> Answer:
        """The sample as plain data; an exception is an answer, too. `dataset` is one inside the loader's own."""
        source = self.dataset if dataset is None else dataset
        plain = plain_index(index)
        try:
            with self._frozen(index, draw):
                return Answer(plain, leaves_of(source[index]))
        except Exception as error:
            if refusal := refused_write(error):
                raise WriteRefused(refusal) from error
            return Answer(plain, incident=incident_of(error, "sample", plain))

    @contextlib.contextmanager
    def _frozen(self, index: Any, draw: int) -> Iterator[None]:
        self.reads += 1
        self._recorder.mark(None, "sample", index)
        with one_read(), self._freezer.frozen(draw, 0, self._roots):
            yield


def emulate_worker(loader: Loader, recorder: FlightRecorder, workers: int, number: int = 0) -> None:
    """Do what torch does at the start of one of so many workers: this disposable process emulates it.

    `default_collate` and the user's code call `get_worker_info`. Raises LoaderRaised if `worker_init_fn` raises.
    """
    worker: Any = _utils.worker
    details = {"id": number, "num_workers": workers, "seed": torch.initial_seed(), "dataset": loader.dataset}
    worker._worker_info = worker.WorkerInfo(**details)
    atexit.register(setattr, worker, "_worker_info", None)  # so that the dataset is freed then
    if loader.worker_init_fn is not None:
        recorder.mark(None, "init")
        with gate("init"):
            loader.worker_init_fn(number)
