"""Which leaf of a sample is its label, how many classes there are, and which of them were seen. Standard library only.

A label is recognised by type and shape: a few integers beside a larger input. The names of leaves only decide between
several candidates.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dataguard.checks.common.label_kinds import Inputs, Kind, common_kind, kind_of

if TYPE_CHECKING:
    from dataguard.lab.core.index import Index
    from dataguard.lab.core.records import SampleRecord
    from dataguard.lab.core.value_summary import Numbers, ValueSummary
    from dataguard.lab.lab import Lab
    from dataguard.lab.labels.class_names import ClassNames

REPEATS = 0.5
"""The share of distinct values above which a leaf identifies samples and is not a class."""
MOSTLY, NEARLY = 0.5, 0.95
"""The share of valid class indices from which on a leaf counts as a label: if its values repeat, or if not. Chosen, not
derived."""
UNLABELLED = -1
"""The conventional class index of samples without a label."""
VOID = 255
"""The conventional value of pixels without a class in 8-bit masks."""
IGNORED = -100
"""The default `ignore_index` of torch's cross entropy."""
_LABEL = re.compile(r"label|target|class|categor|annotation|\bgt|ground_?truth|\['?y'?\]|\.y$", re.IGNORECASE)
_COUNT = re.compile(r"(?:\b|_)(?:len|length|id|idx|index|offset|timestamp|width|height)(?:e?s)?$", re.IGNORECASE)
"""The end of the name of a length or an identifier."""
_ENTRY = re.compile(r"(?<=.)\[\d+\]")
_NAME = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class Classes:
    """The number of classes, who declares it ("the contract declares"), and whether that is the contract."""

    count: int
    source: str
    declared: bool


@dataclass(frozen=True, slots=True)
class Seen:
    """A sample with a certain label, and the worker and batch in which it was seen, if it was."""

    index: Index
    batch: tuple[int | None, int] | None = None


@dataclass(frozen=True, slots=True)
class Labels:
    """A leaf of integers that may be labels: for each value its count, the number of samples, and the first sample.

    `of` is the number of samples, and `fixed` is set if the leaf has one shape in all of them. `table` is the attribute
    with the labels of all samples, if those were counted.
    """

    path: str
    kind: Kind
    type_name: str
    values: Mapping[int, int]
    samples: Mapping[int, int]
    first: Mapping[int, Seen]
    of: int
    fixed: bool
    table: str | None = None

    @property
    def repeats(self) -> bool:
        """Whether values repeat, as classes do and sample identifiers do not."""
        return self.kind is not Kind.SAMPLE or len(self.values) <= max(REPEATS * self.of, 1)

    @property
    def named(self) -> bool:
        """Whether the leaf has the name of a label."""
        return is_named(self.path)

    def inside(self, count: int) -> float:
        """The share of values that are indices of this many classes, or the next index."""
        known = sum(times for value, times in self.values.items() if 0 <= value <= count or value in _MARKS)
        return known / max(sum(self.values.values()), 1)

    def outside(self, count: int, ignored: Collection[int]) -> list[int]:
        """Values that are not an index of this many classes."""
        return sorted(value for value in self.values if not 0 <= value < count and value not in ignored)


def is_named(path: str) -> bool:
    """Whether a leaf has the name of a label."""
    return bool(_LABEL.search(path))


_MARKS = (UNLABELLED, VOID, IGNORED)


def classes_by_leaf(lab: Lab, found: Sequence[Labels]) -> list[tuple[Classes, list[Labels]]]:
    """How many classes there are, with the leaves that may hold their indices.

    The contract declares it, else the dataset, which may do so for single leaves.
    """
    declared = lab.settings.contract.get("num_classes")
    if declared is not None:
        return [(Classes(int(declared), "the contract declares", declared=True), list(found))]
    class_names = lab.dataset.class_names
    by_leaf = {names.leaf: names for names in class_names if names.leaf is not None}
    single = [(_classes(by_leaf[one.path]), [one]) for one in found if one.path in by_leaf]
    general = [names for names in class_names if names.leaf is None]
    return single or [(_classes(names), list(found)) for names in general[:1]]


def classes_of(lab: Lab) -> Classes | None:
    """How many classes there are, whichever leaf holds them; None if it is unknown or declared for single leaves."""
    found = classes_by_leaf(lab, ())
    return found[0][0] if found else None


def _classes(names: ClassNames) -> Classes:
    return Classes(names.count, f"{names.where} has", declared=False)


def ignored(contract: Mapping[str, Any]) -> tuple[int, ...]:
    """The values that mark no class: `ignore_index` of the contract, or torch's default."""
    given = contract.get("ignore_index", IGNORED)
    return tuple(given) if isinstance(given, list | tuple) else (int(given),)


def samples_of(summaries: Iterable[ValueSummary]) -> list[ValueSummary]:
    """The value summaries of samples, without those of batches."""
    return [one for one in summaries if one.position is not None]


def records_of(lab: Lab) -> dict[tuple[int | None, int, int | None], SampleRecord]:
    """The samples of the epoch by worker, batch and position, the key of value summaries."""
    return {(one.worker, one.batch, one.position): one for one in lab.epoch.samples}


def batches_of(summaries: Iterable[ValueSummary]) -> dict[tuple[int | None, int], ValueSummary]:
    """The value summaries of batches, by worker and number."""
    return {(one.worker, one.batch): one for one in summaries if one.position is None}


def candidates(lab: Lab) -> list[Labels]:
    """The leaves of integers that may be labels, in order."""
    records = records_of(lab)
    found: dict[str, list[tuple[ValueSummary, Numbers]]] = defaultdict(list)
    summaries = samples_of(lab.epoch.value_summaries)
    for one in summaries:
        for numbers in one.numbers:
            found[_ENTRY.sub("[*]", numbers.path)].append((one, numbers))
    named = "num_classes" not in lab.settings.contract
    inputs = {place: Inputs.of(record) for place, record in records.items()}
    labels = []
    for path, seen in found.items():
        # In a scan of all samples, late ones with a new label have no record.
        known = [(numbers, record) for one, numbers in seen if (record := records.get(one.place))]
        kinds = [kind_of(numbers, one.numbers, inputs[one.place]) for one, numbers in seen if one.place in inputs]
        kind = common_kind(kinds, {numbers.shape for _, numbers in seen})
        counted = all(numbers.counts is not None for _, numbers in seen) and not _is_length(path, known, named=named)
        if kind is not None and counted and 2 * len({id(one) for one, _ in seen}) > len(summaries):
            labels.append(_gathered(path, kind, seen))
    return labels


def _is_length(path: str, known: Sequence[tuple[Numbers, SampleRecord]], *, named: bool) -> bool:
    """Whether a leaf is the length of another leaf in every sample or, if `named`, has the name of one or of an id."""
    own = _NAME.findall(path)[-1:]
    if named and own and _COUNT.search(own[0]) and not is_named(own[0]):
        return True
    axes: set[tuple[str, int]] | None = None
    for numbers, record in known if len({numbers.low for numbers, _ in known}) > 1 else ():
        if numbers.size == 1:
            sized = _axes_of_size(numbers.low, path, record)
            axes = sized if axes is None else axes & sized
            if not axes:
                break
    return bool(axes)


def _axes_of_size(size: float, path: str, record: SampleRecord) -> set[tuple[str, int]]:
    """The axes of other leaves of a sample that have this size."""
    others = (leaf for leaf in record.leaves if leaf.path != path)
    return {(leaf.path, axis) for leaf in others for axis, length in enumerate(leaf.shape or ()) if length == size}


def _gathered(path: str, kind: Kind, seen: Sequence[tuple[ValueSummary, Numbers]]) -> Labels:
    values: Counter[int] = Counter()
    samples: Counter[int] = Counter()
    first: dict[int, Seen] = {}
    for one, numbers in seen:
        values.update(numbers.counts or {})
        samples.update((numbers.counts or {}).keys())
        for value in numbers.counts or {}:
            first.setdefault(value, Seen(one.index, (one.worker, one.batch)))
    of = len({id(one) for one, _ in seen})
    return Labels(path, kind, seen[0][1].type_name, values, samples, first, of, len({n.shape for _, n in seen}) == 1)


def of_all_samples(lab: Lab, labels: Labels) -> Labels:
    """The labels of all samples, if the dataset has a table of them that agrees with those seen."""
    if labels.kind is not Kind.SAMPLE or lab.facts.kind == "stream":
        return labels
    seen = [
        (one.index, int(numbers.low))
        for one in samples_of(lab.epoch.value_summaries)
        for numbers in one.numbers
        if numbers.path == labels.path and isinstance(one.index, int)
    ]
    table = lab.dataset.table(tuple(seen))
    if table is None or not table.counts.keys() >= labels.values.keys():
        return labels
    first = {**{value: Seen(index) for value, index in table.first.items()}, **labels.first}
    return replace(
        labels, values=table.counts, samples=table.counts, first=first, of=sum(table.counts.values()), table=table.where
    )


def chosen(found: Sequence[Labels], count: int, *, declared: bool) -> Labels | None:
    """The leaf that holds the labels of this many classes; None if that is ambiguous.

    Among several candidates, one whose values are all in range is chosen, unless a single one has the name of a label.
    """
    fitting = [one for one in found if one.inside(count) >= (MOSTLY if one.repeats else NEARLY)]
    fitting = [one for one in fitting if declared or one.kind is not Kind.TOKEN]
    if declared and not fitting:  # the declared number of classes may be meant for a leaf that is wholly out of range
        fitting = [one for one in found if one.named and one.repeats]
    if len(fitting) < 2:
        return fitting[0] if fitting else None
    named = [one for one in fitting if one.named]
    if len(named) == 1:
        return named[0]
    whole = [one for one in named or fitting if not one.outside(count, _MARKS)]
    return whole[0] if whole else None
