"""Labels of a language model, compared with the tokens at and after their positions, in one real batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from dataguard.lab.core.leaves import array_of, iter_leaves
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.spy.drive import announce_epoch
from dataguard.target.variants import Loader

MARKS = frozenset({"attention_mask", "position_ids"})
"""Keys that tell the batch of a model of transformers from one of tokens and labels alone."""
CAUSAL = MARKS | {"input_ids", "labels", "token_type_ids", "inputs_embeds", "num_items_in_batch", "logits_to_keep"}
"""The arguments of such models that shift labels; others take a mask for the loss, or tokens of a decoder."""
IGNORED = -100
"""The label of tokens that count for no loss."""


@dataclass(frozen=True, slots=True)
class LabelShift:
    """How many labels of a batch were compared, and how many are the token `after` theirs, or the one `at` theirs.

    `tokens` counts the different ones among them.
    """

    compared: int
    after: int
    at: int
    tokens: int


def find_shift(loader: Loader, group: str) -> LabelShift | None:
    """Read one batch, and compare its labels with its tokens; padding, and what counts for no loss, is left out."""
    announce_epoch(loader, 0)
    with gate("iterate"):
        batch = next(iter(loader), None)
    leaves = {path: array_of(leaf) for path, leaf in iter_leaves(batch) if isinstance(leaf, torch.Tensor | np.ndarray)}
    names = (f"{group}['input_ids']", f"{group}['labels']", f"{group}['attention_mask']")
    tokens, labels, mask = (leaves.get(name) for name in names)
    if tokens is None or labels is None or tokens.shape != labels.shape or tokens.ndim != 2:
        return None
    counts = labels[:, :-1] != IGNORED
    if mask is not None and mask.shape == tokens.shape:
        counts &= (mask[:, 1:] == 1) & (mask[:, :-1] == 1)
    labelled = labels[:, :-1][counts]
    after, at = tokens[:, 1:][counts], tokens[:, :-1][counts]
    return LabelShift(
        len(labelled), int((labelled == after).sum()), int((labelled == at).sum()), len(np.unique(labelled))
    )


def group_of(paths: Sequence[str]) -> str | None:
    """The path of the mapping with tokens, labels and a mask or positions, all whose keys a causal model takes."""
    for path in paths:
        group = path.removesuffix("['labels']")
        if group != path:
            keys = {other.removeprefix(group) for other in paths if other.startswith(f"{group}['")}
            names = {key.removeprefix("['").removesuffix("']") for key in keys}
            if "input_ids" in names <= CAUSAL and names & MARKS:
                return group
    return None
