"""The image files of a loader: what they are, and what comes out of a sample when its file is another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from dataguard.lab.core.index import Index
from dataguard.lab.files.bit_depth import Depth, deep_files, find_depth
from dataguard.lab.files.exif_orientation import Turns, try_turns
from dataguard.lab.files.file_survey import SHARE, WHOLE, Sightings, look
from dataguard.lab.files.pixel_modes import Modes, special_files, try_modes
from dataguard.lab.files.swapped_file_reads import Exchange
from dataguard.lab.subject import Subject
from dataguard.model import NotApplicable

T = TypeVar("T")

MOST = 400
"""How many samples are looked at."""
READS = 16
"""How many samples an observation reads with other files than their own."""


class Files:
    """The part of a lab for image files; each observation is made once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def sightings(self) -> Sightings:
        """Which files samples are made of. Raises NotApplicable where none is handed to a decoder that is known."""
        subject, places = self._subject, self._places
        subject.afford((WHOLE + 1) * subject.epoch.seconds_per_sample)
        seconds = SHARE * subject.settings.budget
        found: Sightings = subject.vary("files", lambda folder: look(subject.build, folder, places, seconds))
        if not found.known:
            raise NotApplicable("no image file is passed to a known decoder while a sample is read")
        return found

    @property
    def turns(self) -> Turns:
        """What becomes of files that are to be turned before they are shown, or of one that would be."""
        sightings = self.sightings
        return self._try("turns", lambda exchange: try_turns(exchange, sightings))

    @property
    def depth(self) -> Depth:
        """What becomes of the values of a file of 16 bits. Raises NotApplicable where there is none."""
        deep = deep_files(self.sightings)
        return self._try("depth", lambda exchange: find_depth(exchange, deep))

    @property
    def modes(self) -> Modes:
        """What becomes of files with a palette, with alpha, of CMYK and of grey. Raises NotApplicable without such."""
        facts, sightings = self._subject.facts, self.sightings
        pairs, together = special_files(sightings), facts.batched and facts.batch_size != 1
        return self._try("modes", lambda exchange: try_modes(exchange, sightings, pairs, together=together))

    def _try(self, key: str, run: Callable[[Exchange], T]) -> T:
        subject, sightings = self._subject, self.sightings
        reads = READS if subject.facts.kind == "map" else READS * len(sightings.sights)
        subject.afford(reads * subject.epoch.seconds_per_sample)
        return subject.vary(("files", key), lambda folder: run(Exchange(subject.build, folder, sightings.modules)))

    @property
    def _places(self) -> Sequence[Index]:
        """The indices that an epoch was seen to ask for; none for a stream.

        No others: what the user's code keeps on disk of a sample it has kept by then, as the file really is.
        """
        subject = self._subject
        if subject.facts.kind != "map":
            return ()
        return subject.epoch.asked(MOST)
