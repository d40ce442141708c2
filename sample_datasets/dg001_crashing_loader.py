"""DG001 crashing-loader: building or iterating the loader raises an exception."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, SequentialSampler, default_collate

from sample_datasets._parts import PHOTOGRAPHS, Pictures, picture, share


class Photographs(Dataset[Tensor]):
    """Image files, opened when they are asked for."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Tensor:
        with Image.open(self.paths[index]) as image:
            pixels = np.array(image.resize((32, 32)), dtype=np.float32)
        return torch.from_numpy(pixels).permute(2, 0, 1) / 255


def bad() -> DataLoader[Any]:
    """One of the listed files does not exist."""
    listed = [*PHOTOGRAPHS[:13], Path("missing.jpg"), *PHOTOGRAPHS[13:]]
    return DataLoader(Photographs(listed), batch_size=5, num_workers=2)


def bad_factory() -> NoReturn:
    """The loader can not even be built: its settings are nowhere."""
    raise KeyError("DATA_ROOT")


def bad_shuffle_with_sampler() -> DataLoader[Any]:
    """`shuffle=True` contradicts an explicit sampler."""
    pictures = Pictures()
    return DataLoader(pictures, batch_size=4, shuffle=True, sampler=SequentialSampler(pictures))


def stack_images(samples: list[Mapping[str, Tensor]]) -> Tensor:
    """Expects dictionaries."""
    return torch.stack([sample["image"] for sample in samples])


def bad_collate() -> DataLoader[Any]:
    """The collate function expects dictionaries, the dataset yields tuples."""
    return DataLoader(Pictures(), batch_size=4, num_workers=2, collate_fn=stack_images)


class RawPhotographs(Dataset[Image.Image]):
    """Image files as PIL images, without any conversion to tensors."""

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    def __getitem__(self, index: int) -> Image.Image:
        return Image.open(PHOTOGRAPHS[index])


def bad_collate_pil() -> DataLoader[Any]:
    """The default collate does not know PIL images."""
    return DataLoader(RawPhotographs(), batch_size=4, num_workers=2)


class FloatPictures(Pictures):
    """Pictures that pass through a PIL image of three float channels, a mode that PIL does not have."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        resized = Image.fromarray(image.permute(1, 2, 0).numpy()).resize((4, 4))
        return torch.from_numpy(np.array(resized)).permute(2, 0, 1), label


def bad_pil_mode() -> DataLoader[Any]:
    """`Image.fromarray` can not handle three float channels."""
    return DataLoader(FloatPictures(), batch_size=4, num_workers=2)


def bad_normalize_before_totensor() -> DataLoader[Any]:
    """torchvision's `Normalize` stands before `ToTensor` and is given a PIL image."""
    from torchvision import datasets, transforms

    transform = transforms.Compose(
        [
            transforms.Resize((32, 32)),
            transforms.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
            transforms.ToTensor(),
        ]
    )
    folder = datasets.ImageFolder(str(PHOTOGRAPHS[0].parents[1]), transform)
    return DataLoader(folder, batch_size=4, num_workers=2)


class Readings(IterableDataset[Tensor]):
    """Lines of numbers, parsed as they stream by."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def __iter__(self) -> Iterator[Tensor]:
        return (torch.tensor([float(word) for word in line.split(",")]) for line in share(self.lines))


LINES = [f"{hour},{hour * 0.25}" for hour in range(16)]


def bad_stream() -> DataLoader[Any]:
    """One line in the middle of the stream does not parse."""
    return DataLoader(Readings([*LINES[:9], "9,n/a", *LINES[10:]]), batch_size=4, num_workers=2)


def open_cache(worker_id: int) -> None:
    """Needs a variable that nobody has set."""
    os.chdir(os.environ["DATAGUARD_SAMPLE_CACHE"])


def bad_worker_init() -> DataLoader[Any]:
    """The `worker_init_fn` raises in every worker."""
    return DataLoader(Pictures(), batch_size=4, num_workers=2, worker_init_fn=open_cache)


class HardestFirst(Sampler[int]):
    """Indices ordered by the loss that each sample had last time."""

    def __init__(self, count: int, losses: dict[int, float]) -> None:
        self.count = count
        self.losses = losses

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(range(self.count), key=self.losses.__getitem__))


def bad_sampler() -> DataLoader[Any]:
    """The sampler looks up losses that are known for half of the samples only."""
    sampler = HardestFirst(16, losses={index: 1 / (index + 1) for index in range(8)})
    return DataLoader(Pictures(), batch_size=4, num_workers=2, sampler=sampler)


class Record:
    """The columns of a batch as attributes."""

    def __init__(self, columns: dict[str, Tensor]) -> None:
        self.columns = columns

    def __getattr__(self, name: str) -> Tensor:
        return self.columns[name]


def collate_record(samples: list[tuple[Tensor, int]]) -> Record:
    """A batch with attributes for columns."""
    images, labels = default_collate(samples)
    return Record({"images": images, "labels": labels})


def bad_delegating_batch() -> DataLoader[Any]:
    """The main process can not unpickle the batch: pickle asks for `__setstate__` before there are columns."""
    return DataLoader(Pictures(), batch_size=4, num_workers=2, collate_fn=collate_record)


def good() -> DataLoader[Any]:
    """Every listed file exists."""
    return DataLoader(Photographs(PHOTOGRAPHS), batch_size=4, num_workers=2)


def is_image(path: Path) -> bool:
    """Whether the file is there and PIL knows what it is."""
    try:
        with Image.open(path):
            return True
    except (FileNotFoundError, UnidentifiedImageError):
        return False


class GuardedRecord(Record):
    """The same, but names that pickle asks for have no column."""

    def __getattr__(self, name: str) -> Tensor:
        if name not in self.__dict__.get("columns", ()):
            raise AttributeError(name)
        return self.columns[name]


def collate_guarded(samples: list[tuple[Tensor, int]]) -> Record:
    """A batch with attributes for columns that travels well."""
    return GuardedRecord(collate_record(samples).columns)


def good_delegating_batch() -> DataLoader[Any]:
    """The batch answers for missing attributes, and still travels from the workers."""
    return DataLoader(Pictures(), batch_size=4, num_workers=2, collate_fn=collate_guarded)


def good_handled() -> DataLoader[Any]:
    """The list names a missing file and a text file, but both are sorted out before the dataset is built."""
    listed = [*PHOTOGRAPHS[:13], Path("missing.jpg"), Path(__file__), *PHOTOGRAPHS[13:]]
    return DataLoader(Photographs([path for path in listed if is_image(path)]), batch_size=4, num_workers=2)


class PatientPictures(Pictures):
    """Pictures whose first read fails inside and is repeated."""

    def read(self, index: int, attempt: int) -> tuple[Tensor, int]:
        """Fail on the first attempt, as a network drive may."""
        if attempt == 0:
            raise TimeoutError("the drive did not answer")
        return super().__getitem__(index)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        try:
            return self.read(index, attempt=0)
        except TimeoutError:
            return self.read(index, attempt=1)


def good_retried() -> DataLoader[Any]:
    """Exceptions do fly, but the dataset catches them and reads again."""
    return DataLoader(PatientPictures(), batch_size=4, num_workers=2)


class Countdown(IterableDataset[Tensor]):
    """A stream that ends by `return` in the midst of a loop."""

    def __iter__(self) -> Iterator[Tensor]:
        for number in share(range(100)):
            if number >= 16:
                return
            yield picture(number)


def good_short_stream() -> DataLoader[Any]:
    """The stream stops early on purpose; its end is no exception."""
    return DataLoader(Countdown(), batch_size=4, num_workers=2)


class Posterized(Pictures):
    """Reduces pictures to a number of bits; the library accepts at most eight."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        bits = 8 + (random.random() < 0.01)
        if bits > 8:
            raise ValueError(f"{bits} bits")
        return torch.floor(image * 2**bits) / 2**bits, label


def bad_occasional() -> DataLoader[Any]:
    """One read in a hundred draws a number that is too large: none in a short epoch, many in a day of training."""
    return DataLoader(Posterized(256), batch_size=4, num_workers=2)


class Planned(Pictures):
    """Plans an order of its own, and each read takes the next entry of the plan, whatever the index."""

    def __init__(self) -> None:
        super().__init__()
        self.plan = torch.randperm(len(self)).tolist()
        self.position = 0

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        entry = self.plan[self.position]
        self.position += 1
        return super().__getitem__(entry)


def bad_counted_reads() -> DataLoader[Any]:
    """The plan has one entry for each sample, and nothing starts it anew: the second epoch raises."""
    return DataLoader(Planned(), batch_size=4)


class PlannedAnew(Planned):
    """The same with a method for a callback of the trainer."""

    def start_epoch(self) -> None:
        """Begin a new plan."""
        self.plan = torch.randperm(len(self)).tolist()
        self.position = 0


def good_counted_reads() -> DataLoader[Any]:
    """A callback of the trainer starts the plan anew before each epoch; a scan has no trainer."""
    return DataLoader(PlannedAnew(), batch_size=4)
