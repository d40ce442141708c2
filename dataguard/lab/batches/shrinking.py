"""The smallest example of a failure, found by hypothesis: reproducible unless the user sets a seed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.util import get_temp_dir
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ExampleSearch:
    """How hypothesis searches for one loader: deterministic, with another seed, or with an example database.

    `database` is a folder of failing examples, which are tried first; all others then vary between runs. As in
    hypothesis, a `seed` or a derandomized profile, as on CI, disables the database. `name` is that of the loader, which
    has examples of its own.
    """

    seed: int | str | None = None
    database: str | None = None
    name: str = ""

    def smallest(
        self, strategy: SearchStrategy[T], fails: Callable[[T], bool], *, examples: int, subject: str
    ) -> T | None:
        """The smallest of at most so many examples, and of those near them, that fails; None if none does."""
        from hypothesis import HealthCheck, find, settings
        from hypothesis.configuration import set_hypothesis_home_dir
        from hypothesis.database import DirectoryBasedExampleDatabase
        from hypothesis.errors import NoSuchExample

        _ignore_constants()
        set_hypothesis_home_dir(get_temp_dir())  # it keeps files of its own in the current directory otherwise
        fixed = self.seed is not None or self.database is None or settings().derandomize
        quiet = settings(
            max_examples=examples,
            database=None if fixed else DirectoryBasedExampleDatabase(Path(self.database or "")),
            deadline=None,
            derandomize=False,
            suppress_health_check=list(HealthCheck),
        )
        random = Random(self.seed or 0) if fixed else None
        key = f"dataguard {subject} {self.name}".encode(errors="backslashreplace")
        try:
            return find(strategy, fails, settings=quiet, random=random, database_key=key)
        except NoSuchExample:
            return None


def _ignore_constants() -> None:
    """Keep hypothesis from trying the constants of the user's modules: it parses each of them, which takes seconds."""
    with contextlib.suppress(ImportError, AttributeError):  # versions before 6.131 do not
        providers: Any = import_module("hypothesis.internal.conjecture.providers")
        providers._seen_modules.update(map(id, sys.modules.values()))
