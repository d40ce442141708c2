"""DG309 listing-order: what an index returns depends on the order in which files are listed."""

from __future__ import annotations

import glob
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from sample_datasets._files import FOLDER, photograph, written
from sample_datasets._parts import PHOTOGRAPHS, Pictures

ROOT = PHOTOGRAPHS[0].parents[1]
CLASSES = ("cat", "coffee", "rocket")


def content(path: str | Path) -> Tensor:
    """The first bytes of a file, (64,) uint8."""
    return torch.from_numpy(np.frombuffer(Path(path).read_bytes()[:4096], np.uint8)[-64:].copy())


class Files(Dataset[tuple[Tensor, int]]):
    """Files in folders that are named like their classes."""

    def __init__(self, files: list[str], classes: list[str]) -> None:
        self.files = files
        self.classes = classes

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        path = Path(self.files[index])
        return content(path), self.classes.index(path.parent.name)


def bad() -> DataLoader[Any]:
    """Files come as `glob` finds them."""
    return DataLoader(Files(glob.glob(f"{ROOT}/*/*"), sorted(os.listdir(ROOT))), batch_size=4)  # culprit


def bad_classes() -> DataLoader[Any]:
    """Files are sorted, but classes are numbered as `os.listdir` finds them."""
    return DataLoader(Files(sorted(glob.glob(f"{ROOT}/*/*")), os.listdir(ROOT)), batch_size=4)  # culprit


def bad_walk() -> DataLoader[Any]:
    """Files are gathered by `os.walk`."""
    files = [f"{top}/{name}" for top, _, names in os.walk(ROOT) for name in names if not name.endswith("md")]  # culprit
    return DataLoader(Files(files, list(CLASSES)), batch_size=4, shuffle=True, num_workers=2)


class Unlabelled(Dataset[Tensor]):
    """Photographs without labels, as a model of images is trained on them."""

    def __init__(self, files: list[str]) -> None:
        self.files = files

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Tensor:
        return content(self.files[index]).reshape(1, 8, 8)


def bad_unlabelled() -> DataLoader[Any]:
    """The order of files is that of the listing, and is shuffled anyway: a warning."""
    return DataLoader(Unlabelled(glob.glob(f"{ROOT}/*/*")), batch_size=4, shuffle=True)  # culprit


class Indexed(Unlabelled):
    """Photographs with their index, as a number or in an array."""

    def __getitem__(self, index: int) -> Any:
        return {"image": super().__getitem__(index), "number": index, "place": np.array([index])}


def bad_indexed() -> DataLoader[Any]:
    """The index that a sample carries along is no label: it says where the sample stands."""
    return DataLoader(Indexed(glob.glob(f"{ROOT}/*/*")), batch_size=4, shuffle=True)  # culprit


class Windows(Files):
    """Windows of files: each has many, so that another order of files moves a sample far."""

    EACH = 40

    def __len__(self) -> int:
        return self.EACH * len(self.files)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        file, place = divmod(index, self.EACH)
        path = Path(self.files[file])
        values = np.frombuffer(path.read_bytes()[-4096:], np.uint8)[place : 512 + place]
        return torch.from_numpy(values.copy()), self.classes.index(path.parent.name)


def bad_windows() -> DataLoader[Any]:
    """Samples are found again after the files changed places, labels and all: a warning."""
    files = glob.glob(f"{ROOT}/*/*")  # culprit
    return DataLoader(Windows(files, sorted(os.listdir(ROOT))), batch_size=4, shuffle=True)


FOLDERS = [path.name for path in ROOT.iterdir() if path.is_dir()]  # culprit


class Numbered(Pictures):
    """Pictures with the number of a folder beside each."""

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return image, FOLDERS.index(sorted(FOLDERS)[label % len(FOLDERS)])


def bad_import() -> DataLoader[Any]:
    """Folders are listed when the module is imported."""
    return DataLoader(Numbered(), batch_size=4)


def bad_beside_sorted() -> DataLoader[Any]:
    """Folders are sorted, and then each is listed as it is."""
    folders = sorted(folder for folder in os.listdir(ROOT) if folder in CLASSES)
    files = [f"{ROOT}/{folder}/{name}" for folder in folders for name in os.listdir(ROOT / folder)]  # culprit
    return DataLoader(Files(files, folders), batch_size=4)


class Dimmed(Files):
    """Photographs whose brightness is drawn from their index."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        values, label = super().__getitem__(index)
        return values.reshape(1, 8, 8) * np.random.default_rng(index).uniform(0.5, 1), label


def bad_dimmed() -> DataLoader[Any]:
    """No sample returns elsewhere, but its file does, with the same label: a warning, as the loader shuffles."""
    return DataLoader(Dimmed(glob.glob(f"{ROOT}/*/*"), list(CLASSES)), batch_size=4, shuffle=True)  # culprit


class Zipped(Dataset[Any]):
    """Two listings side by side: a photograph and what belongs to it."""

    def __init__(self, one: list[Path], other: list[Path]) -> None:
        self.pairs = list(zip(one, other, strict=True))

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> Any:
        return tuple(content(path).reshape(1, 8, 8) for path in self.pairs[index])


def stored_pairs() -> tuple[Path, Path]:
    """Folders with a thumbnail of each photograph, in two sizes, under the same name."""
    for number, path in enumerate(PHOTOGRAPHS):
        for size in (8, 16):
            image = photograph(number).resize((size, size))
            written(f"dg309/{size}/{path.stem}.png", image)
    return FOLDER / "dg309" / "8", FOLDER / "dg309" / "16"


def bad_zipped() -> DataLoader[Any]:
    """Two folders are listed by one helper, and zipped: which files are paired depends on both orders."""
    one, other = ([folder / name for name in os.listdir(folder)] for folder in stored_pairs())  # culprit
    return DataLoader(Zipped(one, other), batch_size=4, shuffle=True)


def good() -> DataLoader[Any]:
    """Both are sorted."""
    return DataLoader(Files(sorted(glob.glob(f"{ROOT}/*/*")), sorted(os.listdir(ROOT))), batch_size=4)


def good_walk() -> DataLoader[Any]:
    """What `os.walk` gathers is sorted at the end."""
    files = [f"{folder}/{name}" for folder, _, names in os.walk(ROOT) for name in names if not name.endswith("md")]
    return DataLoader(Files(sorted(files), list(CLASSES)), batch_size=4, shuffle=True)


def good_shuffled() -> DataLoader[Any]:
    """Sorted first, then shuffled by a seed."""
    files = sorted(map(str, ROOT.rglob("*.jpg")))
    random.Random(3).shuffle(files)
    return DataLoader(Files(files, sorted(path.name for path in ROOT.iterdir())), batch_size=4)


class ByName(Files):
    """Files by name: however they are listed, a name means one file."""

    def __init__(self) -> None:
        super().__init__([], sorted(os.listdir(ROOT)))
        self.known = {Path(path).name: path for path in glob.glob(f"{ROOT}/*/*")}

    def __len__(self) -> int:
        return len(self.known)

    def __getitem__(self, name: Any) -> tuple[Tensor, int]:
        path = Path(self.known[name])
        return content(path), self.classes.index(path.parent.name)


def good_zipped() -> DataLoader[Any]:
    """Both listings are sorted before they are zipped."""
    one, other = (sorted(folder.iterdir()) for folder in stored_pairs())
    return DataLoader(Zipped(one, other), batch_size=4, shuffle=True)


def good_names() -> DataLoader[Any]:
    """Indices are names, which mean the same whatever the order."""
    dataset = ByName()
    return DataLoader(dataset, batch_size=4, sampler=sorted(dataset.known))


def good_counted() -> DataLoader[Any]:
    """Folders are listed only to count what is in them."""
    return DataLoader(Pictures(count=8 + 2 * len(os.listdir(ROOT))), batch_size=4)
