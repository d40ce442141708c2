"""Masks and boxes over their images. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dataguard.checks.figures.pairs import beside_original
from dataguard.checks.geometry import alignment
from dataguard.figures import Pictures
from dataguard.lab.pictures.views import View

if TYPE_CHECKING:
    from dataguard.lab.geometry.alignment import MaskLeaf
    from dataguard.lab.geometry.mask_charts import ChartedMasks
    from dataguard.lab.lab import Lab
    from dataguard.model import Finding

DRAWS = 8
"""Draws of the transforms that are tried; those that differ are shown."""


def blended(lab: Lab, findings: Sequence[Finding]) -> Iterator[Pictures]:
    """A mask over its image; values that are no label of its file are white."""
    charts = lab.geometry.masks
    wrong = [leaf for finding in findings for leaf in finding.evidence["leaves"]]
    for mask in charts.masks:
        if f"{charts.root}{mask.path}" in wrong[:1]:
            labels = tuple(label[0] for label in charts.labels if len(label) == 1)
            kept = labels if set(mask.values.labels if mask.values else ()) <= set(labels) else None
            view = replace(_masked(charts, mask, (0,), kept), closeup=True)
            white = ", white if no file holds it" if kept else ""
            words = (
                f"The mask is laid over the image, with a colour for each value{white}. "
                "Enlarged, values between those on either side are white."
            )
            yield from beside_original(lab, [charts.index], view, words)


def misaligned_masks(lab: Lab, findings: Sequence[Finding]) -> Iterator[Pictures]:
    """A mask over its image, in the draw in which they are most misaligned."""
    del findings
    charts = lab.geometry.masks
    for mask, worst in alignment.misaligned_masks(lab):
        words = f"The image is {worst.image}, the mask {worst.mask}."
        yield from beside_original(lab, [worst.index], _masked(charts, mask, (worst.draw,)), words)


def misaligned_boxes(lab: Lab, findings: Sequence[Finding]) -> Iterator[Pictures]:
    """Boxes over their image, in several draws."""
    del findings
    root = lab.geometry.boxes.root
    for one in alignment.unfollowing_tables(lab):
        view = View(f"{root}{one.image}", tuple(range(DRAWS)), boxes=f"{root}{one.path}", box_format=one.box_format)
        words = f"{'Points' if one.points else 'Boxes'} of the sample are laid over its image."
        yield from beside_original(lab, [one.index], view, words)


def _masked(
    charts: ChartedMasks, mask: MaskLeaf, draws: tuple[int, ...], labels: tuple[float, ...] | None = None
) -> View:
    return View(f"{charts.root}{mask.image}", draws, mask=f"{charts.root}{mask.path}", labels=labels)
