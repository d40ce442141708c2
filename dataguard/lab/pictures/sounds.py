"""Sound as images: the waveform and spectrogram of a file, and of what the model hears."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dataguard.figures import Picture
from dataguard.lab.core.index import Index
from dataguard.lab.core.leaves import array_of, iter_leaves
from dataguard.lab.decoding.file_substitution import SOUNDS, FileSubstitution
from dataguard.lab.decoding.sound_headers import SoundHeader
from dataguard.lab.decoding.sound_reading import decoded_sound
from dataguard.lab.pictures.display import thumbnail
from dataguard.lab.pictures.samples import StateReader
from dataguard.lab.sound.waveform_fit import channels_of
from dataguard.model import NotApplicable
from dataguard.targets.variants import Loader

WIDTH, HEIGHT = 256, 96
_WINDOW = 512
_RANGE = 60.0
"""Decibels below the loudest value that a spectrogram shows: a room with people is about as much above its noise."""
_PAPER, _INK = 250, 40

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
    inside = path.removeprefix("sample").removeprefix("batch")
    leaf = next((leaf for found, leaf in iter_leaves(sample) if found == inside), None)
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
    padded = np.pad(np.nan_to_num(values), (0, max(0, _WINDOW - len(values))))
    starts = np.linspace(0, len(padded) - _WINDOW, WIDTH).astype(int)
    frames = np.stack([padded[start : start + _WINDOW] for start in starts], 1) * np.hanning(_WINDOW)[:, None]
    power = np.abs(np.fft.rfft(frames, axis=0)) ** 2
    decibels = 10 * np.log10(power / max(float(power.max()), 1e-30) + 1e-30)
    return np.asarray(np.maximum(decibels, -_RANGE))


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
