"""A dataset built while folders are listed in a certain order, whatever the file system says."""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataguard.lab.reader import Answer, Reader
from dataguard.lab.records import Index
from dataguard.lab.reimports import caller
from dataguard.variants import Loader

PROBES = 8
"""Samples that are read in each order."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What indices meant under one order of files, and where folders were listed: file, line and function.

    A place is None where a library lists by itself. `length` is that of the dataset.
    """

    answers: tuple[Answer, ...]
    length: int | None
    places: tuple[tuple[str, int, str] | None, ...]


def read_listed(build: Callable[[], Loader], folder: Path, indices: Sequence[Index], *, turned: bool) -> Listing:
    """Build the loader, and read some samples, with every folder listed by name, or backwards."""
    places: dict[tuple[str, int, str] | None, None] = {}
    with _listed(places, turned=turned):
        loader = build()
        reader = Reader(loader, folder)
        answers = [reader.ask(index) for index in indices]
        length = len(reader.dataset)
    return Listing(tuple(answers), length, tuple(places))


@contextlib.contextmanager
def _listed(places: dict[tuple[str, int, str] | None, None], *, turned: bool) -> Iterator[None]:
    """Every way of listing a folder that Python has gives one order."""

    def put(entries: Iterable[Any], key: Callable[[Any], Any]) -> list[Any]:
        found = sorted(entries, key=key, reverse=turned)
        if len(found) > 1:
            places.setdefault(caller())
        return found

    def plain(function: Callable[..., Any]) -> Callable[..., Any]:
        whole = function in (os.listdir, glob.glob)

        @functools.wraps(function)
        def listed(*arguments: Any, **options: Any) -> Any:
            found = put(function(*arguments, **options), os.fspath)
            return found if whole else iter(found)

        return listed

    def scan(path: Any = ".") -> _Scanned:
        with scandir(path) as entries:
            return _Scanned(put(entries, lambda entry: os.fspath(entry.name)))

    scandir = os.scandir
    owners: list[tuple[Any, str]] = [(os, "listdir"), (glob, "glob"), (glob, "iglob")]
    owners += [(pathlib.Path, name) for name in ("iterdir", "glob", "rglob")]
    with contextlib.ExitStack() as stack:
        for owner, name in owners:
            stack.enter_context(_replaced(owner, name, plain(getattr(owner, name))))
        stack.enter_context(_replaced(os, "scandir", scan))
        yield


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


class _Scanned:
    """What `os.scandir` gives, in another order."""

    def __init__(self, entries: Sequence[os.DirEntry[Any]]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> _Scanned:
        return self

    def __next__(self) -> os.DirEntry[Any]:
        return next(self._entries)

    def __enter__(self) -> _Scanned:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is open any more."""
