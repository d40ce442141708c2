"""Where hypothesis looks for the smallest example of something: the same in every run, unless the user has a seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.util import get_temp_dir
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Drawing:
    """How hypothesis draws for one loader: always the same, by another seed, or with a database of failing examples.

    `database` is a folder, from which failing examples are tried first; other examples are new in each run then. As
    with hypothesis itself, a `seed` goes without the database, and so does a profile that is derandomized, as on CI.
    `name` is that of the loader, whose examples are its own.
    """

    seed: int | str | None = None
    database: str | None = None
    name: str = ""

    def smallest(
        self, strategy: SearchStrategy[T], fails: Callable[[T], bool], *, examples: int, subject: str
    ) -> T | None:
        """The smallest of at most so many examples, and of what is near them, that fails; None where none does."""
        from hypothesis import HealthCheck, find, settings
        from hypothesis.configuration import set_hypothesis_home_dir
        from hypothesis.database import DirectoryBasedExampleDatabase
        from hypothesis.errors import NoSuchExample

        set_hypothesis_home_dir(get_temp_dir())  # it keeps files of its own in the current directory otherwise
        steady = self.seed is not None or self.database is None or settings().derandomize
        quiet = settings(
            max_examples=examples,
            database=None if steady else DirectoryBasedExampleDatabase(Path(self.database or "")),
            deadline=None,
            derandomize=False,
            suppress_health_check=list(HealthCheck),
        )
        random = Random(self.seed or 0) if steady else None
        key = f"dataguard {subject} {self.name}".encode()
        try:
            return find(strategy, fails, settings=quiet, random=random, database_key=key)
        except NoSuchExample:
            return None
