"""Observations of a loader's image files, for `lab.files`: EXIF orientation, 16-bit values, and pixel modes.

Each observation reads a few of the surveyed samples again with changed files (`file_survey`): another orientation, or
other 16-bit values. Trials of pixel modes are in `pixel_modes`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np

from dataguard.core.model import NotApplicable, Undecided
from dataguard.lab.core.records import Index
from dataguard.lab.decoding.file_substitution import IMAGES
from dataguard.lab.decoding.image_files import as_rgb, decoded, in_format_of, png, with_orientation
from dataguard.lab.files.file_lines import FileStep, steps_of_file
from dataguard.lab.files.file_survey import (
    BUDGET_SHARE,
    FULLY_READ,
    ImageFile,
    ImageLeaf,
    ImageOutput,
    ImageReader,
    ImageSurvey,
    SampleIndex,
    alone_if_bypassed,
    image_leaf,
    survey_files,
)
from dataguard.lab.files.pixel_modes import Modes, try_modes, unusual_files
from dataguard.lab.provenance.provenance import reads_anything
from dataguard.lab.subject import Subject

T = TypeVar("T")

MOST_SURVEYED = 400
"""How many samples are surveyed, if the time allows: more find modes and rotations that few files have."""
TRIAL_READS = 16
"""About how many reads a trial needs: a bound on its time, by which it is afforded."""
_NO_FILE = "no image file is passed to a known decoder while a sample is read"


class Files:
    """Observations of image files; each observation is made once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def survey(self) -> ImageSurvey:
        """The files of samples. Raises NotApplicable if none is passed to a known decoder."""
        subject = self._subject
        subject.need_images()
        indices = self._indices
        if subject.facts.kind == "map" and not reads_anything(subject):
            raise NotApplicable(_NO_FILE)
        subject.afford_reads("files", (FULLY_READ + 1))
        seconds = BUDGET_SHARE * subject.settings.budget
        survey: ImageSurvey = subject.observe(
            "files", lambda folder: survey_files(subject.build, folder, indices, seconds, IMAGES)
        )
        if not survey.files:
            raise NotApplicable(_NO_FILE)
        return survey

    @property
    def orientations(self) -> OrientationTrials:
        """How samples respond to the EXIF orientation of their files."""
        survey = self.survey
        return self._try("orientations", lambda reader: try_orientations(reader, survey))

    @property
    def depth(self) -> BitDepth:
        """How a sample responds to the values of its 16-bit file. Raises NotApplicable if there is none."""
        candidates = files_with_16_bits(self.survey)
        return self._try("depth", lambda reader: find_depth(reader, candidates))

    @property
    def modes(self) -> Modes:
        """How samples respond to palette, alpha, CMYK and grey files. Raises NotApplicable if there are none."""
        facts, survey = self._subject.facts, self.survey
        pairs, batched = unusual_files(survey), facts.batched and facts.batch_size != 1
        return self._try("modes", lambda reader: try_modes(reader, survey, pairs, batched=batched))

    def _try(self, key: str, run: Callable[[ImageReader], T]) -> T:
        subject, survey = self._subject, self.survey
        reads = TRIAL_READS if subject.facts.kind == "map" else TRIAL_READS * len(survey.samples)
        subject.afford_reads(("files", key), reads)

        def run_trial(folder: Path) -> T:
            return run(ImageReader(subject.build, folder, survey.modules, IMAGES, image_leaf))

        return alone_if_bypassed(subject, f"files: {key}", run_trial)

    def steps(self, index: SampleIndex, name: str) -> tuple[FileStep, ...]:
        """What the file of a sample becomes, line by line; () if it cannot be followed."""
        subject, survey = self._subject, self.survey
        file = next((file for file in survey.files if (file.index, file.name) == (index, name)), None)
        if file is None:
            return ()

        def find(folder: Path) -> tuple[FileStep, ...]:
            reader = ImageReader(subject.build, folder, survey.modules, IMAGES, image_leaf)
            content = reader.read(index).content(file)
            pixels = decoded(content)
            if pixels is None:
                return ()
            other = 255 - pixels if pixels.dtype == np.uint8 else pixels >> 8  # which differs even if it is clipped
            return steps_of_file(reader, file, content, content, in_format_of(content, other))

        return subject.line_of(("file", index, name), find) or ()

    @property
    def _indices(self) -> Sequence[Index]:
        """The indices that an epoch used; none for a stream.

        No others: samples that the user's code caches on disk must be cached from their real files.
        """
        subject = self._subject
        if subject.facts.kind != "map":
            return ()
        return subject.epoch.asked(MOST_SURVEYED)


MOST_ROTATED = 2
"""How many files are tried, each with another orientation: each takes two reads or more."""
SAME_CORRELATION, OTHER_CORRELATION = 0.9, 0.5
"""The smallest correlation of two images that show the same, and the largest one of two that do not.

What lies between is not reported: a narrower gap finds more, and may take a symmetric image for a rotated one.
"""
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
"""Rotates or flips stored pixels to upright, by orientation, as EXIF defines them."""


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
    rotated = [file for file in files if file.header.rotated]
    if not rotated:
        survey.need_all()
    counts = Counter(file.header.orientation for file in rotated)
    chosen = {file.header.orientation: file for file in sorted(rotated, key=_shape_depends_on_it)}
    candidates = (
        sorted(chosen.values(), key=_shape_depends_on_it, reverse=True)[:MOST_ROTATED]
        or [file for file in files if file.header.format == "JPEG"][:1]
    )
    if not candidates:
        raise NotApplicable("no JPEG file, and no file with an EXIF rotation")
    return OrientationTrials(
        len(files), tuple(counts.items()), tuple(_try(reader, survey, file) for file in candidates)
    )


def _shape_depends_on_it(file: ImageFile) -> bool:
    """Whether the shape of an image depends on its orientation; such files are preferred."""
    return file.header.orientation >= 5 and file.header.width != file.header.height


def _try(reader: ImageReader, survey: ImageSurvey, file: ImageFile) -> OrientationTrial:
    seen = reader.read(file.index)
    content = seen.content(file)
    reoriented = reader.read_swapped(file, content, _reoriented(content, 1 if file.header.rotated else UPSIDE_DOWN))
    if seen.differing_leaves(reoriented) and seen.differing_leaves(reader.read(file.index)):
        raise Undecided("the sample varies between reads under the same random state")
    companion = any(header.size == file.header.size and not header.rotated for header in survey.others(file))
    changed = bool(seen.differing_leaves(reoriented))
    trial = OrientationTrial(file.index, file.name, file.header.orientation, (), changed, False, companion)
    if changed:
        return replace(trial, misrotated=_misrotated(reader, file, content, seen))
    other = _another_file(survey, file)
    other_sample = reader.read(other.index)
    given = _reoriented(other_sample.content(other), 1)
    if other.header.rotated:
        other_sample = reader.read_swapped(other, other_sample.content(other), given)
    swapped = reader.read_swapped(file, content, given)
    follows = seen.differing_leaves(swapped) & set(seen.shown)
    if not follows:
        raise NotApplicable("no image in the sample follows its file")
    inconsistent = not reader.is_stream and bool(follows & swapped.differing_leaves(other_sample))
    return replace(trial, ignored=tuple(f"{seen.root}{path}" for path in sorted(follows)), inconsistent=inconsistent)


def _misrotated(reader: ImageReader, file: ImageFile, content: bytes, seen: ImageOutput) -> tuple[str, ...]:
    """The image leaves that match the upright image upside down, and not the upright image."""
    stored = as_rgb(_reoriented(content, 1)) if file.header.rotated else None
    if stored is None:
        return ()
    upright = np.ascontiguousarray(TO_UPRIGHT[file.header.orientation](stored))
    with suppress(Undecided):  # its decoder does not support PNG
        right = reader.read_swapped(file, content, png(upright)).shown
        wrong = reader.read_swapped(file, content, png(np.ascontiguousarray(upright[::-1, ::-1]))).shown
        compared = [(path, leaf) for path, leaf in seen.shown.items() if path in right and path in wrong]
        return tuple(
            f"{seen.root}{path}"
            for path, leaf in compared
            if _correlation(leaf, wrong[path]) > SAME_CORRELATION
            and _correlation(leaf, right[path]) < OTHER_CORRELATION
        )
    return ()


def _correlation(leaf: ImageLeaf, other: ImageLeaf) -> float:
    """The correlation of two images; 0 for images of one colour or of different sizes."""
    if leaf.shape != other.shape or leaf.low == leaf.high or other.low == other.high:
        return 0
    return float(np.corrcoef(leaf.pixels, other.pixels)[0, 1])


def _reoriented(content: bytes, orientation: int) -> bytes:
    return with_orientation(content, orientation) or content


def _another_file(survey: ImageSurvey, file: ImageFile) -> ImageFile:
    """The file of another sample with the same role, preferably one without an EXIF rotation."""
    others = [
        candidate for candidate in survey.files if candidate.position == file.position and candidate.index != file.index
    ]
    if not others:
        raise Undecided("only one image file was found, and the test needs two")
    return min(others, key=lambda candidate: candidate.header.rotated)


MOST_DEEP_FILES = 8
"""How many files are read to find one whose values need more than 8 bits, and the largest value: a bound on the
time."""
LARGEST_UINT8, LARGEST_INT16 = 255, 32767
"""The largest value of uint8 and of int16."""
CUT_VALUES = (LARGEST_UINT8 - 55, LARGEST_UINT8 - 100)
"""Two values that fit into 8 bits, and at which files are cut: where cutting at the second changes the sample again,
the sample follows small values, and not only a threshold close to the first."""
KEPT_SHARE = 0.01
"""The smallest share of pixels above a limit that matters: smaller finds more, larger ignores a few bright pixels."""
FEWEST_VALUES = 512
"""A file with fewer values may be a mask of object ids, of which some bits have a meaning; 8 bits hold half as many."""
LARGEST_UINT16 = 65535
"""The largest value of uint16."""
LINE_TOLERANCE = 1e-3
"""How far values may be off a straight line, as a share of its span: rounding to 8 bits is off by up to 0.002."""
UNIFORM_LEVELS = (1_000, 20_000, 30_000, 40_000, 60_000)
"""The values of uniform images that replace a file, to measure its curve: three within int16, and two beyond."""
VANISHING_VALUE = 1e-4
"""The largest value of a curve after a division by the 32-bit range, of which 65535 is at most 3e-5."""


@dataclass(frozen=True, slots=True)
class Curve:
    """The median of an image leaf for uniform images of increasing values."""

    path: str
    dtype: str
    values: tuple[float, ...]

    @property
    def wraps(self) -> bool:
        """Whether values of the upper half overflow: they are below those of the lower half."""
        low, more, most, upper, highest = self.values
        return low < more < most and upper < low and upper < highest < low

    @property
    def span(self) -> float | None:
        """The difference between 0 and 65535 as floats, if all values are on one straight line."""
        gain, offset = np.polyfit(UNIFORM_LEVELS, self.values, 1)
        error = np.abs(np.polyval((gain, offset), UNIFORM_LEVELS) - self.values).max()
        is_linear = "float" in self.dtype and error < LINE_TOLERANCE * abs(gain) * UNIFORM_LEVELS[-1]
        return float(gain) * LARGEST_UINT16 if is_linear else None

    @property
    def vanishes(self) -> bool:
        """Whether all values are close to zero, as after a division by the 32-bit range."""
        growing = all(value < following for value, following in pairwise(self.values))
        return growing and "float" in self.dtype and max(map(abs, self.values)) < VANISHING_VALUE


@dataclass(frozen=True, slots=True)
class BitDepth:
    """How a sample responds to the values of its 16-bit file.

    `above` and `upper` are the shares of its pixels above 255 and 32767, `largest` its largest value and `brightest`
    that of a few files. The sample stays the same if values above 255 become 255 (`clipped`), if the upper 8 bits are
    cleared (`wrapped`), or if the lower 8 bits are cleared (`reduced`). `curves` are those of image leaves.
    """

    files: int
    index: SampleIndex
    name: str
    largest: int
    above: float
    upper: float
    clipped: bool
    wrapped: bool
    reduced: bool
    curves: tuple[Curve, ...]
    brightest: int


def files_with_16_bits(survey: ImageSurvey) -> list[ImageFile]:
    """The 16-bit files. Raises NotApplicable if there are none."""
    files = [file for file in survey.files if file.header.bits == 16]
    if not files:
        survey.need_all()
        raise NotApplicable("no image file has 16 bits per channel")
    return files


def find_depth(reader: ImageReader, files: Sequence[ImageFile]) -> BitDepth:
    """Read a sample with other values in its 16-bit file, one of `files`.

    Raises NotApplicable if all values fit into 8 bits, Undecided if a file cannot be read.
    """
    deep_files: list[tuple[ImageFile, bytes, np.ndarray]] = []
    for file in files[:: -(-len(files) // MOST_DEEP_FILES)]:
        content = reader.read(file.index).content(file)
        pixels = decoded(content)
        if pixels is None or pixels.dtype != np.uint16:
            raise Undecided(f"no imported library reads all bits of {file.header.format} files")
        if (pixels > LARGEST_UINT8).mean() >= KEPT_SHARE:
            deep_files.append((file, content, pixels))
    if deep_files:
        chosen = next((read for read in deep_files if _has_many_values(read[2])), deep_files[0])
        depth = _depth(reader, *chosen, len(files))
        return replace(depth, brightest=max(int(pixels.max()) for _, _, pixels in deep_files))
    raise NotApplicable("values of 16-bit files fit into 8 bits")


def _has_many_values(pixels: np.ndarray) -> bool:
    return len(np.unique(pixels)) >= FEWEST_VALUES


def _depth(reader: ImageReader, file: ImageFile, content: bytes, pixels: np.ndarray, files: int) -> BitDepth:
    def given(change: Callable[[np.ndarray], np.ndarray]) -> ImageOutput:
        return reader.read_swapped(file, content, in_format_of(content, change(pixels).astype(np.uint16)))

    original = given(lambda values: values)

    def is_unaffected_by(change: Callable[[np.ndarray], np.ndarray]) -> bool:
        return not original.differing_leaves(given(change))

    def follows_low() -> bool:
        """Whether values below the limit have an effect, and not only a threshold close to it."""
        some, less = (given(lambda values, most=most: np.minimum(values, most)) for most in CUT_VALUES)  # type: ignore[misc]
        return bool(original.differing_leaves(some)) and bool(some.differing_leaves(less))

    clipped = is_unaffected_by(lambda values: np.minimum(values, LARGEST_UINT8)) and follows_low()
    many_values = _has_many_values(pixels)
    wrapped = many_values and not clipped and is_unaffected_by(lambda values: values & LARGEST_UINT8)
    reduced = (
        many_values and not (clipped or wrapped) and is_unaffected_by(lambda values: values & ~np.uint16(LARGEST_UINT8))
    )
    if wrapped or reduced:
        if is_unaffected_by(lambda values: LARGEST_UINT16 - values):
            raise NotApplicable("nothing in the sample follows the pixel values of its file")
    elif not clipped and not is_unaffected_by(lambda values: values):
        raise Undecided("the sample varies between reads under the same random state")
    uniform = [given(lambda values, level=level: np.full_like(values, level)) for level in UNIFORM_LEVELS]  # type: ignore[misc]
    shown = [read.shown for read in uniform]
    paths = sorted(set.intersection(*map(set, shown)) & original.differing_leaves(uniform[0]))
    return BitDepth(
        files=files,
        index=file.index,
        name=file.name,
        largest=int(pixels.max()),
        above=float((pixels > LARGEST_UINT8).mean()),
        upper=float((pixels > LARGEST_INT16).mean()),
        clipped=clipped,
        wrapped=wrapped,
        reduced=reduced,
        curves=tuple(_curve(path, original.root, [leaves[path] for leaves in shown]) for path in paths),
        brightest=int(pixels.max()),
    )


def _curve(path: str, root: str, images: Sequence[ImageLeaf]) -> Curve:
    return Curve(f"{root}{path}", images[0].dtype, tuple(image.middle for image in images))
