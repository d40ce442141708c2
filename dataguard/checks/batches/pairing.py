"""Whether a batch keeps all its samples, and the leaves of each in the same row.

`mispaired` and `missing` judge collations of recognizable samples, in order and reversed; `misread` judges
`__getitems__`; `with_last` adds the sample with which windows are cut short. Standard library only.
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
        found = [_mispairs(form, name, of_batch) for form in forms]
        for pair in found[0] if found else ():
            if all(pair in others for others in found):
                return found[0][pair]
    return None


def _of_batch(collation: Collation) -> frozenset[str]:
    """The leaves that give every row the same sample, whatever the order: they are of the batch, as its length is."""
    found = [
        {(one.leaf, one.rows[0]) for one in form.recognized if len(one.rows) > 1 and len(set(one.rows)) == 1}
        for (_, name), form in collation.forms.items()
        if name in FORMS
    ]
    return frozenset(leaf for leaf, _ in set.intersection(*found)) if found else frozenset()


def _mispairs(form: Form, name: str, left_out: Collection[str]) -> dict[tuple[bytes, bytes], Mispair]:
    sources = dict.fromkeys(one.source for one in form.recognized if one.leaf not in left_out)
    found = {}
    for pair in combinations(sources, 2):
        tried = list(_tried(form, pair, name))
        if tried and all(tried):
            found[pair] = next(one for one in tried if one)
    return found


def _tried(form: Form, sources: tuple[bytes, bytes], name: str) -> Iterator[Mispair | None]:
    """All pairs of leaves that carry these sources in the same number of rows; None for a pair whose rows all match."""
    first, second = ([one for one in form.recognized if one.source == source] for source in sources)
    for one in first:
        for two in second:
            if len(one.rows) == len(two.rows):
                yield None if _has_permutation(one.rows, two.rows, form) else _apart(one, two, form, name)


def _has_permutation(one: Rows, two: Rows, form: Form) -> bool:
    """Whether a leaf of the batch holds the permutation that maps the rows of one leaf to those of the other."""
    ways = [order for order in form.orders if len(order) == len(one)]
    return any(
        all(these[place] & those[row] for row, place in enumerate(order))
        for order in ways
        for these, those in ((one, two), (two, one))
    )


def _apart(one: RecognizedLeaf, two: RecognizedLeaf, form: Form, name: str) -> Mispair | None:
    for row, (mine, theirs) in enumerate(zip(one.rows, two.rows, strict=True)):
        if not mine & theirs:
            return Mispair(one.leaf, two.leaf, row, (min(mine), min(theirs)), form.positions, name)
    return None


def missing(collation: Collation) -> Missing | None:
    """Samples that are lost because of their position, the same ones under every seed.

    A sample that yields nothing even alone was filtered on purpose, and so was one that is lost in every order, because
    of its content. What changes with the seed is random.
    """
    if not collation.alone:
        return None
    for look in (_lost, _replaced):
        by_form = {form: look(found, collation) for form, found in collation.forms.items() if form[1] in FORMS}
        steady = all(by_form[0, name] == by_form[1, name] for name in FORMS)
        first, second = (by_form[0, name] for name in FORMS)
        if steady and first and second and first.samples != second.samples:
            return first
    return None


def _lost(form: Form, collation: Collation) -> Missing | None:
    """Samples of which nothing remains except what they share with others."""
    lost, where = [], None
    for sample in form.positions:
        gone = [one for one in form.recognized if not any(sample in row for row in one.rows)]
        shared = [
            one for one in form.recognized if one not in gone and len(collation.equal_samples[one.source][sample]) > 1
        ]
        if gone and len(gone) + len(shared) == len(form.recognized):
            lost.append(sample)
            where = where or gone[0]
    return Missing(tuple(sorted(lost)), where.leaf, len(where.rows), repeated=False) if where else None


def _replaced(form: Form, collation: Collation) -> Missing | None:
    """Samples missing from all leaves of a source that has as many rows as there are samples."""
    for source in dict.fromkeys(one.source for one in form.recognized):
        leaves = [one for one in form.recognized if one.source == source]
        lost = [sample for sample in form.positions if not any(sample in row for one in leaves for row in one.rows)]
        if lost and any(len(one.rows) == len(form.positions) for one in leaves):
            return Missing(tuple(sorted(lost)), leaves[0].leaf, len(leaves[0].rows), repeated=True)
    return None


def misread(getitems: GetitemsReads) -> str | None:
    """What `__getitems__` does wrong, as the rest of a message."""
    if getitems.parts:
        one, first = getitems.parts[0]
        two, second = next(part for part in getitems.parts if part[1] != first)
        return f"mixes samples: sample{one} is from dataset[{first!r}], sample{two} from dataset[{second!r}]"
    if len(getitems.given) != len(getitems.asked):
        return f"returns {counted(len(getitems.given), 'samples')} for {counted(len(getitems.asked), 'indices')}"
    for asked, given in zip(getitems.asked, getitems.given, strict=True):
        if asked not in given:
            return f"returns dataset[{given[0]!r}] where dataset[{asked!r}] was requested"
    return None
