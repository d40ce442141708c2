"""How the same tones differ in the waveforms and spectrograms of two loaders. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dataguard.checks.sound.sound_findings import hertz

if TYPE_CHECKING:
    from dataguard.lab.sound.sound_charts import Heard
    from dataguard.lab.sound.tone_fits import SpectrogramFit, WaveformFit

STEADY_RATE = 1e-3
"""How far the rates of random states may differ in a loader that does not perturb the speed. Chosen, not derived."""
OTHER_RATE = 0.01
"""Chosen: ten times STEADY_RATE, and less than any two usual sample rates differ by (8.8 %)."""
MOST_GAIN = 3.2
"""A scale that differs by less may be a gain that is meant: 10 dB."""
OTHER_BIN, OTHER_STEP = 0.75, 1.5
"""By how many bins a tone is moved, and by how much a louder chart moves logarithms, where spectrograms differ."""


def sound_mismatch(name: str, own: Heard, other_name: str, theirs: Heard) -> tuple[str, dict[str, object]] | None:
    """What differs for the same tones: the rest of a message, and what was measured; None if nothing does."""
    waveforms = {f"{theirs.root}{fit.path}": fit for fit in theirs.waveforms}
    for fit in own.waveforms:
        path = f"{own.root}{fit.path}"
        before = waveforms.get(path)
        fault = before and _waveform(fit, own.drawn, before, theirs.drawn)
        if before and fault:
            return f"{fault[0]} in {path}, {other_name} {fault[1]}", {
                "sample rate": {name: round(fit.rate), other_name: round(before.rate)},
                "full scale": {name: float(f"{fit.full_scale:.4g}"), other_name: float(f"{before.full_scale:.4g}")},
            }
    spectrograms = {f"{theirs.root}{fit.path}": fit for fit in theirs.spectrograms}
    for spectrogram in own.spectrograms:
        path = f"{own.root}{spectrogram.path}"
        earlier = spectrograms.get(path)
        words = earlier and _spectrogram(spectrogram, earlier)
        if earlier and words:
            measured = {name: _measured(spectrogram), other_name: _measured(earlier)}
            return f"{words[0]} in {path}, {other_name} {words[1]}", {"spectrogram": measured}
    return None


def _waveform(
    fit: WaveformFit,
    draws: Mapping[str, Sequence[WaveformFit]],
    before: WaveformFit,
    other_draws: Mapping[str, Sequence[WaveformFit]],
) -> tuple[str, str] | None:
    """What differs in a waveform, for each of the two loaders."""
    states = [(fit, draws.get(fit.path, ())), (before, other_draws.get(before.path, ()))]
    if not all(len(drawn) and all(_near(one.rate, of.rate, STEADY_RATE) for one in drawn) for of, drawn in states):
        return None
    if not _near(fit.rate, before.rate, OTHER_RATE):
        return f"has a sample rate of {hertz(round(fit.rate))}", f"of {hertz(round(before.rate))}"
    if not 1 / MOST_GAIN < fit.full_scale / before.full_scale < MOST_GAIN:
        return f"maps full scale to {fit.full_scale:.3g}", f"to {before.full_scale:.3g}"
    return None


def _near(one: float, other: float, share: float) -> bool:
    return abs(one / other - 1) < share


def _spectrogram(fit: SpectrogramFit, before: SpectrogramFit) -> tuple[str, str] | None:
    """What differs in a spectrogram, for each of the two loaders."""
    if fit.bins != before.bins:
        return f"has {fit.bins} bins", f"has {before.bins}"
    if fit.values != before.values:
        return f"holds {fit.values}", before.values
    if fit.values == "logarithms" and not 1 / OTHER_STEP < fit.step / before.step < OTHER_STEP:
        return f"rises by {fit.step:.3g} for sound that is four times louder", f"by {before.step:.3g}"
    moved = [abs(one - other) for one, other in zip(fit.peaks, before.peaks, strict=False)]
    if len(fit.peaks) == len(before.peaks) and moved and max(moved) > OTHER_BIN:
        return f"has tones in bins {_places(fit)}", f"in bins {_places(before)}"
    return None


def _places(fit: SpectrogramFit) -> str:
    return f"{fit.peaks[0]:.1f} to {fit.peaks[-1]:.1f}"


def _measured(fit: SpectrogramFit) -> str:
    scale = f", {fit.scale} from {fit.low:,.0f} to {fit.high:,.0f} Hz" if fit.scale else ""
    return f"{fit.bins} bins of {fit.values}{scale}"
