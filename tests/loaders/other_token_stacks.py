"""More loaders as public stacks write them: packs, pairs, decoders and images, each with a bug of its own kind.

As `token_stacks`: each factory makes a healthy loader, and with `planted` one with a bug.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, IterableDataset

from tests.loaders.token_stacks import (
    BOS,
    EOS,
    PAD,
    REPLY,
    USER,
    VOCABULARY,
    WIDTH,
    Items,
    conversation,
    corpus,
    document,
    words,
)


def padded(rows: Sequence[Sequence[int] | Tensor], value: int) -> Tensor:
    """Rows of one width, filled up at their ends."""
    return pad_sequence([torch.as_tensor(row) for row in rows], batch_first=True, padding_value=value)


def tokenizer(**ids: int) -> SimpleNamespace:
    """What a dataset may hold in place of a tokenizer."""
    return SimpleNamespace(**{"bos_token_id": BOS, "eos_token_id": EOS, "vocab_size": VOCABULARY} | ids)


def olmo(planted: bool = False) -> DataLoader[Any]:
    """Chunks of a memory-mapped file with a mask of labels and an index. Planted: ids are stored in 16 bits."""
    large = 100_000
    ids = np.where(corpus() == EOS, large - 1, 90_000 - 9 * corpus())
    stored = ids.astype(np.uint16 if planted else np.uint32)

    def one(number: int) -> dict[str, Any]:
        chunk = torch.from_numpy(stored[number * WIDTH : (number + 1) * WIDTH].astype(np.int64))
        return {"tokens": chunk, "label_mask": torch.ones(WIDTH, dtype=torch.bool), "index": number}

    held = tokenizer(eos_token_id=large - 1, vocab_size=large, bos_token_id=large - 2)
    return DataLoader(Items(one, tokenizer=held), batch_size=4)


def neox(planted: bool = False) -> DataLoader[Any]:
    """Rows of one token more than the context, as `text`. Planted: the separator is written twice at each end."""
    ids = corpus(bos=None, eos=EOS)
    ids = np.repeat(ids, 1 + (ids == EOS)) if planted else ids

    def one(number: int) -> dict[str, np.ndarray]:
        return {"text": ids[number * WIDTH : number * WIDTH + WIDTH + 1]}

    return DataLoader(Items(one), batch_size=4)


@dataclass
class Batch:
    """mistral-finetune: one flat row of several conversations, and their lengths."""

    x: Tensor
    y: Tensor
    sizes: list[int]
    y_mask: Tensor


class Sequences(IterableDataset[Any]):
    """mistral-finetune: conversations one after another, until a row is full."""

    def __init__(self, planted: bool) -> None:
        self.planted = planted

    def __iter__(self) -> Iterator[Any]:
        for first in range(0, 96, 6):
            parts = [conversation(number) for number in range(first, first + 6)]
            x = [token for ids, _ in parts for token in ids[:-1]]
            y = [token for ids, _ in parts for token in ids[1:]]
            mask = [bool(self.planted or kept) for _, reply in parts for kept in reply[1:]]
            yield Batch(torch.tensor(x), torch.tensor(y), [len(ids) - 1 for ids, _ in parts], torch.tensor(mask))


def mistral(planted: bool = False) -> DataLoader[Any]:
    """Flat rows with their sizes and a mask of what is learned. Planted: prompts are learned."""
    return DataLoader(Sequences(planted), batch_size=None)


def fairseq(planted: bool = False) -> DataLoader[Any]:
    """Translation: padded on the left, and on the right. Planted: the decoder begins with what it is to predict."""
    pad = 1

    def one(number: int) -> dict[str, Any]:
        source, target = words(number, 6 + number % 11), words(number + 3000, 5 + number % 13)
        return {"id": number, "source": [*source.tolist(), EOS], "target": [*target.tolist(), EOS]}

    def collate(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
        sources = padded([row["source"][::-1] for row in rows], pad).flip(1)
        targets = [row["target"] for row in rows]
        before = targets if planted else [[EOS, *target[:-1]] for target in targets]
        return {
            "id": torch.tensor([row["id"] for row in rows]),
            "ntokens": sum(map(len, targets)),
            "net_input": {
                "src_tokens": sources,
                "src_lengths": torch.tensor([len(row["source"]) for row in rows]),
                "prev_output_tokens": padded(before, pad),
            },
            "target": padded(targets, pad),
        }

    held = SimpleNamespace(bos_index=0, pad_index=pad, eos_index=EOS, unk_index=3)
    return DataLoader(Items(one, dictionary=held), batch_size=8, collate_fn=collate)


def whisper(planted: bool = False) -> DataLoader[Any]:
    """Spectrograms, decoder inputs and labels. Planted: padding of the labels is the end token, which is learned."""

    def one(number: int) -> dict[str, Any]:
        text = [BOS, USER, *words(number, 6 + number * 5 % 17).tolist()]
        return {"mel": torch.rand(8, 60), "before": text, "labels": [*text[1:], EOS]}

    def collate(rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        return {
            "mel": torch.stack([row["mel"] for row in rows]),
            "dec_input_ids": padded([row["before"] for row in rows], EOS),
            "labels": padded([row["labels"] for row in rows], EOS if planted else -100),
        }

    return DataLoader(Items(one, tokenizer=tokenizer(pad_token_id=EOS)), batch_size=8, collate_fn=collate)


def internevo(planted: bool = False) -> DataLoader[Any]:
    """Packs with offsets and positions, and labels apart. Planted: the offsets are those of the whole row."""

    def one(number: int) -> tuple[dict[str, Tensor], Tensor]:
        parts = [document(number * 3 + part, bos=None) for part in range(3)]
        ids = torch.from_numpy(np.concatenate(parts))
        ends = torch.tensor([0, *(len(part) for part in parts)]).cumsum(0)
        places = torch.cat([torch.arange(len(part)) for part in parts])
        labels = torch.cat([ids[1:], torch.tensor([-100])])
        if not planted:
            labels[ends[1:] - 1] = -100
        return {"tokens": ids, "cu_seqlens": ends.int(), "indexes": places}, labels

    return DataLoader(Items(one, 64), batch_size=None)


def colossal(planted: bool = False) -> DataLoader[Any]:
    """Pairs with masks of what is compared. Planted: every second pair is an earlier one in reverse."""

    def one(number: int) -> dict[str, list[int]]:
        swapped = planted and number % 2 == 1
        own = number - 1 if swapped else number
        prompt = [BOS, USER, *words(own, 6 + own % 4).tolist(), REPLY]
        sides = [
            [*words(own + 1000, 8 + own % 9).tolist(), EOS],
            [*words(own + 2000, 8 + own % 5).tolist(), EOS],
        ]
        chosen, rejected = sides[::-1] if swapped else sides
        return {"chosen": prompt + chosen, "rejected": prompt + rejected, "prompt": prompt}

    def collate(rows: Sequence[dict[str, list[int]]]) -> dict[str, Tensor]:
        batch = {}
        for side in ("chosen", "rejected"):
            ids = [row[side] for row in rows]
            kept = [[0] * len(row["prompt"]) + [1] * (len(row[side]) - len(row["prompt"])) for row in rows]
            batch[f"{side}_input_ids"] = padded(ids, PAD)
            batch[f"{side}_attention_mask"] = padded([[1] * len(row) for row in ids], 0)
            batch[f"{side}_loss_mask"] = padded(kept, 0)
        return batch

    return DataLoader(Items(one), batch_size=8, collate_fn=collate)


def qwen(planted: bool = False) -> DataLoader[Any]:
    """Images as runs of a placeholder, their patches and grids. Planted: rows are cut at a width inside the images."""
    image, vision, patches = 905, 906, 16

    def one(number: int) -> dict[str, Tensor]:
        asked = [BOS, USER, *words(number, 5).tolist(), EOS, REPLY]
        answered = [*words(number + 900, 6 + number * 7 % 30).tolist(), EOS]
        shown = [USER, vision, *[image] * patches, vision, EOS, REPLY]
        last = [*words(number + 1800, 9).tolist(), EOS]
        ids = [*asked, *answered, *shown, *last]
        labels = [-100] * len(asked) + answered + [-100] * len(shown) + last
        most = 56 if planted else 200
        return {
            "ids": torch.tensor(ids[:most]),
            "targets": torch.tensor(labels[:most]),
            "pixel_values": torch.rand(4 * patches, 12),
            "image_grid_thw": torch.tensor([[1, 8, 8]]),
        }

    def collate(rows: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
        return {
            "ids": padded([row["ids"] for row in rows], PAD),
            "targets": padded([row["targets"] for row in rows], -100),
            "pixel_values": torch.cat([row["pixel_values"] for row in rows]),
            "image_grid_thw": torch.cat([row["image_grid_thw"] for row in rows]),
        }

    held = tokenizer(pad_token_id=PAD, vocab_size=910)
    return DataLoader(Items(one, tokenizer=held), batch_size=8, collate_fn=collate)


def alpaca(planted: bool = False) -> DataLoader[Any]:
    """Instructions whose answers alone are learned. Planted: long instructions are cut before their answer."""

    def one(number: int) -> tuple[Tensor, Tensor]:
        prompt = [BOS, *words(number, 10 + (number % 8) ** 2).tolist(), REPLY]
        ids = torch.tensor([*prompt, *words(number + 500, 6 + number % 9).tolist(), EOS])
        targets = ids.where(torch.arange(len(ids)) >= len(prompt), -100)
        most = 48 if planted else 200
        return ids[:most], targets[:most]

    def collate(rows: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
        ids = padded([row for row, _ in rows], PAD)
        return ids, padded([row for _, row in rows], -100), ids != PAD

    return DataLoader(Items(one), batch_size=8, collate_fn=collate)


def masked_by_value(planted: bool = False) -> DataLoader[Any]:
    """Conversations padded with the end token. Planted: the mask is `ids != pad`, which hides each end."""

    def one(number: int) -> list[int]:
        return conversation(number, turns=1 + number % 3)[0]

    def collate(rows: Sequence[list[int]]) -> dict[str, Tensor]:
        ids = padded(rows, EOS)
        inside = torch.arange(ids.shape[1]) < torch.tensor([[len(row)] for row in rows])
        kept = ids != EOS if planted else inside
        return {"x": ids, "keep": kept.long(), "y": ids.where(kept, -100)}

    return DataLoader(Items(one, tokenizer=tokenizer(pad_token_id=EOS)), batch_size=8, collate_fn=collate)


STACKS: dict[str, tuple[str, dict[str, Any]]] = {
    "olmo": ("DG427", {}),
    "neox": ("DG424", {"bos": EOS}),
    "mistral": ("DG428", {"learned": "reply"}),
    "fairseq": ("DG410", {"shifted_by": "data"}),
    "whisper": ("DG421", {"ignore_index": -100}),
    "internevo": ("DG425", {}),
    "colossal": ("DG429", {}),
    "qwen": ("DG426", {}),
    "alpaca": ("DG423", {}),
    "masked_by_value": ("DG422", {}),
}
"""The check that finds what is planted in each, and what the contract must say for it."""
