"""Healthy loaders that look as DG411, DG412, DG521, DG522 and DG523 expect defects to look."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset, default_collate
from torchvision.transforms import v2

from sample_datasets._parts import picture, share

Loaders = dict[str, DataLoader[Any]]
SIDE, CLASSES = 32, 5
BASE = v2.RandomResizedCrop(24, scale=(0.3, 1.0))
FLIP = v2.RandomHorizontalFlip()
STRONG = v2.Compose([BASE, FLIP, v2.ColorJitter(0.4, 0.4)])
SMALL = v2.RandomResizedCrop(12, scale=(0.1, 0.4))


class Made(Dataset[Any]):
    """Samples that a function makes of their number."""

    def __init__(self, made: Callable[[int], Any], numbers: range = range(64)) -> None:
        self.made = made
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> Any:
        return self.made(self.numbers[index])


def image(number: int) -> Tensor:
    return picture(number, SIDE, SIDE)


def labelled(number: int) -> tuple[Tensor, int]:
    return image(number), number % CLASSES


def reconstructed(number: int) -> dict[str, Tensor]:
    view = STRONG(image(number))
    return {"image": view, "target": view}


def patient(number: int) -> tuple[Tensor, Tensor, int]:
    view = STRONG(image(number))
    return view, view.clone(), number % CLASSES


def still(number: int) -> tuple[list[Tensor], int]:
    return [FLIP(image(number))] * 6, number % CLASSES


def views() -> Loaders:
    """Views of one image: different ones, equal by chance, or one on purpose."""
    made: dict[str, Callable[[int], Any]] = {
        "simsiam": lambda number: ([STRONG(image(number)), STRONG(image(number))], number % CLASSES),
        "byol": lambda number: {"view1": STRONG(image(number)), "view2": BASE(image(number))},
        "dino": lambda number: (
            [*(STRONG(image(number)) for _ in range(2)), *(SMALL(image(number)) for _ in range(4))],
            number % CLASSES,
        ),
        "flips": lambda number: ([FLIP(image(number)), FLIP(image(number))], number % CLASSES),
        "fixmatch": lambda number: ((BASE(image(number)), STRONG(image(number))), -1),
        "autoencoder": reconstructed,
        "patient_teacher": patient,
        "still_video": still,
    }
    return {
        name: DataLoader(Made(one), batch_size=8, shuffle=True, num_workers=2 * (name == "dino"))
        for name, one in made.items()
    }


class Filling:
    """Stacks images into a buffer of its own."""

    def __init__(self) -> None:
        self.buffer = torch.empty(8, 3, SIDE, SIDE)

    def __call__(self, samples: list[Any]) -> Any:
        """Collate."""
        images = self.buffer[: len(samples)]
        torch.stack([sample[0] for sample in samples], out=images)
        return images, torch.tensor([sample[1] for sample in samples])


class Copying(Filling):
    """The same, but what leaves it is a copy."""

    def __call__(self, samples: list[Any]) -> Any:
        """Collate."""
        images, labels = super().__call__(samples)
        return images.clone(), labels


def shared(samples: list[Any]) -> Tensor:
    """As default_collate does in a worker: a new piece of shared memory for each batch."""
    images = [sample[0] for sample in samples]
    storage = images[0]._typed_storage()._new_shared(len(images) * images[0].numel())
    return torch.stack(images, out=images[0].new(storage).resize_(len(images), *images[0].shape))


class Blocks(IterableDataset[Any]):
    """Batches of numbers, read into one array."""

    def __iter__(self) -> Iterator[np.ndarray]:
        block = np.empty((8, 16), np.float32)
        for number in share(range(24)):
            block[:] = np.arange(128, dtype=np.float32).reshape(8, 16) + number
            yield block


def buffers() -> Loaders:
    """Batches whose memory is used again, but not while anyone needs it."""
    return {
        "eval": DataLoader(Made(labelled), batch_size=8, collate_fn=Filling()),
        "copied": DataLoader(Made(labelled), batch_size=8, shuffle=True, num_workers=2, collate_fn=Copying()),
        "shared": DataLoader(Made(labelled), batch_size=8, shuffle=True, num_workers=2, collate_fn=shared),
        "pickled": DataLoader(Blocks(), batch_size=None, num_workers=2, collate_fn=np.asarray),
    }


def soft(labels: Tensor, smoothing: float = 0.0) -> Tensor:
    return one_hot(labels, CLASSES) * (1 - smoothing) + smoothing / CLASSES


def element_wise(samples: list[Any]) -> Any:
    """MixUp with a share for each row."""
    images, labels = default_collate(samples)
    weight = torch.distributions.Beta(0.8, 0.8).sample((len(labels),))
    rows = weight[:, None, None, None]
    targets = soft(labels, 0.1)
    return {
        "pixel_values": images * rows + images.flip(0) * (1 - rows),
        "labels": targets * weight[:, None] + targets.flip(0) * (1 - weight[:, None]),
    }


def in_bytes(samples: list[Any]) -> Any:
    """MixUp of bytes, rounded to bytes."""
    images, labels = default_collate(samples)
    weight = float(np.random.beta(0.4, 0.4))
    order = torch.randperm(len(labels))
    mixed = (images.float() * weight + images[order].float() * (1 - weight)).round().byte()
    return mixed, soft(labels) * weight + soft(labels)[order] * (1 - weight)


def mosaic(samples: list[Any]) -> Any:
    """Four images in one, each with the weight of its part."""
    images, labels = default_collate(samples)
    y, x = (int(torch.randint(4, SIDE - 4, ())) for _ in range(2))
    targets, mixed, out = soft(labels), images.clone(), torch.zeros(len(labels), CLASSES)
    parts = [(slice(0, y), slice(0, x)), (slice(0, y), slice(x, SIDE)), (slice(y, SIDE), slice(0, x))]
    parts.append((slice(y, SIDE), slice(x, SIDE)))
    for step, (rows, columns) in enumerate(parts):
        mixed[:, :, rows, columns] = images.roll(step, 0)[:, :, rows, columns]
        out += targets.roll(step, 0) * mixed[0, 0, rows, columns].numel() / SIDE**2
    return mixed, out


MIX = v2.RandomApply([v2.RandomChoice([v2.CutMix(num_classes=CLASSES), v2.MixUp(num_classes=CLASSES)])], p=1.0)
CUT = v2.CutMix(num_classes=CLASSES)
ERASE = v2.RandomErasing(p=1.0)


def smoothed(samples: list[Any]) -> Any:
    """CutMix of half the batches, and label smoothing of all."""
    images, labels = default_collate(samples)
    mixed, targets = CUT(images, labels) if torch.rand(()) < 0.5 else (images, soft(labels))
    return mixed, targets * 0.9 + 0.1 / CLASSES


def erased(samples: list[Any]) -> Any:
    """CutMix, and a part that is erased."""
    mixed, targets = CUT(*default_collate(samples))
    return torch.stack([ERASE(one) for one in mixed]), targets


def mixtures() -> Loaders:
    """Mixed images with the right targets, and soft targets without mixing."""
    by_name: dict[str, Callable[[list[Any]], Any]] = {
        "torchvision": lambda samples: MIX(*default_collate(samples)),
        "smoothed": smoothed,
        "element_wise": element_wise,
        "mosaic": mosaic,
        "erased": erased,
        "smoothing_alone": lambda samples: (default_collate(samples)[0], soft(default_collate(samples)[1], 0.1)),
    }
    loaders = {name: DataLoader(Made(labelled), 8, shuffle=True, collate_fn=one) for name, one in by_name.items()}
    as_bytes = Made(lambda number: ((image(number) * 255).byte(), number % CLASSES))
    return {**loaders, "in_bytes": DataLoader(as_bytes, 8, shuffle=True, collate_fn=in_bytes)}


def pair(name: str, train: Dataset[Any], val: Dataset[Any]) -> Loaders:
    return {f"{name}_train": DataLoader(train, 16, shuffle=True), f"{name}_val": DataLoader(val, 16)}


def rows(values: np.ndarray) -> TensorDataset:
    return TensorDataset(torch.from_numpy(values).float(), torch.arange(len(values)) % 3)


class Grouped(Dataset[Any]):
    """Samples of patients."""

    def __init__(self, patients: list[str], labels: list[int] | None = None) -> None:
        self.patient_id = patients
        self.labels = labels or [number % 3 for number, _ in enumerate(patients)]

    def __len__(self) -> int:
        return len(self.patient_id)

    def __getitem__(self, index: int) -> Any:
        return image(index), self.labels[index]


def splits() -> Loaders:
    """Scalers that saw the training data alone, and groups that splits are meant to share or do not share."""
    draw = np.random.default_rng(11)
    table = draw.gamma(2.0, 1.0, (400, 8))
    train, val = table[:300], table[300:]
    sixteenths = draw.integers(0, 17, (400, 8)) / 16
    ranks = train.argsort(0).argsort(0) / 299
    among = np.stack([np.searchsorted(np.sort(train[:, one]), val[:, one]) / 300 for one in range(8)], 1)
    names = [f"P{number:03}" for number in range(5, 85, 2) for _ in range(4)]
    order = draw.permutation(160).tolist()
    whole = Grouped(names)
    classes = Grouped(names, [int(name[1:]) for name in names])
    parts = [Subset(classes, order[:120]), Subset(classes, order[120:])]
    return {
        **pair("fitted", rows((train - train.mean(0)) / train.std(0)), rows((val - train.mean(0)) / train.std(0))),
        **pair("ranged", *(rows((part - train.min(0)) / np.ptp(train, 0)) for part in (train, val))),
        **pair("sixteenths", rows(sixteenths[:300]), rows(sixteenths[300:])),
        **pair("ranks", rows(ranks), rows(among)),
        **pair("by_patient", Subset(whole, range(120)), Subset(whole, range(120, 160))),
        **pair("identified", *parts),
        **pair("renumbered", *(Grouped([str(row // 4) for row in range(count)]) for count in (120, 64))),
    }
