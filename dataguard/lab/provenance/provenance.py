"""Observations of where the samples of a loader come from, for `lab.provenance`."""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from dataguard.core.incident import LoaderFailed, LoaderRaised, observed_or_none
from dataguard.core.model import Undecided
from dataguard.lab.core.index_schedules import evenly
from dataguard.lab.core.observation_cache import recalling
from dataguard.lab.core.records import Index
from dataguard.lab.decoding.file_substitution import decoded
from dataguard.lab.provenance.boundaries import SEARCH_READS, GroupSearch
from dataguard.lab.provenance.early_columns import find_early_column
from dataguard.lab.provenance.file_names import MOST_NAMES
from dataguard.lab.provenance.frame_runs import FrameRun, find_frame_runs
from dataguard.lab.provenance.held_rows import (
    Answer,
    HeldRows,
    Questions,
    find_groups_of_files,
    find_held_rows,
    find_rows,
    found,
)
from dataguard.lab.provenance.named_records import FACTORY_CALLS as TABLE_CALLS
from dataguard.lab.provenance.named_records import NamedRecords, find_named_records
from dataguard.lab.provenance.open_sources import keys_of
from dataguard.lab.provenance.own_order import find_own_order
from dataguard.lab.provenance.paired_columns import COMPARED_SAMPLES as PAIRED_SAMPLES
from dataguard.lab.provenance.paired_columns import MOST_VALUES, PairedColumns, find_paired_columns
from dataguard.lab.provenance.paired_files import PairedRoles, find_paired_roles, named
from dataguard.lab.provenance.reads_seen import ReadLog, leaf_reads, merged
from dataguard.lab.provenance.refitting import FACTORY_CALLS, find_refit, unknown
from dataguard.lab.provenance.shown import words_of_reads, words_of_rows
from dataguard.lab.provenance.target_cells import find_target_cells
from dataguard.lab.provenance.unread import READ_SAMPLES, Reached
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rows.origins import (
    NO_ROW,
    SEVERAL_ROWS,
    EarlyColumn,
    OwnOrder,
    Read,
    Refit,
    RowOrigins,
    SampleReads,
    SampleRows,
    TargetCells,
)
from dataguard.lab.rows.window_rows import WINDOW_READS, WINDOW_SAMPLES, Windows
from dataguard.lab.subject import Subject
from dataguard.settings.contract import names_in
from dataguard.targets.variants import Loader

SEEN_SAMPLES, FEW_SEEN = 24, 6
"""Samples whose reads are seen, and how many of a slow loader; each is read in two random states. Of 24 files that are
paired at random with 24 others, about one has its own partner, and of six as well."""
UNREAD_SAMPLES = 3
"""Samples all over the epoch that are read from nothing if all are in memory; one of a slow loader."""
TRACED_SAMPLES, FEW_TRACED = 4, 1
"""Samples of which the reads that each leaf comes from are found: about 12 reads for a pair of files, 20 for a clip."""
TRACED_READS = 12
"""About how many reads that takes."""
ROW_SAMPLES = 6
"""Samples whose rows are found."""
FEWEST_READS = 6
"""Reads that show what a slow loader holds, if no sample is read from a file."""
ROW_READS = 100
"""About how many reads that takes for each: 2 log2(n) for each array that matters, and one for each column."""

ORDER_SAMPLES = 6
"""Samples whose sources say whether the dataset orders them itself: 6 are in order by odds of 1 in 360."""
TARGET_SAMPLES = 256
"""Consecutive samples whose targets are looked for in what the factory loads."""
REFIT_SHARE = 0.1
"""The share of the budget that the calls of the factory may take to see what a scaler was fitted on."""
TABLE_SHARE = 0.2
"""The same to see which row of a table a sample has."""


T = TypeVar("T")
_SLOW_ROWS = "to find the rows that a sample depends on takes too many reads of a slow data set"


@dataclass(frozen=True, slots=True)
class SampleFiles:
    """What some samples are read from, and what the names of their files say."""

    reads: tuple[SampleReads, ...]
    paired: tuple[PairedRoles, ...]
    runs: tuple[FrameRun, ...]


class Provenance:
    """Observations of the sources of samples (map-style only)."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def reads(self) -> tuple[SampleReads, ...]:
        """The files and parts of files that each of some samples is read from, evenly spaced over the epoch."""
        return self._files.reads

    @property
    def paired_roles(self) -> tuple[PairedRoles, ...]:
        """The files of the same samples whose names correspond to those of other files, such as images and masks."""
        return self._files.paired

    @property
    def named_records(self) -> tuple[NamedRecords, ...]:
        """What the same samples have of the rows of tables that name their files.

        The factory is called again a dozen times, if that takes little of the budget.
        """
        subject = self._subject
        files = {sample.index: sample.files for sample in self.reads if sample.files and not sample.varying}
        seconds = subject.settings.budget * TABLE_SHARE
        if not files or not subject.is_called or subject.factory_seconds * TABLE_CALLS > seconds:
            return ()
        return subject.observe(
            "named records", lambda folder: find_named_records(subject.rebuild, folder, files, seconds)
        )

    @property
    def frame_runs(self) -> tuple[FrameRun, ...]:
        """The files of the same samples that differ in a number, such as the frames of a clip, by position."""
        return self._files.runs

    @property
    def _files(self) -> SampleFiles:
        subject = self._subject
        if not reads_anything(subject):
            return SampleFiles((), (), ())
        count = subject.affordable_reads(SEEN_SAMPLES, FEW_SEEN, 2)
        traced = subject.affordable_reads(TRACED_SAMPLES, FEW_TRACED, TRACED_READS)
        indices, build = subject.epoch.asked(count), subject.build
        subject.afford_reads("reads seen", 2 * len(indices) + traced * TRACED_READS)
        return subject.observe("reads seen", lambda folder: find_files(build(), folder, indices, traced))

    @property
    def rows(self) -> RowOrigins:
        """The rows of arrays, tables and lists in memory on which each of a few samples depends.

        Raises Undecided for slow loaders: `reads` says what is known then.
        """
        answer = self._found(lambda held: held.rows)
        if answer is None:
            raise Undecided(_SLOW_ROWS)
        return answer

    @property
    def group_ends(self) -> tuple[GroupSearch, ...]:
        """What samples hold at the ends of groups of rows, such as episodes: one for each way to group them.

        Raises Undecided for slow loaders.
        """
        answer = self._found(lambda held: held.groups)
        if answer is None:
            raise Undecided("to search the samples at the ends of groups takes too many reads of a slow data set")
        return answer or self._groups_of_files

    @property
    def _groups_of_files(self) -> tuple[GroupSearch, ...]:
        """The same of groups that only the files name which the factory reads, if samples hold several rows of them."""
        subject, again = self._subject, self._subject.quick_rebuild
        rows = observed_or_none(lambda: self.rows) if again is not None else None
        if again is None or rows is None or not any(_holds_several_rows(sample) for sample in rows.samples):
            return ()
        build, length, declared = subject.build, subject.facts.length, subject.settings.contract.get("group")
        return subject.observe(
            "groups of files",
            lambda folder: find_groups_of_files(build, again, folder, length, declared, rows.axes),
        )

    @property
    def windows(self) -> Windows:
        """The rows of a table or series that targets and inputs come from, and whether these depend on those.

        Raises Undecided for slow loaders.
        """
        answer = self._found(lambda held: held.windows)
        if answer.unaffordable:
            raise Undecided("to find the rows of a window takes too many reads of a slow data set")
        return answer

    @property
    def reached(self) -> Reached:
        """How far samples reach into the rows and files that datasets hold."""
        self._subject.need_map("a stream says nothing of what it holds")
        return self._found(lambda held: held.reached)

    def _found(self, of: Callable[[HeldRows], Answer[T]]) -> T:
        """One of the answers. Raises why there is none."""
        try:
            return found(of(self._held))
        except LoaderFailed as failure:
            raise self._subject.not_observed(failure, self._subject.epoch.read_limit) from failure

    @property
    def _held(self) -> HeldRows:
        subject = self._subject
        subject.need_map("a stream is read in one pass, and not sample by sample")
        contract, takes_little = subject.settings.contract, subject.reads_take_little
        few = subject.epoch.asked(WINDOW_SAMPLES + 2)
        inner = sorted(one for one in few if isinstance(one, int))[1:-1] or few  # the outer ones may be padded
        indices = subject.epoch.asked(ROW_SAMPLES)
        asked = Questions(
            length=subject.facts.length,
            indices=tuple(indices),
            windows=tuple(inner),
            target=contract.get("target"),
            known_future=tuple(names_in(contract.get("known_future", ()))),
            group=contract.get("group"),
            aligned=tuple(names_in(contract.get("aligned", ()))),
            rows=takes_little(ROW_READS * len(indices)),
            in_windows=takes_little(WINDOW_SAMPLES * WINDOW_READS),
            groups=takes_little(SEARCH_READS),
            reached=takes_little(ROW_READS * READ_SAMPLES),
        )
        subject.afford_reads("held rows", FEWEST_READS + (READ_SAMPLES if reads_anything(subject) else 0))
        build = subject.build
        return subject.observe("held rows", lambda folder: find_held_rows(build, folder, asked))

    def rows_of(self, indices: Sequence[Index]) -> RowOrigins:
        """The same of samples with these indices."""
        subject = self._subject
        subject.need_map("a stream is read in one pass, and not sample by sample")
        if not subject.reads_take_little(ROW_READS * len(indices)):
            raise Undecided(_SLOW_ROWS)
        build, wanted = subject.build, tuple(indices)
        return subject.observe(("rows changed", wanted), lambda folder: find_rows(Reader(build(), folder), wanted))

    def refitted(self, training: Subject) -> Refit:
        """What samples of a training loader become if rows that only this loader uses change before the factory runs.

        The factory is called four times, if that takes little of the budget.
        """
        subject = self._subject
        if not subject.is_called:
            return unknown("there is no factory to call again")
        indices = training.epoch.indices, subject.epoch.indices
        reads = _units(training), _units(subject)
        seconds = subject.settings.budget * REFIT_SHARE
        if subject.factory_seconds * FACTORY_CALLS > seconds:
            return unknown("the factory takes too long to be called four times")

        def build(imports: bool) -> tuple[Loader, Loader]:
            own, other = subject.rebuild_with(training, imports=imports)
            return other, own

        return subject.observe(
            ("refitted", training.facts.name), lambda folder: find_refit(build, folder, indices, reads, seconds)
        )

    def target_cells(self, target: str) -> TargetCells | None:
        """Whether inputs change with the cells of a file that their targets are; None if these are found in no file.

        The factory is called twice, if that takes little of the budget, and `target` is a number.
        """
        subject, again = self._subject, self._subject.quick_rebuild
        length, seconds = subject.facts.length or 0, subject.settings.budget * REFIT_SHARE
        leaves = {leaf.path: leaf for sample in subject.epoch.samples[:1] for leaf in sample.leaves}
        is_number = target in leaves and leaves[target].size == 1 and "float" in (leaves[target].dtype or "")
        if again is None or not is_number or not subject.reads_take_little(2 * TARGET_SAMPLES):
            return None
        first = max(length - TARGET_SAMPLES, 0) // 2
        indices = range(first, min(first + TARGET_SAMPLES, length))
        return subject.observe(
            "target cells", lambda folder: find_target_cells(again, folder, indices, target, seconds)
        )

    @property
    def paired_columns(self) -> tuple[PairedColumns, ...]:
        """The rows of a table that features and target of a sample are from, where these are seen to be others.

        The factory is called once, and a dozen times if it seems so, if that takes little of the budget.
        """
        subject, again = self._subject, self._subject.quick_rebuild
        leaves = [leaf for sample in subject.epoch.samples[:1] for leaf in sample.leaves]
        is_row = any(leaf.size == 1 for leaf in leaves) and any(1 < leaf.size <= MOST_VALUES for leaf in leaves)
        if again is None or not is_row or not subject.reads_take_little(PAIRED_SAMPLES):
            return ()
        numbers = sorted({index for index in subject.epoch.indices if isinstance(index, int)})
        amid = numbers[len(numbers) // 2 :][: PAIRED_SAMPLES // 2]  # neighbours, and others all over
        indices = sorted({*amid, *evenly(numbers, PAIRED_SAMPLES // 2)})
        seconds = subject.settings.budget * TABLE_SHARE
        return subject.observe("paired columns", lambda folder: find_paired_columns(again, folder, indices, seconds))

    def early_column(self, target: str) -> EarlyColumn | None:
        """A column of an input that depends on later rows of a file than its target; None if none is seen to.

        The factory is called a few times, if that takes little of the budget.
        """
        subject, again = self._subject, self._subject.quick_rebuild
        length, seconds = subject.facts.length or 0, subject.settings.budget * REFIT_SHARE
        if again is None or length < TARGET_SAMPLES // 2 or not subject.reads_take_little(4 * TARGET_SAMPLES):
            return None
        first = max(length - TARGET_SAMPLES, 0) // 2
        indices = range(first, min(first + TARGET_SAMPLES, length))
        return subject.observe(
            "early column", lambda folder: find_early_column(again, folder, indices, target, seconds)
        )

    @property
    def own_order(self) -> OwnOrder | None:
        """Whether the dataset orders its samples itself, by what a few indices are read from; None if that is unknown.

        Rows in memory are found if that takes little.
        """
        subject = self._subject
        subject.need_map("a stream is read in one pass, and not sample by sample")
        subject.afford_reads("own order", 2 * ORDER_SAMPLES)
        build, rows = subject.build, subject.reads_take_little(2 * ORDER_SAMPLES * ROW_READS)
        numbers = sorted(index for index in subject.epoch.indices if isinstance(index, int))
        indices = evenly(numbers, ORDER_SAMPLES) or subject.epoch.asked(ORDER_SAMPLES)
        return subject.observe("own order", lambda folder: find_own_order(build(), folder, indices, rows=rows))

    def read_from(self, index: Index) -> str:
        """What a sample is read from, in words, if it was observed or one more read shows it; empty otherwise."""
        subject = self._subject
        subject.need_map("a stream is read in one pass, and not sample by sample")
        with recalling():
            reads, rows = observed_or_none(lambda: self.reads), observed_or_none(lambda: self.rows)
        for sample in reads or ():
            if sample.index == index and sample.reads:
                return words_of_reads(sample.reads)
        for traced in rows.samples if rows is not None else ():
            if traced.index == index and (words := words_of_rows(traced)):
                return words
        if (epoch := observed_or_none(lambda: subject.epoch)) is not None:
            subject.afford(("read from", index), epoch.seconds_per_sample)
        build = subject.build
        # A loader that fails as it is has no epoch, and this sample may be the one that raises.
        found = subject.observe(
            ("read from", index),
            lambda folder: tuple(*reads_of(build(), folder, [index])),
            unobservable=epoch is None,
        )
        return words_of_reads(found)


def _holds_several_rows(sample: SampleRows) -> bool:
    """Whether a sample depends on more than one row of a source, as a window or a transition does."""
    rows: dict[str, set[int]] = defaultdict(set)
    for leaf in sample.leaves:
        rows[leaf.source].update(leaf.rows)
    return any(len(one - {NO_ROW}) > 1 or SEVERAL_ROWS in one for one in rows.values())


def _units(subject: Subject) -> frozenset[Read]:
    """What some samples of a loader are read from, row by row; nothing if that takes too long to see."""
    seen = observed_or_none(lambda: Provenance(subject).reads) or ()
    return frozenset(unit for sample in seen for read in sample.reads for unit in read.units)


def reads_of(loader: Loader, folder: Path, indices: Iterable[Index]) -> Iterator[list[Read]]:
    """What each sample is read from; if reading one raises, what was read before."""
    reader, log = Reader(loader, folder), ReadLog(loader.dataset)
    for index in indices:
        with log.recorded(), contextlib.suppress(LoaderRaised):
            reader.read(index)
        yield merged(log.reads)


def reads_anything(subject: Subject) -> bool:
    """Whether samples are read from files or what is open, or decoded; otherwise all are in memory (map-style only)."""
    subject.need_map("a stream is read in one pass, and not sample by sample")
    count, build = subject.affordable_reads(UNREAD_SAMPLES, 1, FEW_SEEN), subject.build
    subject.afford_reads("any read", count)
    indices = evenly(subject.epoch.asked(SEEN_SAMPLES), count)

    def find(folder: Path) -> bool:
        reads, contents = reads_of(build(), folder, indices), set[str]()

        def note(name: str) -> bool:
            contents.add(name)
            return False

        for _ in indices:
            with decoded(note):  # anew, as reading may have imported decoders
                if next(reads) or contents:
                    return True
        return False

    return subject.observe("any read", find)


def is_unread(subject: Subject) -> bool:
    """Whether all samples are known to be in memory, so that nothing is decoded while one is read."""
    return subject.facts.kind == "map" and observed_or_none(lambda: reads_anything(subject)) is False


def find_files(loader: Loader, folder: Path, indices: Sequence[Index], traced: int) -> SampleFiles:
    """Find what samples are read from, and compare the names of their files with those of others."""
    reads = find_reads(loader, folder, indices, traced)
    databases = {one.file for sample in reads for one in sample.reads if one.file and named(one) != one.source}
    keys = {path: keys_of(loader.dataset, path, MOST_NAMES) for path in databases}
    return SampleFiles(reads, find_paired_roles(reads, keys), find_frame_runs(reads))


def find_reads(loader: Loader, folder: Path, indices: Sequence[Index], traced: int) -> tuple[SampleReads, ...]:
    """Read samples in two random states, and record what is read; change it, for some, and read them again."""
    reader, log = Reader(loader, folder, len(indices) + 1), ReadLog(loader.dataset)
    log.install()
    reader.read(indices[0])  # so that what is opened only once is open
    seen: list[tuple[Index, list[Read], list[Read]]] = []
    for number, index in enumerate(indices, 1):
        states = []
        for draw in (0, number):  # a second state of its own: windows that begin at random begin at several places
            with log.recorded():
                reader.read(index, draw)
            states.append(merged(log.reads))
        seen.append((index, states[0], states[1]))
    times = Counter(read for _, first, _ in seen for read in dict.fromkeys(first))
    common = {read for read, count in times.items() if count == len(seen) > 1}
    leaves = {index: leaf_reads(reader, log, index) for index, first, _ in seen[:traced] if first}
    samples = []
    for index, first, second in seen:
        own, again = (tuple(read for read in reads if read not in common) for reads in (first, second))
        varying = frozenset(own) ^ frozenset(again) if second else frozenset()  # a cached sample reads nothing
        reordered = _in_other_order(first, second)
        traced = index in leaves
        samples.append(
            SampleReads(index, own, varying, leaves.get(index, ()), traced, reordered, again if varying else ())
        )
    return tuple(samples)


def _in_other_order(first: Sequence[Read], second: Sequence[Read]) -> bool:
    """Whether what both have is not in one order."""
    both = set(first) & set(second)
    orders = [list(dict.fromkeys(read for read in reads if read in both)) for reads in (first, second)]
    return orders[0] != orders[1]
