"""Single samples and batches as a reader sees them: each leaf in words, and pictures of its images.

Images of any kind become small PNG files, with masks and boxes laid over them. Pillow is imported inside the functions
that need it, and so only in processes that make pictures.
"""

from __future__ import annotations

import colorsys
import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from io import BytesIO
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

from dataguard.core.figures import Box, LeafView, Picture, SampleView, Undo, Wanted
from dataguard.core.incident import Incident, LoaderFailed, is_library, shown_index
from dataguard.lab.core.leaves import (
    LONGEST_SHOWN,
    MAX_LEAVES,
    VALUES_AT_ONCE,
    array_of,
    describe,
    is_pillow,
    iter_leaves,
)
from dataguard.lab.core.records import streamed
from dataguard.lab.geometry.box_tables import fits, formats_of, tables_of
from dataguard.lab.images.painter import is_image, planes_last, planes_of, size_of
from dataguard.lab.labels.declared_labels import ClassNames, class_names_of
from dataguard.lab.provenance.shown import Sources, find_sources
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.spy.recording import box_layout
from dataguard.machine.units import counted
from dataguard.targets.variants import Loader

LONGEST_DISPLAY = 256
"""The longer side of a picture beside others in a report, in pixels."""
LONGEST_SIDE = 512
"""The longer side of a picture of `dataguard show`, in pixels."""
MOST_PICTURES = 6
"""The most pictures of one sample: a limit on the size of a page."""
_MOST_LISTED = 8
"""An array of at most this many values is listed: more do not fit on a line."""
_MOST_CLASSES = 64
"""A plane of at most this many integers is a mask: photographs have more, and masks of many classes few of them at a
time."""
_DIGEST_DIGITS = 8
"""Digits of a digest that are shown: of 10,000 different leaves, two share all of them once in 86 times."""

_Read = tuple[str, Any]
"""The name of a sample or batch, and its value, or the incident that reading it raised."""


def view_samples(build: Callable[..., Loader], folder: Path, wanted: Wanted) -> tuple[SampleView, ...]:
    """Read samples in this disposable process, all before any is described: a later read may change an earlier one."""
    reader: Reader | None = None
    loader = build()
    if isinstance(loader.dataset, IterableDataset):
        values = list(_streamed(loader, wanted.indices))
    else:
        reader = Reader(loader, folder)
        values = [_read(reader, index, wanted.repeat) for index in wanted.indices]
        values += _fetched(loader, wanted.indices) if wanted.batch else ()
    names = class_names_of(loader.dataset)
    views: list[SampleView] = []
    for name, value in values:
        view = SampleView(name, error=described(value)) if isinstance(value, Incident) else _view(name, value, names)
        views.append(replace(view, leaves=tuple(_compared(leaf, name, views) for leaf in view.leaves)))
    return tuple(views) if reader is None else tuple(_with_sources(views, reader, wanted.indices))


def _with_sources(views: Sequence[SampleView], reader: Reader, indices: Sequence[Any]) -> Iterator[SampleView]:
    """The samples with the files and rows that they come from; of one that is shown repeatedly, once."""
    shown: set[str] = set()
    for view, index in zip_longest(views, indices):
        if view.error or view.name in shown or view.name.startswith(("batch", "__getitems__")):
            yield view
            continue
        shown.add(view.name)
        sources: Sources = ()
        with contextlib.suppress(LoaderFailed):  # it could be read before, and is shown
            sources = find_sources(reader, _typed(index))
        yield replace(view, sources=sources)


def described(incident: Incident) -> str:
    """What was raised, with the user's own lines of the traceback."""
    lines = []
    for frame in incident.frames:
        if not is_library(frame.file):
            lines += [
                f"  {frame.file}:{frame.line} in {frame.function}",
                *([f"    {frame.code}"] if frame.code else []),
            ]
    return "\n".join([*lines, incident.message.strip()])


def _read(reader: Reader, index: Any, repeat: int) -> _Read:
    value, typed = None, _typed(index)
    name = f"sample {shown_index(index) if typed is index else index}"
    try:
        for _ in range(repeat):
            value = reader.read_as_is(typed)
    except LoaderFailed as failure:
        return name, failure.incident
    return name, value


def _typed(index: Any) -> Any:
    """An index of another type, as samplers yield them, if its spelling names one."""
    match = _OF_TYPE.fullmatch(index) if isinstance(index, str) else None
    return _TYPES[match[1]](int(match[2])) if match else index


_OF_TYPE = re.compile(r"(torch\.tensor|(?:numpy|np)\.int64)\((-?\d+)\)")
_TYPES: dict[str, Callable[[int], Any]] = {"torch.tensor": torch.tensor, "numpy.int64": np.int64, "np.int64": np.int64}


def _streamed(loader: Loader, positions: Sequence[Any]) -> Iterator[_Read]:
    """The samples of a stream at some positions, as a process that is no worker sees it."""
    last, samples = max(int(position) for position in positions), {}
    ended: Any = None
    try:
        with gate("sample"):
            samples = dict(enumerate(islice(streamed(loader.dataset), last + 1)))
    except LoaderFailed as failure:
        ended = failure.incident
    for position in positions:
        missing = ended or Incident("sample", f"the stream ends after {counted(len(samples), 'samples')}")
        yield f"sample {position} of the stream", samples.get(position, missing)


def _fetched(loader: Loader, indices: Sequence[Any]) -> Iterator[_Read]:
    """A batch of these samples, made like any of the loader; and what `__getitems__` returns, if that is used."""
    if hasattr(loader.dataset, "__getitems__"):
        try:
            with gate("sample"):
                items = list(loader.dataset.__getitems__(list(indices)))
            yield f"__getitems__({list(indices)})", items
        except LoaderFailed as failure:
            yield f"__getitems__({list(indices)})", failure.incident
    name = f"batch of samples {', '.join(map(shown_index, indices))}"
    again: DataLoader[Any] = DataLoader(
        loader.dataset,
        batch_sampler=[list(indices)],
        num_workers=min(loader.num_workers, 1),
        collate_fn=loader.collate_fn,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context if loader.num_workers else None,
    )
    try:
        with gate("collate"):
            yield name, next(iter(again))
    except LoaderFailed as failure:
        yield name, failure.incident


def _view(name: str, value: Any, names: Sequence[ClassNames]) -> SampleView:
    root = "batch" if name.startswith("batch") else "sample"
    leaves = [*islice(iter_leaves(value), MAX_LEAVES)]
    labels = [path for path, leaf in leaves if _integer(leaf) is not None]
    views = []
    for path, leaf in leaves:
        named = next((entry for entry in names if entry.numbers and entry.leaf == path), None)
        if named is None and labels == [path]:
            named = next((entry for entry in names if entry.numbers and entry.leaf is None), None)
        views.append(_leaf(root, path, leaf, named))
    pictures = _pictures(value, root, leaves) if find_spec("PIL") else ()
    return SampleView(name, tuple(views), tuple(pictures))


def _leaf(root: str, path: str, leaf: Any, names: ClassNames | None) -> LeafView:
    record = describe(path, leaf)
    values = ""
    with contextlib.suppress(Exception):  # tensors that cannot be read, such as those without content
        values = _values(leaf)
    number = _integer(leaf)
    words = [text for text, index in names.numbers.items() if index == number] if names else []
    values += f" ({words[0]})" if words else ""
    values += f", {record.nan} NaN" if record.nan else ""
    values += f", {record.inf} Inf" if record.inf else ""
    dimensions = (record.shape[1], record.shape[0]) if is_pillow(leaf) and record.shape else record.shape
    kind = " ".join(filter(None, [record.kind, record.dtype, f"on {record.device}" if record.device else ""]))
    return LeafView(f"{root}{path}", kind, dimensions, values, record.digest.hex()[:_DIGEST_DIGITS])


def _compared(leaf: LeafView, name: str, above: Sequence[SampleView]) -> LeafView:
    """The leaf, with a note if an equal one stands above, or another one of the same sample."""
    others = [(view.name, other) for view in above for other in view.leaves if other.path == leaf.path]
    if not leaf.digest or not others:
        return leaf
    equal = next((view_name for view_name, other in others if other.digest == leaf.digest), None)
    if equal is None:
        return replace(leaf, note="differs from the read above" if others[-1][0] == name else "")
    if equal == name:
        return replace(leaf, note="as above")
    return replace(leaf, note=f"as in {equal}" if leaf.shape else "")  # lone numbers are often equal


def _integer(leaf: Any) -> int | None:
    """The value of a lone integer, which may be a class."""
    if isinstance(leaf, torch.Tensor | np.ndarray | np.generic):
        whole = leaf.ndim == 0 and "int" in str(leaf.dtype)
        return int(leaf) if whole else None
    return leaf if isinstance(leaf, int) and not isinstance(leaf, bool) else None


def _values(leaf: Any) -> str:
    """The values of a leaf: all of them if they are few, else their range."""
    if isinstance(leaf, str | bytes | bytearray):
        cut = repr(leaf[:LONGEST_SHOWN])
        return cut if len(leaf) <= LONGEST_SHOWN else f"{cut} … of {len(leaf):,} characters"
    if not (is_pillow(leaf) or isinstance(leaf, torch.Tensor | np.ndarray | list | tuple)):
        return (
            repr(leaf)[:LONGEST_SHOWN] if leaf is None or isinstance(leaf, int | float | complex | np.generic) else ""
        )
    array = array_of(leaf)
    flat = array.reshape(-1)
    if array.dtype.kind not in "biuf" or flat.size <= _MOST_LISTED:
        return _listed(flat.tolist())
    finite = flat[np.isfinite(flat)]
    if not finite.size:
        return "no finite value"
    kinds, counts = np.unique(finite[:VALUES_AT_ONCE], return_counts=True)
    if len(kinds) <= _MOST_LISTED and array.ndim > 1 and finite.size <= VALUES_AT_ONCE:
        return ", ".join(f"{_number(kind)}: {count / flat.size:.1%}" for kind, count in zip(kinds, counts, strict=True))
    words = f"{_number(finite.min())} to {_number(finite.max())}, mean {_number(finite.mean(dtype=np.float64))}"
    return f"{_listed(flat[:_MOST_LISTED].tolist(), more=True)}, {words}" if array.ndim == 1 else words


def _listed(values: Sequence[Any], *, more: bool = False) -> str:
    words = [
        _number(value) if isinstance(value, float) else repr(value)[:LONGEST_SHOWN] for value in values[:_MOST_LISTED]
    ]
    return f"[{', '.join([*words, *(['…'] if more or len(values) > _MOST_LISTED else [])])}]"


def _number(value: Any) -> str:
    return f"{float(value):.4g}"


def _pictures(value: Any, root: str, leaves: Sequence[tuple[str, Any]]) -> Iterator[Picture]:
    """The images, with boxes whose format is known; integers in one plane are a mask, laid over the image of its size.

    Of a batch, the first image of each leaf.
    """
    images = [(path, leaf) for path, leaf in leaves if is_image(leaf)]
    pixels: dict[tuple[int, int], bytes] = {}
    for path, leaf in images[:MOST_PICTURES]:
        with contextlib.suppress(Exception):  # an image of a kind that cannot be drawn
            (shown,), note = displayed([reduced(leaf, LONGEST_SIDE)])
            size, drawn, mask = size_of(leaf), thumbnail(shown, LONGEST_SIDE), None
            if size in pixels and _is_mask(leaf):
                mask, drawn = overlay(leaf, longest=LONGEST_SIDE), pixels[size]
            else:
                pixels.setdefault(size, drawn)
            tables = [(name, box_layout(table)[0]) for name, table in leaves]
            boxes = [box for name, kind in tables if kind for box in boxes_of(value, name, kind, size)]
            words = f"{root}{path}"
            yield Picture(drawn, f"{words} ({note})" if note else words, () if mask else tuple(boxes), mask)


def _is_mask(leaf: Any) -> bool:
    planes = planes_of(leaf)
    return len(planes) == 1 and planes.dtype.kind in "biu" and len(np.unique(planes)) <= _MOST_CLASSES


CLOSEUP_SIDE = 48
"""The sides of a part that is enlarged, in pixels of the image: each becomes five pixels wide."""
MOST_BOXES = 50
"""The most boxes over one picture, which more would hide."""
_NOT_FINITE_COLOUR = (255, 0, 255)
"""Magenta, as is usual for missing textures."""
_MOST_COLOURS, _MASK_OPACITY = 256, 140
"""The most values of a mask that get hues of their own, as those of a byte, and how opaque it is, of 255."""
_HUE_STEP = 0.618
"""The golden ratio: multiples of it, as hues, stay distinct however many there are."""
_POINT_MARGIN = 0.015
"""Half the side of the box that marks a point, as a share of the picture: 4 of 256 pixels."""


def reduced(leaf: Any, longest: int = LONGEST_DISPLAY) -> np.ndarray:
    """The first image of a leaf as (height, width, channels) in its own dtype, without the pixels that are not shown.

    A leaf is a Pillow image, an array or a tensor, with channels first, last or none; more dimensions hold several.
    """
    if is_pillow(leaf) and leaf.mode in ("P", "CMYK", "YCbCr", "LAB", "HSV"):
        leaf = leaf.convert("RGB")
    array = array_of(leaf)
    array = array[(0,) * max(array.ndim - 3, 0)]
    if array.ndim == 2:
        array = array[..., None]
    elif not (is_pillow(leaf) or planes_last(array.shape)):
        array = np.moveaxis(array, 0, -1)
    step = max(1, max(array.shape[:2]) // (2 * longest))
    return np.ascontiguousarray(array[::step, ::step])


def displayed(images: Sequence[np.ndarray], undo: Undo | None = None) -> tuple[list[np.ndarray], str]:
    """Images as (height, width, 3) of uint8, and how their values were changed for that, in words; empty if not at all.

    `images` come from `reduced`. Of more than three channels, or of two, the first ones are shown. Values are mapped to
    0 to 255 in one way for all images, so that equal images give equal pictures: with `undo` by the inverse of that
    normalization, if it has as many channels; else bytes are shown as they are, floats from 0 to 1 times 255, floats
    and wider integers from 0 to 255 unchanged, and any other values are scaled from their least to their largest. What
    is then out of range is clipped. NaN and Inf are magenta.
    """
    count = min(image.shape[-1] for image in images)
    kept = 3 if count >= 3 else 1
    notes = [] if count in (1, 3) else [f"channels {', '.join(map(str, range(kept)))} of {count}"]
    shown = [image[..., :kept].astype(np.float64) for image in images]
    finite = np.concatenate([image[np.isfinite(image)] for image in shown]) if shown else np.empty(0)
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    is_float, is_flag = images[0].dtype.kind == "f", images[0].dtype.kind == "b"
    gain, offset = np.ones(kept), np.zeros(kept)
    if undo is not None and len(undo.gains) == count:
        gain, offset = np.array(undo.gains[:kept]), np.array(undo.offsets[:kept])
        notes.append(undo.label)
    elif is_flag or (is_float and low >= 0 and high <= 1):
        gain /= 255
    elif low < 0 or high > 255:
        gain, offset = gain * max(high - low, 1e-12) / 255, offset + low
        notes.append(f"min-max scaled from {low:.3g} to {high:.3g}")
    pictures = [_bytes_of((image - offset) / gain) for image in shown]
    if any(not np.isfinite(image).all() for image in shown):
        notes.append("NaN and Inf are magenta")
    return pictures, ", ".join(notes)


def _bytes_of(image: np.ndarray) -> np.ndarray:
    bad = ~np.isfinite(image).all(axis=-1)
    pixels = np.clip(np.round(np.nan_to_num(image)), 0, 255).astype(np.uint8)
    pixels = np.repeat(pixels, 3, axis=-1) if pixels.shape[-1] == 1 else pixels
    pixels[bad] = _NOT_FINITE_COLOUR
    return pixels


def thumbnail(pixels: np.ndarray, longest: int = LONGEST_DISPLAY) -> bytes:
    """A PNG of pixels from `displayed`, of at most `longest` pixels a side."""
    return _png(pixels, "LANCZOS", longest)


def overlay(mask: np.ndarray, labels: Sequence[float] | None = None, longest: int = LONGEST_DISPLAY) -> bytes:
    """A PNG with a colour for each value of a mask, for display on its image; the least value is transparent.

    `mask` is the leaf of one sample. Where `labels` lists the values that it may have, any others are white and opaque.
    """
    plane = _plane_of(mask)
    step = max(1, max(plane.shape) // (2 * longest))
    return _png(_painted(plane[::step, ::step], labels), "NEAREST", longest)


def _plane_of(mask: np.ndarray) -> np.ndarray:
    planes = planes_of(mask)
    plane: np.ndarray = np.nan_to_num((planes.argmax(axis=0) if len(planes) > 1 else planes[0]).astype(np.float64))
    return plane


def _painted(plane: np.ndarray, labels: Sequence[float] | None) -> np.ndarray:
    """The colours of a mask, (height, width, 4) of uint8."""
    values, codes = np.unique(plane, return_inverse=True)
    many = len(values) > _MOST_COLOURS
    table = np.array([_colour(number, len(values), many=many) for number in range(len(values))], np.uint8)
    table[0] = 0
    if labels is not None:
        table[[not np.isclose(value, labels).any() for value in values]] = 255
    painted: np.ndarray = table[codes.reshape(plane.shape)]
    return painted


def closeup(image: Any, mask: np.ndarray, labels: Sequence[float] | None, undo: Undo | None = None) -> Picture | None:
    """The part of an image and its mask with the most blended values, enlarged, and those in white; None without any.

    Blended are values beyond the `labels`, if these are known, and those between the values on either side.
    """
    plane = _plane_of(mask)
    wrong = np.full(plane.shape, labels is not None)
    for label in labels or ():
        wrong &= ~np.isclose(plane, label)
    for axis in (0, 1):
        before, inner, after = (plane.take(range(at, plane.shape[axis] - 2 + at), axis) for at in range(3))
        between = (inner > np.minimum(before, after)) & (inner < np.maximum(before, after))
        wrong |= np.pad(between, ((1 - axis,) * 2, (axis,) * 2))
    whole = reduced(image, max(plane.shape))
    if not wrong.any() or whole.shape[:2] != plane.shape:
        return None
    side = min(CLOSEUP_SIDE, *plane.shape)
    sums = np.pad(wrong.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    counts = sums[side:, side:] - sums[:-side, side:] - sums[side:, :-side] + sums[:-side, :-side]
    top, left = np.unravel_index(counts.argmax(), counts.shape)
    window = slice(top, top + side), slice(left, left + side)
    times = LONGEST_DISPLAY // side
    _, close = displayed([reduced(image), whole[window]], undo)[0]
    colours = _painted(plane, None)
    colours[wrong] = 255
    pixels, painted = (part.repeat(times, axis=0).repeat(times, axis=1) for part in (close, colours[window]))
    words = f"{side} × {side} pixels from row {top}, column {left}"
    return Picture(thumbnail(pixels), words, (), _png(painted, "NEAREST", LONGEST_DISPLAY))


def _colour(number: int, count: int, *, many: bool) -> tuple[int, int, int, int]:
    hue = 0.7 * (1 - number / count) if many else number * _HUE_STEP % 1
    red, green, blue = (round(255 * part) for part in colorsys.hsv_to_rgb(hue, 0.85, 1.0))
    return red, green, blue, _MASK_OPACITY


def boxes_of(sample: Any, path: str, kind: str, size: tuple[int, int]) -> tuple[Box, ...]:
    """The boxes or points of a table in a sample, for an image of this height and width.

    `kind` is their box format, without whether it is normalized.
    """
    for name, _, table in tables_of(sample):
        if name == path and len(table):
            every = formats_of(table.shape[1], points=kind == "xy")
            of_kind = [box_format for box_format in every if box_format.kind == kind]
            fitting = [
                box_format
                for strictly in (True, False)
                for box_format in of_kind
                if fits(box_format, [(table, size)], strictly=strictly)
            ]
            margin = _POINT_MARGIN if kind == "xy" else 0.0
            corners = (fitting or of_kind)[0].corners(table[:MOST_BOXES], size) if of_kind else np.empty((0, 4))
            edges = np.clip(corners + margin * np.array([-1, -1, 1, 1]), 0, 1)
            return tuple(Box(left, top, right, bottom) for left, top, right, bottom in edges.tolist())
    return ()


def _png(pixels: np.ndarray, resampling: str, most: int) -> bytes:
    from PIL import Image  # optional: only pictures need it

    image = Image.fromarray(pixels)
    longest = max(image.size)
    if longest > most:
        size = [max(1, round(side * most / longest)) for side in image.size]
        image = image.resize((size[0], size[1]), getattr(Image.Resampling, resampling))
    out = BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def upright(content: bytes) -> np.ndarray | None:
    """The pixels of an image file for `displayed`, as a viewer shows it: in RGB, rotated by EXIF, on white.

    Files with more than 8 bits a channel keep their values. None if Pillow cannot read it.
    """
    from PIL import Image, ImageOps

    try:
        image = ImageOps.exif_transpose(Image.open(BytesIO(content)))
        if image.mode in ("I", "F") or image.mode.startswith("I;16"):
            return reduced(np.asarray(image))
        if "A" in image.getbands() or "transparency" in image.info:
            layer = image.convert("RGBA")
            image = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
        return reduced(image.convert("RGB"))
    except Exception:  # noqa: BLE001 - a damaged file, or one of another library
        return None
