"""DG412 wrong-mixture-weight: images are mixed by one share, and their labels by another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import one_hot
from torch.utils.data import DataLoader, Dataset, default_collate
from torchvision.transforms import v2

from sample_datasets._files import Images
from sample_datasets._parts import PHOTOGRAPHS, Pictures

CLASSES, SIDE = 4, 32
Sample = tuple[Tensor, int]


class Large(Pictures):
    """Pictures that a box can be cut from."""

    def __init__(self) -> None:
        super().__init__(48, transform=v2.Resize((SIDE, SIDE)))


def loader(collate: Callable[[list[Sample]], Any]) -> DataLoader[Any]:
    return DataLoader(Large(), batch_size=8, shuffle=True, num_workers=2, collate_fn=collate)


def drawn() -> float:
    """The share of the first image."""
    return float(torch.distributions.Beta(1.0, 1.0).sample())


def box(share: float) -> tuple[slice, slice]:
    """Rows and columns of a box for the rest, clipped at the border."""
    half = round(SIDE * (1 - share) ** 0.5 / 2)
    y, x = (int(torch.randint(SIDE, ())) for _ in range(2))
    return slice(max(y - half, 0), y + half), slice(max(x - half, 0), x + half)


def cut(images: Tensor, share: float, order: Tensor) -> tuple[Tensor, float]:
    """Images with a box of others, and the share that is left of each."""
    rows, columns = box(share)
    mixed = images.clone()
    mixed[:, :, rows, columns] = images[order][:, :, rows, columns]
    taken = torch.zeros(SIDE, SIDE)
    taken[rows, columns] = 1
    return mixed, 1 - float(taken.mean())


def soft(labels: Tensor, order: Tensor, share: float, smoothing: float = 0.0) -> Tensor:
    """Both labels, weighted."""
    targets = one_hot(labels, CLASSES).float()
    mixed = share * targets + (1 - share) * targets[order]
    return mixed * (1 - smoothing) + smoothing / CLASSES


def unadjusted(samples: list[Sample]) -> Any:
    """CutMix with the share that was drawn, though the box is clipped."""
    images, labels = default_collate(samples)
    order, share = torch.randperm(len(samples)), drawn()
    return cut(images, share, order)[0], soft(labels, order, share)  # culprit


def bad() -> DataLoader[Any]:
    """The weight is not corrected for a box that is clipped at the border."""
    return loader(unadjusted)


def exchanged(samples: list[Sample]) -> Any:
    """MixUp with the weights of the other image."""
    images, labels = default_collate(samples)
    order, share = torch.randperm(len(samples)), drawn()
    return share * images + (1 - share) * images[order], soft(labels, order, 1 - share, 0.1)  # culprit


def bad_exchanged() -> DataLoader[Any]:
    """Each label has the weight of the other one."""
    return loader(exchanged)


def redrawn(samples: list[Sample]) -> Any:
    """CutMix, with both labels and a weight that is drawn again."""
    images, labels = default_collate(samples)
    order = torch.randperm(len(samples))
    return cut(images, drawn(), order)[0], (labels, labels[order], drawn())  # culprit


def bad_redrawn() -> DataLoader[Any]:
    """Two draws of the share, for a loss of both labels."""
    return loader(redrawn)


def reordered(samples: list[Sample]) -> Any:
    """MixUp of images and labels in two orders."""
    images, labels = default_collate(samples)
    one, two, share = torch.randperm(len(samples)), torch.randperm(len(samples)), drawn()  # culprit
    return share * images + (1 - share) * images[one], soft(labels, two, share)  # culprit


def bad_reordered() -> DataLoader[Any]:
    """Each image is mixed with one image, and with the label of another."""
    return loader(reordered)


def adjusted(samples: list[Sample]) -> Any:
    """CutMix with the share that is left."""
    images, labels = default_collate(samples)
    order = torch.randperm(len(samples))
    mixed, share = cut(images, drawn(), order)
    return mixed, soft(labels, order, share)


def good() -> DataLoader[Any]:
    """The weight is that of the box which was really cut."""
    return loader(adjusted)


MIX = v2.RandomChoice([v2.CutMix(num_classes=CLASSES), v2.MixUp(num_classes=CLASSES)])


def torchvision(samples: list[Sample]) -> Any:
    """CutMix or MixUp."""
    return MIX(*default_collate(samples))


def good_torchvision() -> DataLoader[Any]:
    """torchvision's own mixing."""
    return loader(torchvision)


def smoothed(samples: list[Sample]) -> Any:
    """CutMix of some batches, and label smoothing of all."""
    images, labels = default_collate(samples)
    order = torch.randperm(len(samples))
    mixed, share = cut(images, drawn(), order) if torch.rand(()) < 0.5 else (images, 1.0)
    return mixed, soft(labels, order, share, 0.1)


def good_smoothed() -> DataLoader[Any]:
    """Labels are smoothed as well."""
    return loader(smoothed)


def triple(samples: list[Sample]) -> Any:
    """CutMix for a loss of both labels."""
    images, labels = default_collate(samples)
    order = torch.randperm(len(samples))
    mixed, share = cut(images, drawn(), order)
    return mixed, (labels, labels[order], share)


def good_triple() -> DataLoader[Any]:
    """Both labels, and the weight of the first."""
    return loader(triple)


def background(samples: list[Sample]) -> Any:
    """A little of another image is a disturbance that changes no label."""
    images, labels = default_collate(samples)
    return 0.9 * images + 0.1 * images.roll(1, 0), soft(labels, torch.arange(len(labels)), 1.0, 0.1)


def good_background() -> DataLoader[Any]:
    """Images are disturbed by others, and keep their labels."""
    return loader(background)


class Mixed(Dataset[Any]):
    """CutMix in a dataset: a box of another photograph, and the labels of both, weighted by what is `left`."""

    def __init__(self, left: Callable[[float, float], float]) -> None:
        resized = v2.Compose([v2.Resize((SIDE, SIDE)), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
        self.images = Images(PHOTOGRAPHS[:24], lambda path: resized(Image.open(path).convert("RGB")))
        self.left = left

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image, label = self.images[index]
        targets = one_hot(torch.tensor(label), CLASSES).float()
        if torch.rand(()) < 0.8:
            other, second = self.images[int(torch.randint(len(self), ()))]
            share = drawn()
            both, exact = cut(torch.stack([image, other]), share, torch.tensor([1, 0]))
            share = self.left(share, exact)
            targets = share * targets + (1 - share) * one_hot(torch.tensor(second), CLASSES)  # culprit
            image = both[0]
        return image, targets


def bad_inside() -> DataLoader[Any]:
    """The dataset itself mixes, and does not correct the weight."""
    return DataLoader(Mixed(lambda share, _: share), batch_size=8, shuffle=True, num_workers=2)


def good_inside() -> DataLoader[Any]:
    """The dataset itself mixes, by the box that was really cut."""
    return DataLoader(Mixed(lambda _, exact: exact), batch_size=8, shuffle=True, num_workers=2)
