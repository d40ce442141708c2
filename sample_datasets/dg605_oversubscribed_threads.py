"""DG605 oversubscribed-threads: every worker starts threads for all cores."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

WORKERS = 4


class Spectra(Dataset):
    """Signals that a chain of operations is computed from when they are asked for."""

    def __len__(self) -> int:
        return 512

    def __getitem__(self, index: int) -> Tensor:
        signal = torch.linspace(0, 1 + range(len(self))[index], 40_000)
        for _ in range(3):
            signal = (signal * 1.01).sin()
        return signal[:64].clone()


def use_all_cores(worker: int) -> None:
    """Undo what torch did for this worker."""
    torch.set_num_threads(os.cpu_count() or 1)


def bad() -> DataLoader:
    """A worker_init_fn that was meant to make things faster."""
    return DataLoader(Spectra(), batch_size=2, num_workers=WORKERS, worker_init_fn=use_all_cores)


def good() -> DataLoader:
    """Each worker has the one thread that torch gives it."""
    return DataLoader(Spectra(), batch_size=4, num_workers=WORKERS)


class Waiting(Dataset):
    """Fetches parts of a sample in threads of Python, which wait most of the time."""

    def __init__(self) -> None:
        self.pool: ThreadPoolExecutor | None = None

    def __len__(self) -> int:
        return 256

    def __getitem__(self, index: int) -> Tensor:
        number = range(len(self))[index]
        self.pool = self.pool or ThreadPoolExecutor(8)
        return torch.tensor([float(part) for part in self.pool.map(lambda step: number + step, range(8))])


def good_waiting() -> DataLoader:
    """Many threads, which need no core."""
    return DataLoader(Waiting(), batch_size=4, num_workers=WORKERS)


class Products(Dataset):
    """Multiplies matrices that are too small for more than one thread."""

    def __len__(self) -> int:
        return 512

    def __getitem__(self, index: int) -> Any:
        matrix = np.full((24, 24), 1e-3 * range(len(self))[index])
        return (matrix @ matrix).astype(np.float32)


def good_small_products() -> DataLoader:
    """BLAS would start threads, and has no reason to."""
    return DataLoader(Products(), batch_size=4, num_workers=WORKERS)


class Blurred(Dataset):
    """Blurs pictures with OpenCV, which splits each of them between its threads."""

    def __len__(self) -> int:
        return 512

    def __getitem__(self, index: int) -> Any:
        import cv2

        image = np.full((384, 384, 3), range(len(self))[index] % 255, np.uint8)
        image[:, :, 1] = index // 2
        image[:8] = 255
        return cv2.GaussianBlur(image, (15, 15), 3).transpose(2, 0, 1).copy(), index


def one_thread(worker: int) -> None:
    """Let workers share the work by samples alone."""
    import cv2

    cv2.setNumThreads(0)


def good_opencv() -> DataLoader:
    """OpenCV has one thread in each worker."""
    return DataLoader(Blurred(), batch_size=4, num_workers=WORKERS, worker_init_fn=one_thread)
