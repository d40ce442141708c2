"""Streams, shards and samplers."""

from __future__ import annotations

import functools
import io
import itertools
import random
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import datasets as hf
import numpy as np
import torch
import webdataset as wds
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, get_worker_info

from sample_datasets._parts import scratch
from tests.loaders.styles import _data
from tests.loaders.styles._bases import InMemory

Loader = DataLoader[Any]


def write_shards(count: int = 4, rows: int = 12) -> list[str]:
    root = scratch("shards-")
    for shard in range(count):
        with tarfile.open(root / f"{shard:02d}.tar", "w") as archive:
            for row in range(rows):
                number = shard * rows + row
                for suffix, content in (("txt", f"text {number} of shard {shard}"), ("cls", str(number % 5))):
                    data = content.encode()
                    info = tarfile.TarInfo(f"{number:05d}.{suffix}")
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))
    return sorted(str(path) for path in root.iterdir())


SHARDS = write_shards()


def read_tar(path: str) -> Iterator[dict[str, Any]]:
    with tarfile.open(path) as archive:
        for member in archive:
            if member.name.endswith(".txt"):
                content = archive.extractfile(member)
                assert content is not None
                yield {"key": Path(member.name).stem, "length": len(content.read()), "number": int(member.name[:5])}


class TarStream(IterableDataset[Any]):
    """All shards, one after the other."""

    def __init__(self, shards: list[str]) -> None:
        self.shards = shards

    def __iter__(self) -> Iterator[Any]:
        for shard in self.shards:  # culprit
            yield from read_tar(shard)


def dg201_tar_stream() -> Loader:
    return DataLoader(TarStream(SHARDS), batch_size=4, num_workers=2)


class Pipeline(IterableDataset[Any]):
    """Chains functions over an iterable, as webdataset does."""

    def __init__(self, source: Callable[[], Iterable[Any]], *stages: Callable[[Iterable[Any]], Iterable[Any]]) -> None:
        self.source, self.stages = source, stages

    def __iter__(self) -> Iterator[Any]:
        return iter(functools.reduce(lambda items, stage: stage(items), self.stages, self.source()))  # culprit


def numbers() -> Iterator[int]:
    yield from range(48)  # culprit


def as_rows(items: Iterable[int]) -> Iterator[Any]:
    for number in items:
        yield torch.full((4,), float(number)), number


def dg201_pipeline() -> Loader:
    return DataLoader(Pipeline(numbers, as_rows), batch_size=4, num_workers=2)


class Buffered(IterableDataset[Any]):
    """A shuffle buffer around another stream."""

    def __init__(self, inner: IterableDataset[Any], size: int = 8) -> None:
        self.inner, self.size = inner, size

    def __iter__(self) -> Iterator[Any]:
        buffer: list[Any] = []
        for item in self.inner:
            buffer.append(item)
            if len(buffer) >= self.size:
                yield buffer.pop(random.randrange(len(buffer)))
        random.shuffle(buffer)
        yield from buffer


def dg201_buffer_around() -> Loader:
    return DataLoader(Buffered(TarStream(SHARDS)), batch_size=4, num_workers=2)


class WorkerSplit(IterableDataset[Any]):
    """Shares rows out among workers."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def indices(self) -> Iterator[int]:
        info = get_worker_info()
        start, step = (info.id, info.num_workers) if info else (0, 1)  # culprit
        return iter(range(start, len(self.values), step))  # culprit

    def __iter__(self) -> Iterator[Any]:
        for index in self.indices():
            yield torch.from_numpy(self.values[index]), index


def dg202_split_by_worker(rank: int, world_size: int) -> Loader:
    return DataLoader(WorkerSplit(_data.vectors()), batch_size=4, num_workers=2)


def dg202_forgotten_sampler(rank: int, world_size: int) -> Loader:
    data = InMemory(_data.vectors())
    order = torch.randperm(len(data)).tolist()  # culprit
    return DataLoader(data, batch_size=4, sampler=order, num_workers=2)  # culprit


def dg202_webdataset(rank: int, world_size: int) -> Loader:
    data = wds.DataPipeline(  # culprit
        wds.SimpleShardList(SHARDS),
        wds.split_by_worker,  # culprit
        wds.tarfile_to_samples(),
        wds.decode(),
        wds.to_tuple("txt", "cls"),
    )
    return DataLoader(data, batch_size=4, num_workers=2)


class RankStride(Sampler[int]):
    """Every n-th index, from the rank on."""

    def __init__(self, size: int, rank: int, world_size: int) -> None:
        self.size, self.rank, self.world_size = size, rank, world_size

    def __iter__(self) -> Iterator[int]:
        yield from range(self.rank, self.size, self.world_size)  # culprit

    def __len__(self) -> int:
        return len(range(self.rank, self.size, self.world_size))


def dg203_stride_sampler(rank: int, world_size: int) -> Loader:
    return DataLoader(
        InMemory(_data.vectors(33)), batch_size=4, sampler=RankStride(33, rank, world_size), num_workers=2
    )


class RankShards(IterableDataset[Any]):
    def __init__(self, shards: list[str], rank: int, world_size: int) -> None:
        self.mine = shards[rank::world_size]  # culprit

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        step, start = (info.num_workers, info.id) if info else (1, 0)
        rows = itertools.chain.from_iterable(read_tar(shard) for shard in self.mine)
        yield from itertools.islice(rows, start, None, step)


def dg203_shards_by_rank(rank: int, world_size: int) -> Loader:
    return DataLoader(RankShards(SHARDS[:3], rank, world_size), batch_size=4, num_workers=2)


class Chunked(IterableDataset[Any]):
    """Gives each worker an equal part."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        begin, end = 0, len(self.values)
        if info is not None:
            per_worker = len(self.values) // info.num_workers  # culprit
            begin = info.id * per_worker
            end = begin + per_worker  # culprit
        for index in range(begin, end):
            yield torch.from_numpy(self.values[index]), index


def dg204_integer_division() -> Loader:
    return DataLoader(Chunked(_data.vectors(50)), batch_size=4, num_workers=3)


class Resharded(Buffered):
    """Splits what its source has split already."""

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        if info is None:
            return super().__iter__()
        return itertools.islice(super().__iter__(), info.id, None, info.num_workers)  # culprit


def dg204_split_twice() -> Loader:
    return DataLoader(Resharded(WorkerSplit(_data.vectors()), 1), batch_size=4, num_workers=2)


class Pairs(IterableDataset[Any]):
    """Yields samples two at a time."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)  # culprit

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        start, step = (info.id, info.num_workers) if info else (0, 1)
        for index in range(2 * start, len(self.values) - 1, 2 * step):
            yield torch.from_numpy(np.stack([self.values[index], self.values[index + 1]])), index


def dg205_length_of_rows() -> Loader:
    return DataLoader(Pairs(_data.vectors()), batch_size=4, num_workers=2)


class Bucketed(Sampler[list[int]]):
    """Batches of like length, of which the short ones are left out."""

    def __init__(self, lengths: list[int], size: int) -> None:
        self.lengths, self.size = lengths, size

    def __iter__(self) -> Iterator[list[int]]:
        order = sorted(range(len(self.lengths)), key=self.lengths.__getitem__)
        for start in range(0, len(order), self.size):
            batch = order[start : start + self.size]
            if self.lengths[batch[-1]] >= 5:
                yield batch

    def __len__(self) -> int:
        return (len(self.lengths) + self.size - 1) // self.size  # culprit


def dg205_bucket_sampler() -> Loader:
    lengths = [number % 12 for number in range(48)]
    return DataLoader(InMemory(_data.vectors()), batch_sampler=Bucketed(lengths, 4))


class SeededShuffle(Sampler[int]):
    def __init__(self, data: Dataset[Any], seed: int = 0) -> None:
        self.size, self.seed, self.epoch = len(data), seed, 0  # type: ignore[arg-type]

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[int]:
        g = torch.Generator()
        g.manual_seed(self.seed)  # culprit
        yield from torch.randperm(self.size, generator=g).tolist()


def dg206_ignored_epoch() -> Loader:
    data = InMemory(_data.vectors())
    return DataLoader(data, batch_size=4, sampler=SeededShuffle(data))


class ShuffledShards(IterableDataset[Any]):
    def __init__(self, shards: list[str], seed: int) -> None:
        self.shards, self.seed = shards, seed

    def rows(self) -> Iterator[Any]:
        rng = random.Random(self.seed)  # culprit
        rows = [row for shard in self.shards for row in read_tar(shard)]
        rng.shuffle(rows)
        return iter(rows)

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        return itertools.islice(self.rows(), info.id if info else 0, None, info.num_workers if info else 1)


def dg206_stream_seed() -> Loader:
    return DataLoader(ShuffledShards(SHARDS, 1), batch_size=4, num_workers=2)


def dg206_hf_shuffle() -> Loader:
    data = hf.Dataset.from_dict({"x": _data.vectors().tolist(), "i": list(range(48))})
    stream = data.to_iterable_dataset(num_shards=4).shuffle(seed=42, buffer_size=16)  # culprit
    return DataLoader(stream.with_format("torch"), batch_size=4)  # type: ignore[arg-type]
