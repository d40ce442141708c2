"""Samples that were collated into one batch, kept in a process that emulates a worker.

They are read once and collated repeatedly: in order, reversed, alone, each twice.
"""

from __future__ import annotations

import contextlib
import copy
import statistics
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from dataguard.lab.core.index import Index
from dataguard.lab.core.leaves import iter_leaves
from dataguard.lab.core.pickled_parts import is_handle
from dataguard.lab.core.records import BatchRecord, SampleRecord
from dataguard.lab.process.exceptions import incident_of
from dataguard.lab.process.flight_recorder import FlightRecorder
from dataguard.lab.reading.epoch_trace import EpochTrace, gate
from dataguard.lab.reading.sample_reader import emulate_worker
from dataguard.lab.rng.frozen_rng import RngFreezer
from dataguard.lab.rng.global_rng import SEED
from dataguard.model import NotApplicable, NotTested, Undecided
from dataguard.targets.variants import Loader

MOST = 8
"""How many samples of a batch are used unless collate_fn requires more."""
LARGEST = 64
"""The largest batch that is read completely for a collate_fn that requires it."""
SEEDS = ((SEED,), (SEED + 1,))
"""The seeds of all generators before each batch: the first for all batches, the second to compare."""
READING = tuple(range(SEED + 2, SEED + 2 + LARGEST))
"""The seeds before each read: one per sample, because a dataset may generate samples entirely at random."""


def choose(epoch: EpochTrace, *, mixes: bool = False) -> tuple[Index, ...]:
    """The indices of the batch with the most varied samples; as many None for a stream.

    `mixes`: any samples may meet in a batch; some that share an identifier then do. Raises NotApplicable if the indices
    cannot be requested again.
    """
    members = epoch.members()
    good = [batch for batch in epoch.batches if batch.incident is None]
    batches = [members[batch.worker, batch.batch] for batch in good or epoch.batches]
    best = max(batches, key=_variety, default=[])
    chosen = _varied_first(best)
    if mixes:
        chosen = _with_namesakes(chosen, epoch.samples)
    if not chosen:
        raise NotApplicable("no batch of known samples was collated")
    if any(sample.shown is not None and sample.index is None for sample in chosen):
        raise NotTested("the sampler's indices are not numbers, strings or tuples: samples cannot be read again")
    return tuple(sample.index for sample in chosen)


def _variety(samples: Sequence[SampleRecord]) -> int:
    """How many different structures there are, plus how many contents of each leaf."""
    contents = {(leaf.path, leaf.digest) for sample in samples for leaf in sample.leaves}
    return len({sample.structure for sample in samples}) + len(contents)


def _varied_first(samples: Sequence[SampleRecord]) -> list[SampleRecord]:
    """The samples, each index or content once, ordered so that the first few differ in structure."""
    distinct = list({sample.digest if sample.index is None else sample.index: sample for sample in samples}.values())
    kinds = {sample.structure: number for number, sample in reversed(list(enumerate(distinct)))}
    heads = set(list(dict.fromkeys(kinds.values()))[:MOST])
    few = sorted(heads | set(islice((n for n in range(len(distinct)) if n not in heads), max(0, MOST - len(heads)))))
    return [distinct[n] for n in few] + [distinct[n] for n in range(len(distinct)) if n not in few]


def _with_namesakes(chosen: list[SampleRecord], samples: Sequence[SampleRecord]) -> list[SampleRecord]:
    """The samples, with the last of the first few replaced by others that have an identifier of an earlier one.

    A single value that no two of the first few share may be one: a collate_fn that keys samples by it loses some.
    """
    few, rest = chosen[:MOST], chosen[MOST:]
    kept = len(few)
    for path in [leaf.path for leaf in few[0].leaves if not leaf.shape] if few else ():
        owners = {leaf.digest: one for one in few for leaf in one.leaves if leaf.path == path}
        namesake = next((one for one in samples if _is_namesake(one, path, few[: kept - 1], few)), None)
        if len(owners) == len(few) and namesake is not None and kept > 2:
            kept -= 1
            few[kept] = namesake
    return few + [one for one in rest if all(one is not other for other in few)]


def _is_namesake(sample: SampleRecord, path: str, of: Sequence[SampleRecord], known: Sequence[SampleRecord]) -> bool:
    """Whether a sample has the same value at a path as one `of` these, and something else otherwise."""
    own = {leaf.digest for leaf in sample.leaves if leaf.path == path}
    same = [one for one in of if any(leaf.path == path and leaf.digest in own for leaf in one.leaves)]
    return any(one.digest != sample.digest for one in same) and all(one.index != sample.index for one in known)


def collate_seconds(batches: Sequence[BatchRecord]) -> float:
    """The median time of collate_fn per batch, in seconds; the first call may import something."""
    return statistics.median(batch.collate_seconds for batch in batches) if batches else 0.0


class Refused(Exception):
    """collate_fn or `__getitems__` raised; the original exception is the cause."""


class CollateInputs:
    """Samples of a loader in this process, which emulates a worker if the loader has any.

    If `frozen`, all generators, including those in the user's objects, start every read and every batch in the same
    state.
    """

    def __init__(self, loader: Loader, folder: Path, indices: Sequence[Index], *, frozen: bool = True) -> None:
        self.loader = loader
        self.indices = list(indices)
        self.reads = 0
        self.recorder = FlightRecorder(folder)
        self._roots = {"dataset": loader.dataset, "collate_fn": loader.collate_fn}
        self._freezer = RngFreezer((*SEEDS, READING)) if frozen else None
        self._numbers: dict[Index, int] = {}
        if loader.num_workers:
            emulate_worker(loader, self.recorder, 1)
        self.samples: list[Any] = []

    def _frozen(self, row: int, number: int = 0) -> contextlib.AbstractContextManager[None]:
        return self._freezer.frozen(row, number, self._roots) if self._freezer else contextlib.nullcontext()

    @property
    def is_stream(self) -> bool:
        """Whether the samples have no indices."""
        return self.indices[0] is None

    def fill(self, count: int) -> None:
        """Read samples until there are `count` of them, or no more."""
        if self.is_stream:
            with gate("sample"), self._frozen(len(SEEDS)):
                self.samples = list(islice(iter(self.loader.dataset), count))
            self.reads += len(self.samples)
            return
        self.samples += [self.read(index) for index in self.indices[len(self.samples) : count]]

    def keep(self, positions: Sequence[int]) -> None:
        """Drop all other samples."""
        self.samples = [self.samples[position] for position in positions]
        self.indices = [self.indices[position] for position in positions]

    def read(self, index: Any) -> Any:
        """Read a sample of a map-style dataset again."""
        self.reads += 1
        self.recorder.mark(None, "sample", index)
        number = self._numbers.setdefault(index, len(self._numbers))
        with gate("sample"), self._frozen(len(SEEDS), number):
            return self.loader.dataset[index]

    def read_getitems(self, indices: Sequence[Any]) -> Any:
        """What `__getitems__` returns for these indices. Raises Refused if it raises."""
        self.reads += len(indices)
        self.recorder.mark(None, "sample", indices[0])
        dataset: Any = self.loader.dataset
        try:
            with self._frozen(len(SEEDS)):
                return dataset.__getitems__(list(indices))
        except Exception as error:
            raise Refused from error

    def fresh(self, position: int) -> Any:
        """A copy of a sample that collate_fn may modify; a sample that cannot be copied is read again."""
        try:
            return duplicate(self.samples[position])
        except Exception as error:
            if self.is_stream:
                raise Undecided(f"samples of the stream cannot be copied: {type(error).__name__}: {error}") from error
            return self.read(self.indices[position])

    def collate(self, positions: Sequence[int], seed: int = 0, number: int = 0) -> Any:
        """The batch of copies of these samples. Raises Refused if collate_fn raises."""
        return self.collate_these([self.fresh(position) for position in positions], seed, number)

    def collate_these(self, samples: list[Any], seed: int = 0, number: int = 0) -> Any:
        """The batch of exactly these objects, under one of `SEEDS`, or after them the numbered one of `READING`.

        Raises Refused if collate_fn raises.
        """
        self.recorder.mark(None, "collate", None)
        try:
            with self._frozen(seed, number):
                return self.loader.collate_fn(samples)
        except Exception as error:
            if incident_of(error, "collate").out_of_shared_memory:
                raise Undecided("too little shared memory to collate samples repeatedly") from error
            raise Refused from error


def duplicate(sample: Any) -> Any:
    """A deep copy of a sample but for open decoders; a tensor that is a view of a larger one is cloned alone."""
    copies = {}
    for _, leaf in iter_leaves(sample):
        if isinstance(leaf, torch.Tensor) or is_handle(leaf):
            copies[id(leaf)] = leaf.clone() if isinstance(leaf, torch.Tensor) else leaf
    return copy.deepcopy(sample, copies)
