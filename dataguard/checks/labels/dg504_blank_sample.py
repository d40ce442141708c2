"""DG504: blank samples: constant images, empty sequences and strings, and boxes without area."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.labels.box_formats import Boxes, boxes_of
from dataguard.core.incident import observed_or_none
from dataguard.core.model import Coverage, Finding, Judgement, Location, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.core.records import LeafRecord, SampleRecord, ValueSummary
    from dataguard.lab.lab import Lab

MOST_REREAD = 3
"""At most this many blank samples are read again: one that is blank again is enough."""
MOST_MASK_VALUES = 32
"""An image with more values than this is no mask."""
FEWEST_TOKENS = 8
"""The fewest integers in a row that count as a text."""
MOST_BLANK = 0.5
"""A larger share of blank samples than this is a property of the data. Chosen: defects are the exception."""


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
            if len(samples) > MOST_BLANK * len(epoch.samples):
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


def blank(samples: Sequence[SampleRecord], summaries: Sequence[ValueSummary]) -> dict[str, list[SampleRecord]]:
    """The samples with images of a single value or colour, by the message about them.

    A blank leaf beside another image counts only if it is a photograph in other samples: masks are empty by nature.
    """
    numbers = [leaf for summary in summaries if summary.position is not None for leaf in summary.numbers]
    varied = {
        leaf.path
        for leaf in numbers
        if leaf.low < leaf.high and (leaf.counts is None or len(leaf.counts) > MOST_MASK_VALUES)
    }
    by_message: dict[str, list[SampleRecord]] = defaultdict(list)
    for sample in samples:
        if sample.blank and (sample.blank.path in varied or not _others(sample)):
            what = "has a single colour" if sample.blank.is_coloured else "is constant"
            by_message[f"sample{sample.blank.path} {what}"].append(sample)
    return by_message


def are_placeholders(samples: Sequence[SampleRecord]) -> bool:
    """Whether blank samples share one image, and each has another input: a text, or an image of the same form."""
    blanks = {sample.blank.digest for sample in samples if sample.blank}
    has_input = (any(map(_is_text, sample.leaves)) or _others(sample) for sample in samples)
    return len(samples) > 1 and len(blanks) == 1 and all(has_input)


def are_a_class(samples: Sequence[SampleRecord], every: Sequence[SampleRecord]) -> bool:
    """Whether blank samples have one label, and no other sample has it: silence, or nothing, is a class."""
    labels = set.intersection(*(_labels(sample) for sample in samples))
    return len(samples) > 1 and any(
        all(label not in _labels(sample) for sample in every if sample not in samples) for label in labels
    )


def _labels(sample: SampleRecord) -> set[tuple[str, bytes]]:
    """The integers of a sample, by path and content."""
    return {(leaf.path, leaf.digest) for leaf in sample.leaves if leaf.size == 1 and "int" in leaf.type_name}


def _others(sample: SampleRecord) -> bool:
    """Whether a sample has an image of the same form as its blank one that is not blank."""
    form = sample.blank and (sample.blank.shape, sample.blank.type_name)
    return any(not leaf.constant and (leaf.shape, leaf.type_name) == form for leaf in sample.leaves)


def _is_text(leaf: LeafRecord) -> bool:
    """Whether a leaf is a text of several words, or a row of tokens."""
    if leaf.kind == "str":
        return leaf.shown is None or " " in leaf.shown
    return (
        len(leaf.shape or ()) == 1 and leaf.size >= FEWEST_TOKENS and ("int" in leaf.type_name or leaf.kind == "list")
    )


def lasts(lab: Lab, samples: Sequence[SampleRecord]) -> bool:
    """Whether a sample is also blank when it is read alone: workers that share a file may spoil each other's reads."""
    indices = [sample.index for sample in samples if sample.blank and sample.index is not None]
    return not indices or any(lab.dataset.is_blank(index) for index in indices[:MOST_REREAD])


def empty(samples: Sequence[SampleRecord]) -> dict[str, list[SampleRecord]]:
    """The samples with an empty input: the leaf that is the largest in most others, or a string."""
    largest = Counter(leaf.path for sample in samples for leaf in [_input(sample.leaves)] if leaf)
    path = next((path for path, count in largest.items() if 2 * count > len(samples)), None)
    empty = [sample for sample in samples for leaf in sample.leaves if leaf.path == path and _is_empty(leaf)]
    return {f"sample{path} is empty": empty} if empty else {}


def _input(leaves: Sequence[LeafRecord]) -> LeafRecord | None:
    """The largest leaf; if all are single values, the first string."""
    largest = max(leaves, key=lambda leaf: leaf.size if leaf.shape is not None else 0, default=None)
    if largest is not None and largest.shape and largest.size > 1:
        return largest
    return next((leaf for leaf in leaves if leaf.kind == "str"), None)


def _is_empty(leaf: LeafRecord) -> bool:
    return leaf.shown == "''" if leaf.kind == "str" else leaf.shape is not None and leaf.size == 0


def _clipped(lab: Lab) -> bool:
    """Whether 16-bit files are clipped, so that some images may be white throughout."""
    depth = observed_or_none(lambda: lab.files.depth)
    return depth is not None and depth.clipped


def _finding(lab: Lab, fault: str, samples: Sequence[SampleRecord]) -> Finding:
    indices = [sample.index for sample in samples if sample.index is not None]
    where = f"dataset[{indices[0]!r}]" if indices else "a sample of the stream"
    count = f"{len(samples)} of {lab.epoch.read or len(lab.epoch.samples)} read"
    evidence = without_empty({"blank samples": count, "indices": list(map(str, indices[:16])), "name": samples[0].name})
    sample = indices[0] if indices else None
    repro = lab.repro.samples(sample) if indices else None
    at = _place(lab, samples[0]) or lab.dataset.location
    return Finding(f"{fault} in {where}", evidence, at=at, repro=repro, sample=sample)


def _place(lab: Lab, sample: SampleRecord) -> Location | None:
    """The line that only this sample runs, such as that of an `except`; else the one that makes its blank leaf."""
    usual = next((other for other in lab.epoch.samples if not other.blank and other is not sample), None)
    if sample.index is None or usual is None:
        return None
    leaf = sample.blank or _input(usual.leaves)
    branch = lab.places.departure(sample.index, usual.index)
    return branch or (lab.places.value(sample.index, leaf.path) if leaf else None)


def _box_finding(lab: Lab, boxes: Boxes) -> Finding:
    box, fault = boxes.wrong[0]
    index = box.sample.index
    where = "a sample of the stream" if index is None else f"dataset[{index!r}]"
    numbers = ", ".join(f"{number:.5g}" for number in box.numbers)
    image = f"its {box.height} × {box.width} image"
    reading = f"as {boxes.formats[0]}" if len(boxes.formats) == 1 else "in every format that fits the other boxes"
    return Finding(
        message=f"box {box.row} of sample{boxes.path} of {where}, ({numbers}), {fault} {image}, {reading}",
        evidence={"invalid boxes": f"{len(boxes.wrong)} of {len(boxes.seen)}", "formats": list(boxes.formats)},
        at=(None if index is None else lab.places.value(index, boxes.path)) or lab.dataset.location,
        repro=None if index is None else lab.repro.samples(index),
        sample=index,
    )
