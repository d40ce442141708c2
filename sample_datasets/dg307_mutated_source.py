"""DG307 mutated-source: reading a sample modifies the stored data."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset

from sample_datasets._parts import PHOTOGRAPHS, Brighten, Pictures, brighten, picture

Sample = tuple[Tensor, int]


def scale(image: NDArray[np.float32]) -> NDArray[np.float32]:
    """From 0..255 to 0..1."""
    image /= 255  # culprit
    return image


class Arrays(Dataset[Sample]):
    """Pictures as arrays in memory."""

    def __init__(self, count: int = 16) -> None:
        self.images = np.stack([picture(number).numpy() * 255 for number in range(count)])

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Sample:
        return torch.from_numpy(self.images[index]) / 255, index % 4


class Fading(Arrays):
    """The same, divided in place."""

    def __getitem__(self, index: int) -> Sample:
        return torch.tensor(scale(self.images[index])), index % 4


def bad() -> DataLoader[Any]:
    """A picture is divided by 255 where it lies, once more at every read."""
    return DataLoader(Fading(), batch_size=4, shuffle=True)


def bad_validation() -> dict[str, DataLoader[Any]]:
    """Workers are new in each epoch, and take what they changed with them: a warning."""
    return {"val": DataLoader(Fading(), batch_size=4, num_workers=2)}


class FadingShared(Pictures):
    """Pictures in memory that all processes share, made darker where they lie."""

    def __init__(self) -> None:
        super().__init__()
        self.images.share_memory_()

    def __getitem__(self, index: int) -> Sample:
        image, label = super().__getitem__(index)
        return image.mul_(0.9).clone(), label  # culprit


def bad_shared() -> dict[str, DataLoader[Any]]:
    """What workers change outlives them."""
    return {"val": DataLoader(FadingShared(), batch_size=4, num_workers=2)}


class Restoring(Arrays):
    """Pictures that are scaled where they lie, and scaled back after a copy was made."""

    def __getitem__(self, index: int) -> Sample:
        image = self.images[index]
        image *= np.float32(1 / 255)  # culprit
        scaled = torch.tensor(image)
        image *= 255
        return scaled, index % 4


def bad_rounded() -> DataLoader[Any]:
    """What is scaled back differs in the last digit, and in one more after many reads: a warning."""
    return DataLoader(Restoring(), batch_size=4, shuffle=True)


class Erasing(Pictures):
    """Pictures, of each of which a random square is erased."""

    def __getitem__(self, index: int) -> Sample:
        image, label = super().__getitem__(index)
        top, left = random.randrange(6), random.randrange(6)
        image[:, top : top + 2, left : left + 2] = 0  # culprit
        return image, label


def bad_erased() -> DataLoader[Any]:
    """Random erasing in place leaves more holes in every epoch."""
    return DataLoader(Erasing(), batch_size=4, shuffle=True)


class Cached(Dataset[Sample]):
    """Photographs that are decoded once, kept, and flipped at random."""

    def __init__(self) -> None:
        self.decoded: dict[int, NDArray[np.uint8]] = {}

    def __len__(self) -> int:
        return 24

    def decode(self, index: int) -> NDArray[np.uint8]:
        """The pixels of a photograph, (32, 32, 3)."""
        if index not in self.decoded:
            content = np.frombuffer(PHOTOGRAPHS[index % len(PHOTOGRAPHS)].read_bytes(), np.uint8)
            self.decoded[index] = np.resize(content[index:], (32, 32, 3)).copy()
        return self.decoded[index]

    def __getitem__(self, index: int) -> Sample:
        image = self.decode(int(index))
        if random.random() < 0.9:
            image[:] = image[:, ::-1].copy()  # culprit
        return torch.from_numpy(image.copy()).permute(2, 0, 1).float() / 255, int(index) % 4


def bad_flipped() -> DataLoader[Any]:
    """A cached picture is flipped where it lies."""
    return DataLoader(Cached(), batch_size=4, shuffle=True, num_workers=2, persistent_workers=True)


@cache
def boxes_of(number: int) -> Tensor:
    """The boxes of a picture, in parts of its size."""
    return torch.tensor([[0.1, 0.1, 0.5, 0.7], [0.2, 0.3, 0.8, 0.9]]) + number / 1000


class Boxed(Pictures):
    """Pictures with boxes in pixels."""

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        boxes = boxes_of(int(index))
        boxes[:, 0::2] *= image.shape[2]  # culprit
        boxes[:, 1::2] *= image.shape[1]  # culprit
        return {"image": image, "label": label, "boxes": boxes.clone()}


def bad_boxes() -> DataLoader[Any]:
    """Boxes that `functools.cache` keeps are scaled to pixels in place."""
    return DataLoader(Boxed(), batch_size=4)


class Normalized(Arrays):
    """The whole array is brought to zero mean and shrunk at every read."""

    def __getitem__(self, index: int) -> Sample:
        self.images *= 0.9  # culprit
        return torch.tensor(self.images[index]), index % 4


def bad_whole() -> DataLoader[Any]:
    """A statement about all pictures stands in `__getitem__`."""
    return DataLoader(Normalized(), batch_size=4)


class Windowed(Arrays):
    """Pictures with their brightest value, which are cut off in place afterwards: the first read alone is right."""

    def __getitem__(self, index: int) -> Any:
        image = self.images[range(len(self))[index]]
        brightest = torch.tensor(image.max())
        np.clip(image, 20, 200, out=image)  # culprit
        return torch.from_numpy(image.copy()), brightest


def bad_windowed() -> DataLoader[Any]:
    """From the second epoch on, the brightest value of each picture is 200."""
    return DataLoader(Windowed(), batch_size=4)


class Prepared(Arrays):
    """Pictures that the first read scales in place, with the brightest value of what it returns."""

    def __init__(self) -> None:
        super().__init__()
        self.is_scaled = [False] * len(self.images)

    def __getitem__(self, index: int) -> Any:
        image = self.images[range(len(self))[index]]
        if not self.is_scaled[index]:
            image /= 255
            self.is_scaled[index] = True
        return torch.from_numpy(image.copy()), torch.tensor(image.max())


def good_prepared() -> DataLoader[Any]:
    """What is stored changes once, and the sample never does."""
    return DataLoader(Prepared(), batch_size=4)


class Dicts(Dataset[dict[str, Any]]):
    """Samples as dicts in a list."""

    def __init__(self) -> None:
        self.samples: list[dict[str, Any]] = [{"image": picture(number), "label": number % 5} for number in range(200)]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> dict[str, Any]:
        sample = self.samples[index]
        sample["image"] = (sample["image"] - 0.5) / 0.25  # culprit
        return sample


def bad_subset() -> DataLoader[Any]:
    """A dict of the list gets its normalized image, seen through a Subset."""
    return DataLoader(Subset(Dicts(), list(range(10, 190, 2))), batch_size=4)


class Sentences(Dataset[Tensor]):
    """Sentences as lists of numbers, each with a number for its end."""

    def __init__(self) -> None:
        self.sentences = [[10 + word for word in range(number, number + 3 + number % 5)] for number in range(24)]

    def __len__(self) -> int:
        return len(self.sentences)

    def __getitem__(self, index: int) -> Tensor:
        sentence = self.sentences[index]
        sentence.append(1)  # culprit
        return torch.tensor(sentence)


def bad_appended() -> DataLoader[Any]:
    """The end of a sentence is appended to the list itself, once more at every read."""
    return DataLoader(Sentences(), batch_size=1, shuffle=True)


class Ended(Sentences):
    """The last eight tokens of sentences, each of which gets an end token that stays in its list."""

    def __init__(self) -> None:
        self.sentences = [[10 + word for word in range(number, number + 9 + number % 5)] for number in range(24)]

    def __getitem__(self, index: int) -> Any:
        tokens = self.sentences[range(len(self))[index]]
        tokens += [2]  # culprit
        return torch.tensor(tokens[-8:])


def bad_ended() -> DataLoader[Any]:
    """Each epoch has one more end token, and one word less."""
    return DataLoader(Ended(), batch_size=4)


class Dealt(Pictures):
    """Eight views of each picture, dealt out until none is left."""

    def __init__(self) -> None:
        super().__init__()
        self.left: list[list[int]] = [[] for _ in range(len(self))]

    def __getitem__(self, index: int) -> Sample:
        image, label = super().__getitem__(index)
        self.left[index] = self.left[index] or [3, 1, 0, 2, 7, 5, 4, 6]
        return image.roll(self.left[index].pop(), 2), label


class Windows(Dataset[Tensor]):
    """Windows of a series, each with noise that is added to the series itself."""

    def __init__(self) -> None:
        self.series = np.sin(np.arange(120, dtype=np.float32))[:, None] * np.arange(1, 5, dtype=np.float32)

    def __len__(self) -> int:
        return len(self.series) - 12

    def __getitem__(self, index: int) -> Tensor:
        window = self.series[index : index + 12]
        window += 0.01 * torch.randn(12, 4).numpy()  # culprit
        return torch.from_numpy(window.copy())


def bad_windows() -> DataLoader[Any]:
    """Neighbouring windows share rows: each is changed by reads of the others, too."""
    return DataLoader(Windows(), batch_size=4)


def good_dealt() -> DataLoader[Any]:
    """A list tells which views of a picture are still to come."""
    return DataLoader(Dealt(), batch_size=4)


def good() -> DataLoader[Any]:
    """Pictures are divided into new ones."""
    return DataLoader(Arrays(), batch_size=4)


def good_generator() -> DataLoader[Any]:
    """Brightness is drawn from a generator that the transform holds, and moves on with every read."""
    return DataLoader(Pictures(transform=Brighten(random.Random(0))), batch_size=4)


class Memoised(Cached):
    """A cache of decoded pictures that are copied before they are flipped."""

    def __getitem__(self, index: int) -> Sample:
        image = self.decode(int(index)).copy()
        if random.random() < 0.5:
            image = image[:, ::-1].copy()
        return torch.from_numpy(image).permute(2, 0, 1).float() / 255, int(index) % 4


def good_cache() -> DataLoader[Any]:
    """What was decoded is kept, and copied before it is flipped."""
    return DataLoader(Memoised(), batch_size=4, shuffle=True)


class Compact(Pictures):
    """Pictures that a cache keeps in half precision."""

    def __init__(self) -> None:
        super().__init__(transform=brighten)
        self.kept: dict[int, Tensor] = {}

    def __getitem__(self, index: int) -> Sample:
        if index not in self.kept:
            self.kept[index] = self.images[index].half()
            return brighten(self.images[index]), self.labels[index]
        return brighten(self.kept[index].float()), self.labels[index]


def good_compact() -> DataLoader[Any]:
    """A cache rounds what it keeps: a second read differs from the first, and no later one from the second."""
    return DataLoader(Compact(), batch_size=4)


class ManyViews(Pictures):
    """Five views of each picture, by turns."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = [0] * len(self)

    def __getitem__(self, index: int) -> Sample:
        image, label = super().__getitem__(index)
        self.turn[index] += 1
        return image.roll(self.turn[index] % 5, 2), label


def good_views() -> DataLoader[Any]:
    """Each read gives the next view of a picture, whose pixels stay as they are."""
    return DataLoader(ManyViews(), batch_size=4)


class Remembering(Pictures):
    """Pictures mixed with those that were read before."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = torch.zeros(4, 3, 8, 8)

    def __getitem__(self, index: int) -> Sample:
        image, label = super().__getitem__(index)
        mixed = 0.8 * image + 0.2 * self.memory.mean(0)
        self.memory = torch.cat([self.memory[1:], image[None]])
        return mixed, label


class Longer(Pictures):
    """A memory of more rows than there are samples, of which each read replaces one."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = torch.rand(300, *picture(0).shape)
        self.reads = 0

    def __getitem__(self, index: int) -> Sample:
        image, label = super().__getitem__(index)
        self.reads += 1
        mixed = 0.8 * image + 0.2 * self.memory.mean(0)
        self.memory[self.reads % 300] = image
        return mixed, label


def good_longer_memory() -> DataLoader[Any]:
    """A ring of what was read before is no series of which samples are windows."""
    return DataLoader(Longer(), batch_size=4)


def good_memory() -> DataLoader[Any]:
    """A memory of what was read before changes samples, and is no sample itself."""
    return DataLoader(Remembering(), batch_size=4)
