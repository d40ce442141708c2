"""Which leaf plays which part where no name says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dataguard.lab.tokens.token_roles import KnownIds, leaves_in, roles_by_content

ROWS, WIDTH, PAD, BOS, EOS = 16, 32, 0, 1, 2
KNOWN = KnownIds(600, frozenset({PAD, BOS, EOS}))
RANDOM = np.random.default_rng(5)


def words(width: int = WIDTH, largest: int = 600, rows: int = ROWS) -> Tensor:
    return torch.from_numpy(RANDOM.integers(3, largest, (rows, width)))


LENGTHS = torch.arange(ROWS) % 9 + 16
SEEN = torch.arange(WIDTH) < LENGTHS[:, None]
BLOCKS = words(WIDTH + 1)
X, Y = BLOCKS[:, :-1], BLOCKS[:, 1:]
ENDED = words().scatter(1, LENGTHS[:, None] - 1, EOS) * SEEN
STARTED = torch.cat([torch.full((ROWS, 1), BOS), ENDED[:, :-1]], 1)
REPLY = torch.arange(WIDTH) >= 6
FLIPPED = ENDED.flip(1)
PROTEIN = words(largest=24) * SEEN
CHOSEN = torch.from_numpy(RANDOM.random((ROWS, WIDTH)) < 0.15) & SEEN


@dataclass
class Example:
    """A batch as a dataclass."""

    ids: Tensor
    goal: Tensor


STACKS: dict[str, tuple[Any, KnownIds | None, dict[str, str]]] = {
    "nanoGPT: x and y": ((X, Y), None, {"tokens": "[0]", "labels": "[1]"}),
    "RWKV: int32 blocks": ((X.int(), Y.int()), None, {"tokens": "[0]", "labels": "[1]"}),
    "nanochat: ignored prompts are -1": (
        (X, Y.where(REPLY, torch.tensor(-1))),
        None,
        {"tokens": "[0]", "labels": "[1]"},
    ),
    "minimind: a mask of the loss that hides padding": (
        (ENDED[:, :-1], ENDED[:, 1:], SEEN[:, 1:].long()),
        None,
        {"tokens": "[0]", "labels": "[1]", "loss mask": "[2]"},
    ),
    "minimind: a mask of the loss that hides prompts": (
        (X, Y, REPLY.expand(ROWS, -1).long()),
        None,
        {"tokens": "[0]", "labels": "[1]", "loss mask": "[2]"},
    ),
    "TinyLlama and litgpt: blocks beside a tokenizer": (
        words(2 * WIDTH).masked_fill(torch.from_numpy(RANDOM.random((ROWS, 2 * WIDTH)) < 0.05), EOS),
        KNOWN,
        {"tokens": ""},
    ),
    "megatron": (
        {"tokens": X, "labels": Y, "loss_mask": torch.ones(ROWS, WIDTH), "position_ids": torch.arange(WIDTH) + 0 * X},
        None,
        {"tokens": "['tokens']", "labels": "['labels']", "loss mask": "['loss_mask']", "positions": "['position_ids']"},
    ),
    "torchtune": (
        {"tokens": ENDED, "labels": ENDED.where(SEEN, torch.tensor(-100))},
        None,
        {"tokens": "['tokens']", "labels": "['labels']"},
    ),
    "a dataclass": (Example(X, Y), None, {"tokens": ".ids", "labels": ".goal"}),
    "reward pairs": (
        {"good": STARTED, "good_attn": (STARTED != PAD).long(), "bad": STARTED.flip(0)},
        KNOWN,
        {"tokens": "['good']", "mask": "['good_attn']"},
    ),
    "SASRec: padded on the left": (
        (torch.arange(ROWS), FLIPPED[:, :-1], FLIPPED[:, 1:], words(WIDTH - 1)),
        None,
        {"tokens": "[1]", "labels": "[2]"},
    ),
    "masked tokens, and labels of all": (
        (X.masked_fill(CHOSEN, 700), X),
        KNOWN,
        {"tokens": "[0]", "labels": "[1]"},
    ),
    "proteins with masked positions": (
        {
            "seq": PROTEIN.masked_fill(CHOSEN, 24),
            "pad": ~SEEN,
            "goal": PROTEIN.where(CHOSEN, torch.tensor(-100)),
        },
        KnownIds(25, frozenset({PAD, 24})),
        {"tokens": "['seq']", "labels": "['goal']", "padding": "['pad']"},
    ),
}


@pytest.mark.parametrize("name", STACKS)
def test_stacks_of_language_models_are_recognized(name: str) -> None:
    batch, known, roles = STACKS[name]
    assert roles_by_content([leaves_in(batch)] * 2, known, {}) == roles


SORTED = words().sort(1).values
OTHERS: dict[str, Any] = {
    "class indices of time steps": (words(largest=7), words(largest=7)),
    "many labels of an image": (torch.rand(ROWS, 3, 8, 8), (words() % 9 == 0).long()),
    "segmentation maps": (words(64 * 64).reshape(ROWS, 64, 64), words(64 * 64).reshape(ROWS, 64, 64)),
    "codes of an image": {"codes": words(256) - 3, "class": torch.arange(ROWS)},
    "neighbours, padded and masked": {"neighbours": words(), "mask": SEEN.long(), "distance": torch.rand(ROWS, WIDTH)},
    "columns of a table": {"columns": words(largest=50) % torch.arange(3, WIDTH + 3), "target": torch.rand(ROWS)},
    "sorted indices and the next ones": (SORTED[:, :-1], SORTED[:, 1:]),
    "positions": (torch.arange(WIDTH) + 0 * X, torch.arange(1, WIDTH + 1) + 0 * X),
    "slow states and the next ones": ((X // 200).sort(1).values, (Y // 200).sort(1).values),
    "floats": (X.float(), Y.float()),
}


@pytest.mark.parametrize("known", [None, KnownIds(600, frozenset({1, 2}))], ids=["alone", "beside a tokenizer"])
@pytest.mark.parametrize("name", OTHERS)
def test_other_integers_are_no_tokens(name: str, known: KnownIds | None) -> None:
    assert roles_by_content([leaves_in(OTHERS[name])] * 2, known, {}) == {}


def test_the_contract_names_what_content_does_not_say() -> None:
    batch = {"x": X, "y": Y, "keep": REPLY.expand(ROWS, -1), "other": words()}
    roles = roles_by_content([leaves_in(batch)], None, {"labels": "other", "mask": "keep"})
    assert (roles["tokens"], roles["labels"], roles["mask"]) == ("['x']", "['other']", "['keep']")
