"""What kinds of held state have in common: a dataset that checks what it reads, and a folder for their files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

SIZE = 24


def value(index: int) -> int:
    """The sample of an index: less than 100."""
    return 3 * index + 1


VALUES = [value(index) for index in range(SIZE)]
BYTES = bytes(VALUES)


@dataclass(frozen=True)
class Kind:
    """A state that `make` leaves; `workers` of a loader that can use it.

    `anew`: the factory is called again in each observation, with this in the reason. `codes` are findings that plain
    torch justifies. `undecided`: checks that plain torch fails as well once they change a setting.
    """

    make: Callable[[], Any]
    workers: int
    anew: str
    codes: tuple[str, ...]
    undecided: bool
    needs: str


KINDS: dict[str, Kind] = {}


def kind(
    workers: int = 2, *, anew: str = "", codes: str = "", undecided: bool = False, needs: str = ""
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register a function that returns what is held and a function that reads an index from it."""

    def register(make: Callable[[], Any]) -> Callable[[], Any]:
        KINDS[make.__name__] = Kind(make, workers, anew, tuple(codes.split()), undecided, needs)
        return make

    return register


class Held(Dataset):
    """Reads a number from what it holds, and checks it."""

    def __init__(self, held: Any, read: Callable[[Any, int], Any]) -> None:
        self.held = held
        self.read = read

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        index = range(SIZE)[index]
        found = int(self.read(self.held, index))
        if found != value(index):
            raise ValueError(f"sample {index} is {found}")
        return torch.tensor([float(found), float(index)]), index % 4


def folder() -> Path:
    """Where the files of all kinds are."""
    return Path(os.environ["HELD"])


def stored(name: str, write: Callable[[Path], Any]) -> Path:
    """A file or folder that the first call of a factory writes."""
    path = folder() / name
    if not path.exists():
        part = path.with_name(f"{os.getpid()}-{name}")
        write(part)
        with contextlib.suppress(OSError):  # another process was faster
            part.rename(path)
    return path


def binary() -> Path:
    """A file with a byte for each sample."""
    return stored("data.bin", lambda path: path.write_bytes(BYTES))


def text() -> Path:
    """A file with a line of four characters for each sample."""
    return stored("data.txt", lambda path: path.write_text("".join(f"{one:03}\n" for one in VALUES)))


def looked_up(held: Any, index: int) -> int:
    return int(held[index])
