"""DG523 shared-group: samples of one patient, subject or session are in training and in evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset

from sample_datasets._parts import picture

Loaders = dict[str, DataLoader[Any]]
PATIENTS, VISITS, SIDE = 20, 8, 16


class Scans(Dataset[Any]):
    """Eight scans of each patient, with labels that are not the patients'."""

    def __init__(self, names: Sequence[str], prefix: int = 0) -> None:
        self.patient_ids = [name for name in names for _ in range(VISITS)]
        self.first = prefix

    def __len__(self) -> int:
        return len(self.patient_ids)

    def __getitem__(self, index: int) -> Any:
        number = range(len(self))[index]
        return picture(self.first + number, SIDE, SIDE), number % 3


def names(start: int, count: int) -> list[str]:
    return [f"P{7 * number + 3:03}" for number in range(start, start + count)]


def loaders(train: Dataset[Any], val: Dataset[Any]) -> Loaders:
    return {"train": DataLoader(train, batch_size=8, shuffle=True), "val": DataLoader(val, batch_size=8)}


def apart(count: int) -> tuple[list[int], list[int]]:
    """Three quarters and one quarter of all samples, at random."""
    order = np.random.default_rng(2).permutation(count).tolist()
    return order[: count * 3 // 4], order[count * 3 // 4 :]


def bad() -> Loaders:
    """Scans are split, and not patients."""
    scans = Scans(names(0, PATIENTS))
    train, val = apart(len(scans))
    return loaders(Subset(scans, train), Subset(scans, val))


class Recordings(Dataset[Any]):
    """Windows of recordings, whose subject is in each sample."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = self.numbers[index]
        return {"x": picture(number, SIDE, SIDE), "y": number % 3, "subject": f"S{number // VISITS * 3 + 11}"}


def bad_leaf() -> Loaders:
    """Each sample names its subject, one of whom is in both splits."""
    return loaders(Recordings(range(124)), Recordings(range(124, 240)))


class Records(Dataset[Any]):
    """Rows of a table, whose sessions are known only there."""

    def __init__(self, sessions: Sequence[int], first: int = 0) -> None:
        self.records = [{"session": session, "number": first + row} for row, session in enumerate(sessions)]

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        number = int(self.records[index]["number"])
        return picture(number, SIDE, SIDE), number % 3


def bad_records() -> Loaders:
    """Two lists of records with sessions in common."""
    return loaders(
        Records([101 + 3 * (row % 30) for row in range(90)]), Records([149 + 3 * (row % 25) for row in range(75)], 90)
    )


def good() -> Loaders:
    """Patients are split."""
    return loaders(Scans(names(0, 15)), Scans(names(15, 5), 15 * VISITS))


class Speakers(Recordings):
    """The speaker is what the model is to recognise."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = self.numbers[index]
        return {"x": picture(number, SIDE, SIDE), "y": number % 20, "speaker": f"S{number % 20 * 3 + 11}"}


def good_identified() -> Loaders:
    """Speakers are the classes, and so in both splits."""
    return loaders(Speakers(range(160)), Speakers(range(160, 240)))


def good_numbered() -> Loaders:
    """Each split numbers its own sessions from 0 on."""
    return loaders(Records([row // 4 for row in range(120)]), Records([row // 4 for row in range(60)], 120))


class Conditions(Recordings):
    """The group is one of four combinations of class and background, as for group DRO."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = self.numbers[index]
        return {"x": picture(number, SIDE, SIDE), "y": number % 2, "group": number % 4}


def good_conditions() -> Loaders:
    """Few groups, which all splits are meant to have."""
    return loaders(Conditions(range(120)), Conditions(range(120, 200)))


TOPICS = [f"{one}_{two}" for one in ("high", "low", "mid", "old") for two in ("art", "law", "maths", "music")]


class Questions(Recordings):
    """The subject is that of a lesson."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = self.numbers[index]
        return {"x": picture(number, SIDE, SIDE), "y": number % 3, "subject": TOPICS[number % 16]}


def good_topics() -> Loaders:
    """Subjects that are taught are in both splits."""
    return loaders(Questions(range(120)), Questions(range(120, 200)))


class Devices(Recordings):
    """Each sample names its device and its site."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = self.numbers[index]
        return {
            "x": picture(number, SIDE, SIDE),
            "y": number % 3,
            "device_id": f"D{number % 20}9",
            "site": f"N{number % 15}7",
        }


def good_devices() -> Loaders:
    """Devices and sites are in both splits on purpose."""
    return loaders(Devices(range(160)), Devices(range(160, 240)))


class Voices(Recordings):
    """Sounds of texts by speakers, whose number selects an embedding."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = self.numbers[index]
        return {"text": number % 7, "sound": picture(number, SIDE, SIDE), "speaker_id": number % 20}


def good_synthesis() -> Loaders:
    """A model that speaks with known voices is evaluated with some of them."""
    return loaders(Voices(range(160)), Voices(range(160, 240, 2)))
