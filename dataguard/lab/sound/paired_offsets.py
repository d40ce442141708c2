"""Where two waveforms of a sample begin in their files, if these belong together: a noisy recording and its clean one.

Both files are replaced by the same noise, so that two waveforms that are cut alike are alike.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from dataguard.lab.core.records import Index
from dataguard.lab.decoding.sound_files import SoundHeader
from dataguard.lab.files.file_survey import FileSurvey, MediaFile, NotOpened
from dataguard.lab.reading.sample_reader import Rooted
from dataguard.lab.sound.padded_frames import Output, SoundReader
from dataguard.lab.sound.tone_fits import channels_of, wav

DRAWS = 5
"""Random states: where a window is drawn, two of them begin it at one place now and then."""
PERIOD = 509
"""After how many frames the noise repeats, a prime: windows that share no frame of their files are compared as well."""
CLEAR = 0.4
"""The correlation above which two waveforms show one noise: filtered or noisy ones stay above it, and two different
noises of 500 values below 0.2."""
NEAR = 8
"""How many values codecs and resampling may delay a waveform."""
_LEVEL = 0.1


@dataclass(frozen=True, slots=True)
class PairedOffsets(Rooted):
    """By how many values one waveform of a sample begins later in its file than another one does in its own.

    `offsets`, from -254 to 254, are those in several random states, as a noise that repeats after 509 values shows
    them. `paths` and `files` are the two leaves and their files.
    """

    paths: tuple[str, str]
    files: tuple[str, str]
    offsets: tuple[int, ...]
    index: Index
    collated: bool

    @property
    def moved(self) -> int:
        """The random states in which the two begin at other places."""
        return sum(abs(offset) > NEAR for offset in self.offsets)

    @property
    def apart(self) -> bool:
        """Whether most random states give another offset: each window is drawn by itself."""
        return len({offset for offset in self.offsets if abs(offset) > NEAR}) > 1 and 2 * self.moved > len(self.offsets)


def paired_offsets(
    reader: SoundReader, survey: FileSurvey[SoundHeader], files: tuple[str, str]
) -> tuple[PairedOffsets, ...]:
    """The offsets of the waveforms that hold these two files of one sample; empty if no two of one length do."""
    first = next((file for file in survey.files if file.name == files[0]), None)
    if first is None:
        return ()
    reader.warm_up(first.index)
    read = reader.read(first.index)
    content = read.content(first)
    partners = [pair for pair in read.beside(first) if pair[0].name == files[1]]
    if len(partners) != 1:
        return ()
    other, other_content = partners[0]

    def given(level: float, other_level: float, draw: int = 0) -> Output:
        beside = [(other, other_content, _noise(other, other_level))]
        return reader.read_swapped(first, content, _noise(first, level), draw, beside=beside)

    both, without_first, without_other = given(_LEVEL, _LEVEL), given(0, _LEVEL), given(_LEVEL, 0)
    ones, others = (
        [row for row in _rows(both) if _differs(both, gone, row) and not _differs(both, kept, row)]
        for gone, kept in ((without_first, without_other), (without_other, without_first))
    )
    draws = [both]
    for draw in range(1, DRAWS):
        with contextlib.suppress(NotOpened):
            draws.append(given(_LEVEL, _LEVEL, draw))
    return tuple(
        PairedOffsets((one[0], two[0]), (first.name, other.name), offsets, first.index, both.root == "batch")
        for one, two in product(ones, others)
        if len(offsets := tuple(_offsets(draws, one, two))) == len(draws)
    )


def _noise(file: MediaFile[SoundHeader], level: float) -> bytes:
    """A file of noise that repeats, the same in all files, or of silence."""
    header = file.header
    noise = np.resize(np.random.default_rng(0).uniform(-level, level, PERIOD), header.frames)
    return wav(np.repeat(noise[:, None], header.channels, 1), header.rate, header)


def _rows(output: Output) -> Iterator[tuple[str, int]]:
    """The channels of all waveforms, each by the path of its leaf and its number."""
    for path, values in output.shown.items():
        channels = channels_of(values)
        yield from ((path, number) for number in range(0 if channels is None else len(channels)))


def _row(output: Output, row: tuple[str, int]) -> np.ndarray | None:
    path, number = row
    values = output.shown.get(path)
    channels = None if values is None else channels_of(values)
    return None if channels is None or number >= len(channels) else np.asarray(channels[number], np.float64)


def _differs(output: Output, other: Output, row: tuple[str, int]) -> bool:
    one, two = _row(output, row), _row(other, row)
    return one is not None and not np.array_equal(one, two if two is not None else ())


def _offsets(draws: list[Output], one: tuple[str, int], two: tuple[str, int]) -> Iterator[int]:
    for output in draws:
        offset = offset_between(_row(output, one), _row(output, two))
        if offset is not None:
            yield offset


def offset_between(one: np.ndarray | None, two: np.ndarray | None) -> int | None:
    """By how many values `two` is behind `one`, modulo the period of the noise; None if they do not show one noise."""
    if one is None or two is None or len(one) != len(two) or len(one) < 2 * PERIOD:
        return None
    length = len(one) // PERIOD * PERIOD
    first, second = (
        np.fft.rfft((values - values.mean())[:length].reshape(-1, PERIOD).mean(0)) for values in (one, two)
    )
    size = float(np.linalg.norm(np.fft.irfft(first, PERIOD)) * np.linalg.norm(np.fft.irfft(second, PERIOD)))
    correlation = np.fft.irfft(first * second.conj(), PERIOD)
    lag = int(np.argmax(np.abs(correlation)))
    if not size or abs(correlation[lag]) < CLEAR * size:
        return None
    return lag if lag <= PERIOD // 2 else lag - PERIOD
