"""Healthy loaders of tables, series, graphs, tokens and streams: ordered, packed, sampled or read lazily."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    TensorDataset,
    get_worker_info,
    random_split,
)

from sample_datasets._parts import scratch, stored

ROWS = 96
FOLDER = scratch("healthy-")


def rows(count: int = ROWS, columns: int = 6, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, columns)).astype(np.float32)


def classes(count: int = ROWS, number: int = 4, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, number, count)


def table() -> TensorDataset:
    return TensorDataset(torch.from_numpy(rows()), torch.from_numpy(classes()))


def distributed(rank: int = 0, world_size: int = 2) -> DataLoader[Any]:
    """One rank of two, with a sampler whose epoch the trainer sets."""
    data = table()
    return DataLoader(data, batch_size=8, sampler=DistributedSampler(data, world_size, rank), num_workers=2)


class Windows(Dataset):
    """Overlapping windows of a series, with a stride, and what comes right after each."""

    def __init__(self, series: np.ndarray, past: int = 12, future: int = 4, stride: int = 2) -> None:
        self.series, self.past, self.future, self.stride = torch.from_numpy(series), past, future, stride

    def __len__(self) -> int:
        return (len(self.series) - self.past - self.future) // self.stride + 1

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(index)
        start = index * self.stride
        middle = start + self.past
        return self.series[start:middle], self.series[middle : middle + self.future, 0]


def strided_windows() -> DataLoader[Any]:
    """Windows overlap, and are shuffled for training."""
    return DataLoader(Windows(rows(200, 3).cumsum(0)), batch_size=8, shuffle=True, num_workers=2)


def series_splits() -> dict[str, DataLoader[Any]]:
    """Training and validation are two parts of one series, scaled by the first; validation keeps the order of time."""
    series = rows(240, 3).cumsum(0)
    mean, deviation = series[:160].mean(0), series[:160].std(0)
    scaled = (series - mean) / deviation
    return {
        "train": DataLoader(Windows(scaled[:160]), batch_size=8, shuffle=True, drop_last=True),
        "val": DataLoader(Windows(scaled[160:], stride=4), batch_size=8),
    }


class MaskedSeries(Dataset):
    """Series with missing values, which are zero and marked in a mask: to be imputed."""

    def __init__(self) -> None:
        self.series = rows(ROWS, 20)

    def __len__(self) -> int:
        return len(self.series)

    def __getitem__(self, index: int) -> Any:
        values = torch.from_numpy(self.series[index])
        observed = torch.rand(len(values)) > 0.2
        return {"values": values * observed, "observed": observed, "target": values.clone()}


def imputation() -> DataLoader[Any]:
    """Which values are missing is drawn at each read."""
    return DataLoader(MaskedSeries(), batch_size=8, shuffle=True, num_workers=2)


class Sentences(Dataset):
    """Sentences of different lengths, the longest last."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.ids = [torch.randint(5, 90, (4 + number // 5,), generator=generator) for number in range(80)]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Any:
        return {"input_ids": self.ids[index], "labels": index % 3}


def padded(samples: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
    ids = torch.nn.utils.rnn.pad_sequence([sample["input_ids"] for sample in samples], batch_first=True)
    return {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "labels": torch.tensor([sample["labels"] for sample in samples]),
    }


class Buckets(Sampler[list[int]]):
    """Batches of similar lengths, in random order."""

    def __init__(self, lengths: list[int], size: int) -> None:
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        self.batches = [order[start : start + size] for start in range(0, len(order), size)]

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[list[int]]:
        return iter(random.sample(self.batches, len(self.batches)))


def buckets() -> DataLoader[Any]:
    """The same batches in each epoch, in another order."""
    data = Sentences()
    return DataLoader(
        data, batch_sampler=Buckets([len(ids) for ids in data.ids], 8), collate_fn=padded, num_workers=2
    )


class MaxTokens(Sampler[list[int]]):
    """Batches of at most so many tokens, after padding."""

    def __init__(self, lengths: list[int], tokens: int) -> None:
        self.lengths, self.tokens = lengths, tokens

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        longest = 0
        for index in torch.randperm(len(self.lengths)).tolist():
            longest = max(longest, self.lengths[index])
            if batch and longest * (len(batch) + 1) > self.tokens:
                yield batch
                batch, longest = [], self.lengths[index]
            batch.append(index)
        yield batch


def token_budget() -> DataLoader[Any]:
    """Batches differ in size, and their number from epoch to epoch."""
    data = Sentences()
    return DataLoader(data, batch_sampler=MaxTokens([len(ids) for ids in data.ids], 96), collate_fn=padded)


class EasyFirst(Sampler[int]):
    """A curriculum: the shortest sentences first, and more of the long ones with each epoch."""

    def __init__(self, lengths: list[int]) -> None:
        self.order = sorted(range(len(lengths)), key=lengths.__getitem__)
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return min(len(self.order), len(self.order) // 2 + 10 * self.epoch)

    def __iter__(self) -> Iterator[int]:
        return iter(random.sample(self.order[: len(self)], len(self)))


def curriculum() -> DataLoader[Any]:
    """An epoch holds a part of the data, which grows."""
    data = Sentences()
    return DataLoader(data, batch_size=8, sampler=EasyFirst([len(ids) for ids in data.ids]), collate_fn=padded)


def predict_longest_first() -> DataLoader[Any]:
    """Inference takes the longest sentences first, so that memory runs out at once or never."""
    data = Sentences()
    order = sorted(range(len(data)), key=lambda index: -len(data.ids[index]))
    return DataLoader(data, batch_size=8, sampler=order, collate_fn=padded, num_workers=2)


class MaskedWords:
    """Masks 15 % of the tokens at random in collate, as BERT."""

    def __call__(self, samples: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        batch = padded(samples)
        ids = batch["input_ids"]
        chosen = (torch.rand(ids.shape) < 0.15) & (ids != 0)
        chosen[:, 0] = True
        labels = ids.masked_fill(~chosen, -100)
        return {"input_ids": ids.masked_fill(chosen, 4), "attention_mask": batch["attention_mask"], "labels": labels}


def masked_words() -> DataLoader[Any]:
    """Labels are the tokens that are masked; a BERT of words."""
    return DataLoader(Sentences(), batch_size=8, shuffle=True, collate_fn=MaskedWords(), num_workers=2)


def blocks_of_tokens() -> DataLoader[Any]:
    """Blocks of one long text, each with itself as labels."""

    class Blocks(Dataset):
        def __init__(self) -> None:
            self.ids = torch.from_numpy(np.random.default_rng(0).integers(3, 200, 4096))

        def __len__(self) -> int:
            return 4096 // 32

        def __getitem__(self, index: int) -> Any:
            ids = self.ids[32 * index : 32 * index + 32]
            return {"input_ids": ids, "labels": ids.clone()}

    return DataLoader(Blocks(), batch_size=8, shuffle=True)


class Memmapped(Dataset):
    """Random offsets into a file of tokens, as nanoGPT: the index is ignored, and the targets are the next tokens."""

    def __init__(self) -> None:
        self.path = FOLDER / "tokens.bin"
        np.random.default_rng(0).integers(0, 500, 20_000).astype(np.uint16).tofile(self.path)

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        data = np.memmap(self.path, np.uint16, "r")
        start = int(torch.randint(len(data) - 33, ()))
        block = torch.from_numpy(data[start : start + 33].astype(np.int64))
        return block[:-1], block[1:]


def random_offsets() -> DataLoader[Any]:
    """Each sample is another block, whatever its index."""
    return DataLoader(Memmapped(), batch_size=8, num_workers=2, shuffle=True)


class Packed(IterableDataset):
    """Documents, one after the other, cut to blocks; the rest of one worker's documents is left out."""

    def __init__(self) -> None:
        generator = np.random.default_rng(0)
        self.documents = [generator.integers(3, 90, generator.integers(10, 60)).tolist() for _ in range(120)]
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        order = np.random.default_rng(self.epoch).permutation(len(self.documents))
        buffer: list[int] = []
        for number in order[info.id if info else 0 :: info.num_workers if info else 1]:
            buffer += [*self.documents[number], 2]
            while len(buffer) >= 32:
                ids = torch.tensor(buffer[:32])
                yield {"input_ids": ids, "labels": ids.clone()}
                del buffer[:32]


def packed_stream() -> DataLoader[Any]:
    """A stream that its trainer shuffles by set_epoch, split between workers."""
    return DataLoader(Packed(), batch_size=8, num_workers=2)


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


class Negatives(Dataset):
    """A user, an item of theirs, and items that are none, drawn at each read."""

    def __init__(self, items: int = 200) -> None:
        generator = np.random.default_rng(0)
        self.items = items
        self.pairs = [(int(generator.integers(24)), int(generator.integers(items))) for _ in range(120)]
        self.liked: dict[int, set[int]] = {}
        for user, item in self.pairs:
            self.liked.setdefault(user, set()).add(item)

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> Any:
        user, item = self.pairs[index]
        negatives: list[int] = []
        while len(negatives) < 4:
            drawn = random.randrange(self.items)
            if drawn not in self.liked[user]:
                negatives.append(drawn)
        return {"user": user, "item": item, "negatives": torch.tensor(negatives)}


def negative_sampling() -> DataLoader[Any]:
    """Recommendation: other negatives in each epoch."""
    return DataLoader(Negatives(), batch_size=16, shuffle=True, num_workers=2)


class SkipGrams(Dataset):
    """A word, a word near it, and random ones: word2vec."""

    def __init__(self) -> None:
        self.text = np.random.default_rng(0).zipf(1.5, 800).clip(1, 99)
        counts = np.bincount(self.text, minlength=100) ** 0.75
        self.chances = counts / counts.sum()

    def __len__(self) -> int:
        return len(self.text)

    def __getitem__(self, index: int) -> Any:
        near = int(np.clip(index + random.choice([-2, -1, 1, 2]), 0, len(self.text) - 1))
        negatives = torch.multinomial(torch.from_numpy(self.chances), 5, replacement=True)
        return int(self.text[index]), int(self.text[near]), negatives


def skip_grams() -> DataLoader[Any]:
    """Contexts and negatives are drawn at each read."""
    return DataLoader(SkipGrams(), batch_size=32, shuffle=True)


class Transitions(Dataset):
    """Transitions of episodes for offline reinforcement learning; the last of an episode is terminal."""

    def __init__(self) -> None:
        self.states = rows(200, 5)
        self.actions = classes(199, 3)
        self.done = np.zeros(199, np.float32)
        self.done[39::40] = 1

    def __len__(self) -> int:
        return len(self.actions)

    def __getitem__(self, index: int) -> Any:
        index = range(len(self))[index]
        return {
            "obs": self.states[index],
            "action": self.actions[index],
            "reward": np.float32(self.states[index].sum()),
            "next_obs": self.states[index + 1],
            "done": self.done[index],
        }


def transitions() -> DataLoader[Any]:
    """Rows follow each other; numpy's numbers in dictionaries."""
    return DataLoader(Transitions(), batch_size=16, shuffle=True, num_workers=2)


def replay_with_replacement() -> DataLoader[Any]:
    """A number of steps, not of samples: rows are drawn with replacement."""
    data = Transitions()
    return DataLoader(data, batch_size=16, sampler=RandomSampler(data, replacement=True, num_samples=320))


def whole_batches_by_index() -> DataLoader[Any]:
    """A batch is one index of many rows, so that the dataset slices once: automatic batching is off."""

    class Sliced(Dataset):
        def __init__(self) -> None:
            self.x, self.y = torch.from_numpy(rows()), torch.from_numpy(classes())

        def __len__(self) -> int:
            return len(self.x)

        def __getitem__(self, indices: Any) -> Any:
            return self.x[indices], self.y[indices]

    data = Sliced()
    sampler = BatchSampler(RandomSampler(data), batch_size=16, drop_last=False)
    return DataLoader(data, sampler=sampler, batch_size=None)


def joined_with_weights() -> DataLoader[Any]:
    """Two sources, of which the small one is listed three times."""
    small = TensorDataset(torch.from_numpy(rows(12, seed=5)), torch.from_numpy(classes(12, seed=6)))
    return DataLoader(ConcatDataset([table(), small, small, small]), batch_size=8, shuffle=True, num_workers=2)


def splits_of_one() -> dict[str, DataLoader[Any]]:
    """Two random parts of one table, split with a seed."""
    train, val = random_split(table(), [72, 24], torch.Generator().manual_seed(0))
    return {
        "train": DataLoader(train, batch_size=8, shuffle=True, num_workers=2),
        "val": DataLoader(val, batch_size=8, num_workers=2),
    }


class Graphs(Dataset):
    """Small graphs of different sizes, with edges as pairs of nodes."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.graphs = []
        for number in range(48):
            nodes = 4 + number % 7
            edges = torch.randint(nodes, (2, 3 * nodes), generator=generator)
            self.graphs.append({"x": torch.randn(nodes, 5, generator=generator), "edges": edges, "y": number % 2})

    def __len__(self) -> int:
        return len(self.graphs)

    def __getitem__(self, index: int) -> Any:
        return self.graphs[index]


def one_graph(samples: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
    """All graphs of a batch as one: the numbers of nodes go on."""
    sizes = torch.tensor([len(sample["x"]) for sample in samples])
    starts = sizes.cumsum(0) - sizes
    return {
        "x": torch.cat([sample["x"] for sample in samples]),
        "edges": torch.cat([sample["edges"] + start for sample, start in zip(samples, starts, strict=True)], 1),
        "batch": torch.repeat_interleave(torch.arange(len(samples)), sizes),
        "y": torch.tensor([sample["y"] for sample in samples]),
    }


def graph_batches() -> DataLoader[Any]:
    """Edges are shifted by the nodes before them."""
    return DataLoader(Graphs(), batch_size=8, shuffle=True, collate_fn=one_graph, num_workers=2)


class Without(Dataset):
    """Samples that may be missing: None, which collate leaves out."""

    def __init__(self) -> None:
        self.x, self.y = torch.from_numpy(rows()), classes()

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        return None if index % 17 == 5 else (self.x[index], int(self.y[index]))


def present(samples: Sequence[Any]) -> Any:
    return torch.utils.data.default_collate([sample for sample in samples if sample is not None])


def missing_left_out() -> DataLoader[Any]:
    """collate_fn leaves out what could not be read."""
    return DataLoader(Without(), batch_size=8, shuffle=True, collate_fn=present, num_workers=2)


class Waveforms(Dataset):
    """Sounds of different lengths, cropped at random or padded with zeros to one length."""

    def __init__(self, length: int = 800) -> None:
        self.length = length
        self.times = [torch.arange(600 + 40 * number) / 8000 for number in range(24)]

    def __len__(self) -> int:
        return len(self.times)

    def __getitem__(self, index: int) -> Any:
        index = range(len(self))[index]
        wave = torch.sin(6.28 * (200 + 20 * index) * self.times[index])
        extra = len(wave) - self.length
        if extra > 0:
            start = random.randrange(extra + 1)
            wave = wave[start : start + self.length]
        length = len(wave)
        return torch.nn.functional.pad(wave, (0, self.length - length)), length, index % 4


def cropped_or_padded() -> DataLoader[Any]:
    """Long sounds are cropped at random, short ones are padded, with their length beside them."""
    return DataLoader(Waveforms(), batch_size=4, shuffle=True, num_workers=2)


def noisy(batch: dict[str, list[Any]]) -> dict[str, Any]:
    return {"x": [torch.tensor(x) + 0.1 * torch.randn(len(x)) for x in batch["x"]], "y": batch["y"]}


def rows_of_datasets() -> DataLoader[Any]:
    """A table of `datasets` with a transform of whole batches."""
    import datasets

    data = datasets.Dataset.from_dict({"x": rows().tolist(), "y": classes().tolist()})
    data.set_transform(noisy)
    return DataLoader(data, batch_size=8, shuffle=True, num_workers=2)


def val_distributed_whole() -> DataLoader[Any]:
    """Validation on every rank of all samples, in order."""
    data = table()
    return DataLoader(data, batch_size=8, sampler=SequentialSampler(data), num_workers=2)


class Augmented(Dataset):
    """Rows with noise from a generator that is made of the epoch and the index."""

    def __init__(self) -> None:
        self.x, self.y, self.epoch = rows(), classes(), 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        generator = np.random.default_rng((self.epoch, index))
        return self.x[index] + generator.normal(0, 0.1, 6).astype(np.float32), int(self.y[index])


def seeded_by_epoch_and_index() -> DataLoader[Any]:
    """Noise that can be reproduced, and differs between epochs."""
    return DataLoader(Augmented(), batch_size=8, shuffle=True, num_workers=2)


class Permuted(Dataset):
    """Permutes its own indices by the epoch that the trainer sets; the sampler is sequential."""

    def __init__(self) -> None:
        self.x, self.y = rows(), classes()
        self.set_epoch(0)

    def set_epoch(self, epoch: int) -> None:
        self.order = np.random.default_rng(epoch).permutation(len(self.x))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        at = self.order[index]
        return self.x[at], int(self.y[at])


def train_permuted_by_dataset() -> DataLoader[Any]:
    """The dataset shuffles itself, as those of Megatron do."""
    return DataLoader(Permuted(), batch_size=8, num_workers=2)


class Soft(Dataset):
    """Labels smoothed by hand, and ages as numbers to predict."""

    def __init__(self) -> None:
        self.x, self.y = rows(), classes()

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        soft = torch.full((4,), 0.1 / 4)
        soft[int(self.y[index])] += 0.9
        return self.x[index], soft, np.float32(20 + self.x[index, 0])


def smoothed_labels() -> DataLoader[Any]:
    """Soft labels that sum to 1, and a regression."""
    return DataLoader(Soft(), batch_size=8, shuffle=True)


class Dropped(Dataset):
    """Features dropped at random for denoising, and rows corrupted by those of others (SCARF)."""

    def __init__(self) -> None:
        self.x = torch.from_numpy(rows())

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        clean = self.x[index]
        other = self.x[torch.randint(len(self.x), (6,)), torch.arange(6)]
        corrupted = torch.where(torch.rand(6) < 0.6, other, clean)
        return corrupted, clean


def corrupted_rows() -> DataLoader[Any]:
    """Self-supervision of a table: parts of other rows."""
    return DataLoader(Dropped(), batch_size=8, shuffle=True, num_workers=2)


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


def combined_transforms(*steps: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def run(sample: Any) -> Any:
        for step in steps:
            sample = step(sample)
        return sample

    return run


class Piped(Dataset):
    """Rows through functions of functions: jitter, scaling and a random sign."""

    def __init__(self) -> None:
        self.x, self.y = torch.from_numpy(rows()), classes()
        self.transform = combined_transforms(
            lambda x: x + 0.05 * torch.randn_like(x), lambda x: x * random.choice([-1, 1]), torch.Tensor.float
        )

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.x[index]), int(self.y[index])


def piped() -> DataLoader[Any]:
    """Lambdas in the main process: no worker has to receive them."""
    return DataLoader(Piped(), batch_size=8, shuffle=True)


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
