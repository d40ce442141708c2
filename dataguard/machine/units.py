"""Counts, bytes and durations in words. Standard library only."""

from __future__ import annotations

_SINGULAR = {"batches": "batch", "boxes": "box", "indices": "index", "leaves": "leaf", "processes": "process"}
_VERBS = {"are": "is", "have": "has", "were": "was"}


def counted(count: int, units: str) -> str:
    """`1 batch`, `2 padded leaves`, `1,024 samples`, `1 sample was`: `units` is the plural, perhaps with a verb."""
    if count != 1:
        return f"{count:,} {units}"
    words = units.split()
    verbs = [_VERBS[words.pop()]] if words[-1] in _VERBS else []
    last = words.pop()
    return " ".join(["1", *words, _SINGULAR.get(last, last.removesuffix("s")), *verbs])


def size(count: float) -> str:
    """`4.1 MB` for 4,100,000 bytes."""
    for unit in ("B", "KB", "MB"):
        if abs(count) < 1000:
            return f"{count:.4g} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.4g} GB"


def span(seconds: float) -> str:
    """`40 minutes`, `5 hours`, `12 days`."""
    for unit, length, most in (("seconds", 1.0, 120.0), ("minutes", 60.0, 7200.0), ("hours", 3600.0, 172800.0)):
        if seconds < most:
            return f"{seconds / length:.{0 if seconds / length >= 10 else 1}f} {unit}".replace(".0 ", " ")
    return f"{seconds / 86400:,.3g} days" if seconds < 86400 * 1000 else "years"
