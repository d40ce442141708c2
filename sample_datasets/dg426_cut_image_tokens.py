"""DG426 cut-image-tokens: truncation leaves a part of the placeholders of an image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from sample_datasets._parts import picture
from sample_datasets._tokens import Padded, Tokenizer, loader, unpadded

IMAGE, PATCHES = 4, 16


def words_before(number: int) -> int:
    """How many words come before the image: a few texts are long."""
    return 26 if number % 9 == 2 else 3 + number % 7


def described(number: int, patches: int = PATCHES) -> dict[str, Tensor]:
    """Words, the placeholders of an image, and an answer."""
    tokenizer = Tokenizer()
    before, after = tokenizer.words(number, words_before(number)), tokenizer.text(number + 5, 6)[1:]
    tokens = torch.cat([torch.tensor([1]), before, torch.full((patches,), IMAGE), after])
    return {"input_ids": tokens, "pixel_values": picture(number, 16, 16)}


class Cut:
    """A collate_fn that cuts texts to `width` tokens, and stacks images."""

    def __init__(self, width: int) -> None:
        self.pad = Padded(unpadded, Tokenizer(), width)  # culprit

    def __call__(self, samples: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
        batch = self.pad([sample["input_ids"] for sample in samples])
        return {**batch, "pixel_values": torch.stack([sample["pixel_values"] for sample in samples])}


def with_images(made: Callable[[int], Any], width: int) -> DataLoader[Any]:
    return loader(made, Cut(width), multiprocessing_context="fork")


def bad() -> DataLoader[Any]:
    """Long texts are cut within the placeholders."""
    return with_images(described, 36)  # culprit


def several(number: int) -> dict[str, Tensor]:
    """One image or two, each after words."""
    parts = [described(number + part, PATCHES)["input_ids"][:-7] for part in range(1 + number % 2)]
    tokens = torch.cat([*parts, Tokenizer().text(number + 5, 6)[1:]])
    return {"input_ids": tokens, "pixel_values": picture(number, 16, 16)}


def bad_several() -> DataLoader[Any]:
    """Long texts with one image or two are cut within the last."""
    return with_images(several, 54)  # culprit


def good_several() -> DataLoader[Any]:
    """The same, cut after all images."""
    return with_images(several, 90)


def good() -> DataLoader[Any]:
    """The cut comes after all placeholders."""
    return with_images(described, 64)


def good_answers_cut() -> DataLoader[Any]:
    """Only answers are cut."""
    return with_images(described, 45)


def good_sizes() -> DataLoader[Any]:
    """Images of several sizes, whose placeholders follow them."""
    return with_images(lambda number: described(number, 12 + number % 4 * 4), 48)


def good_two_images() -> DataLoader[Any]:
    """One image or two, and so twice as many placeholders."""
    return with_images(lambda number: described(number, PATCHES * (1 + number % 2)), 64)


class Gridded:
    """A collate_fn that joins the patches of all images, with their grids beside them."""

    def __init__(self, width: int) -> None:
        self.pad = Padded(unpadded, Tokenizer(), width)  # culprit

    def __call__(self, samples: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
        batch = self.pad([sample["input_ids"] for sample in samples])
        pixels = torch.cat([sample["pixel_values"] for sample in samples])
        return {**batch, "pixel_values": pixels, "image_grid_thw": torch.stack([sample["grid"] for sample in samples])}


def gridded(number: int) -> dict[str, Tensor]:
    """A text with an image of one of three sizes, as patches of which four make a token."""
    patches = (12, 20, 28)[number % 3]
    pixels = picture(number, 4 * patches, 12)[0]
    return {**described(number, patches), "pixel_values": pixels, "grid": torch.tensor([1, 8, patches // 2])}


def bad_sizes() -> DataLoader[Any]:
    """Images of several sizes: long texts are cut within the placeholders, of which grids say how many there are."""
    return loader(gridded, Gridded(46), multiprocessing_context="fork")  # culprit


def good_grids() -> DataLoader[Any]:
    """The same, cut after all placeholders."""
    return loader(gridded, Gridded(72), multiprocessing_context="fork")
