"""How names spell the roles of loaders. Standard library only."""

from __future__ import annotations

import re

_WORDS = (
    ("train", re.compile(r"train(ing)?|fit")),
    ("val", re.compile(r"val(id(ation)?)?|eval(uation)?|dev")),
    ("test", re.compile(r"test(ing)?")),
    ("predict", re.compile(r"predict(ion)?|infer(ence)?")),
)

ROLE_UNKNOWN = "the role is unknown"
"""How the reason begins for which a check is skipped that needs one."""


def spelled_role(name: str) -> str | None:
    """The role in a name: `make_train_loader`, `val`, `testDataloader`."""
    words = re.findall(r"[A-Z]?[a-z]+", name)
    roles = [role for word in words for role, pattern in _WORDS if pattern.fullmatch(word.lower())]
    return roles[0] if len(set(roles)) == 1 else None


def stem_of(name: str) -> str | None:
    """A name without the word for its role, which splits of the same data share; None without such a word."""
    if spelled_role(name) is None:
        return None
    return re.sub(r"[A-Z]?[a-z]+", lambda word: "" if spelled_role(word[0]) else word[0].lower(), name)
