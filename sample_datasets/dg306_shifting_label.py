"""DG306 shifting-label: the label of an index depends on what was read before."""

from __future__ import annotations

import random
import secrets
from itertools import cycle
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from sample_datasets._parts import Pictures, picture

Sample = tuple[Tensor, int]


class IteratedLabels(Pictures):
    """Pictures by index, and labels from an iterator over the annotations."""

    def __init__(self) -> None:
        super().__init__(count=22)
        self.annotations = cycle(self.labels)  # culprit

    def __getitem__(self, index: int) -> Sample:
        return super().__getitem__(index)[0], next(self.annotations)  # culprit


def bad() -> DataLoader[Any]:
    """Labels come from an iterator: right only as long as the pictures are read once, in their own order."""
    return DataLoader(IteratedLabels(), batch_size=4)


SPECIES = ("cat", "dog", "cat", "owl", "dog", "cat", "elk", "owl")


class NumberedLate(Dataset[dict[str, Any]]):
    """Pictures of animals, whose class numbers are given out when an animal is seen first."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return 48

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = range(len(self))[index]
        name = SPECIES[number % len(SPECIES)]
        return {"image": picture(number), "label": self.numbers.setdefault(name, len(self.numbers))}  # culprit


def bad_first_seen() -> DataLoader[Any]:
    """A class gets its number when it is seen first, by each worker in an order of its own."""
    return DataLoader(NumberedLate(), batch_size=4, shuffle=True, num_workers=2)


class LeftBehind(Pictures):
    """Pictures whose labels are looked up by a helper, which leaves the last one behind for speed."""

    def __init__(self) -> None:
        super().__init__(count=24)
        self.current = 0

    def look_up(self, index: int) -> int:
        """The label of a picture; those of odd ones are not annotated, and stay as they are."""
        if index % 2 == 0:  # culprit
            self.current = index // 2 % 5  # culprit
        return self.current  # culprit

    def __getitem__(self, index: int) -> Sample:
        return super().__getitem__(index)[0], self.look_up(range(len(self))[index])


def bad_left_behind() -> DataLoader[Any]:
    """A picture without an annotation gets the label of the last one that had one."""
    return DataLoader(LeftBehind(), batch_size=4, shuffle=True)


class ShuffledLabels(Pictures):
    """Pictures whose labels are put into another order at each read, by mistake for a copy of them."""

    def __getitem__(self, index: int) -> Sample:
        image, label = super().__getitem__(index)
        random.shuffle(self.labels)  # culprit
        return image, label


def bad_shuffled() -> DataLoader[Any]:
    """Labels are shuffled in place, as negatives were to be drawn from them."""
    return DataLoader(ShuffledLabels(), batch_size=4, shuffle=True)


class Scores(Dataset[dict[str, Any]]):
    """Rows of a table, with a score that a queue holds."""

    def __init__(self) -> None:
        self.rows = torch.arange(640, dtype=torch.float32).reshape(20, 32)
        self.queue = [float(number % 5) for number in range(20)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        score = self.queue.pop(0)  # culprit
        self.queue.append(score)  # culprit
        return {"row": self.rows[index], "target": torch.tensor([score])}


def bad_queue() -> DataLoader[Any]:
    """Targets rotate with every read."""
    return DataLoader(Scores(), batch_size=4)


def good() -> DataLoader[Any]:
    """Labels are looked up by the index."""
    return DataLoader(Pictures(), batch_size=4)


class Rotated(Pictures):
    """Pictures turned by a random quarter, which is what has to be told."""

    def __getitem__(self, index: int) -> Sample:
        quarters = random.randrange(4)
        return torch.rot90(super().__getitem__(index)[0], quarters, (1, 2)), quarters


def good_rotation() -> DataLoader[Any]:
    """Labels are drawn on purpose, together with the input."""
    return DataLoader(Rotated(), batch_size=4, shuffle=True)


class Entropic(Pictures):
    """Pictures whose labels carry noise from the operating system's entropy."""

    def __getitem__(self, index: int) -> Sample:
        image, label = super().__getitem__(index)
        return image, (label + secrets.randbelow(4)) % 4


def good_entropy() -> DataLoader[Any]:
    """Label noise that cannot be seeded is no state."""
    return DataLoader(Entropic(), batch_size=4, shuffle=True)


class Mixed(Pictures):
    """Pictures mixed with a random other one, and soft labels to match."""

    def __init__(self) -> None:
        super().__init__()
        self.chance = random.Random(0)

    def __getitem__(self, index: int) -> Any:
        share, other = self.chance.random(), self.chance.randrange(len(self))
        (one, label), (two, mate) = super().__getitem__(index), super().__getitem__(other)
        target = torch.zeros(4)
        target[label] += share
        target[mate] += 1 - share
        return one * share + two * (1 - share), target


def good_mixed() -> DataLoader[Any]:
    """Mixup by a generator of the dataset's own: soft labels follow its draws."""
    return DataLoader(Mixed(), batch_size=4, shuffle=True)


class Numbered(Pictures):
    """Pictures with a number that tells how many were read before, for a log."""

    reads = 0

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        self.reads += 1
        return {"image": image, "label": label, "step": self.reads, "key": f"picture {index}"}


def good_counter() -> DataLoader[Any]:
    """A count of reads is no label."""
    return DataLoader(Numbered(), batch_size=4)


class NoisyLabels(Pictures):
    """Pictures, some of which get a wrong label when they are read first, and keep it."""

    def __init__(self) -> None:
        super().__init__()
        self.noise: dict[int, int] = {}

    def __getitem__(self, index: int) -> Sample:
        image, label = super().__getitem__(index)
        if index not in self.noise:
            self.noise[index] = random.randrange(4)
        return image, (label + self.noise[index]) % 4


def good_noise_kept() -> DataLoader[Any]:
    """Label noise is drawn at the first read, and kept."""
    return DataLoader(NoisyLabels(), batch_size=4, shuffle=True)


class Scaled(Pictures):
    """Pictures whose size grows with the number of reads, with boxes to match."""

    reads = 0

    def __getitem__(self, index: int) -> Any:
        image, _ = super().__getitem__(index)
        self.reads += 1
        scale = 1 + self.reads // 8 % 2
        larger = image.repeat_interleave(scale, 1).repeat_interleave(scale, 2)
        return {"image": larger, "boxes": torch.tensor([[1.0, 1.0, 5.0, 6.0]]) * scale}


def good_scaled() -> DataLoader[Any]:
    """Boxes change together with the picture, every few reads."""
    return DataLoader(Scaled(), batch_size=1)
