"""DG303 wrapped-index: samples repeat periodically inside range(len(dataset))."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, WeightedRandomSampler, random_split

from sample_datasets._parts import Pictures, brighten, picture

Sample = tuple[Tensor, int]


class Wrapped(Dataset[Sample]):
    """Pictures, and a table of labels that has more rows, because it is that of all splits."""

    def __init__(self, pictures: int = 40, rows: int = 100) -> None:
        self.pictures = [picture(number) for number in range(pictures)]
        self.labels = [number * 7 % 5 for number in range(rows)]

    def __len__(self) -> int:
        return len(self.labels)  # culprit

    def __getitem__(self, index: int) -> Sample:
        index = range(len(self))[index]
        return self.pictures[index % len(self.pictures)], self.labels[index]  # culprit


def bad() -> DataLoader[Any]:
    """A modulo hides that there are fewer pictures than labels."""
    return DataLoader(Wrapped(), batch_size=4)


class Augmented(Wrapped):
    """The same pictures, brightened at random."""

    def __getitem__(self, index: int) -> Sample:
        image, label = super().__getitem__(index)
        return brighten(image), label


def bad_augmented() -> DataLoader[Any]:
    """The pictures that repeat are augmented."""
    return DataLoader(Augmented(), batch_size=4, shuffle=True, num_workers=2)


class WrittenDown(Dataset[dict[str, Any]]):
    """Rows of a table whose length was written down when there were more of them."""

    def __init__(self) -> None:
        self.rows = torch.arange(600, dtype=torch.float32).reshape(50, 12)

    def __len__(self) -> int:
        return 128  # culprit

    def __getitem__(self, index: int) -> dict[str, Any]:
        index = range(len(self))[index]
        return {"row": self.rows[index % len(self.rows)], "index": index}  # culprit


def bad_written_down() -> DataLoader[Any]:
    """The length is a constant, and samples carry the index that was asked for."""
    return DataLoader(WrittenDown(), batch_size=8)


class Remainder(Wrapped):
    """The same without a check of the range, so that negative indices wrap around as well."""

    def __getitem__(self, index: int) -> Sample:
        return self.pictures[index % len(self.pictures)], self.labels[index % len(self.pictures)]  # culprit


def bad_remainder() -> DataLoader[Any]:
    """An epoch is made longer by a modulo: no other check says so once more."""
    return DataLoader(Remainder(rows=90), batch_size=4, shuffle=True)


class Endless(Dataset[Sample]):
    """Pictures made on the fly, a round number of them."""

    def __len__(self) -> int:
        return 100_003  # culprit

    def __getitem__(self, index: int) -> Sample:
        index = range(len(self))[index]
        return picture(index % 97), index % 3  # culprit


def bad_computed() -> DataLoader[Any]:
    """Pictures repeat every 97 samples, and together with their labels every 291."""
    return DataLoader(Endless(), batch_size=4, num_workers=2)


def bad_split() -> dict[str, DataLoader[Any]]:
    """Both sides of a random split hold the same pictures."""
    train, _ = random_split(Wrapped(60, 150), [100, 50], torch.Generator().manual_seed(0))
    return {"pictures": DataLoader(train, batch_size=4)}


def good() -> DataLoader[Any]:
    """As many pictures as labels."""
    return DataLoader(Wrapped(40, 40), batch_size=4)


def good_concatenated() -> DataLoader[Any]:
    """The dataset is put in a row with itself three times, which says that it is meant."""
    return DataLoader(ConcatDataset([Wrapped(20, 20)] * 3), batch_size=4, shuffle=True)


def good_oversampled() -> DataLoader[Any]:
    """Indices of rare classes stand several times in a Subset, and the sampler draws with replacement."""
    rare = Subset(Wrapped(40, 40), list(range(8)) * 4 + list(range(8, 40)))
    sampler = WeightedRandomSampler([1.0] * len(rare), len(rare), generator=torch.Generator().manual_seed(0))
    return DataLoader(rare, batch_size=4, sampler=sampler)


class Repeated(Dataset[Sample]):
    """A dataset several times over, as frameworks for detection have it."""

    def __init__(self, dataset: Dataset[Sample], times: int) -> None:
        self.dataset = dataset
        self.times = times

    def __len__(self) -> int:
        return self.times * len(self.dataset)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> Sample:
        if index >= len(self):
            raise IndexError(index)
        return self.dataset[index % len(self.dataset)]  # type: ignore[arg-type]


def good_repeated() -> DataLoader[Any]:
    """The number of repetitions is an attribute, and the length a multiple."""
    return DataLoader(Repeated(Wrapped(20, 20), times=3), batch_size=4, shuffle=True)


class Synthetic(Dataset[tuple[Tensor, Tensor]]):
    """Inputs that differ, and targets that are all zeros."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return picture(range(64)[index]), torch.zeros(8)


def good_constant_targets() -> DataLoader[Any]:
    """Targets are equal at every distance, and say nothing."""
    return DataLoader(Synthetic(), batch_size=4)


class Questions(Dataset[dict[str, Any]]):
    """Three questions about each picture."""

    def __init__(self) -> None:
        self.pictures = [picture(number) for number in range(40)]

    def __len__(self) -> int:
        return 3 * len(self.pictures)

    def __getitem__(self, index: int) -> dict[str, Any]:
        question, number = divmod(range(len(self))[index], len(self.pictures))
        return {"picture": self.pictures[number], "question": question, "answer": (number * 7 + question) % 5}


def good_questions() -> DataLoader[Any]:
    """Pictures repeat, once for each question."""
    return DataLoader(Questions(), batch_size=4, shuffle=True)


class Patches(Dataset[Tensor]):
    """A thousand random patches of a few large pictures in each epoch."""

    def __init__(self, patches: int = 1000) -> None:
        self.pictures = [picture(number, 32, 32) for number in range(6)]
        self.patches = patches

    def __len__(self) -> int:
        return self.patches

    def __getitem__(self, index: int) -> Tensor:
        index = range(len(self))[index]
        top, left = torch.randint(0, 24, (2,)).tolist()
        return self.pictures[index % 6][:, top : top + 8, left : left + 8]


def good_patches() -> DataLoader[Any]:
    """The number of patches is chosen, and each is cut out anew."""
    return DataLoader(Patches(), batch_size=8, shuffle=True)


class Unpaired(Dataset[dict[str, Tensor]]):
    """Pictures of two kinds that do not belong together; there are fewer of one."""

    def __init__(self) -> None:
        self.horses = [picture(number) for number in range(30)]
        self.zebras = [picture(number + 1000) for number in range(50)]

    def __len__(self) -> int:
        return max(len(self.horses), len(self.zebras))

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        index = range(len(self))[index]
        return {"horse": self.horses[index % len(self.horses)], "zebra": self.zebras[index % len(self.zebras)]}


def good_unpaired() -> DataLoader[Any]:
    """The smaller half of unpaired pictures begins anew, the other goes on."""
    return DataLoader(Unpaired(), batch_size=4)


class Drawn(Unpaired):
    """Each zebra is drawn at random, so that none has a horse of its own."""

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        zebra = self.zebras[random.randrange(len(self.zebras))]
        return {"horse": super().__getitem__(index)["horse"], "zebra": zebra}


def good_drawn() -> DataLoader[Any]:
    """The smaller half of unpaired pictures begins anew, the other is drawn."""
    return DataLoader(Drawn(), batch_size=4)


class Listed(Pictures):
    """Pictures in a list that was multiplied."""

    def __init__(self) -> None:
        super().__init__(count=20)
        self.items = list(zip(self.images, self.labels, strict=True)) * 3

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Sample:
        return self.items[index]


def good_listed() -> DataLoader[Any]:
    """The list of samples holds each of them three times."""
    return DataLoader(Listed(), batch_size=4, shuffle=True)
