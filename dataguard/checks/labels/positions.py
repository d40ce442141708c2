"""Positions of spans, such as answers, that are beyond the tokens of their row. Standard library only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dataguard.checks.common.labels import batches_of, samples_of
from dataguard.core.leaf_paths import key_of
from dataguard.core.model import Finding

if TYPE_CHECKING:
    from dataguard.lab.core.records import Index, Numbers
    from dataguard.lab.lab import Lab

_STARTS = re.compile(r"(?<![a-z])starts?(?![a-z])", re.IGNORECASE)
_ENDS = re.compile(r"(?<![a-z])ends?(?![a-z])", re.IGNORECASE)
_COUNTED = re.compile(r"pos|tok|idx|index|answer|span", re.IGNORECASE)
"""Names of a start and an end, and of what counts tokens and not seconds."""
FEWEST_TOKENS = 16
"""The width of the narrowest rows of tokens."""
MOST_BEYOND = 0.5
"""The share of positions from which on they may count something else, such as characters."""


def cut_spans(lab: Lab) -> Iterator[Finding]:
    """Spans whose ends are beyond the widest row: what they are to mark was cut off.

    Those that are cut may all have one position, which losses ignore; different ones are not meant.
    """
    found: dict[str, list[tuple[int, int]]] = {}
    for summary in batches_of(lab.epoch.value_summaries).values():
        whole = [one for one in summary.numbers if one.whole and not one.is_float and len(one.shape) in (1, 2)]
        widths = [one.shape[1] for one in whole if len(one.shape) == 2 and one.shape[1] >= FEWEST_TOKENS]
        spans = [one for one in whole if len(one.shape) == 1 and len(one.values) == one.size and _names_place(one)]
        starts, ends = ([one for one in spans if name.search(key_of(one.path))] for name in (_STARTS, _ENDS))
        if any(one.is_float and len(one.shape) > 1 for one in summary.numbers):
            continue  # such as frames: they may be what is counted
        if len(set(widths)) == 1 and len(starts) == len(ends) == 1:
            for one in (*starts, *ends):
                found.setdefault(one.path, []).extend((int(value), widths[0]) for value in one.values)
    for path, positions in found.items():
        beyond = [(value, width) for value, width in positions if value >= width]
        if len({value for value, _ in beyond}) > 1 and len(beyond) <= MOST_BEYOND * len(positions):
            value, width = beyond[0]
            index = _index_of(lab, path, value)
            yield Finding(
                message=f"{len(beyond)} of {len(positions)} positions in batch{path} are beyond the tokens of their "
                f"row: the first is {value}, of {width} tokens",
                evidence={
                    "fix here": "keep this part of the text, or give what is cut off a position that the loss ignores",
                    "beyond": [value for value, _ in beyond[:8]],
                },
                at=(None if index is None else lab.places.value(index, path)) or lab.dataset.location,
                repro=None if index is None else lab.repro.samples(index),
                sample=index,
            )
            return


def _index_of(lab: Lab, path: str, value: int) -> Index:
    """A sample with this position, if samples have it before they are collated."""
    return next(
        (
            summary.index
            for summary in samples_of(lab.epoch.value_summaries)
            for one in summary.numbers
            if _is_number(one) and one.path == path and int(one.low) == value
        ),
        None,
    )


def _names_place(one: Numbers) -> bool:
    return bool(_COUNTED.search(key_of(one.path)))


def _is_number(one: Numbers) -> bool:
    return one.size == 1 and one.whole
