"""Labels of a language model, compared with the tokens at and after their positions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from dataguard.lab.tokens.token_rows import IGNORED, TokenRow

MARKS = frozenset({"attention_mask", "position_ids"})
"""Keys that tell the batch of a model of transformers from one of tokens and labels alone."""
CAUSAL = MARKS | {"input_ids", "labels", "token_type_ids", "inputs_embeds", "num_items_in_batch", "logits_to_keep"}
"""The arguments of such models that shift labels; others take a mask for the loss, or tokens of a decoder."""


@dataclass(frozen=True, slots=True)
class LabelShift:
    """How many labels of batches were compared, and how many are the token `after` theirs, or the one `at` theirs.

    `tokens` counts the different ones among them.
    """

    compared: int
    after: int
    at: int
    tokens: int


def find_shift(rows: Sequence[TokenRow]) -> LabelShift | None:
    """Compare the labels of rows with their tokens; padding, and what counts for no loss, is left out."""
    pairs = [(row, row.labels) for row in rows if row.labels is not None and row.labels.shape == row.tokens.shape]
    if not pairs:
        return None
    labelled, after, at = [], 0, 0
    for row, labels in pairs:
        counts = (labels[:-1] != IGNORED) & row.inside[1:] & row.inside[:-1]
        kept = labels[:-1][counts]
        labelled.append(kept)
        after += int((kept == row.tokens[1:][counts]).sum())
        at += int((kept == row.tokens[:-1][counts]).sum())
    every = np.concatenate(labelled)
    return LabelShift(len(every), after, at, len(np.unique(every)))


def is_for_causal_model(keys: Collection[str], *, for_models: bool) -> bool:
    """Whether a batch has just the arguments of models that shift labels.

    Without a mask or positions they are, if they are made `for_models` of a library that the user's code has loaded.
    """
    return {"input_ids", "labels"} <= set(keys) <= CAUSAL and (bool(MARKS & set(keys)) or for_models)
