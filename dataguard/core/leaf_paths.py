"""Paths of leaves, such as `[0]['labels']`. Standard library only."""

from __future__ import annotations


def key_of(path: str) -> str:
    """The last step of a path, as a word: `labels` of `['text']['labels']`."""
    return path.rpartition("[")[2].rstrip("]").strip("'\"").rpartition(".")[2]
