"""Datasets that remove their files, fill the disk, and open everything."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

from tests.hostile.declared import named, passes
from tests.hostile.healthy import LENGTH, Numbers, in_main, in_worker, of


class Stored(Numbers):
    """Numbers in files of a folder of its own, which is removed with it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        for number in range(LENGTH):
            self.path(number).write_text(str(number))

    def path(self, index: int) -> Path:
        return Path(self.folder.name) / str(range(LENGTH)[index])

    def __getitem__(self, index: int) -> Any:
        return torch.full((3,), float(self.path(index).read_text()))


class Consumed(Stored):
    """Removes each file that it has read."""

    def __getitem__(self, index: int) -> Any:
        sample = super().__getitem__(index)
        self.path(index).unlink()
        return sample


@named("DG001", "No such file or directory", makes="tmp*")
def files_removed_after_reading() -> DataLoader:
    return of(Consumed())


@named("DG001", "No such file or directory", slow=True)
def files_removed_at_once() -> DataLoader:
    dataset = Stored()
    shutil.rmtree(dataset.folder.name)
    return of(dataset)


def everything_removed() -> None:
    """Remove all temporary files in the arena, those of the scan as well."""
    for path in Path(os.environ["DATAGUARD_ARENA"]).glob("*"):
        shutil.rmtree(path, ignore_errors=True)


@passes()
def temporary_files_removed() -> DataLoader:
    return in_main(everything_removed)


def fill() -> None:
    """Write until nothing can be written."""
    with tempfile.NamedTemporaryFile(prefix="hostile-") as file, contextlib.suppress(OSError):
        while True:
            os.write(file.fileno(), bytes(1 << 20))
            assert os.fstat(file.fileno()).st_size < 1 << 28, "the disk is larger than expected"


held: list[Any] = []


def fill_and_keep() -> None:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - it is kept open
    held.append(file)
    with contextlib.suppress(OSError):
        while os.fstat(file.fileno()).st_size < 1 << 28:
            os.write(file.fileno(), bytes(1 << 20))
    with contextlib.suppress(OSError):
        while os.write(file.fileno(), b"x"):
            pass


@passes(makes="hostile-*")
def disk_filled_in_passing() -> DataLoader:
    return in_worker(fill)


@passes()
def disk_filled_by_the_main_process() -> DataLoader:
    return in_main(fill_and_keep)


@passes()
def disk_filled_by_a_worker() -> DataLoader:
    return in_worker(fill_and_keep)


def open_many() -> None:
    held.extend(Path("/dev/null").open("rb") for _ in range(10_000))  # noqa: SIM115 - they are kept open


@named("DG001", "Too many open files")
def ten_thousand_files() -> DataLoader:
    return in_worker(open_many, at=None)


def open_all() -> None:
    with contextlib.suppress(OSError):
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))


@named("DG001", "Too many open files")
def every_descriptor_taken() -> DataLoader:
    return in_main(open_more)


def open_more() -> None:
    open_all()
    open_many()
