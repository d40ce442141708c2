"""One item as each worker makes it in each epoch: clones are equal pictures. Standard library only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from dataguard.figures import Pictures

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.pictures.sheets import Cells
    from dataguard.model import Finding


def across_workers(lab: Lab, findings: Sequence[Finding]) -> Iterator[Pictures]:
    """A sheet in which two workers make equal pictures."""
    yield from _sheet(lab, findings, lambda cells: any(_repeats(row) for row in cells), "Workers make equal pictures.")


def across_epochs(lab: Lab, findings: Sequence[Finding]) -> Iterator[Pictures]:
    """A sheet in which a worker makes equal pictures in two epochs."""
    words = "A worker makes the same picture in two epochs."
    yield from _sheet(lab, findings, lambda cells: any(map(_repeats, zip(*cells, strict=True))), words)


def everywhere(lab: Lab, findings: Sequence[Finding]) -> Iterator[Pictures]:
    """A sheet in which all pictures are equal."""
    words = "The picture is the same in every worker and epoch."
    yield from _sheet(lab, findings, lambda cells: len({one for row in cells for one in row}) == 1, words)


def _repeats(pictures: Sequence[object]) -> bool:
    return len(set(pictures)) < len(pictures)


def _sheet(lab: Lab, findings: Sequence[Finding], shows: Callable[[Cells], bool], words: str) -> Iterator[Pictures]:
    """A sheet of the first leaf of the findings that is an image; none if it does not show what they say."""
    leaves = [leaf for finding in findings for key in ("leaves", "unchanged") for leaf in finding.evidence.get(key, ())]
    images = [leaf for leaf in dict.fromkeys(leaves) if leaf in _image_leaves(lab)]
    if not images:
        return
    sheet = lab.pictures.sheet(images[0])
    if shows(sheet.cells):
        yield Pictures(
            f"{images[0]} of index {sheet.item}, by worker and epoch",
            f"{words} Each picture is made by one worker (column) in one epoch (row) from the same item.",
            tuple(f"epoch {number}" for number in range(len(sheet.cells))),
            tuple(f"worker {number}" for number in range(len(sheet.cells[0]))),
            sheet.cells,
        )


def _image_leaves(lab: Lab) -> set[str]:
    """The paths of leaves with rows and columns."""
    samples = {
        f"sample{leaf.path}" for one in lab.epoch.samples for leaf in one.leaves if _is_image(leaf.kind, leaf.shape, 2)
    }
    return samples | {
        f"batch{leaf.path}" for one in lab.epoch.batches for leaf in one.leaves if _is_image(leaf.kind, leaf.shape, 3)
    }


def _is_image(kind: str, shape: tuple[int, ...] | None, axes: int) -> bool:
    return kind == "PIL.Image" or len(shape or ()) >= axes
