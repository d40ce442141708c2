"""Which batches are for a causal language model, and how their labels compare with their tokens."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from dataguard.lab.batches.label_shift import LabelShift, find_shift, group_of

TOKENS = torch.tensor([[5, 7, 9, 4, 6, 8]])
NEXT = torch.tensor([[7, 9, 4, 6, 8, -100]])


@pytest.mark.parametrize(
    ("keys", "group"),
    [
        (("input_ids", "attention_mask", "labels"), ""),
        (("input_ids", "position_ids", "labels"), ""),
        (("input_ids", "labels"), None),
        (("input_ids", "attention_mask"), None),
        (("input_ids", "attention_mask", "labels", "loss_mask"), None),
        (("input_ids", "attention_mask", "labels", "decoder_input_ids"), None),
        (("tokens", "attention_mask", "labels"), None),
    ],
)
def test_all_keys_must_be_those_of_a_model_that_shifts(keys: tuple[str, ...], group: str | None) -> None:
    paths = [f"['{key}']" for key in keys]
    assert group_of(paths) == group
    nested = None if group is None else "['text']"
    assert group_of([f"['text']{path}" for path in paths] + ["['image']"]) == nested


@pytest.mark.parametrize(
    ("batch", "shift"),
    [
        ({"input_ids": TOKENS, "labels": NEXT}, LabelShift(5, 5, 0, 5)),
        ({"input_ids": TOKENS, "labels": TOKENS}, LabelShift(5, 0, 5, 5)),
        ({"input_ids": TOKENS, "labels": NEXT[:, :3]}, None),
        ({"input_ids": TOKENS[0], "labels": NEXT[0]}, None),
        ({"input_ids": TOKENS, "labels": torch.ones_like(TOKENS)}, LabelShift(5, 0, 0, 1)),
        (
            {"input_ids": TOKENS, "labels": NEXT, "attention_mask": torch.tensor([[1, 1, 1, 1, 0, 0]])},
            LabelShift(3, 3, 0, 3),
        ),
    ],
)
def test_labels_are_compared_with_tokens(batch: dict[str, Any], shift: LabelShift | None) -> None:
    assert find_shift(DataLoader([batch], batch_size=None), "") == shift  # type: ignore[arg-type]
