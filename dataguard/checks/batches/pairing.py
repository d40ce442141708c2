"""Whether a batch keeps all its samples, and the leaves of each in the same row.

`mispaired` and `missing` judge collations of recognizable samples, in order and reversed; `misread` judges
`__getitems__`; `with_last` adds the sample with which windows are cut short; `name_of` names a sample in a message.
Standard library only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

from dataguard.core.incident import observed_or_none
from dataguard.machine.units import counted

if TYPE_CHECKING:
    from dataguard.lab.batches.collate_observations import GetitemsReads
    from dataguard.lab.batches.collate_trials import Collation, Form, RecognizedLeaf, Rows
    from dataguard.lab.core.records import SampleRecord
    from dataguard.lab.lab import Lab


def with_last(lab: Lab, samples: Sequence[SampleRecord]) -> Sequence[SampleRecord]:
    """These samples, and the last one if the sampler draws it: few of the samples of a large dataset are read."""
    ends = observed_or_none(lambda: lab.dataset.ends)
    if not samples or ends is None or ends.last.incident:
        return samples
    orders = observed_or_none(lambda: lab.streams.orders)
    if orders is None or ends.last.index not in orders.epochs[0]:
        return samples
    return [*samples, replace(samples[0], index=ends.last.index, leaves=ends.last.leaves)]


FORMS = ("in order", "reversed")


@dataclass(frozen=True, slots=True)
class Mispair:
    """A row of two leaves of a batch that holds one sample in the first and another in the second."""

    leaf: str
    other: str
    row: int
    samples: tuple[int, int]
    order: tuple[int, ...]
    """The samples in the order in which they were collated, which `form` names."""
    form: str


@dataclass(frozen=True, slots=True)
class Missing:
    """Samples in no row of any leaf, or in none of one `leaf`, where other samples take their rows."""

    samples: tuple[int, ...]
    leaf: str
    rows: int
    repeated: bool


def mispaired(collation: Collation) -> Mispair | None:
    """The first two leaves whose rows do not match under any seed, in one of the orders.

    A leaf may occur twice in different orders, as negatives of a contrastive loss do: one match is enough.
    """
    of_batch = _of_batch(collation)
    for name in FORMS:
        forms = [form for (_, form_name), form in collation.forms.items() if form_name == name]
        by_seed = [_mispairs(form, name, of_batch) for form in forms]
        for pair in by_seed[0] if by_seed else ():
            if all(pair in others for others in by_seed):
                return by_seed[0][pair]
    return None


def _of_batch(collation: Collation) -> frozenset[str]:
    """The leaves that give every row the same sample, whatever the order: they are of the batch, as its length is."""
    constant = [
        {(leaf.leaf, leaf.rows[0]) for leaf in form.recognized if len(leaf.rows) > 1 and len(set(leaf.rows)) == 1}
        for (_, name), form in collation.forms.items()
        if name in FORMS
    ]
    return frozenset(leaf for leaf, _ in set.intersection(*constant)) if constant else frozenset()


def _mispairs(form: Form, name: str, left_out: Collection[str]) -> dict[tuple[bytes, bytes], Mispair]:
    sources = dict.fromkeys(leaf.source for leaf in form.recognized if leaf.leaf not in left_out)
    mispaired_sources = {}
    for pair in combinations(sources, 2):
        tried = list(_tried(form, pair, name))
        if tried and all(tried):
            mispaired_sources[pair] = next(mispair for mispair in tried if mispair)
    return mispaired_sources


def _tried(form: Form, sources: tuple[bytes, bytes], name: str) -> Iterator[Mispair | None]:
    """All pairs of leaves that carry these sources in the same number of rows; None for a pair whose rows all match.

    What has a single row is not a leaf of samples: the longest length in a list of parts of the batch, for example.
    """
    first, second = ([leaf for leaf in form.recognized if leaf.source == source] for source in sources)
    for leaf in first:
        for other in second:
            if len(leaf.rows) == len(other.rows) > 1:
                yield None if _has_permutation(leaf.rows, other.rows, form) else _apart(leaf, other, form, name)


def _has_permutation(rows: Rows, others: Rows, form: Form) -> bool:
    """Whether a leaf of the batch holds the permutation that maps the rows of one leaf to those of the other."""
    ways = [order for order in form.orders if len(order) == len(rows)]
    return any(
        all(these[position] & those[row] for row, position in enumerate(order))
        for order in ways
        for these, those in ((rows, others), (others, rows))
    )


def _apart(leaf: RecognizedLeaf, other: RecognizedLeaf, form: Form, name: str) -> Mispair | None:
    for row, (mine, theirs) in enumerate(zip(leaf.rows, other.rows, strict=True)):
        if not mine & theirs:
            return Mispair(leaf.leaf, other.leaf, row, (min(mine), min(theirs)), form.positions, name)
    return None


def missing(collation: Collation) -> Missing | None:
    """Samples that are lost because of their position, the same ones under every seed.

    A sample that yields nothing even alone was filtered on purpose, and so was one that is lost in every order, because
    of its content. What changes with the seed is random.
    """
    if not collation.collates_singly:
        return None
    for find in (_lost, _replaced):
        by_form = {
            form: find(batch_form, collation) for form, batch_form in collation.forms.items() if form[1] in FORMS
        }
        steady = all(by_form[0, name] == by_form[1, name] for name in FORMS)
        first, second = (by_form[0, name] for name in FORMS)
        if steady and first and second and first.samples != second.samples:
            return first
    return None


def _lost(form: Form, collation: Collation) -> Missing | None:
    """Samples of which nothing remains except what they share with others."""
    lost, where = [], None
    for sample in form.positions:
        gone = [leaf for leaf in form.recognized if not any(sample in row for row in leaf.rows)]
        shared = [
            leaf
            for leaf in form.recognized
            if leaf not in gone and len(collation.equal_samples[leaf.source][sample]) > 1
        ]
        if gone and len(gone) + len(shared) == len(form.recognized):
            lost.append(sample)
            where = where or gone[0]
    return Missing(tuple(sorted(lost)), where.leaf, len(where.rows), repeated=False) if where else None


def _replaced(form: Form, collation: Collation) -> Missing | None:
    """Samples missing from all leaves of a source that has as many rows as there are samples."""
    for source in dict.fromkeys(leaf.source for leaf in form.recognized):
        leaves = [leaf for leaf in form.recognized if leaf.source == source]
        lost = [sample for sample in form.positions if not any(sample in row for leaf in leaves for row in leaf.rows)]
        if lost and any(len(leaf.rows) == len(form.positions) for leaf in leaves):
            return Missing(tuple(sorted(lost)), leaves[0].leaf, len(leaves[0].rows), repeated=True)
    return None


def misread(getitems: GetitemsReads) -> str | None:
    """What `__getitems__` does wrong, as the rest of a message."""
    if getitems.parts:
        path, first = getitems.parts[0]
        other, second = next(part for part in getitems.parts if part[1] != first)
        return f"mixes samples: sample{path} is from dataset[{first!r}], sample{other} from dataset[{second!r}]"
    if len(getitems.given) != len(getitems.asked):
        return f"returns {counted(len(getitems.given), 'samples')} for {counted(len(getitems.asked), 'indices')}"
    for asked, given in zip(getitems.asked, getitems.given, strict=True):
        if asked not in given:
            return f"returns dataset[{given[0]!r}] where dataset[{asked!r}] was requested"
    return None


def name_of(collation: Collation, sample: int) -> str:
    """A collated sample in a message, by its index or, in a stream, by its position."""
    index = collation.indices[sample]
    return f"sample {sample} of a stream" if index is None else f"dataset[{index!r}]"
