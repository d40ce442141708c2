"""DG508 ignored-orientation: photographs lie on their side, as the camera stored them."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from PIL import Image, ImageOps
from PIL.JpegImagePlugin import JpegImageFile
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset
from torchvision import datasets, transforms
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms import v2

from sample_datasets._files import FOLDER, HEIGHT, WIDTH, Images, loader, photograph, written

COUNT = 16
STORED = {
    3: Image.Transpose.ROTATE_180,
    6: Image.Transpose.ROTATE_90,
    8: Image.Transpose.ROTATE_270,
}
"""How a camera that is held otherwise stores what it sees, by the orientation that it notes."""


def taken(number: int, folder: str, orientation: int = 1, size: tuple[int, int] | None = None) -> Path:
    """A photograph as a camera writes it; `size` is what EXIF data say of the stored image."""
    image = photograph(number)
    exif = Image.Exif()
    exif[274] = orientation
    if size:
        exif[0x8769] = {0xA002: size[0], 0xA003: size[1]}
    stored = image.transpose(STORED[orientation]) if orientation in STORED else image
    return written(f"{folder}/{number % 3}/{number:02}.jpg", stored, exif=exif, quality=90)


CAMERA = [taken(number, "camera", {5: 6, 9: 8, 13: 3}.get(number, 1)) for number in range(COUNT)]
UPRIGHT = [taken(number, "upright") for number in range(COUNT)]
STALE = [
    written(
        f"stale/{number:02}.jpg",
        photograph(number),
        exif=Image.open(taken(number, "notes", 6, size=(HEIGHT, WIDTH))).getexif(),
    )
    for number in range(COUNT)
]
"""Turned upright by a program that left the orientation, and the size before, as they were."""

NORMALIZED = transforms.Compose(
    [transforms.ToTensor(), transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
)
SIZE = (32, 32)


def plain(path: Path) -> Tensor:
    """Opened and resized by Pillow."""
    with Image.open(path) as image:  # culprit
        tensor: Tensor = NORMALIZED(image.convert("RGB").resize(SIZE))
        return tensor


def bad() -> DataLoader[Any]:
    """Pillow opens files as they are stored."""
    return loader(CAMERA, plain, shuffle=True)


def bad_folder() -> DataLoader[Any]:
    """torchvision's `ImageFolder` opens them in the same way."""
    augment = transforms.Compose([transforms.RandomResizedCrop(SIZE), transforms.RandomHorizontalFlip(), NORMALIZED])
    return DataLoader(datasets.ImageFolder(str(FOLDER / "camera"), augment), batch_size=4)


def unchanged(path: Path) -> np.ndarray:
    """Read by OpenCV, which leaves images as they are when it is asked for them unchanged."""
    pixels: np.ndarray = cv2.resize(np.asarray(cv2.imread(str(path), cv2.IMREAD_UNCHANGED)), SIZE)  # culprit
    return pixels[..., ::-1].copy()


def bad_unchanged() -> DataLoader[Any]:
    """OpenCV turns images, but not those that it reads unchanged."""
    return loader(CAMERA, lambda path: NORMALIZED(unchanged(path)))


def bad_torchvision() -> DataLoader[Any]:
    """torchvision decodes, and turns nothing unless it is told to."""
    augment = v2.Compose([v2.Resize(SIZE), v2.ToDtype(torch.float32, scale=True)])
    return loader(CAMERA, lambda path: augment(decode_image(str(path), ImageReadMode.RGB)))  # culprit


class Packed(Dataset):
    """Files that were read when the dataset was made, decoded when they are asked for, and kept from then on."""

    def __init__(self, paths: list[Path]) -> None:
        self.files = [path.read_bytes() for path in paths]
        self.kept: dict[int, Tensor] = {}

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Tensor:
        if index not in self.kept:
            image = Image.open(BytesIO(self.files[index])).convert("RGB")  # culprit
            self.kept[index] = NORMALIZED(image.resize(SIZE))
        return self.kept[index]


def bad_packed() -> DataLoader[Any]:
    """The files lie in memory, and samples are kept once they are decoded."""
    return DataLoader(Packed(CAMERA), batch_size=4)


class Stream(IterableDataset):
    """One photograph after the other."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for path in CAMERA:
            yield {"image": plain(path), "name": path.stem}


def bad_stream() -> DataLoader[Any]:
    """A stream of photographs."""
    return DataLoader(Stream(), batch_size=4)


def bad_astray() -> DataLoader[Any]:
    """Pillow turns to the left, where these degrees mean to the right."""

    def load(path: Path) -> Tensor:
        with Image.open(path) as image:
            degrees = {3: 180, 6: 90, 8: 270}.get(image.getexif().get(274, 1), 0)
            tensor: Tensor = NORMALIZED(image.convert("RGB").rotate(degrees, expand=True).resize(SIZE))
            return tensor

    return loader(CAMERA, load)


def good() -> DataLoader[Any]:
    """Turned right after opening."""

    def upright(path: Path) -> Tensor:
        with Image.open(path) as image:
            tensor: Tensor = NORMALIZED(ImageOps.exif_transpose(image).convert("RGB").resize(SIZE))
            return tensor

    return loader(CAMERA, upright, shuffle=True)


def good_cv2() -> DataLoader[Any]:
    """OpenCV turns images by itself."""
    return loader(CAMERA, lambda path: NORMALIZED(cv2.resize(np.asarray(cv2.imread(str(path)))[..., ::-1], SIZE)))


def good_torchvision() -> DataLoader[Any]:
    """torchvision is told to turn them."""
    augment = v2.Compose([v2.Resize(SIZE), v2.ToDtype(torch.float32, scale=True)])
    return loader(CAMERA, lambda path: augment(decode_image(str(path), ImageReadMode.RGB, apply_exif_orientation=True)))


def good_upright() -> DataLoader[Any]:
    """No file is to be turned."""
    return loader(UPRIGHT, plain)


def good_stale() -> DataLoader[Any]:
    """The files have been turned, and their EXIF data have not been cleared."""
    return loader(STALE, plain)


TURNS = {3: cv2.ROTATE_180, 6: cv2.ROTATE_90_CLOCKWISE, 8: cv2.ROTATE_90_COUNTERCLOCKWISE}


def noted(path: Path) -> int:
    """The orientation in the first bytes of a file, read by hand."""
    with path.open("rb") as file:
        start = file.read(256)
    place = start.find(struct.pack(">HHI", 274, 3, 1))
    return int.from_bytes(start[place + 8 : place + 10], "big") if place > 0 else 1


def turned(path: Path, orientation: int) -> Tensor:
    """Read as it is stored, and turned by what is known of it."""
    image = unchanged(path)
    tensor: Tensor = NORMALIZED(cv2.rotate(image, TURNS[orientation]) if orientation in TURNS else image)
    return tensor


def good_by_hand() -> DataLoader[Any]:
    """The orientation is read from the file by other code than decodes it."""
    return loader(CAMERA, lambda path: turned(path, noted(path)))


class Catalogued(Images):
    """Orientations are read when the dataset is made."""

    def __init__(self) -> None:
        super().__init__(CAMERA, plain)
        self.orientations = [noted(path) for path in CAMERA]

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return turned(self.paths[index], self.orientations[index]), index % 3


def good_catalogued() -> DataLoader[Any]:
    """What turns an image was read long before it."""
    return DataLoader(Catalogued(), batch_size=4)


MASKS = {path: written(f"masks/{path.stem}.png", np.asarray(Image.open(path).convert("L")) // 128) for path in CAMERA}
"""What was drawn onto the photographs by a program that showed them as they are stored."""


class Segments(Images):
    """Photographs with masks, flipped together."""

    def __init__(self) -> None:
        super().__init__(CAMERA, plain)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        path = self.paths[index]
        mask = np.asarray(Image.open(MASKS[path]).resize(SIZE, Image.Resampling.NEAREST))
        return {"image": plain(path), "mask": torch.from_numpy(mask.astype(np.int64))}


def good_masks() -> DataLoader[Any]:
    """Photographs and masks are both as they are stored, and fit."""
    return DataLoader(Segments(), batch_size=4)


FITTING = {
    path: written(f"fitting/{path.stem}.png", np.asarray(Image.open(path).convert("L")) // 128) for path in UPRIGHT
}


class Fitting(Images):
    """Photographs as OpenCV shows them, with masks that must be of their size."""

    def __init__(self) -> None:
        super().__init__(UPRIGHT, plain)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        path = self.paths[index]
        image = cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)
        mask = np.asarray(Image.open(FITTING[path]))
        if image.shape[:2] != mask.shape:
            raise ValueError("image and mask differ in size")
        return {
            "image": torch.from_numpy(image).permute(2, 0, 1) / 255,
            "mask": torch.from_numpy(mask.astype(np.int64)),
        }


def good_fitting() -> DataLoader[Any]:
    """No file is rotated, and one that was would not fit its mask."""
    return DataLoader(Fitting(), batch_size=4)


def natively(path: Path) -> Image.Image:
    """A photograph by a reader that opens files itself, as libraries in C++ do, and rotates them."""
    file = os.open(path, os.O_RDONLY)
    content = os.read(file, os.fstat(file).st_size)
    os.close(file)
    return ImageOps.exif_transpose(JpegImageFile(BytesIO(content)))


def checked(path: Path) -> Tensor:
    """Opened by Pillow, which only checks the format, and read by the other library."""
    with Image.open(path) as image:
        assert image.format == "JPEG"
    tensor: Tensor = NORMALIZED(natively(path).resize(SIZE))
    return tensor


def good_native() -> DataLoader[Any]:
    """Rotated by a library in C++."""
    return loader(CAMERA, checked)


WRITTEN = {path.read_bytes() for path in CAMERA}


def strict(path: Path) -> Image.Image:
    """A photograph by a reader that refuses files which other programs changed."""
    with path.open("rb") as file:
        content = file.read()
    if content not in WRITTEN:
        raise OSError("unsupported marker")
    with Image.open(path) as image:
        return ImageOps.exif_transpose(image.convert("RGB"))


def fallen_back(path: Path) -> Tensor:
    """Read by one library or, if that cannot read a file, by the other one, which opens it itself."""
    with Image.open(path):
        pass
    try:
        upright = strict(path)
    except OSError:
        upright = natively(path)
    tensor: Tensor = NORMALIZED(upright.resize(SIZE))
    return tensor


def good_fallback() -> DataLoader[Any]:
    """Another library stands in where the first one fails."""
    return loader(CAMERA, fallen_back)
