"""Healthy loaders of tables, series, graphs and sounds: ordered, overlapping, repeated or drawn at random."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
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
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    random_split,
)

from tests.loaders.healthy._tables import ROWS, classes, rows, table


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
