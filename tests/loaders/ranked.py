"""Factories that work on rank 0 and fail on any other."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from torch.utils.data import DataLoader

from sample_datasets._parts import Pictures, brighten


def _loader() -> DataLoader[Any]:
    return DataLoader(Pictures(transform=brighten), batch_size=4, num_workers=2)


def raises(rank: int) -> DataLoader[Any]:
    if rank:
        raise ValueError("no data for this rank")
    return _loader()


def dies(rank: int) -> DataLoader[Any]:
    if rank:
        os.kill(os.getpid(), signal.SIGKILL)
    return _loader()


def hangs(rank: int) -> DataLoader[Any]:
    if rank:
        time.sleep(600)
    return _loader()
