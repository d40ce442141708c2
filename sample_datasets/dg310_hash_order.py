"""DG310 hash-order: what an index returns depends on string hashes, which differ between processes."""

from __future__ import annotations

import zlib
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from sample_datasets._parts import Pictures, picture

ANIMALS = ("cat", "dog", "owl", "elk", "fox")


class Animals(Dataset[tuple[Tensor, int]]):
    """Pictures of animals, with the numbers of their classes."""

    def __init__(self, classes: list[str]) -> None:
        self.names = [ANIMALS[number * 3 % 5] for number in range(40)]
        self.numbers = {name: number for number, name in enumerate(classes)}

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        index = range(len(self))[index]
        return picture(index), self.numbers[self.names[index]]


def bad() -> DataLoader[Any]:
    """Classes are numbered in the order of a set."""
    return DataLoader(Animals(list(set(ANIMALS))), batch_size=4)


def bad_comprehension() -> DataLoader[Any]:
    """The same, by a set comprehension that is gone through."""
    return DataLoader(Animals([name for name in {animal.lower() for animal in ANIMALS}]), batch_size=4)  # noqa: C416


KNOWN = {"cat", "dog", "owl"} | {"elk", "fox"}
NUMBERS = {name: number for number, name in enumerate(KNOWN)}


class Numbered(Animals):
    """Animals whose classes are numbered when the module is imported."""

    def __init__(self) -> None:
        super().__init__([])
        self.numbers = NUMBERS


def bad_import() -> DataLoader[Any]:
    """A union of sets is numbered at import."""
    return DataLoader(Numbered(), batch_size=4, shuffle=True, num_workers=2)


class Split(Dataset[Tensor]):
    """Half of some pictures, by the hashes of their names."""

    def __init__(self) -> None:
        self.numbers = [number for number in range(64) if hash(f"picture {number}") % 2]

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> Tensor:
        return picture(self.numbers[range(16)[index]])


def bad_hash() -> DataLoader[Any]:
    """A split goes by `hash`."""
    return DataLoader(Split(), batch_size=4)


def good() -> DataLoader[Any]:
    """Classes are sorted."""
    return DataLoader(Animals(sorted(set(ANIMALS))), batch_size=4)


def good_ordered() -> DataLoader[Any]:
    """A dict keeps the order in which names came."""
    return DataLoader(Animals(list(dict.fromkeys(ANIMALS))), batch_size=4)


class Filtered(Pictures):
    """Pictures, without some that are known to be bad."""

    def __init__(self) -> None:
        super().__init__(count=24)
        names = [f"picture {number}" for number in range(24)]
        bad = {"picture 3", "picture 7", "picture 11"}
        print(f"left out: {', '.join(bad)}")
        self.kept = [number for number, name in enumerate(names) if name not in bad]

    def __len__(self) -> int:
        return len(self.kept)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return super().__getitem__(self.kept[index])


def good_membership() -> DataLoader[Any]:
    """A set is only asked what is in it, and printed."""
    return DataLoader(Filtered(), batch_size=4)


def good_numbers() -> DataLoader[Any]:
    """A set of numbers has the same order in every process."""
    return DataLoader(Animals([ANIMALS[number] for number in {4, 2, 0, 1, 3}]), batch_size=4)


class Checked(Split):
    """Half of some pictures, by the checksums of their names."""

    def __init__(self) -> None:
        self.numbers = [number for number in range(64) if zlib.crc32(f"picture {number}".encode()) % 2]


def good_checksum() -> DataLoader[Any]:
    """A split goes by a checksum."""
    return DataLoader(Checked(), batch_size=4)
