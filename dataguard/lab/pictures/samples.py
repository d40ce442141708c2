"""A sample as files hold it, and as the model sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import IterableDataset

from dataguard.figures import Box, Picture
from dataguard.lab.core.index import Index
from dataguard.lab.core.leaves import iter_leaves
from dataguard.lab.decoding.file_substitution import IMAGES, FileSubstitution
from dataguard.lab.decoding.image_headers import Header
from dataguard.lab.images.image_containers import is_image, size_of
from dataguard.lab.pictures.display import boxes_of, closeup, displayed, overlay, reduced, thumbnail, upright
from dataguard.lab.pictures.sheets import image_at
from dataguard.lab.pictures.views import Shown, View
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.leaf_root import collated_alone
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rng.global_rng import SEED, seeded
from dataguard.model import NotApplicable
from dataguard.targets.variants import Loader


def show(build: Callable[..., Loader], folder: Path, indices: Sequence[Index], view: View) -> tuple[Shown, ...]:
    """Read samples in this disposable process, and show them. In a stream, an index is a position.

    Raises NotApplicable if a sample has no such image.
    """
    files = FileSubstitution(folder, IMAGES)
    files.keeps = True
    files.install()
    loader = build()
    reader = StateReader(loader, folder, max(view.draws) + 1, collated=view.leaf.startswith("batch"))
    reader.read(indices[0], view.draws[0])
    files.install()  # reading may have imported decoders
    return tuple(_show(reader, files, index, view) for index in indices)


def _show(reader: StateReader, files: FileSubstitution[Header], index: Index, view: View) -> Shown:
    files.files.clear()
    files.contents.clear()
    values = [reader.read(index, draw) for draw in view.draws]
    leaves = [_image_of(value, view.leaf) for value in values]
    pixels, note = displayed([reduced(leaf) for leaf in leaves], view.undo)
    label = f"what the model sees ({note})" if note else "what the model sees"
    seen = (
        Picture(thumbnail(image), label, _boxes(value, view, size_of(leaf)), _mask(value, view))
        for image, value, leaf in zip(pixels, values, leaves, strict=True)
    )
    mask = image_at(values[0], _inside(view.mask)) if view.mask and view.closeup else None
    close = None if mask is None else closeup(leaves[0], mask, view.labels, view.undo)
    return Shown(_original(files, masked=view.mask is not None), tuple(seen), close)


def _image_of(value: Any, path: str) -> Any:
    root = "batch" if path.startswith("batch") else "sample"
    leaf = image_at(value, path.removeprefix(root))
    if leaf is None and path == root:
        leaf = next((one for _, one in iter_leaves(value) if is_image(one)), None)
    if leaf is None:
        raise NotApplicable(f"{path} is not an image")
    return leaf


def _boxes(value: Any, view: View, size: tuple[int, int]) -> tuple[Box, ...]:
    return boxes_of(value, _inside(view.boxes), view.box_format, size) if view.boxes else ()


def _mask(value: Any, view: View) -> bytes | None:
    leaf = image_at(value, _inside(view.mask)) if view.mask else None
    return None if leaf is None else overlay(leaf, view.labels)


def _inside(path: str) -> str:
    """A path inside the sample or batch."""
    return path.removeprefix("sample").removeprefix("batch")


def _original(files: FileSubstitution[Header], *, masked: bool) -> Picture | None:
    """The image file of a sample, of several that with the most colours; over it, a mask of the same size."""
    readable = [
        (pixels, file.name)
        for content, file in zip(files.contents, files.files, strict=True)
        if file.header is not None and (pixels := upright(content)) is not None
    ]
    if not readable:
        return None
    image, name = max(readable, key=lambda one: len(np.unique(_codes(one[0]))))
    others = [pixels for pixels, _ in readable if pixels is not image and pixels.shape[:2] == image.shape[:2]]
    (pixels,), note = displayed([image])
    words = ", ".join(filter(None, [Path(name).name if Path(name).is_absolute() else "", note]))
    mask = overlay(_codes(others[0])) if masked and others else None
    return Picture(thumbnail(pixels), f"original ({words})" if words else "original", (), mask)


def _codes(pixels: np.ndarray) -> np.ndarray:
    """A number for each colour."""
    codes: np.ndarray = pixels.astype(np.int64) @ (256 ** np.arange(pixels.shape[-1]))
    return codes


class StateReader:
    """Reads samples of a loader, or batches of one sample, under given states of all generators."""

    def __init__(self, loader: Loader, folder: Path, draws: int, *, collated: bool) -> None:
        self._loader = loader
        self._reader = Reader(loader, folder, draws)
        self._is_stream = isinstance(loader.dataset, IterableDataset)
        self._collated = collated

    def read(self, index: Index, draw: int) -> Any:
        """The sample at an index, or at a position of a stream."""
        if self._is_stream:
            position = index if isinstance(index, int) else 0
            with gate("sample"), seeded(SEED + draw):
                sample = next(islice(iter(self._loader.dataset), position, None))
        else:
            sample = self._reader.read(index, draw)
        return collated_alone(self._loader, sample, SEED + draw)[0] if self._collated else sample
