"""Random numbers that are drawn twice: by two workers (DG101), or in two epochs by one worker (DG102).

Three things must hold: a generator has the same state when two workers start, both draw from that state without
setting a seed in between, and samples vary between epochs. Torch's own seeding makes all states differ, so that a
loader without an own `worker_init_fn` or generator is judged by two comparisons of bytes.

`StartRecord` replaces `worker_init_fn` while torch starts the workers, runs the user's own first, and leaves
`get_worker_info().dataset` as it is. What it records of the states of generators travels in files, as batches belong to
the user; `Replays` reads them in the main process. `State` says whether one state is a later one of another.
"""

from __future__ import annotations

import os
import pickle
import random
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import _DatasetKind, get_worker_info

from dataguard.core.model import Finding
from dataguard.lab.rng.rng_discovery import find_generators
from dataguard.training.epoch_order import Pass
from dataguard.training.randomness.changed_samples import SampleRows


@dataclass(frozen=True, slots=True)
class State:
    """A state: the algorithm, what identifies the sequence of numbers, and where in the sequence it is.

    A `stream` is None for MT19937, whose states show what sequence they belong to only by their words.
    """

    algorithm: str
    stream: bytes | int | None
    content: bytes
    position: int = 0


class Replays:
    """What the workers of one loader drew from."""

    def __init__(self) -> None:
        self.rows = SampleRows()
        self._drawn: dict[int, list[Drawn]] = {}
        self._records: Records | None = None
        self._paths: tuple[str, ...] | None = None
        self._reported: set[tuple[str, str]] = set()

    @property
    def follows(self) -> bool:
        """Whether there are workers whose generators are followed."""
        return self._records is not None

    def recording(self, loader: Any, user_init: Callable[[int], Any] | None, serial: int) -> StartRecord:
        """What to pass to torch in place of the loader's `worker_init_fn` while it starts the workers of a pass."""
        if self._records is None:
            folder = Path(tempfile.mkdtemp(prefix="dataguard-guard-"))
            weakref.finalize(self, _remove, folder, os.getpid())
            self._records = Records(folder)
            generators = find_generators({"dataset": loader.dataset, "collate_fn": loader.collate_fn})
            self._paths = tuple(source.path for source in generators if is_simple(source.path))
        return StartRecord(user_init, self._records.folder, serial, self._paths or ())

    def findings(self, recent: Sequence[Pass]) -> Iterator[tuple[str, Finding]]:
        """The replays in the latest pass, and in whole passes before it, if samples are random."""
        if self._records is None:
            return
        for drawn in self._records.new():
            self._drawn.setdefault(drawn.serial, []).append(drawn)
        for old in self._drawn.keys() - {latest.serial for latest in recent} - {min(self._drawn, default=0)}:
            self._records.drop(old)
            del self._drawn[old]
        if not self.rows.vary:
            return
        for together in self._drawn.values():
            yield from self._between_workers(together)
        for now, before in pairwise(recent):
            yield from self._between_epochs(now, before)

    def _between_workers(self, drawn: Sequence[Drawn]) -> Iterator[tuple[str, Finding]]:
        for first, second in combinations(drawn, 2):
            if first.worker != second.worker and self._same("DG101", first, second):
                workers = f"workers {first.worker} and {second.worker} draw the same random numbers from {first.name}"
                yield "DG101", Finding(workers, {"state": "equal when they start", "samples": "differ between epochs"})

    def _between_epochs(self, now: Pass, before: Pass) -> Iterator[tuple[str, Finding]]:
        for later in self._drawn.get(now.serial, ()):
            for earlier in self._drawn.get(before.serial, ()):
                if later.worker == earlier.worker and self._same("DG102", later, earlier):
                    worker = f"worker {later.worker} draws the same random numbers from {later.name}"
                    epochs = f"in epochs {before.epoch} and {now.epoch}"
                    yield "DG102", Finding(f"{worker} {epochs}", {"state": "equal when it starts"})

    def _same(self, code: str, first: Drawn, second: Drawn) -> bool:
        """Whether both draw the numbers of one state; once for each generator."""
        if first.name != second.name or first.start != second.start or (code, first.name) in self._reported:
            return False
        repeated = first.follows and second.follows
        if repeated:
            self._reported.add((code, first.name))
        return repeated


def _remove(folder: Path, owner: int) -> None:
    """Remove the records, in the process that made the folder: workers are forks of it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


class Records:
    """What the workers of one loader write, read by the main process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[Path, int] = {}

    def new(self) -> Iterator[Drawn]:
        """What was written since the last time; a line that is still being written comes later."""
        for path in sorted(self.folder.iterdir()):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                try:
                    while True:
                        drawn: Drawn = pickle.load(file)
                        self._read[path] = file.tell()
                        yield drawn
                except (EOFError, pickle.UnpicklingError):
                    continue

    def drop(self, serial: int) -> None:
        """Remove what the workers of a pass wrote."""
        for path in self.folder.glob(f"{serial}-*"):
            path.unlink()
            self._read.pop(path, None)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A generator that was drawn from in a worker: its name, its state when the worker started, and a later one."""

    serial: int
    worker: int
    name: str
    start: State
    later: State

    @property
    def follows(self) -> bool:
        """Whether the draws follow from the first state, as no seed was set in between."""
        return advanced(self.start, self.later)


class StartRecord:
    """A `worker_init_fn` that runs the user's and then follows the generators; picklable if the user's is."""

    def __init__(
        self, user_init: Callable[[int], Any] | None, folder: Path, serial: int, paths: tuple[str, ...]
    ) -> None:
        self.user_init = user_init
        self.folder = folder
        self.serial = serial
        self.paths = paths

    def __call__(self, worker: int) -> None:
        """Run in worker number `worker`, where torch calls worker_init_fn."""
        if self.user_init is not None:
            self.user_init(worker)
        info: Any = get_worker_info()
        create: Any = _DatasetKind.create_fetcher

        def create_fetcher(kind: int, dataset: Any, auto_collation: bool, collate_fn: Any, *args: Any) -> Any:
            if dataset is not info.dataset:  # of a loader inside the user's dataset
                return create(kind, dataset, auto_collation, collate_fn, *args)
            setattr(_DatasetKind, "create_fetcher", staticmethod(create))  # noqa: B010 - mypy forbids the plain form
            roots = {"dataset": dataset, "collate_fn": collate_fn}
            before = dict(self._states(roots))
            fetcher = create(kind, dataset, auto_collation, collate_fn, *args)
            _Follow(fetcher, self, worker, roots, before)
            return fetcher

        setattr(_DatasetKind, "create_fetcher", staticmethod(create_fetcher))  # noqa: B010 - as above

    def _states(self, roots: Mapping[str, Any]) -> Iterator[tuple[str, State]]:
        generators = {**global_generators(), **{path: found_at(path, roots) for path in self.paths}}
        for name, generator in generators.items():
            state = state_of(generator)
            if state is not None:
                yield name, state

    def write(self, before: dict[str, State], roots: Mapping[str, Any], worker: int) -> None:
        """Append the generators that were drawn from to the worker's file, and forget them."""
        lines = b""
        for name, later in self._states(roots):
            if name in before and before[name] != later:
                lines += pickle.dumps(Drawn(self.serial, worker, name, before.pop(name), later))
        if lines:
            with (self.folder / f"{self.serial}-{worker}").open("ab") as file:
                file.write(lines)


class _Follow:
    """Replaces the `fetch` of a fetcher, for its first fetches."""

    def __init__(
        self, fetcher: Any, record: StartRecord, worker: int, roots: Mapping[str, Any], before: dict[str, State]
    ) -> None:
        self.fetcher = fetcher
        self.fetch = fetcher.fetch
        self.record = record
        self.worker = worker
        self.roots = roots
        self.before = before
        self.count = 0
        fetcher.fetch = self

    def __call__(self, index: Any) -> Any:
        data = self.fetch(index)
        self.count += 1
        if self.count in READ_AFTER:
            try:
                self.record.write(self.before, self.roots, self.worker)
            except Exception:  # noqa: BLE001 - nothing that the guard meets may end a worker: it sees nothing here
                self.before.clear()
        if self.count >= READ_AFTER[-1] or not self.before:
            self.fetcher.fetch = self.fetch
        return data


READ_AFTER = (1, 2, 4, 8, 16, 32)
"""After which fetches the generators that were not drawn from yet are read again."""


def global_generators() -> dict[str, Any]:
    """The generators that torch seeds in each worker."""
    return {
        "random": random.random.__self__,  # type: ignore[attr-defined]
        "numpy.random": np.random.mtrand._rand,
        "torch": torch.default_generator,
    }


def is_simple(path: str) -> bool:
    """Whether a path leads from the dataset or collate_fn to an object by attributes and entries alone."""
    return _SIMPLE.fullmatch(path) is not None


_STEP = re.compile(r"\.([A-Za-z_]\w*)|\[(\d+)\]|\['([^']*)'\]")
_SIMPLE = re.compile(rf"(dataset|collate_fn)({_STEP.pattern})+")


def found_at(path: str, roots: Mapping[str, Any]) -> Any:
    """The object at a simple path; None if there is none any more."""
    root, reached = re.split(r"[.\[]", path, maxsplit=1)[0], None
    reached = roots[root]
    try:
        for name, number, key in _STEP.findall(path[len(root) :]):
            entry = int(number) if number else key
            reached = object.__getattribute__(reached, name) if name else reached[entry]
    except (AttributeError, LookupError, TypeError):
        return None
    return reached


def state_of(generator: Any) -> State | None:
    """The current state of a generator; None for an unknown kind."""
    if isinstance(generator, torch.Generator):
        return State("torch", generator.initial_seed(), generator.get_state().numpy().tobytes())
    if isinstance(generator, random.Random):
        _, words, _ = random.Random.getstate(generator)
        return State("MT19937", None, np.array(words[:STATE_WORDS], dtype=np.uint32).tobytes(), words[STATE_WORDS])
    if isinstance(generator, np.random.RandomState):
        return _state_of_bits(generator.get_state(legacy=False))
    bits = getattr(generator, "bit_generator", generator)
    return _state_of_bits(bits.state) if isinstance(bits, np.random.BitGenerator) else None


STATE_WORDS = 624
"""The words of a state of MT19937; so many draws later they are replaced by the next ones."""


def _state_of_bits(state: Any) -> State | None:
    algorithm, inner = state["bit_generator"], state["state"]
    if algorithm == "MT19937":
        return State(algorithm, None, inner["key"].tobytes(), int(inner["pos"]))
    identity = inner.get(_IDENTITY.get(algorithm, ""))
    return None if identity is None else State(algorithm, repr(identity).encode(), repr(state).encode())


_IDENTITY = {"PCG64": "inc", "PCG64DXSM": "inc", "Philox": "key"}
"""What remains the same in a state, by bit generator, until it is seeded again."""


def advanced(before: State, after: State) -> bool:
    """Whether numbers were drawn between the two states and no seed was set: the draws follow from the first state."""
    if before == after or before.algorithm != after.algorithm:
        return False
    if before.algorithm != "MT19937":
        return before.stream == after.stream
    if before.content == after.content:
        return after.position > before.position
    return _reaches(before, after)


def _reaches(before: State, after: State) -> bool:
    """Whether MT19937 has the words of a later state at the beginning of one of its next blocks."""
    target = _bits(after, 0).random_raw(STATE_WORDS)
    bits = _bits(before, STATE_WORDS)
    for _ in range(0, MOST_BLOCKS, 1000):
        blocks = bits.random_raw(1000 * STATE_WORDS).reshape(1000, STATE_WORDS)
        if any((blocks[row] == target).all() for row in np.flatnonzero(blocks[:, 0] == target[0])):
            return True
    return False


MOST_BLOCKS = 16_000
"""How far a later state of MT19937 is looked for: 10 million words, which take 50 ms."""


def _bits(state: State, position: int) -> np.random.MT19937:
    """A generator with the words of a state; at position 624 its next draw makes new words."""
    bits = np.random.MT19937()
    key = np.frombuffer(state.content, dtype=np.uint32)
    bits.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": position}}
    return bits
