"""Files with other pixel modes than RGB: what samples make of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dataguard.core.model import NotApplicable
from dataguard.lab.decoding.decoders import BRIGHTNESS
from dataguard.lab.decoding.image_files import ALPHA, CMYK, PALETTE, RGB, as_rgb, decoded, png, reordered_palette
from dataguard.lab.files.file_survey import ImageFile, ImageLeaf, ImageReader, ImageSurvey, SampleIndex

TRANSPARENT_SHARE = 0.02
"""The smallest share of fully transparent pixels whose colours matter: smaller finds more, larger ignores more edges
and corners."""
UNIFORM_SHARE = 0.9
"""The share of them that has one colour if that is a background: smaller takes more for a background, larger finds
more."""
FLAT_DEVIATION = 2.0
"""The largest standard deviation of colours, from 0 to 255, in an image with shapes in its alpha channel only: rounding
and lossy compression of one colour stay below it."""
FEWEST_COLOURS = 64
"""The smallest number of palette colours in an image; files with fewer are masks if no RGB files have their role.

Smaller judges more images, larger fewer masks of many classes.
"""
SIMILAR_CORRELATION = 0.6
"""The smallest correlation between a CMYK image and the same image in RGB.

Colour profiles change colours, and an inverted image correlates negatively: anything well above 0 separates the two.
"""
FILL_LABELS = (255, -1, -100)
"""Labels of what a crop or rotation leaves empty: the usual ignored indices, 255 of Pascal VOC and -100 of torch."""
_COLOURED = (RGB, ALPHA, CMYK)


@dataclass(frozen=True, slots=True)
class ModeTrial:
    """A sample whose file has some pixel mode, and what is wrong with one of its image leaves, if anything."""

    mode: str
    index: SampleIndex
    name: str
    path: str = ""
    wrong: str | None = None


@dataclass(frozen=True, slots=True)
class Modes:
    """How many files have each pixel mode, and trials of the unusual modes.

    `refused` names modes whose samples fail in collate_fn together with others.
    """

    counts: tuple[tuple[str, int], ...]
    trials: tuple[ModeTrial, ...]
    refused: tuple[str, ...]


Pairs = list[tuple[ImageFile, ImageFile]]
Wrong = tuple[str, str]
"""The path of an image leaf, and what is wrong with it."""


def unusual_files(survey: ImageSurvey) -> Pairs:
    """A file of each mode that is unusual for its role in a sample, with one of the usual mode.

    Raises NotApplicable if there are none.
    """
    pairs = _pairs(survey.files)
    if not pairs:
        survey.need_all()
        raise NotApplicable(_all_usual(survey))
    return pairs


def _pairs(files: Sequence[ImageFile]) -> Pairs:
    pairs = []
    for position in sorted({file.position for file in files}):
        modes = {
            file.header.pixels: file for file in reversed(files) if file.position == position and file.header.bits == 8
        }
        counts = Counter(file.header.pixels for file in files if file.position == position and file.header.bits == 8)
        usual = RGB if RGB in modes else max(counts, key=lambda mode: counts[mode], default=RGB)
        if not set(modes) & set(_COLOURED):  # masks may have a palette or not
            pairs += [(modes[PALETTE], modes[PALETTE])] if PALETTE in modes else []
            continue
        pairs += [(modes[mode], modes[usual]) for mode in modes if mode != usual or mode in (ALPHA, CMYK)]
    return pairs


def _all_usual(survey: ImageSurvey) -> str:
    modes = dict.fromkeys(file.header.pixels for file in survey.files)
    return f"all image files are {' or '.join(modes)}"


def try_modes(reader: ImageReader, survey: ImageSurvey, pairs: Pairs, *, batched: bool) -> Modes:
    """Try a sample of each mode: `pairs` of unusual files and usual ones.

    `batched` means several samples in a batch. Raises NotApplicable if nothing is unusual.
    """
    trials: list[ModeTrial] = []
    refused: list[str] = []
    for file, usual_file in pairs:
        if file.header.pixels == PALETTE and usual_file == file and not _has_many_colours(reader, file):
            trials += _brightness_trials(reader, file) if _has_companion_image(file, survey.files) else []
            continue
        trial, shifts = _try(reader, file, usual_file)
        if shifts and batched and not reader.collates([usual_file.index, file.index]):
            refused.append(file.header.pixels)
        else:
            trials.append(trial)
    counts = Counter(surveyed.header.pixels for surveyed in survey.files)
    if not trials and not refused:
        survey.need_all()
        raise NotApplicable(_all_usual(survey))
    return Modes(tuple(counts.items()), tuple(trials), tuple(refused))


def _try(reader: ImageReader, file: ImageFile, usual_file: ImageFile) -> tuple[ModeTrial, bool]:
    """The trial of a file, and whether the sample has another structure than with a usual file."""
    seen = reader.read(file.index)
    content = seen.content(file)
    another = reader.read(usual_file.index).content(usual_file) if usual_file != file else _uniform(file)
    usual = reader.read_swapped(file, content, another)
    trial = ModeTrial(file.header.pixels, file.index, file.name)
    follows = sorted(seen.differing_leaves(usual) & set(seen.shown) & set(usual.shown))
    if not follows:
        return trial, False
    for path in follows:
        difference = _channel_difference(seen.shown[path], usual.shown[path])
        if difference and usual_file != file:
            message = f"{difference}, unlike {usual_file.header.pixels} files"
            return replace(trial, path=f"{seen.root}{path}", wrong=message), True
    wrong = {PALETTE: _palette_indices_shown, CMYK: _wrong_colours, ALPHA: _hidden_colours}.get(file.header.pixels)
    if file.header.pixels == PALETTE and usual_file == file:  # integers may be intended
        follows = [path for path in follows if "float" in seen.shown[path].dtype]
    wrong_leaf = wrong(reader, file, content, follows) if wrong else None
    return (replace(trial, path=f"{seen.root}{wrong_leaf[0]}", wrong=wrong_leaf[1]) if wrong_leaf else trial), False


def _has_many_colours(reader: ImageReader, file: ImageFile) -> bool:
    """Whether a palette file has more colours than a mask has classes."""
    palette = reordered_palette(reader.read(file.index).content(file))
    return palette is not None and palette.used >= FEWEST_COLOURS


def _has_companion_image(file: ImageFile, files: Sequence[ImageFile]) -> bool:
    """Whether the sample of a file has a colour image as well."""
    others = (other for other in files if other.index == file.index and other.position != file.position)
    return any(other.header.pixels in _COLOURED for other in others)


def _brightness_trials(reader: ImageReader, file: ImageFile) -> list[ModeTrial]:
    """A trial if labels become the brightness of their palette colours, also after the palette is changed."""
    seen = reader.read(file.index)
    content = seen.content(file)
    palette = reordered_palette(content)
    if palette is None or not np.ptp(palette.colours, axis=1).any():  # grey levels may be indices
        return []
    indices, other_colours = np.unique(palette.indices), np.roll(palette.colours, 1, axis=1)
    bright = [path for path, leaf in sorted(seen.shown.items()) if _is_brightness(leaf, palette.colours, indices)]
    if not bright:
        return []
    other = reader.read_swapped(file, content, png(palette.indices, other_colours)).shown
    follows = [path for path in bright if path in other and _is_brightness(other[path], other_colours, indices)]
    wrong = "holds the brightness of palette colours instead of class indices"
    return [ModeTrial(PALETTE, file.index, file.name, f"{seen.root}{path}", wrong) for path in follows[:1]]


def _is_brightness(leaf: ImageLeaf, colours: np.ndarray, indices: np.ndarray) -> bool:
    """Whether the values of a signed integer leaf are the brightness of colours in the file and not their indices.

    Other colours of the palette do not count: with many of them, any number is the brightness of one.
    """
    values = np.unique(leaf.pixels)
    if not leaf.dtype.startswith("int") or np.isin(values, indices).all():
        return False
    distance = np.abs(values[:, None] - np.rint(colours[indices] @ np.array(BRIGHTNESS))).min(axis=1)
    return bool((distance[~np.isin(values, FILL_LABELS)] <= 1).all())


def _uniform(file: ImageFile) -> bytes:
    """A uniform grey file of the same size and mode, opaque if it has alpha."""
    size = file.header.height, file.header.width
    if file.header.pixels == PALETTE:
        return png(np.zeros(size, np.uint8), np.full((1, 3), 128))
    uniform = np.full((*size, 4 if file.header.pixels == ALPHA else 3), 128, np.uint8)
    uniform[..., 3:] = 255
    return png(uniform)


def _channel_difference(leaf: ImageLeaf, usual: ImageLeaf) -> str | None:
    """How the dimensions or channels of two images differ."""
    if len(leaf.shape) != len(usual.shape):
        return f"has {len(leaf.shape)} dimensions instead of {len(usual.shape)}"
    if leaf.channels != usual.channels:
        return f"has {leaf.channels} channel{'s' * (leaf.channels != 1)} instead of {usual.channels}"
    return None


def _palette_indices_shown(
    reader: ImageReader, file: ImageFile, content: bytes, follows: Sequence[str]
) -> Wrong | None:
    """An image that changes if its palette is reordered."""
    palette = reordered_palette(content)
    if palette is None:
        return None
    original, other = (reader.read_swapped(file, content, variant) for variant in (palette.original, palette.reversed))
    changed = [path for path in follows if path in original.differing_leaves(other)]
    return (changed[0], "holds palette indices instead of colours") if changed else None


def _wrong_colours(reader: ImageReader, file: ImageFile, content: bytes, follows: Sequence[str]) -> Wrong | None:
    """An image that differs from the same one in RGB."""
    pixels = as_rgb(content)
    if pixels is None:
        return None
    seen, in_rgb = reader.read(file.index), reader.read_swapped(file, content, png(pixels))
    for path in follows:
        given_pixels, rgb_pixels = seen.shown[path].pixels, in_rgb.shown[path].pixels
        if given_pixels.shape != rgb_pixels.shape or not (np.ptp(given_pixels) and np.ptp(rgb_pixels)):
            continue
        correlation = float(np.corrcoef(given_pixels, rgb_pixels)[0, 1])
        if correlation < SIMILAR_CORRELATION:
            what = "is inverted" if correlation < -SIMILAR_CORRELATION else "has wrong colours"
            return path, f"{what}: its correlation with the same image in RGB is {correlation:.2f}"
    return None


def _hidden_colours(reader: ImageReader, file: ImageFile, content: bytes, follows: Sequence[str]) -> Wrong | None:
    """An image that shows the colours of transparent pixels, in a sample that does not follow the alpha channel."""
    pixels = decoded(content)
    if pixels is None or pixels.ndim != 3 or pixels.shape[2] != 4 or pixels.dtype != np.uint8:
        return None
    transparent = pixels[..., 3] == 0
    if transparent.mean() < TRANSPARENT_SHARE:
        return None
    counts = np.unique(pixels[transparent][:, :3], axis=0, return_counts=True)[1]
    flat = float(pixels[..., :3].reshape(-1, 3).std(axis=0).max()) < FLAT_DEVIATION
    if counts.max() > UNIFORM_SHARE * counts.sum() and not flat:
        return None
    inverse, opaque = pixels.copy(), pixels.copy()
    inverse[transparent, :3] = 255 - inverse[transparent, :3]
    opaque[..., 3] = 255
    original, changed, covered = (
        reader.read_swapped(file, content, png(variant)) for variant in (pixels, inverse, opaque)
    )
    shown = [path for path in follows if path in original.differing_leaves(changed)]
    if not shown or original.differing_leaves(covered):
        return None
    if flat:
        return shown[0], "is a single colour: its shapes are in the alpha channel, which is dropped"
    share = f"{transparent.mean():.0%} of its pixels are transparent"
    return shown[0], f"shows hidden colours: {share}, with {len(counts)} colours under them"
