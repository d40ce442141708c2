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
_LOSS_MASK = re.compile(r"(loss|label|target|completion|response|assistant)s?_?(mask|weight)s?", re.IGNORECASE)


def roles_of(paths: Iterable[str], contract: Mapping[str, Any]) -> dict[str, str]:
    """The path of the leaf of each role: those beside the tokens come first; {} without tokens."""
    known = list(paths)
    given = {"tokens": contract.get("tokens"), "labels": contract.get("labels"), "mask": contract.get("mask")}
    names = {role: (str(given[role]),) if given.get(role) else usual for role, usual in NAMES.items()}
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


def _named(paths: Sequence[str], names: Sequence[str]) -> str | None:
    """The first path with the first of these names that any has."""
    return next((path for name in names for path in paths if name in (path, key_of(path))), None)
