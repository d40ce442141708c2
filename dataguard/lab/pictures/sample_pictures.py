"""Pictures of samples, for findings that can be seen: `lab.pictures`.

They are a sample as its image or sound files hold it and as the model sees or hears it, and one item as each worker
makes it in each epoch (a contact sheet). They have a budget of their own, so that no verdict depends on whether they
are made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch.utils.data import IterableDataset

from dataguard.core.figures import Box, Picture, SampleView, SampleViews, Shown, View, Wanted
from dataguard.core.incident import LoaderFailed
from dataguard.core.model import NotApplicable, Undecided, UsageError
from dataguard.lab.core.instrument import Fetch, Hooks, Instrument, Process
from dataguard.lab.core.leaves import array_of, iter_leaves
from dataguard.lab.core.observation_cache import recalling
from dataguard.lab.core.records import Index
from dataguard.lab.decoding.file_substitution import IMAGES, SOUNDS, FileSubstitution
from dataguard.lab.decoding.image_files import Header
from dataguard.lab.decoding.sound_files import SoundHeader, decoded_sound
from dataguard.lab.images.painter import is_image, size_of
from dataguard.lab.pictures.sample_views import (
    boxes_of,
    closeup,
    described,
    displayed,
    overlay,
    reduced,
    thumbnail,
    upright,
    view_samples,
)
from dataguard.lab.process.incidents import read_spools
from dataguard.lab.randomness.worker_draws import MOST_WORKERS, batch_size
from dataguard.lab.reading.experiment import Script
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.sound.tone_fits import channels_of
from dataguard.lab.spy.drive import drive
from dataguard.lab.spy.worker_spy import Plan
from dataguard.lab.subject import Subject
from dataguard.settings.target_spelling import shown_target
from dataguard.targets.variants import Loader

T = TypeVar("T")

BUDGET_SECONDS = 30.0
"""Seconds for all pictures of a loader: half the default budget of its checks, and beside it."""
MOST_READ_SECONDS = 5.0
"""Reads that take longer in all are not made for pictures: a limit of time."""


class PictureObservations:
    """Pictures of one loader's samples; each is made once. They need Pillow, and the setting `pictures`."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._cache = subject.cache.beside(BUDGET_SECONDS)

    def sheet(self, leaf: str) -> Sheet:
        """The image leaf at a path, of one item, as each worker makes it in each epoch (map-style only)."""
        subject, facts = self._subject, self._subject.facts
        subject.need_map("the workers of a stream read different samples")
        workers = max(1, min(facts.num_workers, MOST_WORKERS.get(facts.start_method, 2)))
        size = batch_size(facts)
        return self._observe(
            ("sheet", leaf),
            lambda folder: make_sheet(subject.build, folder, leaf, workers, size),
            workers * EPOCHS * size,
        )

    def shown(self, *indices: Index, view: View) -> tuple[Shown, ...]:
        """Samples, each as its file holds it and as the model sees it. In a stream, an index is a position."""
        build, streamed = self._subject.build, self._subject.facts.kind == "stream"
        reads = (
            sum((index if streamed and isinstance(index, int) else 0) + 1 for index in indices) * len(view.draws) + 1
        )
        return self._observe(("shown", indices, view), lambda folder: show(build, folder, indices, view), reads)

    def sound(self, index: Index, path: str) -> tuple[Drawn, Drawn]:
        """The sound file of a sample and the leaf that the model hears, each as waveform and spectrogram."""
        build = self._subject.build
        return self._observe(("sound", index, path), lambda folder: show_sound(build, folder, index, path), 2)

    def views(self, wanted: Wanted) -> SampleViews:
        """Samples as they are, for `dataguard show`; what the loader raises is shown as well."""
        subject = self._subject
        name, others = subject.repro.loader, tuple(other for other in subject.siblings if other != subject.repro.loader)
        try:
            if subject.facts.kind == "stream":
                _need_positions(wanted)
            samples = subject.cache.observe(
                ("views", wanted), lambda folder: view_samples(subject.build, folder, wanted)
            )
        except LoaderFailed as failure:
            samples = (SampleView(failure.incident.where, error=described(failure.incident)),)
        return SampleViews(shown_target(subject.target.spelling), name, samples, others)

    def _observe(self, key: object, run: Callable[[Path], T], reads: int) -> T:
        subject = self._subject
        if not subject.settings.pictures:
            raise NotApplicable("pictures were not asked for")
        if reads * subject.epoch.seconds_per_sample > MOST_READ_SECONDS:
            raise Undecided("reading samples for pictures takes too long")
        with recalling(only=False):
            return self._cache.observe(key, run)


def _need_positions(wanted: Wanted) -> None:
    """Raise UsageError for what a stream has not: indices that are no positions, and batches of chosen samples."""
    if wanted.batch:
        raise UsageError("a stream has no indices to make a batch of; show a position without --batch")
    if any(not isinstance(index, int) or index < 0 for index in wanted.indices):
        raise UsageError("a sample of a stream is shown by its position, a number from 0 on")


EPOCHS = 2
"""Epochs on a contact sheet: a second one shows whether the first is replayed."""

Cells = tuple[tuple[Picture | None, ...], ...]


@dataclass(frozen=True, slots=True)
class Sheet:
    """Pictures of an item by epoch and worker, and the item's index as text."""

    item: str
    cells: Cells


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An image as one worker made it, for `displayed`; and its index as text."""

    worker: int
    epoch: int
    item: str
    image: np.ndarray


@dataclass(frozen=True, slots=True)
class Snapshots(Instrument):
    """Keeps the image leaf at a path, of the first sample or of the batch that each worker makes first in an epoch."""

    leaf: str

    def start(self, process: Process) -> Hooks:
        """Each process writes its own."""
        return _Snapshots(self.leaf, process)


class _Snapshots(Hooks):
    def __init__(self, leaf: str, process: Process) -> None:
        self._leaf = leaf
        self._process = process

    def at_samples(self, fetch: Fetch, samples: Sequence[Any]) -> None:
        """Keep the image of a sample."""
        if samples:
            self._keep(fetch, samples[0], "sample")

    def at_batch(self, fetch: Fetch, batch: Any) -> None:
        """Keep the first image of a batch."""
        self._keep(fetch, batch, "batch")

    def _keep(self, fetch: Fetch, value: Any, root: str) -> None:
        leaf = image_at(value, self._leaf.removeprefix(root)) if self._leaf.startswith(root) else None
        if leaf is not None and not fetch.number:
            item = str(fetch.indices[0]) if fetch.indices else ""
            snapshot = Snapshot(self._process.worker or 0, fetch.epoch, item, reduced(leaf))
            self._process.spool.write(snapshot)


def image_at(value: Any, path: str) -> Any:
    """The leaf at a path of a sample or batch if it is an image, else None."""
    return next((leaf for name, leaf in iter_leaves(value) if name == path and is_image(leaf)), None)


def make_sheet(build: Callable[..., Loader], folder: Path, leaf: str, workers: int, size: int) -> Sheet:
    """Let every worker read the first item of the user's order, in two epochs and in batches of `size`.

    Raises NotApplicable unless the leaf is an image in each.
    """
    script = Script((((0,),) * workers,) * EPOCHS, size, mixed=True)
    loader = build(num_workers=workers, in_order=True, schedule=script.schedule)
    drive(loader, Plan(folder, (Snapshots(leaf),), length=1, keep_going=True), batches=(None,) * EPOCHS)
    kept = [record for record in read_spools(folder) if isinstance(record, Snapshot) and record.epoch < EPOCHS]
    if len(kept) < workers * EPOCHS:
        raise NotApplicable(f"{leaf} is not an image in every worker and epoch")
    pixels, note = displayed([snapshot.image for snapshot in kept])
    pictures = {
        (snapshot.epoch, snapshot.worker): Picture(thumbnail(image), note)
        for snapshot, image in zip(kept, pixels, strict=True)
    }
    cells = tuple(tuple(pictures.get((epoch, worker)) for worker in range(workers)) for epoch in range(EPOCHS))
    return Sheet(kept[0].item, cells)


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
    return Shown(_original_image(files, masked=view.mask is not None), tuple(seen), close)


def _image_of(value: Any, path: str) -> Any:
    root = "batch" if path.startswith("batch") else "sample"
    leaf = image_at(value, path.removeprefix(root))
    if leaf is None and path == root:
        leaf = next((part for _, part in iter_leaves(value) if is_image(part)), None)
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


def _original_image(files: FileSubstitution[Header], *, masked: bool) -> Picture | None:
    """The image file of a sample, of several that with the most colours; over it, a mask of the same size."""
    readable = [
        (pixels, file.name)
        for content, file in zip(files.contents, files.files, strict=True)
        if file.header is not None and (pixels := upright(content)) is not None
    ]
    if not readable:
        return None
    image, name = max(readable, key=lambda readable_file: len(np.unique(_codes(readable_file[0]))))
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
        self._reader = Reader(loader, folder, draws)
        self._is_stream = isinstance(loader.dataset, IterableDataset)
        self._collated = collated

    def read(self, index: Index, draw: int) -> Any:
        """The sample at an index, or at a position of a stream."""
        if self._is_stream:
            sample = self._reader.read_streamed(index if isinstance(index, int) else 0, draw)
        else:
            sample = self._reader.read(index, draw)
        return self._reader.collated(sample, draw)[0] if self._collated else sample


WIDTH, HEIGHT = 256, 96
"""The size of a drawn sound in pixels, as wide as an image in a report."""
_FRAME_VALUES = 512
"""Values in a frame of a spectrogram: 32 ms at 16 kHz, about as long as speech stays the same."""
_DECIBEL_RANGE = 60.0
"""Decibels below the loudest value that a spectrogram shows: a room with people is about as much above its noise."""
_PAPER, _INK = 250, 40
"""Grey levels of nothing and of the loudest sound."""

Drawn = tuple[Picture | None, Picture | None]
"""A waveform and its spectrogram."""


def show_sound(build: Callable[..., Loader], folder: Path, index: Index, path: str) -> tuple[Drawn, Drawn]:
    """The sound file of a sample and the leaf that the model hears, in this disposable process.

    Raises NotApplicable if the leaf is neither a waveform nor a spectrogram.
    """
    files = FileSubstitution(folder, SOUNDS)
    files.keeps = True
    files.install()
    reader = StateReader(build(), folder, 1, collated=path.startswith("batch"))
    reader.read(index, 0)
    files.install()  # reading may have imported decoders
    files.files.clear()
    files.contents.clear()
    sample = reader.read(index, 0)
    leaf = next((leaf for name, leaf in iter_leaves(sample) if name == _inside(path)), None)
    return _original(files), _heard(leaf)


def _original(files: FileSubstitution[SoundHeader]) -> Drawn:
    for content, file in zip(files.contents, files.files, strict=True):
        values = decoded_sound(content)
        if values is not None and file.header is not None:
            name = Path(file.name).name if Path(file.name).is_absolute() else "original"
            return _drawn(values.T, f"{name}, {file.header.rate:,} Hz")
    return None, None


def _heard(leaf: Any) -> Drawn:
    values = array_of(leaf) if isinstance(leaf, torch.Tensor) else leaf
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiu":
        raise NotApplicable("it is no waveform or spectrogram")
    rows = channels_of(values)
    if rows is not None:
        return _drawn(rows.astype(np.float64), "what the model hears")
    table = values.squeeze()
    table = table[0] if table.ndim == 3 else table
    if table.ndim != 2:
        raise NotApplicable("it is no waveform or spectrogram")
    return None, Picture(thumbnail(_shaded(_resized(table.astype(np.float64)))), "what the model hears")


def _drawn(rows: np.ndarray, label: str) -> Drawn:
    """The waveform of the first channel, and the spectrogram of the mean of all."""
    largest = float(np.abs(rows).max())
    wave = Picture(thumbnail(_envelope(rows[0])), f"{label}, largest value {largest:.3g}")
    return wave, Picture(thumbnail(_shaded(_resized(_decibels(rows.mean(0))))), label)


def _envelope(values: np.ndarray) -> np.ndarray:
    """The range of values in each column, (height, width, 3), scaled to the largest one."""
    values = np.nan_to_num(values) / max(float(np.abs(values).max()), 1e-12)
    image = np.full((HEIGHT, WIDTH), _PAPER, np.uint8)
    for column, part in enumerate(np.array_split(values, WIDTH)):
        if len(part):
            top, bottom = ((1 - edge) / 2 * (HEIGHT - 1) for edge in (part.max(), part.min()))
            image[int(top) : int(bottom) + 1, column] = _INK
    return np.repeat(image[..., None], 3, 2)


def _decibels(values: np.ndarray) -> np.ndarray:
    """The power in each bin and frame, (bins, frames), in decibels."""
    padded = np.pad(np.nan_to_num(values), (0, max(0, _FRAME_VALUES - len(values))))
    starts = np.linspace(0, len(padded) - _FRAME_VALUES, WIDTH).astype(int)
    frames = (
        np.stack([padded[start : start + _FRAME_VALUES] for start in starts], 1) * np.hanning(_FRAME_VALUES)[:, None]
    )
    power = np.abs(np.fft.rfft(frames, axis=0)) ** 2
    decibels = 10 * np.log10(power / max(float(power.max()), 1e-30) + 1e-30)
    return np.asarray(np.maximum(decibels, -_DECIBEL_RANGE))


def _resized(table: np.ndarray) -> np.ndarray:
    """A table of the size of a picture, by nearest neighbours."""
    rows, columns = (
        np.linspace(0, size - 1, want).astype(int) for size, want in zip(table.shape, (HEIGHT, WIDTH), strict=True)
    )
    return np.asarray(table[rows][:, columns])


def _shaded(table: np.ndarray) -> np.ndarray:
    """Loud is dark, and high sounds are on top: (height, width, 3)."""
    table = np.nan_to_num(table)
    shade = (table - table.min()) / max(float(np.ptp(table)), 1e-12)
    return np.repeat((_PAPER - (_PAPER - _INK) * shade[::-1])[..., None].astype(np.uint8), 3, 2)
