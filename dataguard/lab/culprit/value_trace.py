"""Follows all values of a batch through the user's code: what its samples, its rows and its leaves were made of.

A `ValueTrace` keeps what the variables of the user's functions hold after each line: numbers and arrays, alone or in
lists and dictionaries. A `BatchHistory` is asked afterwards, when the batch is known, for the first line after which a
leaf, a row, an order or a size of it existed.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import numpy as np
import torch

from dataguard.core.leaf_paths import key_of
from dataguard.core.model import Undecided
from dataguard.lab.core.leaves import array_of, iter_leaves
from dataguard.lab.core.object_graph import reachable
from dataguard.lab.core.source_location import file_tree
from dataguard.lab.culprit.line_trace import MOST_ENTRIES, MOST_SECONDS, LineTrace, Look, content_of, in_call

MOST_PARTS = 1024
"""Parts of a variable that are kept: the leaves of all samples of a batch."""
MOST_DEPTH = 5
"""How deep lists and dictionaries are entered: the samples of a batch, their fields, and lists in these."""
MOST_KEPT_BYTES = 1 << 28
"""Bytes of copies of arrays, 256 MiB: what exceeds this is not kept, and its line is not found."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A number, an array or a list of numbers that a variable holds at `path`: its identity and a copy of its values.

    The identity of a number is 0.
    """

    path: str
    identity: int
    values: np.ndarray
    is_list: bool = False

    @property
    def first_step(self) -> str:
        """The entry of the variable that it is in: `[3]` of `[3]['label']`."""
        return self.path[: self.path.index("]") + 1] if self.path.startswith("[") else ""


class ValueTrace(LineTrace):
    """Keeps the values of all variables, or of all but single `numbers`, at most for some seconds."""

    def __init__(self, roots: Mapping[str, Any], *, numbers: bool = True) -> None:
        super().__init__(lambda _: None, roots, MOST_SECONDS)
        self._numbers_too = numbers
        self._copies: dict[tuple[int, int], np.ndarray] = {}
        self._bytes = 0

    def _parts_of(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        yield name, value

    def _key_of(self, value: Any, frame: FrameType, name: str) -> Hashable:
        return (self._numbers.get(frame), name) if _is_number(value) else id(value)

    def _content_of(self, value: Any) -> int | None:
        if not self._numbers_too and _is_number(value):
            return None
        parts = [(path, part if _is_number(part) else (id(part), _key(part))) for path, part in parts_of(value)]
        return hash(tuple(parts)) if parts else None

    def _state_of(self, value: Any) -> Hashable | None:
        kept = [(path, part, self._copied(part)) for path, part in parts_of(value)]
        return tuple(
            Part(path, 0 if _is_number(part) else id(part), values, _is_row(part))
            for path, part, values in kept
            if values is not None
        )

    def _copied(self, part: Any) -> np.ndarray | None:
        if _is_number(part):
            return np.asarray(part)
        key = id(part), _key(part)
        if key not in self._copies:
            values = array_of(part)
            if self._bytes + values.nbytes > MOST_KEPT_BYTES:
                return None
            self._bytes += values.nbytes
            self._copies[key] = np.array(values)
            self._kept.append(part)
        return self._copies[key]


def _key(part: Any) -> int:
    """A number for the values of an array or a list of numbers."""
    return hash(tuple(part)) if isinstance(part, list | tuple) else content_of(part) or 0


def parts_of(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The numbers, arrays and lists of numbers in a value; of objects other than lists and dictionaries, nothing.

    A short list of numbers is there as a whole and by its entries, such as the sizes of an image.
    """
    if isinstance(value, torch.Tensor | np.ndarray) or _is_number(value):
        yield path, value
    elif isinstance(value, range) and len(value) <= MOST_PARTS:
        yield path, np.asarray(value)
    elif depth < MOST_DEPTH and isinstance(value, Mapping | list | tuple | deque):
        if _is_row(value):
            yield path, value
            if len(value) > MOST_ENTRIES:
                return
        items: Iterable[Any] = list(value.items()) if isinstance(value, Mapping) else enumerate(list(value))
        count = 0
        for step, item in items:
            for part in parts_of(item, f"{path}[{step!r}]", depth + 1):
                count += 1
                if count > MOST_PARTS:
                    return
                yield part


def _is_row(value: Any) -> bool:
    """Whether a value is a list of numbers, such as the tokens of a text."""
    return isinstance(value, list | tuple) and len(value) > 1 and all(map(_is_number, value))


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float | np.generic) and getattr(value, "dtype", np.dtype(int)).kind in "biuf"


@dataclass(frozen=True, slots=True)
class BatchHistory:
    """The samples and the batch as the user's code made them, and what it held meanwhile.

    `looks` before `collated` are those of reading samples. `of_factory` gives those of one more call of the factory,
    which may have made what samples hold.
    """

    samples: Sequence[Any]
    batch: Any
    looks: Sequence[Look]
    collated: int
    of_factory: Callable[[], Sequence[Look]] = tuple

    def first(self, shows: Callable[[Part], bool], since: int = 0) -> Look | None:
        """The first line after which some part of a variable shows this."""
        return _first(self.looks[since:], shows)

    def line_of_leaf(
        self, path: str, row: int = 0, places: Sequence[int] | None = None, *, collated: bool = False
    ) -> Look | None:
        """The line that made the leaf of a batch or, if not `collated`, the leaf of the sample that its row holds.

        `places` are those of the row at which it is wrong: it is the first line after which they are as in the batch.
        """
        leaves = dict(arrays_in(self.batch))
        if path not in leaves:
            return None
        leaf, values = leaves[path], array_of(leaves[path])
        is_shared = [other for other, held in leaves.items() if held is leaf] != [path]
        source = None if collated else self._sample_leaf(path, row, places)
        if source is not None:
            held, start = source
            inside = None if places is None else [place - start for place in places]
            return self._made_for_sample(path, row, held, None if inside is None else (None, inside))
        if is_shared:
            return self._made_for_key(path, values, places if places is None else (row, list(places)))
        return self._made(
            self.looks,
            leaf,
            None if places is None else (row, list(places)),
            self.batch,
            self._covering(path, row, places),
        )

    def line_in_sample(self, path: str) -> Look | None:
        """The line that made a leaf of the only sample, or an array of which it is the first rows."""
        leaf = dict(arrays_in(self.samples[0])).get(path)
        if leaf is None:
            return None
        values = array_of(leaf)

        def begins_so(part: Part) -> bool:
            rows = part.values
            is_longer = rows.shape[1:] == values.shape[1:] and len(rows) > len(values)
            return is_longer and _equal(rows[: len(values)], values)

        longer = self.first(lambda part: part.values.ndim == values.ndim and begins_so(part)) if values.ndim else None
        return longer or self._made_for_sample(path, 0, leaf, None)

    def line_of_copies(self, path: str) -> Look | None:
        """The first line after which one variable holds the values of a leaf of the only sample twice."""
        values = array_of(dict(arrays_in(self.samples[0]))[path])
        twice = (look for look in self.looks if sum(_equal(part.values, values) for part in parts(look)) > 1)
        return next(twice, None)

    def _made_for_key(self, path: str, values: np.ndarray, at: tuple[int | None, list[int]] | None) -> Look | None:
        """The first look at a leaf by its key: another leaf is the same object."""
        last, is_wanted = key_of(path), _holds(values, at)
        found = (
            look
            for look in self.looks
            for part in parts(look)
            if is_wanted(part) and last in (key_of(part.path), look.name)
        )
        return next(found, None)

    def _made_for_sample(self, path: str, row: int, held: Any, at: tuple[int | None, list[int]] | None) -> Look | None:
        """The first look at a leaf of a sample while that is read; else in the factory, else afterwards."""
        sample, own = self.samples[row], array_of(held)
        look = self._made(self.looks[: self.collated], held, at, sample)
        if look is None and own.ndim:
            key = key_of(path)
            is_alone = not _is_repeated(own, sample)

            def is_made(look: Look, part: Part) -> bool:
                return _equal(part.values, own) and (is_alone or key in (key_of(part.path), look.name))

            found = ((look, part) for look in self.of_factory() for part in parts(look) if is_made(look, part))
            look = next((_at_entry(look, part.path) for look, part in found), None)
        if look is None and not own.ndim:
            look = self._number_returned(own)
        return look or self._made(self.looks[self.collated :], held, at, sample)

    def _number_returned(self, number: np.ndarray) -> Look | None:
        """The line of the first `return` with this number, or that which assigns the variable returned there.

        Numbers have no identity: it counts only if no other part of what is returned has its value.
        """
        for look in self.looks[: self.collated]:
            held = [part.path for part in parts(look) if _equal(part.values, number)]
            if look.name == "return" and len(held) == 1:
                name = _returned_name(look, held[0])
                inside = look.calls[-1][0] if look.calls else None
                assigned = [
                    other
                    for other in self.looks[: self.looks.index(look)]
                    if name and other.name == name and other.calls and other.calls[-1][0] == inside
                ]
                return assigned[-1] if assigned else _at_entry(look, held[0])
        return None

    def _made(
        self,
        looks: Sequence[Look],
        leaf: Any,
        at: tuple[int | None, list[int]] | None,
        whole: Any,
        also: Callable[[Part], bool] = lambda _: False,
    ) -> Look | None:
        """The first look at a leaf in which it has its values in the end, of which some may be selected by `at`.

        It is recognized by its identity. A list that a library converted afterwards is recognized by its values, unless
        they are usual or those of another leaf of the `whole` sample or batch.
        """
        values = array_of(leaf)
        is_wanted, is_repeated = _holds(values, at), _is_repeated(values, whole)
        is_marked = not is_repeated and _is_unlike_others(values)

        def shows(part: Part) -> bool:
            by_content = is_marked and part.is_list and _equal(part.values, values)
            return by_content or also(part) or (part.identity == id(leaf) and is_wanted(part))

        look = _first(looks, shows)
        if look is not None or is_repeated:
            return look
        return _first(looks, lambda part: part.values.ndim > 0 and _equal(part.values, values))

    def _covering(self, path: str, row: int, places: Sequence[int] | None) -> Callable[[Part], bool]:
        """Whether a part holds the row of a leaf, but for padding, with these places, as no other leaf does."""
        leaves = {name: array_of(leaf) for name, leaf in arrays_in(self.batch)}
        if places is None or not _has_rows(leaves[path], len(self.samples)) or leaves[path].ndim != 2:
            return lambda _: False
        content = leaves[path][row]
        held = [one[row] for one in leaves.values() if _has_rows(one, len(self.samples))]
        if sum(_equal(one, content) for one in held) > 1 or not _is_unlike_others(content):
            return lambda _: False

        def covers(part: Part) -> bool:
            if part.values.ndim != 1 or part.values.dtype.kind != content.dtype.kind:
                return False
            start = _start_in(content, part.values)
            return start is not None and all(start <= place < start + part.values.size for place in places)

        return covers

    def _sample_leaf(self, path: str, row: int, places: Sequence[int] | None) -> tuple[Any, int] | None:
        """The leaf of a sample that a row of the batch holds as it is, but for padding, and where it begins there."""
        leaves = {name: array_of(leaf) for name, leaf in arrays_in(self.batch)}
        if row >= len(self.samples) or not _has_rows(leaves[path], len(self.samples)):
            return None
        covered = range(leaves[path][row].size) if places is None else places
        held = [*arrays_in(self.samples[row]), *rows_in(self.samples[row])]
        for name, leaf in sorted(held, key=lambda named: key_of(named[0]) != key_of(path)):
            content = array_of(leaf)
            holders = [
                other
                for other, array in leaves.items()
                if _has_rows(array, len(self.samples)) and _start_in(array[row], content) is not None
            ]
            start = _start_in(leaves[path][row], content)
            is_its_own = content.dtype.kind == leaves[path].dtype.kind and (
                key_of(name) == key_of(path) or holders[:1] == [path]
            )
            if start is None or not is_its_own:
                continue
            if content.ndim != 1 or places is None or all(start <= place < start + len(content) for place in covered):
                return leaf, start
        return None

    def line_of_cut(self, path: str, row: int) -> Look | None:
        """The line of collate_fn after which a row is only the beginning or the end of a leaf of its sample."""
        content = _rowed(array_of(dict(arrays_in(self.batch))[path]))[row]
        whole = [array_of(leaf) for _, leaf in arrays_in(self.samples[row])] if row < len(self.samples) else []
        if any(leaf.shape > content.shape and _start_in(leaf, content) is not None for leaf in whole):
            return self.first(lambda part: _equal(part.values, content), self.collated) or self.line_of_leaf(path)
        return None

    def line_of_sample(self, row: int = 0) -> Look | None:
        """The line that returns a sample."""
        wanted = {id(leaf) for _, leaf in parts_of(self.samples[row]) if not isinstance(leaf, int)}
        returned = [
            look
            for look in self.looks[: self.collated]
            if look.name == "return" and wanted and wanted <= {part.identity for part in parts(look)}
        ]
        return min(returned, key=lambda look: len(look.calls), default=None)

    def line_of_rows(self, rows: Sequence[np.ndarray], since: int | None = None) -> Look | None:
        """The first line of collate_fn after which a variable holds these rows in this order, padded or not."""

        def holds(look: Look) -> bool:
            entries = entries_of(look, len(rows))
            return bool(entries) and all(
                any(_start_in(row, part) is not None for part in entry)
                for row, entry in zip(rows, entries, strict=True)
            )

        since = self.collated if since is None else since
        return next((look for look in self.looks[since:] if holds(look)), None)

    def line_without(self, lost: Iterable[int]) -> Look | None:
        """The line of collate_fn after which a variable holds all samples but the lost ones, to the end."""
        left = set(range(len(self.samples))) - set(lost)
        owners: dict[bytes, set[int]] = {}
        for number, sample in enumerate(self.samples):
            for _, leaf in arrays_in(sample):
                owners.setdefault(_digest(array_of(leaf)), set()).add(number)
        single = {digest: next(iter(numbers)) for digest, numbers in owners.items() if len(numbers) == 1}
        last: dict[tuple[object, str], tuple[int, Look]] = {}
        for position, look in enumerate(self.looks[self.collated :]):
            last[look.calls[-1:], look.name] = position, look
        found = []
        for position, look in last.values():
            rows = [
                row
                for part in parts(look)
                for row in ([part.values, *part.values] if part.values.ndim > 1 else [part.values])
            ]
            if {single[digest] for row in rows if (digest := _digest(row)) in single} == left:
                found.append((position, look))
        return min(found, key=lambda item: item[0])[1] if found else None

    def line_of_both(self, first: str, second: str) -> Look | None:
        """The line of the innermost call that makes two leaves of the batch, in which the later of them is made."""
        looks = [self.line_of_leaf(path, collated=True) for path in (first, second)]
        made = sorted(filter(None, looks), key=self.looks.index)
        if len(made) < 2:
            return made[0] if made else None
        common = [call[0] for call in made[0].calls if call[0] in {other[0] for other in made[1].calls}]
        return in_call(made[1], common[-1]) if common else made[1]


def _first(looks: Sequence[Look], shows: Callable[[Part], bool]) -> Look | None:
    found = ((look, part) for look in looks for part in parts(look) if shows(part))
    return next((_at_entry(look, part.path) for look, part in found), None)


def _holds(values: np.ndarray, at: tuple[int | None, list[int]] | None) -> Callable[[Part], bool]:
    """Whether a part has these values or, if given, those at some places of a row, or of all."""

    def select(array: np.ndarray) -> np.ndarray:
        if at is None:
            return array
        selected: np.ndarray = array[at[1]] if at[0] is None else _rowed(array)[at[0], at[1]]
        return selected

    wanted = select(values)
    return lambda part: part.values.shape == values.shape and _equal(select(part.values), wanted)


def _is_repeated(values: np.ndarray, whole: Any) -> bool:
    """Whether several leaves of a sample or batch have these values."""
    held = [*arrays_in(whole), *rows_in(whole)]
    return sum(_equal(array_of(other), values) for _, other in held) > 1


def _is_unlike_others(values: np.ndarray) -> bool:
    """Whether an array has more than zeros and ones, which masks of the same length share."""
    return values.size > 1 and not bool(np.isin(values, (0, 1)).all())


def _at_entry(look: Look, path: str) -> Look:
    """A look in the line of the entry that it is about, where a dictionary is written over several lines."""
    displays = (value for value in _values_at(look, ast.Return, ast.Assign) if isinstance(value, ast.Dict))
    lines = [entries[path].lineno for entries in map(_entries_by_path, displays) if path in entries]
    return replace(look, line=lines[-1]) if lines else look


def _returned_name(look: Look, path: str) -> str | None:
    """The variable that the statement of a `return` gives at a path, if it is no expression."""
    value = next(_values_at(look, ast.Return), None)
    is_display = isinstance(value, ast.Dict | ast.Tuple | ast.List)
    entry = _entries_by_path(value).get(path) if is_display else value
    return entry.id if isinstance(entry, ast.Name) else None


def _values_at(look: Look, *kinds: type[ast.Return | ast.Assign]) -> Iterator[ast.expr | None]:
    """What the statements of these kinds in the line of a look return or assign."""
    for node in ast.walk(file_tree(look.file)):
        if isinstance(node, kinds) and node.lineno <= look.line <= (node.end_lineno or 0):
            yield node.value


def _entries_by_path(value: ast.expr | None) -> dict[str, ast.expr]:
    """The entries that a dictionary, tuple or list is written with, by their paths."""
    if isinstance(value, ast.Dict):
        pairs = zip(value.keys, value.values, strict=True)
        return {f"[{key.value!r}]": entry for key, entry in pairs if isinstance(key, ast.Constant)}
    if isinstance(value, ast.Tuple | ast.List):
        return {f"[{number}]": entry for number, entry in enumerate(value.elts)}
    return {}


def line_of_size(one: BatchHistory, other: BatchHistory, sizes: tuple[int, int], *, collated: bool) -> Look | None:
    """The first line after which a number or an axis has the first size in one history, and the second in the other."""

    def seen(history: BatchHistory, size: int) -> dict[Hashable, Look]:
        looks = history.looks[history.collated :] if collated else history.looks[: history.collated]
        places: dict[Hashable, Look] = {}
        for look in looks:
            for part in parts(look):
                values = part.values
                axes = [("number", 0)] if not values.ndim and values.dtype.kind in "iu" and int(values) == size else []
                axes += [("axis", axis) for axis, length in enumerate(values.shape) if length == size]
                for kind in axes:
                    places.setdefault((look.file, look.line, look.name, part.path, kind), look)
        return places

    others = seen(other, sizes[1])
    return next((look for place, look in seen(one, sizes[0]).items() if place in others), None)


def looks_of(build: Callable[[], Any] | None) -> Sequence[Look]:
    """What the variables of the user's code hold while the factory runs, for some seconds at most."""
    trace = ValueTrace({}, numbers=False)
    if build is not None:
        with trace.following():
            build()
    return trace.looks


def line_of_array(build: Callable[[], Any], where: str, dtype: str) -> Look | None:
    """The line of the factory after which the array at a path of the loader is stored in a dtype."""
    trace = ValueTrace({})
    with trace.following():
        loader = build()
    if trace.is_cut:
        raise Undecided("the factory takes too long to be followed line by line")
    found = {
        node.path: node.value
        for node in reachable({"dataset": loader.dataset}, lambda value: type(value) is np.ndarray)
    }
    if where not in found:
        return None
    values = found[where]
    return BatchHistory((), None, trace.looks, 0).first(
        lambda part: part.values.dtype == dtype and _equal(part.values, values)
    )


def parts(look: Look) -> tuple[Part, ...]:
    """The numbers and arrays that a variable holds after a line."""
    state: Any = look.state
    return state  # type: ignore[no-any-return] # that of `ValueTrace`


def entries_of(look: Look, count: int) -> list[list[np.ndarray]]:
    """The entries of a list, or the rows of an array, if there are so many; [] otherwise."""
    held = parts(look)
    if held and not held[0].path:
        values = held[0].values
        return [[row] for row in values] if values.ndim and len(values) == count else []
    by_entry: dict[str, list[np.ndarray]] = {}
    for part in held:
        by_entry.setdefault(part.first_step, []).append(part.values)
    return list(by_entry.values()) if len(by_entry) == count else []


def arrays_in(value: Any) -> Iterator[tuple[str, Any]]:
    """The arrays and numbers of a sample or batch."""
    for path, leaf in iter_leaves(value):
        if isinstance(leaf, torch.Tensor):
            if leaf.layout is torch.strided and not leaf.is_nested:
                yield path, leaf
        elif _is_number(leaf) or (isinstance(leaf, np.ndarray) and leaf.dtype != object):
            yield path, leaf


def rows_in(value: Any) -> Iterator[tuple[str, Any]]:
    """The lists of numbers in a sample."""
    return ((path, part) for path, part in parts_of(value) if _is_row(part))


def is_not_finite(part: Part) -> bool:
    """Whether a number or an array holds NaN or infinity."""
    return part.values.dtype.kind == "f" and not bool(np.isfinite(part.values).all())


def _rowed(values: np.ndarray) -> np.ndarray:
    return values[None] if values.ndim == 1 else values


def _has_rows(values: np.ndarray, count: int) -> bool:
    return values.ndim > 0 and len(values) == count


def _start_in(row: np.ndarray, content: np.ndarray) -> int | None:
    """Where a content begins in a row that holds it at its start or its end, after a cast; None if it does not."""
    if row.shape == content.shape:
        return 0 if _equal(row, content) else None
    if row.ndim != content.ndim or not row.ndim or not content.size or content.shape[1:] > row.shape[1:]:
        return None
    length = len(content)
    if length > len(row) or content.shape[1:] != row.shape[1:]:
        near = row[tuple(slice(0, size) for size in content.shape)]
        return 0 if near.shape == content.shape and _equal(near, content) else None
    return 0 if _equal(row[:length], content) else len(row) - length if _equal(row[-length:], content) else None


def _equal(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether two arrays have the same shape and values, in any dtype; NaN equals NaN."""
    if first.shape != second.shape:
        return False
    both_real = first.dtype.kind in "biuf" and second.dtype.kind in "biuf"
    if both_real and first.dtype.kind == "f" and second.dtype.kind == "f":
        return bool(np.array_equal(first.astype(np.float32), second.astype(np.float32), equal_nan=True))
    return bool(np.array_equal(first, second))


def _digest(values: np.ndarray) -> bytes:
    """What arrays of the same shape, dtype and values share; numbers are no arrays."""
    return f"{values.shape}{values.dtype}".encode() + np.ascontiguousarray(values).tobytes() if values.size > 1 else b""
