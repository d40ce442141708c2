"""Original images beside what the model sees. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dataguard.figures import Pictures

if TYPE_CHECKING:
    from dataguard.lab.core.index import Index
    from dataguard.lab.lab import Lab
    from dataguard.lab.pictures.views import View

MOST = 3
"""Draws that are shown."""


def beside_original(lab: Lab, indices: Sequence[Index], view: View, words: str) -> Iterator[Pictures]:
    """Some samples, one in each row; a column for each different draw of the transforms, after the original.

    Without image files there are no originals.
    """
    rows = lab.pictures.shown(*indices, view=view)
    originals = any(row.original for row in rows)
    different = [list({picture.png: picture for picture in row.seen}.values())[:MOST] for row in rows]
    draws = max(map(len, different))
    seen = [f"random state {number}" for number in range(1, draws + 1)] if draws > 1 else ["what the model sees"]
    enlarged = any(row.closeup for row in rows)
    yield Pictures(
        f"{view.leaf} and its original" if originals else view.leaf,
        words,
        tuple(_name(lab, index) for index in indices),
        (*(["original"] if originals else []), *seen, *(["enlarged"] if enlarged else [])),
        tuple(
            (
                *((row.original,) if originals else ()),
                *(*pictures, *[None] * (draws - len(pictures))),
                *((row.closeup,) if enlarged else ()),
            )
            for row, pictures in zip(rows, different, strict=True)
        ),
    )


def _name(lab: Lab, index: Index) -> str:
    if index is None:
        return "a sample"
    return f"index {index}" if lab.facts.kind == "map" else f"sample {index} of the stream"
