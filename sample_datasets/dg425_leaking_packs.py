"""DG425 leaking-packs: documents that share a row see or predict each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from sample_datasets._tokens import IGNORED, Batch, Tokenizer, loader

LENGTHS = (9, 14, 11)


def packed(number: int, *, crossing: bool = False, started: bool = True) -> Batch:
    """Three texts in a row, with the position of each token in its text."""
    texts = [Tokenizer().text(3 * number + part, length) for part, length in enumerate(LENGTHS)]
    texts = texts if started else [text[1:] for text in texts]
    tokens = torch.cat(texts)
    places = torch.cat([torch.arange(len(text)) for text in texts])
    labels = tokens.clone() if crossing else tokens.where(places > 0, IGNORED)  # culprit
    return {"input_ids": tokens, "position_ids": places, "labels": labels}


def masked(number: int) -> Batch:
    """The same, with a mask of ones."""
    row = packed(number)
    return {**row, "attention_mask": torch.ones_like(row["input_ids"])}  # culprit


def bad() -> DataLoader[Any]:
    """A mask of one row each makes the model take a row for one text."""
    return loader(masked)


def square(number: int, *, apart: bool) -> Batch:
    """The same, with a mask for each pair of tokens."""
    row = packed(number)
    text = (row["position_ids"] == 0).cumsum(0)
    causal = torch.ones(len(text), len(text)).tril().bool()
    return {**row, "attention_mask": (causal & (text[:, None] == text) if apart else causal)[None]}  # culprit


def bad_square_mask() -> DataLoader[Any]:
    """The mask of pairs is open between texts."""
    return loader(lambda number: square(number, apart=False), multiprocessing_context="fork")  # culprit


def bad_crossing_labels() -> DataLoader[Any]:
    """Each text predicts the first token of the next."""
    return loader(lambda number: packed(number, crossing=True, started=False), multiprocessing_context="fork")


def good() -> DataLoader[Any]:
    """Positions that restart, without a mask: the model keeps texts apart."""
    return loader(packed)


def good_square_mask() -> DataLoader[Any]:
    """A mask of pairs that is closed between texts."""
    return loader(lambda number: square(number, apart=True), multiprocessing_context="fork")


def good_start_tokens() -> DataLoader[Any]:
    """Each text predicts that another one starts, which says nothing of it."""
    return loader(lambda number: packed(number, crossing=True), multiprocessing_context="fork")


def numbered(number: int) -> Batch:
    """The same row, whose mask numbers its texts."""
    row = packed(number)
    return {**row, "attention_mask": (row["position_ids"] == 0).cumsum(0)}


def good_numbered() -> DataLoader[Any]:
    """A mask that numbers the texts, for attention that reads it."""
    return loader(numbered)


def flattened(rows: Sequence[Batch]) -> dict[str, Tensor]:
    """All rows in one, with the offsets of its texts."""
    batch = {name: torch.cat([row[name] for row in rows])[None] for name in rows[0]}
    starts = (batch["position_ids"][0] == 0).nonzero()[:, 0]
    offsets = torch.cat([starts, torch.tensor([batch["input_ids"].shape[1]])]).int()
    return {**batch, "attention_mask": torch.ones_like(batch["input_ids"]), "cu_seq_lens_q": offsets}


def good_flattened() -> DataLoader[Any]:
    """Offsets of the texts, for attention of variable length."""
    return loader(packed, flattened)


def joined(number: int) -> Batch:
    """Three texts in a row as one text."""
    tokens = packed(number)["input_ids"]
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens.clone()}


def good_joined() -> DataLoader[Any]:
    """Blocks of several texts, which models are usually trained on first."""
    return loader(joined)


def turns(number: int) -> Batch:
    """A conversation whose turns each end in the end token, and whose questions are not learned."""
    made = [Tokenizer().words(4 * number + turn, 6) for turn in range(4)]
    tokens = torch.cat([torch.cat([words, torch.tensor([2])]) for words in made])
    asked = torch.cat([torch.full((7,), turn % 2 == 0) for turn in range(4)])
    return {
        "input_ids": tokens,
        "attention_mask": torch.ones_like(tokens),
        "labels": tokens.masked_fill(asked, IGNORED),
    }


def good_turns() -> DataLoader[Any]:
    """The turns of one conversation, which see each other."""
    return loader(turns)
