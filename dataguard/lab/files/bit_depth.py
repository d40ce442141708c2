"""Files of 16 bits: what of their values is left in a sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dataguard.lab.decoding.image_reading import decoded
from dataguard.lab.files.file_survey import Known, Place, Sightings
from dataguard.lab.files.image_writer import like
from dataguard.lab.files.swapped_file_reads import Exchange, Picture, View
from dataguard.model import NotApplicable, Undecided

MOST = 3
"""How many files are looked at to find one whose values need more than 8 bits."""
BYTE, HALF = 255, 32767
"""The largest value of 8 bits, and of 16 bits with a sign."""
BELOW = (BYTE - 55, BYTE - 100)
"""Values that 8 bits hold."""
SHARE = 0.01
"""The share of pixels above a limit from which on it matters."""
DISTINCT = 512
"""A file of fewer values is no picture: they may be numbers of objects, of which some bits mean something."""
WHOLE = 65535
STRAIGHT = 1e-3
"""How far values of a straight line may lie off, as a share of its span."""
LEVELS = (1_000, 20_000, 30_000, 40_000, 60_000)
"""The values of even images that are handed over to see which way they go."""


@dataclass(frozen=True, slots=True)
class Curve:
    """The middle value of an image leaf for even images of growing values."""

    path: str
    dtype: str
    values: tuple[float, ...]

    @property
    def wraps(self) -> bool:
        """Whether values of the upper half fall below those of the lower one."""
        low, more, most, upper, highest = self.values
        return low < more < most and upper < low and upper < highest < low

    @property
    def span(self) -> float | None:
        """How far apart 0 and 65535 come out as floating point numbers, where all values follow one straight line."""
        gain, offset = np.polyfit(LEVELS, self.values, 1)
        missed = np.abs(np.polyval((gain, offset), LEVELS) - self.values).max()
        straight = "float" in self.dtype and missed < STRAIGHT * abs(gain) * LEVELS[-1]
        return float(gain) * WHOLE if straight else None

    @property
    def vanishes(self) -> bool:
        """Whether all values come out next to zero, as those do that are divided by the range of 32 bits."""
        growing = all(one < two for one, two in pairwise(self.values))
        return growing and "float" in self.dtype and max(map(abs, self.values)) < 1e-4


@dataclass(frozen=True, slots=True)
class Depth:
    """What became of the values of one file of 16 bits.

    `above` and `upper` are the shares of its pixels above 255 and 32767, `largest` its largest value. The sample stays
    the same when all values above 255 are made 255 (`clipped`), when all that does not fit into 8 bits is cut off
    (`wrapped`), and when the lower 8 bits are cleared (`reduced`). `curves` are those of image leaves.
    """

    files: int
    place: Place
    name: str
    largest: int
    above: float
    upper: float
    clipped: bool
    wrapped: bool
    reduced: bool
    curves: tuple[Curve, ...]


def deep_files(sightings: Sightings) -> list[Known]:
    """The files of 16 bits. Raises NotApplicable where there is none."""
    deep = [one for one in sightings.known if one.header.bits == 16]
    if not deep:
        sightings.need_all()
        raise NotApplicable("no image file has 16 bits per channel")
    return deep


def find_depth(exchange: Exchange, deep: Sequence[Known]) -> Depth:
    """Read a sample with other values in its file of 16 bits; `deep` are those that there are.

    Raises NotApplicable where no values need so many, Undecided where a file cannot be read.
    """
    poor: list[tuple[Known, bytes, np.ndarray]] = []
    for known in deep[:: -(-len(deep) // MOST)]:
        content = exchange.view(known.place).content(known)
        pixels = decoded(content)
        if pixels is None or pixels.dtype != np.uint16:
            raise Undecided(f"no imported library reads all bits of {known.header.format} files")
        if (pixels > BYTE).mean() >= SHARE:
            if _is_rich(pixels):
                return _depth(exchange, known, content, pixels, len(deep))
            poor.append((known, content, pixels))
    if poor:
        return _depth(exchange, *poor[0], len(deep))
    raise NotApplicable("values of 16-bit files fit into 8 bits")


def _is_rich(pixels: np.ndarray) -> bool:
    return len(np.unique(pixels)) >= DISTINCT


def _depth(exchange: Exchange, known: Known, content: bytes, pixels: np.ndarray, files: int) -> Depth:
    def given(change: Callable[[np.ndarray], np.ndarray]) -> View:
        return exchange.exchanged(known, content, like(content, change(pixels).astype(np.uint16)))

    whole = given(lambda values: values)

    def stays(change: Callable[[np.ndarray], np.ndarray]) -> bool:
        return not whole.unlike(given(change))

    def follows_low() -> bool:
        """Whether values below the limit count, and not a threshold close to it alone."""
        some, less = (given(lambda values, most=most: np.minimum(values, most)) for most in BELOW)  # type: ignore[misc]
        return bool(whole.unlike(some)) and bool(some.unlike(less))

    clipped = stays(lambda values: np.minimum(values, BYTE)) and follows_low()
    picture = _is_rich(pixels)
    wrapped = picture and not clipped and stays(lambda values: values & BYTE)
    reduced = picture and not (clipped or wrapped) and stays(lambda values: values & ~np.uint16(BYTE))
    if wrapped or reduced:
        if stays(lambda values: 65535 - values):
            raise NotApplicable("nothing in the sample follows the pixel values of its file")
    elif not clipped and not stays(lambda values: values):
        raise Undecided("the sample varies between reads under the same random state")
    views = [given(lambda values, level=level: np.full_like(values, level)) for level in LEVELS]  # type: ignore[misc]
    shown = [view.pictures for view in views]
    paths = sorted(set.intersection(*map(set, shown)) & whole.unlike(views[0]))
    return Depth(
        files=files,
        place=known.place,
        name=known.name,
        largest=int(pixels.max()),
        above=float((pixels > BYTE).mean()),
        upper=float((pixels > HALF).mean()),
        clipped=clipped,
        wrapped=wrapped,
        reduced=reduced,
        curves=tuple(_curve(path, whole.root, [one[path] for one in shown]) for path in paths),
    )


def _curve(path: str, root: str, pictures: Sequence[Picture]) -> Curve:
    return Curve(f"{root}{path}", pictures[0].dtype, tuple(one.middle for one in pictures))
