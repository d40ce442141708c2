"""DG504: blank samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.labels.blank_samples import are_a_class, are_placeholders, blank, empty, lasts
from dataguard.checks.labels.box_formats import Boxes, boxes_of
from dataguard.incident import observed_or_none
from dataguard.model import Coverage, Finding, Judgement, Severity, without_empty

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataguard.lab.core.records import SampleRecord
    from dataguard.lab.lab import Lab

NATURE = 0.5
"""A larger share of blank samples than this is a property of the data."""


@check("DG504", "blank-sample", Severity.WARNING)
def dg504_blank_sample(lab: Lab) -> Judgement:
    """A sample is blank: a constant image or waveform, an empty sequence, or a box without area or outside its image.

    Symptom: none, or a loss of NaN from the logarithm of a zero width or the mean of no tokens. The model learns to
        predict from nothing.
    Cause: broken or truncated files decoded as black, crops beyond the edge, empty lines of text, boxes with swapped
        corners or in the coordinates of another image size.
    Fix: drop the samples that the evidence lists; clip boxes to the image and drop those without area. Declare the box
        format with `[tool.dataguard.contract] bbox_format`.
    Links: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.SanitizeBoundingBoxes.html
    """
    epoch = lab.epoch
    notes = []
    for kinds in (blank(epoch.samples, epoch.value_summaries), empty(epoch.samples)):
        for fault, samples in kinds.items():
            count = f"{len(samples)} of {len(epoch.samples)} samples"
            if len(samples) > NATURE * len(epoch.samples):
                notes.append(f"{fault} in {count}: taken as normal for these data")
            elif are_placeholders(samples):
                notes.append(f"{fault} in {count}, the same one: taken as a placeholder beside another input")
            elif are_a_class(samples, epoch.samples):
                notes.append(f"{fault} in {count}, all of one label: taken as a class of their own")
            elif not lasts(lab, samples):
                continue
            elif _clipped(lab):
                notes.append(f"{fault} in {count}, read from clipped files: see DG509")
            else:
                yield _finding(lab, fault, samples)
    for boxes in boxes_of(lab):
        if boxes.wrong:
            yield _box_finding(lab, boxes)
        elif boxes.is_unknown:
            notes.append(f"sample{boxes.path} fits no known box format: set bbox_format in [tool.dataguard.contract]")
    return Coverage(epoch.exercised, "; ".join(notes) or None)


def _clipped(lab: Lab) -> bool:
    """Whether 16-bit files are clipped, so that some images may be white throughout."""
    depth = observed_or_none(lambda: lab.files.depth)
    return depth is not None and depth.clipped


def _finding(lab: Lab, fault: str, samples: Sequence[SampleRecord]) -> Finding:
    indices = [sample.index for sample in samples if sample.index is not None]
    where = f"dataset[{indices[0]!r}]" if indices else "a sample of the stream"
    count = f"{len(samples)} of {lab.epoch.read or len(lab.epoch.samples)} read"
    evidence = without_empty({"blank samples": count, "indices": list(map(str, indices[:16])), "name": samples[0].name})
    repro = lab.repro.samples(indices[0]) if indices else None
    return Finding(f"{fault} in {where}", evidence, at=lab.dataset.location, repro=repro)


def _box_finding(lab: Lab, boxes: Boxes) -> Finding:
    box, fault = boxes.wrong[0]
    index = box.sample.index
    where = "a sample of the stream" if index is None else f"dataset[{index!r}]"
    numbers = ", ".join(f"{number:.5g}" for number in box.numbers)
    image = f"its {box.height} × {box.width} image"
    reading = f"as {boxes.formats[0]}" if len(boxes.formats) == 1 else "in every format that fits the other boxes"
    return Finding(
        message=f"box {box.place} of sample{boxes.path} of {where}, ({numbers}), {fault} {image}, {reading}",
        evidence={"invalid boxes": f"{len(boxes.wrong)} of {len(boxes.seen)}", "formats": list(boxes.formats)},
        at=lab.dataset.location,
        repro=None if index is None else lab.repro.samples(index),
    )
