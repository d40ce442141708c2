"""Folders that are listed in a chosen order, whatever the file system returns."""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import pathlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from dataguard.lab.core.source_location import Place, caller, in_package, replaced
from dataguard.lab.reading.fresh_import import Places

Listing = tuple[Place | None, int | None]
"""A line that lists folders, and which of the listings there: None means all."""


@contextlib.contextmanager
def listed(
    places: Places,
    *,
    backward: bool,
    only: Listing | None = None,
    calls: Counter[Place | None] | None = None,
    lists: Callable[[str], bool] = lambda name: True,
) -> Iterator[None]:
    """Sort the result of every function in Python that lists a folder, and record where one is called, and how often.

    `backward`: in reverse, or `only` one listing. Only what `lists` a name is recorded.
    """
    calls = Counter() if calls is None else calls
    inside: list[Any] = []

    def ordered_entries(list_entries: Callable[[], Iterable[Any]], key: Callable[[Any], Any]) -> list[Any]:
        inside.append(None)
        try:
            found = sorted(list_entries(), key=key)
        finally:
            inside.pop()
        if len(found) > 1 and not inside:  # what one of these functions calls is sorted by it
            if not any(lists(pathlib.Path(key(entry)).name) for entry in found):
                return found
            at = caller()
            places[at] = places.get(at, True) and in_package()
            if backward and (only is None or only in ((at, None), (at, calls[at]))):
                found.reverse()
            calls[at] += 1
        return found

    def plain(function: Callable[..., Any]) -> Callable[..., Any]:
        returns_list = function in (os.listdir, glob.glob)

        @functools.wraps(function)
        def ordered(*arguments: Any, **options: Any) -> Any:
            found = ordered_entries(lambda: function(*arguments, **options), os.fspath)
            return found if returns_list else iter(found)

        return ordered

    def scan(path: Any = ".") -> _Scanned:
        with scandir(path) as entries:
            return _Scanned(ordered_entries(lambda: entries, lambda entry: os.fspath(entry.name)))

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
