"""DG101 cloned-worker-rng: workers draw the same random numbers.

The loaders of the bad samples keep their workers from epoch to epoch, so that no epoch repeats another one.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, default_collate, get_worker_info

from sample_datasets._parts import (
    Brighten,
    EpochSeededPictures,
    Lasting,
    LazyBrighten,
    Pictures,
    UniformSource,
    brighten,
    picture,
    share,
)

Sample = tuple[Tensor, int]


class AugmentedPictures(Pictures):
    """Pictures of random brightness, drawn from a generator that the dataset holds."""

    def __init__(self, rng: UniformSource) -> None:
        super().__init__()
        self.rng = rng

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        return image * self.rng.uniform(0.5, 1.0), label


def bad() -> DataLoader[Any]:
    """The dataset holds a numpy generator: each worker starts with an equal copy."""
    dataset = AugmentedPictures(np.random.default_rng(0))  # culprit
    return DataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True)


def bad_unseeded() -> DataLoader[Any]:
    """A generator seeded by chance is copied all the same."""
    dataset = AugmentedPictures(np.random.default_rng())  # culprit
    return DataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True)


def bad_random_state() -> DataLoader[Any]:
    """The dataset holds a numpy `RandomState`."""
    dataset = AugmentedPictures(np.random.RandomState(0))  # culprit
    return DataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True)


def bad_python_random() -> DataLoader[Any]:
    """The dataset holds a `random.Random`."""
    dataset = AugmentedPictures(random.Random(0))  # culprit
    return DataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True)


def bad_spawn() -> DataLoader[Any]:
    """Spawned workers get equal copies as well, by way of pickle."""
    dataset = AugmentedPictures(np.random.default_rng(0))  # culprit
    return DataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True, multiprocessing_context="spawn")


class TorchGeneratorPictures(Pictures):
    """Pictures of random brightness, drawn from a torch generator that the dataset holds."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator()  # culprit

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        return image * torch.empty(()).uniform_(0.5, 1.0, generator=self.generator), label


def bad_torch_generator() -> DataLoader[Any]:
    """The dataset holds a `torch.Generator`, copied by fork; under spawn it can not even be sent (DG104)."""
    settings: dict[str, Any] = {"persistent_workers": True, "multiprocessing_context": "fork"}
    return DataLoader(TorchGeneratorPictures(), batch_size=4, num_workers=2, **settings)


def bad_transform() -> DataLoader[Any]:
    """The generator is held by a transform."""
    dataset = Pictures(transform=Brighten(np.random.default_rng(0)))  # culprit
    return DataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True)


def brighten_from(rng: np.random.Generator, image: Tensor) -> Tensor:
    """Scale by a random factor from the given generator."""
    return image * rng.uniform(0.5, 1.0)


def bad_partial() -> DataLoader[Any]:
    """The generator is an argument bound by `functools.partial`."""
    dataset = Pictures(transform=partial(brighten_from, np.random.default_rng(0)))  # culprit
    return DataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True)


class BrightenModule(nn.Module):
    """A transform written as a module."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = np.random.default_rng(0)  # culprit

    def forward(self, image: Tensor) -> Tensor:
        """Scale by a random factor."""
        return image * self.rng.uniform(0.5, 1.0)


def bad_nn_module() -> DataLoader[Any]:
    """The generator is held by one of several modules in a row."""
    dataset = Pictures(transform=nn.Sequential(nn.Identity(), BrightenModule()))
    return DataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True)


MODULE_RNG = np.random.default_rng(0)  # culprit


def brighten_from_module(image: Tensor) -> Tensor:
    """Scale by a random factor from a global of this module."""
    return image * MODULE_RNG.uniform(0.5, 1.0)


def bad_module() -> DataLoader[Any]:
    """The generator is a global of the module: copied by fork, seeded alike on import under spawn."""
    dataset = Pictures(transform=brighten_from_module)
    return DataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True)


class BrightenBatch:
    """A collate function that scales the whole batch by a factor from the generator it holds."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def __call__(self, samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
        images, labels = default_collate(samples)
        return images * self.rng.uniform(0.5, 1.0), labels


def bad_collate() -> DataLoader[Any]:
    """The generator is held by the collate function, which runs in the workers too."""
    collate = BrightenBatch(np.random.default_rng(0))  # culprit
    return DataLoader(Pictures(), batch_size=4, num_workers=2, persistent_workers=True, collate_fn=collate)


class BatchReadPictures(AugmentedPictures):
    """Pictures that are read a batch at a time."""

    def __getitems__(self, indices: list[int]) -> list[tuple[Tensor, int]]:
        """Read all samples of a batch."""
        return [(self.images[index] * self.rng.uniform(0.5, 1.0), self.labels[index]) for index in indices]


def bad_getitems() -> DataLoader[Any]:
    """The generator is drawn from in `__getitems__`, which reads whole batches."""
    dataset = BatchReadPictures(np.random.default_rng(0))  # culprit
    return DataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True)


def add_cv2_noise(image: Tensor) -> Tensor:
    """Add noise from cv2's own generator, which nobody seeds in a worker."""
    import cv2

    noise = np.empty((8, 8), dtype=np.float32)
    cv2.randn(noise, 0.0, 0.1)  # culprit
    return image + torch.from_numpy(noise)


def bad_cv2() -> DataLoader[Any]:
    """cv2's generator starts alike in every process."""
    dataset = Pictures(transform=add_cv2_noise)
    return DataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True)  # culprit


def seed_alike(worker_id: int) -> None:
    """Undo the distinct seeds that torch gave to the workers."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)  # culprit


def bad_worker_init() -> DataLoader[Any]:
    """The `worker_init_fn` seeds every worker with the same constant."""
    dataset = Pictures(transform=brighten)
    return DataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True, worker_init_fn=seed_alike)


def dim(image: Tensor) -> Tensor:
    """Scale by a random factor from python's global generator."""
    return image * random.uniform(0.5, 1.0)


def seed_by_second(worker_id: int) -> None:
    """Seed python's generator by the clock."""
    random.seed(int(time.time()))  # culprit


def bad_clock() -> DataLoader[Any]:
    """Workers that start in the same second get the same seed."""
    return DataLoader(Pictures(transform=dim), batch_size=4, num_workers=2, worker_init_fn=seed_by_second)


class Albumented(Pictures):
    """Pictures under an albumentations pipeline, which has a generator of its own."""

    def __init__(self) -> None:
        os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")  # else its import asks PyPI for a newer version
        import albumentations

        super().__init__()
        self.augment = albumentations.Compose([albumentations.RandomBrightnessContrast(p=1)])  # culprit

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        pixels = image.permute(1, 2, 0).contiguous().numpy()
        return torch.from_numpy(self.augment(image=pixels)["image"]).permute(2, 0, 1), label


def bad_albumentations() -> DataLoader[Any]:
    """An albumentations `Compose` holds a generator, which each worker copies (albumentations 2.0)."""
    return DataLoader(Albumented(), batch_size=4, num_workers=2, persistent_workers=True)


def add_torch_noise(image: Tensor) -> Tensor:
    """Add noise from torch's global generator."""
    return image + 0.1 * torch.randn_like(image)


class NoisyAugmentedPictures(AugmentedPictures):
    """Pictures of random brightness under healthy noise."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        return add_torch_noise(image), label


def bad_beside_healthy() -> DataLoader[Any]:
    """No two samples are equal, thanks to healthy noise, but their brightness is cloned."""
    dataset = NoisyAugmentedPictures(np.random.default_rng(0))  # culprit
    return DataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True)


class TwoViews(Pictures):
    """Two views of each picture, one noisy from torch's generator, one of random brightness from its own."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = np.random.default_rng(0)  # culprit

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return {"noisy": add_torch_noise(image), "bright": image * self.rng.uniform(0.5, 1.0), "label": label}


def bad_one_leaf() -> DataLoader[Any]:
    """Of two views in a sample, one is healthy and one is cloned."""
    return DataLoader(TwoViews(), batch_size=4, num_workers=2, persistent_workers=True)


class SometimesAugmented(AugmentedPictures):
    """Pictures, about half of which get a random brightness."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if torch.rand(()) < 0.5:
            return super().__getitem__(index)
        return Pictures.__getitem__(self, index)


def bad_branch() -> DataLoader[Any]:
    """A healthy coin decides whether the cloned generator is asked at all."""
    dataset = SometimesAugmented(np.random.default_rng(0))  # culprit
    return DataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True)


def bad_under_another() -> DataLoader[Any]:
    """A cloned brightness on top of one from a generator that is made in the worker: no two samples are equal."""
    dataset = AugmentedPictures(np.random.default_rng(0))  # culprit
    dataset.transform = LazyBrighten()
    return DataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True)


class SometimesAugmentedByItself(AugmentedPictures):
    """Pictures, about half of which get a random brightness, as a generator made in the worker decides."""

    coin: random.Random | None = None

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if self.coin is None:
            self.coin = random.Random(torch.initial_seed())
        if self.coin.random() < 0.5:
            return super().__getitem__(index)
        return Pictures.__getitem__(self, index)


def bad_branch_of_its_own() -> DataLoader[Any]:
    """Workers ask the cloned generator at other times, and get the same numbers."""
    dataset = SometimesAugmentedByItself(np.random.default_rng(0))  # culprit
    return DataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True)


class FlippedPictures(AugmentedPictures):
    """Pictures that are mirrored by the toss of a coin from the dataset's generator."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = Pictures.__getitem__(self, index)
        return (image.flip(-1) if self.rng.uniform(0, 1) < 0.5 else image), label


def bad_coin() -> DataLoader[Any]:
    """The only random thing is a coin, and all workers toss the same one."""
    dataset = FlippedPictures(np.random.default_rng(0))  # culprit
    return DataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True)


def good() -> DataLoader[Any]:
    """torch's global generator is seeded by torch in every worker."""
    return DataLoader(Pictures(transform=brighten), batch_size=4, num_workers=2)


def brighten_from_numpy(image: Tensor) -> Tensor:
    """Scale by a random factor from numpy's global generator."""
    return image * np.random.uniform(0.5, 1.0)


def good_numpy_global() -> DataLoader[Any]:
    """numpy's global generator is seeded by torch in every worker, too (since torch 1.9)."""
    return DataLoader(Pictures(transform=brighten_from_numpy), batch_size=4, num_workers=2)


def brighten_from_python(image: Tensor) -> Tensor:
    """Scale by a random factor from Python's global generator."""
    return image * random.uniform(0.5, 1.0)


def good_python_global() -> DataLoader[Any]:
    """Python's global generator is seeded by torch in every worker."""
    return DataLoader(Pictures(transform=brighten_from_python), batch_size=4, num_workers=2)


def good_spawn() -> DataLoader[Any]:
    """Spawned workers are seeded as well."""
    return DataLoader(Pictures(transform=brighten), batch_size=4, num_workers=2, multiprocessing_context="spawn")


def good_deterministic() -> DataLoader[Any]:
    """Workers agree on every sample, since nothing is random."""
    return DataLoader(Pictures(), batch_size=4, num_workers=2)


class IndexSeededPictures(Pictures):
    """Pictures whose brightness is drawn anew, but from the index."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        return image * np.random.default_rng(range(len(self))[index]).uniform(0.5, 1.0), label


def good_per_index() -> DataLoader[Any]:
    """Workers agree on every sample on purpose: each index has a seed of its own."""
    return DataLoader(IndexSeededPictures(), batch_size=4, num_workers=2)


def good_epoch_index() -> DataLoader[Any]:
    """Workers agree on every sample on purpose: each epoch and index have a seed of their own."""
    return DataLoader(EpochSeededPictures(), batch_size=4, num_workers=2)


def flip_by_coin(image: Tensor) -> Tensor:
    """Mirror every other picture, by torch's global generator."""
    return image.flip(-1) if torch.rand(()) < 0.5 else image


def good_coin() -> DataLoader[Any]:
    """Workers often agree, as two coins do, but each tosses its own."""
    return DataLoader(Pictures(transform=flip_by_coin), batch_size=4, num_workers=2)


def flip_rarely(image: Tensor) -> Tensor:
    """Mirror one picture in twenty."""
    return image.flip(-1) if torch.rand(()) < 0.05 else image


def good_rare() -> DataLoader[Any]:
    """Workers agree nearly always, since the augmentation seldom acts."""
    return DataLoader(Pictures(transform=flip_rarely), batch_size=4, num_workers=2)


class AlikePictures(Pictures):
    """Pictures that differ in one pixel only."""

    def __init__(self) -> None:
        super().__init__()
        self.images = torch.linspace(0, 1, 192).reshape(3, 8, 8).repeat(16, 1, 1, 1)
        self.images[:, 0, 0, 0] = torch.linspace(0, 1, 16)


def good_constant() -> DataLoader[Any]:
    """Samples resemble each other by nature, not for want of random numbers."""
    return DataLoader(AlikePictures(), batch_size=4, num_workers=2)


def good_torchvision_v1() -> DataLoader[Any]:
    """torchvision's transforms draw from torch's global generator."""
    from torchvision import transforms

    transform = transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ColorJitter(brightness=0.2)])
    return DataLoader(Pictures(transform=transform), batch_size=4, num_workers=2)


def good_torchvision_v2() -> DataLoader[Any]:
    """So do those of torchvision's second generation."""
    from torchvision.transforms import v2

    transform = v2.Compose([v2.RandomHorizontalFlip(), v2.ColorJitter(brightness=0.2)])
    return DataLoader(Pictures(transform=transform), batch_size=4, num_workers=2)


def good_lazy() -> DataLoader[Any]:
    """The transform holds a generator, but makes it in the worker, from the worker's seed."""
    return DataLoader(Pictures(transform=LazyBrighten()), batch_size=4, num_workers=2)


class LazyFromGlobal(Pictures):
    """Pictures with a generator that the first read seeds from numpy's global one."""

    rng: np.random.Generator | None = None

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if self.rng is None:
            self.rng = np.random.default_rng(np.random.randint(2**31))
        image, label = super().__getitem__(index)
        return image * self.rng.uniform(0.5, 1.0), label


def good_lazy_from_global() -> DataLoader[Any]:
    """The dataset's generator is made in the worker, from a number that differs between workers."""
    return DataLoader(LazyFromGlobal(), batch_size=4, num_workers=2)


def give_own_generator(worker_id: int) -> None:
    """Replace the copied generator by one that is seeded for this worker."""
    worker: Any = get_worker_info()
    worker.dataset.rng = np.random.default_rng(worker.seed)


def good_worker_init() -> DataLoader[Any]:
    """The dataset holds a generator, but the `worker_init_fn` gives each worker its own."""
    dataset = AugmentedPictures(np.random.default_rng(0))
    return DataLoader(dataset, batch_size=4, num_workers=2, worker_init_fn=give_own_generator)


def seed_by_nanosecond(worker_id: int) -> None:
    """Seed python's generator by a clock that no two workers read at the same time."""
    random.seed(time.time_ns())


def good_clock() -> DataLoader[Any]:
    """Workers start in the same second, but not in the same nanosecond."""
    return DataLoader(Pictures(transform=dim), batch_size=4, num_workers=2, worker_init_fn=seed_by_nanosecond)


def seed_cv2(worker_id: int) -> None:
    """Seed cv2 from the seed that torch gave to this worker."""
    import cv2

    cv2.setRNGSeed(torch.initial_seed() % 2**31)


def good_cv2() -> DataLoader[Any]:
    """cv2's generator is seeded in each worker."""
    dataset = Pictures(transform=add_cv2_noise)
    return DataLoader(dataset, batch_size=4, num_workers=2, worker_init_fn=seed_cv2)


def seed_albumentations(worker_id: int) -> None:
    """Seed the pipeline from the seed that torch gave to this worker."""
    worker: Any = get_worker_info()
    worker.dataset.augment.set_random_seed(worker.seed % 2**32)


def good_albumentations() -> DataLoader[Any]:
    """The albumentations pipeline is seeded in each worker."""
    return DataLoader(Albumented(), batch_size=4, num_workers=2, worker_init_fn=seed_albumentations)


class BrightenBatchFromTorch:
    """A collate function that scales the whole batch by a factor from torch's global generator."""

    def __call__(self, samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
        images, labels = default_collate(samples)
        return brighten(images), labels


def good_collate() -> DataLoader[Any]:
    """The collate function draws, but from a generator that differs between workers."""
    return DataLoader(Pictures(), batch_size=4, num_workers=2, collate_fn=BrightenBatchFromTorch())


class EntropyPictures(Pictures):
    """Pictures whose brightness comes from the operating system's entropy."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        return image * np.random.default_rng().uniform(0.5, 1.0), label


def good_entropy() -> DataLoader[Any]:
    """A new generator for every draw, without a seed: not reproducible, but never cloned."""
    return DataLoader(EntropyPictures(), batch_size=4, num_workers=2)


class StainedPictures(Pictures):
    """Pictures with a fixed stain on each, drawn once from a generator that is kept but never asked again."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = np.random.default_rng(0)
        self.images += torch.from_numpy(self.rng.random((16, 1, 8, 8), dtype=np.float32))


def good_held_for_setup() -> DataLoader[Any]:
    """Workers hold equal generators, and draw nothing from them."""
    return DataLoader(StainedPictures(), batch_size=4, num_workers=2)


class MixedPictures(AugmentedPictures):
    """Pictures with one that was read earlier over them, chosen by `random`, which torch seeds in every worker.

    Few are also blurred, as the dataset's generator decides, which begins anew in every worker.
    """

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(0))
        self.seed: int | None = None
        self.earlier: list[Tensor] = []

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if self.seed != torch.initial_seed():
            self.seed = torch.initial_seed()
            self.rng = np.random.default_rng(self.seed)
        image, label = Pictures.__getitem__(self, index)
        self.earlier = [*self.earlier, image][-256:]
        blurred = image.roll(1, -1) / 2 + image / 2 if self.rng.uniform(0, 1) < 1e-6 else image
        return blurred + random.choice(self.earlier), label


def good_reseeded() -> DataLoader[Any]:
    """Each worker seeds the dataset's generator at its first read; samples also depend on the reads before them."""
    return DataLoader(MixedPictures(), batch_size=4, num_workers=2, persistent_workers=True)


class BlurredPictures(AugmentedPictures):
    """Pictures with noise from `torch`, and blurred as the dataset's generator decides, which each worker seeds."""

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(0))
        self.seed: int | None = None

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if self.seed != torch.initial_seed():
            self.seed = torch.initial_seed()
            self.rng = np.random.default_rng(self.seed)
        image, label = Pictures.__getitem__(self, index)
        return image * self.rng.uniform(0.5, 1.0) + torch.rand(image.shape), label


def good_reseeded_once() -> DataLoader[Any]:
    """Workers that outlive their epochs seed the generator at their first read only."""
    return Lasting(BlurredPictures(), batch_size=4, num_workers=2)


class PicturesInTurn(AugmentedPictures):
    """Pictures whose brightness is one of several numbers from the dataset's generator, one for each worker."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = Pictures.__getitem__(self, index)
        worker = get_worker_info()
        numbers = [self.rng.uniform(0.5, 1.0) for _ in range(8)]
        return image * numbers[worker.id if worker else 0], label


def good_in_turn() -> DataLoader[Any]:
    """Workers hold equal generators, and each takes numbers that the others leave out."""
    dataset = PicturesInTurn(np.random.default_rng(0))
    return DataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True)


class PictureStream(IterableDataset[Sample]):
    """Each worker streams its share of many pictures, brightened by a factor from a source that the stream holds."""

    def __init__(self, rng: UniformSource) -> None:
        self.rng = rng

    def __iter__(self) -> Iterator[Sample]:
        return ((picture(number) * self.rng.uniform(0.5, 1.0), number % 4) for number in share(range(64)))


def bad_stream() -> DataLoader[Any]:
    """Workers stream other pictures, but brighten them by the same factors."""
    stream = PictureStream(np.random.default_rng(0))  # culprit
    return DataLoader(stream, batch_size=4, num_workers=2, persistent_workers=True)


class EagerStream(PictureStream):
    """Each worker starts its generator from its own number, when the first picture is asked for."""

    def __iter__(self) -> Iterator[Sample]:
        self.rng = np.random.default_rng(torch.initial_seed())
        return super().__iter__()


def good_stream() -> DataLoader[Any]:
    """The copies of the generator are replaced before they are used."""
    return DataLoader(EagerStream(np.random.default_rng(0)), batch_size=4, num_workers=2)


class BufferedStream(IterableDataset[Sample]):
    """Each worker streams its share through a small buffer that it shuffles."""

    def __init__(self) -> None:
        self.rng = random.Random(0)

    def __iter__(self) -> Iterator[Sample]:
        waiting: list[int] = []
        for number in share(range(64)):
            waiting.append(number)
            if len(waiting) == 8:
                chosen = waiting.pop(self.rng.randrange(8))
                yield picture(chosen), chosen % 4
        for number in waiting:
            yield picture(number), number % 4


def good_stream_shuffled() -> DataLoader[Any]:
    """Equal generators decide the order alone, and every worker has pictures of its own."""
    return DataLoader(BufferedStream(), batch_size=4, num_workers=2, persistent_workers=True)


class NoisyBufferedStream(BufferedStream):
    """The same with noise from the operating system's entropy."""

    def __iter__(self) -> Iterator[Sample]:
        return ((image + np.random.default_rng().random(), label) for image, label in super().__iter__())


def good_stream_shuffled_noisy() -> DataLoader[Any]:
    """Equal generators decide the order alone, and no two samples are equal."""
    return DataLoader(NoisyBufferedStream(), batch_size=4, num_workers=2, persistent_workers=True)
