"""Inside workers: the states of random generators when a worker starts, and after it drew from them.

`StartRecord` replaces `worker_init_fn` while torch starts the workers, runs the user's own first, and leaves
`get_worker_info().dataset` as it is. What it records travels in a file, as batches belong to the user.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.utils.data import _DatasetKind, get_worker_info

from dataguard.training.randomness.generator_states import State, advanced, global_generators, state_of

FETCHES = (1, 2, 4, 8, 16, 32)
"""After which fetches the generators that were not drawn from yet are read again."""
_STEP = re.compile(r"\.([A-Za-z_]\w*)|\[(\d+)\]|\['([^']*)'\]")
_SIMPLE = re.compile(rf"(dataset|collate_fn)({_STEP.pattern})+")


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
        if self.count in FETCHES:
            try:
                self.record.write(self.before, self.roots, self.worker)
            except Exception:  # noqa: BLE001 - nothing that the guard meets may end a worker: it sees nothing here
                self.before.clear()
        if self.count >= FETCHES[-1] or not self.before:
            self.fetcher.fetch = self.fetch
        return data


def is_simple(path: str) -> bool:
    """Whether a path leads from the dataset or collate_fn to an object by attributes and entries alone."""
    return _SIMPLE.fullmatch(path) is not None


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
