"""DG533: channels of sound that are mixed up with time, or lost."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.sound.sound_findings import sound_finding
from dataguard.core.model import Coverage, Judgement, NotApplicable, Severity

if TYPE_CHECKING:
    from dataguard.lab.files.file_lines import FileStep
    from dataguard.lab.lab import Lab
    from dataguard.lab.sound.sound_charts import Heard


@check("DG533", "mixed-sound-channels", Severity.WARNING, since="2026.3")
def dg533_mixed_sound_channels(lab: Lab) -> Judgement:
    """The channels of stereo files are joined along time, or one of them is dropped, or time itself is.

    Symptom: the model hears stereo recordings twice as long, or an octave off; what is panned to one side is missing.
    Cause: `flatten()` or `reshape(-1)` puts the channels one after the other, or interleaves them; `waveform[0]` takes
        the first channel of (channels, time), but the first instant of (time, channels), which soundfile and scipy
        return; `mean(0)` averages over time in the same way.
    Fix: mix to mono with a mean over the channels: `waveform.mean(0)` after `torchaudio.load`, `values.mean(1)` after
        `soundfile.read(path, always_2d=True)`.
    Links: https://docs.pytorch.org/audio/stable/generated/torchaudio.load.html
    """
    heard = lab.sound.charts
    channels = heard.header.channels

    def mixed(steps: Sequence[FileStep]) -> FileStep:
        """The step after which no axis is that of the channels, or none is left beside it."""
        gone = (step for step in steps if channels not in step.shape or prod(step.shape) == channels)
        return next(gone, steps[-1])

    if channels < 2:
        raise NotApplicable(f"all {heard.files} sound files have one channel")
    if heard.joined:
        how = next(iter(heard.joined.values()))
        words = "interleaves the channels" if how == "interleaved" else f"holds the channels {how}"
        yield sound_finding(lab, list(heard.joined), words, _counted(heard), mixed)
    elif heard.reduced:
        words = f"has {channels} values, one for each channel: the time axis is gone"
        yield sound_finding(lab, heard.reduced, words, _counted(heard), mixed)
    elif channels == 2 and not heard.equal_channels:
        gone = [set(heard.dropped.get(fit.path, ())) for fit in heard.waveforms]
        missing = set.intersection(*gone) if gone else set()
        if missing:
            (channel,) = missing
            words = f"holds nothing of channel {channel}, which differs from channel {1 - channel} in the file"
            yield sound_finding(lab, [fit.path for fit in heard.waveforms], words, _counted(heard), mixed)
    return Coverage(heard.exercised)


def _counted(heard: Heard) -> dict[str, object]:
    return {"files by number of channels": {str(number): count for number, count in sorted(heard.channels.items())}}
