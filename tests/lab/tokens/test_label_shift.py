"""Which batches are for a causal language model, and how their labels compare with their tokens."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dataguard.lab.tokens.token_observations import LabelShift, find_shift, is_for_causal_model
from dataguard.lab.tokens.token_roles import leaves_in
from dataguard.lab.tokens.token_rows import rows_of

TOKENS = torch.tensor([[5, 7, 9, 4, 6, 8]])
NEXT = torch.tensor([[7, 9, 4, 6, 8, -100]])


@pytest.mark.parametrize(
    ("keys", "tokenizer", "causal"),
    [
        (("input_ids", "attention_mask", "labels"), False, True),
        (("input_ids", "position_ids", "labels"), False, True),
        (("input_ids", "labels"), False, False),
        (("input_ids", "labels"), True, True),
        (("input_ids", "attention_mask"), True, False),
        (("input_ids", "attention_mask", "labels", "loss_mask"), True, False),
        (("input_ids", "attention_mask", "labels", "decoder_input_ids"), True, False),
        (("tokens", "attention_mask", "labels"), True, False),
    ],
)
def test_all_keys_must_be_those_of_a_model_that_shifts(keys: tuple[str, ...], tokenizer: bool, causal: bool) -> None:
    assert is_for_causal_model(keys, for_models=tokenizer) == causal


@pytest.mark.parametrize(
    ("batch", "shift"),
    [
        ({"input_ids": TOKENS, "labels": NEXT}, LabelShift(5, 5, 0, 5)),
        ({"input_ids": TOKENS, "labels": TOKENS}, LabelShift(5, 0, 5, 5)),
        ({"input_ids": TOKENS, "labels": NEXT[:, :3]}, None),
        ({"input_ids": TOKENS[0], "labels": NEXT[0]}, LabelShift(5, 5, 0, 5)),
        ({"input_ids": TOKENS, "labels": torch.ones_like(TOKENS)}, LabelShift(5, 0, 0, 1)),
        (
            {"input_ids": TOKENS, "labels": NEXT, "attention_mask": torch.tensor([[1, 1, 1, 1, 0, 0]])},
            LabelShift(3, 3, 0, 3),
        ),
    ],
)
def test_labels_are_compared_with_tokens(batch: dict[str, Any], shift: LabelShift | None) -> None:
    assert find_shift(rows_of(leaves_in(batch), 0, {})) == shift
