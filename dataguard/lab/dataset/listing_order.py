"""Folders that are listed in a chosen order, whatever the file system returns."""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from dataguard.lab.core.source_location import Place, caller, in_package, replaced
from dataguard.lab.reading.fresh_import import Places


@contextlib.contextmanager
def listed(places: Places, *, backward: bool, only: Place | None = None) -> Iterator[None]:
    """Sort the result of every function in Python that lists a folder, and record where one is called.

    `backward`: in reverse, or `only` those that are listed there.
    """

    def ordered_entries(entries: Iterable[Any], key: Callable[[Any], Any]) -> list[Any]:
        at = caller()
        found = sorted(entries, key=key, reverse=backward and only in (None, at))
        if len(found) > 1:
            places[at] = places.get(at, True) and in_package()
        return found

    def plain(function: Callable[..., Any]) -> Callable[..., Any]:
        returns_list = function in (os.listdir, glob.glob)

        @functools.wraps(function)
        def ordered(*arguments: Any, **options: Any) -> Any:
            found = ordered_entries(function(*arguments, **options), os.fspath)
            return found if returns_list else iter(found)

        return ordered

    def scan(path: Any = ".") -> _Scanned:
        with scandir(path) as entries:
            return _Scanned(ordered_entries(entries, lambda entry: os.fspath(entry.name)))

    scandir = os.scandir
    owners: list[tuple[Any, str]] = [(os, "listdir"), (glob, "glob"), (glob, "iglob")]
    owners += [(pathlib.Path, name) for name in ("iterdir", "glob", "rglob")]
    with contextlib.ExitStack() as stack:
        for owner, name in owners:
            stack.enter_context(replaced(owner, name, plain(getattr(owner, name))))
        stack.enter_context(replaced(os, "scandir", scan))
        yield


class _Scanned:
    """The result of `os.scandir`, in another order."""

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
