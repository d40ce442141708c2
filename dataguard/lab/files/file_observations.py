"""Observations of a loader's image files: what they are, and how samples change when files are replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from dataguard.lab.core.index import Index
from dataguard.lab.decoding.file_substitution import IMAGES
from dataguard.lab.files.bit_depth import Depth, files_with_16_bits, find_depth
from dataguard.lab.files.exif_orientation import OrientationTrials, try_orientations
from dataguard.lab.files.file_survey import FULLY_READ, SHARE, ImageSurvey, survey_files
from dataguard.lab.files.image_leaves import ImageReader, image_leaf
from dataguard.lab.files.pixel_modes import Modes, try_modes, unusual_files
from dataguard.lab.files.swapped_file_reads import alone_if_bypassed
from dataguard.lab.subject import Subject
from dataguard.model import NotApplicable

T = TypeVar("T")

MOST = 400
"""How many samples are surveyed."""
READS = 16
"""How many samples an observation reads with replaced files."""


class Files:
    """Observations of image files; each observation is made once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def survey(self) -> ImageSurvey:
        """The files of samples. Raises NotApplicable if none is passed to a known decoder."""
        subject = self._subject
        subject.need_images()
        indices = self._indices
        subject.afford_reads("files", (FULLY_READ + 1))
        seconds = SHARE * subject.settings.budget
        found: ImageSurvey = subject.vary(
            "files", lambda folder: survey_files(subject.build, folder, indices, seconds, IMAGES)
        )
        if not found.files:
            raise NotApplicable("no image file is passed to a known decoder while a sample is read")
        return found

    @property
    def orientations(self) -> OrientationTrials:
        """How samples respond to the EXIF orientation of their files."""
        survey = self.survey
        return self._try("orientations", lambda reader: try_orientations(reader, survey))

    @property
    def depth(self) -> Depth:
        """How a sample responds to the values of its 16-bit file. Raises NotApplicable if there is none."""
        candidates = files_with_16_bits(self.survey)
        return self._try("depth", lambda reader: find_depth(reader, candidates))

    @property
    def modes(self) -> Modes:
        """How samples respond to palette, alpha, CMYK and grey files. Raises NotApplicable if there are none."""
        facts, survey = self._subject.facts, self.survey
        pairs, batched = unusual_files(survey), facts.batched and facts.batch_size != 1
        return self._try("modes", lambda reader: try_modes(reader, survey, pairs, batched=batched))

    def _try(self, key: str, run: Callable[[ImageReader], T]) -> T:
        subject, survey = self._subject, self.survey
        reads = READS if subject.facts.kind == "map" else READS * len(survey.samples)
        subject.afford_reads(("files", key), reads)

        def look(folder: Path) -> T:
            return run(ImageReader(subject.build, folder, survey.modules, IMAGES, image_leaf))

        return alone_if_bypassed(subject, f"files: {key}", look)

    @property
    def _indices(self) -> Sequence[Index]:
        """The indices that an epoch used; none for a stream.

        No others: samples that the user's code caches on disk must be cached from their real files.
        """
        subject = self._subject
        if subject.facts.kind != "map":
            return ()
        return subject.epoch.asked(MOST)
