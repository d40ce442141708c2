"""Which leaf of a sample is its label, how many classes there are, and which of them occur. Standard library only.

`candidates` lists the leaves of integers that may be labels, by type and shape: a few integers beside a larger input.
What such an integer may label, a sample, box, token or pixel, is its `Kind`. `classes_by_leaf` and `inferred` say how
many classes there are, and `chosen` which candidate holds their indices; names of leaves only decide between several.
`out_of_range` and `balance` are what checks report about it.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataguard.lab.core.records import Index, LeafRecord, Numbers, SampleRecord, ValueSummary
    from dataguard.lab.lab import Lab
    from dataguard.lab.labels.declared_labels import ClassNames


class Kind(Enum):
    """What has one label each."""

    SAMPLE = "sample"
    BOX = "box"
    TOKEN = "token"
    PIXEL = "pixel"


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
        return self.kind is not Kind.SAMPLE or len(self.values) <= max(MOST_DISTINCT * self.of, 1)

    @property
    def named(self) -> bool:
        """Whether the leaf has the name of a label."""
        return is_named(self.path)

    def inside(self, count: int) -> float:
        """The share of values that are indices of this many classes, or the next index."""
        valid = sum(times for value, times in self.values.items() if 0 <= value <= count or value in MARKS)
        return valid / max(sum(self.values.values()), 1)

    def outside(self, count: int, ignored: Collection[int]) -> list[int]:
        """Values that are not an index of this many classes."""
        return sorted(value for value in self.values if not 0 <= value < count and value not in ignored)


MOST_DISTINCT = 0.5
"""The share of distinct values above which a leaf identifies samples and is not a class. Chosen: classes of which most
have one sample are lost, identifiers that repeat are taken for classes."""


def is_named(path: str) -> bool:
    """Whether a leaf has the name of a label."""
    return bool(_LABEL.search(path))


_LABEL = re.compile(r"label|target|class|categor|annotation|\bgt|ground_?truth|\['?y'?\]|\.y$", re.IGNORECASE)
UNLABELLED = -1
"""The conventional class index of samples without a label."""
VOID = 255
"""The conventional value of pixels without a class in 8-bit masks."""
IGNORED = -100
"""The default `ignore_index` of torch's cross entropy."""
MARKS = (UNLABELLED, VOID, IGNORED)
"""Values that by convention mark no class."""


def ignored(contract: Mapping[str, Any]) -> tuple[int, ...]:
    """The values that mark no class: `ignore_index` of the contract, or torch's default."""
    given = contract.get("ignore_index", IGNORED)
    return tuple(given) if isinstance(given, list | tuple) else (int(given),)


def candidates(lab: Lab) -> list[Labels]:
    """The leaves of integers that may be labels, in order."""
    records = records_of(lab)
    by_path: dict[str, list[tuple[ValueSummary, Numbers]]] = defaultdict(list)
    summaries = samples_of(lab.epoch.value_summaries)
    for summary in summaries:
        for numbers in summary.numbers:
            by_path[ENTRY.sub("[*]", numbers.path)].append((summary, numbers))
    named = "num_classes" not in lab.settings.contract
    inputs = {sample_key: Inputs.of(record) for sample_key, record in records.items()}
    labels = []
    for path, seen in by_path.items():
        # In a scan of all samples, late ones with a new label have no record.
        with_records = [(numbers, record) for summary, numbers in seen if (record := records.get(summary.place))]
        kinds = [
            kind_of(numbers, summary.numbers, inputs[summary.place])
            for summary, numbers in seen
            if summary.place in inputs
        ]
        kind = common_kind(kinds, {numbers.shape for _, numbers in seen})
        counted = all(numbers.counts is not None for _, numbers in seen) and not _is_length(
            path, with_records, named=named
        )
        if kind is not None and counted and 2 * len({id(summary) for summary, _ in seen}) > len(summaries):
            labels.append(_gathered(path, kind, seen))
    return labels


ENTRY = re.compile(r"(?<=.)\[\d+\]")
"""The index of an entry in a list that is itself a part of the sample."""


def samples_of(summaries: Iterable[ValueSummary]) -> list[ValueSummary]:
    """The value summaries of samples, without those of batches."""
    return [summary for summary in summaries if summary.position is not None]


def records_of(lab: Lab) -> dict[tuple[int | None, int, int | None], SampleRecord]:
    """The samples of the epoch by worker, batch and position, the key of value summaries."""
    return {(sample.worker, sample.batch, sample.position): sample for sample in lab.epoch.samples}


def batches_of(summaries: Iterable[ValueSummary]) -> dict[tuple[int | None, int], ValueSummary]:
    """The value summaries of batches, by worker and number."""
    return {(summary.worker, summary.batch): summary for summary in summaries if summary.position is None}


@dataclass(frozen=True, slots=True)
class Inputs:
    """The leaves of a sample that may be inputs: whether one is `large`, and the `lists` of numbers, by path."""

    leaves: Sequence[LeafRecord]
    large: bool
    lists: Collection[str]

    @classmethod
    def of(cls, record: SampleRecord) -> Inputs:
        """Those of one sample."""
        entries = (leaf.path for leaf in record.leaves if leaf.kind == "int")
        lists = Counter(_LAST.sub("", path) for path in entries if _LAST.search(path))
        long = {path for path, length in lists.items() if length >= SMALLER}
        return cls(record.leaves, any(map(_is_input, record.leaves)), long)


SMALLER = 8
"""A label of several values is at least this many times smaller than its input."""
_LAST = re.compile(r"\[\d+\]$")


def _is_input(leaf: LeafRecord) -> bool:
    """Whether a leaf is large enough to be the input of one label: many values, or a string."""
    return leaf.size >= SMALLER if leaf.shape is not None else leaf.kind in ("str", "bytes")


def kind_of(numbers: Numbers, beside: Sequence[Numbers], inputs: Inputs) -> Kind | None:
    """What these integers may label, by their shape and by the leaves beside them."""
    if numbers.is_float or numbers.type_name == "bool":
        return None
    shape = numbers.shape
    others = [other for other in beside if other is not numbers]
    if len(shape) == 1 and any(boxes.shape == (*shape, 4) for boxes in others):
        return Kind.BOX
    if numbers.size == 1:
        # A number may also be beside, and not in, a list of numbers as long as an input, such as tokens.
        beside_list = bool(inputs.lists) and _LAST.sub("", numbers.path) not in inputs.lists
        return Kind.SAMPLE if inputs.large or _is_row(others) or beside_list else None
    if len(shape) == 1:
        return Kind.TOKEN if any(tokens.shape == shape and not tokens.is_float for tokens in others) else None
    height_width = shape if len(shape) == 2 else shape[1:] if len(shape) == 3 and shape[0] == 1 else None
    images = [leaf for leaf in inputs.leaves if leaf.path != numbers.path and _is_image_of(leaf, height_width)]
    return Kind.PIXEL if height_width and images else None


def _is_row(beside: Sequence[Numbers]) -> bool:
    """Whether only a short row of floats is beside a number: the input from a table with few columns."""
    return len(beside) == 1 and beside[0].is_float and 1 < beside[0].size == beside[0].shape[-1]


def _is_image_of(leaf: LeafRecord, height_width: tuple[int, ...] | None) -> bool:
    shape = leaf.shape or ()
    if height_width is None:
        return False
    if leaf.kind == "PIL.Image":
        return shape[::-1] == height_width
    return len(shape) == 3 and height_width in (shape[1:], shape[:2])


def common_kind(kinds: Sequence[Kind | None], shapes: Collection[tuple[int, ...]]) -> Kind | None:
    """The kind of a leaf if it is the same in all samples; beside a single number, some inputs may be too short."""
    certain = set(kinds) - {None}
    short = kinds.count(None)
    if len(certain) != 1 or (short and (certain != {Kind.SAMPLE} or len(shapes) > 1 or 2 * short > len(kinds))):
        return None
    return certain.pop()


def _is_length(path: str, with_records: Sequence[tuple[Numbers, SampleRecord]], *, named: bool) -> bool:
    """Whether a leaf is the length of another leaf in every sample or, if `named`, has the name of one or of an id."""
    last_name = _NAME.findall(path)[-1:]
    if named and last_name and _COUNT.search(last_name[0]) and not is_named(last_name[0]):
        return True
    axes: set[tuple[str, int]] | None = None
    for numbers, record in with_records if len({numbers.low for numbers, _ in with_records}) > 1 else ():
        if numbers.size == 1:
            sized = _axes_of_size(numbers.low, path, record)
            axes = sized if axes is None else axes & sized
            if not axes:
                break
    return bool(axes)


_COUNT = re.compile(r"(?:\b|_)(?:len|length|id|idx|index|offset|timestamp|width|height)(?:e?s)?$", re.IGNORECASE)
"""The end of the name of a length or an identifier."""
_NAME = re.compile(r"[^\W\d]\w*")


def _axes_of_size(size: float, path: str, record: SampleRecord) -> set[tuple[str, int]]:
    """The axes of other leaves of a sample that have this size."""
    others = (leaf for leaf in record.leaves if leaf.path != path)
    return {(leaf.path, axis) for leaf in others for axis, length in enumerate(leaf.shape or ()) if length == size}


def _gathered(path: str, kind: Kind, seen: Sequence[tuple[ValueSummary, Numbers]]) -> Labels:
    values: Counter[int] = Counter()
    samples: Counter[int] = Counter()
    first: dict[int, Seen] = {}
    for summary, numbers in seen:
        values.update(numbers.counts or {})
        samples.update((numbers.counts or {}).keys())
        for value in numbers.counts or {}:
            first.setdefault(value, Seen(summary.index, (summary.worker, summary.batch)))
    of = len({id(summary) for summary, _ in seen})
    return Labels(path, kind, seen[0][1].type_name, values, samples, first, of, len({n.shape for _, n in seen}) == 1)


@dataclass(frozen=True, slots=True)
class Classes:
    """The number of classes, who declares it ("the contract declares"), and whether that is the contract."""

    count: int
    source: str
    declared: bool


def classes_by_leaf(lab: Lab, leaves: Sequence[Labels]) -> list[tuple[Classes, list[Labels]]]:
    """How many classes there are, with the leaves that may hold their indices.

    The contract declares it, else the dataset, which may do so for single leaves.
    """
    declared = lab.settings.contract.get("num_classes")
    if declared is not None:
        return [(Classes(int(declared), "the contract declares", declared=True), list(leaves))]
    class_names = lab.dataset.class_names
    by_leaf = {names.leaf: names for names in class_names if names.leaf is not None}
    single = [(_classes(by_leaf[labels.path]), [labels]) for labels in leaves if labels.path in by_leaf]
    general = [names for names in class_names if names.leaf is None]
    return single or [(_classes(names), list(leaves)) for names in general[:1]]


def _classes(names: ClassNames) -> Classes:
    return Classes(names.count, f"{names.where} has", declared=False)


def classes_of(lab: Lab) -> Classes | None:
    """How many classes there are, whichever leaf holds them; None if it is unknown or declared for single leaves."""
    by_count = classes_by_leaf(lab, ())
    return by_count[0][0] if by_count else None


def labels_by_index(lab: Lab, path: str) -> list[tuple[int, int]]:
    """The index of each sample that was seen, and its label in the leaf at this path."""
    return [
        (summary.index, int(numbers.low))
        for summary in samples_of(lab.epoch.value_summaries)
        for numbers in summary.numbers
        if numbers.path == path and isinstance(summary.index, int)
    ]


def shared_labels(lab: Lab, other: Lab) -> Iterator[tuple[Labels, Labels]]:
    """The leaves that may be labels of one kind in both loaders, and have the name of a label or none."""
    theirs = {labels.path: labels for labels in candidates(other)}
    for own in candidates(lab):
        before = theirs.get(own.path)
        if before is not None and own.kind is before.kind and is_presumed_label(lab, own.path):
            yield own, before


def of_all_samples(lab: Lab, labels: Labels) -> Labels:
    """The labels of all samples, if the dataset has a table of them that agrees with those seen."""
    if labels.kind is not Kind.SAMPLE or lab.facts.kind == "stream":
        return labels
    table = lab.dataset.table(tuple(labels_by_index(lab, labels.path)))
    if table is None or not table.counts.keys() >= labels.values.keys():
        return labels
    first = {**{value: Seen(index) for value, index in table.first.items()}, **labels.first}
    return replace(
        labels,
        type_name=table.type_name,
        values=table.counts,
        samples=table.counts,
        first=first,
        of=sum(table.counts.values()),
        table=table.where,
    )


def chosen(leaves: Sequence[Labels], count: int, *, declared: bool) -> Labels | None:
    """The leaf that holds the labels of this many classes; None if that is ambiguous.

    Among several candidates, one whose values are all in range is chosen, unless a single one has the name of a label.
    """
    fitting = [
        labels
        for labels in leaves
        if labels.inside(count) >= (VALID_IF_REPEATING if labels.repeats else VALID_IF_DISTINCT)
    ]
    fitting = [labels for labels in fitting if declared or labels.kind is not Kind.TOKEN]
    if declared and not fitting:  # the declared number of classes may be meant for a leaf that is wholly out of range
        fitting = [labels for labels in leaves if labels.named and labels.repeats]
    if len(fitting) < 2:
        return fitting[0] if fitting else None
    named = [labels for labels in fitting if labels.named]
    if len(named) == 1:
        return named[0]
    whole = [labels for labels in named or fitting if not labels.outside(count, MARKS)]
    return whole[0] if whole else None


VALID_IF_REPEATING, VALID_IF_DISTINCT = 0.5, 0.95
"""The share of valid class indices from which on a leaf counts as a label: if its values repeat, or if not. Chosen, not
derived."""


def balance(labels: Labels, void: Collection[int], classes: Classes | None = None) -> str:
    """The number of samples per class in one line; for pixels, boxes and tokens, the samples that contain the class."""
    limit = math.inf if classes is None else classes.count
    counts = {value: labels.samples[value] for value in sorted(labels.samples) if 0 <= value < limit}
    if not counts:
        return f"sample{labels.path} has no class"
    number = f"{len(counts)} classes" if len(counts) != 1 else "one class"
    seen = number if classes is None or classes.count == len(counts) else f"{len(counts)} of {limit} classes"
    if len(counts) <= MOST_LISTED:
        table = ", ".join(f"{value} × {times}" for value, times in counts.items())
    else:
        rarest = min(counts, key=lambda value: counts[value])
        table = f"{min(counts.values())} to {max(counts.values())} of each, the rarest is {rarest}"
    marks = [value for value in labels.values if value in void and not 0 <= value <= limit]
    verb = "marks" if len(marks) == 1 else "mark"
    unlabelled = f"; {' and '.join(map(str, marks))} {verb} no class" if marks else ""
    return f"sample{labels.path} has {seen} in {labels.of} samples: {table}{unlabelled}"


MOST_LISTED = 12
"""Up to this many classes, the count of each is listed: what fits into a line or two."""


def meaningless(contract: Mapping[str, Any], labels: Labels, classes: Classes) -> tuple[int, ...]:
    """The values of a label that may mark no class, or a background class that is not counted."""
    void, declared = ignored(contract), classes.declared
    if labels.kind is Kind.PIXEL and "ignore_index" not in contract:
        undivided = set(labels.values) == {0, VOID} and labels.type_name != "uint8"
        background = () if declared or 0 not in labels.values else (classes.count,)  # class names may omit it
        return (*void, *background, *(() if declared else (UNLABELLED,)), *(() if undivided or declared else (VOID,)))
    if declared:
        return void
    if labels.kind is Kind.BOX:  # torchvision's detectors count a background first
        return (*void, classes.count, *((UNLABELLED,) if labels.fixed else ()))
    signs = set(labels.values) == {-1, 1} and classes.count == 2
    unlabelled = 2 * labels.values.get(UNLABELLED, 0) >= sum(labels.values.values())
    return (*void, UNLABELLED) if signs or unlabelled else void


def inferred(lab: Lab, leaves: Sequence[Labels]) -> tuple[Labels, Classes] | None:
    """The likely number of classes if it is not declared, and if some labels are then out of range.

    Only a leaf with the name of a label counts, or one without a name that is not beside tokens, whose next one it may
    be. Every value must occur in several samples, and enough samples were seen that a gap is no coincidence.
    """
    likely = [candidate for candidate in leaves if candidate.repeats and candidate.kind in (Kind.SAMPLE, Kind.PIXEL)]
    labels = likely[0] if len(likely) == 1 else None
    if labels is None or not is_presumed_label(lab, labels.path) or _may_be_validity(lab, labels):
        return None
    numbers = sorted(labels.values)
    count = sum(number >= 0 for number in numbers)
    often = min(labels.samples.values()) >= FEWEST_PER_VALUE and labels.of >= MEAN_PER_VALUE * len(numbers)
    if not often or count < 2 or not _is_odd(labels, numbers, count):
        return None
    return labels, Classes(count, "the labels look like", declared=False)


def _may_be_validity(lab: Lab, labels: Labels) -> bool:
    """Whether a leaf of pixels may say which pixels of another target count: it has two values and no name.

    Beside an input alone, it is the target; beside two leaves of its height and width, one of them may be.
    """
    if labels.kind is not Kind.PIXEL or len(labels.values) != 2 or is_named(labels.path):
        return False
    shapes = {leaf.path: leaf.shape or () for leaf in lab.epoch.samples[0].leaves}
    own = shapes.get(labels.path, ())[-2:]
    return sum(own in (shape[-2:], shape[:2]) for path, shape in shapes.items() if path != labels.path) > 1


FEWEST_PER_VALUE, MEAN_PER_VALUE = 4, 8
"""The least number of samples with each value, and of samples per value."""


def is_presumed_label(lab: Lab, path: str) -> bool:
    """Whether a leaf has the name of a label, or no name in samples without tokens."""
    return is_named(path) or (bool(_LAST.match(path)) and not _has_tokens(lab))


def _has_tokens(lab: Lab) -> bool:
    """Whether a sample holds a row of integers, like tokens."""
    leaves = lab.epoch.samples[0].leaves
    return any(len(leaf.shape or ()) == 1 and leaf.size >= SMALLER and "int" in (leaf.dtype or "") for leaf in leaves)


def _is_odd(labels: Labels, numbers: Sequence[int], count: int) -> bool:
    """Whether these values are not 0 to count - 1: they start at 1, have gaps, or include a mark for no class."""
    if labels.kind is Kind.PIXEL:  # a rare class is in few masks, and 255 marks edges
        undivided = numbers == [0, VOID] and labels.type_name != "uint8"
        return undivided or numbers == list(range(1, count + 1))
    marked = numbers == list(range(UNLABELLED, count)) and 2 * labels.values[UNLABELLED] < sum(labels.values.values())
    return marked or numbers[0] == 1 == numbers[-1] - count + 1 or (numbers[0] >= 0 and _has_gaps(numbers))


def _has_gaps(numbers: Sequence[int]) -> bool:
    return numbers[-1] - numbers[0] >= len(numbers)


def balance_without_count(lab: Lab, leaves: Sequence[Labels]) -> str | None:
    """The class balance of the only likely label if the number of classes is unknown."""
    likely = [labels for labels in leaves if labels.repeats and labels.kind is Kind.SAMPLE and len(labels.values) > 1]
    return balance(of_all_samples(lab, likely[0]), ignored(lab.settings.contract)) if len(likely) == 1 else None


def out_of_range(lab: Lab, labels: Labels, classes: Classes) -> list[int]:
    """The values out of range that reach a batch."""
    void = meaningless(lab.settings.contract, labels, classes)
    return [value for value in labels.outside(classes.count, void)[:MOST_TRACED] if _arrives(lab, labels, value)]


MOST_TRACED = 8
"""At most this many values out of range are followed into batches: each may cost a read."""


def _arrives(lab: Lab, labels: Labels, value: int) -> bool:
    """Whether a value of a sample is still in its batch, so that collate_fn does not map it."""
    seen = labels.first[value]
    if seen.batch is None:
        plain = lab.facts.default_collate or not lab.facts.batched
        numbers = lab.dataset.numbers(seen.index) if plain else ()
        return any(leaf.path == labels.path and leaf.low == value for leaf in numbers)
    batch = batches_of(lab.epoch.value_summaries).get(seen.batch)
    holding = (leaf for leaf in batch.numbers if leaf.low <= value <= leaf.high) if batch else ()
    return batch is None or any(leaf.counts is None or value in leaf.counts for leaf in holding)
