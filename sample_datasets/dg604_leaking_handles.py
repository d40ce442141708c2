"""DG604 leaking-handles: workers open files and never close them."""

from __future__ import annotations

import os
import tempfile
from collections import OrderedDict
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

MANY = 5_000_000
FEW = 120
SIZE = 64


def recording() -> Path:
    """A file of a few windows."""
    path = Path(tempfile.mkdtemp()) / "recording.bin"
    path.write_bytes(b"".join(number.to_bytes(8, "big") * (SIZE // 8) for number in range(FEW)))
    return path


def tensor(content: bytes) -> Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


class Recordings(Dataset):
    """Windows of a recording, which is opened for each of them."""

    def __init__(self, count: int = MANY) -> None:
        self.path = recording()
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        number = range(self.count)[index]
        return tensor(self.window(number)).float() + number, number

    def window(self, number: int) -> bytes:
        with self.path.open("rb") as file:
            return self.read(file, number)

    def read(self, file: IO[bytes], number: int) -> bytes:
        file.seek(SIZE * (number % FEW))
        return file.read(SIZE)


class Kept(Recordings):
    """Keeps whatever it opened."""

    def __init__(self, count: int = FEW) -> None:
        super().__init__(count)
        self.files: list[IO[bytes]] = []

    def window(self, number: int) -> bytes:
        self.files.append(self.path.open("rb"))  # culprit
        return self.read(self.files[-1], number)


def bad() -> DataLoader:
    """A file for each sample that is read, in a list."""
    return DataLoader(Kept(), batch_size=4, num_workers=2, persistent_workers=True)


class Lost(Recordings):
    """Opens by descriptor, which nothing closes."""

    def window(self, number: int) -> bytes:
        return os.pread(os.open(self.path, os.O_RDONLY), SIZE, SIZE * (number % FEW))


def bad_descriptor() -> DataLoader:
    """A descriptor that is forgotten at once."""
    return DataLoader(Lost(FEW), batch_size=4, num_workers=0)


class ByName(Recordings):
    """Opens each of very many files when it is first asked for, and keeps it open."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.files: dict[int, Any] = {}

    def window(self, number: int) -> bytes:
        if number not in self.files:
            self.files[number] = self.path.open("rb")  # culprit
        return self.read(self.files[number], number)


def bad_each_once() -> DataLoader:
    """Each file is opened only once, and there are more of them than may be open."""
    return DataLoader(ByName(MANY), batch_size=4, num_workers=2)


def good() -> DataLoader:
    """Opens and closes."""
    return DataLoader(Recordings(), batch_size=4, num_workers=2)


def good_few() -> DataLoader:
    """Each of a few files is opened once."""
    return DataLoader(ByName(FEW), batch_size=4, num_workers=2)


class Pool(Recordings):
    """Keeps those files open that were read last."""

    def __init__(self, bound: int) -> None:
        super().__init__()
        self.bound = bound
        self.files: OrderedDict[int, Any] = OrderedDict()

    def window(self, number: int) -> bytes:
        if number not in self.files:
            self.files[number] = self.path.open("rb")
            if len(self.files) > self.bound:
                self.files.popitem(last=False)[1].close()
        return self.read(self.files[number], number)


def good_pool() -> DataLoader:
    """A pool with a bound that is soon reached."""
    return DataLoader(Pool(32), batch_size=4, num_workers=2)


class Circle:
    """Refers to itself, so that only the garbage collector ends it."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.itself = self


class Circular(Recordings):
    """Leaves closing to the garbage collector."""

    def window(self, number: int) -> bytes:
        return self.read(Circle(self.path.open("rb")).file, number)


def good_garbage() -> DataLoader:
    """Files stay open for a while."""
    return DataLoader(Circular(), batch_size=4, num_workers=2)
