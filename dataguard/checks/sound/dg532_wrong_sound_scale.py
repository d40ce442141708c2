"""DG532: waveforms of a wrong scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.image_findings import wrong_scaling
from dataguard.checks.sound.sound_findings import sound_finding
from dataguard.core.model import Coverage, Judgement, NotApplicable, Severity

if TYPE_CHECKING:
    from dataguard.lab.files.file_lines import FileStep
    from dataguard.lab.lab import Lab
    from dataguard.lab.sound.sound_charts import Heard, Loudness

DEPTHS = {2.0**15: "16-bit", 2.0**23: "24-bit", 2.0**31: "32-bit"}
"""What full scale is as an integer."""
MOST_GAIN = 3.2
"""How far a scale may be off by a gain that is meant: 10 dB."""
CUT_SHARE, QUIET_CUT_SHARE = 0.08, 0.1
"""The share of values at the ends of the range in tones that are clipped; in tones, it is below 0.02."""
OVERFLOWING_STEP, SMOOTH_STEP = 0.9, 0.6
"""The largest step, as a share of the range, where loud values change their sign, and that of soft tones at most."""
FEWEST_OVERFLOWING = 2
"""The fewest random states of an overflow that only some gains cause: all but one were read with a soft tone, too."""
MOST_OFFSET = 0.05
"""The share of full scale by which silence may be off zero. Chosen: an offset of recordings is less, unsigned samples
are off by half."""


@check("DG532", "wrong-sound-scale", Severity.ERROR, since="2026.3")
def dg532_wrong_sound_scale(lab: Lab) -> Judgement:
    """Waveforms are too large or too small by the range of integers, or loud values are clipped or overflow.

    Symptom: a pretrained model predicts noise or silence; the loss starts huge or does not move; loud recordings are
        recognized worse than quiet ones.
    Cause: int16 values, as `scipy.io.wavfile.read` and `wave` return them, become floats without division; values that
        are floats from -1 to 1 are divided by 32,768 again; a gain or a sum of channels exceeds int16 and changes the
        sign of loud values; unsigned 8-bit values keep their offset of 128.
    Fix: divide integers by their largest value once (`values / 32768`), where their dtype is known, and add gain to
        floats only. For a model that takes other values, set `value_range` in the contract.
    Links: https://docs.scipy.org/doc/scipy/reference/generated/scipy.io.wavfile.read.html
    """
    heard = lab.sound.charts
    for path, loudness in heard.loudness.items():
        words = _distortion(loudness)
        if words:
            evidence = {"largest step": round(max(loudness.steps[1:]), 2), "cut off": round(max(loudness.plateaus), 2)}
            yield sound_finding(lab, [path], words, evidence, _distorting)
            return Coverage(heard.exercised)
    scales = {path: (scale, offset) for path, scale, offset in _scales(lab, heard)}
    if not scales:
        raise NotApplicable("no leaf holds a waveform or magnitudes of floats: other scales are relative, or set later")
    for path, (scale, offset) in scales.items():
        words = _slip(lab, scale) or _offset(scale, offset)
        if words:
            paths = [path, *(other for other in scales if other != path and _slip(lab, scales[other][0]))]
            yield sound_finding(lab, paths, words, {"full scale": float(f"{scale:.4g}")}, wrong_scaling)
            break
    return Coverage(heard.exercised)


def _distorting(steps: Sequence[FileStep]) -> FileStep:
    """The step after which values are cut off at the ends of the range, or have steps as large as that."""
    measured = ((step, step.measured) for step in steps if step.measured)
    cut = (step for step, (plateau, jump) in measured if plateau > CUT_SHARE or jump > OVERFLOWING_STEP)
    return next(cut, steps[-1])


def _scales(lab: Lab, heard: Heard) -> Iterator[tuple[str, float, float]]:
    """What full scale and silence become in each leaf of floats that is not scaled to its own level.

    The scale of integers may be set later, unless the contract says what the model takes.
    """
    for fit in heard.waveforms:
        quiet = heard.quiet.get(fit.path)
        if (
            (fit.is_float or "value_range" in lab.settings.contract)
            and quiet is not None
            and abs(quiet / fit.full_scale - 1) < MOST_OFFSET
        ):
            yield fit.path, fit.full_scale, fit.offset
    for spectrogram in heard.spectrograms:
        scale = spectrogram.full_scale(heard.amplitude)
        if scale is not None:
            yield spectrogram.path, scale, 0.0


def _slip(lab: Lab, scale: float) -> str:
    """What is wrong with a scale, if anything is."""
    low, high = lab.settings.contract.get("value_range", (-1.0, 1.0))
    ratio = scale / max(abs(low), abs(high))
    for depth, name in DEPTHS.items():
        if 1 / MOST_GAIN < ratio / depth < MOST_GAIN:
            return f"holds {name} values that were never divided: full scale is {scale:,.0f}"
        if 1 / MOST_GAIN < ratio * depth < MOST_GAIN:
            return f"is divided by {depth:,.0f} once too often: full scale is {scale:.3g}"
    return ""


def _offset(scale: float, offset: float) -> str:
    return f"has silence at {offset:.3g}, not at 0" if abs(offset) > MOST_OFFSET * scale else ""


def _distortion(loudness: Loudness) -> str:
    """What happens to loud values: in every random state, or in several if that is never meant."""
    if loudness.plateaus[0] > QUIET_CUT_SHARE:
        return f"is clipped at {loudness.value:.3g}: even a tone of a tenth of full scale is cut off"
    if loudness.distorted and min(loudness.plateaus[1:]) > CUT_SHARE:
        return f"clips loud sound: {min(loudness.plateaus[1:]):.0%} of its values are cut off"
    if loudness.distorted and min(loudness.steps[1:]) > OVERFLOWING_STEP and loudness.steps[0] < SMOOTH_STEP:
        return "overflows: loud values change their sign"
    # A gain may clip on purpose in some random states; no augmentation makes values change their sign.
    states = list(zip(loudness.plateaus[1:], loudness.steps[1:], strict=True))
    overflowing = sum(step > OVERFLOWING_STEP and plateau < CUT_SHARE for plateau, step in states)
    if overflowing >= FEWEST_OVERFLOWING and loudness.steps[0] < SMOOTH_STEP:
        return f"overflows in {overflowing} of {len(states)} random states: loud values change their sign"
    return ""
