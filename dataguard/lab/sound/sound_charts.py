"""How samples follow the sound of their files, measured with charts: `lab.sound`.

Charts are files of steady tones that decoders get in place of the user's: with the same number of channels, and with
whatever sample rate the question needs. So every decoder is tested with its own conventions, and what arrives in the
sample is compared with what was in the file. Each sample is read in a disposable process.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from dataguard.core.model import NotApplicable, Undecided
from dataguard.lab.core.leaves import array_of
from dataguard.lab.decoding.file_substitution import SOUNDS
from dataguard.lab.decoding.sound_files import SoundHeader, decoded_sound
from dataguard.lab.files.file_lines import FileStep, steps_of_file
from dataguard.lab.files.file_survey import (
    BUDGET_SHARE,
    FULLY_READ,
    FileSurvey,
    MediaFile,
    NotOpened,
    SwappedFileReader,
    alone_if_bypassed,
    survey_build,
    survey_files,
)
from dataguard.lab.provenance.provenance import is_unread
from dataguard.lab.reading.sample_reader import Rooted
from dataguard.lab.sound.padded_frames import Output, PaddedFrames, SoundReader, padded_frames
from dataguard.lab.sound.paired_offsets import PairedOffsets, paired_offsets
from dataguard.lab.sound.tone_fits import (
    LOUDER,
    SpectrogramFit,
    WaveformFit,
    amplitude,
    channels_of,
    chart,
    extremes,
    fit_spectrogram,
    fit_waveform,
    following_rows,
    joined_as,
    tones_of,
    wav,
)
from dataguard.lab.sound.window_starts import WindowStarts, window_starts
from dataguard.lab.subject import Subject

T = TypeVar("T")

MOST_SURVEYED = 200
"""How many samples are surveyed for files of other sample rates and numbers of channels, if the time allows."""
CHART_READS = 12
"""About how many samples an observation reads: by these it is afforded."""
FEWEST_FEATURES = 100
"""The fewest values of a leaf that may be sound if no library that reads sound is imported yet: tables have fewer
columns."""

_NO_SOUND = "no sound file is passed to a known decoder"


class Sound:
    """Observations of sound files; each observation is made once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def survey(self) -> FileSurvey[SoundHeader]:
        """The sound files of samples; none if no known decoder gets one while a sample is read."""
        subject = self._subject
        if is_unread(subject):
            return FileSurvey((), (), 0)
        indices = subject.epoch.asked(MOST_SURVEYED) if subject.facts.kind == "map" else ()
        subject.afford_reads("sound files", FULLY_READ + 1)
        seconds = BUDGET_SHARE * subject.settings.budget
        files: FileSurvey[SoundHeader] = subject.observe(
            "sound files", lambda folder: survey_files(subject.build, folder, indices, seconds, SOUNDS)
        )
        return files

    @property
    def built(self) -> tuple[FileSurvey[SoundHeader], float]:
        """The sound files that are decoded while the loader is built, and the seconds that this takes."""
        subject = self._subject
        return subject.observe("built sound files", lambda folder: survey_build(subject.rebuild, folder, SOUNDS))

    def _need_leaf(self) -> None:
        """Raise NotApplicable, without reading anything, if no sample has a leaf that may be sound."""
        epoch = self._subject.epoch
        shapes = [(leaf.shape or (), leaf.type_name) for sample in epoch.samples[:1] for leaf in sample.leaves]
        shapes += [((leaf.shape or ())[1:], leaf.type_name) for batch in epoch.batches[:1] for leaf in batch.leaves]
        fewest = 2 if _reads_sound() else FEWEST_FEATURES
        if not any(_may_be_sound(shape, name, fewest) for shape, name in shapes):
            raise NotApplicable("no leaf of a sample or batch has the shape of a waveform or spectrogram")

    @property
    def charts(self) -> Heard:
        """How a sample follows tones in its file.

        Raises NotApplicable if no sound file is decoded or nothing follows its sound, Undecided if a sample varies
        under one random state.
        """
        self._need_leaf()
        return self._with_charts("sound charts", hear)

    @property
    def steps(self) -> tuple[FileStep, ...]:
        """What a chart close to full scale becomes, line by line; `measured` are its `extremes`."""

        def look(reader: SoundReader, survey: FileSurvey[SoundHeader]) -> tuple[FileStep, ...]:
            trial = _Trial(reader, survey)
            loud, silent = (wav(chart(trial.header, one), trial.header.rate, trial.header) for one in (FULL_LEVEL, 0))
            return steps_of_file(reader, trial.file, trial.content, loud, silent, extremes)

        return self._with_charts("sound lines", look)

    @property
    def padded(self) -> tuple[PaddedFrames, ...]:
        """What silence and padding are in the spectrograms of logarithms, of the shortest file that was surveyed."""
        paths = {fit.path: fit.bins for fit in self.charts.spectrograms if fit.values == "logarithms"}
        if not paths:
            raise NotApplicable("no leaf is a spectrogram of logarithms")
        return self._with_charts("padded frames", lambda reader, survey: padded_frames(reader, survey, paths))

    def paired_offsets(self, files: tuple[str, str]) -> tuple[PairedOffsets, ...]:
        """Where two waveforms begin in files of one sample that belong together; empty if no two hold them."""
        self._need_leaf()
        key = f"paired sound {files}"
        return self._with_charts(key, lambda reader, survey: paired_offsets(reader, survey, files))

    @property
    def window_starts(self) -> tuple[WindowStarts, ...]:
        """Where waveforms begin that are cut from their file at random; empty if none is."""
        self._need_leaf()
        return self._with_charts("window starts", window_starts)

    def _with_charts(self, key: str, look: Callable[[SoundReader, FileSurvey[SoundHeader]], T]) -> T:
        """Look at samples in which charts may replace sound files.

        A loader whose files are decoded while it is built is rebuilt for every chart.
        """
        subject = self._subject
        survey, rebuild = self.survey, None
        built = not survey.files and subject.facts.kind == "map" and _reads_sound()
        if not survey.files and not built:
            raise NotApplicable(_NO_SOUND)
        reads = CHART_READS if subject.facts.kind == "map" else CHART_READS * len(survey.samples)
        subject.afford_reads(key, reads)
        if built:
            (survey, seconds), rebuild = self.built, subject.rebuild
            subject.afford(key, CHART_READS * seconds)
        if not survey.files:
            raise NotApplicable(_NO_SOUND)

        def run(folder: Path) -> T:
            return look(SwappedFileReader(subject.build, folder, survey.modules, SOUNDS, values_of, rebuild), survey)

        return alone_if_bypassed(subject, key, run)


def _reads_sound() -> bool:
    """Whether the user's code has imported a library that reads sound."""
    return any(decoder.module in sys.modules for decoder in SOUNDS.decoders)


def _may_be_sound(dimensions: Sequence[int], type_name: str, fewest: int) -> bool:
    """Whether a leaf has as many numbers, and no more axes than a spectrogram of several channels."""
    return (
        type_name.startswith(("float", "bfloat", "int", "uint8"))
        and len(dimensions) < 4
        and math.prod(dimensions) >= fewest
    )


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


SOFT_LEVEL = 0.1
"""The level of a soft chart, which a gain of up to 20 dB does not clip."""
LOUD_LEVEL = SOFT_LEVEL * LOUDER
"""The level of a louder one: values that follow the sound follow the difference."""
FULL_LEVEL = 0.95
"""The level of a chart that is about as loud as a file can be."""
CHOICE_READS = 16
"""Reads in which a channel is missing before it counts as dropped: it may be chosen at random, or by the index.

One of two that is chosen at random is missing in all of them once in 65,536 times.
"""
_MISSING_SHARE = 0.02
"""A channel that is weaker than this share of the strongest one, by 34 dB, is missing: lossy files leave less than
that."""
_PLATEAU_SHARE, _STEP_SHARE = 0.05, 0.8
"""The share of values at the ends of the range, and the largest step, above which more random states are tried: tones
that are neither clipped nor overflow stay below both."""
_GAIN_STEP = 0.02
"""The share by which gains of two random states differ, if one is drawn: rounding and dither change less."""
_EQUAL_CHANNELS_SHARE = 1e-3
"""How far channels that hold the same may differ, as a share of the largest value: lossy files differ a little."""
MOST_VALUES = 1 << 22
"""Leaves with more values are looked at in their first part only: a limit of time."""
OTHER_RATES = (16_000, 22_050)
"""A rate that a file claims for once, if all have the same: the first that differs. Both are common, so that no decoder
refuses them."""


def values_of(path: str, leaf: Any) -> np.ndarray | None:
    """The numbers of a leaf, at most 4 million of them; None for one that holds no numbers."""
    del path
    if isinstance(leaf, bool) or not isinstance(leaf, torch.Tensor | np.ndarray | int | float):
        return None
    array = array_of(leaf) if isinstance(leaf, torch.Tensor) else np.asarray(leaf)
    if array.dtype.kind not in "fiu" or not array.size:
        return None
    return array if array.size <= MOST_VALUES else array[..., : MOST_VALUES // (array.size // array.shape[-1])]


def hear(reader: SoundReader, survey: FileSurvey[SoundHeader]) -> Heard:
    """Read a sample with charts in place of its sound file.

    Raises NotApplicable if no leaf follows it, Undecided if the sample varies under one random state.
    """
    trial = _Trial(reader, survey)
    header, file = trial.header, trial.file
    silence, soft, loud = (trial.given(level) for level in (0, SOFT_LEVEL, LOUD_LEVEL))
    if loud.differing_leaves(trial.given(LOUD_LEVEL)):
        raise Undecided("the sample varies between reads under the same random state")
    follows = [path for path in loud.shown if path in loud.differing_leaves(silence) and path in soft.shown]
    if not follows:
        raise NotApplicable("nothing in the sample follows the sound of its file")
    trial.keep_following(silence, loud)
    full = [trial.given(FULL_LEVEL), *trial.given_in(range(1, 2), FULL_LEVEL)]
    waveforms = {path: fit for path in follows if (fit := trial.fit(path, loud, LOUD_LEVEL))}
    tones = sorted({tone for part in tones_of(header.rate, header.channels) for tone in part})
    spectrograms = {
        path: spectrogram
        for path in follows
        if path not in waveforms and path in silence.shown
        if (spectrogram := fit_spectrogram(path, silence.shown[path], soft.shown[path], loud.shown[path], tones))
    }
    quiet = {path: trial.fit(path, soft, SOFT_LEVEL) for path in waveforms}
    heard = {path: trial.waveform(loud, path) for path in follows if path not in spectrograms}
    joined = {path: joined_as(values, header, LOUD_LEVEL) for path, values in heard.items() if values is not None}
    return Heard(
        index=file.index,
        name=file.name,
        header=header,
        files=len(trial.files),
        rates=dict(Counter(file.header.rate for file in trial.files)),
        channels=dict(Counter(file.header.channels for file in trial.files)),
        waveforms=tuple(waveforms.values()),
        quiet={path: fit.full_scale for path, fit in quiet.items() if fit},
        drawn={path: fits for path in waveforms if (fits := trial.fitted(path, full))},
        amplitude=LOUD_LEVEL * amplitude(header, 0),
        dropped={path: dropped for path, fit in waveforms.items() if (dropped := trial.dropped(fit))},
        loudness={
            path: loudness
            for path in follows
            if path not in spectrograms
            if (loudness := _loudness(trial, path, soft, full))
        },
        spectrograms=tuple(spectrograms.values()),
        joined={path: name for path, name in joined.items() if name},
        reduced=_reduced(loud, follows, header.channels),
        equal_channels=_equal_channels(trial.content),
        other=trial.at_other_rate(loud, follows),
        collated=loud.root == "batch",
        reads=trial.reads,
    )


class _Trial:
    """Reads one sample with charts in place of its sound file, in this disposable process."""

    def __init__(self, reader: SoundReader, survey: FileSurvey[SoundHeader]) -> None:
        self._reader = reader
        self.file = max(survey.files, key=lambda file: (min(file.header.channels, 2), -file.position))
        self.files = [file for file in survey.files if file.position == self.file.position]
        self.header = self.file.header
        self._samples = survey.of_samples(self.file.position)
        reader.warm_up(next((file.index for file in survey.files if file.index != self.file.index), self.file.index))
        self.content = reader.read(self.file.index).content(self.file)
        self.reads = 1
        self._following: dict[str, np.ndarray] = {}

    def keep_following(self, silence: Output, loud: Output) -> None:
        """From now on, take only those channels of leaves that follow this file: other stems are other files."""
        both = loud.shown.keys() & silence.shown.keys()
        following = {path: following_rows(silence.shown[path], loud.shown[path]) for path in both}
        self._following = {path: rows for path, rows in following.items() if rows is not None}

    def waveform(self, output: Output, path: str) -> np.ndarray | None:
        """The channels of a leaf that follow the file; None if the sample does not have them."""
        values, kept = output.shown.get(path), self._following.get(path)
        rows = None if values is None or kept is None else channels_of(values)
        if kept is None or rows is None:
            return values if kept is None else None
        return rows[kept] if len(rows) == len(kept) else None

    def given(self, level: float, draw: int = 0) -> Output:
        """The sample with a chart of this level."""
        self.reads += 1
        values = chart(self.header, level)
        return self._reader.read_swapped(self.file, self.content, wav(values, self.header.rate, self.header), draw)

    def given_in(self, draws: Iterable[int], level: float) -> list[Output]:
        """The same in further random states, except for those in which the sample reads other files."""
        outputs = []
        for draw in draws:
            with contextlib.suppress(NotOpened):
                outputs.append(self.given(level, draw))
        return outputs

    def fit(self, path: str, output: Output, level: float) -> WaveformFit | None:
        """How a leaf follows a chart of this level; None if it is no waveform that holds its tones."""
        values = self.waveform(output, path)
        return None if values is None else fit_waveform(path, values, self.header, level)

    def fitted(self, path: str, outputs: Sequence[Output]) -> tuple[WaveformFit, ...]:
        """The fits of a waveform for the charts close to full scale; none if it does not hold the tones in all."""
        fits = [fit for output in outputs if (fit := self.fit(path, output, FULL_LEVEL))]
        return tuple(fits) if len(fits) == len(outputs) else ()

    def dropped(self, fit: WaveformFit) -> tuple[int, ...]:
        """The channels of the file of which a waveform holds nothing, in any sample and random state."""
        missing = set(_missing(fit))
        candidates = [file for file in self._samples if file.header.channels == self.header.channels]
        for draw, file in zip(range(1, CHOICE_READS), cycle(candidates), strict=False):
            if not missing:
                break
            self.reads += 2
            content = self._reader.read(file.index).content(file)
            tones = wav(chart(file.header, LOUD_LEVEL), file.header.rate, file.header)
            try:
                values = self.waveform(self._reader.read_swapped(file, content, tones, draw), fit.path)
            except NotOpened:
                continue
            other = None if values is None else fit_waveform(fit.path, values, file.header, LOUD_LEVEL)
            missing &= set(_missing(other)) if other else missing
        return tuple(sorted(missing))

    def at_other_rate(self, loud: Output, follows: Sequence[str]) -> OtherRate:
        """The same values in the file of another sample or, if all files have one rate, in one that claims another."""
        header = self.header
        second = next((file for file in self.files if file.header.rate != header.rate), None)
        file = second or self.file
        rate = second.header.rate if second else next(rate for rate in OTHER_RATES if rate != header.rate)
        try:
            if second and len(loud.files) > 1:  # those beside it are others in another sample
                loud = self._all_at(self.file, header.rate)
            output = self._all_at(file, rate) if second else self._claiming(rate)
        except Undecided:
            return OtherRate(file.index, file.name, rate, second is not None, (), raised=True, carried=False)
        ignored = tuple(path for path in follows if output.digests.get(path) == loud.digests[path])
        carried = any(
            _is(value, header.rate) and _is(output.shown.get(path), rate) for path, value in loud.shown.items()
        )
        return OtherRate(file.index, file.name, rate, second is not None, ignored, raised=False, carried=carried)

    def _claiming(self, rate: int) -> Output:
        """The sample with the loud chart in a file that claims this rate."""
        self.reads += 1
        values = wav(chart(self.header, LOUD_LEVEL), rate, self.header)
        return self._reader.read_swapped(self.file, self.content, values)

    def _all_at(self, file: MediaFile[SoundHeader], rate: int) -> Output:
        """The sample of a file with the loud chart of the first sample in each of its files, all of this rate."""
        self.reads += 2
        read = self._reader.read(file.index)
        values = wav(chart(self.header, LOUD_LEVEL), rate, self.header)
        beside = [(other, content, values) for other, content in read.beside(file)]
        return self._reader.read_swapped(file, read.content(file), values, beside=beside)


def _missing(fit: WaveformFit) -> list[int]:
    """The channels of the file of which a waveform holds nothing."""
    held = np.abs(np.array(fit.mix)).max(0)
    return [channel for channel, most in enumerate(held) if most < _MISSING_SHARE * held.max()]


def _is(value: np.ndarray | None, number: int) -> bool:
    return value is not None and value.size == 1 and float(value.ravel()[0]) == number


def _loudness(trial: _Trial, path: str, soft: Output, full: Sequence[Output]) -> Loudness | None:
    """How a leaf answers to loud sound, in more random states if a gain is drawn.

    Where that looks wrong, soft sound in the same states shows whether it is.
    """
    loudness = _loudness_in(path, trial, [soft], full)
    if loudness and _gains_differ(trial.waveform(output, path) for output in full):
        full = [*full, *trial.given_in(range(2, CHOICE_READS), FULL_LEVEL)]
        loudness = _loudness_in(path, trial, [soft], full)
    if loudness and (max(loudness.plateaus) > _PLATEAU_SHARE or max(loudness.steps[1:]) > _STEP_SHARE):
        states = range(2, CHOICE_READS)
        fulls = [] if len(full) > 2 else trial.given_in(states, FULL_LEVEL)
        loudness = _loudness_in(path, trial, [soft, *trial.given_in(states, SOFT_LEVEL)], [*full, *fulls])
    return loudness


def _gains_differ(waveforms: Iterable[np.ndarray | None]) -> bool:
    """Whether waveforms of one chart differ in how loud they are as a whole: most values, and not a part of them."""
    levels = [float(np.median(np.abs(values))) for values in waveforms if values is not None and values.size]
    return len(levels) > 1 and max(levels) > (1 + _GAIN_STEP) * min(levels)


def _loudness_in(path: str, trial: _Trial, softs: Sequence[Output], fulls: Sequence[Output]) -> Loudness | None:
    low, high = ([trial.waveform(output, path) for output in outputs] for outputs in (softs, fulls))
    ends = [None if values is None else extremes(values) for values in (*low, *high)]
    if low[0] is None or None in ends:
        return None
    plateaus, steps = zip(*(file_extremes for file_extremes in ends if file_extremes), strict=True)
    count = len(softs)
    return Loudness(
        (min(plateaus[:count]), *plateaus[count:]),
        (max(steps[:count]), *steps[count:]),
        float(np.abs(low[0]).max()),
        all(trial.fit(path, output, FULL_LEVEL) is None for output in fulls),
    )


def _reduced(loud: Output, follows: Sequence[str], channels: int) -> tuple[str, ...]:
    """The leaves with one value for each channel, if no other leaf follows the sound."""
    sizes = {path: loud.shown[path].size for path in follows}
    return tuple(sizes) if channels > 1 and set(sizes.values()) == {channels} else ()


def _equal_channels(content: bytes) -> bool:
    """Whether all channels of a file are the same: then it does not matter which one is used."""
    values = decoded_sound(content)
    if values is None:
        return True
    return float(np.abs(values - values[:, :1]).max()) <= _EQUAL_CHANNELS_SHARE * float(np.abs(values).max())
