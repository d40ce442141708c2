"""Loaders that read splits of the same data, and how they differ. Standard library only.

`splits_of` finds the loaders to compare and `mismatches` compares them: colours, normalization, sound, class indices,
classes, structure, and ranges of values. Each comparison returns a `Mismatch` or None.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar

from dataguard.checks.common.labels import (
    MARKS,
    Kind,
    Labels,
    candidates,
    ignored,
    records_of,
    samples_of,
    shared_labels,
)
from dataguard.checks.splits.absent_classes import absent_classes
from dataguard.checks.splits.own_statistics import standardized
from dataguard.checks.splits.sound_mismatch import MOST_GAIN, sound_mismatch
from dataguard.core.incident import LoaderFailed, observed_or_none
from dataguard.settings.parsers import EVALUATION
from dataguard.stats.normalization import recovered, shown

if TYPE_CHECKING:
    from dataguard.lab.core.records import BatchRecord, Index, LeafRecord, Numbers
    from dataguard.lab.images.chart_fit import ChannelOrder, Fit
    from dataguard.lab.lab import Lab


T = TypeVar("T")

NEAR_EXACT, NEAR_JITTERED = 0.02, 0.06
"""How far apart two loaders may map black or white, as a share of the range between both."""
DARKENED_SHARE = 0.5
"""The share of its range that jitter of a few levels may leave, if none of the draws kept white as it is."""
RANGE_FACTOR = 40
"""A range of values that is this many times wider than the other loader's is no coincidence: bytes and fractions
differ by 255. A leaf must have as many values for its range to count."""
MOST_ADVANCING = 0.8
"""The share of steps from index to index in one direction above which values are times. Chosen: of values in any order,
half are."""
FEWEST_CLASSES, SHIFT_CHANCE = 3, 1e-5
"""The fewest classes whose labels are compared, and the largest chance that both loaders lack one by accident."""
MOST_SHOWN = 6
"""Classes that a message names."""
FEWEST_SAMPLES = 4
"""The least number of samples that show which index a class name has."""
_CHANNELS = (1, 3, 4)
"""Channels of grey, RGB and RGBA images."""
_ENTRY = re.compile(r"(?<=\])\[\d+\]")


@dataclass(frozen=True, slots=True)
class Mismatch:
    """How a loader differs from another one of the same data: the rest of a message, and what was measured.

    `path` is the leaf that differs, if one line makes it so; class names are numbered where the dataset is made, and a
    "split" is at fault where it is drawn.
    `other`: it is the other loader that is unusual, which has BGR channels, or labels from 1. It is `ambiguous` if the
    difference may be meant.
    """

    kind: str
    fault: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    path: str | None = None
    other: bool = False
    ambiguous: bool = False


def stem(lab: Lab) -> str | None:
    """The common part of the names of splits of the same data; None for a loader whose role is unknown."""
    try:
        facts = lab.facts
    except LoaderFailed:
        return None
    return "" if facts.stem is None and facts.name in lab.settings.roles else facts.stem


def splits_of(lab: Lab) -> tuple[list[Lab], list[Lab]]:
    """The loaders of the target that read other splits of the same data: those before this one, and those after it."""
    own = stem(lab)
    before: list[Lab] = []
    after: list[Lab] = []
    passed = False
    for other in lab.siblings.values():
        passed = passed or other is lab
        if other is not lab and own is not None and stem(other) == own and other.facts.role != lab.facts.role:
            (after if passed else before).append(other)
    return before, after


def mismatches(lab: Lab, other: Lab) -> list[Mismatch]:
    """All differences between two loaders that break a model trained on one and evaluated on the other."""
    found = [
        _orders(lab, other) or _scales(lab, other),
        _sounds(lab, other),
        _class_indices(lab, other),
        _structure(lab, other),
    ]
    if not found[2]:
        found.append(_numberings(lab, other) or _label_values(lab, other))
    found.append(_absent_classes(lab, other))
    if not any(found[position] for position in (0, 1, 3)):
        found.append(_depths(lab, other) or _ranges(lab, other) or _standardizations(lab, other))
    return [one for one in found if one is not None]


def _orders(lab: Lab, other: Lab) -> Mismatch | None:
    """How the order of channels differs."""
    own, theirs = observed_or_none(lambda: lab.images.orders), observed_or_none(lambda: other.images.orders)
    for path, here in (own or {}).items():
        there = (theirs or {}).get(path)
        if there and here.usual != there.usual and not _is_drawn(here, there):
            orders = {lab.facts.name: here.usual, other.facts.name: there.usual}
            shown, before = (f"{one.usual}{' in most draws' if one.others else ''}" for one in (here, there))
            fault = f"has channels {shown} in {path}, {other.facts.name} has {before}"
            leaf = path.removeprefix("sample").removeprefix("batch")
            return Mismatch("colours", fault, {"channel order": orders}, leaf, other=here.usual == "RGB")
    return None


def _is_drawn(one: ChannelOrder, two: ChannelOrder) -> bool:
    """Whether one loader reverses channels at random, which gives the order of the other.

    One that permutes them draws any order: its usual one is that of the images which the augmentation leaves alone.
    """
    return any(
        first.usual in second.others and {*second.others} <= {"RGB", "BGR"}
        for first, second in ((one, two), (two, one))
    )


def _scales(lab: Lab, other: Lab) -> Mismatch | None:
    """How the values of the same colours differ."""
    own, theirs = observed_or_none(lambda: lab.images.charts), observed_or_none(lambda: other.images.charts)
    if own is None or theirs is None:
        return None
    known = {f"{theirs.root}{fit.path}": fit for fit in theirs.fits}
    for fit in own.fits:
        path = f"{own.root}{fit.path}"
        before = known.get(path)
        if before is None or len(before.gains) != len(fit.gains):
            continue
        if fit.is_float == before.is_float and not _alike(fit, before):
            seen = {name: _measured(one) for name, one in ((lab.facts.name, fit), (other.facts.name, before))}
            here = f"maps black to {fit.offsets[0]:.3g} and white to {fit.white[0]:.3g} in {path}"
            there = f"{other.facts.name} to {before.offsets[0]:.3g} and {before.white[0]:.3g}"
            return Mismatch("colours", f"{here}, {there}", seen, fit.path)
    return None


def _alike(one: Fit, two: Fit) -> bool:
    """Whether black and white are mapped to the same values, as far as jitter allows to see."""
    exact = one.exact and two.exact
    spans = [abs(255 * gain) for gain in (*one.gains, *two.gains)]
    near = (NEAR_EXACT if exact else NEAR_JITTERED) * max(spans)
    black, white = (
        max(abs(first - second) for first, second in zip(*ends, strict=True)) <= near
        for ends in ((one.offsets, two.offsets), (one.white, two.white))
    )
    return black and (white or (not exact and min(spans) >= DARKENED_SHARE * max(spans)))


def _measured(fit: Fit) -> str:
    mean, std = recovered(fit.gains, fit.offsets)
    return f"mean {shown(mean)}, standard deviation {shown(std)}"


def _sounds(lab: Lab, other: Lab) -> Mismatch | None:
    """How the same tones differ."""
    own, theirs = observed_or_none(lambda: lab.sound.charts), observed_or_none(lambda: other.sound.charts)
    found = own and theirs and sound_mismatch(lab.facts.name, own, other.facts.name, theirs)
    return Mismatch("sound", *found) if found else None


def _class_indices(lab: Lab, other: Lab) -> Mismatch | None:
    """A class name with another index: as the datasets declare it, or as their samples show it."""
    for numbers in (_declared, _by_folder, _beside):
        own, theirs = observed_or_none(lambda: numbers(lab)), observed_or_none(lambda: numbers(other))  # noqa: B023 - called at once
        if own and theirs:
            unlike = {name: (own[name], theirs[name]) for name in own if name in theirs and own[name] != theirs[name]}
            if unlike:
                name, (here, there) = next(iter(unlike.items()))
                fault = f"assigns index {here} to class {name!r}, {other.facts.name} assigns {there}"
                count = f"{len(unlike)} of {len(own.keys() & theirs.keys())} shared classes"
                return Mismatch("classes", fault, {"classes with different indices": count})
            return None
    return None


def _numberings(lab: Lab, other: Lab) -> Mismatch | None:
    """A name with another number, in a table of any kind from which integers of both loaders come."""
    own, theirs = observed_or_none(lambda: lab.dataset.numberings), observed_or_none(lambda: other.dataset.numberings)
    before = {table.where: table.numbers for table in theirs or ()}
    for table in own or ():
        numbers, known = table.numbers, before.get(table.where, {})
        shared = [name for name in numbers if name in known]
        unlike = [name for name in shared if numbers[name] != known[name]]
        if not unlike:
            continue
        leaves, others = (
            observed_or_none(lambda: one.dataset.numbered_leaves(table.where)) or ()  # noqa: B023 - called at once
            for one in (lab, other)
        )
        both = [leaf for leaf in leaves if leaf in others]
        if both:
            name = unlike[0]
            fault = f"assigns {numbers[name]} to {name!r} in {both[0]}, {other.facts.name} assigns {known[name]}"
            count = f"{len(unlike)} of {len(shared)} shared names"
            return Mismatch("classes", fault, {"numbered by": table.where, "names with different numbers": count})
    return None


def _label_values(lab: Lab, other: Lab) -> Mismatch | None:
    """Labels of which all classes, or all but 0, are one higher than in the other loader."""
    marks = {*ignored(lab.settings.contract), *MARKS}
    for own, before in shared_labels(lab, other):
        if own.kind not in (Kind.SAMPLE, Kind.PIXEL):
            continue
        if own.repeats and before.repeats and _shifted(own, before, marks):
            seen = {name: _extremes(one) for name, one in ((lab.facts.name, own), (other.facts.name, before))}
            here, there = seen.values()
            fault = f"has labels {here} in sample{own.path}, {other.facts.name} {there}"
            samples = {lab.facts.name: own.of, other.facts.name: before.of}
            higher = min(before.values) > min(own.values)
            return Mismatch("classes", fault, {"labels": seen, "samples": samples}, own.path, other=higher)
    return None


def _absent_classes(lab: Lab, other: Lab) -> Mismatch | None:
    """Classes of evaluation that training never sees, as folds of a sorted dataset have them."""
    found = absent_classes(lab, other)
    if found is None:
        return None
    names = ", ".join(map(str, list(found.counts)[:MOST_SHOWN])) + (", ..." if len(found.counts) > MOST_SHOWN else "")
    count = f"{sum(found.counts.values()):,} of {found.of:,} samples"
    fault = f"has {count} of classes that no sample of {other.facts.name} has: "
    evidence = {
        "fix here": "shuffle before the split, or split each class: `stratify=labels`, `StratifiedKFold`",
        f"classes of {other.facts.name}": len(found.trained),
        "labels": f"sample{found.path}",
    }
    return Mismatch("split", f"{fault}{names}", evidence, ambiguous=True)


def _shifted(own: Labels, other: Labels, marks: Collection[int]) -> bool:
    """Whether the classes of one are those of the other plus 1, and it is no chance that each lacks one of them."""
    for dropped in (set(), {0}):
        one, two = ({value for value in labels.values if value not in marks} - dropped for labels in (own, other))
        for higher, lower, high, low in ((one, two, own, other), (two, one, other, own)):
            if len(higher) >= FEWEST_CLASSES and higher == {value + 1 for value in lower}:
                chance = _chance_without(high, low, min(lower)) * _chance_without(low, high, max(higher))
                return chance < SHIFT_CHANCE
    return False


def _chance_without(labels: Labels, other: Labels, value: int) -> float:
    """The chance that as many samples lack a value that is as frequent as in the other loader."""
    return (1 - other.samples[value] / other.of) ** labels.of


def _extremes(labels: Labels) -> str:
    """The least and the largest label."""
    return f"{min(labels.values)} to {max(labels.values)}"


def _declared(lab: Lab) -> Mapping[str, int]:
    return next((names.numbers for names in lab.dataset.class_names if names.numbers), {})


def _by_folder(lab: Lab) -> Mapping[str, int]:
    """The class indices of folders, if all files of a folder have the same one; shared files are left out."""
    files = {sample.index: sample.files for sample in lab.provenance.reads}
    shared = Counter(chain.from_iterable(files.values()))
    folders = {index: {PurePath(file).parent.name for file in own if shared[file] == 1} for index, own in files.items()}
    numbers = [
        (name, number)
        for one in samples_of(lab.epoch.value_summaries)
        for name in folders.get(one.index, ())
        for number in one.numbers
        if number.size == 1 and number.whole and not number.is_float
    ]
    for path in dict.fromkeys(number.path for _, number in numbers):
        found = _function((name, int(number.low)) for name, number in numbers if number.path == path)
        if found:
            return found
    return {}


def _beside(lab: Lab) -> Mapping[str, int]:
    """The class indices of names that are beside them in the same sample."""
    records = records_of(lab)
    labels = [labels.path for labels in candidates(lab) if labels.kind is Kind.SAMPLE]
    strings = dict.fromkeys(leaf.path for one in lab.epoch.samples for leaf in one.leaves if leaf.kind == "str")
    for path in labels:
        for string in strings:
            pairs = []
            for one in samples_of(lab.epoch.value_summaries):
                leaves = records[one.place].leaves if one.place in records else ()
                name = next((leaf.shown.strip("'") for leaf in leaves if leaf.path == string and leaf.shown), None)
                number = next((int(numbers.low) for numbers in one.numbers if numbers.path == path), None)
                pairs.append((name, number))
            found = _function(pairs)
            if found:
                return found
    return {}


def _function(pairs: Iterable[tuple[str | None, int | None]]) -> dict[str, int]:
    """Names with the single index that each has, if no two share one; names with several are left out."""
    numbers: dict[str, set[int]] = defaultdict(set)
    count = 0
    for name, number in pairs:
        if name is not None and number is not None:
            numbers[name].add(number)
            count += 1
    single = {name: next(iter(found)) for name, found in numbers.items() if len(found) == 1}
    own = len(set(single.values())) == len(single)
    return single if own and len(single) > 1 and count >= max(FEWEST_SAMPLES, 2 * len(single) - 1) else {}


def _structure(lab: Lab, other: Lab) -> Mismatch | None:
    """How the inputs of batches differ: in type, position or the order of axes."""
    leaves, other_leaves = _batch(lab), _batch(other)
    if not leaves or not other_leaves:
        return None
    path, other_path = _largest(leaves), _largest(other_leaves)
    leaf, before = leaves[path], other_leaves[other_path]
    name = other.facts.name
    if path != other_path:
        if path.removesuffix("[*]") == other_path.removesuffix("[*]"):  # several views of it, in a list
            return None
        # Crops of another size make another leaf the largest, such as a target image, though each keeps its place:
        # places are exchanged only where shapes are, too.
        alike = [one for one in (path, other_path) if one in leaves and one in other_leaves]
        kept = [one for one in alike if _form(leaves[one]) == _form(other_leaves[one])]
        exchanged = len(alike) == 2 and all(
            _sample_form(leaves[one]) == _sample_form(other_leaves[two]) for one, two in (alike, alike[::-1])
        )
        if exchanged or not kept:
            own, theirs = leaves.keys(), other_leaves.keys()
            renamed = own - theirs == {path} and theirs - own == {other_path}
            fault = f"has its input in batch{path}, {name} in batch{other_path}"
            moved = (renamed or len(alike) == 2) and _form(leaf) == _form(before)
            return Mismatch("structure", fault, path=path) if moved else None
        path = kept[0]
        leaf, before = leaves[path], other_leaves[path]
    if leaf.type_name != before.type_name:
        fault = f"returns batch{path} as {leaf.type_name}, {name} as {before.type_name}"
        return Mismatch("structure", fault, path=path)
    first, second = _channels(leaf), _channels(before)
    if first and second and first != second:
        return Mismatch("structure", f"returns batch{path} {first}, {name} {second}", path=path)
    sides, other_sides = _sides(lab, path), _sides(other, path)
    if first and sides and sides != other_sides and sides == (other_sides or ())[::-1]:
        (height, width), fault = sides, f"returns batch{path} as"
        fault = f"{fault} {height} rows of {width} pixels, {name} as {width} rows of {height}"
        return Mismatch("structure", fault, path=path, ambiguous=True)
    return None


def _sides(lab: Lab, path: str) -> tuple[int, int] | None:
    """The height and width of images in all batches, if they are the same in enough of them."""
    leaves = [leaf for one in lab.epoch.batches for leaf in one.leaves if leaf.path == path]
    sides = {_height_and_width(leaf) for leaf in leaves}
    rows = sum((leaf.shape or (0,))[0] for leaf in leaves)
    return sides.pop() if len(sides) == 1 and rows >= FEWEST_SAMPLES else None


def _height_and_width(leaf: LeafRecord) -> tuple[int, int] | None:
    shape = leaf.shape or ()
    if len(shape) != 4:
        return None
    return (shape[2], shape[3]) if shape[1] in _CHANNELS else (shape[1], shape[2])


def _batch(lab: Lab) -> dict[str, LeafRecord]:
    """The leaves of the first complete batch by path; those of a list share one, which has the largest."""
    batches: list[BatchRecord] = [one for one in lab.epoch.batches if not one.incident and one.leaves]
    leaves: dict[str, LeafRecord] = {}
    for leaf in batches[0].leaves if batches else ():
        path = _ENTRY.sub("[*]", leaf.path)
        if path not in leaves or _size(leaf) > _size(leaves[path]):
            leaves[path] = leaf
    return leaves


def _largest(leaves: Mapping[str, LeafRecord]) -> str:
    return max(leaves, key=lambda path: _size(leaves[path]))


def _size(leaf: LeafRecord) -> int:
    return leaf.size if leaf.shape is not None else 0


def _form(leaf: LeafRecord) -> tuple[str, int]:
    return leaf.type_name, len(leaf.shape or ())


def _sample_form(leaf: LeafRecord) -> tuple[str, tuple[int, ...]]:
    return leaf.type_name, tuple((leaf.shape or ())[1:])


def _channels(leaf: LeafRecord) -> str | None:
    """Where the channels of a batch of images are, and how many there are; None for other batches."""
    shape = leaf.shape or ()
    if len(shape) == 3 and min(shape[1:]) > max(_CHANNELS) and leaf.type_name != "int64":
        return "without a channel axis"
    if len(shape) != 4:
        return None
    first, last = shape[1] in _CHANNELS, shape[3] in _CHANNELS
    if first == last:
        return None
    count = shape[1] if first else shape[3]
    return f"with {count} channel{'s' * (count != 1)} {'first' if first else 'last'}"


def _depths(lab: Lab, other: Lab) -> Mismatch | None:
    """How leaves differ for the same values of 16-bit files: a depth in metres and one in other units."""
    own, theirs = observed_or_none(lambda: lab.files.depth), observed_or_none(lambda: other.files.depth)
    spans = {curve.path: curve.span for curve in theirs.curves} if theirs else {}
    for curve in own.curves if own else ():
        span, before = curve.span, spans.get(curve.path)
        if span and before and not 1 / MOST_GAIN < abs(span / before) < MOST_GAIN:
            seen = {lab.facts.name: float(f"{span:.4g}"), other.facts.name: float(f"{before:.4g}")}
            fault = f"maps 65535 of a 16-bit file to {span:.4g} in {curve.path}, {other.facts.name} to {before:.4g}"
            leaf = curve.path.removeprefix("sample").removeprefix("batch")
            return Mismatch("values", fault, {"value of 65535": seen}, leaf)
    return None


def _standardizations(lab: Lab, other: Lab) -> Mismatch | None:
    """A split for evaluation that is standardized by its own statistics, as the other one is."""
    own = standardized(lab) if lab.facts.role in EVALUATION else None
    theirs = own and standardized(other)
    if not own or not theirs or own.path != theirs.path:
        return None
    counts = [one.columns[0].count for one in (own, theirs)]
    fault = (
        f"is standardized by its own statistics: all {len(own.columns)} columns of sample{own.path} have mean 0 and "
    )
    rest = f"standard deviation 1 over its {counts[0]:,} samples, and over the {counts[1]:,} of"
    return Mismatch("values", f"{fault}{rest} {other.facts.name}", path=own.path, ambiguous=True)


def _ranges(lab: Lab, other: Lab) -> Mismatch | None:
    """Very different ranges of values in a leaf of samples: of its input or, which may be meant, of another one."""
    own, theirs = _values(lab), _values(other)
    largest = [next(iter(found), None) for found in (own, theirs)]
    for path in own:
        if path not in theirs:
            continue
        is_input = [path, path] == largest
        here, there = own[path], theirs[path]
        found = _wider(here.outer, there.outer) if is_input else here.differs(there)
        if found:
            (low, high), (below, above) = (one.outer for one in (here, there))
            shown = f"{other.facts.name} from {below:.4g} to {above:.4g}"
            fault = f"has values from {low:.4g} to {high:.4g} in sample{path}, {shown}"
            return Mismatch("values", fault, path=path, ambiguous=not is_input)
    return None


@dataclass(frozen=True, slots=True)
class _Values:
    """The values of a float leaf: the `outer` ones, and the `inner` ones between which most samples lie.

    `advancing`: they rise or fall from index to index, as times do.
    """

    outer: tuple[float, float]
    inner: tuple[float, float]
    advancing: bool

    def differs(self, other: _Values) -> bool:
        """Whether units differ, and not only how much of a range is covered.

        Values are larger by the same factor as their range is wider, or lie on both sides of zero.
        """
        if self.advancing or other.advancing or not _wider(self.inner, other.inner):
            return False
        if all(one.inner[0] < 0 < one.inner[1] for one in (self, other)):
            return True
        near, far = sorted(abs(sum(one.inner)) for one in (self, other))
        (_, low), (high, _) = sorted((self.inner, other.inner))
        return low < high and far >= RANGE_FACTOR * near


def _wider(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether one of two ranges is much wider than the other, neither of which is a single value."""
    narrow, wide = sorted(high - low for low, high in (one, other))
    return narrow > 0 and wide >= RANGE_FACTOR * narrow


def _values(lab: Lab) -> dict[str, _Values]:
    """The float leaves of samples with enough values, the largest first."""
    seen: dict[str, list[tuple[Index, Numbers]]] = defaultdict(list)
    for sample in samples_of(lab.epoch.value_summaries):
        for one in sample.numbers:
            if one.is_float:
                seen[one.path].append((sample.index, one))
    sizes = {path: max(one.size for _, one in found) for path, found in seen.items()}
    return {
        path: _values_in(seen[path])
        for path in sorted(seen, key=lambda path: -sizes[path])
        if sizes[path] * len(seen[path]) >= RANGE_FACTOR and len(seen[path]) >= FEWEST_SAMPLES
    }


def _values_in(seen: Sequence[tuple[Index, Numbers]]) -> _Values:
    lows, highs = sorted(one.low for _, one in seen), sorted(one.high for _, one in seen)
    cut = len(seen) // 10  # so that a few extreme values are not the range
    indexed = [(index, one.low + one.high) for index, one in seen if isinstance(index, int)]
    middles = [middle for _, middle in sorted(indexed)]
    rising = sum(one < two for one, two in pairwise(middles))
    falling = sum(one > two for one, two in pairwise(middles))
    advancing = max(rising, falling) > MOST_ADVANCING * (rising + falling)
    return _Values((lows[0], highs[-1]), (lows[cut], highs[-1 - cut]), advancing)
