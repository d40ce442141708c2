"""Where in its file a waveform begins that is cut out at random, as noise shows that never repeats."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dataguard.lab.decoding.sound_files import SoundHeader
from dataguard.lab.files.file_survey import FileSurvey, MediaFile, NotOpened, SampleIndex
from dataguard.lab.reading.sample_reader import Rooted
from dataguard.lab.sound.padded_frames import Output, SoundReader
from dataguard.lab.sound.tone_fits import channels_of, wav

FIRST_DRAWS, DRAWS = 3, 8
"""Random states that show whether a window is drawn, and those that show where."""
COMPARED = 4096
"""Values of a waveform that are looked for in its file."""
CLEAR = 0.8
"""The correlation from which on they are those of the file, at the same rate: noise has 0.1 by chance."""
_LEVEL = 0.1


@dataclass(frozen=True, slots=True)
class WindowStarts(Rooted):
    """The first frames of a waveform of `length` values in a file of so many `frames`, in several random states."""

    path: str
    file: str
    starts: tuple[int, ...]
    length: int
    frames: int
    rate: int
    index: SampleIndex
    collated: bool


def window_starts(reader: SoundReader, survey: FileSurvey[SoundHeader]) -> tuple[WindowStarts, ...]:
    """The starts of the waveforms that are cut from the longest file of a sample; none if it is read as a whole."""
    file = max(survey.files, key=lambda file: file.header.frames)
    reader.warm_up(file.index)
    real = reader.read(file.index)
    waves = {path: channels[0] for path, values in real.shown.items() if (channels := channels_of(values)) is not None}
    cut = [path for path, wave in waves.items() if COMPARED <= len(wave) <= file.header.frames - file.header.rate]
    if not cut:
        return ()
    noise = np.random.default_rng(0).uniform(-_LEVEL, _LEVEL, file.header.frames)
    outputs: list[Output] = []
    for draw in range(DRAWS):
        if draw == FIRST_DRAWS and len({output.digests.get(cut[0]) for output in outputs}) < 2:
            return ()
        with contextlib.suppress(NotOpened):
            outputs.append(reader.read_swapped(file, real.content(file), _file(file, noise), draw))
    return tuple(
        WindowStarts(
            path,
            file.name,
            starts,
            len(waves[path]),
            file.header.frames,
            file.header.rate,
            file.index,
            real.root == "batch",
        )
        for path in cut
        if len(starts := tuple(_starts(outputs, path, noise))) == len(outputs)
    )


def _file(file: MediaFile[SoundHeader], noise: np.ndarray) -> bytes:
    return wav(np.repeat(noise[:, None], file.header.channels, 1), file.header.rate, file.header)


def _starts(outputs: list[Output], path: str, noise: np.ndarray) -> Iterator[int]:
    for output in outputs:
        values = output.shown.get(path)
        channels = None if values is None else channels_of(values)
        start = None if channels is None else start_of(np.asarray(channels[0], np.float64), noise)
        if start is not None:
            yield start


def start_of(wave: np.ndarray, noise: np.ndarray) -> int | None:
    """Where in the noise a waveform begins; None if it does not hold it value by value."""
    part = wave[:COMPARED] - wave[:COMPARED].mean()
    size = 1 << (len(noise) + len(part)).bit_length()
    found = np.fft.irfft(np.fft.rfft(noise, size) * np.fft.rfft(part, size).conj(), size)[: len(noise)]
    start = int(np.argmax(np.abs(found)))
    norms = float(np.linalg.norm(part) * np.linalg.norm(noise[start : start + len(part)]))
    return start if norms and abs(found[start]) > CLEAR * norms else None
