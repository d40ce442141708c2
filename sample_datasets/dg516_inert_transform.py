"""DG516 inert-transform: a step of the pipeline is called for every sample, and never changes anything."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset, default_collate
from torchvision import transforms, tv_tensors
from torchvision.transforms import v2

from sample_datasets._parts import PHOTOGRAPHS

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIDE = 48


def read_array(path: Path) -> np.ndarray:
    """By OpenCV, red first, (48, 48, 3)."""
    image: np.ndarray = cv2.cvtColor(cv2.resize(cv2.imread(str(path)), (SIDE, SIDE)), cv2.COLOR_BGR2RGB)
    return image


def read_pil(path: Path) -> Image.Image:
    """By Pillow, 48 by 48."""
    with Image.open(path) as image:
        return image.convert("RGB").resize((SIDE, SIDE))


class Photographs(Dataset):
    """Photographs and the class that their folder names."""

    def __init__(self, load: Callable[[Path], Any], transform: Callable[[Any], Any]) -> None:
        self.classes = sorted({path.parent.name for path in PHOTOGRAPHS})
        self.load = load
        self.transform = transform

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path = PHOTOGRAPHS[index]
        return self.transform(self.load(path)), self.classes.index(path.parent.name)


def loader(load: Callable[[Path], Any], *steps: Callable[[Any], Any], **options: Any) -> DataLoader[Any]:
    """Batches of four photographs, read in the main process."""
    return DataLoader(Photographs(load, v2.Compose(list(steps))), batch_size=4, **options)


READY = (v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD))


def bad() -> DataLoader[Any]:
    """v2 does not know arrays: the flip and the resize before `ToImage` let them pass as they are."""
    return loader(read_array, v2.RandomHorizontalFlip(), v2.Resize((40, 40)), *READY)  # culprit


def bad_late_image() -> DataLoader[Any]:
    """`ToDtype` lets an image of Pillow's pass; bytes come out where fractions are meant."""
    return loader(read_pil, v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True), v2.ToImage())  # culprit


class Mirror:
    """Mirrors a picture with some probability; but it asks whether a number from 0 to 1 is below 0."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = p

    def __call__(self, image: np.ndarray) -> np.ndarray:
        return image[:, ::-1].copy() if random.random() * self.p > 1 else image


def bad_never() -> DataLoader[Any]:
    """A random transform of one's own that never acts."""
    return loader(read_array, Mirror(), *READY)  # culprit


class Chain:
    """A pipeline of one's own, with names."""

    def __init__(self, **steps: Callable[[Any], Any]) -> None:
        self.steps = steps

    def __call__(self, sample: dict[str, Any]) -> dict[str, Any]:
        for step in self.steps.values():
            sample = step(sample)
        return sample


class Tables(Dataset):
    """Pictures as dictionaries of arrays, out of memory."""

    def __init__(self, chain: Chain) -> None:
        self.pictures = [read_array(path) for path in PHOTOGRAPHS]
        self.chain = chain

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.chain({"image": self.pictures[index].copy(), "number": range(len(self))[index]})


def bad_dictionary() -> DataLoader[Any]:
    """The same in a dictionary: the image is an array, and jitter and erasing do nothing to it."""
    chain = Chain(jitter=v2.ColorJitter(0.4, 0.4), flip=v2.RandomVerticalFlip(0.3))  # culprit
    return DataLoader(Tables(chain), batch_size=4)


def bad_unread() -> DataLoader[Any]:
    """The transform is given to a `Subset`, where nothing looks at it."""
    subset = Subset(Photographs(read_array, v2.Compose(list(READY))), range(20))  # culprit
    subset.transform = v2.RandomHorizontalFlip()  # type: ignore[attr-defined]
    return DataLoader(subset, batch_size=4)


class Remembered(Dataset):
    """Photographs of another dataset, and the transform that it has."""

    def __init__(self, transform: Callable[[Any], Any]) -> None:
        self.photographs = Photographs(read_array, transform)
        self.transform = transform

    def __len__(self) -> int:
        return len(self.photographs)

    def __getitem__(self, index: int) -> Any:
        return self.photographs[index]


def good_remembered() -> DataLoader[Any]:
    """Nothing reads the attribute, as what it wraps calls the transform itself."""
    return DataLoader(Remembered(v2.Compose([v2.ToImage(), v2.RandomHorizontalFlip(), *READY[1:]])), batch_size=4)


def bad_in_batches() -> DataLoader[Any]:
    """The collate function augments, before arrays have become a tensor."""
    flip = v2.RandomHorizontalFlip(0.4)  # culprit

    def collate(samples: list[tuple[np.ndarray, int]]) -> Any:
        return default_collate([(flip(image), label) for image, label in samples])

    return DataLoader(Photographs(read_array, np.ascontiguousarray), batch_size=4, collate_fn=collate)


class Careless(Photographs):
    """Calls an augmentation, and looks at nothing that it gives."""

    def __init__(self, load: Callable[[Path], Any], augment: Callable[[Any], Any]) -> None:
        super().__init__(load, v2.Compose(list(READY)))
        self.augment = augment

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path = PHOTOGRAPHS[index]
        image = self.load(path)
        self.augment(image)  # culprit
        return self.transform(image), self.classes.index(path.parent.name)


def bad_thrown_away() -> DataLoader[Any]:
    """What the augmentation gives is assigned to nothing."""
    return DataLoader(Careless(read_pil, v2.RandAugment()), batch_size=4)


class Patch:
    """Paints over a part of an image, in place."""

    def __call__(self, image: np.ndarray) -> np.ndarray:
        top = random.randrange(SIDE - 8)
        image[top : top + 8, :8] = 128
        return image


def good_painted() -> DataLoader[Any]:
    """A step that works in place, and whose result nobody needs."""
    return DataLoader(Careless(read_array, Patch()), batch_size=4)


class Compared(Careless):
    """Tells how far an augmented view is from the image, and gives the image."""

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image = self.load(PHOTOGRAPHS[index])
        view = self.transform(self.augment(image))
        return self.transform(image), (view - self.transform(image)).abs().mean()


def good_compared() -> DataLoader[Any]:
    """An augmented view of which a single number comes out."""
    return DataLoader(Compared(read_pil, v2.RandAugment()), batch_size=4)


def good() -> DataLoader[Any]:
    """`ToImage` comes first."""
    augment = (v2.RandomHorizontalFlip(), v2.RandomResizedCrop(SIDE, scale=(0.3, 1.0), antialias=True))
    return loader(read_array, v2.ToImage(), *augment, *READY[1:])


def good_fitting() -> DataLoader[Any]:
    """A resize, a crop and a pad that happen to fit the data, and conversions of what is converted already."""
    fitting = (v2.Resize((SIDE, SIDE)), v2.CenterCrop(SIDE), v2.Pad(0), v2.ToImage(), v2.ToImage(), v2.ToPureTensor())
    ready = (v2.ToDtype(torch.float32, scale=True), v2.ToDtype(torch.float32), v2.Identity(), v2.Normalize(MEAN, STD))
    return loader(read_pil, *fitting, *ready)


def good_switched_off() -> DataLoader[Any]:
    """Probabilities and strengths of nothing, as an ablation leaves them behind."""
    bilinear = transforms.InterpolationMode.BILINEAR  # of floats, it rounds where it moves nothing
    off = (
        transforms.RandomHorizontalFlip(0.0),
        transforms.ColorJitter(),
        transforms.RandomRotation(0),
        transforms.RandomAffine(0, (0.0, 0.0), (1.0, 1.0), interpolation=bilinear),
    )
    return loader(read_pil, *off, transforms.ToTensor(), transforms.Normalize(MEAN, STD))


def good_rare() -> DataLoader[Any]:
    """What acts rarely, or on few pictures only."""
    rare = (transforms.RandomGrayscale(0.02), transforms.RandomAutocontrast(0.1), transforms.RandomEqualize(0.05))
    return loader(read_pil, *rare, transforms.ToTensor(), transforms.RandomErasing(0.03))


def good_albumentations() -> DataLoader[Any]:
    """albumentations takes arrays, pads what is too small, and has a step that does nothing."""
    import albumentations as A

    steps = [A.NoOp(), A.PadIfNeeded(32, 32), A.OneOf([A.HorizontalFlip(p=0.1), A.NoOp()]), A.Normalize()]
    augment = A.Compose(steps)
    return DataLoader(Photographs(read_array, lambda image: augment(image=image)["image"]), batch_size=4)


class Checked:
    """Raises on what is no picture, and clamps values, which are in range."""

    def __call__(self, image: Tensor) -> Tensor:
        if image.ndim != 3:
            raise ValueError(f"not a picture: {tuple(image.shape)}")
        return image.clamp(0, 255)


class Clip:
    """Fractions out of range are clipped, in arrays and tensors."""

    def __call__(self, image: Any) -> Any:
        return image.clip(0, 1) if image.dtype.is_floating_point else image


def good_validated() -> DataLoader[Any]:
    """Steps that look, and let what is right pass."""
    return loader(read_array, v2.ToImage(), Checked(), v2.ToDtype(torch.float32, scale=True), Clip())


class Boxed(Dataset):
    """Photographs with boxes, which are clamped and cleaned."""

    def __init__(self) -> None:
        self.transforms = v2.Compose([v2.RandomHorizontalFlip(), v2.ClampBoundingBoxes(), v2.SanitizeBoundingBoxes()])

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    def __getitem__(self, index: int) -> tuple[Tensor, dict[str, Any]]:
        image = tv_tensors.Image(torch.from_numpy(read_array(PHOTOGRAPHS[index]).transpose(2, 0, 1).copy()))
        number = range(len(self))[index]
        corners = [[4 + number % 4, 6, 20, 30], [10, 20, 40 - number % 3, 44]]
        boxes = tv_tensors.BoundingBoxes(corners, format="XYXY", canvas_size=(SIDE, SIDE))
        image, target = self.transforms(image, {"boxes": boxes, "labels": torch.tensor([1, 2])})
        return image, target


def good_boxes() -> DataLoader[Any]:
    """Boxes that need no cleaning."""
    return DataLoader(Boxed(), batch_size=4, collate_fn=lambda samples: tuple(zip(*samples, strict=True)))


def good_conversion() -> DataLoader[Any]:
    """v1 transforms on Pillow's images, then on tensors, with a plain function between."""
    half = transforms.Lambda(lambda image: image / 2)
    return loader(read_pil, transforms.RandomCrop(40), transforms.ToTensor(), half, transforms.RandomHorizontalFlip())


class Statements(Photographs):
    """Photographs that functions flip, without an object for it."""

    def __init__(self) -> None:
        super().__init__(read_pil, v2.Compose(list(READY)))

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path = PHOTOGRAPHS[index]
        image = self.load(path)
        if random.random() < 0.5:
            v2.functional.horizontal_flip(image)  # culprit
        return self.transform(image), self.classes.index(path.parent.name)


def bad_statement() -> DataLoader[Any]:
    """What a function returns is assigned to nothing."""
    return DataLoader(Statements(), batch_size=4)


SEEN: dict[Path, np.ndarray] = {}


def remember(path: Path, pixels: np.ndarray) -> np.ndarray:
    """Keeps a mirrored copy for another sample."""
    SEEN[path] = pixels[:, ::-1].copy()
    return SEEN[path]


class InPlace(Statements):
    """Statements that work in place, or are there for what else they do."""

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path = PHOTOGRAPHS[index]
        image = self.load(path)
        np.asarray(image)  # loads the pixels
        try:
            v2.functional.to_image(image)
        except OSError:
            image = self.load(PHOTOGRAPHS[0])
        pixels = np.array(image)
        cv2.rectangle(pixels, (2, 2), (8, 8), (0, 0, 0))
        np.clip(pixels, 0, 255, out=pixels)
        remember(path, pixels)
        ready = self.transform(pixels)
        ready.clamp_(-3, 3)
        return ready, self.classes.index(path.parent.name)


def good_in_place() -> DataLoader[Any]:
    """Their results are not needed."""
    return DataLoader(InPlace(), batch_size=4)
