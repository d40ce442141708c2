"""Paths in messages. Standard library only."""

from __future__ import annotations


def shortened(*sources: str) -> list[str]:
    """Files, and members of archives after `::`, from the first step on in which they differ."""
    steps = [source.replace("::", "/").split("/") for source in sources]
    same = next((number for number, each in enumerate(zip(*steps, strict=False)) if len(set(each)) > 1), 0)
    return ["/".join(each[same:]) for each in steps]
