"""DG511 blended-mask: a label mask holds values that no label has."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from PIL import Image
from scipy.ndimage import zoom
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms, tv_tensors
from torchvision.transforms import InterpolationMode, v2

from sample_datasets._parts import scratch, stored
from sample_datasets._scenes import CLASSES, scenes

SIZE = (32, 40)
RESIZED = transforms.Compose([transforms.Resize(SIZE), transforms.ToTensor()])


def whole(mask: Image.Image) -> Tensor:
    """Class numbers as they are, (1, height, width)."""
    return torch.from_numpy(np.array(mask, np.int64))[None]


def nearest(mask: Image.Image) -> Image.Image:
    """Resized without blending."""
    return mask.resize(SIZE[::-1], Image.Resampling.NEAREST)


class Scenes(Dataset):
    """Photographs and their label masks, each through a transform of its own; `read` opens a mask."""

    def __init__(self, mask_transform: Callable[[Any], Any], read: Callable[[Path], Any] = Image.open) -> None:
        self.files = scenes()
        self.mask_transform = mask_transform
        self.read = read

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Tensor, Any]:
        image, mask = self.files[index]
        return RESIZED(Image.open(image).convert("RGB")), self.mask_transform(self.read(mask))


def loader(mask_transform: Callable[[Any], Any], read: Callable[[Path], Any] = Image.open) -> DataLoader[Any]:
    """Batches of four scenes."""
    return DataLoader(Scenes(mask_transform, read), batch_size=4)


def bad() -> DataLoader[Any]:
    """The mask is resized like the photograph, bilinearly: between class 0 and class 3 appear 1 and 2."""
    return loader(transforms.Compose([transforms.Resize(SIZE), transforms.Lambda(whole)]))  # culprit


def bad_divided() -> DataLoader[Any]:
    """`ToTensor` takes class numbers for brightness and divides them by 255."""
    return loader(transforms.Compose([nearest, transforms.ToTensor()]))  # culprit


def read_cv2(path: Path) -> np.ndarray:
    """By OpenCV, as it is in the file."""
    return np.asarray(cv2.imread(str(path), cv2.IMREAD_UNCHANGED))


def bad_opencv() -> DataLoader[Any]:
    """OpenCV resizes in floating point, by area."""

    def shrink(mask: np.ndarray) -> Tensor:
        small = cv2.resize(mask.astype(np.float32), SIZE[::-1], interpolation=cv2.INTER_AREA)  # culprit
        return torch.from_numpy(small)

    return loader(shrink, read_cv2)


class Joint(Dataset):
    """Photograph and mask through one transform, as tensors."""

    def __init__(self, transform: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return len(scenes())

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        photograph, mask = (np.array(Image.open(path)) for path in scenes()[index])
        image = torch.from_numpy(photograph).permute(2, 0, 1).float() / 255
        image, labels = self.transform(image, torch.from_numpy(mask)[None])
        return {"image": image, "mask": labels.squeeze(0).long()}


def bad_rotated() -> DataLoader[Any]:
    """Rotated with the photograph, and with its interpolation; so is a one-hot mask, whose classes blend."""

    def rotate(image: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        angle = float(torch.empty(()).uniform_(10, 30))
        turned = v2.functional.rotate(torch.cat([image, mask.float()]), angle, InterpolationMode.BILINEAR)  # culprit
        return turned[:3], turned[3:]

    return DataLoader(Joint(rotate), batch_size=4)


def bad_one_hot() -> DataLoader[Any]:
    """One plane for each class, resized bilinearly."""

    def planes(mask: Image.Image) -> Tensor:
        hot = torch.nn.functional.one_hot(whole(mask)[0], CLASSES).permute(2, 0, 1).float()
        resized: Tensor = v2.functional.resize(hot, list(SIZE))  # culprit
        return resized

    return loader(planes)


class Stored(Scenes):
    """Masks that were exported as JPEG."""

    def __init__(self, mask_transform: Callable[[Any], Any], export: Callable[[np.ndarray], np.ndarray]) -> None:
        super().__init__(mask_transform)
        self.files = tuple((image, mask.with_suffix(f".{export.__name__}.jpg")) for image, mask in scenes())
        for (_, mask), (_, spoilt) in zip(scenes(), self.files, strict=True):
            exported = Image.fromarray(export(np.array(Image.open(mask))).astype(np.uint8))
            stored(spoilt, partial(exported.save, quality=80))


def two_classes(mask: np.ndarray) -> np.ndarray:
    return (mask > 1) * 200


def as_numbers(mask: np.ndarray) -> np.ndarray:
    return np.kron(mask * 3, np.ones((11, 11)))


def far_apart(mask: np.ndarray) -> np.ndarray:
    return np.kron(mask * 60, np.ones((11, 11)))


def bad_jpeg() -> DataLoader[Any]:
    """Whatever is not 0 counts as an object of its own number."""
    return DataLoader(Stored(transforms.Compose([nearest, transforms.Lambda(whole)]), two_classes), batch_size=4)


def bad_jpeg_classes() -> DataLoader[Any]:
    """Compression puts other classes between neighbouring ones: 3 and 5 between 0 and 9."""
    return DataLoader(Stored(transforms.Compose([nearest, transforms.Lambda(whole)]), as_numbers), batch_size=4)


class StoredInColour(Stored):
    """Masks that were exported as JPEG with three channels."""

    def __init__(self, mask_transform: Callable[[Any], Any]) -> None:
        super().__init__(mask_transform, as_numbers)
        self.files = tuple((image, spoilt.with_suffix(".colour.jpg")) for image, spoilt in self.files)
        for (_, mask), (_, spoilt) in zip(scenes(), self.files, strict=True):
            numbers = as_numbers(np.array(Image.open(mask))).astype(np.uint8)
            stored(spoilt, partial(Image.fromarray(np.stack([numbers] * 3, 2)).save, quality=80))


def bad_jpeg_clipped() -> DataLoader[Any]:
    """Values above the last class are clipped, and those between classes stay."""

    def clipped(mask: Image.Image) -> Tensor:
        return torch.from_numpy(np.clip(np.array(nearest(mask), np.int64)[..., 0], 0, 9))

    return DataLoader(StoredInColour(clipped), batch_size=4)


def good_jpeg_rounded() -> DataLoader[Any]:
    """The same masks, with each value rounded to a class."""

    def rounded(mask: Image.Image) -> Tensor:
        return torch.from_numpy(np.clip((np.array(nearest(mask), np.int64)[..., 0] + 1) // 3, 0, 3))

    return DataLoader(StoredInColour(rounded), batch_size=4)


def good_jpeg_classes() -> DataLoader[Any]:
    """Classes that are far apart in the file, each rounded to the nearest."""
    return DataLoader(Stored(lambda mask: (whole(nearest(mask)) + 30) // 60, far_apart), batch_size=4)


def good() -> DataLoader[Any]:
    """Resized by the nearest pixel, and class numbers as they are."""
    return loader(transforms.Compose([nearest, transforms.Lambda(whole)]))


def good_jpeg() -> DataLoader[Any]:
    """Masks that were exported as JPEG, cut at the middle."""
    return DataLoader(Stored(lambda mask: whole(nearest(mask)) > 100, two_classes), batch_size=4)


def good_relabelled() -> DataLoader[Any]:
    """Classes are renumbered, merged and partly ignored by a table."""
    table = np.array([0, 255, 1, 1], np.uint8)
    return loader(lambda mask: torch.from_numpy(table[np.asarray(nearest(mask))]).long())


def good_binary() -> DataLoader[Any]:
    """One class against the others, as 0 and 255 in the file and 0 and 1 behind `ToTensor`."""

    def read(path: Path) -> Image.Image:
        return Image.fromarray(((np.asarray(Image.open(path)) == 2) * 255).astype(np.uint8))

    return loader(transforms.Compose([nearest, transforms.ToTensor()]), read)


def good_ignored_rim() -> DataLoader[Any]:
    """Pixels beside an edge are ignored: 255 is no blend of labels."""

    def rim(mask: Image.Image) -> Tensor:
        labels = np.array(nearest(mask))
        flat = cv2.morphologyEx(labels, cv2.MORPH_GRADIENT, np.ones((3, 3), np.uint8)) == 0
        return torch.from_numpy(np.where(flat, labels, 255)).long()

    return loader(rim)


def good_distances() -> DataLoader[Any]:
    """The mask, and how far each pixel lies from the object's edge, as a weight."""

    def distances(mask: Image.Image) -> dict[str, Tensor]:
        labels = np.array(nearest(mask))
        return {"mask": torch.from_numpy(labels), "weight": torch.from_numpy(cv2.distanceTransform(labels, 2, 3))}

    return loader(distances)


class Measured(Scenes):
    """Maps of many values, in files of their own: `make` writes one for a scene."""

    def __init__(self, name: str, make: Callable[[Image.Image, np.ndarray], Image.Image]) -> None:
        super().__init__(RESIZED)
        self.files = tuple((image, mask.with_name(f"{name}_{mask.name}")) for image, mask in scenes())
        for (image, mask), (_, measured) in zip(scenes(), self.files, strict=True):
            stored(measured, make(Image.open(image), np.array(Image.open(mask))).save)


def good_matte() -> DataLoader[Any]:
    """Soft mattes are no labels: their edges are soft in the files already."""

    def soften(_: Image.Image, labels: np.ndarray) -> Image.Image:
        hard = Image.fromarray(((labels > 1) * 255).astype(np.uint8)).resize((128, 96))
        return hard.resize((64, 48), Image.Resampling.BILINEAR)

    return DataLoader(Measured("matte", soften), batch_size=4)


def good_depth() -> DataLoader[Any]:
    """Depth is measured: any value may stand between two others."""
    return DataLoader(Measured("depth", lambda image, _: image.convert("L").resize((64, 48))), batch_size=4)


class Wrapped(Dataset):
    """torchvision knows a mask from an image."""

    def __init__(self) -> None:
        self.transforms = v2.Compose([v2.RandomResizedCrop(SIZE, antialias=True), v2.RandomRotation(20, fill=0)])

    def __len__(self) -> int:
        return len(scenes())

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image, mask = (Image.open(path) for path in scenes()[index])
        image, mask = self.transforms(v2.functional.to_image(image), tv_tensors.Mask(v2.functional.pil_to_tensor(mask)))
        return image.float() / 255, mask[0].long()


def good_wrapped() -> DataLoader[Any]:
    """Cropped, resized and rotated with the photograph, by the nearest pixel."""
    return DataLoader(Wrapped(), batch_size=4)


class Slices(Dataset):
    """One slice of each volume and of its labels, enlarged; the labels are interpolated with this order."""

    def __init__(self, order: int) -> None:
        self.paths = [_volume(number) for number in range(8)]
        self.order = order

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        case = np.load(self.paths[index])
        volume, label = (zoom(case[name][8], 1.5, order=self.order) for name in ("volume", "label"))  # culprit
        return {"image": torch.from_numpy(volume.astype(np.float32))[None], "label": torch.from_numpy(label).long()}


def _volume(number: int) -> Path:
    def write(path: Path) -> None:
        source = np.random.default_rng(number)
        volume, label = source.normal(0, 100, (16, 32, 32)).astype(np.int16), np.zeros((16, 32, 32), np.uint8)
        for kind in (1, 4):
            top, left = source.integers(0, 20, 2)
            label[4:12, top : top + 12, left : left + 10] = kind
        np.savez(path, volume=volume + np.int16(100) * label, label=label)

    return stored(ARCHIVES / f"{number}.npz", write)


ARCHIVES = scratch("slices")


def bad_volume() -> DataLoader[Any]:
    """Labels of a slice are interpolated like its values."""
    return DataLoader(Slices(1), batch_size=2)


def good_volume() -> DataLoader[Any]:
    """Both take the nearest value."""
    return DataLoader(Slices(0), batch_size=2)
