"""What padding and silence are in a spectrogram of logarithms.

Frames that do not follow the sound of the file, at the end or at the beginning, are padding if they are constant and
are there in every random state: those that augmentation masks are elsewhere each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from dataguard.lab.decoding.sound_files import SoundHeader
from dataguard.lab.files.file_survey import FileSurvey, SampleIndex, SampleOutput, SwappedFileReader
from dataguard.lab.reading.sample_reader import Rooted
from dataguard.lab.sound.tone_fits import LOUDER, chart, wav

Output = SampleOutput[SoundHeader, np.ndarray]
SoundReader = SwappedFileReader[SoundHeader, np.ndarray]

DRAWS = 3
"""Random states in which frames must be constant: time masks of a tenth of all frames cover the same end in three of
them once in a thousand times."""
QUANTILES = 21
"""How many values describe the real frames, evenly spaced in rank from the smallest to the largest."""
_LEVEL = 0.1 * LOUDER
"""The level of the chart beside silence."""


@dataclass(frozen=True, slots=True)
class PaddedFrames(Rooted):
    """The frames of one leaf of a sample.

    `silence` is the median of frames whose sound is silence, `real` are quantiles of those with the sound of the real
    file, without padding. `padding` is the value of constant frames at an end, of which there are `count` of `frames`;
    None if there are none. `lengths` are the other leaves that change with the length of the file.
    """

    path: str
    index: SampleIndex
    collated: bool
    silence: float
    real: tuple[float, ...]
    padding: float | None
    count: int
    frames: int
    lengths: tuple[str, ...]


def padded_frames(
    reader: SoundReader, survey: FileSurvey[SoundHeader], bins: Mapping[str, int]
) -> tuple[PaddedFrames, ...]:
    """Read the sample with the shortest file with charts in its place; `bins` are those of each spectrogram."""
    file = min(survey.files, key=lambda file: file.header.frames / file.header.rate)
    header = file.header
    reader.warm_up(file.index)
    real = reader.read(file.index)
    content = real.content(file)
    loud = chart(header, _LEVEL)[: header.frames]

    def given(values: np.ndarray, draw: int) -> Output:
        return reader.read_swapped(file, content, wav(values, header.rate, header), draw)

    silent = [given(np.zeros_like(loud), draw) for draw in range(DRAWS)]
    tones = [given(loud, draw) for draw in range(DRAWS)]
    shorter = given(np.zeros_like(loud[: len(loud) // 2]), 0)
    lengths = tuple(silent[0].differing_leaves(shorter) - set(bins))
    return tuple(
        frames
        for path, count in bins.items()
        for measured in _frames(path, count, real, silent, tones)
        for frames in [PaddedFrames(path, file.index, real.root == "batch", *measured, lengths)]
    )


def _frames(
    path: str, bins: int, real: Output, silent: list[Output], tones: list[Output]
) -> Iterator[tuple[float, tuple[float, ...], float | None, int, int]]:
    """Silence, real values and padding of a leaf, and the numbers of padded and of all frames."""
    reads = [by_frame(output.shown.get(path), bins) for output in (real, *silent, *tones)]
    own, *rest = reads
    if own is None or any(values is None or values.shape != own.shape for values in rest):
        return  # cropped or stretched at random
    quiet, loud = np.stack(rest[: len(silent)]), np.stack(rest[len(silent) :])  # type: ignore[arg-type]
    heard = np.flatnonzero((quiet != loud).any((0, 2)))
    if not len(heard):
        return
    ends = np.r_[0 : heard[0], heard[-1] + 1 : len(own)]
    outside = np.concatenate([own[ends], *quiet[:, ends]])
    constant = len(ends) > 1 and not np.ptp(outside)  # in the real sample, too: its file may be a little longer
    inside = quiet[:, heard[0] : heard[-1] + 1]
    quantiles = np.quantile(own[heard[0] : heard[-1] + 1], np.linspace(0, 1, QUANTILES))
    padding = float(outside.flat[0]) if constant else None
    yield float(np.median(inside)), tuple(map(float, quantiles)), padding, len(ends) if constant else 0, len(own)


def by_frame(values: np.ndarray | None, bins: int) -> np.ndarray | None:
    """The first channel of a spectrogram, (frames, bins) of float64; None for a leaf of another shape."""
    values = None if values is None else values.squeeze()
    if values is None or values.ndim not in (2, 3):
        return None
    values = values[0] if values.ndim == 3 else values
    if bins not in values.shape:
        return None
    return np.asarray(values.T if values.shape[0] == bins else values, np.float64)
