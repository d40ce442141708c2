"""Healthy loaders of files, databases and streams, which are opened when they are first read."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    get_worker_info,
)

from sample_datasets._parts import scratch, stored
from tests.loaders.healthy._tables import ROWS, classes, rows

FOLDER = scratch("healthy-")


class Shuffled(IterableDataset):
    """A stream with a shuffle buffer; each worker reads its own lines."""

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        buffer: list[Any] = []
        for number in range(info.id if info else 0, ROWS, info.num_workers if info else 1):
            buffer.append((torch.full((4,), float(number)), number % 3))
            if len(buffer) == 16:
                yield buffer.pop(random.randrange(16))
        random.shuffle(buffer)
        yield from buffer


def shuffle_buffer() -> DataLoader[Any]:
    """Order is drawn in the workers."""
    return DataLoader(Shuffled(), batch_size=8, num_workers=2)


class Lines(Dataset):
    """Lines of a file of JSON, by their offsets; each process opens the file when it first reads."""

    def __init__(self) -> None:
        self.path = FOLDER / "lines.jsonl"
        lines = [json.dumps({"x": row.tolist(), "y": int(y)}) for row, y in zip(rows(), classes(), strict=True)]
        self.path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.offsets = np.cumsum([0, *(len(line) + 1 for line in lines[:-1])])
        self.file: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "file": None}

    def __len__(self) -> int:
        return len(self.offsets)

    def __getitem__(self, index: int) -> Any:
        if self.file is None:
            self.file = self.path.open("rb")
        self.file.seek(int(self.offsets[index]))
        record = json.loads(self.file.readline())
        return torch.tensor(record["x"]), record["y"]


def lazy_lines() -> DataLoader[Any]:
    """The file is opened in the worker that reads it."""
    return DataLoader(Lines(), batch_size=8, shuffle=True, num_workers=2, persistent_workers=True)


class Hierarchical(Dataset):
    """Rows of an HDF5 file, opened at the first read."""

    def __init__(self) -> None:
        import h5py

        self.path = FOLDER / "rows.h5"
        if not self.path.exists():
            with h5py.File(self.path, "w") as file:
                file["x"], file["y"] = rows(), classes()
        self.file: Any = None

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> Any:
        import h5py

        if self.file is None:
            self.file = h5py.File(self.path, "r")
        return torch.from_numpy(self.file["x"][index]), int(self.file["y"][index])


def lazy_hdf5() -> DataLoader[Any]:
    """Each worker opens the file for itself."""
    return DataLoader(Hierarchical(), batch_size=8, shuffle=True, num_workers=2)


class Keyed(Dataset):
    """Records of an LMDB, opened at the first read."""

    def __init__(self) -> None:
        import lmdb

        self.path = str(FOLDER / "records.lmdb")
        with lmdb.open(self.path, map_size=1 << 22) as environment, environment.begin(write=True) as transaction:
            for number, (row, y) in enumerate(zip(rows(), classes(), strict=True)):
                transaction.put(f"{number:06d}".encode(), row.tobytes() + bytes([int(y)]))
        self.environment: Any = None

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> Any:
        import lmdb

        if self.environment is None:
            self.environment = lmdb.open(self.path, readonly=True, lock=False, readahead=False)
        with self.environment.begin() as transaction:
            record = transaction.get(f"{index:06d}".encode())
        return torch.frombuffer(bytearray(record[:-1]), dtype=torch.float32), record[-1]


def lazy_lmdb() -> DataLoader[Any]:
    """Each worker opens the database for itself."""
    return DataLoader(Keyed(), batch_size=8, shuffle=True, num_workers=2)


class Queried(Dataset):
    """Rows of SQLite, by a connection of each read."""

    def __init__(self) -> None:
        self.path = stored(FOLDER / "rows.db", self.write)

    def write(self, path: Path) -> None:
        values = [(n, *map(float, row[:2]), int(y)) for n, (row, y) in enumerate(zip(rows(), classes(), strict=True))]
        with sqlite3.connect(path) as connection:
            connection.execute("create table t (id integer primary key, a real, b real, y integer)")
            connection.executemany("insert into t values (?, ?, ?, ?)", values)

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> Any:
        connection = sqlite3.connect(self.path)
        a, b, y = connection.execute("select a, b, y from t where id = ?", (int(index),)).fetchone()
        connection.close()
        return torch.tensor([a, b]), y


def database_rows() -> DataLoader[Any]:
    """A connection for each sample."""
    return DataLoader(Queried(), batch_size=8, shuffle=True, num_workers=2)


def noisy(batch: dict[str, list[Any]]) -> dict[str, Any]:
    return {"x": [torch.tensor(x) + 0.1 * torch.randn(len(x)) for x in batch["x"]], "y": batch["y"]}


def rows_of_datasets() -> DataLoader[Any]:
    """A table of `datasets` with a transform of whole batches."""
    import datasets

    data = datasets.Dataset.from_dict({"x": rows().tolist(), "y": classes().tolist()})
    data.set_transform(noisy)
    return DataLoader(data, batch_size=8, shuffle=True, num_workers=2)


class Sharded(IterableDataset):
    """Shards in a random order that all workers draw alike, dealt out by number."""

    def __init__(self) -> None:
        self.paths = []
        for number in range(8):
            path = FOLDER / f"shard-{number}.npy"
            np.save(path, rows(12, seed=number))
            self.paths.append(path)
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        paths = random.Random(self.epoch).sample(self.paths, len(self.paths))
        for path in paths[info.id if info else 0 :: info.num_workers if info else 1]:
            yield from np.load(path)


def shards() -> DataLoader[Any]:
    """Each worker reads its shards."""
    return DataLoader(Sharded(), batch_size=8, num_workers=2)


class Once:
    """An iterator without `__iter__`, which DataLoader accepts of a dataset's `__iter__`."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self.numbers = numbers

    def __next__(self) -> Any:
        number = next(self.numbers)
        return torch.full((4,), float(number)), number % 3


class NextOnly(IterableDataset):
    """A stream whose iterator has `__next__` only."""

    def __iter__(self) -> Any:
        info = get_worker_info()
        return Once(iter(range(info.id if info else 0, ROWS, info.num_workers if info else 1)))


def next_only() -> DataLoader[Any]:
    """An iterator that cannot be iterated itself."""
    return DataLoader(NextOnly(), batch_size=8, num_workers=2)


def loaded_by_webdataset() -> DataLoader[Any]:
    """A webdataset of one shard for each worker, shuffled in a buffer."""
    import webdataset as wds

    for number in range(4):
        with wds.TarWriter(str(FOLDER / f"web-{number}.tar")) as writer:
            for row, value in enumerate(rows(12, seed=number)):
                writer.write({"__key__": f"{number}{row:03d}", "x.npy": value, "y.cls": row % 3})
    stream = wds.WebDataset(
        [str(FOLDER / f"web-{number}.tar") for number in range(4)], shardshuffle=4, nodesplitter=None
    )
    stream = stream.shuffle(10).decode().to_tuple("x.npy", "y.cls")
    return DataLoader(stream, batch_size=8, num_workers=2)
