"""DG504: samples with nothing in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.labels.blank_samples import blank, empty, lasts
from dataguard.checks.labels.box_formats import Boxes, boxes_of
from dataguard.incident import had
from dataguard.model import Finding, Judgement, Looked, Severity, known

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataguard.lab.core.records import SampleRecord
    from dataguard.lab.lab import Lab

NATURE = 0.5
"""The share of blank samples from which on that is what the data are like."""


@check("DG504", "blank-sample", Severity.WARNING)
def dg504_blank_sample(lab: Lab) -> Judgement:
    """A sample has nothing in it: an image of one value, an empty sequence, a box without area or outside its image.

    Symptom: none, or a loss that turns NaN: at a width of 0 in a logarithm, or at a mean over no token. The model
        learns to answer from nothing.
    Cause: broken or truncated files that are read as black, crops beyond the edge, empty lines of a text, boxes with
        their corners swapped or in the coordinates of another size.
    Fix: leave out what the evidence lists; cut boxes off at the edges and drop those without area. Name the format of
        boxes by `[tool.dataguard.contract] bbox_format`.
    Links: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.SanitizeBoundingBoxes.html
    """
    epoch = lab.epoch
    notes = []
    for kinds in (blank(epoch.samples), empty(epoch.samples)):
        for words, samples in kinds.items():
            if len(samples) > NATURE * len(epoch.samples):
                notes.append(f"{words} in {len(samples)} of {len(epoch.samples)} samples: the data are like that")
            elif not lasts(lab, samples):
                continue
            elif _clipped(lab):
                notes.append(f"{words} in {len(samples)} of {len(epoch.samples)} samples, of clipped files: see DG509")
            else:
                yield _finding(lab, words, samples)
    for boxes in boxes_of(lab):
        if boxes.wrong:
            yield _box_finding(lab, boxes)
        elif boxes.puzzles:
            notes.append(f"sample{boxes.path} fits its image in no format: name it by contract.bbox_format")
    return Looked(epoch.exercised, "; ".join(notes) or None)


def _clipped(lab: Lab) -> bool:
    """Whether files of 16 bits lose their upper values, so that nothing but white may be left of some."""
    depth = had(lambda: lab.files.depth)
    return depth is not None and depth.clipped


def _finding(lab: Lab, words: str, samples: Sequence[SampleRecord]) -> Finding:
    indices = [sample.index for sample in samples if sample.index is not None]
    where = f"dataset[{indices[0]!r}]" if indices else "a sample of the stream"
    count = f"{len(samples)} of {lab.epoch.read or len(lab.epoch.samples)} looked at"
    evidence = known({"samples like that": count, "indices": list(map(str, indices[:16])), "name": samples[0].name})
    repro = lab.repro.expression(f".dataset[{indices[0]!r}]") if indices else None
    return Finding(f"{words} in {where}", evidence, at=lab.dataset.place, repro=repro)


def _box_finding(lab: Lab, boxes: Boxes) -> Finding:
    box, fault = boxes.wrong[0]
    index = box.sample.index
    where = "a sample of the stream" if index is None else f"dataset[{index!r}]"
    numbers = ", ".join(f"{number:.5g}" for number in box.numbers)
    size = f"an image of {box.height} × {box.width}"
    return Finding(
        message=f"box {box.place} of sample{boxes.path} of {where}, ({numbers}), {fault} in {size}, "
        + (f"as {boxes.formats[0]}" if len(boxes.formats) == 1 else "in any format that fits the others"),
        evidence={"boxes like that": f"{len(boxes.wrong)} of {len(boxes.seen)}", "formats": list(boxes.formats)},
        at=lab.dataset.place,
        repro=None if index is None else lab.repro.expression(f".dataset[{index!r}]"),
    )
