"""How samples follow the sound of their files, measured with charts: `lab.sound`.

Charts are files of steady tones that decoders get in place of the user's: with the same number of channels, and with
whatever sample rate the question needs. So every decoder is tested with its own conventions, and what arrives in the
sample is compared with what was in the file.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

from dataguard.lab.decoding.file_substitution import SOUNDS
from dataguard.lab.decoding.sound_headers import SoundHeader
from dataguard.lab.files.file_survey import FULLY_READ, SHARE, FileSurvey, survey_build, survey_files
from dataguard.lab.files.swapped_file_reads import SwappedFileReader, alone_if_bypassed
from dataguard.lab.sound.heard import Heard
from dataguard.lab.sound.tone_reads import hear, values_of
from dataguard.lab.subject import Subject
from dataguard.model import NotApplicable

SURVEYED = 200
"""How many samples are surveyed for files of other sample rates and numbers of channels."""
READS = 12
"""How many samples an observation reads."""
FEWEST_FEATURES = 100
"""The fewest values of a leaf that may be sound if no library that reads sound is imported yet."""


class Sound:
    """Observations of sound files; each observation is made once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def survey(self) -> FileSurvey[SoundHeader]:
        """The sound files of samples; none if no known decoder gets one while a sample is read."""
        subject = self._subject
        indices = subject.epoch.asked(SURVEYED) if subject.facts.kind == "map" else ()
        subject.afford_reads("sound files", FULLY_READ + 1)
        seconds = SHARE * subject.settings.budget
        found: FileSurvey[SoundHeader] = subject.vary(
            "sound files", lambda folder: survey_files(subject.build, folder, indices, seconds, SOUNDS)
        )
        return found

    @property
    def built(self) -> tuple[FileSurvey[SoundHeader], float]:
        """The sound files that are decoded while the loader is built, and the seconds that this takes."""
        subject = self._subject
        return subject.vary("built sound files", lambda folder: survey_build(subject.rebuild, folder, SOUNDS))

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

        A loader whose files are decoded while it is built is rebuilt for every chart. Raises NotApplicable if no
        sound file is decoded or nothing follows its sound, Undecided if a sample varies under one random state.
        """
        subject = self._subject
        self._need_leaf()
        survey, rebuild = self.survey, None
        reads = READS if subject.facts.kind == "map" else READS * len(survey.samples)
        subject.afford_reads("sound charts", reads)
        if not survey.files and subject.facts.kind == "map" and _reads_sound():
            (survey, seconds), rebuild = self.built, subject.rebuild
            subject.afford("sound charts", READS * seconds)
        if not survey.files:
            raise NotApplicable("no sound file is passed to a known decoder")

        def look(folder: Path) -> Heard:
            reader = SwappedFileReader(subject.build, folder, survey.modules, SOUNDS, values_of, rebuild)
            return hear(reader, survey)

        return alone_if_bypassed(subject, "sound charts", look)


def _reads_sound() -> bool:
    """Whether the user's code has imported a library that reads sound."""
    return any(decoder.module in sys.modules for decoder in SOUNDS.decoders)


def _may_be_sound(shape: Sequence[int], type_name: str, fewest: int) -> bool:
    """Whether a leaf has as many numbers, and no more axes than a spectrogram of several channels."""
    return type_name.startswith(("float", "bfloat", "int", "uint8")) and len(shape) < 4 and math.prod(shape) >= fewest
