"""DG531: files of several sample rates are read as if they had one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.sound.sound_findings import hertz, sound_finding
from dataguard.core.model import Coverage, Judgement, Severity, Undecided

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.sound.sound_charts import Heard

RATE_TOLERANCE = 0.01
"""How far a rate may be off the declared one. Chosen: a sixth of a semitone, which changes the pitch by 0.06; usual
rates differ by 0.088 at least."""


@check("DG531", "ignored-sample-rate", Severity.ERROR, since="2026.3")
def dg531_ignored_sample_rate(lab: Lab) -> Judgement:
    """Sound files of several sample rates reach the model without resampling, so that some are too fast or too slow.

    Symptom: the model is worse on the recordings of one source, microphone or data set than on others; speech that
        sounds right in a player is not recognized.
    Cause: `waveform, _ = torchaudio.load(path)` throws the sample rate away; or features are made with a fixed rate
        such as `MelSpectrogram(16000)` of files that have another one.
    Fix: resample after loading, `torchaudio.functional.resample(waveform, rate, 16_000)`, or let the decoder do it:
        `AudioDecoder(path, sample_rate=16_000)`, `librosa.load(path, sr=16_000)`. Say `sample_rate` in the contract, so
        that files of a single wrong rate are found as well.
    Links: https://docs.pytorch.org/audio/stable/generated/torchaudio.functional.resample.html
    """
    heard = lab.sound.charts
    other = heard.other
    ignored = () if other.carried else other.ignored
    wrong = _undeclared(lab, heard)
    if ignored and other.real:
        ratio = other.rate / heard.header.rate
        usual = max(heard.rates, key=lambda rate: heard.rates[rate])
        change = f"{ratio:.3g} times slower" if ratio > 1 else f"{1 / ratio:.3g} times faster"
        yield sound_finding(
            lab,
            ignored,
            f"ignores the sample rate: a file of {hertz(other.rate)} is heard {change} than one of "
            f"{hertz(heard.header.rate)}",
            {
                "fix here": f"resample to one rate: torchaudio.functional.resample(waveform, rate, {usual})",
                "files by sample rate": {hertz(rate): count for rate, count in sorted(heard.rates.items())},
                "confirmed by": "the same values in files of both rates give the same output",
            },
        )
    elif wrong:
        yield sound_finding(lab, list(wrong), next(iter(wrong.values())), {})
    elif other.raised and other.real:
        raise Undecided(f"a sample cannot be read with other sound in a file of {hertz(other.rate)}")
    single = f"all files have {hertz(heard.header.rate)}; one of another rate would not be resampled"
    return Coverage(heard.exercised, single if ignored and not other.real and not wrong else None)


def _undeclared(lab: Lab, heard: Heard) -> dict[str, str]:
    """The leaves whose rate is not the one in the contract, and what is wrong with each."""
    declared = lab.settings.contract.get("sample_rate")
    rates = [(fit.path, fit.rate) for fit in heard.waveforms]
    rates += [(fit.path, fit.rate) for fit in heard.spectrograms if fit.rate]
    return {
        path: f"has a sample rate of {hertz(round(rate))}, and the contract says {hertz(declared)}"
        for path, rate in rates
        if declared and abs(rate / declared - 1) > RATE_TOLERANCE
    }
