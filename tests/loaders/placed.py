"""Images with masks or boxes from other sources than in the samples of DG511 and DG512."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset
from torchvision import transforms
from torchvision.transforms import functional as F

from sample_datasets._scenes import scenes
from tests.support.faces import todays


def image(index: int) -> Image.Image:
    return Image.open(scenes()[index][0]).convert("RGB")


def mask(index: int) -> Image.Image:
    return Image.open(scenes()[index][1])


def numbers(pixels: Any) -> Tensor:
    return torch.from_numpy(np.array(pixels)).long()


class Made(Dataset):
    """Samples made by a function."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        self.make = make

    def __len__(self) -> int:
        return len(scenes())

    def __getitem__(self, index: int) -> Any:
        return self.make(range(len(self))[index])


class Stream(IterableDataset):
    """Image and mask, flipped by separate random draws."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        flip = transforms.RandomHorizontalFlip()
        for index in range(len(scenes())):
            yield F.to_tensor(flip(image(index))), numbers(flip(mask(index)))


def cached() -> Made:
    """Files are decoded once, and only the image is flipped."""
    decoded: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def make(index: int) -> tuple[Tensor, Tensor]:
        if index not in decoded:
            decoded[index] = np.array(image(index)), np.array(mask(index))
        pixels, labels = decoded[index]
        return F.to_tensor(pixels[:, ::-1].copy() if random.random() < 0.5 else pixels), numbers(labels)

    return Made(make)


class Lists(Made):
    """COCO annotations, and an image that a transform resizes to twice its size."""

    def __init__(self) -> None:
        super().__init__(lambda index: (self.transform(image(index)), boxes_of(index)))
        self.transform = transforms.Compose([transforms.Resize((96, 128)), transforms.ToTensor()])


def boxes_of(index: int) -> list[dict[str, Any]]:
    return [{"bbox": [3 + index % 4, 4, 10, 12], "category_id": 1}, {"bbox": [20, 10, 12, 14], "category_id": 2}]


def cropped() -> Made:
    """Half of the draws crop a patch around a labelled point; image and mask are flipped together."""

    def make(index: int) -> tuple[Tensor, Tensor]:
        pixels, labels = np.array(image(index)), np.array(mask(index))
        rows, columns = np.nonzero(labels == labels.max())
        point = random.randrange(len(rows)) if random.random() < 0.5 else None
        top, left = (0, 0) if point is None else (min(rows[point], 16), min(columns[point], 32))
        across = slice(None, None, random.choice((1, -1)))
        pixels, labels = (part[top : top + 32, left : left + 32][:, across].copy() for part in (pixels, labels))
        return F.to_tensor(pixels), numbers(labels)

    return Made(make)


def constant() -> Made:
    """Class indices are divided by 255 and then truncated to integers."""
    return Made(lambda index: (F.to_tensor(image(index)), F.to_tensor(mask(index)).long()))


def generated() -> Made:
    """Images and masks are generated, and resized with interpolation."""

    def make(index: int) -> tuple[Tensor, Tensor]:
        labels = np.zeros((64, 64), np.uint8)
        labels[index : index + 20, 10 + index : 35 + index] = index % 5 + 1
        noise = np.random.default_rng(index).integers(0, 256, (64, 64, 3), np.uint8)
        return F.to_tensor(Image.fromarray(noise).resize((40, 40))), numbers(Image.fromarray(labels).resize((40, 40)))

    return Made(make)


def labelled() -> Made:
    """YOLO rows, class first, in an image that is shrunk, pasted onto a canvas and flipped with them."""

    def make(index: int) -> tuple[Tensor, Tensor]:
        share, x, y = random.uniform(0.5, 1), random.uniform(0, 0.1), random.uniform(0, 0.1)
        small = F.to_tensor(image(index).resize((int(64 * share), int(48 * share))))
        left, top = int(64 * x), int(64 * y)
        canvas = torch.full((3, 64, 72), 0.4)
        canvas[:, top : top + small.shape[1], left : left + small.shape[2]] = small
        box = np.array([(left + 20 * share) / 72, (top + (15 + index % 5) * share) / 64, 0.2 * share, 0.3 * share])
        if random.random() < 0.5:
            canvas, box[0] = canvas.flip(-1), 1 - box[0]
        return canvas, torch.tensor(np.stack([[1, *box], [0, *box[:2], *box[2:] / 2]]), dtype=torch.float32)

    return Made(make)


def tensors() -> TensorDataset:
    """Everything in memory."""
    images = torch.stack([F.to_tensor(image(index)) for index in range(len(scenes()))])
    return TensorDataset(images, torch.stack([numbers(mask(index)) for index in range(len(scenes()))]))


def together(samples: list[Any]) -> Any:
    return tuple(zip(*samples, strict=True))


ALL: dict[str, Callable[[], DataLoader[Any]]] = {
    "stream": lambda: DataLoader(Stream(), batch_size=4),
    "cached": lambda: DataLoader(cached(), batch_size=4),
    "lists": lambda: DataLoader(Lists(), batch_size=4, collate_fn=together),
    "val": lambda: DataLoader(Lists(), batch_size=4, collate_fn=together),
    "cropped": lambda: DataLoader(cropped(), batch_size=4),
    "constant": lambda: DataLoader(constant(), batch_size=4),
    "generated": lambda: DataLoader(generated(), batch_size=4),
    "labelled": lambda: DataLoader(labelled(), batch_size=4),
    "tensors": lambda: DataLoader(tensors(), batch_size=4),
}
LOADERS = dict(todays(ALL.items(), turns=3))
"""Those whose turn it is."""
