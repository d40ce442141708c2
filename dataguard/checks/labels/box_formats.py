"""Boxes in images: which formats they fit, and which boxes fit none. Standard library only.

The box format is unknown unless the contract or the type of the tensor declares it. So every format in which most boxes
are valid is possible, and a box is wrong if it is invalid in all possible formats.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dataguard.checks.common.labels import ENTRY, records_of, samples_of

if TYPE_CHECKING:
    from dataguard.lab.core.records import LeafRecord, Numbers, SampleRecord, ValueSummary
    from dataguard.lab.lab import Lab

    Table = tuple[ValueSummary, Numbers, tuple[int, int]]
    """A leaf of a sample, and the height and width of its image."""

FORMATS = ("xyxy", "xywh", "cxcywh", "xyxy-normalized", "xywh-normalized", "cxcywh-normalized")
ALIASES = {
    "pascal_voc": "xyxy",
    "coco": "xywh",
    "yolo": "cxcywh-normalized",
    "albumentations": "xyxy-normalized",
}
"""Names that albumentations uses."""
FEWEST_VALID_SHARE = 0.8
"""The share of valid boxes from which on a format is possible. Chosen: the others may be the defects that are looked
for."""
FEWEST_VALID = 4
"""The least number of valid boxes for a format to be possible: fewer fit several formats."""
INSIDE_BOX, INSIDE_FORMAT = 0.5, 0.95
"""The least share of a box that lies in its image: for the box to be valid, and for its format to fit."""
FEWEST_ORDERED, FEWEST_SEEN = 16, 0.5
"""If all of so many boxes have their second corner behind the first, that is no coincidence; and at least this share of
them lies in the image if a crop moved the others outside."""
MOST_NORMALIZED = 1.5
"""The largest number in a box with normalized coordinates: 1, and what a box may reach beyond its image."""
FEWEST_REVERSED = 4
"""Samples whose boxes all have their corners exchanged along one axis, as a flip leaves them, and as many others."""
NO_AREA, OUTSIDE, REVERSED = "has no area in", "lies outside", "has its corners exchanged in"
"""What is wrong with a box, to be followed by its image."""
_BOX = re.compile(r"box|roi|rect", re.IGNORECASE)

Four = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Box:
    """Four numbers of a sample, their row among its boxes, and the height and width of its image."""

    sample: ValueSummary
    row: int
    numbers: Four
    height: int
    width: int

    @property
    def is_normalized(self) -> bool:
        """Whether its numbers are fractions of the image size, by their magnitude."""
        return all(abs(number) <= MOST_NORMALIZED for number in self.numbers)

    def fault(self, layout: str, inside: float = INSIDE_BOX) -> str | None:
        """What is wrong with it in one format, if at least the share `inside` of it must lie in its image."""
        left, top, right, bottom = _corners(self.numbers, layout, self.height, self.width)
        if right <= left or bottom <= top:
            return NO_AREA
        across = max(min(right, self.width) - max(left, 0), 0)
        down = max(min(bottom, self.height) - max(top, 0), 0)
        lies_in = across * down >= inside * (right - left) * (bottom - top)
        return None if lies_in else OUTSIDE


def _corners(numbers: Four, layout: str, height: int, width: int) -> Four:
    x, y, third, fourth = numbers
    if layout.startswith("cxcywh"):
        x, y, third, fourth = x - third / 2, y - fourth / 2, x + third / 2, y + fourth / 2
    elif layout.startswith("xywh"):
        third, fourth = x + third, y + fourth
    if layout.endswith("normalized"):
        return x * width, y * height, third * width, fourth * height
    return x, y, third, fourth


@dataclass(frozen=True, slots=True)
class Boxes:
    """A leaf of boxes: all boxes seen, the possible formats, and the boxes that are invalid in all of them."""

    path: str
    seen: Sequence[Box]
    formats: tuple[str, ...]
    wrong: tuple[tuple[Box, str], ...]

    @property
    def is_unknown(self) -> bool:
        """Whether it has the name of boxes and fits no format."""
        return bool(_BOX.search(self.path)) and len(self.seen) >= FEWEST_VALID and not self.formats


def boxes_of(lab: Lab) -> list[Boxes]:
    """The leaves of boxes, in order."""
    declared = lab.settings.contract.get("bbox_format")
    records = records_of(lab)
    by_path: dict[str, list[Box]] = defaultdict(list)
    wide: dict[str, list[Table]] = defaultdict(list)
    layouts: dict[str, str] = {}
    for sample in samples_of(lab.epoch.value_summaries):
        record = records.get(sample.place)
        tables = [
            numbers for numbers in sample.numbers if _may_be_boxes(numbers, sample.numbers, declared=bool(declared))
        ]
        wider = [numbers for numbers in sample.numbers if _has_classes(numbers)]
        image = _size(record) if record and (tables or wider) else None
        for numbers in wider:
            if image:
                wide[ENTRY.sub("[*]", numbers.path)].append((sample, numbers, image))
        for numbers in tables:
            size = numbers.canvas or image
            if size:
                path = ENTRY.sub("[*]", numbers.path)
                by_path[path] += [Box(sample, row, four, *size) for row, four in _fours(numbers)]
                if numbers.layout:
                    layouts[path] = numbers.layout
    layout_of = {path: ALIASES.get(declared, declared) if declared else layouts.get(path) for path in by_path}
    plain = [
        _judged(
            path, _unpadded(boxes), layout_of[path], conventional=_follows_torchvision(path, boxes[0].sample.numbers)
        )
        for path, boxes in by_path.items()
        if boxes
    ]
    return plain + [found for path, tables in wide.items() for found in _with_classes(path, tables)]


def _has_classes(numbers: Numbers) -> bool:
    """Whether a leaf has the shape of a table of boxes with one or two more columns, as of their classes."""
    return len(numbers.shape) == 2 and numbers.shape[1] in (5, 6) and bool(numbers.values)


def _with_classes(path: str, tables: Sequence[Table]) -> Iterator[Boxes]:
    """The boxes of a table in the columns behind or before the classes, if their numbers can be nothing else.

    Coordinates that are shares of the image, or a flip that left corners exchanged, are no coincidence in many rows.
    """
    for at_end in (False, True):
        seen: list[Box] = []
        for sample, numbers, size in tables:
            width = numbers.shape[1]
            first = width - 4 if at_end else 0
            others = range(first) if at_end else range(4, width)
            if not all(
                numbers.values[row + column].is_integer()
                for row in range(0, len(numbers.values), width)
                for column in others
            ):
                break
            seen += [Box(sample, row, four, *size) for row, four in _fours(numbers, first)]
        else:
            found = _judged(path, _unpadded(seen), None)
            valid = len(found.seen) - len(found.wrong)
            shares = any(form.endswith("normalized") for form in found.formats) and valid >= INSIDE_FORMAT * len(
                found.seen
            )
            if len(found.seen) >= FEWEST_ORDERED and (shares or any(fault == REVERSED for _, fault in found.wrong)):
                yield found
                return


def _may_be_boxes(numbers: Numbers, beside: Sequence[Numbers], *, declared: bool) -> bool:
    """Whether a leaf has the shape of boxes: rows of four with one entry each in another leaf, or the name of boxes."""
    shape = numbers.shape
    if shape[-1:] != (4,) or not numbers.values or numbers.type_name == "bool":
        return False
    named = bool(_BOX.search(numbers.path)) or numbers.layout in FORMATS
    if len(shape) == 1:
        return named
    parallel = any(other.shape == shape[:1] and other.path != numbers.path for other in beside)
    return len(shape) == 2 and (named or parallel or (declared and not any(map(_is_named, beside))))


def _is_named(numbers: Numbers) -> bool:
    return bool(_BOX.search(numbers.path))


def _fours(numbers: Numbers, first: int = 0) -> Iterator[tuple[int, Four]]:
    """The numbers of each box, in the four columns from `first` on."""
    values, width = numbers.values, numbers.shape[-1]
    for row in range(len(values) // width):
        x, y, third, fourth = values[width * row + first : width * row + first + 4]
        yield row, (x, y, third, fourth)


def _size(record: SampleRecord) -> tuple[int, int] | None:
    """The height and width of the largest image of a sample."""
    images = [leaf for leaf in record.leaves if leaf.kind == "PIL.Image" or len(leaf.shape or ()) == 3]
    return _height_width(max(images, key=lambda leaf: leaf.size)) if images else None


def _height_width(leaf: LeafRecord) -> tuple[int, int] | None:
    shape = leaf.shape or ()
    if leaf.kind == "PIL.Image":
        return shape[1], shape[0]
    first = shape[0] in (1, 3, 4)
    return (shape[1], shape[2]) if first else (shape[0], shape[1]) if shape[2] in (1, 3, 4) else None


def _unpadded(boxes: Sequence[Box]) -> list[Box]:
    """The boxes without the constant rows that pad tables to a fixed length."""
    counts: dict[int, int] = defaultdict(int)
    for box in boxes:
        counts[id(box.sample)] += 1
    fixed = len(counts) > 1 and len(set(counts.values())) == 1 and min(counts.values()) > 1
    return [box for box in boxes if not (fixed and len(set(box.numbers)) == 1)]


def _follows_torchvision(path: str, sample: Sequence[Numbers]) -> bool:
    """Whether boxes and their labels have the names by which torchvision's detectors take corners."""
    return path.endswith("['boxes']") and any(numbers.path == f"{path[:-9]}['labels']" for numbers in sample)


def _judged(path: str, boxes: Sequence[Box], layout: str | None, *, conventional: bool = False) -> Boxes:
    if layout is not None and layout in FORMATS:
        wrong = [(box, fault) for box in boxes for fault in [box.fault(layout)] if fault]
        return Boxes(path, boxes, (layout,), tuple(wrong))
    normalized = 2 * sum(box.is_normalized for box in boxes) > len(boxes)
    possible = [form for form in FORMATS if form.endswith("normalized") == normalized]
    valid = {form: sum(box.fault(form, INSIDE_FORMAT) is None for box in boxes) for form in possible}
    formats = tuple(
        form for form, count in valid.items() if count >= max(FEWEST_VALID_SHARE * len(boxes), FEWEST_VALID)
    )
    if not formats and (reversed_boxes := _reversed(path, boxes, possible[0])):
        return Boxes(path, boxes, (possible[0],), tuple((box, REVERSED) for box in reversed_boxes))
    if not formats and _are_corners(boxes, possible[0]):
        outside = [(box, OUTSIDE) for box in boxes if min(box.numbers[2:]) <= 0]
        return Boxes(path, boxes, (possible[0],) if outside else (), tuple(outside))
    if conventional and _are_ordered(boxes) and any(box.fault("xyxy") == NO_AREA for box in boxes):
        formats = ("xyxy",)
    wrong = [
        (box, faults[0])
        for box in boxes
        for faults in [[box.fault(form) for form in formats]]
        if faults and all(faults) and faults[0]
    ]
    return Boxes(path, boxes, formats, tuple((box, str(fault)) for box, fault in wrong))


def _are_corners(boxes: Sequence[Box], layout: str) -> bool:
    """Whether numbers that fit no format are still two corners, of boxes that a crop has cut or moved outside.

    Widths and heights are not always larger than coordinates, and neither are offsets that move a box.
    """
    ordered = all(box.numbers[2] > box.numbers[0] and box.numbers[3] > box.numbers[1] for box in boxes)
    return (
        ordered
        and len(boxes) >= FEWEST_ORDERED
        and sum(box.fault(layout) is None for box in boxes) >= FEWEST_SEEN * len(boxes)
    )


def _reversed(path: str, boxes: Sequence[Box], layout: str) -> list[Box]:
    """The boxes of samples in which all corners are exchanged along one axis, if those of as many others are not.

    A flip that moves both corners of a box has to exchange them. All corners lie in their images. Without the name of
    boxes, numbers may be the ends of lines, which agree by chance in samples with several.
    """
    by_sample: dict[int, list[Box]] = defaultdict(list)
    for box in boxes:
        by_sample[id(box.sample)].append(box)
    if len(boxes) - (0 if _BOX.search(path) else len(by_sample)) < FEWEST_ORDERED:
        return []
    for axis in (0, 1):
        signs = {name: {_direction(box, layout, axis) for box in own} for name, own in by_sample.items()}
        across = {_direction(box, layout, 1 - axis) for box in boxes}
        exchanged = [name for name, own in signs.items() if own == {-1}]
        kept = [name for name, own in signs.items() if own == {1}]
        if (
            min(len(exchanged), len(kept)) >= FEWEST_REVERSED
            and len(exchanged) + len(kept) == len(signs)
            and across == {1}
        ):
            return [box for name in exchanged for box in by_sample[name]]
    return []


def _direction(box: Box, layout: str, axis: int) -> int:
    """1 if the second corner is behind the first one along an axis, -1 if before it, 0 if one is outside the image."""
    first, second = (_corners(box.numbers, layout, box.height, box.width)[axis + corner] for corner in (0, 2))
    inside = min(first, second) >= 0 and max(first, second) <= (box.height if axis else box.width)
    return ((second > first) - (second < first)) if inside else 0


def _are_ordered(boxes: Sequence[Box]) -> bool:
    """Whether no second corner is before the first, in so many boxes that all are corners.

    Most are behind it, or the others lie on a border of their image, to which they were clipped.
    """
    pixels = [box for box in boxes if not box.is_normalized]
    ordered = all(third >= x and fourth >= y for x, y, third, fourth in (box.numbers for box in pixels))
    flat = [box for box in pixels if box.fault("xyxy") == NO_AREA]
    lines = sum(len(set(box.numbers)) > 1 for box in flat)
    clipped = 2 * lines > len(flat) and all(map(_is_at_border, flat)) and len(pixels) - len(flat) >= FEWEST_ORDERED
    most = len(pixels) - len(flat) >= FEWEST_SEEN * len(boxes)
    return ordered and len(pixels) >= FEWEST_ORDERED and (most or clipped)


def _is_at_border(box: Box) -> bool:
    """Whether a box without area lies on a border of its image."""
    left, top, right, bottom = box.numbers
    return (left == right and left in (0, box.width)) or (top == bottom and top in (0, box.height))
