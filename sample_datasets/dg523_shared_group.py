"""DG523 shared-group: samples of one patient, subject or session are in training and in evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset

from sample_datasets._parts import picture, scratch, stored

Loaders = dict[str, DataLoader[Any]]
PATIENTS, VISITS, SIDE = 20, 8, 16
ROOT = scratch("dg523-")


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
    train, val = apart(len(scans))  # culprit
    return loaders(Subset(scans, train), Subset(scans, val))  # culprit


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
    return loaders(Recordings(range(124)), Recordings(range(124, 240)))  # culprit


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
    train = Records([101 + 3 * (row % 30) for row in range(90)])  # culprit
    return loaders(train, Records([149 + 3 * (row % 25) for row in range(75)], 90))  # culprit


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


class Files(Dataset[Any]):
    """Files of samples, whose names are all that tells whose they are."""

    def __init__(self, files: Sequence[Path], labels: Sequence[int]) -> None:
        self.files = list(files)
        self.labels = list(labels)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Any:
        return torch.from_numpy(np.load(self.files[index])), self.labels[index]


def slice_of(number: int) -> Callable[[Path], None]:
    """Writes the values of one sample."""
    return lambda path: np.save(path, np.random.default_rng(number).normal(size=(SIDE, SIDE)).astype(np.float32))


def named(pattern: str, *, root: str = "", label: str = "number") -> tuple[list[Path], list[int]]:
    """The files of eight samples for each of twenty groups, and labels of the sample or of the group."""
    files, labels = [], []
    for number in range(PATIENTS * VISITS):
        group, visit = divmod(number, VISITS)
        path = ROOT / (root or pattern.partition("{")[0].replace("/", "-")) / pattern.format(7 * group + 3, visit)
        files.append(stored(path, slice_of(number)))
        labels.append(group if label == "group" else number % 3)
    return files, labels


def filed(files: Sequence[Path], labels: Sequence[int]) -> Loaders:
    """Files that are split at random."""
    train, val = apart(len(files))  # culprit
    parts = [Files([files[one] for one in part], [labels[one] for one in part]) for part in (train, val)]  # culprit
    return loaders(parts[0], parts[1])


def bad_folders() -> Loaders:
    """A folder for each patient, whose slices are split at random."""
    return filed(*named("patient_{:03}/slice_{}.npy"))


def bad_file_names() -> Loaders:
    """Trials of a subject, whose number begins the name of each."""
    return filed(*named("S{:02}_trial{}.npy", root="trials"))


def good_folders_apart() -> Loaders:
    """The folders of patients are split."""
    files, labels = named("patient_{:03}/slice_{}.npy")
    end = 15 * VISITS
    return loaders(Files(files[:end], labels[:end]), Files(files[end:], labels[end:]))


def good_folders_of_shards() -> Loaders:
    """Folders hold so many files each, whatever these show."""
    return filed(*named("shard_{:03}/{}.npy"))


def good_folders_of_labels() -> Loaders:
    """Who speaks is what is to be predicted."""
    return filed(*named("speaker_{:03}/{}.npy", label="group"))


def good_folders_numbered_anew() -> Loaders:
    """Each split numbers its own patients from the same number on."""
    parts = []
    for split, first in (("train", 0), ("val", 1000)):
        files = []
        for number in range(PATIENTS * VISITS):
            path = ROOT / split / f"patient_{number // VISITS:03}" / f"{number % VISITS}.npy"
            files.append(stored(path, slice_of(first + number)))
        parts.append(Files(files, [number % 3 for number in range(len(files))]))
    return loaders(parts[0], parts[1])
