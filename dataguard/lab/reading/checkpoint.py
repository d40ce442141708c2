"""The checkpoint: a process in which the factory has run, and from which observations are forked.

So a dataset that takes a minute to build costs a minute once, and its factory writes or downloads only once. It can be
taken if forks are safe; see `fork_safety`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dataguard.lab.process.fork_safety import OpenFile
from dataguard.target.discovery import wrapped_like
from dataguard.target.variants import Construction, Loader


class Checkpoint:
    """The loaders of a target by name, as its factory left them."""

    def __init__(self, loaders: Mapping[str, Loader], construction: Construction, files: tuple[OpenFile, ...]) -> None:
        self._loaders = loaders
        self._construction = construction
        self._files = files
        for file in files:
            file.unlock()
        self._used = False

    def variant(self, name: str, overrides: Mapping[str, Any], *, reuse: bool = False) -> Loader | None:
        """A loader with these arguments of `DataLoader.__init__`; to be called in a fork.

        None if this process has made one before, unless `reuse` allows it: reading may have changed the dataset that
        both would share.
        """
        if self._used and not reuse:
            return None
        if not self._used:
            for file in self._files:
                file.reopen()
        self._used = True
        loader = self._loaders[name]
        variant: Loader = wrapped_like(loader, self._construction.again(loader, overrides))
        return variant
