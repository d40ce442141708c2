"""Where the values of samples come from, as plain data. Standard library only.

A *source* is a file (with the name of a member or array in it after `::`), or an object that the dataset holds, such as
`dataset.frame`. Its *rows* are numbers of rows or frames, or keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dataguard.lab.core.records import Index

NO_ROW, SEVERAL_ROWS = -1, -2
"""In place of the number of a row: the position depends on no row of the source, or on several."""

FILES = "files"
"""The source of samples that are read from files, in place of the path of rows in memory."""


def along(source: str, axis: int) -> str:
    """The name of an array whose rows are along an axis, such as `dataset.x[:, *]` for the second one."""
    return f"{source}[{':, ' * axis}*]" if axis else source


@dataclass(frozen=True, slots=True)
class Read:
    """A part of a source that was read: its rows, frames or keys; none if it was read as a whole, or this is unknown.

    Of what is read in pieces, such as a video, each piece is a read; of a long piece, such as one of sound, `rows` has
    only the first frame, sample or byte. `changeable`: what a known function returned, which can be exchanged for
    something else, and not only opened. `part`: what was chosen of each row; empty for all of it. `axis`: that of the
    rows, and of those of what was returned.
    """

    source: str
    rows: tuple[int | str, ...] = ()
    changeable: bool = False
    part: str = ""
    axis: int = 0

    @property
    def units(self) -> tuple[Read, ...]:
        """A read for each row; itself if its rows are not known."""
        return tuple(replace(self, rows=(row,)) for row in self.rows) or (self,)

    @property
    def name(self) -> str:
        """The source, and the axis of its rows."""
        return along(self.source, self.axis)

    @property
    def file(self) -> str | None:
        """The path of the file; None for an object of the dataset."""
        return self.source.partition("::")[0] if self.source.startswith("/") else None


@dataclass(frozen=True, slots=True)
class LeafReads:
    """The reads from which a leaf of a sample comes: one for each position along `axis`, or one for all of it.

    None stands for a position that comes from no read that can be changed, or from several. `distances`: the mean
    difference of the values of each two positions, if there are a few.
    """

    path: str
    axis: int | None
    reads: tuple[Read | None, ...]
    distances: tuple[tuple[float, ...], ...] = ()

    @property
    def source(self) -> str | None:
        """The one source of all positions, if it is one."""
        sources = {None if read is None else read.source for read in self.reads}
        return sources.pop() if len(sources) == 1 else None


@dataclass(frozen=True, slots=True)
class SampleReads:
    """What was read for one sample, in order; what every sample reads is left out.

    `varying` reads are only made in some random states, such as a partner that is drawn at random: `again` are those of
    a second state, if any vary. `reordered` ones are made in another order. `leaves` says which leaf comes from which
    read, if the sample was `traced`.
    """

    index: Index
    reads: tuple[Read, ...]
    varying: frozenset[Read] = frozenset()
    leaves: tuple[LeafReads, ...] = ()
    traced: bool = False
    reordered: bool = False
    again: tuple[Read, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The files, each once, in the order in which they are first read."""
        return tuple(dict.fromkeys(read.file for read in self.reads if read.file is not None))


@dataclass(frozen=True, slots=True)
class LeafRows:
    """The rows of one source on which a leaf of a sample depends.

    `rows` has an entry for each position along `axis`, `NO_ROW` and `SEVERAL_ROWS` among them; without an axis it has
    one, for all of the leaf. `columns` are the numbers of those columns of the source on which the leaf depends; empty
    if they are not known.
    """

    path: str
    source: str
    axis: int | None
    rows: tuple[int, ...]
    columns: tuple[int, ...] = ()

    @property
    def known(self) -> tuple[int, ...]:
        """The rows of those positions that depend on exactly one."""
        return tuple(row for row in self.rows if row >= 0)

    @property
    def exact(self) -> bool:
        """Whether every position depends on exactly one row."""
        return all(row >= 0 for row in self.rows)


@dataclass(frozen=True, slots=True)
class SampleRows:
    """The rows of sources on which the leaves of one sample depend, and the leaves for which that is not known."""

    index: Index
    leaves: tuple[LeafRows, ...]
    unknown: tuple[str, ...] = ()

    def of(self, path: str) -> tuple[LeafRows, ...]:
        """The rows on which one leaf depends, by source."""
        return tuple(leaf for leaf in self.leaves if leaf.path == path)


@dataclass(frozen=True, slots=True)
class LabelLookup:
    """A leaf for which an index is the label of a row, beside an `other` leaf for which it is the number of a row.

    For `index`, for example, they come from `row` of `source` and `other_row` of `other_source`.
    """

    path: str
    source: str
    row: int
    other: str
    other_source: str
    other_row: int
    index: Index


@dataclass(frozen=True, slots=True)
class RowOrigins:
    """The rows of some samples, the number of rows of each source by its path, and the names of columns of tables.

    `axes` are those of the rows of arrays, by the path at which they are held, where that is not the first axis.
    `shifts`: by how many rows the values that a leaf comes from are those of another one, by the paths of both.
    `lookups`: leaves whose rows are looked up by label, beside others whose rows are by position.
    """

    samples: tuple[SampleRows, ...]
    sources: Mapping[str, int] = field(default_factory=dict)
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    axes: Mapping[str, int] = field(default_factory=dict)
    shifts: Mapping[tuple[str, str], int] = field(default_factory=dict)
    lookups: tuple[LabelLookup, ...] = ()


@dataclass(frozen=True, slots=True)
class Refit:
    """How many training samples changed, `of` how many, when `rows` of a source that only evaluation uses did.

    They were changed before the factory ran. `files` is how many there are, if these are whole files. `leaves` are the
    leaves that changed, of the sample with this `index` among others, and `how` says how. Nothing was compared if `of`
    is 0: the `reason` says why.
    """

    source: str = ""
    rows: int = 0
    files: int = 0
    changed: int = 0
    of: int = 0
    index: Index = None
    leaves: tuple[str, ...] = ()
    reason: str = ""
    how: str = ""


@dataclass(frozen=True, slots=True)
class TargetCells:
    """Whether inputs change with cells of a file that are their own targets, and not with most others.

    The targets of `of` samples are the cells of a `column` of the source; that of sample `index` is in this `row`. The
    leaves at `paths` change with it, the first one in the `place` of its last axis.
    """

    source: str
    column: str
    of: int
    index: Index
    row: int
    paths: tuple[str, ...]
    place: int = 0


@dataclass(frozen=True, slots=True)
class EarlyColumn:
    """A column of the leaf `path` that changes with rows of a file in sample `index`, whose target does not.

    The target does from sample `later` on.
    """

    source: str
    path: str
    column: int
    index: Index
    later: Index


@dataclass(frozen=True, slots=True)
class OwnOrder:
    """What a few evenly spaced indices of an epoch are read from.

    `varies`: most of them come from other rows or files in a second epoch. `shuffled`: the `source`, which is `FILES`
    or the path of rows in memory, is read in no order of its rows or names; `begins` are the first ones, in the order
    of the indices.
    """

    varies: bool
    shuffled: bool
    source: str = ""
    begins: tuple[int | str, ...] = ()

    @property
    def of_files(self) -> bool:
        """Whether it is an order of files."""
        return self.source == FILES
