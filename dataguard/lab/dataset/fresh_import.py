"""The user's modules, imported again in a disposable process, to observe what they do at import."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, ModuleType

from dataguard.incident import imported_files, is_library
from dataguard.lab.core.index import Index
from dataguard.lab.reading.epoch_trace import gated_build
from dataguard.lab.reading.sample_reader import Answer, Reader
from dataguard.settings.settings import Settings
from dataguard.target.loading import Target, load
from dataguard.target.variants import Loader


def rebuild(target: Target, name: str, settings: Settings, wanted: Mapping[str, object]) -> Loader:
    """Build a loader from newly imported modules; from the existing ones if they cannot be imported twice."""
    own = own_modules()
    for module in own:
        del sys.modules[module]
    try:
        branches = {branch.name: branch for branch in load(target.spelling).branches()}
        target = branches.get(target.name, target)
    except Exception:  # noqa: BLE001 - a module may register itself somewhere, and refuse to do so twice
        sys.modules.update(own)
    return gated_build(target, name, settings.seed, wanted)


Place = tuple[str, int, str]
"""File, line and function."""
Places = dict[Place | None, None]
"""Lines of the user's code, in order of occurrence; None is a library without a caller in the user's code."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What indices mean in a dataset built under a certain order, and where that order was used."""

    answers: tuple[Answer, ...]
    places: tuple[Place | None, ...]


def read_rebuilt(
    build: Callable[[], Loader],
    folder: Path,
    indices: Sequence[Index],
    places: Places,
    *orders: contextlib.AbstractContextManager[None],
) -> Rebuilt:
    """Build the loader and read some samples under these orders, which record the `places`."""
    with contextlib.ExitStack() as stack:
        for order in orders:
            stack.enter_context(order)
        reader = Reader(build(), folder)
        answers = [reader.ask(index) for index in indices]
    return Rebuilt(tuple(answers), tuple(places))


def own_modules() -> dict[str, ModuleType]:
    """The user's modules."""
    own = [name for name, file in imported_files().items() if is_own_source(name, file)]
    return {name: sys.modules[name] for name in own}


def is_own_source(name: str, file: str) -> bool:
    """Whether a module of this name in this file is the user's and in Python."""
    return file.endswith(".py") and name.partition(".")[0] not in ("dataguard", "__main__") and not is_library(file)


def caller() -> Place | None:
    """The innermost line of the user's code on the stack: file, line and function."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_library(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
        frame = frame.f_back
    return None
