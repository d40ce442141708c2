"""DG312 substituted-sample: a sample that cannot be read is silently replaced."""

from __future__ import annotations

import logging
import os
import random
from io import BytesIO
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from sample_datasets._parts import PHOTOGRAPHS, Pictures

CLASSES = ("cat", "coffee", "rocket")
Sample = tuple[Tensor, int]


def decoded(path: Path) -> Tensor:
    """A photograph by PIL, (3, 32, 32), float32 in [0, 1]."""
    image = Image.open(path).convert("RGB").resize((32, 32))
    return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1) / 255


class Photographs(Dataset[Any]):
    """Photographs from files, in three classes."""

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    def __getitem__(self, index: int) -> Any:
        path = PHOTOGRAPHS[index]
        return decoded(path), CLASSES.index(path.parent.name)


class Next(Photographs):
    """Goes on to the next one."""

    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except OSError:
            return self[(index + 1) % len(self)]


def bad() -> DataLoader[Any]:
    """The next photograph stands in for one that cannot be opened."""
    return DataLoader(Next(), batch_size=4, shuffle=True)


class Other(Photographs):
    """Tries others at random."""

    def __getitem__(self, index: int) -> Any:
        for _ in range(10):
            try:
                return super().__getitem__(index)
            except Exception as error:  # noqa: BLE001
                print(f"skipping {index}: {error}")
                index = random.randrange(len(self))
        raise RuntimeError("nothing can be read")


def bad_random() -> DataLoader[Any]:
    """A random photograph stands in, and a line is printed that nobody reads."""
    return DataLoader(Other(), batch_size=4, shuffle=True, num_workers=2)


class Black(Photographs):
    """By OpenCV, with a black picture in place of None."""

    def __getitem__(self, index: int) -> Sample:
        path = PHOTOGRAPHS[index]
        image = cv2.imread(str(path))
        if image is None:
            image = np.zeros((32, 32, 3), np.uint8)
        image = cv2.resize(image, (32, 32))[:, :, ::-1].copy()
        return torch.from_numpy(image).permute(2, 0, 1) / 255, CLASSES.index(path.parent.name)


def bad_black() -> DataLoader[Any]:
    """A black picture keeps the label of what it stands for."""
    return DataLoader(Black(), batch_size=4)


class Corrupt(Photographs):
    """Catches what PIL raises when there is no picture in a file."""

    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except UnidentifiedImageError:
            return torch.zeros(3, 32, 32), 0


def bad_corrupt() -> DataLoader[Any]:
    """Only what is no picture is replaced; a missing file raises."""
    return DataLoader(Corrupt(), batch_size=4)


class Patient(Photographs):
    """Tries to open a photograph until that works."""

    def __getitem__(self, index: int) -> Any:
        while True:
            try:
                return super().__getitem__(index)
            except OSError:
                print(f"cannot read {index}, trying again")


def bad_endless() -> DataLoader[Any]:
    """A photograph that is lost is tried again without end."""
    return DataLoader(Patient(), batch_size=4, shuffle=True, num_workers=2)


class Attempts(Photographs):
    """Tries a few times, as a network file system may fail for a moment."""

    def __getitem__(self, index: int) -> Any:
        for _ in range(4):
            try:
                return super().__getitem__(index)
            except OSError as error:
                failure = error
        raise failure


def good_attempts() -> DataLoader[Any]:
    """A photograph that cannot be opened raises after four attempts."""
    return DataLoader(Attempts(), batch_size=4, shuffle=True)


def good() -> DataLoader[Any]:
    """A photograph that cannot be opened raises."""
    return DataLoader(Photographs(), batch_size=4, shuffle=True)


class OrNone(Photographs):
    """None in the place of what cannot be read."""

    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except OSError:
            return None


def readable(samples: list[Any]) -> Any:
    """Leave out what could not be read."""
    return default_collate([sample for sample in samples if sample is not None])


def good_dropped() -> DataLoader[Any]:
    """What cannot be read is None, and left out by the collate function."""
    return DataLoader(OrNone(), batch_size=4, shuffle=True, collate_fn=readable)


class Logged(Photographs):
    """Goes on to the next one, and says so in the log."""

    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except OSError as error:
            logging.getLogger(__name__).warning("sample %d skipped: %s", index, error)
            return self[(index + 1) % len(self)]


def good_logged() -> DataLoader[Any]:
    """The next photograph stands in, and a warning is logged."""
    return DataLoader(Logged(), batch_size=4, shuffle=True)


class Flagged(Photographs):
    """Zeros, and a label that the loss ignores."""

    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except OSError:
            return torch.zeros(3, 32, 32), -100


def good_ignored() -> DataLoader[Any]:
    """A label of -100 tells the loss to leave the sample out."""
    return DataLoader(Flagged(), batch_size=4, shuffle=True)


class Stubborn(Photographs):
    """Reads a copy where the file is not there."""

    def __init__(self) -> None:
        self.copies = {path: path.read_bytes() for path in PHOTOGRAPHS}

    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except OSError:
            import io

            path = PHOTOGRAPHS[index]
            image = Image.open(io.BytesIO(self.copies[path])).convert("RGB").resize((32, 32))
            return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1) / 255, CLASSES.index(path.parent.name)


def good_copy() -> DataLoader[Any]:
    """The same photograph comes from another place."""
    return DataLoader(Stubborn(), batch_size=4)


def good_memory() -> DataLoader[Any]:
    """Pictures in memory are made of no file."""
    return DataLoader(Pictures(), batch_size=4)


class Bytes(Photographs):
    """Some bytes from the middle of each file, as they are."""

    def __getitem__(self, index: int) -> Any:
        with PHOTOGRAPHS[index].open("rb") as file:
            file.seek(200)
            return torch.frombuffer(bytearray(file.read(256)), dtype=torch.uint8), index % 3


def good_bytes() -> DataLoader[Any]:
    """Whatever a file holds is a sample: nothing in it can be wrong."""
    return DataLoader(Bytes(), batch_size=1)


def read_in_grey(path: Path) -> Tensor:
    """A photograph in grey, by a reader that opens files itself, as libraries in C++ do."""
    file = os.open(path, os.O_RDONLY)
    content = os.read(file, os.fstat(file).st_size)
    os.close(file)
    image = Image.open(BytesIO(content)).convert("L").convert("RGB").resize((32, 32))
    return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1) / 255


class TwoReaders(Photographs):
    """Photographs by PIL or, if it cannot read a file, by another library."""

    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except OSError:
            path = PHOTOGRAPHS[index]
            return read_in_grey(path), CLASSES.index(path.parent.name)


def good_two_readers() -> DataLoader[Any]:
    """The other reader opens the same file, and raises if there is none."""
    return DataLoader(TwoReaders(), batch_size=4, shuffle=True)
