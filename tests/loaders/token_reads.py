"""What is read of the tokens of a loader, in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from dataguard.core.leaf_paths import key_of
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.tokens.token_observations import TokenReads, read_tokens
from dataguard.lab.tokens.token_roles import group_of, may_be_tokens, roles_of
from dataguard.targets.variants import Construction


def tokens_of(factory: Callable[[], Any], contract: Mapping[str, Any]) -> TokenReads | None:
    """The reads of `lab.tokens`; None if no leaf is recognised."""
    leaves = leaves_of(next(islice(iter(factory()), 1)))
    names = roles_of([leaf.path for leaf in leaves], contract)
    size = factory().batch_size or 1
    if not names and not any(may_be_tokens(leaf, size) for leaf in leaves):
        return None
    group = group_of(names["tokens"]) if names else None
    keys = frozenset(key_of(leaf.path) for leaf in leaves if group_of(leaf.path) == group)
    return read_tokens(lambda **overrides: Construction(overrides).variant(factory()), contract, names, keys, 96, None)
