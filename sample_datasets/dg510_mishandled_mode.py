"""DG510 mishandled-mode: palettes, alpha, CMYK and grey among photographs come out as something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from torchvision.io import ImageReadMode, decode_image

from sample_datasets._files import Images, loader, photograph, written

COUNT = 12
TO_TENSOR = transforms.ToTensor()


def cut_out(number: int) -> Image.Image:
    """A photograph of which the background is made transparent; it is still there."""
    image = photograph(number).convert("RGBA")
    alpha = np.zeros((image.height, image.width), np.uint8)
    alpha[8:32, 8:40] = 255
    image.putalpha(Image.fromarray(alpha))
    return image


def logo(number: int) -> Image.Image:
    """Black shapes on nothing."""
    pixels = np.zeros((40, 48, 4), np.uint8)
    pixels[..., 3] = np.asarray(photograph(number).convert("L")) // 128 * 255
    return Image.fromarray(pixels)


def stored(kind: str, number: int) -> Path:
    """A photograph in a file of some kind."""
    image = photograph(number)
    name = f"kinds/{kind}{number:02}"
    if kind == "palette":
        return written(f"{name}.png", image.convert("P", palette=Image.Palette.ADAPTIVE))
    if kind == "cmyk":
        return written(f"{name}.jpg", image.convert("CMYK"))
    if kind == "alpha":
        return written(f"{name}.png", image.convert("RGBA"))
    if kind == "cut":
        return written(f"{name}.png", cut_out(number))
    if kind == "logo":
        return written(f"{name}.png", logo(number))
    if kind == "grey":
        return written(f"{name}.jpg", image.convert("L"))
    return written(f"{name}.jpg", image, quality=90)


PLAIN = [stored("", number) for number in range(COUNT)]


def among(*kinds: str) -> list[Path]:
    """Photographs, and one file or two of other kinds among them."""
    return [*PLAIN[:5], *(stored(kind, 5 + number) for number, kind in enumerate(kinds)), *PLAIN[7:]]


GATHERED = among("palette", "cmyk", "alpha", "grey")
PALETTES = among("palette", "palette")
CMYKS = among("cmyk")
CUT = [stored("cut", number) for number in range(COUNT)]
LOGOS = [stored("logo", number) for number in range(COUNT)]


def listed(samples: list[Any]) -> tuple[list[Tensor], Tensor]:
    """Images as a list, as detectors take them."""
    return [image for image, _ in samples], torch.tensor([label for _, label in samples])


def bad() -> DataLoader[Any]:
    """Files become tensors as they are stored: of three channels, of one, of four."""
    images = Images(GATHERED, lambda path: TO_TENSOR(Image.open(path)))  # culprit
    return DataLoader(images, batch_size=6, collate_fn=listed, shuffle=True)


def three_channels(path: Path) -> Tensor:
    """Makes three channels of whatever there is."""
    pixels = np.asarray(Image.open(path))  # culprit
    if pixels.ndim == 2:
        pixels = np.stack([pixels] * 3, axis=-1)
    tensor: Tensor = TO_TENSOR(pixels[..., :3].copy())
    return tensor


def bad_palette() -> DataLoader[Any]:
    """The numbers of a palette's colours are stacked as if they were grey."""
    return loader(PALETTES, three_channels)


def bad_palettes_alone() -> DataLoader[Any]:
    """All files have palettes, of many colours each, and their numbers are taken for grey."""
    paths = [stored("palette", number) for number in range(COUNT)]
    return loader(paths, lambda path: torch.from_numpy(np.array(Image.open(path), np.float32))[None] / 255)  # culprit


def bad_cmyk() -> DataLoader[Any]:
    """Cyan, magenta and yellow are taken for red, green and blue."""
    return loader(CMYKS, three_channels)


def plain(path: Path) -> Tensor:
    """Turned into red, green and blue by Pillow, which drops alpha."""
    tensor: Tensor = TO_TENSOR(Image.open(path).convert("RGB"))  # culprit
    return tensor


def bad_cut_out() -> DataLoader[Any]:
    """The background that was cut out is there again."""
    return loader(CUT, plain)


def bad_logos() -> DataLoader[Any]:
    """Black on nothing becomes black on black."""
    return loader(LOGOS, plain)


def bad_cut_out_by_cv2() -> DataLoader[Any]:
    """OpenCV drops alpha as well."""

    def load(path: Path) -> Tensor:
        image: Tensor = TO_TENSOR(cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB))  # culprit
        return image

    return loader(among("cut", "cut"), load)


def good() -> DataLoader[Any]:
    """Everything is turned into red, green and blue."""
    return loader(GATHERED, plain, shuffle=True)


def good_cv2() -> DataLoader[Any]:
    """OpenCV makes three channels of everything."""
    return loader(GATHERED, lambda path: TO_TENSOR(cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)))


def good_torchvision() -> DataLoader[Any]:
    """torchvision is asked for red, green and blue."""
    return loader(GATHERED, lambda path: decode_image(str(path), ImageReadMode.RGB) / 255)


def good_composed() -> DataLoader[Any]:
    """What is transparent becomes white."""

    def composed(path: Path) -> Tensor:
        image = Image.open(path).convert("RGBA")
        tensor: Tensor = TO_TENSOR(Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB"))
        return tensor

    return loader([*CUT, *LOGOS], composed)


def good_four_channels() -> DataLoader[Any]:
    """Alpha is a channel of its own."""
    return loader(CUT, lambda path: TO_TENSOR(Image.open(path)))


class Mattes(Images):
    """Whole photographs, and the alpha channel to be learned."""

    def __init__(self) -> None:
        super().__init__(CUT, plain)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image = Image.open(self.paths[index])
        return TO_TENSOR(image.convert("RGB")), TO_TENSOR(image.getchannel("A"))


def good_mattes() -> DataLoader[Any]:
    """What is transparent is the very thing that is learned."""
    return DataLoader(Mattes(), batch_size=4)


def good_grey() -> DataLoader[Any]:
    """All files are grey, of one channel."""
    return loader([stored("grey", number) for number in range(COUNT)], lambda path: TO_TENSOR(Image.open(path)))


class Segments(Dataset):
    """Photographs and masks with a palette, as PASCAL VOC keeps them."""

    def __init__(self) -> None:
        self.masks = []
        for number in range(COUNT):
            classes = np.asarray(photograph(number).convert("L")) // 64
            mask = Image.fromarray(classes).convert("P")
            mask.putpalette([0, 0, 0, 128, 0, 0, 0, 128, 0, 128, 128, 0])
            self.masks.append(written(f"voc/{number:02}.png", mask))

    def __len__(self) -> int:
        return COUNT

    def labels(self, path: Path) -> Image.Image:
        """A mask as it is stored: the numbers of its colours."""
        return Image.open(path)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        mask = np.array(self.labels(self.masks[index]))  # culprit
        return plain(PLAIN[index]), torch.from_numpy(mask).long()


class GreySegments(Segments):
    """Masks of which the palette is made grey: 0, 38, 75 and 113 in place of 0, 1, 2 and 3."""

    def labels(self, path: Path) -> Image.Image:
        """A mask as it looks."""
        return Image.open(path).convert("L")


def bad_masks() -> DataLoader[Any]:
    """Classes are told by the brightness of the colours that a mask is shown in."""
    return DataLoader(GreySegments(), batch_size=4)


class BrightSegments(GreySegments):
    """The same, with the brightness turned back into classes."""

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image, mask = super().__getitem__(index)
        return image, torch.searchsorted(torch.tensor([0, 38, 75, 113]), mask)


def good_bright_masks() -> DataLoader[Any]:
    """A table from brightness to classes."""
    return DataLoader(BrightSegments(), batch_size=4)


def good_masks() -> DataLoader[Any]:
    """The numbers of a mask's palette are its classes."""
    return DataLoader(Segments(), batch_size=4)


class Outlined(Segments):
    """Masks of four of twenty classes, with an outline of number 255, in a palette of 256 dark colours."""

    def __init__(self) -> None:
        super().__init__()
        palette = np.random.default_rng(0).integers(0, 64, (256, 3), np.uint8)
        palette[0] = 0
        for number, path in enumerate(self.masks):
            classes = np.array([0, 12, 15, 20], np.uint8)[np.array(Image.open(path))]
            classes[:2] = 255
            mask = Image.fromarray(classes).convert("P")
            mask.putpalette(palette.tobytes())
            self.masks[number] = written(f"outlined/{number:02}.png", mask)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image, mask = super().__getitem__(index)
        return image, mask.where(mask != 255, 21)


def good_renamed() -> DataLoader[Any]:
    """The label to ignore is renamed to 21: labels are about as bright as some colours of the palette, by chance."""
    return DataLoader(Outlined(), batch_size=4)


def good_opaque() -> DataLoader[Any]:
    """An alpha channel that hides nothing, and one that lies over plain white."""
    white = []
    for number in range(COUNT):
        pixels = np.array(cut_out(number))
        pixels[pixels[..., 3] == 0, :3] = 255
        white.append(written(f"white/{number:02}.png", Image.fromarray(pixels)))
    return loader([*white, stored("alpha", 3)], plain)
