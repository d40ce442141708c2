"""DG312 substituted-sample: a sample that cannot be read is silently replaced."""

from __future__ import annotations

import logging
import os
import random
import sqlite3
import time
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import soundfile
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from sample_datasets._parts import PHOTOGRAPHS, Pictures, scratch
from sample_datasets._sounds import Sounds, recordings

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
        except OSError:  # culprit
            return self[(index + 1) % len(self)]  # culprit


def bad() -> DataLoader[Any]:
    """The next photograph stands in for one that cannot be opened."""
    return DataLoader(Next(), batch_size=4, shuffle=True)


class Other(Photographs):
    """Tries others at random."""

    def __getitem__(self, index: int) -> Any:
        for _ in range(10):
            try:
                return super().__getitem__(index)
            except Exception as error:  # noqa: BLE001  # culprit
                print(f"skipping {index}: {error}")
                index = random.randrange(len(self))  # culprit
        raise RuntimeError("nothing can be read")


def bad_random() -> DataLoader[Any]:
    """A random photograph stands in, and a line is printed that nobody reads."""
    return DataLoader(Other(), batch_size=4, shuffle=True, num_workers=2)


class Black(Photographs):
    """By OpenCV, with a black picture in place of None."""

    def __getitem__(self, index: int) -> Sample:
        path = PHOTOGRAPHS[index]
        image = cv2.imread(str(path))
        if image is None:  # culprit
            image = np.zeros((32, 32, 3), np.uint8)  # culprit
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
        except UnidentifiedImageError:  # culprit
            return torch.zeros(3, 32, 32), 0  # culprit


def bad_corrupt() -> DataLoader[Any]:
    """Only what is no picture is replaced; a missing file raises."""
    return DataLoader(Corrupt(), batch_size=4)


class Patient(Photographs):
    """Tries to open a photograph until that works."""

    def __getitem__(self, index: int) -> Any:
        while True:  # culprit
            try:
                return super().__getitem__(index)
            except OSError:  # culprit
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


ARCHIVE = scratch("dg312") / "photographs.zip"
"""The photographs in a zip file."""
with zipfile.ZipFile(ARCHIVE, "w") as archive:
    for photograph in PHOTOGRAPHS:
        archive.write(photograph, photograph.name)


class Archived(Photographs):
    """Photographs from a zip file, which each read opens."""

    def encoded(self, index: int) -> bytes:
        """The file of a photograph."""
        with zipfile.ZipFile(ARCHIVE) as archive:
            return archive.read(PHOTOGRAPHS[index].name)

    def __getitem__(self, index: int) -> Any:
        image = Image.open(BytesIO(self.encoded(index))).convert("RGB").resize((32, 32))
        pixels = torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1) / 255
        return pixels, CLASSES.index(PHOTOGRAPHS[index].parent.name)


class BlackArchived(Archived):
    """A black picture of the first class for what cannot be decoded."""

    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except OSError:  # culprit
            return torch.zeros(3, 32, 32), 0  # culprit


def bad_archive() -> DataLoader[Any]:
    """A black picture with a made-up label stands in for bytes of an archive that cannot be decoded."""
    return DataLoader(BlackArchived(), batch_size=4)


def good_archive() -> DataLoader[Any]:
    """Bytes of an archive that cannot be decoded raise."""
    return DataLoader(Archived(), batch_size=4)


DATABASE = scratch("dg312") / "photographs.sqlite"
"""The photographs in a database."""
with sqlite3.connect(DATABASE) as _database:
    _database.execute("CREATE TABLE photographs (number INTEGER PRIMARY KEY, content BLOB)")
    _rows = [(number, photograph.read_bytes()) for number, photograph in enumerate(PHOTOGRAPHS)]
    _database.executemany("INSERT INTO photographs VALUES (?, ?)", _rows)


class Stored(Photographs):
    """Photographs from a database, by OpenCV; another one for what cannot be decoded."""

    def __getitem__(self, index: int) -> Any:
        with sqlite3.connect(DATABASE) as database:
            (content,) = database.execute("SELECT content FROM photographs WHERE number = ?", (index,)).fetchone()
        image = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
        if image is None:  # culprit
            return self[(index + 1) % len(self)]  # culprit
        image = cv2.resize(image, (32, 32))[:, :, ::-1].copy()
        return torch.from_numpy(image).permute(2, 0, 1) / 255, CLASSES.index(PHOTOGRAPHS[index].parent.name)


def bad_database() -> DataLoader[Any]:
    """The next row of a database stands in for one that cannot be decoded."""
    return DataLoader(Stored(), batch_size=4, shuffle=True)


class Pausing(Photographs):
    """Tries to open a photograph until that works, once in ten seconds."""

    def __getitem__(self, index: int) -> Any:
        while True:  # culprit
            try:
                return super().__getitem__(index)
            except OSError:  # culprit
                time.sleep(10)  # culprit


def bad_endless_pauses() -> DataLoader[Any]:
    """A photograph that is lost is waited for without end."""
    return DataLoader(Pausing(), batch_size=4, shuffle=True, num_workers=2)


class UntilDeadline(Photographs):
    """Tries to open a photograph for ten minutes, as a network file system may come back."""

    def __getitem__(self, index: int) -> Any:
        deadline = time.monotonic() + 600
        while True:
            try:
                return super().__getitem__(index)
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1)


def good_deadline() -> DataLoader[Any]:
    """A photograph that is lost is waited for, and raises in the end."""
    return DataLoader(UntilDeadline(), batch_size=4, shuffle=True)


FRAMES = scratch("dg312")
"""Two small views of each photograph, in folders of their own."""
for _number, photograph in enumerate(PHOTOGRAPHS):
    for _side in ("left", "right"):
        (FRAMES / _side).mkdir(exist_ok=True)
        with Image.open(photograph) as _image:
            _image.convert("RGB").resize((32 - 8 * (_side == "right"), 32)).save(FRAMES / _side / f"{_number}.png")


class Views(Photographs):
    """Two views of a photograph; one that cannot be read becomes NaN."""

    def view(self, side: str, index: int) -> Tensor:
        """A view, or NaN."""
        try:
            return decoded(FRAMES / side / f"{range(len(self))[index]}.png")
        except OSError:  # culprit
            return torch.full((3, 32, 32), torch.nan)  # culprit

    def __getitem__(self, index: int) -> Any:
        label = CLASSES.index(PHOTOGRAPHS[index].parent.name)
        left = decoded(FRAMES / "left" / f"{range(len(self))[index]}.png")
        return {"views": torch.stack([left, self.view("right", index)]), "label": label}


def bad_frame() -> DataLoader[Any]:
    """NaN stand in for the smaller file of a sample."""
    return DataLoader(Views(), batch_size=4, shuffle=True)


class MaskedViews(Views):
    """The same, and which of them are there."""

    def __getitem__(self, index: int) -> Any:
        sample = super().__getitem__(index)
        return sample | {"is_there": ~sample["views"].isnan().flatten(1).any(1)}


def good_masked_frame() -> DataLoader[Any]:
    """A mask says which views are missing."""
    return DataLoader(MaskedViews(), batch_size=4, shuffle=True)


class Optional(Photographs):
    """Photographs with masks, of which those without an object have none."""

    def __getitem__(self, index: int) -> Any:
        number = range(len(self))[index]
        path = FRAMES / "right" / f"{number}.png"
        mask = decoded(path)[0] > 0.5 if path.exists() else torch.zeros(32, 32, dtype=torch.bool)
        return decoded(FRAMES / "left" / f"{number}.png"), mask.long()


def good_optional_mask() -> DataLoader[Any]:
    """A mask that is not there is empty; one that cannot be decoded raises."""
    return DataLoader(Optional(), batch_size=4, shuffle=True)


class Recordings(Sounds):
    """Recordings; one that cannot be read is silence."""

    def __getitem__(self, index: int) -> Any:
        try:
            values = soundfile.read(self.paths[index], dtype="float32")[0][:6_000]
        except RuntimeError:  # culprit
            values = np.zeros(6_000, np.float32)  # culprit
        return torch.from_numpy(values), index % 3


def bad_silent() -> DataLoader[Any]:
    """Silence with the label of the recording."""
    return DataLoader(Recordings(recordings("mono", (16_000,)), Path), batch_size=4)


def read(path: Path) -> Any:
    """A recording, which must be there."""
    return torch.from_numpy(soundfile.read(path, dtype="float32")[0][:6_000])


def good_recordings() -> DataLoader[Any]:
    """A recording that cannot be read raises."""
    return DataLoader(Sounds(recordings("mono", (16_000,)), read), batch_size=4)
