"""Files of other kinds of pixels than red, green and blue: what comes out of the samples that are made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dataguard.lab.decoding.decoders import BRIGHTNESS
from dataguard.lab.decoding.image_headers import ALPHA, CMYK, PALETTE, RGB
from dataguard.lab.decoding.image_reading import as_rgb, decoded
from dataguard.lab.files.file_survey import Known, Place, Sightings
from dataguard.lab.files.image_writer import png, recoloured
from dataguard.lab.files.swapped_file_reads import Exchange, Picture
from dataguard.model import NotApplicable

TRANSPARENT = 0.02
"""The share of fully transparent pixels from which on it matters which colours they have."""
UNIFORM = 0.9
"""The share of them that has one colour, where that is a background."""
FLAT = 2.0
"""How much colours vary, from 0 to 255, in an image whose shapes are in its alpha channel alone."""
COLOURS = 64
"""How many colours of a palette an image has at least, where no other files beside it tell that it is no mask."""
ALIKE = 0.6
"""How far an image of CMYK and the same one of red, green and blue go together at least, as a correlation."""
_COLOURED = (RGB, ALPHA, CMYK)


@dataclass(frozen=True, slots=True)
class Trial:
    """A sample whose file is of some kind, and what is wrong with one of its image leaves, if anything."""

    kind: str
    place: Place
    name: str
    path: str = ""
    wrong: str | None = None


@dataclass(frozen=True, slots=True)
class Modes:
    """How many files of each kind were looked at, and what became of those kinds that are not the usual one.

    `refused` names kinds whose samples fail in collate_fn together with the others.
    """

    kinds: tuple[tuple[str, int], ...]
    trials: tuple[Trial, ...]
    refused: tuple[str, ...]


Pairs = list[tuple[Known, Known]]


def special_files(sightings: Sightings) -> Pairs:
    """A file of each kind that is special for its part in a sample, with one of the usual kind.

    Raises NotApplicable where all files that play one part are of one kind, and that is nothing special.
    """
    pairs = _pairs(sightings.known)
    if not pairs:
        sightings.need_all()
        raise NotApplicable(_all_usual(sightings))
    return pairs


def _all_usual(sightings: Sightings) -> str:
    kinds = dict.fromkeys(one.header.pixels for one in sightings.known)
    return f"all image files are {' or '.join(kinds)}"


def try_modes(exchange: Exchange, sightings: Sightings, pairs: Pairs, *, together: bool) -> Modes:
    """Look at a sample of each kind of files, the `pairs` of special ones and usual ones.

    `together` tells that there are several samples in a batch. Raises NotApplicable where nothing is special about any.
    """
    trials: list[Trial] = []
    refused: list[str] = []
    for known, model in pairs:
        if known.header.pixels == PALETTE and model == known and not _is_picture(exchange, known):
            trials += _greyed(exchange, known) if _beside_a_picture(known, sightings.known) else []
            continue
        trial, shifts = _try(exchange, known, model)
        if shifts and together and not exchange.collates([model.place, known.place]):
            refused.append(known.header.pixels)
        else:
            trials.append(trial)
    kinds = Counter(one.header.pixels for one in sightings.known)
    if not trials and not refused:
        sightings.need_all()
        raise NotApplicable(_all_usual(sightings))
    return Modes(tuple(kinds.items()), tuple(trials), tuple(refused))


def _pairs(files: Sequence[Known]) -> Pairs:
    pairs = []
    for part in sorted({one.part for one in files}):
        kinds = {one.header.pixels: one for one in reversed(files) if one.part == part and one.header.bits == 8}
        counts = Counter(one.header.pixels for one in files if one.part == part and one.header.bits == 8)
        usual = RGB if RGB in kinds else max(counts, key=lambda kind: counts[kind], default=RGB)
        if not set(kinds) & set(_COLOURED):  # numbers of classes may well come with a palette or without
            pairs += [(kinds[PALETTE], kinds[PALETTE])] if PALETTE in kinds else []
            continue
        pairs += [(kinds[kind], kinds[usual]) for kind in kinds if kind != usual or kind in (ALPHA, CMYK)]
    return pairs


def _try(exchange: Exchange, known: Known, model: Known) -> tuple[Trial, bool]:
    """What becomes of a file, and whether that shifts the structure of the sample."""
    seen = exchange.view(known.place)
    content = seen.content(known)
    another = exchange.view(model.place).content(model) if model != known else _even(known)
    usual = exchange.exchanged(known, content, another)
    trial = Trial(known.header.pixels, known.place, known.name)
    follows = sorted(seen.unlike(usual) & set(seen.pictures) & set(usual.pictures))
    if not follows:
        return trial, False
    for path in follows:
        shift = _shift(seen.pictures[path], usual.pictures[path])
        if shift and model != known:
            return replace(trial, path=f"{seen.root}{path}", wrong=f"{shift}, unlike {model.header.pixels} files"), True
    wrong = {PALETTE: _numbered, CMYK: _inverted, ALPHA: _hidden}.get(known.header.pixels)
    if known.header.pixels == PALETTE and model == known:  # whole numbers may be meant as such
        follows = [path for path in follows if "float" in seen.pictures[path].dtype]
    found = wrong(exchange, known, content, follows) if wrong else None
    return (replace(trial, path=f"{seen.root}{found[0]}", wrong=found[1]) if found else trial), False


def _is_picture(exchange: Exchange, known: Known) -> bool:
    """Whether a file with a palette has more colours than a mask has classes."""
    twins = recoloured(exchange.view(known.place).content(known))
    return twins is not None and twins.used >= COLOURS


def _beside_a_picture(known: Known, files: Sequence[Known]) -> bool:
    """Whether a sample is made of a file with colours as well, in another part."""
    others = (one for one in files if one.place == known.place and one.part != known.part)
    return any(one.header.pixels in _COLOURED for one in others)


def _greyed(exchange: Exchange, known: Known) -> list[Trial]:
    """A trial where labels come out as the brightness of their colours, also of other ones in the palette."""
    seen = exchange.view(known.place)
    content = seen.content(known)
    twins = recoloured(content)
    if twins is None or not np.ptp(twins.colours, axis=1).any():  # the numbers of greys may be their brightness
        return []
    numbers, turned = np.unique(twins.numbers), np.roll(twins.colours, 1, axis=1)
    bright = [path for path, one in sorted(seen.pictures.items()) if _is_brightness(one, twins.colours, numbers)]
    if not bright:
        return []
    other = exchange.exchanged(known, content, png(twins.numbers, turned)).pictures
    follows = [path for path in bright if path in other and _is_brightness(other[path], turned, numbers)]
    wrong = "holds the brightness of palette colours instead of class indices"
    return [Trial(PALETTE, known.place, known.name, f"{seen.root}{path}", wrong) for path in follows[:1]]


def _is_brightness(picture: Picture, colours: np.ndarray, numbers: np.ndarray) -> bool:
    """Whether whole numbers, which are no bytes, are the brightness of some colours and not the numbers of them."""
    values = np.unique(picture.pixels)
    if not picture.dtype.startswith("int") or np.isin(values, numbers).all():
        return False
    distance = np.abs(values[:, None] - np.rint(colours @ np.array(BRIGHTNESS))).min(axis=1)
    return bool((distance <= 1).all())


def _even(known: Known) -> bytes:
    """An even grey like an image, opaque where it may be transparent, with a palette where it has one."""
    size = known.header.height, known.header.width
    if known.header.pixels == PALETTE:
        return png(np.zeros(size, np.uint8), np.full((1, 3), 128))
    even = np.full((*size, 4 if known.header.pixels == ALPHA else 3), 128, np.uint8)
    even[..., 3:] = 255
    return png(even)


def _shift(one: Picture, usual: Picture) -> str | None:
    """In what two images differ that should have the same channels."""
    if len(one.shape) != len(usual.shape):
        return f"has {len(one.shape)} dimensions instead of {len(usual.shape)}"
    if one.channels != usual.channels:
        return f"has {one.channels} channel{'s' * (one.channels != 1)} instead of {usual.channels}"
    return None


def _numbered(exchange: Exchange, known: Known, content: bytes, follows: Sequence[str]) -> tuple[str, str] | None:
    """An image that changes when the colours of its palette are numbered in another order."""
    twins = recoloured(content)
    if twins is None:
        return None
    one, other = (exchange.exchanged(known, content, twin) for twin in (twins.plain, twins.turned))
    changed = [path for path in follows if path in one.unlike(other)]
    return (changed[0], "holds palette indices instead of colours") if changed else None


def _inverted(exchange: Exchange, known: Known, content: bytes, follows: Sequence[str]) -> tuple[str, str] | None:
    """An image that does not look like the same one in red, green and blue."""
    pixels = as_rgb(content)
    if pixels is None:
        return None
    seen, twin = exchange.view(known.place), exchange.exchanged(known, content, png(pixels))
    for path in follows:
        one, other = seen.pictures[path].pixels, twin.pictures[path].pixels
        if one.shape != other.shape or not (np.ptp(one) and np.ptp(other)):
            continue
        alike = float(np.corrcoef(one, other)[0, 1])
        if alike < ALIKE:
            what = "is inverted" if alike < -ALIKE else "has wrong colours"
            return path, f"{what}: its correlation with the same image in RGB is {alike:.2f}"
    return None


def _hidden(exchange: Exchange, known: Known, content: bytes, follows: Sequence[str]) -> tuple[str, str] | None:
    """An image that shows the colours of transparent pixels, while nothing of the sample tells which ones they are."""
    pixels = decoded(content)
    if pixels is None or pixels.ndim != 3 or pixels.shape[2] != 4 or pixels.dtype != np.uint8:
        return None
    clear = pixels[..., 3] == 0
    if clear.mean() < TRANSPARENT:
        return None
    counts = np.unique(pixels[clear][:, :3], axis=0, return_counts=True)[1]
    flat = float(pixels[..., :3].reshape(-1, 3).std(axis=0).max()) < FLAT
    if counts.max() > UNIFORM * counts.sum() and not flat:
        return None
    inverse, opaque = pixels.copy(), pixels.copy()
    inverse[clear, :3] = 255 - inverse[clear, :3]
    opaque[..., 3] = 255
    whole, changed, covered = (exchange.exchanged(known, content, png(one)) for one in (pixels, inverse, opaque))
    shown = [path for path in follows if path in whole.unlike(changed)]
    if not shown or whole.unlike(covered):
        return None
    if flat:
        return shown[0], "is a single colour: its shapes are in the alpha channel, which is dropped"
    share = f"{clear.mean():.0%} of its pixels are transparent"
    return shown[0], f"shows hidden colours: {share}, with {len(counts)} colours under them"
