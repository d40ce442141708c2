"""DG527: leaves that belong together and come from different rows."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.next_rows import is_next
from dataguard.core.incident import observed_or_none
from dataguard.core.leaf_paths import key_of
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, NotTested, Severity, Undecided
from dataguard.settings.contract import names_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dataguard.lab.lab import Lab
    from dataguard.lab.rows.origins import LeafRows, RowOrigins

FEWEST_SAMPLES = 3
"""Samples that show a constant offset; all but one must, since the first or last sample may be padded."""
COMPANIONS = ("mark", "time", "times", "timestamp", "timestamps", "mask", "valid", "weight", "weights")
"""How the leaf that describes each row of another one is named after it: `x_mark` beside `x`."""


@check("DG527", "shifted-rows", Severity.WARNING, since="2026.4")
def dg527_shifted_rows(lab: Lab) -> Judgement:
    """Leaves that belong together come from different rows: a constant offset apart, or in another order.

    Symptom: the model learns less than it could, or to follow instead of to predict: each action is paired with the
        state after it, each value with the time of another one.
    Cause: two slices of one table begin at different rows, as `[t:t + n]` and `[t + 1:t + 1 + n]`; or a column holds
        the next values of another one; or labels were taken from a table before its rows were shuffled or dropped.
    Fix: slice both with the same indices. Which leaves belong together is known by names such as `x` and `x_mark`, or
        declared: `[tool.dataguard.contract] aligned = ["state", "action"]`.
    Links: https://minari.farama.org/main/content/dataset_standards/
    """
    declared = names_in(lab.settings.contract.get("aligned", ()))
    paths = [leaf.path for leaf in lab.epoch.samples[0].leaves] if lab.epoch.samples else []
    pairs = list(_pairs(paths, declared))
    if len(paths) < 2:
        raise NotApplicable("a sample has no two leaves")
    apart = _of_other_rows(lab)
    if apart is not None:
        yield apart
        return Coverage({"leaves": len(paths)})
    try:
        rows = lab.provenance.rows
    except Undecided:
        if pairs:
            raise
        raise NotApplicable("nothing says which leaves belong together: set `aligned` in the contract") from None
    for lookup in rows.lookups:
        yield Finding(
            message=f"sample{lookup.path} comes from row {lookup.row:,} of {lookup.source}, which has the label "
            f"{lookup.other_row:,}, and sample{lookup.other} from row {lookup.other_row:,} of {lookup.other_source}",
            evidence={
                "fix here": f"look up {lookup.source} by position, with `.iloc`, or reset its index before",
                "confirmed by": "changing these rows in memory, and reading the sample again",
            },
            at=lab.places.value(lookup.index, lookup.path) or lab.dataset.location,
            repro=lab.repro.samples(lookup.index),
        )
    if rows.lookups:
        return Coverage({"leaves": len(paths)})
    offsets = {pair: found for pair in product(paths, paths) if (found := offset_of(rows, *pair)) is not None}
    table = {f"sample{path}": offset for (first, path), offset in offsets.items() if first == _reference(offsets)}
    for first, other in pairs:
        offset, shift = offsets.get((first, other), 0), rows.shifts.get((first, other), 0)
        if shift and offset + shift:
            late = offset + shift
            yield Finding(
                message=f"sample{other} holds the values of sample{first}, to which it belongs, from rows {abs(late)} "
                f"{'later' if late > 0 else 'earlier'}",
                evidence={
                    "fix here": f"move the columns that sample{other} comes from by {-shift:+d} rows",
                    "columns": {f"sample{path}": _columns_of(rows, path) for path in (first, other)},
                },
                at=lab.places.value(rows.samples[0].index, other) or lab.dataset.location,
                repro=lab.repro.samples(rows.samples[0].index),
            )
        elif offset and not shift:
            yield Finding(
                message=f"sample{other} comes from rows {abs(offset)} {'later' if offset > 0 else 'earlier'} than "
                f"sample{first}, to which it belongs",
                evidence={
                    "fix here": f"take sample{other} {abs(offset)} rows {'earlier' if offset > 0 else 'later'}",
                    "offsets in rows": {f"sample{first}": 0, f"sample{other}": offset, **table},
                },
                at=lab.places.value(rows.samples[0].index, other) or lab.dataset.location,
                repro=lab.repro.samples(rows.samples[0].index),
            )
    if not offsets:
        raise NotApplicable("no two leaves have positions that come from one row each of tables of one length")
    missing = [name for name in declared if not _named(name, paths)]
    if missing:
        raise NotTested(f"no leaf of a sample is {missing[0]}, which `aligned` in the contract lists")
    shifted = [f"{path} by {offset:+d}" for path, offset in table.items() if offset]
    note = f"offsets in rows, if these belong together: {', '.join(shifted[:4])}" if shifted else None
    return Coverage({"leaves": len({path for pair in offsets for path in pair})}, None if pairs else note)


def _of_other_rows(lab: Lab) -> Finding | None:
    """The finding of features and targets that the factory takes from other rows of a table than one another."""
    found = observed_or_none(lambda: lab.provenance.paired_columns) if lab.dataset.may_load else None
    for pair in found or ():
        if pair.group or 2 * pair.apart < len(pair.rows) or _may_be_next(list(pair.rows.values())):
            continue
        index, (own, other) = next((index, rows) for index, rows in pair.rows.items() if rows[0] != rows[1])
        return Finding(
            message=f"dataset[{index!r}]: sample{pair.features} is from row {own:,} of {Path(pair.source).name}, and "
            f"sample{pair.target} from row {other:,}: in {pair.apart} of {len(pair.rows)} samples they differ",
            evidence={
                "fix here": "take both from one table, after its rows are dropped or shuffled",
                "rows": {f"dataset[{one!r}]": f"{rows[0]} and {rows[1]}" for one, rows in list(pair.rows.items())[:8]},
                "confirmed by": "other values in these rows, before the factory runs",
            },
            at=lab.places.dataset or lab.dataset.location,
            repro=lab.repro.samples(index),
        )
    return None


def _may_be_next(pairs: Sequence[tuple[int, int]]) -> bool:
    """Whether targets are from later rows on purpose, or all from earlier ones in a table whose latest row is first."""
    ordered = sorted(pairs)
    one_way = len({other > own for own, other in pairs}) == 1
    in_order = all(one[1] < other[1] for one, other in pairwise(ordered))
    return is_next(ordered) or (one_way and not in_order)


def _pairs(paths: Sequence[str], declared: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Leaves that belong together: those declared, with the first of them, and companions, with what they describe."""
    named = [path for name in declared for path in _named(name, paths)]
    yield from ((named[0], other) for other in named[1:])
    for path in paths:
        base, _, suffix = key_of(path).rpartition("_")
        yield from ((one, path) for one in paths if base and suffix in COMPANIONS and key_of(one) == base)


def _named(name: str, paths: Sequence[str]) -> list[str]:
    """The leaves of this path or key."""
    return [path for path in paths if name in (path, key_of(path))]


def _columns_of(rows: RowOrigins, path: str) -> str:
    """Where a leaf comes from, with the names of its columns."""
    leaf = next(leaf for sample in rows.samples for leaf in sample.of(path))
    names = [rows.columns[leaf.source][column] for column in leaf.columns]
    return f"{leaf.source}: {', '.join(names)}" if names else leaf.source


def _reference(offsets: dict[tuple[str, str], int]) -> str | None:
    """The leaf whose rows most others share."""
    zeros = Counter(first for (first, _), offset in offsets.items() if not offset)
    return zeros.most_common(1)[0][0] if zeros else next((first for first, _ in offsets), None)


def offset_of(rows: RowOrigins, first: str, other: str) -> int | None:
    """By how many rows one leaf is behind another, position by position; None if that is not constant."""
    if first == other:
        return None
    seen = [
        offset
        for sample in rows.samples
        for offset in {_offset(rows, one, two) for one in sample.of(first) for two in sample.of(other)} - {None}
    ]
    (most, count), *_ = Counter(seen).most_common(1) or [(None, 0)]
    return most if count >= max(FEWEST_SAMPLES, len(rows.samples) - 1) else None


def _offset(rows: RowOrigins, one: LeafRows, other: LeafRows) -> int | None:
    """The constant offset of two leaves in one sample, if they have positions alike, and sources of one length."""
    if len(one.rows) != len(other.rows) or rows.sources.get(one.source) != rows.sources.get(other.source):
        return None
    both = [(a, b) for a, b in zip(one.rows, other.rows, strict=True) if a >= 0 and b >= 0]
    offsets = {b - a for a, b in both}
    return offsets.pop() if len(offsets) == 1 and 2 * len(both) > len(one.rows) else None
