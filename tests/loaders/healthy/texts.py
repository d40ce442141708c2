"""Healthy loaders of tokens and other symbols: padded, packed, masked, sorted or sampled at random."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    Sampler,
    get_worker_info,
)

from sample_datasets._parts import scratch

FOLDER = scratch("healthy-")


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
    return DataLoader(data, batch_sampler=Buckets([len(ids) for ids in data.ids], 8), collate_fn=padded, num_workers=2)


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
