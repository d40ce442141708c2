"""The checkpoint: a process in which the factory has run, and from which observations are forked.

So a dataset that takes a minute to build costs a minute once, and its factory writes or downloads only once. It can be
taken if forks are safe; see `fork_safety`.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from types import FunctionType
from typing import Any

from dataguard.lab.core.object_graph import reachable
from dataguard.lab.process.fork_safety import OpenFile
from dataguard.model import Location
from dataguard.targets.discovery import wrapped_like
from dataguard.targets.variants import Construction, Loader


class Checkpoint:
    """The loaders of a target by name, as its factory left them.

    `decodes`: it decoded images. `asked_for_rank` is where it read its rank first, if it did.
    """

    def __init__(
        self,
        loaders: Mapping[str, Loader],
        construction: Construction,
        files: tuple[OpenFile, ...],
        *,
        decodes: bool = False,
        asked_for_rank: Location | None = None,
    ) -> None:
        self.decodes = decodes
        self.asked_for_rank = asked_for_rank
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

    def let_go(self) -> bool:
        """Free the datasets in this fork, as far as nothing else holds them; whether it did.

        What may be open only once in a process is open in each fork, such as an environment of LMDB. Not with a
        `__del__` in Python, which may remove the files that other forks need.
        """
        if not self._loaders or next(iter(reachable(self._loaders, _is_finalized)), None) is not None:
            return False
        self._loaders, self._construction = {}, Construction({})
        gc.unfreeze()
        gc.collect()
        return True


def _is_finalized(value: Any) -> bool | None:
    return isinstance(getattr(type(value), "__del__", None), FunctionType) or None
