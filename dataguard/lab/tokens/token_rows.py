"""The rows of batches of tokens, in one form: the tokens, and what the labels, masks and positions say of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.leaves import array_of, iter_leaves
from dataguard.lab.tokens.roles import group_of, roles_of

IGNORED = -100
"""The ignore index of torch's cross entropy, which rows have wherever a label counts for no loss."""
FEWEST = 32
"""The fewest labels by which it is known whether they are shifted."""
AGREE = 0.95
"""The share of labels that are a token of their row at one distance; tokens that a collator drops spoil few."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenRow:
    """One row: `tokens` are integers of shape [width], and all else has that shape or is None.

    `inside` is where the mask lets the model see; all of it without a mask. `targets` are the labels of the tokens in
    their own places (a label that is shifted by one is moved back), `labels` as they come, of any length; both are
    `IGNORED` where nothing is learned. `stored` are the labels as the batch has them. `starts` are where later
    documents of a packed row begin. `blocks`: the batch says so to the model, or keeps documents apart; `opens`: its
    mask lets documents see each other.
    """

    batch: int
    row: int
    tokens: np.ndarray
    inside: np.ndarray
    masked: bool
    labels: np.ndarray | None = None
    stored: np.ndarray | None = None
    targets: np.ndarray | None = None
    positions: np.ndarray | None = None
    starts: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    blocks: bool = False
    opens: bool = False
    image: bool = False

    @property
    def text(self) -> np.ndarray:
        """The tokens that the model sees."""
        return np.asarray(self.tokens[self.inside])


def rows_of(batch: Any, number: int, contract: Mapping[str, Any]) -> list[TokenRow]:
    """The rows of one batch; [] if its tokens are no integers of one or two dimensions."""
    leaves = {path: array_of(leaf) for path, leaf in iter_leaves(batch) if _is_array(leaf)}
    roles = roles_of(leaves, contract)
    found = {role: _rowed(leaves[path]) for role, path in roles.items()}
    tokens = found.get("tokens")
    if tokens is None or tokens.ndim != 2 or tokens.dtype.kind not in "iu":
        return []
    tokens = tokens.astype(np.int64)
    alike = {role: array for role, array in found.items() if array.shape == tokens.shape}
    mask, positions = alike.get("mask"), alike.get("positions")
    inside = mask != 0 if mask is not None else np.ones(tokens.shape, bool)
    stored, labels = _labels(found, len(tokens), ignored_of(contract))
    extra = {path: array for path, array in leaves.items() if path not in roles.values()}
    beside = {path: array for path, array in extra.items() if group_of(path) == group_of(roles["tokens"])}
    image = any(_is_image(array) for array in extra.values())
    rows = []
    for row, ids in enumerate(tokens):
        places = positions[row] if positions is not None else None
        starts = _starts(places, inside[row], beside if len(tokens) == 1 else {})
        others = [array for array in beside.values() if array.dtype.kind in "iu"]
        known = [array[row] for array in others if array.shape == tokens.shape] + [
            array for array in others if len(tokens) == 1
        ]
        known += [mask[row]] if mask is not None else []
        rows.append(
            TokenRow(
                number,
                row,
                ids,
                inside[row],
                mask is not None,
                labels[row] if labels is not None else None,
                stored[row] if stored is not None else None,
                positions=places,
                starts=starts,
                blocks=any(_marks(array, starts) for array in known) or _separates(found.get("mask"), row, starts),
                opens=_opens(found.get("mask"), row, starts, tokens.shape[1]),
                image=image,
            )
        )
    return rows


def ignored_of(contract: Mapping[str, Any]) -> tuple[int, ...]:
    """The labels that the contract says are ignored."""
    given = contract.get("ignore_index", ())
    return tuple(given) if isinstance(given, Collection) else (given,)


def lag_of(rows: Sequence[TokenRow]) -> int | None:
    """0 if labels are the tokens in their own places, 1 if they are the tokens after; None if neither, or if unknown.

    In rows of one repeated token both hold, and labels that are not shifted are what models of libraries take.
    """
    pairs = [(row, row.labels) for row in rows if row.labels is not None and row.labels.shape == row.tokens.shape]
    compared = [(row.tokens, labels[:-1], _compared(row, labels)) for row, labels in pairs]
    count = sum(int(counts.sum()) for _, _, counts in compared)
    for lag in (0, 1):
        equal = sum(
            int((labels[counts] == tokens[lag : len(labels) + lag][counts]).sum())
            for tokens, labels, counts in compared
        )
        if count >= FEWEST and equal >= AGREE * count:
            return lag
    return None


def _compared(row: TokenRow, labels: np.ndarray) -> np.ndarray:
    """Which labels are compared: not those before another document, which may be the end of their own."""
    counts = np.asarray(labels[:-1] != IGNORED)
    counts[row.starts - 1] = False
    return counts


def targets_of(row: TokenRow, lag: int | None) -> np.ndarray | None:
    """The label of each token in its place; None if labels are no tokens of the row."""
    if lag is None or row.labels is None or row.labels.shape != row.tokens.shape:
        return None
    targets = row.labels if lag == 0 else np.concatenate([[IGNORED], row.labels[:-1]])
    foreign = row.starts[targets[row.starts] != row.tokens[row.starts]]
    if len(foreign):
        targets = targets.copy()
        targets[foreign] = IGNORED
    return targets


def _is_array(leaf: Any) -> bool:
    flat = isinstance(leaf, list | tuple) and all(isinstance(item, int) for item in leaf)
    plain = isinstance(leaf, torch.Tensor) and not leaf.is_nested and leaf.layout is torch.strided
    return flat or plain or (isinstance(leaf, np.ndarray) and leaf.dtype != object)


def _rowed(array: np.ndarray) -> np.ndarray:
    return array[None] if array.ndim == 1 else array


def _labels(
    found: Mapping[str, np.ndarray], rows: int, ignored: Sequence[int]
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The labels as they are, and with `IGNORED` for all that count for no loss."""
    stored, loss_mask = found.get("labels"), found.get("loss mask")
    if stored is None or stored.ndim != 2 or stored.dtype.kind not in "iu" or len(stored) != rows:
        return None, None
    stored = stored.astype(np.int64)
    labels = np.where((stored < 0) | np.isin(stored, ignored), IGNORED, stored)
    if loss_mask is not None and loss_mask.shape == labels.shape:
        labels = np.where(loss_mask == 0, IGNORED, labels)
    return stored, labels


def _starts(positions: np.ndarray | None, inside: np.ndarray, beside: Mapping[str, np.ndarray]) -> np.ndarray:
    """Where positions restart among tokens that the model sees, or what offsets beside a single row say."""
    if positions is not None:
        again = (positions[1:] <= positions[:-1]) & (positions[1:] == positions[0]) & inside[1:] & inside[:-1]
        return np.flatnonzero(again) + 1
    for array in beside.values():
        flat = array.reshape(-1)
        spans = array.dtype.kind in "iu" and len(flat) > 2 and flat[0] == 0 and flat[-1] == len(inside)
        if spans and bool((flat[1:] > flat[:-1]).all()):
            return flat[1:-1].astype(np.int64)
    return np.zeros(0, np.int64)


def _marks(array: np.ndarray, starts: np.ndarray) -> bool:
    """Whether integers change at every start, as numbers of documents do, or list the starts, as offsets do."""
    flat = array.reshape(-1)
    if not len(starts):
        return False
    listed = len(flat) <= len(starts) + 2 and bool(np.isin(starts, flat).all())
    numbered = len(flat) > int(starts[-1]) and bool((flat[starts] != flat[starts - 1]).all())
    ramps = len(flat) > 1 and int((flat[1:] != flat[:-1]).sum()) > 2 * len(starts) + 1
    return listed or (numbered and not ramps)


def _allowed(mask: np.ndarray | None, row: int) -> np.ndarray | None:
    """Which token may see which, of a mask [rows, width, width], with an axis of heads or without; else None."""
    if mask is None or mask.ndim not in (3, 4) or mask.shape[-1] != mask.shape[-2]:
        return None
    square = mask[min(row, len(mask) - 1)]
    square = square[0] if square.ndim == 3 else square
    return np.asarray(square > -1 if square.dtype.kind == "f" and square.min() < 0 else square != 0)


def _separates(mask: np.ndarray | None, row: int, starts: np.ndarray) -> bool:
    allowed = _allowed(mask, row)
    return allowed is not None and len(starts) > 0 and not allowed[starts, starts - 1].any()


def _opens(mask: np.ndarray | None, row: int, starts: np.ndarray, width: int) -> bool:
    """Whether a mask lets the first token of every later document see the one before it."""
    if mask is None or not len(starts):
        return False
    allowed = _allowed(mask, row)
    if allowed is not None:
        return bool(allowed[starts, starts - 1].all())
    return mask.ndim == 2 and mask.shape[1] == width


def _is_image(array: np.ndarray) -> bool:
    """Whether floats have the axes of images: channels, height and width in rows, or patches of them."""
    return array.dtype.kind == "f" and array.ndim >= 2 and array.size >= 256
