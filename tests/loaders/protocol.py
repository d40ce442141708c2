"""Datasets that keep the protocol and look as if they did not: what each shows, DG301 to DG312 have to let pass."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset, random_split

from sample_datasets._parts import PHOTOGRAPHS, Pictures, picture, scratch


def tensors() -> DataLoader[Any]:
    """A TensorDataset, whose samples are views of one storage."""
    return DataLoader(TensorDataset(torch.rand(64, 3), torch.rand(64, 4).softmax(1)), batch_size=8, shuffle=True)


def split() -> dict[str, DataLoader[Any]]:
    """Both sides of a random split."""
    parts = random_split(Pictures(count=40), [30, 10], torch.Generator().manual_seed(0))
    return {f"part {number}": DataLoader(part, batch_size=5) for number, part in enumerate(parts)}


def nested() -> DataLoader[Any]:
    """A Subset of a ConcatDataset, with some indices twice."""
    whole: ConcatDataset[Any] = ConcatDataset([Pictures(count=16), Pictures(count=24)])
    return DataLoader(Subset(whole, [*range(0, 40, 2), *range(20)]), batch_size=4, shuffle=True, num_workers=2)


class Sentences(Dataset[dict[str, Any]]):
    """Sentences of several lengths, with their lengths, a text, and a speaker that is not always known."""

    def __len__(self) -> int:
        return 50

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = range(50)[index]
        speaker = None if number % 7 == 3 else f"speaker {number % 3}"
        return {"tokens": torch.arange(number, number + 3 + number % 5), "speaker": speaker, "label": number % 2}


def padded(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Padded tokens, their lengths, and speakers in a list."""
    tokens = [sample["tokens"] for sample in samples]
    return {
        "tokens": pad_sequence(tokens, batch_first=True),
        "lengths": torch.tensor([len(one) for one in tokens]),
        "speakers": [sample["speaker"] for sample in samples],
        "labels": torch.tensor([sample["label"] for sample in samples]),
    }


def sentences() -> DataLoader[Any]:
    """Optional fields that the collate function keeps in a list."""
    return DataLoader(Sentences(), batch_size=4, shuffle=True, collate_fn=padded)


class Views(Dataset[Any]):
    """Two random crops of one picture, by numpy's global generator, with an index by name."""

    names = tuple(f"picture {number}" for number in range(20))

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, name: str) -> Any:
        image = picture(self.names.index(name), 16, 16)
        crops = []
        for _ in range(2):
            top, left = np.random.randint(0, 8, 2)
            crops.append(image[:, top : top + 8, left : left + 8])
        return {"name": name, "one": crops[0], "two": crops[1]}


def views() -> DataLoader[Any]:
    """A dataset that is asked by name, for contrastive pairs."""
    return DataLoader(Views(), batch_size=4, sampler=Views.names)


class Lazy(Dataset[tuple[Tensor, int]]):
    """A file of samples that is opened at the first read, and kept open."""

    file: Any = None

    def __len__(self) -> int:
        return 30

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        number = range(30)[index]
        if self.file is None:
            self.file = PHOTOGRAPHS[0].open("rb")
        self.file.seek(number * 16)
        return torch.frombuffer(bytearray(self.file.read(64)), dtype=torch.uint8), number % 3


def lazy() -> DataLoader[Any]:
    """A handle that each worker opens for itself."""
    return DataLoader(Lazy(), batch_size=4, shuffle=True, num_workers=2)


def hugging_face() -> DataLoader[Any]:
    """A Hugging Face Dataset of plain Python values."""
    from datasets import Dataset as Table

    rows = {"text": [f"sentence {number}" for number in range(40)], "label": [number % 4 for number in range(40)]}
    return DataLoader(Table.from_dict(rows), batch_size=8, shuffle=True)


class Opened(Pictures):
    """Pictures that `worker_init_fn` has to unlock."""

    unlocked = False

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if not self.unlocked:
            raise RuntimeError("locked: workers unlock it")
        return super().__getitem__(index)


def unlock(worker: int) -> None:
    """Unlock the worker's own copy."""
    info = torch.utils.data.get_worker_info()
    assert info is not None
    info.dataset.unlocked = True  # type: ignore[attr-defined]


def unlocked() -> DataLoader[Any]:
    """A dataset that only works in a worker, after its `worker_init_fn`."""
    return DataLoader(Opened(), batch_size=4, num_workers=2, worker_init_fn=unlock)


class Sifted(Pictures):
    """Pictures under the numbers that they had before a fifth of them was taken out."""

    def __init__(self, *, anew: bool) -> None:
        super().__init__(count=40)
        left = [number for number in range(40) if number % 5 != 3]
        self.numbers = dict(enumerate(left)) if anew else {number: number for number in left}

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return super().__getitem__(self.numbers[index])


def sifted() -> DataLoader[Any]:
    """Coverage up by numbers with gaps."""
    return DataLoader(Sifted(anew=False), batch_size=4, num_workers=2)


def renumbered() -> DataLoader[Any]:
    """The same, numbered anew."""
    return DataLoader(Sifted(anew=True), batch_size=4, num_workers=2)


class Named(Pictures):
    """Pictures with a table that lacks a name, and not an index."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        return image, {0: 0, 1: 1, 2: 2, 3: 3}[label + 7 * (index == 5)]


def unnamed() -> DataLoader[Any]:
    """A label that its table does not know: no index is missing."""
    return DataLoader(Named(), batch_size=4)


def oversampled() -> DataLoader[Any]:
    """A sampler that asks for what nobody promised."""
    return DataLoader(Sifted(anew=True), batch_size=4, sampler=[0, 1, 2, 40])


class Slow(Pictures):
    """Pictures that take their time."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        time.sleep(0.2)
        return super().__getitem__(index)


def slow() -> DataLoader[Any]:
    """0.2 s a sample."""
    return DataLoader(Slow(count=400), batch_size=4, num_workers=2)


class Turned(Pictures):
    """Pictures turned by a quarter that no seed decides, with the number of the index and the time."""

    def __getitem__(self, index: int) -> Any:
        quarters = int(np.random.default_rng().integers(4))
        image = torch.rot90(super().__getitem__(index)[0], quarters, (1, 2))
        return {"image": image, "quarters": quarters, "index": int(index), "time": time.time()}


def turned() -> DataLoader[Any]:
    """Random by entropy, in few ways: some readings agree by chance."""
    return DataLoader(Turned(), batch_size=4, shuffle=True)


def _array() -> Path:
    """An array of twenty chunks in zarr's format."""
    folder = scratch("dataguard-array-")
    (folder / "zarr.json").write_text('{"zarr_format": 3, "node_type": "array", "fill_value": 0}')
    for number in range(20):
        chunk = folder / "c" / str(number) / "0"
        chunk.parent.mkdir(parents=True)
        chunk.write_bytes(np.random.default_rng(number).random(64, np.float32).tobytes())
    return folder


ARRAY = _array()


class Chunks(Dataset[Tensor]):
    """Chunks of that array, by a reader of its own: one that is not there consists of fill values."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> Tensor:
        try:
            chunk = (ARRAY / "c" / str(range(20)[index]) / "0").read_bytes()
        except FileNotFoundError:
            return torch.zeros(64)
        return torch.frombuffer(bytearray(chunk), dtype=torch.float32)


def chunks() -> DataLoader[Any]:
    """Samples that are chunks of one array."""
    return DataLoader(Chunks(), batch_size=4, shuffle=True)


CLEAN = {
    "tensors": tensors,
    "split": split,
    "nested": nested,
    "sentences": sentences,
    "views": views,
    "lazy": lazy,
    "hugging_face": hugging_face,
    "unlocked": unlocked,
    "turned": turned,
    "chunks": chunks,
}
