"""Loaders whose random numbers come from public libraries.

What their workers draw depends on the library, and for some on its version: nothing here says which loader is broken,
the tests measure it. `LOADERS` is a mapping of the factories for the libraries that the environment variable
`LIBRARIES` names. Each library is imported when it is asked for, as a user's module does at its top: once.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, get_worker_info

Loader = DataLoader[Any]
Factories = dict[str, Callable[[], Loader]]


class Same(Dataset[Any]):
    """One value under every index, as a transform makes it: whatever differs was drawn."""

    def __init__(self, value: Any, transform: Callable[[Any], Any]) -> None:
        self.value = value
        self.transform = transform

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.value)


def loader(value: Any, transform: Callable[[Any], Any], **settings: Any) -> Loader:
    """One value, transformed for each sample by two workers."""
    return DataLoader(Same(value, transform), batch_size=4, num_workers=2, **settings)


def picture() -> Any:
    """A picture of random colours: (16, 16, 3), uint8."""
    return np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)


def torchvision() -> Factories:
    """Both generations of transforms."""
    from PIL import Image
    from torchvision import transforms
    from torchvision.transforms import v2

    first = [transforms.RandomResizedCrop(8), transforms.ColorJitter(0.5), transforms.ToTensor()]
    second = [v2.ToImage(), v2.RandomResizedCrop(8), v2.ColorJitter(0.5), v2.ToDtype(torch.float32, scale=True)]
    return {
        "v1": lambda: loader(Image.fromarray(picture()), transforms.Compose(first)),
        "v2": lambda: loader(picture(), v2.Compose(second)),
    }


def albumentations() -> Factories:
    """A pipeline as it is, seeded where it can be, and seeded again in every worker where it can be."""
    os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")  # else its import asks PyPI for a newer version
    import albumentations

    class Pipeline:
        def __init__(self, **settings: Any) -> None:
            self.compose = albumentations.Compose([albumentations.RandomBrightnessContrast(p=1)], **settings)

        def __call__(self, image: Any) -> Tensor:
            return torch.from_numpy(self.compose(image=image)["image"])

    def seed_worker(_: int) -> None:
        info = get_worker_info()
        info.dataset.transform.compose.set_random_seed(torch.initial_seed() % 2**32)  # type: ignore[union-attr]

    made: Factories = {
        "plain": lambda: loader(picture(), Pipeline()),
        "kept": lambda: loader(picture(), Pipeline(), persistent_workers=True),
    }
    if "seed" in inspect.signature(albumentations.Compose).parameters:
        made["seeded"] = lambda: loader(picture(), Pipeline(seed=7))
    if hasattr(albumentations.Compose, "set_random_seed"):
        made["seeded in workers"] = lambda: loader(picture(), Pipeline(), worker_init_fn=seed_worker)
    return made


def scipy() -> Factories:
    """A frozen distribution that draws from numpy's global generator, and one with a generator of its own."""
    from scipy import stats

    class Draw:
        def __init__(self, random_state: Any = None) -> None:
            self.distribution = stats.uniform(0.5, 0.5)
            if random_state is not None:
                self.distribution.random_state = random_state

        def __call__(self, value: Tensor) -> Tensor:
            return value * float(self.distribution.rvs())

    return {
        "global": lambda: loader(torch.ones(4), Draw()),
        "own generator": lambda: loader(torch.ones(4), Draw(np.random.default_rng(0))),
        "own state kept": lambda: loader(torch.ones(4), Draw(np.random.RandomState(0)), persistent_workers=True),
    }


def datasets() -> Factories:
    """Hugging Face transforms, set on the dataset or on a copy of it."""
    from datasets import Dataset as Rows

    class Shift:
        def __init__(self, draw: Callable[[], Any]) -> None:
            self.draw = draw

        def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
            return {"x": [torch.tensor(values) + float(self.draw()) for values in rows["x"]]}

    rows = Rows.from_dict({"x": [[0.0, 1.0]] * 16})

    def set_transform() -> Loader:
        own = rows.select(range(16))
        own.set_transform(Shift(np.random.default_rng(0).random))
        return DataLoader(own, batch_size=4, num_workers=2)

    def with_transform() -> Loader:
        return DataLoader(rows.with_transform(Shift(lambda: torch.rand(()))), batch_size=4, num_workers=2)

    return {"set_transform": set_transform, "with_transform": with_transform}


def kornia() -> Factories:
    """Augmentations for each sample, one by one and in a sequence."""
    from kornia import augmentation

    def applied(augment: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        return lambda image: augment(image[None])[0]

    image = torch.from_numpy(picture()).permute(2, 0, 1) / 255
    affine, jitter = augmentation.RandomAffine(20.0, p=1.0), augmentation.ColorJitter(0.5, p=1.0)
    sequence = augmentation.AugmentationSequential(affine, jitter, data_keys=["input"])
    return {
        "affine": lambda: loader(image, applied(affine)),
        "sequence": lambda: loader(image, applied(sequence), persistent_workers=True),
    }


def torchio() -> Factories:
    """Transforms of a volume, which draw the seed of their noise first."""
    import torchio

    volume = torch.linspace(0, 1, 216).reshape(1, 6, 6, 6)

    def applied(transform: Callable[[Tensor], Tensor]) -> Loader:
        return loader(volume, transform)

    return {
        "noise": lambda: applied(torchio.RandomNoise(std=(0.1, 0.3))),
        "composed": lambda: applied(torchio.Compose([torchio.RandomGamma(), torchio.RandomBlur()])),
    }


def monai() -> Factories:
    """A transform that holds a generator, under torch's loader and under MONAI's own."""
    from monai.data import DataLoader as MonaiLoader
    from monai.transforms import RandScaleIntensity

    class Scaled(RandScaleIntensity):
        def __call__(self, image: Tensor, randomize: bool = True) -> Tensor:
            return torch.as_tensor(super().__call__(image, randomize)).as_subclass(Tensor)

    def transform() -> Scaled:
        return Scaled(factors=0.5, prob=1.0)

    image = torch.from_numpy(picture()).permute(2, 0, 1) / 255
    return {
        "torch": lambda: loader(image, transform()),
        "torch kept": lambda: loader(image, transform(), persistent_workers=True),
        "own": lambda: MonaiLoader(Same(image, transform()), batch_size=4, num_workers=2),
    }


def audiomentations() -> Factories:
    """A chain of transforms of a wave."""
    from audiomentations import AddGaussianNoise, Compose, Gain

    chain = Compose([AddGaussianNoise(p=1.0), Gain(p=1.0)])
    wave = np.linspace(-0.5, 0.5, 400, dtype=np.float32)
    return {"chain": lambda: loader(wave, lambda samples: torch.from_numpy(chain(samples, sample_rate=8000)))}


_ALL = (albumentations, audiomentations, datasets, kornia, monai, scipy, torchio, torchvision)


def __getattr__(name: str) -> Factories:
    if name != "LOADERS":
        raise AttributeError(name)
    asked = os.environ["LIBRARIES"].split()
    libraries = [library for library in _ALL if library.__name__ in asked]
    return {f"{library.__name__} {case}": made for library in libraries for case, made in library().items()}
