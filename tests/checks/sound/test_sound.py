"""DG531 to DG533: what no recorded sample shows."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dataguard.checks.sound.dg531_ignored_sample_rate import dg531_ignored_sample_rate
from dataguard.checks.sound.dg532_wrong_sound_scale import dg532_wrong_sound_scale
from dataguard.checks.sound.dg533_mixed_sound_channels import dg533_mixed_sound_channels
from dataguard.core.model import Check, Finding, NotApplicable, Undecided
from dataguard.lab.decoding.sound_files import SoundHeader
from dataguard.lab.sound.sound_charts import Heard, Loudness, OtherRate
from dataguard.lab.sound.tone_fits import WaveformFit

WAVE = WaveformFit("[0]", "float32", 16_000.0, ((1.0,),), 0.0)
QUIET = Loudness((0.001, 0.001, 0.001), (0.3, 0.3, 0.3), 0.1, distorted=False)
HEARD = Heard(
    index=3,
    name="/data/3.wav",
    header=SoundHeader("Wave", 16_000, 1, 16, 9_600),
    files=12,
    rates={16_000: 8, 44_100: 4},
    channels={1: 12},
    waveforms=(WAVE,),
    quiet={"[0]": 1.0},
    drawn={"[0]": (WAVE, WAVE)},
    amplitude=0.07,
    dropped={},
    loudness={"[0]": QUIET},
    spectrograms=(),
    joined={},
    reduced=(),
    equal_channels=True,
    other=OtherRate(1, "/data/1.wav", 44_100, True, (), raised=False, carried=False),
    collated=False,
    reads=9,
)
STEREO = replace(HEARD, header=replace(HEARD.header, channels=2), channels={2: 12}, equal_channels=False)


def judged(check: Check, heard: Heard, **contract: Any) -> tuple[list[str], str | None]:
    """The messages of a judge, and the note of its pass."""
    lab = SimpleNamespace(
        sound=SimpleNamespace(charts=heard, steps=()),
        settings=SimpleNamespace(contract=contract),
        facts=SimpleNamespace(kind="map"),
        dataset=SimpleNamespace(location=None),
        repro=SimpleNamespace(samples=lambda index, batch: f"{index} {batch}"),
    )
    findings: list[Finding] = []
    judgement = check.judge(lab)
    while True:
        try:
            findings.append(next(judgement))
        except StopIteration as end:
            return [finding.message for finding in findings], end.value.note


IGNORED = replace(HEARD.other, ignored=("[0]",))


@pytest.mark.parametrize(
    ("heard", "contract", "messages"),
    [
        (HEARD, {}, []),
        (HEARD, {"sample_rate": 16_000}, []),
        (replace(HEARD, other=replace(IGNORED, carried=True)), {}, []),
        (
            HEARD,
            {"sample_rate": 22_050},
            ["sample[0] has a sample rate of 16,000 Hz, and the contract says 22,050 Hz"],
        ),
        (
            replace(HEARD, other=replace(IGNORED, rate=8_000)),
            {},
            ["sample[0] ignores the sample rate: a file of 8,000 Hz is heard 2 times faster than one of 16,000 Hz"],
        ),
    ],
)
def test_sample_rates(heard: Heard, contract: dict[str, int], messages: list[str]) -> None:
    assert judged(dg531_ignored_sample_rate, heard, **contract) == (messages, None)


def test_a_single_rate_is_a_note() -> None:
    heard = replace(HEARD, rates={16_000: 12}, other=replace(IGNORED, real=False))
    assert judged(dg531_ignored_sample_rate, heard) == (
        [],
        "all files have 16,000 Hz; one of another rate would not be resampled",
    )


def test_a_file_that_cannot_be_replaced_is_undecided() -> None:
    with pytest.raises(Undecided, match="44,100 Hz"):
        judged(dg531_ignored_sample_rate, replace(HEARD, other=replace(HEARD.other, raised=True)))


def scaled(full_scale: float, **changes: Any) -> Heard:
    """A waveform with this full scale."""
    wave = replace(WAVE, mix=((full_scale,),), **changes)
    return replace(HEARD, waveforms=(wave,), quiet={"[0]": full_scale})


@pytest.mark.parametrize("full_scale", [0.35, 1.0, 3.0, 12.0, 255.0, 1e-3])
def test_scales_that_may_be_meant(full_scale: float) -> None:
    assert judged(dg532_wrong_sound_scale, scaled(full_scale)) == ([], None)


@pytest.mark.parametrize(
    ("full_scale", "words"),
    [
        (20_000.0, "holds 16-bit values that were never divided"),
        (2.0**31, "holds 32-bit values that were never divided"),
        (1 / 32_768, "is divided by 32,768 once too often"),
    ],
)
def test_scales_of_integers(full_scale: float, words: str) -> None:
    ((message,), _) = judged(dg532_wrong_sound_scale, scaled(full_scale))
    assert words in message
    assert judged(dg532_wrong_sound_scale, scaled(full_scale), value_range=[-full_scale, full_scale]) == ([], None)


def test_integers_and_levels_of_their_own_are_not_judged() -> None:
    with pytest.raises(NotApplicable):
        judged(dg532_wrong_sound_scale, scaled(32_768.0, dtype="int16"))
    with pytest.raises(NotApplicable):
        judged(dg532_wrong_sound_scale, replace(HEARD, quiet={"[0]": 4.0}))


@pytest.mark.parametrize(
    ("loudness", "words"),
    [
        (QUIET, None),
        (replace(QUIET, plateaus=(0.001, 0.3, 0.001), distorted=True), None),  # in one random state only
        (replace(QUIET, plateaus=(0.001, 0.3, 0.2), distorted=False), None),  # the tones are still there
        (replace(QUIET, plateaus=(0.001, 0.3, 0.2), distorted=True), "clips loud sound: 20% of its values are cut off"),
        (replace(QUIET, steps=(0.3, 0.95, 1.0), distorted=True), "overflows: loud values change their sign"),
        (replace(QUIET, steps=(0.8, 0.95, 1.0), distorted=True), None),  # high tones at a low rate
        (
            replace(QUIET, plateaus=(0.001,) * 5, steps=(0.3, 0.3, 0.95, 0.3, 1.0)),
            "overflows in 2 of 4 random states: loud values change their sign",
        ),
        (
            replace(QUIET, plateaus=(0.001, 0.001, 0.2, 0.3), steps=(0.3, 0.3, 1.0, 1.0)),
            None,
        ),  # clipped tones are steep
        (replace(QUIET, plateaus=(0.9, 0.9, 0.9), value=1.0), "is clipped at 1: even a tone of a tenth of full scale"),
    ],
)
def test_distortions(loudness: Loudness, words: str | None) -> None:
    messages, _ = judged(dg532_wrong_sound_scale, replace(HEARD, loudness={"[0]": loudness}))
    assert len(messages) == (words is not None)
    assert all(words in message for message in messages if words)


@pytest.mark.parametrize(
    ("heard", "words"),
    [
        (STEREO, None),
        (replace(STEREO, joined={"[0]": "one after the other"}), "holds the channels one after the other"),
        (replace(STEREO, joined={"[0]": "interleaved"}), "interleaves the channels"),
        (replace(STEREO, reduced=("[0]",)), "has 2 values, one for each channel: the time axis is gone"),
        (replace(STEREO, dropped={"[0]": (1,)}), "holds nothing of channel 1"),
        (replace(STEREO, dropped={"[0]": (1,)}, equal_channels=True), None),
        (replace(STEREO, dropped={"[0]": (1, 2, 3)}, header=replace(STEREO.header, channels=4)), None),
        (
            replace(STEREO, waveforms=(WAVE, replace(WAVE, path="[1]")), dropped={"[0]": (1,), "[1]": (0,)}),
            None,  # left is the input, right the target
        ),
    ],
)
def test_channels(heard: Heard, words: str | None) -> None:
    messages, _ = judged(dg533_mixed_sound_channels, heard)
    assert len(messages) == (words is not None)
    assert all(words in message for message in messages if words)


def test_mono_files_have_no_channels_to_mix() -> None:
    with pytest.raises(NotApplicable, match="all 12 sound files have one channel"):
        judged(dg533_mixed_sound_channels, HEARD)
