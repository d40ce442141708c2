"""The dataset of a loader, asked directly: the part of a lab for what an index means, and whether it stays so."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from contextlib import AbstractContextManager

from dataguard.lab.batches import drawn_generators
from dataguard.lab.core.index import Index
from dataguard.lab.core.index_schedules import evenly
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.records import GeneratorState, blank_of
from dataguard.lab.core.source_location import is_own, made_at
from dataguard.lab.core.value_summary import Numbers
from dataguard.lab.dataset import index_semantics, missing_file, repeated_reads, source_mutation
from dataguard.lab.dataset.changed_attributes import find_changed
from dataguard.lab.dataset.fresh_import import Made, Places, build_anew, read_made
from dataguard.lab.dataset.hash_order import ordered_sets
from dataguard.lab.dataset.index_ends import Ends, find_ends
from dataguard.lab.dataset.index_semantics import Spans, probe_spans
from dataguard.lab.dataset.listing_order import listed
from dataguard.lab.dataset.missing_file import Source, Substitute, find_source, read_without
from dataguard.lab.dataset.periodicity import hints_of
from dataguard.lab.dataset.repeated_reads import Readings, Run
from dataguard.lab.dataset.source_mutation import Change
from dataguard.lab.labels.class_names import Naming, find_namings
from dataguard.lab.labels.label_tables import Table, find_table
from dataguard.lab.reading.loader_survey import requested
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.splits import sample_folders
from dataguard.lab.splits.sample_folders import Filed
from dataguard.lab.spy.value_summaries import numbers_of
from dataguard.lab.subject import Subject
from dataguard.model import Location, NotApplicable, Undecided
from dataguard.target.variants import Loader

PROBES = 8
"""Samples that are read in each order of files and of hashes."""


class DatasetObservations:
    """Observations of the dataset itself, each in a process of its own (map-style only)."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._begun: set[object] = set()

    @property
    def ends(self) -> Ends:
        """What the dataset answers at and beyond the ends of its index range."""
        with contextlib.suppress(Undecided):
            self._subject.epoch  # noqa: B018 - a loader that hangs or dies in an ordinary epoch is not asked again
        return find_ends(self._subject)

    @property
    def readings(self) -> Readings:
        """A few samples read over and over, in two orders."""
        self._need("readings", repeated_reads.READS)
        return repeated_reads.read_repeatedly(self._subject, self._known)

    def again(self, number: int) -> Run:
        """The first of the two runs, made once more for each number above 0."""
        self._need(("again", number), repeated_reads.AGAIN)
        return repeated_reads.read_again(self._subject, self._known, number)

    @property
    def spans(self) -> Spans:
        """What indices mean: periods inside the range, what -1 is, and numbers of other types."""
        if self.ends.first_failing is not None:
            raise NotApplicable("len(dataset) is too large: see DG301")
        self._need("spans", index_semantics.READS)
        hints, build = hints_of(self._subject.epoch.samples), self._subject.build
        return self._subject.vary("spans", lambda folder: probe_spans(build(), folder, hints))

    @property
    def wraps(self) -> bool:
        """Whether content was seen to repeat inside the range."""
        try:
            return any(period.where == "dataset" for period in self.spans.repeats)
        except (NotApplicable, Undecided):
            return False

    def stored(self, index: Index) -> tuple[Change, ...]:
        """What of its own content the dataset changes when a sample is read."""
        first, _, _ = repeated_reads.chosen(self._known)
        build = self._subject.build
        return self._subject.vary(
            ("stored", index),
            lambda folder: source_mutation.find_changes(build(), folder, first, index),
            lambda _, found: found or (),
        )

    def listed(self, *, turned: bool = False, again: bool = False) -> Made:
        """What some indices mean when folders are listed by name, or backwards; sets have one order all the time."""
        places: Places = {}
        return self._made(
            ("listed", turned, again), places, listed(places, turned=turned), ordered_sets({}, turned=False)
        )

    def hashed(self, *, turned: bool = False, again: bool = False) -> Made:
        """What some indices mean when sets of texts have one order, or another."""
        places: Places = {}
        return self._made(("hashed", turned, again), places, ordered_sets(places, turned=turned))

    @property
    def source(self) -> Source:
        """A sample that is made of a file of its own."""
        self._need("source", missing_file.READS)
        first, index, other = self._three
        build = self._subject.build
        return self._subject.vary("source", lambda folder: find_source(build(), folder, first, index, other))

    @property
    def substitutes(self) -> tuple[Substitute, ...]:
        """What comes out in its place when that file is missing, and when it holds what cannot be decoded."""
        missed, one, two = (self._without(content) for content in (None, *missing_file.GARBAGE))
        return (missed, one) if one.answer.digests == two.answer.digests else (missed,)

    def _without(self, content: bytes | None) -> Substitute:
        path, build = self.source.path, self._subject.build
        first, index, _ = self._three
        return self._subject.vary(
            ("without", content), lambda folder: read_without(build(), folder, first, index, path, content)
        )

    @property
    def _three(self) -> tuple[Index, Index, Index]:
        known = self._probes
        if len(known) < 3:
            raise NotApplicable("too few samples can be read by index")
        return known[0], known[len(known) // 2], known[-1]

    def _made(self, key: object, places: Places, *orders: AbstractContextManager[None]) -> Made:
        self._need(key, PROBES)
        indices = self._probes
        return self._subject.vary(key, lambda folder: read_made(self._build_anew, folder, indices, places, *orders))

    def _build_anew(self) -> Loader:
        subject = self._subject
        return build_anew(subject.target, subject.facts.name, subject.settings, requested(subject.settings))

    @property
    def _probes(self) -> tuple[Index, ...]:
        """A few of the indices that the loader was seen to ask for."""
        return self._subject.epoch.asked(PROBES)

    @property
    def changed(self) -> tuple[Location, ...]:
        """The attributes of the dataset that reading a few samples changes."""
        return find_changed(self._subject)

    def drawing(self, items: Sequence[Index]) -> tuple[GeneratorState, ...]:
        """The generators that reading these samples draws from."""
        build = self._subject.build
        self._need(("drawing", *items), drawn_generators.READS)
        indices = (list(items) * drawn_generators.READS)[: drawn_generators.READS]
        return self._subject.vary(
            ("drawing", *items), lambda folder: drawn_generators.find_drawing(build(), folder, indices)
        )

    @property
    def folders(self) -> tuple[Filed, ...]:
        """Some samples, with the folders that their own files stand in."""
        self._need("folders", sample_folders.READS)
        known, build = self._subject.epoch.indices, self._subject.build
        return self._subject.vary(
            "folders", lambda folder: sample_folders.find_folders(build(), folder, evenly(known, sample_folders.READS))
        )

    @property
    def namings(self) -> tuple[Naming, ...]:
        """What the dataset, and those that it wraps, say of their classes; the outermost first."""
        build = self._subject.build
        return self._subject.vary("namings", lambda _: find_namings(build), lambda _, found: found or ())

    def numbers(self, index: Index) -> tuple[Numbers, ...]:
        """The numbers in the sample of an index."""
        self._need(("numbers", index), 1)
        build = self._subject.build
        return self._subject.vary(
            ("numbers", index), lambda folder: tuple(numbers_of(Reader(build(), folder).read(index)))
        )

    def is_blank(self, index: Index) -> bool:
        """Whether the sample of an index, read once more and alone, has images of one value."""
        self._need(("blank", index), 1)
        build = self._subject.build
        return bool(
            self._subject.vary(
                ("blank", index), lambda folder: blank_of(leaves_of(Reader(build(), folder).read(index))) is not None
            )
        )

    def table(self, seen: tuple[tuple[int, int], ...]) -> Table | None:
        """Where the dataset keeps all of the labels of which these, pairs of index and label, were seen; if it does."""
        build = self._subject.build
        return self._subject.vary(("table", seen), lambda _: find_table(build, seen))

    @property
    def place(self) -> Location | None:
        """Where the class of the dataset is defined."""
        place: tuple[str, int] | None = self._subject.vary("place", lambda _: made_at(self._subject.build().dataset))
        return Location(place[0], place[1], self._subject.facts.dataset) if place else None

    @property
    def own(self) -> bool:
        """Whether the class of the dataset is the user's own, and none of a library."""
        return bool(self._subject.vary("own", lambda _: is_own(self._subject.build().dataset)))

    @property
    def _known(self) -> tuple[Index, ...]:
        """The indices that the loader was seen to ask for."""
        return tuple(sample.index for sample in self._subject.epoch.samples)

    def _need(self, key: object, reads: int) -> None:
        """Raise NotApplicable for a stream, and Undecided where so many reads, not made before, take too long."""
        self._subject.need_map("a stream has no indices to read again")
        if key not in self._begun:
            self._subject.afford(reads * self._subject.epoch.seconds_per_sample)
        self._begun.add(key)
