"""Loaders of further styles: dataclasses, pattern matching, modules as transforms, default arguments, contexts."""

from __future__ import annotations

import contextlib
import functools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import pandas as pd
import torch
from PIL import Image
from sklearn.model_selection import KFold
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, Subset, TensorDataset, default_collate
from torchvision import transforms as T
from torchvision.transforms import functional as F

from tests.loaders.styles import _data
from tests.loaders.styles._bases import InMemory
from tests.loaders.styles._data import IMAGENET_MEAN, IMAGENET_STD, PHOTOGRAPHS, class_of
from tests.loaders.styles.splits import Photographs, train_transform, two
from tests.loaders.styles.tokens import Corpus, PadChat, build_tokenizer, sentence

Loader = DataLoader[Any]


@dataclass
class MaskedSpans(Dataset[Any]):
    """Hides a span of each vector."""

    values: np.ndarray
    span: int = 4
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))  # culprit

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> Any:
        row = self.values[index].copy()
        start = self.rng.integers(len(row) - self.span)
        row[start : start + self.span] = 0
        return torch.from_numpy(row), index


def dg101_dataclass_field() -> Loader:
    return DataLoader(MaskedSpans(_data.vectors()), batch_size=4, num_workers=2, persistent_workers=True)


@contextlib.contextmanager
def repeatable(seed: int) -> Iterator[None]:
    state = np.random.get_state()
    np.random.seed(seed)  # culprit
    yield
    np.random.set_state(state)


class Dropped(InMemory):
    def __getitem__(self, index: int) -> Any:
        row, label = super().__getitem__(index)
        with repeatable(3):  # culprit
            keep = np.random.rand(len(row)) > 0.4
        return row * torch.from_numpy(keep), label


def dg103_context_manager() -> dict[str, Loader]:
    return {"train": DataLoader(Dropped(_data.vectors()), batch_size=4, shuffle=True, num_workers=2)}


class Lines(IterableDataset[Any]):
    """Parses rows of text one after the other."""

    def __init__(self, rows: list[str]) -> None:
        self.rows = rows

    @staticmethod
    def parse(row: str) -> Tensor:
        return torch.tensor([float(number) for number in row.split(",")])

    def __iter__(self) -> Iterator[Tensor]:
        return map(self.parse, self.rows)  # culprit


def dg201_map_over_rows() -> Loader:
    rows = [",".join(f"{number:.3f}" for number in row) for row in _data.vectors()]
    return DataLoader(Lines(rows), batch_size=4, num_workers=2)


class TokenBudget(Sampler[list[int]]):
    """Batches of at most so many tokens."""

    def __init__(self, lengths: list[int], budget: int) -> None:
        self.lengths, self.budget = lengths, budget

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for index, length in enumerate(self.lengths):
            if batch and length * (len(batch) + 1) > self.budget:
                yield batch
                batch = []
            batch.append(index)
        yield batch

    def __len__(self) -> int:
        return math.ceil(sum(self.lengths) / self.budget)  # culprit


def dg205_token_budget() -> Loader:
    lengths = [3 + number * 7 % 11 for number in range(48)]
    return DataLoader(InMemory(_data.vectors()), batch_sampler=TokenBudget(lengths, 40))


def counting(scale: float) -> Callable[[np.ndarray], np.ndarray]:
    """Noise that fades out with the number of calls."""
    calls = 0

    def faded(row: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1  # culprit
        return (row * (1 + scale / calls)).astype(np.float32)  # culprit

    return faded


def dg306_closure_counter() -> Loader:
    return DataLoader(InMemory(_data.vectors(), counting(2.0)), batch_size=4)


class Cached(Dataset[Any]):
    """Images in memory, normalized when they are asked for."""

    def __init__(self, normalize: Callable[[Tensor], Tensor]) -> None:
        self.images = [F.to_tensor(Image.open(path).convert("RGB").resize((24, 24))) for path in PHOTOGRAPHS]
        self.normalize = normalize

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        return self.normalize(self.images[index]), class_of(PHOTOGRAPHS[index])  # culprit


def dg307_normalize_inplace() -> Loader:
    normalize = T.Normalize(IMAGENET_MEAN, IMAGENET_STD, inplace=True)  # culprit
    return DataLoader(Cached(normalize), batch_size=4)


SIGNAL = np.random.default_rng(2).normal(size=2048).astype(np.float32)


def window(begin: int, out: np.ndarray = np.empty(16, np.float32)) -> np.ndarray:  # noqa: B008 # culprit
    return np.abs(SIGNAL[begin : begin + len(out)], out=out)  # culprit


class WindowSet(Dataset[Any]):
    def __len__(self) -> int:
        return 48

    def __getitem__(self, index: int) -> Any:
        return {"x": torch.as_tensor(window(range(0, 1920, 40)[index])), "index": index}  # culprit


def dg308_default_argument() -> Loader:
    return DataLoader(WindowSet(), batch_size=4)


class OrGrey(Dataset[Any]):
    """A grey image stands for what cannot be read."""

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    def __getitem__(self, index: int) -> Any:
        image = Image.new("RGB", (32, 32), "grey")  # culprit
        with contextlib.suppress(OSError):  # culprit
            image = Image.open(PHOTOGRAPHS[index]).convert("RGB").resize((32, 32))
        return F.to_tensor(image), class_of(PHOTOGRAPHS[index])


def dg312_suppressed() -> Loader:
    return DataLoader(OrGrey(), batch_size=4)


class Mesh(NamedTuple):
    vertices: Tensor
    label: int


class Meshes(Dataset[Mesh]):
    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> Mesh:
        count = 20 if range(32)[index] < 20 else 26  # culprit
        vertices = torch.from_numpy(_data.vectors(count, 3))  # culprit
        return Mesh(vertices, index % 3)  # culprit


def dg401_named_tuple() -> Loader:
    return DataLoader(Meshes(), batch_size=4, shuffle=True)


def dg407_padded_in_lambda() -> Loader:
    rows = [(torch.arange(1, 4 + number * 5 % 9).float(), number % 2) for number in range(32)]

    def batched(samples: list[Any]) -> dict[str, Tensor]:
        width = max(len(values) for values, _ in samples)
        padded = [nn.functional.pad(values, (0, width - len(values))) for values, _ in samples]  # culprit
        return {"inputs": torch.stack(padded), "labels": torch.tensor([label for _, label in samples])}  # culprit

    return DataLoader(rows, batch_size=4, collate_fn=batched)  # type: ignore[arg-type]


def dg409_scaled_in_lambda() -> Loader:
    def scaled(rows: list[Any]) -> Any:
        values, labels = default_collate(rows)
        return values / values.abs().amax(), labels  # culprit

    return DataLoader(InMemory(_data.vectors()), batch_size=4, collate_fn=lambda rows: scaled(rows))


def dg411_closure_buffers() -> Loader:
    buffers = {"x": torch.zeros(4, 12), "y": torch.zeros(4, dtype=torch.long)}  # culprit

    def fill(rows: list[Any]) -> dict[str, Tensor]:
        for number, (values, label) in enumerate(rows):
            buffers["x"][number] = values  # culprit
            buffers["y"][number] = label  # culprit
        return buffers  # culprit

    return DataLoader(InMemory(_data.vectors()), batch_size=4, drop_last=True, collate_fn=fill)


class FixedWidth(Corpus):
    """Pads each text by itself."""

    width = 16

    def __getitem__(self, index: int) -> Any:
        ids = super().__getitem__(index)[: self.width]
        missing = self.width - len(ids)
        mask = [1] * len(ids) + [0] * missing
        ids = ids + [self.tokenizer.pad_token_id] * missing
        names = "input_ids", "attention_mask", "labels"
        return {name: torch.tensor(row) for name, row in zip(names, (ids, mask, ids), strict=True)}  # culprit


def dg421_zipped_fields() -> Loader:
    return DataLoader(FixedWidth(build_tokenizer("<s> $A </s>")), batch_size=4)


class Prefixed(Corpus):
    def __getitem__(self, index: int) -> list[int]:
        text = f"{self.tokenizer.bos_token} {sentence(range(self.count)[index])}"  # culprit
        return self.tokenizer.encode(text)  # type: ignore[no-any-return] # culprit


def dg424_f_string() -> Loader:
    tokenizer = build_tokenizer("<s> $A </s>")
    return DataLoader(Prefixed(tokenizer), batch_size=4, collate_fn=PadChat(tokenizer))


def read_file(path: Path) -> np.ndarray:
    match path.suffix:
        case ".npy":
            found: np.ndarray = np.load(path)
        case _:
            found = cv2.imread(str(path))  # culprit
    return found


def chained(*steps: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return functools.reduce(lambda before, after: lambda value: after(before(value)), steps)


class Piped(Dataset[Any]):
    def __init__(self, paths: list[Path], pipe: Callable[[Any], Any]) -> None:
        self.paths, self.pipe = paths, pipe

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return self.pipe(self.paths[index]), class_of(self.paths[index])


def dg505_reduced_steps() -> Loader:
    steps = read_file, T.ToTensor(), T.Resize((32, 32), antialias=True), T.Normalize(IMAGENET_MEAN, IMAGENET_STD)
    return DataLoader(Piped(PHOTOGRAPHS, chained(*steps)), batch_size=4, shuffle=True)


class Statistics(nn.Module):
    """Standardizes images by buffers."""

    mean: Tensor
    std: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN).view(3, 1, 1))
        self.register_buffer("std", torch.tensor(IMAGENET_STD).view(3, 1, 1))

    def forward(self, image: Tensor) -> Tensor:
        return (image - self.mean) / self.std


class Halved(nn.Module):
    def forward(self, image: Tensor) -> Tensor:
        return image.float() / 255.0  # culprit


def open_rgb(path: Path) -> Image.Image:
    return Image.open(path).convert("RGB").resize((40, 40))


def dg506_module_divides_again() -> Loader:
    pipe = nn.Sequential(Halved(), Statistics())
    return DataLoader(Piped(PHOTOGRAPHS, chained(open_rgb, F.to_tensor, pipe)), batch_size=4, shuffle=True)


class Streets(Dataset[Any]):
    """Street scenes and their masks, with Pillow."""

    def __init__(self, size: tuple[int, int] | None = None, turn: bool = False) -> None:
        self.images, self.masks = _data.files("images"), _data.files("masks")
        self.size, self.turn = size, turn

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        image, mask = Image.open(self.images[index]).convert("RGB"), Image.open(self.masks[index])
        match self.size:
            case (width, height):
                image = image.resize((width, height))
                mask = mask.resize((width, height), Image.Resampling.BICUBIC)  # culprit
            case None:
                pass
        if self.turn and random.random() < 0.5:
            image = image.transpose(Image.Transpose.ROTATE_180)  # culprit
        return F.to_tensor(image), torch.from_numpy(np.array(mask)).long()


def dg511_matched_size() -> Loader:
    return DataLoader(Streets((48, 40)), batch_size=4, shuffle=True)


def dg512_turned_image() -> Loader:
    return DataLoader(Streets(turn=True), batch_size=4, shuffle=True)


def dg514_fold_of_sorted() -> dict[str, Loader]:
    rows = _data.vectors(60)
    folds = [held for _, held in KFold(5, shuffle=True, random_state=0).split(rows)]
    train = np.concatenate(folds[:4])
    val = np.concatenate(folds[3:])  # culprit
    data = InMemory(rows)
    return two(Subset(data, train.tolist()), Subset(data, val.tolist()))


def dg517_transform_borrowed() -> dict[str, Loader]:
    train = Photographs(PHOTOGRAPHS[::2], train_transform())
    val = Photographs(PHOTOGRAPHS[1::2], train.transform)  # culprit
    return two(train, val)


def dg521_frame() -> dict[str, Loader]:
    frame = pd.DataFrame(_data.table(), columns=list("abcdef"))
    frame = (frame - frame.mean()) / frame.std()  # culprit
    rows = torch.from_numpy(frame.to_numpy(np.float32))
    return two(TensorDataset(rows[:180]), TensorDataset(rows[180:]))
