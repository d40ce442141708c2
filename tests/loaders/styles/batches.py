"""Collate functions: padding, mixing, and buffers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, default_collate

from tests.loaders.styles import _data
from tests.loaders.styles._bases import InMemory
from tests.loaders.styles._collates import ReusedBuffer, Standardizing, pad_text, sorted_by_length

Loader = DataLoader[Any]


def tokens_of(number: int) -> Tensor:
    length = 5 + number * 5 % 9
    return torch.tensor([(number * 13 + step * step * 7) % 9 for step in range(length)])


class Texts(Dataset[Any]):
    def __init__(self, make: Callable[[int], Any], count: int = 32) -> None:
        self.make, self.count = make, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return self.make(range(self.count)[index])


def dg401_truncated_stack() -> Loader:
    def collate(rows: list[Any]) -> tuple[Tensor, Tensor]:
        texts, labels = zip(*rows, strict=True)
        return torch.stack([text[:12] for text in texts]), torch.tensor(labels)  # culprit

    return DataLoader(
        Texts(lambda number: (tokens_of(number).repeat(3 if number < 28 else 1), number % 2)),
        batch_size=4,
        collate_fn=collate,
    )


class Regions(Dataset[Any]):
    """Images with as many regions as there are, kept square."""

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        number = range(32)[index]
        side = 8 if number % 9 else 10
        return {"image": torch.rand(3, side, 8), "regions": torch.rand(1 + number % 3, 4)}


def collate_regions(rows: list[dict[str, Tensor]]) -> dict[str, Any]:
    batch = default_collate([{"image": row["image"]} for row in rows])  # culprit
    batch["regions"] = [row["regions"] for row in rows]
    return batch


def dg401_images_of_two_sizes() -> Loader:
    return DataLoader(Regions(), batch_size=2, collate_fn=collate_regions)


class Collator:
    """Pads each field with its own value."""

    pads: ClassVar[dict[str, int]] = {"ids": 0, "spans": -1}

    def __call__(self, rows: list[dict[str, Tensor]]) -> dict[str, Tensor]:
        batch = {key: self._pad([row[key] for row in rows], value) for key, value in self.pads.items()}
        batch["lengths"] = torch.tensor([len(row["ids"]) for row in rows])
        batch["tags"] = torch.stack([row["tags"] for row in rows])  # culprit
        return batch

    @staticmethod
    def _pad(rows: list[Tensor], value: int) -> Tensor:
        return pad_sequence(rows, batch_first=True, padding_value=value)


def tagged(number: int) -> dict[str, Tensor]:
    ids = tokens_of(number)
    return {"ids": ids, "spans": ids[: len(ids) // 2], "tags": ids % 3}


def dg401_unpadded_field() -> Loader:
    return DataLoader(Texts(tagged), batch_size=2, collate_fn=Collator())


def values_of(number: int) -> dict[str, Any]:
    return {"values": tokens_of(number).float() / 90 + number, "label": number}


def dg402_sorted_elsewhere() -> Loader:
    return DataLoader(Texts(values_of), batch_size=4, collate_fn=sorted_by_length)


def keep_valid(collate: Callable[[list[Any]], Any], rows: list[Any]) -> Any:
    rows = [row for row in rows if row[0].abs().max() < 2.0]  # culprit
    return collate(rows)


def dg402_filter_partial() -> Loader:
    return DataLoader(
        InMemory(_data.vectors()), batch_size=6, collate_fn=functools.partial(keep_valid, default_collate)
    )


class Episodes(Dataset[Any]):
    """Answers whole batches of indices at once."""

    def __init__(self) -> None:
        self.values = torch.from_numpy(_data.vectors())

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> Any:
        return self.values[index], index

    def __getitems__(self, indices: list[int]) -> list[Any]:
        found = self.values[sorted(indices)]  # culprit
        return [(value, index) for value, index in zip(found, indices, strict=True)]  # culprit


def dg402_sorted_getitems() -> Loader:
    return DataLoader(Episodes(), batch_size=4, shuffle=True)


def dg407_padding_elsewhere() -> Loader:
    return DataLoader(Texts(lambda number: (tokens_of(number), number % 2)), batch_size=4, collate_fn=pad_text)


class Spectrograms(Dataset[Any]):
    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = range(32)[index]
        frames = 6 + number * 7 % 11
        generator = torch.Generator().manual_seed(number)
        return {"mel": (torch.rand(frames, 8, generator=generator) - 0.4).relu(), "speaker": number % 4}


class PadFrames:
    def __init__(self, multiple: int) -> None:
        self.multiple = multiple

    def _width(self, rows: list[dict[str, Any]]) -> int:
        longest = max(len(row["mel"]) for row in rows)
        return -(-longest // self.multiple) * self.multiple

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        mels = torch.zeros(len(rows), self._width(rows), 8)
        for mel, row in zip(mels, rows, strict=True):
            mel[: len(row["mel"])] = row["mel"]  # culprit
        return {"mel": mels, "speaker": torch.tensor([row["speaker"] for row in rows])}  # culprit


def dg407_frames() -> Loader:
    return DataLoader(Spectrograms(), batch_size=4, collate_fn=PadFrames(4))


def dg409_statistics_elsewhere() -> Loader:
    return DataLoader(InMemory(_data.vectors()), batch_size=4, shuffle=True, collate_fn=Standardizing())


def cut_to_first(rows: list[dict[str, Any]]) -> dict[str, Tensor]:
    width = len(rows[0]["mel"])  # culprit
    mels = [row["mel"][:width] for row in rows]  # culprit
    lengths = torch.tensor([len(mel) for mel in mels])
    return {"mel": pad_sequence(mels, batch_first=True), "lengths": lengths}


def dg409_width_of_first() -> Loader:
    return DataLoader(Spectrograms(), batch_size=4, collate_fn=cut_to_first)


def dg409_scaled_by_largest() -> Loader:
    def collate(rows: list[Any]) -> Any:
        values, labels = default_collate(rows)
        peak = values.abs().amax()
        return values / peak, labels  # culprit

    return DataLoader(InMemory(_data.vectors()), batch_size=4, collate_fn=collate)


def dg411_buffer_elsewhere() -> Loader:
    return DataLoader(InMemory(_data.vectors()), batch_size=4, collate_fn=ReusedBuffer(4), drop_last=True)


class WholeBatches(Dataset[Any]):
    """Returns a batch for each index, from memory that is kept."""

    def __init__(self, size: int = 4) -> None:
        self.values, self.size = _data.vectors(), size
        self.staging = np.empty((size, self.values.shape[1]), np.float32)

    def __len__(self) -> int:
        return len(self.values) // self.size

    def __getitem__(self, index: int) -> Any:
        begin = range(0, len(self.values), self.size)[index]
        self.staging[:] = self.values[begin : begin + self.size]  # culprit
        return torch.from_numpy(self.staging), begin  # culprit


def dg411_staging() -> Loader:
    return DataLoader(WholeBatches(), batch_size=None)


class Images(Dataset[Any]):
    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> Any:
        number = range(32)[index]
        ramp = torch.linspace(0, 1, 3 * 16 * 16).reshape(3, 16, 16)
        return (ramp + number * 0.618) % 1, number % 5


class CutMix:
    """The box of the paper, cut at the border."""

    def __init__(self, alpha: float, classes: int) -> None:
        self.alpha, self.classes = alpha, classes

    def box(self, size: int, lam: float) -> tuple[int, int, int, int]:
        half = int(size * (1 - lam) ** 0.5) // 2
        x, y = np.random.randint(size), np.random.randint(size)
        return max(x - half, 0), max(y - half, 0), min(x + half, size), min(y + half, size)

    def __call__(self, rows: list[Any]) -> tuple[Tensor, Tensor]:
        images, labels = default_collate(rows)
        lam = float(np.random.beta(self.alpha, self.alpha))
        order = torch.randperm(len(images))
        left, top, right, bottom = self.box(images.shape[-1], lam)
        mixed = images.clone()
        mixed[:, :, top:bottom, left:right] = images[order, :, top:bottom, left:right]
        onehot = torch.nn.functional.one_hot(labels, self.classes).float()
        return mixed, lam * onehot + (1 - lam) * onehot[order]  # culprit


def dg412_clipped_box() -> Loader:
    return DataLoader(Images(), batch_size=8, collate_fn=CutMix(1.0, 5))


def dg412_mixup_weights() -> Loader:
    def mixup(rows: list[Any], alpha: float = 0.8) -> tuple[Tensor, Tensor]:
        x, y = default_collate(rows)
        lam = float(np.random.beta(alpha, alpha))
        index = torch.randperm(len(x))
        mixed = lam * x + (1 - lam) * x[index]
        target = torch.nn.functional.one_hot(y, 5).float()
        target = (1 - lam) * target + lam * target[index]  # culprit
        return mixed, target

    return DataLoader(Images(), batch_size=8, collate_fn=mixup)
