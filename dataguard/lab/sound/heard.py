"""How the leaves of a sample follow the tones that are put in place of its sound file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dataguard.lab.decoding.sound_headers import SoundHeader
from dataguard.lab.reading.leaf_root import Rooted
from dataguard.lab.sound.spectrogram_fit import SpectrogramFit
from dataguard.lab.sound.waveform_fit import WaveformFit


@dataclass(frozen=True, slots=True)
class OtherRate:
    """The same values in a file of another sample rate.

    `index` and `name` are those of the second file; `real` says that it has this rate on disk. `ignored` are the leaves
    that are the same as for the first file, bit by bit; `raised` says that the loader refuses such a file, `carried`
    that the sample holds the rate as a number.
    """

    index: Any
    name: str
    rate: int
    real: bool
    ignored: tuple[str, ...]
    raised: bool
    carried: bool


@dataclass(frozen=True, slots=True)
class Loudness:
    """How a waveform answers to charts that are soft, and close to full scale in two random states or more.

    `plateaus` are the shares of values at the ends of its range, `steps` the largest steps as shares of the range; the
    first ones are those of the soft chart in the best state. `value` is the largest one for the soft chart.
    `distorted`: the tones are gone in every state.
    """

    plateaus: tuple[float, ...]
    steps: tuple[float, ...]
    value: float
    distorted: bool


@dataclass(frozen=True, slots=True)
class Heard(Rooted):
    """How the leaves of one sample follow the sound of its file.

    `files` counts the files that were surveyed, one of each sample, `rates` and `channels` how many of them have each.
    `header` is that of the file whose sound was replaced. `waveforms` and `spectrograms` are the leaves that hold its
    tones. `quiet` is the full scale of waveforms as a soft chart shows it; it differs where each sample is scaled to
    its own level. `drawn` are the waveforms for a chart close to full scale in two random states. `amplitude` is that
    of the loud tones.

    `dropped` are channels of which a waveform holds nothing, `joined` says how channels became one, `reduced` are
    leaves with a value for each channel and no time axis. `equal_channels`: all channels of the real files are the
    same, or nobody can say.
    """

    index: Any
    name: str
    header: SoundHeader
    files: int
    rates: Mapping[int, int]
    channels: Mapping[int, int]
    waveforms: tuple[WaveformFit, ...]
    quiet: Mapping[str, float]
    drawn: Mapping[str, tuple[WaveformFit, ...]]
    amplitude: float
    dropped: Mapping[str, tuple[int, ...]]
    loudness: Mapping[str, Loudness]
    spectrograms: tuple[SpectrogramFit, ...]
    joined: Mapping[str, str]
    reduced: tuple[str, ...]
    equal_channels: bool
    other: OtherRate
    collated: bool
    reads: int

    @property
    def exercised(self) -> dict[str, int]:
        """How much was inspected."""
        return {"sound files": self.files, "charts": self.reads}
