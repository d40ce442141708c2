"""Loaders whose replies, documents and images are marked in ways of their own, each with a bug; and healthy ones alike.

As `token_stacks`: each factory makes a healthy loader, and with `planted` one with a bug. `SUSPICIOUS` are healthy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from tests.loaders.other_token_stacks import padded, tokenizer
from tests.loaders.token_stacks import (
    BOS,
    EOS,
    PAD,
    USER,
    VOCABULARY,
    WIDTH,
    Alphabet,
    BatchConverter,
    Items,
    conversation,
    corpus,
    document,
    words,
)

IMAGE, SEP = 905, 5


def turns(number: int) -> tuple[list[int], list[int]]:
    """One turn or up to three, and 1 for the tokens of replies."""
    return conversation(number, 1 + number % 3)


def openrlhf(planted: bool = False) -> DataLoader[Any]:
    """Tokens, a mask and a mask of the places that predict replies; no labels. Planted: it leaves out their end."""

    def one(number: int) -> tuple[list[int], list[int]]:
        ids, mask = turns(number)
        ends = [bool(planted and kept and token == EOS) for token, kept in zip(ids, mask, strict=True)]
        learned = [int(kept and not end) for kept, end in zip(mask, ends, strict=True)]
        return ids, [*learned[1:], 0]

    def collate(rows: Sequence[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor, Tensor]:
        kept = padded([mask for _, mask in rows], 0).float()
        return padded([ids for ids, _ in rows], PAD), padded([[1] * len(ids) for ids, _ in rows], 0), kept

    return DataLoader(Items(one, tokenizer=tokenizer(pad_token_id=PAD)), batch_size=8, collate_fn=collate)


def firefly(planted: bool = False) -> DataLoader[Any]:
    """Tokens with a mask of those that are learned. Planted: that mask is 1 in the padding, too."""

    def one(number: int) -> dict[str, list[int]]:
        ids, mask = turns(number)
        return {"input_ids": ids, "attention_mask": [1] * len(ids), "target_mask": mask}

    def collate(rows: Sequence[dict[str, list[int]]]) -> dict[str, Tensor]:
        fill = {"input_ids": PAD, "attention_mask": 0, "target_mask": int(planted)}
        return {key: padded([row[key] for row in rows], value) for key, value in fill.items()}

    return DataLoader(Items(one, tokenizer=tokenizer(pad_token_id=PAD)), batch_size=8, collate_fn=collate)


def chatted(planted: bool = False) -> DataLoader[Any]:
    """Inputs and targets, padded with the end of replies, which no tokenizer names. Planted: it is never learned."""

    def collate(rows: Sequence[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor]:
        goals = [
            [token if kept and not (planted and token == EOS) else -1 for token, kept in zip(ids, mask, strict=True)][
                1:
            ]
            for ids, mask in rows
        ]
        return padded([ids[:-1] for ids, _ in rows], EOS), padded(goals, -1)

    return DataLoader(Items(turns), batch_size=8, collate_fn=collate)


def packed(planted: bool = False) -> DataLoader[Any]:
    """Whole documents with their positions in rows of one width. Planted: their ends are not learned."""

    def one(number: int) -> dict[str, Tensor]:
        parts = [document(number * 3 + part) for part in range(3)]
        ids = torch.from_numpy(np.concatenate(parts))
        places = torch.cat([torch.arange(len(part)) for part in parts])
        fill = 220 - len(ids)
        labels = torch.nn.functional.pad(ids.where(ids != EOS, -100) if planted else ids, (0, fill), value=-100)
        places = torch.cat([places, places[-1] + 1 + torch.arange(fill)])
        return {"tokens": torch.nn.functional.pad(ids, (0, fill)), "labels": labels, "input_pos": places}

    return DataLoader(Items(one), batch_size=8)


def preferred(planted: bool = False) -> DataLoader[Any]:
    """Inputs, targets and masks of both answers, by names of sides. Planted: all prompts differ."""

    def one(number: int) -> dict[str, Tensor]:
        sides: dict[str, Tensor] = {}
        for side, moved, prompt in (("chosen", 1000, number), ("rejected", 2000, number + planted)):
            asked = [BOS, USER, *words(prompt, 8 + prompt % 4).tolist(), SEP]
            ids = [*asked, *words(number + moved, 8 + number % 9).tolist(), EOS]
            mask = [0] * len(asked) + [1] * (len(ids) - len(asked)) + [0] * (40 - len(ids))
            ids += [PAD] * (40 - len(ids))
            sides |= {f"x_{side}": torch.tensor(ids[:-1]), f"y_{side}": torch.tensor(ids[1:])}
            sides[f"mask_{side}"] = torch.tensor(mask[1:])
        return sides

    return DataLoader(Items(one, tokenizer=tokenizer(pad_token_id=PAD)), batch_size=8)


def with_grids(rows: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Padded rows, and the patches of their images one behind the other."""
    return {
        "ids": padded([row["ids"] for row in rows], PAD),
        "goal": padded([row["goal"] for row in rows], -100),
        "pixels": torch.cat([row["pixels"] for row in rows]),
        "grid": torch.stack([row["grid"] for row in rows]),
    }


def sized(planted: bool = False) -> DataLoader[Any]:
    """Images of several sizes, with their grids. Planted: long rows are cut within them."""

    def one(number: int) -> dict[str, Tensor]:
        patches = (12, 20, 28)[number % 3]
        asked = [BOS, USER, *words(number, 5 + (number % 7) ** 2).tolist(), *[IMAGE] * patches, SEP]
        ids = [*asked, *words(number + 900, 6 + number % 5).tolist(), EOS]
        most = 52 if planted else 200
        labels = torch.tensor([-100] * len(asked) + ids[len(asked) :])[:most]
        grid = torch.tensor([1, 8, patches // 2])
        labels[1] = ids[1]  # Each row has a label, even if its answer is cut off.
        return {"ids": torch.tensor(ids[:most]), "goal": labels, "pixels": torch.rand(4 * patches, 12), "grid": grid}

    held = tokenizer(pad_token_id=PAD, vocab_size=910)
    return DataLoader(Items(one, tokenizer=held), batch_size=8, collate_fn=with_grids)


def restored(planted: bool = False) -> DataLoader[Any]:
    """Proteins with drawn masks, whose alphabet has no size. Planted: labels are taken after masking."""
    alphabet = Alphabet()
    convert = BatchConverter(alphabet, False)

    def collate(rows: Sequence[tuple[str, str]]) -> dict[str, Tensor]:
        tokens = convert(rows)[2]
        hidden = (torch.rand(tokens.shape) < 0.15) & (tokens > 2)
        masked = tokens.masked_fill(hidden, alphabet.mask_idx)
        return {"tokens": masked, "goal": (masked if planted else tokens).where(hidden, -100)}

    def one(number: int) -> tuple[str, str]:
        letters = np.random.default_rng((9, number)).choice([*"LAGVSERTIDPKQNFYMHWC"], 30 + number % 40)
        return f"protein {number}", "".join(letters)

    return DataLoader(Items(one, alphabet=alphabet), batch_size=8, collate_fn=collate)


def blocks(planted: bool = False, beside: str = "segments") -> DataLoader[Any]:
    """Blocks of documents, whose first tokens are not learned. Planted: nothing keeps the documents apart."""
    ids = corpus()

    def one(number: int) -> dict[str, Tensor]:
        block = torch.from_numpy(ids[number * WIDTH : number * WIDTH + WIDTH + 1])
        segments = torch.cat([torch.zeros(1, dtype=torch.long), (block == EOS).long().cumsum(0)[:-1]])
        batch = {"x": block[:-1], "y": block[1:].where(segments[1:] == segments[:-1], -100)}
        counts = torch.nn.functional.pad(torch.unique(segments[:-1], return_counts=True)[1], (0, 16))[:16]
        return batch | ({} if planted else {beside: segments[:-1] if beside == "segments" else counts})

    return DataLoader(Items(one), batch_size=4)


STACKS: dict[str, tuple[str, dict[str, Any]]] = {
    "openrlhf": ("DG422", {}),
    "firefly": ("DG421", {}),
    "chatted": ("DG422", {}),
    "packed": ("DG422", {}),
    "preferred": ("DG429", {}),
    "sized": ("DG426", {}),
    "restored": ("DG430", {}),
    "blocks": ("DG425", {"packing": "separate", "eos": EOS}),
}
"""The check that finds what is planted in each, and what the contract must say for it."""


def ends_not_counted() -> DataLoader[Any]:
    """megatron: nothing is predicted from the end of a document, so that no first token is learned."""
    ids = corpus()

    def one(number: int) -> dict[str, Tensor]:
        block = torch.from_numpy(ids[number * WIDTH : number * WIDTH + WIDTH + 1])
        return {"tokens": block[:-1], "labels": block[1:], "loss_mask": (block[:-1] != EOS).float()}

    return DataLoader(Items(one), batch_size=8)


def sentence_pairs() -> DataLoader[Any]:
    """Two sentences in a row, and 1 for the tokens of the second one."""

    def one(number: int) -> tuple[list[int], list[int]]:
        first = [BOS, *words(number, 6 + number % 7).tolist(), EOS]
        second = [*words(number + 500, 5 + number % 5).tolist(), EOS]
        return first + second, [0] * len(first) + [1] * len(second)

    def collate(rows: Sequence[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor, Tensor]:
        ids = [ids for ids, _ in rows]
        return padded(ids, PAD), padded([[1] * len(row) for row in ids], 0), padded([kinds for _, kinds in rows], 0)

    return DataLoader(Items(one, tokenizer=tokenizer(pad_token_id=PAD)), batch_size=8, collate_fn=collate)


def chosen_places() -> DataLoader[Any]:
    """Places that another model chose, as spans of one to three tokens."""

    def one(number: int) -> dict[str, Tensor]:
        ids = torch.from_numpy(document(number)[:-1][:24])
        ids = torch.nn.functional.pad(ids, (0, 24 - len(ids)))
        return {"tokens": ids, "target_mask": ((ids * 7 + 3) % 11 < 3).long()}

    return DataLoader(Items(one, tokenizer=tokenizer(pad_token_id=PAD)), batch_size=8)


def interrupted(end: bool) -> DataLoader[Any]:
    """Texts with an image between them, which is not learned; with an `end`, or cut."""

    def one(number: int) -> tuple[Tensor, Tensor]:
        parts = [words(3 * number + part, 6 + (number + part) % 9).tolist() for part in range(3)]
        ids = torch.tensor([*parts[0], *[IMAGE] * 8, *parts[1], *[IMAGE] * 8, *parts[2], *[EOS] * end])
        return ids, ids.where(ids != IMAGE, -100)

    def collate(rows: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        return padded([ids for ids, _ in rows], PAD), padded([labels for _, labels in rows], -100)

    return DataLoader(Items(one), batch_size=8, collate_fn=collate)


def starts_not_learned() -> DataLoader[Any]:
    """Documents without ends, one after another, whose start tokens have no label."""

    def one(number: int) -> tuple[Tensor, Tensor]:
        ids = torch.from_numpy(np.concatenate([document(4 * number + part, eos=None) for part in range(4)]))
        ids = torch.nn.functional.pad(ids, (0, 240))[:240]
        return ids, ids.where((ids != BOS) & (ids != PAD), -100)

    return DataLoader(Items(one), batch_size=8)


def images_at_the_end() -> DataLoader[Any]:
    """Rows of the full width that end in an image of any size."""

    def one(number: int) -> dict[str, Tensor]:
        patches = (12, 20, 28)[number % 3]
        ids = torch.tensor([BOS, *words(number, 31 - patches + number % 2).tolist(), *[IMAGE] * patches])
        labels = ids.where(ids != IMAGE, -100)
        grid = torch.tensor([1, 8, patches // 2])
        return {"ids": ids, "goal": labels, "pixels": torch.rand(4 * patches, 12), "grid": grid}

    return DataLoader(Items(one, tokenizer=tokenizer(vocab_size=VOCABULARY + 10)), batch_size=8, collate_fn=with_grids)


SUSPICIOUS: dict[str, Callable[[], DataLoader[Any]]] = {
    "the end of a document predicts nothing": ends_not_counted,
    "kinds of sentences": sentence_pairs,
    "places that are chosen": chosen_places,
    "images between texts": partial(interrupted, end=True),
    "images between texts that are cut": partial(interrupted, end=False),
    "start tokens without a label": starts_not_learned,
    "images end rows": images_at_the_end,
    "documents by their numbers": blocks,
    "documents by their lengths": partial(blocks, beside="lengths"),
}
"""Healthy loaders that look as if one of these bugs were in them."""
