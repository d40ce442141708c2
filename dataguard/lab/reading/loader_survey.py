"""The first look at a target: its loaders by name, and the settings of each."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from dataguard.incident import OWN, is_library
from dataguard.lab.core import loader_facts
from dataguard.lab.core.loader_facts import LoaderFacts
from dataguard.lab.process import isolation
from dataguard.lab.reading import epoch_trace
from dataguard.model import UsageError
from dataguard.process.gc_pause import infrequent_gc
from dataguard.settings.settings import Settings
from dataguard.target.loading import Target, load


def requested(settings: Settings) -> Mapping[str, Any]:
    """The overrides of `DataLoader.__init__` that the user's settings ask for."""
    wanted: dict[str, Any] = {}
    if settings.workers is not None:
        wanted["num_workers"] = settings.workers
    if settings.start_method is not None:
        wanted["multiprocessing_context"] = settings.start_method
    return wanted


def describe(
    target: Target, settings: Settings, folder: Path, along: Callable[[str], None] | None = None
) -> tuple[dict[str, LoaderFacts], list[str]]:
    """Build a target's loaders in a separate process, and read their settings, by loader name.

    Also names the modules that the factory imported, in their order, so that the next processes need not do so again.
    `along` is called with the name of each module of a library as soon as the user's code imports it there: where there
    is a second core, importing it here at the same time takes hardly any longer.
    Raises UsageError when the target is none, and LoaderFailed when the user's code does not get through.
    """
    own = Path(tempfile.mkdtemp(dir=folder))
    imports = own / "imports"
    imports.touch()

    def look() -> tuple[dict[str, LoaderFacts], list[str]]:
        before = set(sys.modules)
        with infrequent_gc(), _announced(imports):
            if settings.key and not callable(load(settings.key).source):
                raise UsageError(f"contract.key: {settings.key} is not callable; it must be a function of one sample")
            loaders = epoch_trace.gated_build_all(target, settings.seed, requested(settings))
        known = {
            name: loader_facts.facts_of(name, loader, settings.roles, target.name) for name, loader in loaders.items()
        }
        return known, [module for module in sys.modules if module not in before]

    with imports.open(encoding="utf-8") as announced:

        def follow() -> None:
            if along is not None:
                for line in announced:
                    along(line.strip())

        return isolation.isolated(look, own, timeout=settings.timeout, allowed=float("inf"), meanwhile=follow)


@contextlib.contextmanager
def _announced(imports: Path) -> Iterator[None]:
    """Write the names of modules of libraries into a file, a line each, before they are imported."""
    announcer = _Announcer(imports)
    sys.meta_path.insert(0, announcer)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # the user's code may change it
            sys.meta_path.remove(announcer)


class _Announcer(MetaPathFinder):
    """Finds no module, but writes down which ones of libraries the user's code looks for and gets."""

    def __init__(self, imports: Path) -> None:
        self._imports = imports

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not _within_an_import():
            spec = PathFinder.find_spec(fullname, path, target)
            if spec is not None and spec.origin is not None and is_library(spec.origin):
                with contextlib.suppress(OSError), self._imports.open("a") as file:  # the user may close what is open
                    file.write(f"{fullname}\n")
        return None


def _within_an_import() -> bool:
    """Whether a module of a library is being imported, which may do without what it looks for."""
    frame = sys._getframe(2)
    while frame.f_back is not None and not frame.f_code.co_filename.startswith(OWN):
        if frame.f_code.co_name == "<module>" and is_library(frame.f_code.co_filename):
            return True
        frame = frame.f_back
    return False
