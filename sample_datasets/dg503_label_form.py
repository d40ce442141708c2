"""DG503 label-form: labels that cross entropy rejects or misreads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.dataloader import default_collate

from sample_datasets._parts import picture

KINDS = ["cat", "dog", "elk", "owl"]


class Kinds(Dataset):
    """Pictures of four kinds, whose labels are written in some form."""

    def __init__(self, write: Callable[[int], Any], classes: list[str] | None = None, count: int = 32) -> None:
        self.classes = classes or KINDS
        self.write = write
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = range(len(self))[index]
        return {"image": picture(number), "label": self.write(number % len(self.classes))}  # culprit


def loader(write: Callable[[int], Any], **options: Any) -> DataLoader[Any]:
    """Batches of four such pictures."""
    return DataLoader(Kinds(write), batch_size=4, **options)


def bad() -> DataLoader[Any]:
    """A table of floats, out of which one column is the class."""
    table = np.array([[0.5, 1.0], [0.1, 2.0], [0.7, 0.0], [0.2, 3.0]], np.float32)
    return loader(lambda kind: torch.tensor(table[kind, 1]))  # culprit


def bad_double() -> DataLoader[Any]:
    """Python floats become float64, but float32 is no better: no other check says so."""
    return loader(float, shuffle=True)


def bad_column() -> DataLoader[Any]:
    """An axis too many, as `frame[["label"]].values` has."""
    values = np.array([[0], [1], [2], [3]])
    return loader(lambda kind: values[kind])  # culprit


def bad_float_column() -> DataLoader[Any]:
    """Both at once."""
    return loader(lambda kind: np.array([kind], np.float32), shuffle=True)  # culprit


def bad_one_hot() -> DataLoader[Any]:
    """`F.one_hot` gives whole numbers."""
    return loader(lambda kind: functional.one_hot(torch.tensor(kind), 4))  # culprit


def bad_smoothed() -> DataLoader[Any]:
    """Smoothing that adds to all classes, and takes nothing from the right one."""
    return loader(lambda kind: functional.one_hot(torch.tensor(kind), 4) + 0.1 / 4)  # culprit


def mixed(share: float, rest: float) -> Callable[[list[Any]], Any]:
    """A collate_fn that mixes each picture with the next one, and their labels by these shares."""

    def mix(samples: list[Any]) -> Any:
        batch = default_collate(samples)
        labels = functional.one_hot(batch["label"], 4).float()
        image = 0.7 * batch["image"] + 0.3 * batch["image"].roll(1, 0)
        return {"image": image, "label": share * labels + rest * labels.roll(1, 0)}  # culprit

    return mix


def bad_mixed() -> DataLoader[Any]:
    """Both labels get the larger share."""
    return loader(lambda kind: kind, collate_fn=mixed(0.7, 0.7))


def blended(samples: list[Any]) -> Any:
    """A collate_fn that mixes each picture with the next one, and whatever stands for their labels."""
    batch = default_collate(samples)
    return {name: 0.7 * value + 0.3 * value.roll(1, 0) for name, value in batch.items()}  # culprit


def bad_blended() -> DataLoader[Any]:
    """0.7 of an owl and 0.3 of a dog is the number 2.4."""
    return loader(lambda kind: kind, collate_fn=blended, shuffle=True)


def lost(samples: list[Any]) -> Any:
    """The same, but for the share that both labels get."""
    batch = default_collate(samples)
    share = torch.rand(()).item()
    image = share * batch["image"] + (1 - share) * batch["image"].roll(1, 0)
    return {"image": image, "label": share * (batch["label"] + batch["label"].roll(1, 0))}  # culprit


def bad_lost_share() -> DataLoader[Any]:
    """Labels that were shares of one whole before they were mixed."""
    return loader(lambda kind: functional.one_hot(torch.tensor(kind), 4).float(), collate_fn=lost)


class Scenes(Dataset):
    """Scenes with a class for each pixel, as one file of bytes has them."""

    classes = ("sky", "road", "tree", "car")

    def __init__(self, scale: Callable[[Tensor], Tensor]) -> None:
        self.scale = scale

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        number = range(len(self))[index]
        mask = torch.zeros(1, 16, 16, dtype=torch.uint8)
        for kind in range(1, 4):
            mask[0, 4 * kind :, number % 5 :] = kind
        return picture(number, 16, 16), self.scale(mask)


def bad_divided() -> DataLoader[Any]:
    """The mask went through `ToTensor`, as the picture did."""
    return DataLoader(Scenes(lambda mask: mask.float() / 255), batch_size=4)  # culprit


def good() -> DataLoader[Any]:
    """Numbers of classes as int64."""
    return loader(lambda kind: torch.tensor(kind))


def good_shares() -> DataLoader[Any]:
    """Smoothed as it should be: the right class gives up what the others get."""
    return loader(lambda kind: functional.one_hot(torch.tensor(kind), 4) * 0.9 + 0.1 / 4)


def good_mixed() -> DataLoader[Any]:
    """Two shares of one whole."""
    return loader(lambda kind: kind, collate_fn=mixed(0.7, 0.3))


def laid_over(samples: list[Any]) -> Any:
    """A collate_fn that lays each sample over the next one: both are there."""
    batch = default_collate(samples)
    image, label = batch["image"], batch["label"]
    return {"image": image + image.roll(1, 0), "label": torch.maximum(label, label.roll(1, 0))}


def good_laid_over() -> DataLoader[Any]:
    """Several classes at once, of samples with one each."""
    return loader(lambda kind: functional.one_hot(torch.tensor(kind), 4).float(), collate_fn=laid_over)


def good_pairs() -> DataLoader[Any]:
    """Smoothed for a loss that asks yes or no of each class: 0.95 among 0.05."""
    return loader(lambda kind: torch.where(torch.arange(4) == kind, 0.95, 0.05))


def good_several() -> DataLoader[Any]:
    """Several classes for one picture, as floats, which `BCEWithLogitsLoss` takes."""
    return loader(lambda kind: torch.tensor([1.0, kind > 0, kind > 1, kind == 3]))


def good_yes_or_no() -> DataLoader[Any]:
    """Yes and no as a column of floats, which is the shape of the output of a model with one."""
    return DataLoader(Kinds(lambda kind: torch.tensor([float(kind)]), ["healthy", "ill"]), batch_size=4)


class Ratings(Kinds):
    """Pictures with a rating from 0 to 4 in steps of a half, and the price that was paid."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        sample = super().__getitem__(index)
        del sample["label"]
        return {**sample, "rating": torch.tensor([index % 9 / 2]), "price": torch.tensor([10.0 * (index % 7)])}


def good_regression() -> DataLoader[Any]:
    """Ratings and prices are columns of floats, and no classes."""
    return DataLoader(Ratings(int), batch_size=4)


class Taught(Kinds):
    """Pictures with their class, and what a larger model says of it."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        sample = super().__getitem__(index)
        teacher = torch.linspace(-2, 5, 4).roll(index % 4)
        return {**sample, "teacher": teacher, "certain": torch.sigmoid(teacher), "level": float(index % 4)}


def good_taught() -> DataLoader[Any]:
    """The class is there as it should be; logits, scores and a level beside it are no labels."""
    return DataLoader(Taught(lambda kind: kind), batch_size=4)


def good_channels() -> DataLoader[Any]:
    """Masks with an axis for one channel, as floats: some libraries have them so, and make rows of them later."""
    return DataLoader(Scenes(Tensor.float), batch_size=4)


def told_by_nobody(write: Callable[[int], Any]) -> DataLoader[Any]:
    """Pictures with labels, of which nobody says how many classes they are of."""
    pairs: Any = [(picture(n), write(n)) for n in range(64)]  # culprit
    return DataLoader(pairs, batch_size=4)


def bad_float_pairs() -> DataLoader[Any]:
    """Numbers of classes as floats, which tell themselves that they are all of 0 to 3."""
    return told_by_nobody(lambda number: float(number % 4))


def bad_one_hot_pairs() -> DataLoader[Any]:
    """Ones and zeros as whole numbers: there is a column for each class."""
    return told_by_nobody(lambda number: functional.one_hot(torch.tensor(number % 4), 4))  # culprit


def good_corners() -> DataLoader[Any]:
    """Four whole numbers in a row are the corners of a box."""
    return told_by_nobody(lambda number: torch.tensor([1, 2, 4 + number % 3, 7]))


def good_forecast() -> DataLoader[Any]:
    """How many came in the last days, and on the next one: counts as floats, of which all of 0 to 4 are there."""
    counts = torch.arange(64 + 12) * 7 % 5.0
    return DataLoader([(counts[n : n + 12], counts[n + 12]) for n in range(64)], batch_size=4)  # type: ignore[arg-type]


MANY_KINDS = [f"kind {number}" for number in range(40)]


def bad_column_of_many() -> DataLoader[Any]:
    """A column of forty classes; nobody says that there are so many."""
    pairs = [(picture(n), torch.tensor([n % 40])) for n in range(240)]  # culprit
    return DataLoader(pairs, batch_size=8)  # type: ignore[arg-type]


def bad_column_from_one() -> DataLoader[Any]:
    """Floats from 1 to 40 in a column, for classes from 0 to 39."""
    return DataLoader(Kinds(lambda kind: torch.tensor([kind + 1.0]), MANY_KINDS, 240), batch_size=8)  # culprit


def good_ages() -> DataLoader[Any]:
    """A column of whole floats goes far beyond the classes: it is an age."""
    return DataLoader(Kinds(lambda kind: torch.tensor([18.0 + kind % 40]), MANY_KINDS, 240), batch_size=8)


def good_counts() -> DataLoader[Any]:
    """A column of whole numbers, not all of which are there: how many things there are in a picture."""
    pairs = [(picture(n), torch.tensor([n * n % 41])) for n in range(240)]
    return DataLoader(pairs, batch_size=8)  # type: ignore[arg-type]


def good_many() -> DataLoader[Any]:
    """Forty classes, as they should be."""
    return DataLoader(Kinds(lambda kind: kind, MANY_KINDS, 240), batch_size=8)
