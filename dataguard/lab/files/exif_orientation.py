"""Whether a loader applies the EXIF orientation of images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from dataguard.lab.decoding.image_headers import with_orientation
from dataguard.lab.decoding.image_reading import as_rgb
from dataguard.lab.decoding.image_writer import png
from dataguard.lab.files.file_survey import ImageFile, ImageSurvey, SampleIndex
from dataguard.lab.files.image_leaves import ImageLeaf, ImageOutput, ImageReader
from dataguard.model import NotApplicable, Undecided

MOST = 2
"""How many files are tried, each with another orientation."""
SAME, OTHER = 0.9, 0.5
"""The smallest correlation of two images that show the same, and the largest one of two that do not."""
UPSIDE_DOWN = 3
"""The orientation that a file gets which has none: the image keeps its size, and so still fits the sample's mask."""
TO_UPRIGHT: Mapping[int, Callable[[np.ndarray], np.ndarray]] = {
    2: lambda stored: stored[:, ::-1],
    3: lambda stored: stored[::-1, ::-1],
    4: lambda stored: stored[::-1],
    5: lambda stored: stored.swapaxes(0, 1),
    6: lambda stored: np.rot90(stored, -1),
    7: lambda stored: np.rot90(stored, 2).swapaxes(0, 1),
    8: np.rot90,
}
"""Rotates or flips stored pixels to upright, by orientation."""


@dataclass(frozen=True, slots=True)
class OrientationTrial:
    """A sample whose file got another orientation.

    `ignored` are its image leaves that do not change; `changed` means that any leaf does. `inconsistent` means that the
    sample differs from another one with the same file: it may know the orientation from elsewhere. `companion` means
    that another of its files, such as a mask, has the size of the image as stored. `misrotated` are the image leaves
    that are rotated in the wrong direction, and upside down.
    """

    index: SampleIndex
    name: str
    orientation: int
    ignored: tuple[str, ...]
    changed: bool
    inconsistent: bool
    companion: bool
    misrotated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OrientationTrials:
    """The number of files, how many of them have each EXIF rotation, and trials of some.

    If no file has one, `trials` holds one that got a rotation.
    """

    files: int
    rotated: tuple[tuple[int, int], ...]
    trials: tuple[OrientationTrial, ...]


def try_orientations(reader: ImageReader, survey: ImageSurvey) -> OrientationTrials:
    """Read samples with another orientation written into their files.

    Raises NotApplicable if no file can get an orientation, Undecided if samples cannot be compared.
    """
    files = survey.files
    rotated = [one for one in files if one.header.rotated]
    if not rotated:
        survey.need_all()
    counts = Counter(one.header.orientation for one in rotated)
    chosen = {one.header.orientation: one for one in sorted(rotated, key=_shape_depends_on_it)}
    candidates = (
        sorted(chosen.values(), key=_shape_depends_on_it, reverse=True)[:MOST]
        or [one for one in files if one.header.format == "JPEG"][:1]
    )
    if not candidates:
        raise NotApplicable("no JPEG file, and no file with an EXIF rotation")
    return OrientationTrials(len(files), tuple(counts.items()), tuple(_try(reader, survey, one) for one in candidates))


def _shape_depends_on_it(file: ImageFile) -> bool:
    """Whether the shape of an image depends on its orientation; such files are preferred."""
    return file.header.orientation >= 5 and file.header.width != file.header.height


def _try(reader: ImageReader, survey: ImageSurvey, file: ImageFile) -> OrientationTrial:
    seen = reader.read(file.index)
    content = seen.content(file)
    reoriented = reader.read_swapped(file, content, _with(content, 1 if file.header.rotated else UPSIDE_DOWN))
    if seen.differing_leaves(reoriented) and seen.differing_leaves(reader.read(file.index)):
        raise Undecided("the sample varies between reads under the same random state")
    companion = any(header.size == file.header.size and not header.rotated for header in survey.others(file))
    changed = bool(seen.differing_leaves(reoriented))
    trial = OrientationTrial(file.index, file.name, file.header.orientation, (), changed, False, companion)
    if changed:
        return replace(trial, misrotated=_misrotated(reader, file, content, seen))
    other = _another_file(survey, file)
    own = reader.read(other.index)
    given = _with(own.content(other), 1)
    if other.header.rotated:
        own = reader.read_swapped(other, own.content(other), given)
    swapped = reader.read_swapped(file, content, given)
    follows = seen.differing_leaves(swapped) & set(seen.shown)
    if not follows:
        raise NotApplicable("no image in the sample follows its file")
    inconsistent = not reader.is_stream and bool(follows & swapped.differing_leaves(own))
    return replace(trial, ignored=tuple(f"{seen.root}{path}" for path in sorted(follows)), inconsistent=inconsistent)


def _misrotated(reader: ImageReader, file: ImageFile, content: bytes, seen: ImageOutput) -> tuple[str, ...]:
    """The image leaves that match the upright image upside down, and not the upright image."""
    stored = as_rgb(_with(content, 1)) if file.header.rotated else None
    if stored is None:
        return ()
    upright = np.ascontiguousarray(TO_UPRIGHT[file.header.orientation](stored))
    with suppress(Undecided):  # its decoder does not support PNG
        right = reader.read_swapped(file, content, png(upright)).shown
        wrong = reader.read_swapped(file, content, png(np.ascontiguousarray(upright[::-1, ::-1]))).shown
        both = [path for path in seen.shown if path in right and path in wrong]
        shown = [(path, seen.shown[path]) for path in both]
        found = [
            path
            for path, one in shown
            if _correlation(one, wrong[path]) > SAME and _correlation(one, right[path]) < OTHER
        ]
        return tuple(f"{seen.root}{path}" for path in found)
    return ()


def _correlation(one: ImageLeaf, other: ImageLeaf) -> float:
    """The correlation of two images; 0 for images of one colour or of different sizes."""
    if one.shape != other.shape or one.low == one.high or other.low == other.high:
        return 0
    return float(np.corrcoef(one.pixels, other.pixels)[0, 1])


def _with(content: bytes, orientation: int) -> bytes:
    return with_orientation(content, orientation) or content


def _another_file(survey: ImageSurvey, file: ImageFile) -> ImageFile:
    """The file of another sample with the same role, preferably one without an EXIF rotation."""
    others = [one for one in survey.files if one.position == file.position and one.index != file.index]
    if not others:
        raise Undecided("only one image file was found, and the test needs two")
    return min(others, key=lambda one: one.header.rotated)
