"""DG515: how the same tones differ between two splits."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dataguard.checks.splits.sound_mismatch import sound_mismatch
from dataguard.lab.sound.tone_fits import SpectrogramFit, WaveformFit

WAVE = WaveformFit("[0]", "float32", 16_000.0, ((1.0,),), 0.0)
MEL = SpectrogramFit("[0]", "float32", 80, (14.6, 19.8, 26.2), "logarithms", "mel (HTK)", 0.0, 8_000.0, 6.0, 2.77)


def heard(*waves: WaveformFit, drawn: tuple[WaveformFit, ...] | None = None, spectrogram: Any = ()) -> Any:
    """What was heard of a sample, with the same waveforms in two random states unless others are `drawn`."""
    draws = {wave.path: (wave, wave) if drawn is None else drawn for wave in waves}
    return SimpleNamespace(root="sample", waveforms=waves, drawn=draws, spectrograms=spectrogram)


def fault(own: Any, theirs: Any) -> str | None:
    found = sound_mismatch("val", own, "train", theirs)
    return found and found[0]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (WAVE, None),
        (replace(WAVE, rate=16_100.0), None),  # less than a quarter of a semitone
        (replace(WAVE, mix=((3.0,),)), None),  # a gain of 9.5 dB
        (replace(WAVE, path="[1]", rate=8_000.0), None),  # another leaf
        (
            replace(WAVE, rate=22_050.0),
            "has a sample rate of 16,000 Hz in sample[0], train of 22,050 Hz",
        ),
        (replace(WAVE, mix=((32_768.0,),)), "maps full scale to 1 in sample[0], train to 3.28e+04"),
    ],
)
def test_waveforms(other: WaveformFit, words: str | None) -> None:
    assert fault(heard(WAVE), heard(other)) == words


def test_a_speed_that_is_drawn_at_random_is_not_compared() -> None:
    faster = replace(WAVE, rate=17_600.0)
    assert fault(heard(WAVE), heard(faster, drawn=(faster, replace(WAVE, rate=14_400.0)))) is None
    assert fault(heard(WAVE), heard(faster, drawn=())) is None


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (MEL, None),
        (replace(MEL, peaks=(15.1, 20.2, 26.5)), None),
        (replace(MEL, peaks=(14.6, 26.2)), None),  # a tone is masked
        (replace(MEL, bins=64), "has 80 bins in sample[0], train has 64"),
        (replace(MEL, values="powers"), "holds logarithms in sample[0], train powers"),
        (
            replace(MEL, step=12.04),
            "rises by 2.77 for sound that is four times louder in sample[0], train by 12",
        ),
        (
            replace(MEL, peaks=(11.4, 15.9, 21.6)),
            "has tones in bins 14.6 to 26.2 in sample[0], train in bins 11.4 to 21.6",
        ),
    ],
)
def test_spectrograms(other: SpectrogramFit, words: str | None) -> None:
    assert fault(heard(spectrogram=(MEL,)), heard(spectrogram=(other,))) == words
