"""DG534: padded frames of a spectrogram are not what silence is."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.model import Coverage, Finding, Judgement, Severity

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.sound.padded_frames import PaddedFrames

LOUDER_SHARE = 0.8
"""The share of real values that padding exceeds. Chosen: the mean of features, which zeros are after normalization,
exceeds about half of them."""


@check("DG534", "loud-padding", Severity.WARNING, since="2026.4")
def dg534_loud_padding(lab: Lab) -> Judgement:
    """Spectrograms of logarithms are padded with a value that stands for loud sound, and not with what silence becomes.

    Symptom: short recordings are recognized worse than long ones; predictions depend on how much padding follows;
        statistics of batch normalization are off.
    Cause: features are padded with 0 after the logarithm, whose values are negative for most sound: in a log-mel
        spectrogram, silence is log(1e-5) = -11.5, and 0 is loud in all bins at once.
    Fix: pad the waveform before the spectrogram is made; or pad with the value of silence, `value=math.log(1e-5)`; or
        return lengths or a mask, and use them in the model.
    Links: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.pad.html
    """
    padded = 0
    for frames in lab.sound.padded:
        value = None if frames.lengths else frames.padding
        padded += value is not None
        if value is None or value <= frames.silence or _below(frames, value) < LOUDER_SHARE:
            continue
        indexed = lab.facts.kind == "map"
        yield Finding(
            message=f"{frames.root}{frames.path} is padded with {value:.4g} in {frames.count} of {frames.frames} "
            f"frames, where silence is {frames.silence:.4g}: louder than {_below(frames, value):.0%} of real values",
            evidence={
                "index" if indexed else "position": frames.index,
                "real values": [float(f"{frames.real[at]:.4g}") for at in (0, len(frames.real) // 2, -1)],
                "confirmed by": "the same frames for silence and for tones in the file",
            },
            at=(lab.places.value(frames.index, frames.path) if indexed else None) or lab.dataset.location,
            repro=lab.repro.samples(frames.index, batch=frames.collated) if indexed else None,
            sample=frames.index if indexed else None,
        )
        break
    none = None if padded else "no padding without lengths or a mask"
    return Coverage({"spectrograms": len(lab.sound.padded), "padded": padded}, none)


def _below(frames: PaddedFrames, value: float) -> float:
    """The share of real values that are smaller."""
    return bisect_left(frames.real, value) / len(frames.real)
