"""16-bit files: which of their values are kept in a sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from dataguard.lab.decoding.image_reading import decoded
from dataguard.lab.decoding.image_writer import in_format_of
from dataguard.lab.files.file_survey import ImageFile, ImageSurvey, SampleIndex
from dataguard.lab.files.image_leaves import ImageLeaf, ImageOutput, ImageReader
from dataguard.model import NotApplicable, Undecided

MOST = 8
"""How many files are read to find one whose values need more than 8 bits, and the largest value."""
BYTE, HALF = 255, 32767
"""The largest value of uint8 and of int16."""
BELOW = (BYTE - 55, BYTE - 100)
"""Values that fit into 8 bits."""
SHARE = 0.01
"""The smallest share of pixels above a limit that matters."""
FEWEST_VALUES = 512
"""A file with fewer values may be a mask of object ids, of which some bits have a meaning."""
LARGEST = 65535
TOLERANCE = 1e-3
"""How far values may be off a straight line, as a share of its span."""
LEVELS = (1_000, 20_000, 30_000, 40_000, 60_000)
"""The values of uniform images that replace a file, to measure its curve."""


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
        gain, offset = np.polyfit(LEVELS, self.values, 1)
        error = np.abs(np.polyval((gain, offset), LEVELS) - self.values).max()
        is_linear = "float" in self.dtype and error < TOLERANCE * abs(gain) * LEVELS[-1]
        return float(gain) * LARGEST if is_linear else None

    @property
    def vanishes(self) -> bool:
        """Whether all values are close to zero, as after a division by the 32-bit range."""
        growing = all(one < two for one, two in pairwise(self.values))
        return growing and "float" in self.dtype and max(map(abs, self.values)) < 1e-4


@dataclass(frozen=True, slots=True)
class Depth:
    """How a sample responds to the values of its 16-bit file.

    `above` and `upper` are the shares of its pixels above 255 and 32767, `largest` its largest value and `brightest`
    that of a few files. The sample stays
    the same if values above 255 become 255 (`clipped`), if the upper 8 bits are cleared (`wrapped`), or if the lower 8
    bits are cleared (`reduced`). `curves` are those of image leaves.
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
    found = [one for one in survey.files if one.header.bits == 16]
    if not found:
        survey.need_all()
        raise NotApplicable("no image file has 16 bits per channel")
    return found


def find_depth(reader: ImageReader, files: Sequence[ImageFile]) -> Depth:
    """Read a sample with other values in its 16-bit file, one of `files`.

    Raises NotApplicable if all values fit into 8 bits, Undecided if a file cannot be read.
    """
    found: list[tuple[ImageFile, bytes, np.ndarray]] = []
    for file in files[:: -(-len(files) // MOST)]:
        content = reader.read(file.index).content(file)
        pixels = decoded(content)
        if pixels is None or pixels.dtype != np.uint16:
            raise Undecided(f"no imported library reads all bits of {file.header.format} files")
        if (pixels > BYTE).mean() >= SHARE:
            found.append((file, content, pixels))
    if found:
        chosen = next((read for read in found if _has_many_values(read[2])), found[0])
        depth = _depth(reader, *chosen, len(files))
        return replace(depth, brightest=max(int(pixels.max()) for _, _, pixels in found))
    raise NotApplicable("values of 16-bit files fit into 8 bits")


def _has_many_values(pixels: np.ndarray) -> bool:
    return len(np.unique(pixels)) >= FEWEST_VALUES


def _depth(reader: ImageReader, file: ImageFile, content: bytes, pixels: np.ndarray, files: int) -> Depth:
    def given(change: Callable[[np.ndarray], np.ndarray]) -> ImageOutput:
        return reader.read_swapped(file, content, in_format_of(content, change(pixels).astype(np.uint16)))

    original = given(lambda values: values)

    def is_unaffected_by(change: Callable[[np.ndarray], np.ndarray]) -> bool:
        return not original.differing_leaves(given(change))

    def follows_low() -> bool:
        """Whether values below the limit have an effect, and not only a threshold close to it."""
        some, less = (given(lambda values, most=most: np.minimum(values, most)) for most in BELOW)  # type: ignore[misc]
        return bool(original.differing_leaves(some)) and bool(some.differing_leaves(less))

    clipped = is_unaffected_by(lambda values: np.minimum(values, BYTE)) and follows_low()
    many_values = _has_many_values(pixels)
    wrapped = many_values and not clipped and is_unaffected_by(lambda values: values & BYTE)
    reduced = many_values and not (clipped or wrapped) and is_unaffected_by(lambda values: values & ~np.uint16(BYTE))
    if wrapped or reduced:
        if is_unaffected_by(lambda values: 65535 - values):
            raise NotApplicable("nothing in the sample follows the pixel values of its file")
    elif not clipped and not is_unaffected_by(lambda values: values):
        raise Undecided("the sample varies between reads under the same random state")
    uniform = [given(lambda values, level=level: np.full_like(values, level)) for level in LEVELS]  # type: ignore[misc]
    shown = [read.shown for read in uniform]
    paths = sorted(set.intersection(*map(set, shown)) & original.differing_leaves(uniform[0]))
    return Depth(
        files=files,
        index=file.index,
        name=file.name,
        largest=int(pixels.max()),
        above=float((pixels > BYTE).mean()),
        upper=float((pixels > HALF).mean()),
        clipped=clipped,
        wrapped=wrapped,
        reduced=reduced,
        curves=tuple(_curve(path, original.root, [one[path] for one in shown]) for path in paths),
        brightest=int(pixels.max()),
    )


def _curve(path: str, root: str, images: Sequence[ImageLeaf]) -> Curve:
    return Curve(f"{root}{path}", images[0].dtype, tuple(one.middle for one in images))
