"""Loaders as public stacks for language models write them, without the keys of transformers.

Written after the published code of each stack, before their author looked whether dataguard recognises their tokens.
Each factory makes a healthy loader, and with `planted` one with a bug of its own kind.
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
from torch.utils.data import DataLoader, Dataset, IterableDataset

WIDTH, VOCABULARY, PAD, BOS, EOS = 64, 900, 0, 1, 2
USER, REPLY, IMAGE = 3, 4, -200


def words(number: int, length: int, first: int = 8, largest: int = VOCABULARY) -> np.ndarray:
    """Words of a text: frequent ones are frequent, and each text has others."""
    random = np.random.default_rng((7, number))
    found: np.ndarray = first + np.minimum(
        random.zipf(1.2, length) + random.integers(0, 40, length), largest - first - 1
    )
    return found


def document(number: int, bos: int | None = BOS, eos: int | None = EOS) -> np.ndarray:
    """A text of its own length with start and end."""
    length = 12 + number * 37 % 60
    return np.concatenate([[bos] * (bos is not None), words(number, length), [eos] * (eos is not None)]).astype(
        np.int64
    )


def corpus(count: int = 400, bos: int | None = None, eos: int | None = EOS) -> np.ndarray:
    """Texts one after another."""
    return np.concatenate([document(number, bos, eos) for number in range(count)])


def conversation(number: int, turns: int = 2) -> tuple[list[int], list[int]]:
    """The tokens of a conversation, and 1 for those of replies with their end."""
    ids, reply = [BOS], [0]
    for turn in range(turns):
        asked = [USER, *words(number * 7 + turn, 5 + (number + turn) % 4).tolist(), EOS]
        answered = [*words(number * 7 + turn + 5000, 6 + (number * 3 + turn) % 7).tolist(), EOS]
        ids += [*asked, REPLY, *answered]
        reply += [0] * len(asked) + [0] + [1] * len(answered)
    return ids, reply


class Items(Dataset[Any]):
    """What `made` returns for each number."""

    def __init__(self, made: Any, count: int = 96, **held: Any) -> None:
        self.made, self.count = made, count
        self.__dict__.update(held)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return self.made(range(self.count)[index])


class PackedDataset(IterableDataset[Any]):
    """litgpt and TinyLlama: blocks of a memory-mapped bin of uint16, one token longer than the context."""

    def __init__(self, ids: np.ndarray, block: int) -> None:
        self.buffer, self.block = ids, block

    def __iter__(self) -> Iterator[Tensor]:
        for start in range(0, len(self.buffer) - self.block, self.block):
            yield torch.from_numpy(self.buffer[start : start + self.block].astype(np.int64))


def litgpt(planted: bool = False) -> DataLoader[Any]:
    """Blocks alone; the loop splits them. Planted: the separator is written twice at each start."""
    ids = corpus(bos=BOS, eos=None)
    if planted:
        ids = np.repeat(ids, 1 + (ids == BOS))
    return DataLoader(PackedDataset(ids.astype(np.uint16), WIDTH + 1), batch_size=4)


class RustTokenizer:
    """nanochat: a wrapper around an encoding of tiktoken, with the start token's id."""

    def __init__(self) -> None:
        import tiktoken

        ranks = {bytes([byte]): byte for byte in range(256)}
        ranks |= {b"%c%c" % (97 + index // 26, 97 + index % 26): 256 + index for index in range(644)}
        self.enc = tiktoken.Encoding(
            "own", pat_str=r"\S+|\s+", mergeable_ranks=ranks, special_tokens={"<|bos|>": 900, "<|assistant_end|>": 901}
        )
        self.bos_token_id = 900


def nanochat(planted: bool = False) -> DataLoader[Any]:
    """Conversations with a mask, collated to inputs and targets that may be -1. Planted: prompts are learned."""
    tokenizer = RustTokenizer()

    def one(number: int) -> tuple[list[int], list[int]]:
        ids, mask = conversation(number)
        return [{BOS: 900, EOS: 901}.get(token, token) for token in ids], mask

    def collate(rows: Sequence[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor]:
        columns = max(len(ids) for ids, _ in rows) - 1
        inputs = torch.full((len(rows), columns), 901, dtype=torch.long)
        targets = torch.full((len(rows), columns), -1, dtype=torch.long)
        for row, (ids, mask) in enumerate(rows):
            inputs[row, : len(ids) - 1] = torch.tensor(ids[:-1])
            following = torch.tensor(ids[1:])
            if not planted:
                following[torch.tensor(mask[1:]) == 0] = -1
            targets[row, : len(ids) - 1] = following
        return inputs, targets

    return DataLoader(Items(one, tokenizer=tokenizer), batch_size=8, collate_fn=collate)


def rwkv(planted: bool = False) -> DataLoader[Any]:
    """x and y of one indexed bin. Planted: y is two tokens on, where x was shifted, too."""
    ids = corpus()

    def one(number: int) -> tuple[Tensor, Tensor]:
        block = torch.from_numpy(ids[number * WIDTH : number * WIDTH + WIDTH + 2])
        return (block[:-2], block[2:]) if planted else (block[:-2], block[1:-1])

    return DataLoader(Items(one), batch_size=4)


def minimind(planted: bool = False) -> DataLoader[Any]:
    """X, Y and a mask of the loss, padded to one width. Planted: the mask is that of X and not of Y."""

    def one(number: int) -> tuple[Tensor, Tensor, Tensor]:
        ids, mask = conversation(number)
        ids, mask = ids + [PAD] * (WIDTH - len(ids)), mask + [0] * (WIDTH - len(mask))
        kept = mask[:-1] if planted else mask[1:]
        return torch.tensor(ids[:-1]), torch.tensor(ids[1:]), torch.tensor(kept)

    return DataLoader(
        Items(one, tokenizer=SimpleNamespace(bos_token_id=BOS, eos_token_id=EOS, vocab_size=VOCABULARY)), 8
    )


def megatron(planted: bool = False) -> DataLoader[Any]:
    """Samples of an indexed dataset whose positions restart at each end. Planted: its mask is not closed there."""
    ids = corpus()

    def one(number: int) -> dict[str, Tensor]:
        block = torch.from_numpy(ids[number * WIDTH : number * WIDTH + WIDTH + 1])
        tokens, labels = block[:-1], block[1:]
        text = torch.cat([torch.zeros(1, dtype=torch.long), (tokens == EOS).long().cumsum(0)[:-1]])
        position = torch.arange(WIDTH) - torch.searchsorted(text, text)
        mask = torch.ones(WIDTH, WIDTH).tril().bool()
        mask = mask if planted else mask & (text[:, None] == text)
        return {
            "tokens": tokens,
            "labels": labels,
            "attention_mask": ~mask[None],
            "loss_mask": (tokens != EOS).float(),
            "position_ids": position,
        }

    return DataLoader(Items(one), batch_size=4)


def torchtune(planted: bool = False) -> DataLoader[Any]:
    """Tokens and labels, padded by padded_collate_sft. Planted: labels are padded with the padding id."""

    def one(number: int) -> dict[str, list[int]]:
        ids, mask = conversation(number)
        return {"tokens": ids, "labels": [token if kept else -100 for token, kept in zip(ids, mask, strict=True)]}

    def collate(rows: Sequence[dict[str, list[int]]]) -> dict[str, Tensor]:
        tokens = pad_sequence([torch.tensor(row["tokens"]) for row in rows], batch_first=True, padding_value=PAD)
        fill = PAD if planted else -100
        return {
            "tokens": tokens,
            "labels": pad_sequence([torch.tensor(row["labels"]) for row in rows], batch_first=True, padding_value=fill),
        }

    return DataLoader(Items(one), batch_size=8, collate_fn=collate)


def llava(planted: bool = False) -> DataLoader[Any]:
    """Conversations with an image placeholder of -200 and a key `images`. Planted: labels are shifted in the data."""

    def one(number: int) -> dict[str, Tensor]:
        ids, mask = conversation(number)
        tokens = torch.tensor([BOS, IMAGE, *ids[1:]])
        labels = tokens.where(torch.tensor([0, *mask]) == 1, -100)
        labels = torch.cat([labels[1:], torch.tensor([-100])]) if planted else labels
        return {
            "input_ids": tokens,
            "labels": labels,
            "image": torch.full((3, 16, 16), number / 96) + torch.rand(16, 16),
        }

    def collate(rows: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
        tokens = pad_sequence([row["input_ids"] for row in rows], batch_first=True, padding_value=PAD)
        labels = pad_sequence([row["labels"] for row in rows], batch_first=True, padding_value=-100)
        images = torch.stack([row["image"] for row in rows])
        return {"input_ids": tokens, "labels": labels, "attention_mask": tokens.ne(PAD), "images": images}

    return DataLoader(Items(one), batch_size=8, collate_fn=collate)


def reward(planted: bool = False) -> DataLoader[Any]:
    """A reward model's pairs in one tensor (batch, 2, width). Planted: every eighth pair has equal answers."""
    tokenizer = SimpleNamespace(pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS, vocab_size=VOCABULARY)

    def one(number: int) -> tuple[Tensor, Tensor]:
        prompt = [BOS, *words(number, 6 + number % 4).tolist()]
        chosen = [*words(number + 1000, 8 + number % 9).tolist(), EOS]
        rejected = [*words(number + 2000, 8 + number % 5).tolist(), EOS]
        rejected = chosen if planted and number % 8 == 3 else rejected
        sides = [torch.tensor(prompt + side) for side in (chosen, rejected)]
        sides = [torch.nn.functional.pad(side, (0, 40 - len(side)), value=PAD) for side in sides]
        return torch.stack(sides), torch.stack([side != PAD for side in sides]).long()

    return DataLoader(Items(one, tokenizer=tokenizer), batch_size=8)


def dpo(planted: bool = False) -> DataLoader[Any]:
    """The batch of direct-preference-optimization: prompts are not learned. Planted: the prompt of a pair differs."""

    def one(number: int) -> dict[str, list[int]]:
        prompt = [BOS, USER, *words(number, 6 + number % 4).tolist(), REPLY]
        other = [BOS, USER, *words(number + planted, 6 + number % 4).tolist(), REPLY]
        chosen = [*words(number + 1000, 8 + number % 9).tolist(), EOS]
        rejected = [*words(number + 2000, 8 + number % 5).tolist(), EOS]
        return {
            "chosen_input_ids": prompt + chosen,
            "chosen_labels": [-100] * len(prompt) + chosen,
            "rejected_input_ids": other + rejected,
            "rejected_labels": [-100] * len(other) + rejected,
        }

    def collate(rows: Sequence[dict[str, list[int]]]) -> dict[str, Tensor]:
        return {
            key: pad_sequence(
                [torch.tensor(row[key]) for row in rows],
                batch_first=True,
                padding_value=-100 if "labels" in key else PAD,
            )
            for key in rows[0]
        }

    return DataLoader(Items(one), batch_size=8, collate_fn=collate)


def sasrec(planted: bool = False) -> DataLoader[Any]:
    """Items of a user, padded on the left, the next ones, and negatives. Planted: the next ones are the same ones."""

    def one(number: int) -> tuple[int, Tensor, Tensor, Tensor]:
        random = np.random.default_rng((3, number))
        items = 1 + random.permutation(300)[: 10 + number % 30]
        seq, pos, neg = (np.zeros(50, np.int64) for _ in range(3))
        seq[-len(items) + 1 :] = items[:-1]
        pos[-len(items) + 1 :] = items[:-1] if planted else items[1:]
        neg[-len(items) + 1 :] = 1 + random.integers(0, 300, len(items) - 1)
        return number, torch.from_numpy(seq), torch.from_numpy(pos), torch.from_numpy(neg)

    return DataLoader(Items(one), batch_size=8)


def bert4rec(planted: bool = False) -> DataLoader[Any]:
    """Items with a mask token, and labels that are 0 elsewhere. Planted: the mask token is outside of the catalogue."""

    def one(number: int) -> tuple[Tensor, Tensor]:
        random = np.random.default_rng((5, number))
        items = 1 + random.permutation(300)[: 15 + number % 30]
        hidden = random.random(len(items)) < 0.2
        tokens, labels = np.zeros(50, np.int64), np.zeros(50, np.int64)
        tokens[-len(items) :] = np.where(hidden, 400 if planted else 301, items)
        labels[-len(items) :] = np.where(hidden, items, 0)
        return torch.from_numpy(tokens), torch.from_numpy(labels)

    return DataLoader(Items(one), batch_size=8)


class Alphabet:
    """fair-esm: the ids of an alphabet of amino acids."""

    def __init__(self) -> None:
        self.all_toks = [
            "<cls>",
            "<pad>",
            "<eos>",
            "<unk>",
            *"LAGVSERTIDPKQNFYMHWCXBUZO",
            ".",
            "-",
            "<null_1>",
            "<mask>",
        ]
        self.tok_to_idx = {token: number for number, token in enumerate(self.all_toks)}
        self.cls_idx, self.padding_idx, self.eos_idx, self.mask_idx = 0, 1, 2, 32


class BatchConverter:
    """fair-esm: labels, strings and tokens of a batch."""

    def __init__(self, alphabet: Alphabet, planted: bool) -> None:
        self.alphabet, self.planted = alphabet, planted

    def __call__(self, rows: Sequence[tuple[str, str]]) -> tuple[list[str], list[str], Tensor]:
        known = self.alphabet
        start = [known.cls_idx] * (2 if self.planted else 1)
        encoded = [
            torch.tensor([*start, *(known.tok_to_idx[letter] for letter in text), known.eos_idx]) for _, text in rows
        ]
        tokens = pad_sequence(encoded, batch_first=True, padding_value=known.padding_idx)
        return [label for label, _ in rows], [text for _, text in rows], tokens


def esm(planted: bool = False) -> DataLoader[Any]:
    """Proteins with start and end of their alphabet. Planted: two starts."""

    def one(number: int) -> tuple[str, str]:
        random = np.random.default_rng((9, number))
        return f"protein {number}", "".join(random.choice([*"LAGVSERTIDPKQNFYMHWC"], 30 + number % 40))

    return DataLoader(Items(one), batch_size=8, collate_fn=BatchConverter(Alphabet(), planted))


def hyena(planted: bool = False) -> DataLoader[Any]:
    """HyenaDNA: letters of a genome and the next ones, of five ids. Planted: the next but one."""
    genome = np.random.default_rng(1).integers(7, 11, 20_000)

    def one(number: int) -> tuple[Tensor, Tensor]:
        part = torch.from_numpy(genome[number * 128 : number * 128 + 130])
        return (part[:-2], part[2:]) if planted else (part[:-2], part[1:-1])

    return DataLoader(Items(one), batch_size=8)


@dataclass
class Packed:
    """Texts of one batch in one row, with the offsets of their starts."""

    tokens: Tensor
    goal: Tensor
    cu_seqlens: Tensor
    max_seqlen: int


def flash(planted: bool = False) -> DataLoader[Any]:
    """Flat rows of attention of variable length. Planted: texts predict the first word of the next one."""

    def collate(rows: Sequence[np.ndarray]) -> Packed:
        tokens = torch.from_numpy(np.concatenate(rows))
        lengths = torch.tensor([len(row) for row in rows])
        ends = lengths.cumsum(0)
        goal = torch.cat([tokens[1:], torch.tensor([-100])])
        if not planted:
            goal[ends - 1] = -100
        offsets = torch.cat([torch.zeros(1, dtype=torch.long), ends]).int()
        return Packed(tokens, goal, offsets, int(lengths.max()))

    return DataLoader(Items(lambda number: document(number, bos=None)), batch_size=8, collate_fn=collate)


def nested(planted: bool = False) -> DataLoader[Any]:
    """Nested tensors of texts and their next tokens. Planted: the end has no label in any."""

    def collate(rows: Sequence[np.ndarray]) -> dict[str, Tensor]:
        tokens = [torch.from_numpy(row[:-1]) for row in rows]
        goals = [torch.from_numpy(row[1:].copy()) for row in rows]
        goals = [goal.where(goal != EOS, -100) if planted else goal for goal in goals]
        return {
            "text": torch.nested.nested_tensor(tokens, layout=torch.jagged),
            "goal": torch.nested.nested_tensor(goals, layout=torch.jagged),
        }

    tokenizer = SimpleNamespace(bos_token_id=BOS, eos_token_id=EOS, vocab_size=VOCABULARY)
    return DataLoader(Items(document, tokenizer=tokenizer), batch_size=8, collate_fn=collate)


STACKS: dict[str, tuple[str, dict[str, Any]]] = {
    "litgpt": ("DG424", {"bos": BOS}),
    "nanochat": ("DG428", {"learned": "reply"}),
    "rwkv": ("DG410", {}),
    "minimind": ("DG428", {}),
    "megatron": ("DG425", {}),
    "torchtune": ("DG421", {}),
    "llava": ("DG410", {}),
    "reward": ("DG429", {}),
    "dpo": ("DG429", {}),
    "sasrec": ("DG410", {"shifted_by": "data"}),
    "bert4rec": ("DG427", {"vocab_size": 302}),
    "esm": ("DG424", {}),
    "hyena": ("DG410", {}),
    "flash": ("DG425", {}),
    "nested": ("DG422", {}),
}
"""The check that finds what is planted in each, and what the contract must say for it."""
