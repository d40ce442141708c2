"""Pictures of samples, for findings that can be seen; see `Lab.pictures`.

They have a budget of their own, so that no verdict depends on whether they are made.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from dataguard.in_memory_targets import shown as shown_target
from dataguard.incident import LoaderFailed
from dataguard.lab.core.index import Index
from dataguard.lab.core.observation_cache import recalling
from dataguard.lab.pictures.sample_views import told, view_samples
from dataguard.lab.pictures.samples import show
from dataguard.lab.pictures.sheets import EPOCHS, Sheet, make_sheet
from dataguard.lab.pictures.sounds import Drawn, show_sound
from dataguard.lab.pictures.views import Shown, View
from dataguard.lab.randomness.same_items import MOST_WORKERS, batch_size
from dataguard.lab.subject import Subject
from dataguard.model import NotApplicable, Undecided, UsageError
from dataguard.sample_view import SampleView, SampleViews, Wanted

T = TypeVar("T")

BUDGET = 30.0
"""Seconds for all pictures of a loader."""
MOST_SECONDS = 5.0
"""Slower reads are not made for pictures."""


class PictureObservations:
    """Pictures of one loader's samples; each is made once. They need Pillow, and the setting `pictures`."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._cache = subject.cache.beside(BUDGET)

    def sheet(self, leaf: str) -> Sheet:
        """The image leaf at a path, of one item, as each worker makes it in each epoch (map-style only)."""
        subject, facts = self._subject, self._subject.facts
        subject.need_map("the workers of a stream read different samples")
        workers = max(1, min(facts.num_workers, MOST_WORKERS.get(facts.start_method, 2)))
        size = batch_size(facts)
        return self._observe(
            ("sheet", leaf),
            lambda folder: make_sheet(subject.build, folder, leaf, workers, size),
            workers * EPOCHS * size,
        )

    def shown(self, *indices: Index, view: View) -> tuple[Shown, ...]:
        """Samples, each as its file holds it and as the model sees it. In a stream, an index is a position."""
        build, streamed = self._subject.build, self._subject.facts.kind == "stream"
        reads = sum((one if streamed and isinstance(one, int) else 0) + 1 for one in indices) * len(view.draws) + 1
        return self._observe(("shown", indices, view), lambda folder: show(build, folder, indices, view), reads)

    def sound(self, index: Index, path: str) -> tuple[Drawn, Drawn]:
        """The sound file of a sample and the leaf that the model hears, each as waveform and spectrogram."""
        build = self._subject.build
        return self._observe(("sound", index, path), lambda folder: show_sound(build, folder, index, path), 2)

    def views(self, wanted: Wanted) -> SampleViews:
        """Samples as they are, for `dataguard show`; what the loader raises is shown as well."""
        subject = self._subject
        name, others = subject.repro.loader, tuple(other for other in subject.siblings if other != subject.repro.loader)
        try:
            if subject.facts.kind == "stream":
                _need_positions(wanted)
            samples = subject.cache.observe(
                ("views", wanted), lambda folder: view_samples(subject.build, folder, wanted)
            )
        except LoaderFailed as failure:
            samples = (SampleView(failure.incident.where, error=told(failure.incident)),)
        return SampleViews(shown_target(subject.target.spelling), name, samples, others)

    def _observe(self, key: object, run: Callable[[Path], T], reads: int) -> T:
        subject = self._subject
        if not subject.settings.pictures:
            raise NotApplicable("pictures were not asked for")
        if reads * subject.epoch.seconds_per_sample > MOST_SECONDS:
            raise Undecided("reading samples for pictures takes too long")
        with recalling(only=False):
            return self._cache.observe(key, run)


def _need_positions(wanted: Wanted) -> None:
    """Raise UsageError for what a stream has not: indices that are no positions, and batches of chosen samples."""
    if wanted.batch:
        raise UsageError("a stream has no indices to make a batch of; show a position without --batch")
    if any(not isinstance(index, int) or index < 0 for index in wanted.indices):
        raise UsageError("a sample of a stream is shown by its position, a number from 0 on")
