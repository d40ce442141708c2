"""Single samples and batches as a reader sees them: each leaf in words, and pictures of its images."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

from dataguard.figures import Picture
from dataguard.incident import Incident, LoaderFailed, is_library, shown_index
from dataguard.lab.core.leaves import AT_ONCE, MAX_LEAVES, SHORT, array_of, describe, is_pillow, iter_leaves
from dataguard.lab.images.image_containers import is_image, planes_of, size_of
from dataguard.lab.labels.class_names import ClassNames, class_names_of
from dataguard.lab.pictures.display import boxes_of, displayed, overlay, reduced, thumbnail
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.spy.value_summaries import box_layout
from dataguard.machine.units import counted
from dataguard.sample_view import LeafView, SampleView, Wanted
from dataguard.targets.variants import Loader

LONGEST = 512
"""The longer side of a picture, in pixels."""
MOST_PICTURES = 6
"""The most pictures of one sample."""
_FEW = 8
"""An array of at most this many values is listed."""
_CLASSES = 64
"""A plane of at most this many integers is a mask."""
_HEX = 8
"""Digits of a digest that are shown."""

_Read = tuple[str, Any]
"""The name of a sample or batch, and its value, or the incident that reading it raised."""


def view_samples(build: Callable[..., Loader], folder: Path, wanted: Wanted) -> tuple[SampleView, ...]:
    """Read samples in this disposable process, all before any is described: a later read may change an earlier one."""
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
        view = SampleView(name, error=told(value)) if isinstance(value, Incident) else _view(name, value, names)
        views.append(replace(view, leaves=tuple(_compared(leaf, name, views) for leaf in view.leaves)))
    return tuple(views)


def told(incident: Incident) -> str:
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
    last, found = max(int(position) for position in positions), {}
    ended: Any = None
    try:
        with gate("sample"):
            found = dict(enumerate(islice(iter(loader.dataset), last + 1)))
    except LoaderFailed as failure:
        ended = failure.incident
    for position in positions:
        missing = ended or Incident("sample", f"the stream ends after {counted(len(found), 'samples')}")
        yield f"sample {position} of the stream", found.get(position, missing)


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
        named = next((one for one in names if one.numbers and one.leaf == path), None)
        if named is None and labels == [path]:
            named = next((one for one in names if one.numbers and one.leaf is None), None)
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
    shape = (record.shape[1], record.shape[0]) if is_pillow(leaf) and record.shape else record.shape
    kind = " ".join(filter(None, [record.kind, record.dtype, f"on {record.device}" if record.device else ""]))
    return LeafView(f"{root}{path}", kind, shape, values, record.digest.hex()[:_HEX])


def _compared(leaf: LeafView, name: str, above: Sequence[SampleView]) -> LeafView:
    """The leaf, with a note if an equal one stands above, or another one of the same sample."""
    known = [(view.name, other) for view in above for other in view.leaves if other.path == leaf.path]
    if not leaf.digest or not known:
        return leaf
    equal = next((who for who, other in known if other.digest == leaf.digest), None)
    if equal is None:
        return replace(leaf, note="differs from the read above" if known[-1][0] == name else "")
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
        cut = repr(leaf[:SHORT])
        return cut if len(leaf) <= SHORT else f"{cut} … of {len(leaf):,} characters"
    if not (is_pillow(leaf) or isinstance(leaf, torch.Tensor | np.ndarray | list | tuple)):
        return repr(leaf)[:SHORT] if leaf is None or isinstance(leaf, int | float | complex | np.generic) else ""
    array = array_of(leaf)
    flat = array.reshape(-1)
    if array.dtype.kind not in "biuf" or flat.size <= _FEW:
        return _listed(flat.tolist())
    finite = flat[np.isfinite(flat)]
    if not finite.size:
        return "no finite value"
    kinds, counts = np.unique(finite[:AT_ONCE], return_counts=True)
    if len(kinds) <= _FEW and array.ndim > 1 and finite.size <= AT_ONCE:
        return ", ".join(f"{_number(kind)}: {count / flat.size:.1%}" for kind, count in zip(kinds, counts, strict=True))
    words = f"{_number(finite.min())} to {_number(finite.max())}, mean {_number(finite.mean(dtype=np.float64))}"
    return f"{_listed(flat[:_FEW].tolist(), more=True)}, {words}" if array.ndim == 1 else words


def _listed(values: Sequence[Any], *, more: bool = False) -> str:
    words = [_number(value) if isinstance(value, float) else repr(value)[:SHORT] for value in values[:_FEW]]
    return f"[{', '.join([*words, *(['…'] if more or len(values) > _FEW else [])])}]"


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
            (shown,), note = displayed([reduced(leaf, LONGEST)])
            size, drawn, mask = size_of(leaf), thumbnail(shown, LONGEST), None
            if size in pixels and _is_mask(leaf):
                mask, drawn = overlay(leaf, longest=LONGEST), pixels[size]
            else:
                pixels.setdefault(size, drawn)
            tables = [(name, box_layout(table)[0]) for name, table in leaves]
            boxes = [box for name, kind in tables if kind for box in boxes_of(value, name, kind, size)]
            words = f"{root}{path}"
            yield Picture(drawn, f"{words} ({note})" if note else words, () if mask else tuple(boxes), mask)


def _is_mask(leaf: Any) -> bool:
    planes = planes_of(leaf)
    return len(planes) == 1 and planes.dtype.kind in "biu" and len(np.unique(planes)) <= _CLASSES
