"""Where the user's code reads its rank, and what libraries remember of the rank of a process.

Code asks the environment, torch.distributed, or a library that has asked them before: accelerate keeps the answer for
the life of its process. A rank that is forked from a process of one rank would get that answer, so it is forgotten.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

import torch.distributed as dist
from torch.utils.data import IterableDataset

from dataguard.core.incident import is_library
from dataguard.core.model import Location
from dataguard.lab.core.source_location import rebind, replaced
from dataguard.process.originals import os

VARIABLES = frozenset(
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "SLURM_PROCID", "SLURM_NTASKS"}
)


@contextmanager
def rank_queries() -> Iterator[list[Location]]:
    """Where the user's code, or a library's stream, reads its rank inside the context, in order."""
    asked: list[Location] = []

    def note(what: str) -> None:
        line = _reading_line()
        if line:
            asked.append(Location(*line, what))

    def note_line(what: str, line: tuple[str, int]) -> None:
        asked.append(Location(*line, what))

    with _watched_environment(note), _watched_functions(note), _watched_states(note_line):
        yield asked


@contextmanager
def _watched_environment(note: Callable[[str], None]) -> Iterator[None]:
    kind: Any = type(os.environ)
    original = kind.__getitem__

    def getitem(environment: Any, key: Any) -> Any:
        if key in VARIABLES:
            note(f"os.environ[{key!r}]")
        return original(environment, key)

    with replaced(kind, "__getitem__", getitem):  # get(), getenv() and `in` end here too
        yield


_FUNCTIONS = ("get_rank", "get_world_size", "is_initialized")
_DEFINING = ("torch.distributed", "torch.distributed.distributed_c10d")


@contextmanager
def _watched_functions(note: Callable[[str], None]) -> Iterator[None]:
    def watched(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def asking(*args: Any, **kwargs: Any) -> Any:
            note(f"torch.distributed.{original.__name__}()")
            return original(*args, **kwargs)

        return asking

    pairs = [(original, watched(original)) for original in (getattr(dist, name) for name in _FUNCTIONS)]
    rebind({id(original): (original, other) for original, other in pairs}, _DEFINING)
    try:
        yield
    finally:
        rebind({id(other): (other, original) for original, other in pairs}, _DEFINING)


_DEEP = 40
"""Most frames to search for the user's code above a rank query, past those of the standard library."""
_BETWEEN = frozenset({"os", "_collections_abc", "collections", "dataguard"})


def _reading_line() -> tuple[str, int] | None:
    """The line that read the rank, directly or through `os`: of the user's code, or of a library's stream being read.

    Reads by torch itself do not count, nor those of other libraries, which log it.
    """
    asked: tuple[str, int] | None = None
    frame: Any = sys._getframe(2)
    for _ in range(_DEEP):
        if frame is None:
            return None
        file, package = frame.f_code.co_filename, frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in _BETWEEN:
            if not is_library(file):
                return None if asked else (file, frame.f_lineno)
            if package == "torch" and not asked:
                return None
            asked = asked or (file, frame.f_lineno)
            if isinstance(frame.f_locals.get("self"), IterableDataset):
                return asked
        frame = frame.f_back
    return None


@dataclass(frozen=True, slots=True)
class RankState:
    """A class of a library whose instances share the rank that it was given, in its attribute `shared`.

    `attributes` hold the rank and the number of ranks; `functions` of the library use them to shard a loader.
    """

    module: str
    name: str
    shared: str
    attributes: frozenset[str]
    functions: frozenset[str]

    @property
    def classes(self) -> list[Any]:
        """The class, if it has been imported."""
        kind = getattr(sys.modules.get(self.module), self.name, None)
        return [] if kind is None else [kind]


_ACCELERATE = (
    frozenset(
        {
            "process_index",
            "local_process_index",
            "num_processes",
            "is_main_process",
            "is_local_main_process",
            "is_last_process",
        }
    ),
    frozenset({"prepare", "prepare_data_loader", "_prepare_one", "split_between_processes"}),
)
RANK_STATES = (
    RankState("accelerate.state", "PartialState", "_shared_state", *_ACCELERATE),
    RankState("accelerate.state", "AcceleratorState", "_shared_state", *_ACCELERATE),
)
"""The libraries that are known to remember the rank."""
_MODULES = frozenset(state.module for state in RANK_STATES)


def forget_ranks() -> None:
    """Let libraries ask for the rank again, as in a process that has just been started, and compute on the CPU."""
    for state in RANK_STATES:
        for kind in state.classes:
            getattr(kind, state.shared).clear()
            setattr(kind, "__init__", _on_cpu(kind.__init__))  # noqa: B010 - mypy forbids the plain form
    # What the factory imports later has nothing to forget.
    sys.meta_path.insert(0, _Finder(_MODULES.difference(sys.modules), lambda _: forget_ranks()))


def _on_cpu(original: Callable[..., None]) -> Callable[..., None]:
    """A constructor with `cpu=True`: ranks here form a gloo group, and share the accelerators of this machine."""

    @functools.wraps(original)
    def init(instance: Any, *args: Any, **kwargs: Any) -> None:
        bound = inspect.signature(original).bind(instance, *args, **kwargs)
        bound.arguments["cpu"] = True
        original(*bound.args, **bound.kwargs)

    return init


@contextmanager
def _watched_states(note: Callable[[str, tuple[str, int]], None]) -> Iterator[None]:
    """Watch the reads of remembered ranks by the user's line, or by a function that shards a loader for it."""

    def watched(state: RankState, original: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        def getattribute(instance: Any, name: str) -> Any:
            if name in state.attributes and (line := _asking_line(state)):
                note(f"{state.name}.{name}", line)
            return original(instance, name)

        return getattribute

    def watch(module: str) -> None:
        for state in RANK_STATES:
            for kind in state.classes if state.module == module else ():
                stack.enter_context(replaced(kind, "__getattribute__", watched(state, kind.__getattribute__)))

    finder = _Finder(_MODULES.difference(sys.modules), watch)
    with ExitStack() as stack:
        for module in _MODULES.intersection(sys.modules):
            watch(module)
        sys.meta_path.insert(0, finder)
        stack.callback(sys.meta_path.remove, finder)
        yield


class _Finder(MetaPathFinder):
    """Calls a function with the name of each of these modules right after its first import."""

    def __init__(self, modules: frozenset[str], imported: Callable[[str], None]) -> None:
        self._modules = modules
        self._imported = imported

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec that Python finds itself, for such a module."""
        if name not in self._modules:
            return None
        spec = PathFinder.find_spec(name, path, target)
        loader: Any = spec and spec.loader
        if loader is not None:
            loader.exec_module = functools.partial(self._execute, loader.exec_module)
        return spec

    def _execute(self, execute: Callable[[ModuleType], None], module: ModuleType) -> None:
        execute(module)
        self._imported(module.__name__)


def _asking_line(state: RankState) -> tuple[str, int] | None:
    """The line of the user's code that reads an attribute, directly, through a property of its name, or to shard."""
    frame: Any = sys._getframe(2)
    shards = False
    for _ in range(_DEEP):
        if frame is None:
            return None
        code = frame.f_code
        if not is_library(code.co_filename):
            return code.co_filename, frame.f_lineno
        shards = shards or code.co_name in state.functions
        if not shards and code.co_name not in state.attributes:
            return None
        frame = frame.f_back
    return None
