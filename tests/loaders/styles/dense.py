"""Segmentation, detection and keypoints."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import tv_tensors
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms import functional as F

from tests.loaders.styles import _data
from tests.loaders.styles._bases import SegmentationBase
from tests.loaders.styles._transforms import (
    Compose,
    CropTwice,
    HorizontalFlip,
    Rescale,
    ScaleNearest,
    ToTensorPair,
    VerticalFlip,
    flip_sample,
)

Loader = DataLoader[Any]


class Streets(Dataset[Any]):
    """Scenes with their masks, as Cityscapes is read."""

    def __init__(self, transforms: Callable[..., Any]) -> None:
        self.images, self.masks, self.transforms = _data.files("images"), _data.files("masks"), transforms

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        image = cv2.cvtColor(cv2.imread(str(self.images[index])), cv2.COLOR_BGR2RGB)
        mask = cv2.imread(str(self.masks[index]), cv2.IMREAD_GRAYSCALE)
        return self.transforms(image, mask)


def dg511_transform_in_other_file() -> Loader:
    return DataLoader(Streets(Compose([HorizontalFlip(), Rescale((60, 48)), ToTensorPair()])), batch_size=4)


class RandomRescale:
    """Draws the scale of multi-scale training, pads, and crops."""

    def __init__(self, low: float, high: float, crop: int) -> None:
        self.low, self.high, self.crop = low, high, crop

    def _pad(self, array: np.ndarray) -> np.ndarray:
        bottom, right = max(self.crop - array.shape[0], 0), max(self.crop - array.shape[1], 0)
        return cv2.copyMakeBorder(array, 0, bottom, 0, right, cv2.BORDER_CONSTANT, value=0)

    def __call__(self, image: np.ndarray, mask: np.ndarray) -> Any:
        ratio = random.uniform(self.low, self.high)
        if random.random() < 0.7:
            image = cv2.resize(image, None, fx=ratio, fy=ratio)
            mask = cv2.resize(mask, None, fx=ratio, fy=ratio)  # culprit
        image, mask = self._pad(image), self._pad(mask)
        top = random.randint(0, image.shape[0] - self.crop)
        left = random.randint(0, image.shape[1] - self.crop)
        window = slice(top, top + self.crop), slice(left, left + self.crop)
        return image[window], mask[window]


def dg511_random_scale() -> Loader:
    return DataLoader(Streets(Compose([HorizontalFlip(), RandomRescale(0.6, 1.6, 48), ToTensorPair()])), batch_size=4)


class RotatedScenes(SegmentationBase):
    """Rotates by a few degrees."""

    def augment(self, image: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        height, width = mask.shape
        matrix = cv2.getRotationMatrix2D((width / 2, height / 2), random.uniform(-15, 15), 1.0)
        image = cv2.warpAffine(image, matrix, (width, height))
        mask = cv2.warpAffine(mask, matrix, (width, height))  # culprit
        return image, mask


def dg511_warp_in_override() -> Loader:
    return DataLoader(RotatedScenes(), batch_size=4)


class PilStreets(Dataset[Any]):
    """Pillow and torchvision's functions."""

    resize = staticmethod(F.resize)

    def __init__(self, size: tuple[int, int] = (48, 60)) -> None:
        self.rows = list(zip(_data.files("images"), _data.files("masks"), strict=True))
        self.size = list(size)

    def __len__(self) -> int:
        return len(self.rows)

    def open(self, index: int) -> tuple[Image.Image, Image.Image]:
        image, mask = self.rows[index]
        return Image.open(image).convert("RGB"), Image.open(mask)

    def finish(self, image: Image.Image, mask: Image.Image) -> dict[str, Any]:
        return {"image": F.to_tensor(image), "mask": torch.from_numpy(np.array(mask)).long()}

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.finish(*self.open(index))


class PilResized(PilStreets):
    def __getitem__(self, index: int) -> dict[str, Any]:
        image, mask = self.open(index)
        image, mask = (self.resize(x, self.size, InterpolationMode.BILINEAR) for x in (image, mask))  # culprit
        return self.finish(image, mask)


def dg511_generator_expression() -> Loader:
    return DataLoader(PilResized(), batch_size=4)


def dg511_tensor_interpolate() -> Loader:
    class Interpolated(SegmentationBase):
        def __getitem__(self, index: int) -> dict[str, Any]:
            sample = super().__getitem__(index)
            image, mask = sample["image"][None], sample["mask"][None, None].float()
            image = torch.nn.functional.interpolate(image, (48, 60), mode="bilinear")
            mask = torch.nn.functional.interpolate(mask, (48, 60), mode="bilinear")  # culprit
            return {"image": image[0], "mask": mask[0, 0].long()}

    return DataLoader(Interpolated(), batch_size=4)


def dg512_vertical_flip_elsewhere() -> Loader:
    chain = Compose([HorizontalFlip(), VerticalFlip(), ScaleNearest((60, 48)), ToTensorPair()])
    return DataLoader(Streets(chain), batch_size=4, shuffle=True)


def dg512_two_crops() -> Loader:
    return DataLoader(Streets(Compose([HorizontalFlip(), CropTwice(40), ToTensorPair()])), batch_size=4)


class MirroredScenes(SegmentationBase):
    """Mirrors half of the scenes."""

    def augment(self, image: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        image, mask = self._shift(image, mask)
        if random.random() > 0.5:
            image = cv2.flip(image, 1)
            mask = cv2.flip(mask, 0)  # culprit
        return image, mask

    def _shift(self, image: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        step = random.randint(-6, 6)
        return np.roll(image, step, axis=1), np.roll(mask, step, axis=1)


def dg512_wrong_axis() -> Loader:
    return DataLoader(MirroredScenes(), batch_size=4)


def dg512_mask_of_old_image() -> Loader:
    class Rotated(PilStreets):
        def __getitem__(self, index: int) -> dict[str, Any]:
            image, mask = self.open(index)
            if random.random() < 0.5:
                image = ImageOps.mirror(image)
                ImageOps.mirror(mask)  # culprit
            return self.finish(image, mask)

    return DataLoader(Rotated(), batch_size=4)


class Boxes(Dataset[Any]):
    """Scenes with boxes in xyxy, read from json."""

    def __init__(self, augment: Callable[..., Any] | None = None) -> None:
        self.paths, self.augment = _data.files("images"), augment

    def __len__(self) -> int:
        return len(self.paths)

    def load(self, index: int) -> tuple[np.ndarray, np.ndarray, list[int]]:
        path = self.paths[index]
        record = _data.record_of(path)
        image = cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)
        return image, np.array(record["boxes"], np.float32), record["labels"]

    def __getitem__(self, index: int) -> Any:
        image, boxes, labels = self.load(index)
        if self.augment is not None:
            image, boxes = self.augment(image, boxes)
        pixels = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1).float() / 255
        return pixels, {"boxes": torch.from_numpy(boxes), "labels": torch.tensor(labels)}


def detection_collate(batch: list[Any]) -> Any:
    images, targets = zip(*batch, strict=True)
    return torch.stack(images), list(targets)


def flip_image(image: np.ndarray, boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if random.random() < 0.5:
        image = cv2.flip(image, 1)  # culprit
    return image, boxes


def dg512_boxes_not_flipped() -> Loader:
    return DataLoader(Boxes(flip_image), batch_size=4, collate_fn=detection_collate)


def letterbox(image: np.ndarray, boxes: np.ndarray, size: int = 64) -> tuple[np.ndarray, np.ndarray]:
    height, width = image.shape[:2]
    ratio = size / max(height, width)
    image = cv2.resize(image, (round(width * ratio), round(height * ratio)))
    top = (size - image.shape[0]) // 2
    image = cv2.copyMakeBorder(image, top, size - image.shape[0] - top, 0, 0, cv2.BORDER_CONSTANT, value=(114,) * 3)
    return image, boxes * ratio  # culprit


def dg512_letterbox_without_offset() -> Loader:
    return DataLoader(Boxes(letterbox), batch_size=4, collate_fn=detection_collate)


def dg512_v2_plain_boxes() -> Loader:
    class TvBoxes(Boxes):
        chain = v2.Compose([v2.RandomHorizontalFlip(0.5), v2.ToDtype(torch.float32, scale=True)])

        def __getitem__(self, index: int) -> Any:
            array, boxes, labels = self.load(index)
            target = {"boxes": torch.from_numpy(boxes), "labels": torch.tensor(labels)}  # culprit
            image = tv_tensors.Image(torch.from_numpy(array).permute(2, 0, 1))
            image, target = self.chain(image, target)  # culprit
            return image, target

    return DataLoader(TvBoxes(), batch_size=4, collate_fn=detection_collate)


class CropBoxes(Boxes):
    """A crop that keeps the boxes in the frame."""

    def crops(self, image: np.ndarray) -> Iterator[tuple[int, int]]:
        while True:
            yield random.randint(0, image.shape[0] - 56), random.randint(0, image.shape[1] - 72)

    def __getitem__(self, index: int) -> Any:
        image, boxes, labels = self.load(index)
        top, left = next(self.crops(image))
        image = image[top : top + 56, left : left + 72]
        boxes = boxes - np.array([top, left, top, left], np.float32)  # culprit
        pixels = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1).float() / 255
        return pixels, {"boxes": torch.from_numpy(boxes), "labels": torch.tensor(labels)}


def dg512_crop_offsets_exchanged() -> Loader:
    return DataLoader(CropBoxes(), batch_size=4, collate_fn=detection_collate)


class Joints(Dataset[Any]):
    """Persons with five joints: head, left and right hand, left and right foot."""

    names = ("head", "left_hand", "right_hand", "left_foot", "right_foot")
    flip_pairs = ((1, 2), (3, 4))

    def __init__(self, transform: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self.paths: list[Path] = _data.files("images")
        self.transform = transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        path = self.paths[index]
        image = np.array(Image.open(path).convert("RGB"))
        joints = np.array(_data.record_of(path)["joints"], np.float32)
        sample = self.transform({"image": image, "joints": joints})
        pixels = torch.from_numpy(sample["image"]).permute(2, 0, 1).float() / 255
        return {"image": pixels, "keypoints": torch.from_numpy(sample["joints"])}


def dg519_flip_in_other_file() -> Loader:
    return DataLoader(Joints(flip_sample), batch_size=4)


def dg519_unused_pairs() -> Loader:
    class Flip:
        def __init__(self, pairs: tuple[tuple[int, int], ...], p: float) -> None:
            self.order = [0, *(b for pair in pairs for b in reversed(pair))]
            self.p = p

        def __call__(self, sample: dict[str, Any]) -> dict[str, Any]:
            if random.random() >= self.p:
                return sample
            width = sample["image"].shape[1]
            joints = sample["joints"].copy()
            joints[:, 0] = width - 1 - joints[:, 0]
            joints[self.order]  # culprit
            return {"image": sample["image"][:, ::-1].copy(), "joints": joints}  # culprit

    return DataLoader(Joints(Flip(Joints.flip_pairs, 0.5)), batch_size=4)


def dg519_v2_keypoints() -> Loader:
    flip = v2.RandomHorizontalFlip(0.5)

    def transform(sample: dict[str, Any]) -> dict[str, Any]:
        image = tv_tensors.Image(torch.from_numpy(sample["image"]).permute(2, 0, 1))
        points = tv_tensors.KeyPoints(torch.from_numpy(sample["joints"]), canvas_size=(_data.HEIGHT, _data.WIDTH))  # type: ignore[call-overload]
        image, points = flip(image, points)  # culprit
        return {"image": image.permute(1, 2, 0).numpy().copy(), "joints": points.numpy().copy()}  # culprit

    return DataLoader(Joints(transform), batch_size=4)


def dg512_masks_flipped_twice() -> Loader:
    class Twice(SegmentationBase):
        """Flips in `augment`, and again when the tensors are made."""

        def __getitem__(self, index: int) -> dict[str, Any]:
            sample = super().__getitem__(index)
            flipped = random.random() < 0.5
            sample["image"] = self.mirror(sample["image"], flipped)  # culprit
            sample["mask"] = self.mirror(sample["mask"], not flipped)  # culprit
            return sample

        @staticmethod
        def mirror(x: Tensor, yes: bool) -> Tensor:
            return x.flip(-1) if yes else x

    return DataLoader(Twice(), batch_size=4)
