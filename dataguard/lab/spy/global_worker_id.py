"""Global worker ids: numbers of the workers of all ranks that share a scan of a stream."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch.utils.data import get_worker_info

from dataguard.lab.core.instrument import Instrument


@dataclass(frozen=True, slots=True)
class GlobalWorkerIds(Instrument):
    """Lets `get_worker_info` number the workers of all `world` ranks as if one loader had them.

    Each keeps the seed that torch gave it.
    """

    rank: int
    world: int

    @contextlib.contextmanager
    def around_init(self) -> Iterator[None]:
        """Renumber this worker before the user's `worker_init_fn` runs and gets the new id."""
        info: Any = get_worker_info()
        renumbered = {"id": self.rank * info.num_workers + info.id, "num_workers": self.world * info.num_workers}
        for name, value in renumbered.items():
            object.__setattr__(info, name, value)  # the object refuses assignment
        yield
