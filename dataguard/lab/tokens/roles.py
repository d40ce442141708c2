"""Which leaves of a batch hold tokens, labels, masks and positions: by usual names, or by those of the contract."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dataguard.lab.core.records import key_of

NAMES: Mapping[str, tuple[str, ...]] = {
    "tokens": ("input_ids",),
    "labels": ("labels", "targets", "target_ids"),
    "mask": ("attention_mask",),
    "positions": ("position_ids", "positions", "input_pos"),
}
"""The usual names of the leaves of each role, the first that a batch has counts."""
_SIDE = re.compile(r"(.*[^a-z0-9]|)input_ids([^a-z0-9].*|)", re.IGNORECASE)
"""The tokens of one side of a pair, such as `chosen_input_ids`; its labels and mask have the same affixes."""
_LOSS_MASK = re.compile(r"(loss|label|target|completion|response|assistant)s?_?(mask|weight)s?", re.IGNORECASE)


def roles_of(paths: Iterable[str], contract: Mapping[str, Any]) -> dict[str, str]:
    """The path of the leaf of each role: those beside the tokens come first; {} without tokens.

    Of batches of pairs, whose names have affixes, these are the roles of the first side that has labels.
    """
    known = list(paths)
    given = {"tokens": contract.get("tokens"), "labels": contract.get("labels"), "mask": contract.get("mask")}
    names = {role: (str(given[role]),) if given.get(role) else usual for role, usual in NAMES.items()}
    tokens = _named(known, names["tokens"])
    if tokens is None and not given["tokens"]:
        known, names = _side(known, names)
        tokens = _named(known, names["tokens"])
    if tokens is None:
        return {}
    group = group_of(tokens)
    beside = sorted(known, key=lambda path: group_of(path) != group)
    roles = {"tokens": tokens}
    for role in ("labels", "mask", "positions"):
        path = _named(beside, names[role])
        roles |= {role: path} if path is not None and path != tokens else {}
    loss_mask = next((path for path in beside if _LOSS_MASK.search(key_of(path))), None)
    return roles | ({"loss mask": loss_mask} if loss_mask is not None and loss_mask not in roles.values() else {})


def group_of(path: str) -> str:
    """The path of what holds a leaf: `['text']` of `['text']['labels']`."""
    return path[: max(path.rfind("["), path.rfind("."), 0)]


def _side(paths: Sequence[str], names: Mapping[str, tuple[str, ...]]) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """The leaves of one side of a pair, and the names of the roles with its affixes; those of no side are empty."""
    keys = {key_of(path): path for path in paths}
    sides = [match.groups() for key in keys if (match := _SIDE.fullmatch(key))]
    with_labels = [
        (before, after) for before, after in sides if any(before + n + after in keys for n in names["labels"])
    ]
    before, after = (with_labels or sides or [("", "")])[0]
    own = [path for key, path in keys.items() if key.startswith(before) and key.endswith(after)]
    return own, {role: tuple(before + name + after for name in usual) for role, usual in names.items()}


def _named(paths: Sequence[str], names: Sequence[str]) -> str | None:
    """The first path with the first of these names that any has."""
    return next((path for name in names for path in paths if name in (path, key_of(path))), None)
