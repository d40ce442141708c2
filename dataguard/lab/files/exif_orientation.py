"""Images that are to be turned before they are shown, as EXIF data say: whether a loader does so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from dataguard.lab.decoding.image_headers import with_orientation
from dataguard.lab.decoding.image_reading import as_rgb
from dataguard.lab.files.file_survey import Known, Place, Sightings
from dataguard.lab.files.image_writer import png
from dataguard.lab.files.swapped_file_reads import Exchange, Picture, View
from dataguard.model import NotApplicable, Undecided

MOST = 2
"""How many files are tried, each of another orientation."""
SAME, OTHER = 0.9, 0.5
"""How far two images go together at least to show the same, and at most to show something else, as a correlation."""
SHOWN: Mapping[int, Callable[[np.ndarray], np.ndarray]] = {
    2: lambda stored: stored[:, ::-1],
    3: lambda stored: stored[::-1, ::-1],
    4: lambda stored: stored[::-1],
    5: lambda stored: stored.swapaxes(0, 1),
    6: lambda stored: np.rot90(stored, -1),
    7: lambda stored: np.rot90(stored, 2).swapaxes(0, 1),
    8: np.rot90,
}
"""How pixels are shown that are stored in each orientation."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A sample whose file was given another orientation.

    `ignored` are its image leaves that stay as they are; `followed` tells that any leaf changed. `apart` tells that the
    sample makes something else than another one of the same file: it may know the orientation from elsewhere.
    `beside` tells that another of its files has the size of the image as stored, and is meant for it. `astray` are the
    image leaves that were turned the wrong way, and stand on their head.
    """

    place: Place
    name: str
    orientation: int
    ignored: tuple[str, ...]
    followed: bool
    apart: bool
    beside: bool
    astray: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Turns:
    """How many files were looked at, how many of them are to be turned, by orientation, and what became of some.

    Where none is, `tried` holds one that was given an orientation.
    """

    files: int
    rotated: tuple[tuple[int, int], ...]
    tried: tuple[Turn, ...]


def try_turns(exchange: Exchange, sightings: Sightings) -> Turns:
    """Read samples with another orientation written into their files.

    Raises NotApplicable where no file could be turned, Undecided where a sample tells nothing.
    """
    known = sightings.known
    rotated = [one for one in known if one.header.rotated]
    if not rotated:
        sightings.need_all()
    counts = Counter(one.header.orientation for one in rotated)
    chosen = {one.header.orientation: one for one in sorted(rotated, key=_tells)}
    candidates = (
        sorted(chosen.values(), key=_tells, reverse=True)[:MOST]
        or [one for one in known if one.header.format == "JPEG"][:1]
    )
    if not candidates:
        raise NotApplicable("no JPEG file, and no file with an EXIF rotation")
    return Turns(len(known), tuple(counts.items()), tuple(_try(exchange, sightings, one) for one in candidates))


def _tells(known: Known) -> bool:
    """Whether the size of an image tells in which position it is; the last one of its orientation is taken."""
    return known.header.orientation >= 5 and known.header.width != known.header.height


def _try(exchange: Exchange, sightings: Sightings, known: Known) -> Turn:
    seen = exchange.view(known.place)
    content = seen.content(known)
    turned = exchange.exchanged(known, content, _with(content, 1 if known.header.rotated else 6))
    if seen.unlike(turned) and seen.unlike(exchange.view(known.place)):
        raise Undecided("the sample varies between reads under the same random state")
    beside = any(header.size == known.header.size and not header.rotated for header in sightings.beside(known))
    turn = Turn(known.place, known.name, known.header.orientation, (), bool(seen.unlike(turned)), False, beside)
    if turn.followed:
        return replace(turn, astray=_astray(exchange, known, content, seen))
    other = _another(sightings, known)
    there = exchange.view(other.place)
    given = _with(there.content(other), 1)
    if other.header.rotated:
        there = exchange.exchanged(other, there.content(other), given)
    swapped = exchange.exchanged(known, content, given)
    follows = seen.unlike(swapped) & set(seen.pictures)
    if not follows:
        raise NotApplicable("no image in the sample follows its file")
    apart = not exchange.is_stream and bool(follows & swapped.unlike(there))
    return replace(turn, ignored=tuple(f"{seen.root}{path}" for path in sorted(follows)), apart=apart)


def _astray(exchange: Exchange, known: Known, content: bytes, seen: View) -> tuple[str, ...]:
    """The image leaves that look as if the upright image were upside down, and not as if it were upright."""
    stored = as_rgb(_with(content, 1)) if known.header.rotated else None
    if stored is None:
        return ()
    upright = np.ascontiguousarray(SHOWN[known.header.orientation](stored))
    with suppress(Undecided):  # its decoder takes no PNG files
        right = exchange.exchanged(known, content, png(upright)).pictures
        wrong = exchange.exchanged(known, content, png(np.ascontiguousarray(upright[::-1, ::-1]))).pictures
        both = [path for path in seen.pictures if path in right and path in wrong]
        shown = [(path, seen.pictures[path]) for path in both]
        found = [path for path, one in shown if _alike(one, wrong[path]) > SAME and _alike(one, right[path]) < OTHER]
        return tuple(f"{seen.root}{path}" for path in found)
    return ()


def _alike(one: Picture, other: Picture) -> float:
    """How far two images go together, as a correlation; 0 for images of one colour or of two sizes."""
    if one.shape != other.shape or one.low == one.high or other.low == other.high:
        return 0
    return float(np.corrcoef(one.pixels, other.pixels)[0, 1])


def _with(content: bytes, orientation: int) -> bytes:
    return with_orientation(content, orientation) or content


def _another(sightings: Sightings, known: Known) -> Known:
    """A file of another sample that plays the same part, one that is not to be turned if there is one."""
    others = [one for one in sightings.known if one.part == known.part and one.place != known.place]
    if not others:
        raise Undecided("only one image file was found, and the test needs two")
    return min(others, key=lambda one: one.header.rotated)
