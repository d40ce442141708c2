"""A folder of real photographs and the two usual ways to load it; both are healthy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import datasets, transforms

FOLDER = Path(__file__).parent / "images"
NORMALIZE = transforms.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))


def make_folder() -> DataLoader[Any]:
    """torchvision's `ImageFolder` under the usual training transforms."""
    augment = transforms.Compose(
        [transforms.RandomResizedCrop(64), transforms.RandomHorizontalFlip(), transforms.ToTensor(), NORMALIZE]
    )
    return DataLoader(datasets.ImageFolder(str(FOLDER), augment), batch_size=8, shuffle=True, num_workers=2)


class OpenCVFolder(Dataset[tuple[Tensor, int]]):
    """The same files, read by OpenCV, which hands out blue, green, red."""

    def __init__(self) -> None:
        self.paths = sorted(FOLDER.glob("*/*"))
        self.classes = sorted({path.parent.name for path in self.paths})
        self.augment = transforms.Compose([transforms.ToTensor(), transforms.RandomHorizontalFlip(), NORMALIZE])

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        import cv2

        path = self.paths[index]
        pixels = cv2.resize(cv2.imread(str(path)), (64, 64), interpolation=cv2.INTER_AREA)
        image: Tensor = self.augment(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB))
        return image, self.classes.index(path.parent.name)


def make_cv2() -> DataLoader[Any]:
    """OpenCV reads, and the dataset puts the channels into the order that the normalization means."""
    return DataLoader(OpenCVFolder(), batch_size=8, shuffle=True, num_workers=2)
