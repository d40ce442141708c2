"""DG515 mismatched-splits: training and evaluation disagree about colours, class indices or structure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from PIL import Image
from scipy import signal
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset
from torchvision import datasets, transforms
from torchvision.transforms import v2

from sample_datasets._parts import PHOTOGRAPHS, Pictures, picture, scratch, stored
from sample_datasets._sounds import Sounds, recordings

Loaders = dict[str, DataLoader[Any]]

MEAN, STD = (0.44, 0.43, 0.41), (0.21, 0.2, 0.2)
TO_TENSOR, NORMALIZE = transforms.ToTensor(), transforms.Normalize(MEAN, STD)


class Photographs(Dataset):
    """Photographs under a transform, with the number of their folder."""

    def __init__(self, transform: Callable[[Image.Image], Any], paths: Sequence[Path] = PHOTOGRAPHS) -> None:
        self.transform = transform
        self.paths = list(paths)
        self.classes = sorted({path.parent.name for path in PHOTOGRAPHS})

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path = self.paths[index]
        with Image.open(path) as image:
            return self.transform(image.convert("RGB").resize((40, 40))), self.classes.index(path.parent.name)


def loaders(train: Callable[[Any], Any], val: Callable[[Any], Any]) -> Loaders:
    """Both splits, each under a transform of its own."""
    return {
        "train": DataLoader(Photographs(train, PHOTOGRAPHS[::2]), batch_size=4, shuffle=True),
        "val": DataLoader(Photographs(val, PHOTOGRAPHS[1::2]), batch_size=4),
    }


AUGMENTED = transforms.Compose([transforms.RandomCrop(32), transforms.RandomHorizontalFlip(), TO_TENSOR, NORMALIZE])


def bad() -> Loaders:
    """Training normalizes, validation does not."""
    return loaders(AUGMENTED, transforms.Compose([transforms.CenterCrop(32), TO_TENSOR]))  # culprit


def turned(image: Image.Image) -> Tensor:
    """Blue first, as bytes, as OpenCV would give them."""
    return torch.from_numpy(np.asarray(image)[:, :, ::-1].copy()).permute(2, 0, 1)  # culprit


def bad_order() -> Loaders:
    """Bytes, red first in training and blue first in validation."""
    return loaders(transforms.PILToTensor(), turned)


PERMUTED = v2.RandomApply([v2.RandomChannelPermutation()])
REVERSED = v2.RandomApply([v2.Lambda(lambda image: image.flip(0))])


def bad_permuted() -> Loaders:
    """Training permutes the channels of half of its images, red first otherwise; validation has blue first."""
    return loaders(transforms.Compose([transforms.PILToTensor(), PERMUTED]), turned)


def good_permuted() -> Loaders:
    """Training permutes the channels of half of its images; the others are as those of validation."""
    return loaders(transforms.Compose([turned, PERMUTED]), turned)


def good_any_order() -> Loaders:
    """Training permutes the channels of every image, so that no order is usual."""
    always = v2.RandomChannelPermutation()
    return loaders(transforms.Compose([transforms.PILToTensor(), always]), turned)


def good_reversed() -> Loaders:
    """Training reverses the channels of half of its images, which makes the order of validation."""
    return loaders(transforms.Compose([transforms.PILToTensor(), REVERSED]), turned)


def bad_statistics() -> Loaders:
    """Validation has statistics of its own, as if computed from its own pictures."""
    other = transforms.Normalize((0.52, 0.5, 0.46), (0.26, 0.25, 0.25))  # culprit
    return loaders(AUGMENTED, transforms.Compose([TO_TENSOR, other]))


ROOT = scratch("dg515-")


def _folder() -> Path:
    kinds = {"train": ("cat", "dog", "elk", "owl"), "val": ("cat", "elk", "owl")}
    numbers = count()
    for split, names in kinds.items():
        for name in names:
            for number in islice(numbers, 6):
                pixels = (picture(number, 16, 16) * 255).to(torch.uint8).permute(1, 2, 0).numpy()
                stored(ROOT / split / name / f"{number}.png", Image.fromarray(pixels).save)
    return ROOT


def bad_classes() -> Loaders:
    """`ImageFolder` numbers what it finds, and nobody took a picture of a dog for validation."""
    train, val = (datasets.ImageFolder(str(_folder() / split), TO_TENSOR) for split in ("train", "val"))  # culprit
    return {"train": DataLoader(train, batch_size=4, shuffle=True), "val": DataLoader(val, batch_size=4)}


class Found(Dataset):
    """Pictures of a folder, whose classes are numbered in the order of their names, or as a table says."""

    def __init__(self, split: str, numbers: dict[str, int] | None = None) -> None:
        self.files = sorted((_folder() / split).glob("*/*.png"))
        names = sorted({file.parent.name for file in self.files})
        self.numbered = numbers or {name: number for number, name in enumerate(names)}

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> dict[str, Any]:
        file = self.files[index]
        return {"image": TO_TENSOR(Image.open(file)), "label": torch.tensor(self.numbered[file.parent.name])}


def bad_found() -> Loaders:
    """The same in a class of one's own, which keeps its numbers to itself."""
    return {
        "train_loader": DataLoader(Found("train"), batch_size=4, shuffle=True),
        "val_loader": DataLoader(Found("val"), batch_size=4),  # culprit
    }


class Split(Pictures):
    """Pictures in memory, others for training than for the rest."""

    def __init__(self, split: str) -> None:
        super().__init__(48)
        own = slice(24) if split == "train" else slice(24, None)
        self.images, self.labels = self.images[own], self.labels[own]


class Named(Split):
    """Pictures with the name of their class, and its number in a list."""

    def __init__(self, split: str, names: Sequence[str]) -> None:
        super().__init__(split)
        self.names = list(names)

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return image, self.names.index(("cat", "dog", "elk", "owl")[label]), ("cat", "dog", "elk", "owl")[label]


def bad_names() -> Loaders:
    """Two lists of the same names, in another order."""
    train, test = Named("train", ["cat", "dog", "elk", "owl"]), Named("test", ["owl", "cat", "dog", "elk"])  # culprit
    return {"train": DataLoader(train, batch_size=4, shuffle=True), "test": DataLoader(test, batch_size=4)}


class Counted(Split):
    """Pictures whose classes begin with this number, without their last one if `fewer`."""

    def __init__(self, split: str, first: int, fewer: bool = False) -> None:
        super().__init__(split)
        self.first = first
        kept = [number for number, label in enumerate(self.labels) if not (fewer and label == 3)]
        self.images, self.labels = self.images[kept], [self.labels[number] for number in kept]

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        return image, label + self.first  # culprit


def bad_labels() -> Loaders:
    """Labels begin with 1 in training, as its file has them, and with 0 in validation."""
    train, val = Counted("train", 1), Counted("val", 0)
    return {"train": DataLoader(train, batch_size=4, shuffle=True), "val": DataLoader(val, batch_size=4)}


def good_labels() -> Loaders:
    """Validation has no picture of the last class."""
    train, val = Counted("train", 0), Counted("val", 0, fewer=True)
    return {"train": DataLoader(train, batch_size=4, shuffle=True), "val": DataLoader(val, batch_size=4)}


class Arrays(Split):
    """Pictures in memory, scaled or not."""

    def __init__(self, split: str, scale: float, last: bool = False) -> None:
        super().__init__(split)
        self.scale, self.last = scale, last

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        return (image.permute(1, 2, 0) if self.last else image) * self.scale, label  # culprit


def bad_scale() -> Loaders:
    """Values from 0 to 1 in training, and to 255 in the test."""
    train, test = Arrays("train", 1), Arrays("test", 255)
    return {"train": DataLoader(train, batch_size=4, shuffle=True), "test": DataLoader(test, batch_size=4)}


def bad_channels() -> Loaders:
    """Channels come first in training, and last in validation."""
    train, val = Arrays("train", 1), Arrays("val", 1, last=True)
    return {"train": DataLoader(train, batch_size=4, shuffle=True), "val": DataLoader(val, batch_size=4)}


FAST = recordings("split", (32_000,))


def waveform(path: Path, rate: int = 16_000, gain: float = 1.0) -> Tensor:
    """A recording at this rate."""
    values, own = soundfile.read(path)
    return torch.from_numpy((gain * signal.resample_poly(values, rate, own)[: rate // 2]).astype(np.float32))


def powers(path: Path, size: int = 512) -> Tensor:
    """The logarithm of the power in each bin of a Fourier transform."""
    window = torch.hann_window(size)
    return (torch.stft(waveform(path), size, 160, window=window, return_complex=True).abs() ** 2 + 1e-6).log()


def heard(train: Callable[[Path], Tensor], val: Callable[[Path], Tensor]) -> Loaders:
    """Both splits of the recordings, each read in its own way."""
    return {
        "train": DataLoader(Sounds(FAST[::2], train), batch_size=2, shuffle=True),
        "val": DataLoader(Sounds(FAST[1::2], val), batch_size=2),
    }


def bad_rate() -> Loaders:
    """Training is resampled to 16 kHz, validation to 22.05 kHz."""
    return heard(waveform, lambda path: waveform(path, 22_050))


def bad_gain() -> Loaders:
    """Validation is a hundred times louder."""
    return heard(waveform, lambda path: waveform(path, gain=100))


def bad_logarithm() -> Loaders:
    """Validation has decibels, and training natural logarithms."""
    return heard(powers, lambda path: 4.343 * powers(path))


def good_gain() -> Loaders:
    """Training has a random gain."""
    return heard(lambda path: waveform(path, gain=float(torch.empty(()).uniform_(0.5, 2))), waveform)


def good_speed() -> Loaders:
    """Training is perturbed in speed."""
    return heard(lambda path: waveform(path, int(torch.randint(14_400, 17_600, ())))[:7_000], waveform)


def good() -> Loaders:
    """Another crop, more augmentation, the same colours."""
    jitter = transforms.Compose([transforms.ColorJitter(0.2, 0.2, 0.2), *AUGMENTED.transforms])
    return loaders(jitter, transforms.Compose([TO_TENSOR, NORMALIZE]))


def darkened(image: Image.Image) -> Image.Image:
    """Darkened to one of five levels, as jitter does that is rounded to 8 bits: two draws may be the same."""
    dark: Image.Image = transforms.functional.adjust_brightness(image, 0.6 + 0.1 * int(torch.randint(5, ())))
    return dark


def good_darkened() -> Loaders:
    """Only training images are darkened."""
    return loaders(transforms.Compose([darkened, TO_TENSOR, NORMALIZE]), transforms.Compose([TO_TENSOR, NORMALIZE]))


def views(image: Image.Image) -> list[Tensor]:
    """Two views of a picture, as contrastive learning takes them."""
    return [AUGMENTED(image), AUGMENTED(image)]


def good_views() -> Loaders:
    """Training gives two views of each picture in a list, validation the picture alone."""
    return loaders(views, transforms.Compose([transforms.CenterCrop(32), TO_TENSOR, NORMALIZE]))


def good_classes() -> Loaders:
    """Classes are numbered once, and validation lacks one of them."""
    numbers = {"cat": 0, "dog": 1, "elk": 2, "owl": 3}
    return {
        "train": DataLoader(Found("train", numbers), batch_size=4, shuffle=True),
        "val": DataLoader(Found("val", numbers), batch_size=3),
    }


class Tested(Split):
    """Pictures with nothing but their number."""

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index)[0], f"picture {index}"


class Noted(Split):
    """Pictures with all that is known of them, and an exact label or one that is spread."""

    def __init__(self, split: str, spread: bool) -> None:
        super().__init__(split)
        self.spread = spread

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        if self.spread:
            return {"image": image, "label": torch.full((4,), 0.025) + 0.9 * (torch.arange(4) == label)}
        return {"image": image, "label": label, "id": index, "views": torch.stack([image, image.flip(2)])}


def good_unlabelled() -> Loaders:
    """A test set has no labels, and tells which picture is which."""
    train, test = Split("train"), Tested("test")
    return {"train": DataLoader(train, batch_size=4, shuffle=True), "test": DataLoader(test, batch_size=8)}


def good_more() -> Loaders:
    """Validation tells more than training does, and its labels are not smoothed."""
    train, val = Noted("train", spread=True), Noted("val", spread=False)
    return {"train": DataLoader(train, batch_size=4, shuffle=True), "val": DataLoader(val, batch_size=4)}


class Pairs(Split):
    """Pictures as they are seen, and as they should be, each in the middle of a canvas of its own size."""

    def __init__(self, split: str, sizes: tuple[int, int]) -> None:
        super().__init__(split)
        self.sizes = sizes

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        image = super().__getitem__(index)[0]
        small, large = (transforms.functional.center_crop(image, [size, size]) for size in self.sizes)
        return small, large


def good_sizes() -> Loaders:
    """Validation has larger targets than training, so that another part of its batches is the largest."""
    return {
        "train": DataLoader(Pairs("train", (16, 12)), batch_size=4, shuffle=True),
        "val": DataLoader(Pairs("val", (16, 32)), batch_size=4),
    }


def good_tasks() -> Loaders:
    """Two tasks, each with data of its own."""
    return {
        "pictures": DataLoader(Arrays("train", 1), batch_size=4, shuffle=True),
        "scans_val": DataLoader(Arrays("val", 255), batch_size=4),
        "depth_train": DataLoader(Arrays("train", 1000), batch_size=4, shuffle=True),
    }


def _depths() -> Path:
    """Pictures of single things with a depth file each, in 16 bits and whole millimetres."""
    folder = ROOT / "depth"
    for number in range(40):
        pixels = (picture(number, 24, 24) * 255).to(torch.uint8).permute(1, 2, 0).numpy()
        stored(folder / f"{number:02}.png", Image.fromarray(pixels).save)
        depth = np.full((24, 24), 800 + 37 * number, np.uint16)
        stored(folder / f"{number:02}_depth.png", Image.fromarray(depth).save)
    return folder


class Distances(Dataset):
    """Pictures with their depth in metres or another unit of the file's millimetres, mirrored in training."""

    def __init__(self, split: str, unit: float = 1000) -> None:
        self.unit = unit
        self.files = [file for file in sorted(_depths().glob("*.png")) if "_" not in file.name]
        self.files = self.files[:24] if split == "train" else self.files[24:]
        self.mirrored = split == "train"

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        file = self.files[index]
        image = NORMALIZE(TO_TENSOR(Image.open(file)))
        depth = np.asarray(Image.open(file.with_name(f"{file.stem}_depth.png")), np.float32)[None] / self.unit
        if self.mirrored and torch.rand(()) < 0.5:
            image, depth = image.flip(2), depth[..., ::-1].copy()
        return {"image": image, "depth": torch.from_numpy(depth)}


def good_depth() -> Loaders:
    """The depth of a sample depends on which sample it is, and not on the colour of its picture."""
    train, val = Distances("train"), Distances("val")
    return {"train": DataLoader(train, batch_size=4, shuffle=True), "val": DataLoader(val, batch_size=4)}


def bad_depth() -> Loaders:
    """Validation reads depth as if it had the 256 steps a metre of another data set."""
    train, val = Distances("train"), Distances("val", 256)
    return {"train": DataLoader(train, batch_size=4, shuffle=True), "val": DataLoader(val, batch_size=4)}


class Prices(Dataset):
    """Houses with the price of each, or its logarithm."""

    def __init__(self, rows: slice, *, logarithm: bool) -> None:
        drawn = np.random.default_rng(8)
        houses = drawn.normal(size=(160, 5)).astype(np.float32)
        prices = np.exp(12 + houses @ np.full(5, 0.2) + drawn.normal(0, 0.1, 160))
        self.houses, self.prices = houses[rows], prices[rows].astype(np.float32)
        self.logarithm = logarithm

    def __len__(self) -> int:
        return len(self.houses)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        price = torch.tensor(self.prices[index])  # culprit
        return torch.from_numpy(self.houses[index]), price.log1p() if self.logarithm else price


def bad_targets() -> Loaders:
    """Training predicts the logarithm of a price, and validation compares it with the price."""
    train, val = Prices(slice(0, 120), logarithm=True), Prices(slice(120, 160), logarithm=False)
    return {"train": DataLoader(train, batch_size=8, shuffle=True), "val": DataLoader(val, batch_size=8)}


class Measurements(Dataset):
    """Rows of four measurements, standardized by the statistics of all rows that are given."""

    def __init__(self, rows: Tensor, fitted: Tensor) -> None:
        self.rows, self.mean, self.std = rows, fitted.mean(0), fitted.std(0)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        row = self.rows[index]
        return (row - self.mean) / self.std, row.sum()  # culprit


def measured() -> tuple[Tensor, Tensor]:
    """120 rows for training, and 60 for validation."""
    rows = 3 + 2 * torch.randn(180, 4, generator=torch.Generator().manual_seed(5))
    return rows[:120], rows[120:]


def bad_own_statistics() -> Loaders:
    """Each split is standardized by itself: the same row means something else in validation."""
    train, val = measured()
    return {
        "train": DataLoader(Measurements(train, train), batch_size=4, shuffle=True),
        "val": DataLoader(Measurements(val, val), batch_size=4),
    }


def good_common_statistics() -> Loaders:
    """Both are standardized by the statistics of training."""
    train, val = measured()
    return {
        "train": DataLoader(Measurements(train, train), batch_size=4, shuffle=True),
        "val": DataLoader(Measurements(val, train), batch_size=4),
    }


class Species(Dataset):
    """Rows of measurements and their classes, all of one class behind those of another."""

    def __init__(self, classes: Sequence[int]) -> None:
        self.classes = list(classes)
        self.rows = torch.randn(len(self.classes), 3, generator=torch.Generator().manual_seed(7))

    def __len__(self) -> int:
        return len(self.classes)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.rows[index], self.classes[index]


def divided(dataset: Species, val: Sequence[int]) -> Loaders:
    """Some samples for validation, and the others for training."""
    others = [index for index in range(len(dataset)) if index not in set(val)]
    return {
        "train": DataLoader(Subset(dataset, others), batch_size=8, shuffle=True),
        "val": DataLoader(Subset(dataset, list(val)), batch_size=8),  # culprit
    }


def bad_sorted_fold() -> Loaders:
    """The first of four folds of sorted samples has a class and a half, of which training has a half."""
    return divided(Species([number for number in range(6) for _ in range(50)]), range(75))


def good_shuffled_fold() -> Loaders:
    """A fold of shuffled samples has a rare class that training lacks, by chance."""
    dataset = Species([number for number in range(6) for _ in range(50 if number != 2 else 2)])
    order = np.random.default_rng(3).permutation(len(dataset)).tolist()
    return divided(dataset, sorted({*order[:60], *(index for index, one in enumerate(dataset.classes) if one == 2)}))


def good_new_classes() -> Loaders:
    """Validation also has classes beyond those of training, which a model is to reject."""
    dataset = Species([number for number in range(6) for _ in range(50)])
    return divided(dataset, [*range(0, 200, 5), *range(200, 300)])


def good_identities() -> Loaders:
    """People of whom training has none are to be told apart."""
    dataset = Species([number for number in range(60) for _ in range(6)])
    return divided(dataset, [index for index, number in enumerate(dataset.classes) if number % 4 == 1])


def good_unusual_parts() -> Loaders:
    """Training has normal parts only, and validation has others, too."""
    return divided(Species([1] * 100 + [0] * 100 + [1] * 40), range(60, 240))
