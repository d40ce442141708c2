"""DG513 unreadable-sample: some of many files can not be read; judged in scans of all samples."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset

from sample_datasets._parts import PHOTOGRAPHS, Pictures, scratch, stored

COUNT = 300
"""More samples than a scan looks at by default."""
DAMAGED = (77, 150, 231)


ROOT = scratch("dg513-")


def pngs(name: str, damage: Callable[[Path], None] | None) -> list[Path]:
    """Small pictures of their own, of which some are damaged after they were written."""

    def write(number: int, path: Path) -> None:
        pixels = np.random.default_rng(number).integers(0, 256, (12, 12, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
        if damage is not None and number in DAMAGED:
            damage(path)

    return [stored(ROOT / name / f"{number:04}.png", partial(write, number)) for number in range(COUNT)]


def truncate(path: Path) -> None:
    """The copy was interrupted."""
    path.write_bytes(path.read_bytes()[:-60])


def empty(path: Path) -> None:
    """The disk was full."""
    path.write_bytes(b"")


class Files(Dataset):
    """Image files, read by Pillow."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = Image.open(self.paths[index]).convert("RGB")
        return torch.from_numpy(np.array(image, np.float32)).permute(2, 0, 1) / 255, index % 4


class CvFiles(Files):
    """The same, read by OpenCV, which gives None for what it can not read."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        index = range(len(self))[index]
        image = cv2.cvtColor(cv2.imread(str(self.paths[index])), cv2.COLOR_BGR2RGB)
        return torch.from_numpy(image).permute(2, 0, 1).float() / 255, index % 4


class Checked(Files):
    """The paths stay in range, as dataset[-1] does."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return super().__getitem__(range(len(self))[index])


def bad() -> DataLoader[Any]:
    """Three files of three hundred were cut short."""
    return DataLoader(Checked(pngs("truncated", truncate)), batch_size=8, shuffle=True, num_workers=2)


def bad_subset() -> DataLoader[Any]:
    """`Subset` asks for whole batches, by `__getitems__`."""
    return DataLoader(Subset(Checked(pngs("truncated", truncate)), range(50, 250)), batch_size=8)


def bad_opencv() -> DataLoader[Any]:
    """Empty files: OpenCV says nothing, and the conversion of None raises."""
    return DataLoader(CvFiles(pngs("empty", empty)), batch_size=8)


class Annotated(Pictures):
    """Pictures with a box, in which one annotation lacks a corner."""

    def __init__(self) -> None:
        super().__init__(COUNT)
        self.boxes = [[1.0, 1.0, 5.0, 5.0] for _ in range(COUNT)]
        self.boxes[201] = [1.0, 1.0]

    def __getitem__(self, index: int) -> tuple[Tensor, Any]:
        image, _ = super().__getitem__(index)
        left, top, right, bottom = self.boxes[index]
        return image, torch.tensor([left, top, right, bottom])


def bad_annotation() -> DataLoader[Any]:
    """No file is to blame."""
    return DataLoader(Annotated(), batch_size=16)


def bad_alone() -> DataLoader[Any]:
    """Batches of one, of which some are empty then."""
    return DataLoader(Checked(pngs("truncated", truncate)), batch_size=1)


def bad_unbatched() -> DataLoader[Any]:
    """No automatic batching."""
    return DataLoader(Checked(pngs("truncated", truncate)), batch_size=None)


def good() -> DataLoader[Any]:
    """All files are whole."""
    return DataLoader(Checked(pngs("whole", None)), batch_size=8, shuffle=True, num_workers=2)


class Skipping(Files):
    """Returns None for what can not be read, which collate_fn leaves out."""

    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(range(len(self))[index])
        except OSError:
            return None


def present(samples: list[Any]) -> tuple[Tensor, Tensor]:
    """A batch of those that are there."""
    kept = [sample for sample in samples if sample is not None]
    return torch.stack([image for image, _ in kept]), torch.tensor([label for _, label in kept])


def good_left_out() -> DataLoader[Any]:
    """What can not be read is left out on purpose."""
    return DataLoader(Skipping(pngs("truncated", truncate)), batch_size=8, collate_fn=present)


def good_listed() -> DataLoader[Any]:
    """Files were tried once, and the damaged ones are not listed any more."""
    paths = pngs("truncated", truncate)
    return DataLoader(Checked([path for number, path in enumerate(paths) if number not in DAMAGED]), batch_size=8)


class Alternative(Files):
    """Two archives of the same photographs: what is not in the first is read from the second."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        path = self.paths[range(len(self))[index]]
        try:
            image = Image.open(path.with_suffix(".webp"))
        except FileNotFoundError:
            image = Image.open(path)
        return torch.from_numpy(np.array(image.convert("RGB").resize((16, 16)), np.float32)).permute(2, 0, 1), index


def good_second_archive() -> DataLoader[Any]:
    """An error on the way that the dataset handles itself."""
    return DataLoader(Alternative(PHOTOGRAPHS), batch_size=4)
