"""The dataset of a loader, asked directly: the part of a lab for what an index means, and whether it stays so."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from dataguard.lab.batches import drawn_generators
from dataguard.lab.core.index_schedules import evenly
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.records import GeneratorState, Index, blank_of
from dataguard.lab.core.source_location import is_own, made_at
from dataguard.lab.core.value_summary import Numbers
from dataguard.lab.dataset import index_semantics, missing_file, repeated_reads, source_mutation
from dataguard.lab.dataset.fresh_import import Made, Places, build_anew, read_made
from dataguard.lab.dataset.hash_order import ordered_sets
from dataguard.lab.dataset.index_semantics import Spans, probe_spans
from dataguard.lab.dataset.listing_order import listed
from dataguard.lab.dataset.missing_file import Source, Substitute, find_source, read_without
from dataguard.lab.dataset.periodicity import hints_of
from dataguard.lab.dataset.repeated_reads import Readings, Run
from dataguard.lab.dataset.source_mutation import Change
from dataguard.lab.labels.class_names import Naming, find_namings
from dataguard.lab.labels.label_tables import Table, find_table
from dataguard.lab.reading.changed_attributes import find_changed
from dataguard.lab.reading.loader_survey import requested
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.splits import sample_folders
from dataguard.lab.splits.sample_folders import Filed
from dataguard.lab.spy.value_summaries import numbers_of
from dataguard.model import Location, NotApplicable, Undecided
from dataguard.target.variants import Loader

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

PROBES = 8
"""Samples that are read in each order of files and of hashes."""


class Direct:
    """Observations of the dataset itself, each in a process of its own (map-style only)."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._begun: set[object] = set()

    @property
    def readings(self) -> Readings:
        """A few samples read over and over, in two orders."""
        self._need("readings", repeated_reads.READS)
        return repeated_reads.observe(self._lab.build, self._lab.vary, self._known)

    def again(self, number: int) -> Run:
        """The first of the two runs, made once more for each number above 0."""
        self._need(("again", number), repeated_reads.AGAIN)
        return repeated_reads.again(self._lab.build, self._lab.vary, self._known, number)

    @property
    def spans(self) -> Spans:
        """What indices mean: periods inside the range, what -1 is, and numbers of other types."""
        if self._lab.ends.first_failing is not None:
            raise NotApplicable("len(dataset) is too large: see DG301")
        self._need("spans", index_semantics.READS)
        hints, build = hints_of(self._lab.epoch.samples), self._lab.build
        found: Spans = self._lab.vary("spans", lambda folder: probe_spans(build(), folder, hints), lambda _, same: same)
        return found

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
        build = self._lab.build
        changes: tuple[Change, ...] = self._lab.vary(
            ("stored", index),
            lambda folder: source_mutation.find_changes(build(), folder, first, index),
            lambda _, found: found or (),
        )
        return changes

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
        build = self._lab.build
        source: Source = self._lab.vary(
            "source", lambda folder: find_source(build(), folder, first, index, other), lambda _, found: found
        )
        return source

    @property
    def substitutes(self) -> tuple[Substitute, ...]:
        """What comes out in its place when that file is missing, and when it holds what cannot be decoded."""
        missed, one, two = (self._without(content) for content in (None, *missing_file.GARBAGE))
        return (missed, one) if one.answer.digests == two.answer.digests else (missed,)

    def _without(self, content: bytes | None) -> Substitute:
        path, build = self.source.path, self._lab.build
        first, index, _ = self._three
        found: Substitute = self._lab.vary(
            ("without", content),
            lambda folder: read_without(build(), folder, first, index, path, content),
            lambda _, same: same,
        )
        return found

    @property
    def _three(self) -> tuple[Index, Index, Index]:
        known = self._probes
        if len(known) < 3:
            raise NotApplicable("too few samples can be read by index")
        return known[0], known[len(known) // 2], known[-1]

    def _made(self, key: object, places: Places, *orders: AbstractContextManager[None]) -> Made:
        self._need(key, PROBES)
        indices = self._probes
        made: Made = self._lab.vary(
            key, lambda folder: read_made(self._build_anew, folder, indices, places, *orders), lambda _, same: same
        )
        return made

    def _build_anew(self) -> Loader:
        lab = self._lab
        return build_anew(lab.target, lab.facts.name, lab.settings, requested(lab.settings))

    @property
    def _probes(self) -> tuple[Index, ...]:
        """A few of the indices that the loader was seen to ask for."""
        return self._lab.epoch.asked(PROBES)

    @property
    def changed(self) -> tuple[Location, ...]:
        """The attributes of the dataset that reading a few samples changes."""
        return find_changed(self._lab.build, self._lab.vary)

    def drawing(self, items: Sequence[Index]) -> tuple[GeneratorState, ...]:
        """The generators that reading these samples draws from."""
        build = self._lab.build
        self._need(("drawing", *items), drawn_generators.READS)
        indices = (list(items) * drawn_generators.READS)[: drawn_generators.READS]
        states: tuple[GeneratorState, ...] = self._lab.vary(
            ("drawing", *items),
            lambda folder: drawn_generators.find_drawing(build(), folder, indices),
            lambda _, found: found,
        )
        return states

    @property
    def folders(self) -> tuple[Filed, ...]:
        """Some samples, with the folders that their own files stand in."""
        self._need("folders", sample_folders.READS)
        known, build = self._lab.epoch.indices, self._lab.build
        filed: tuple[Filed, ...] = self._lab.vary(
            "folders",
            lambda folder: sample_folders.find_folders(build(), folder, evenly(known, sample_folders.READS)),
            lambda _, found: found,
        )
        return filed

    @property
    def namings(self) -> tuple[Naming, ...]:
        """What the dataset, and those that it wraps, say of their classes; the outermost first."""
        build = self._lab.build
        namings: tuple[Naming, ...] = self._lab.vary(
            "namings", lambda _: find_namings(build), lambda _, found: found or ()
        )
        return namings

    def numbers(self, index: Index) -> tuple[Numbers, ...]:
        """The numbers in the sample of an index."""
        self._need(("numbers", index), 1)
        build = self._lab.build
        numbers: tuple[Numbers, ...] = self._lab.vary(
            ("numbers", index),
            lambda folder: tuple(numbers_of(Reader(build(), folder).read(index))),
            lambda _, found: found,
        )
        return numbers

    def is_blank(self, index: Index) -> bool:
        """Whether the sample of an index, read once more and alone, has images of one value."""
        self._need(("blank", index), 1)
        build = self._lab.build
        return bool(
            self._lab.vary(
                ("blank", index),
                lambda folder: blank_of(leaves_of(Reader(build(), folder).read(index))) is not None,
                lambda _, found: found,
            )
        )

    def table(self, seen: tuple[tuple[int, int], ...]) -> Table | None:
        """Where the dataset keeps all of the labels of which these, pairs of index and label, were seen; if it does."""
        build = self._lab.build
        table: Table | None = self._lab.vary(("table", seen), lambda _: find_table(build, seen), lambda _, found: found)
        return table

    @property
    def place(self) -> Location | None:
        """Where the class of the dataset is defined."""
        place: tuple[str, int] | None = self._lab.vary(
            "place", lambda _: made_at(self._lab.build().dataset), lambda _, found: found
        )
        return Location(place[0], place[1], self._lab.facts.dataset) if place else None

    @property
    def own(self) -> bool:
        """Whether the class of the dataset is the user's own, and none of a library."""
        return bool(self._lab.vary("own", lambda _: is_own(self._lab.build().dataset), lambda _, found: found))

    @property
    def _known(self) -> tuple[Index, ...]:
        """The indices that the loader was seen to ask for."""
        return tuple(sample.index for sample in self._lab.epoch.samples)

    def _need(self, key: object, reads: int) -> None:
        """Raise NotApplicable for a stream, and Undecided where so many reads, not made before, take too long."""
        self._lab.need_map("a stream has no indices to read again")
        if key not in self._begun:
            self._lab.afford(reads * self._lab.epoch.seconds_per_sample)
        self._begun.add(key)
