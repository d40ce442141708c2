"""The line of the user's code after which a batch, or what it is made of, is wrong; see `BatchLines`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dataguard.core.model import NotApplicable
from dataguard.lab.batches.batch_rows import INTEGERS, columns, content_of, holds, sample_contents
from dataguard.lab.batches.collate_trials import choose
from dataguard.lab.core.leaves import array_of, iter_leaves, leaves_of
from dataguard.lab.core.records import Index
from dataguard.lab.culprit.line_trace import Look, Traced, line_of_change
from dataguard.lab.culprit.value_trace import BatchHistory, is_not_finite, line_of_size, parts
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.followed_batch import follow_batch, follow_getitems, follow_sample
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rng.rng_discovery import SEED, seeded
from dataguard.lab.subject import Subject
from dataguard.targets.variants import Loader

FEW_FOLLOWED = 4
"""Samples of a batch in which a leaf is followed that all batches have."""


@dataclass(frozen=True, slots=True)
class BatchLines:
    """Follows one batch of the loader for a finding about it. `indices` are those of the samples that were collated."""

    subject: Subject

    def of_leaf(self, name: str, indices: Sequence[Index]) -> Traced | None:
        """The line of collate_fn that makes a leaf of a batch; `name` may be that of one of its columns."""
        path = _path(name)
        return self._line("leaf", path, indices, lambda history: history.line_of_leaf(path, collated=True))

    def of_row(self, path: str, indices: Sequence[Index]) -> Traced | None:
        """The line that makes what the first row of a leaf holds: of the dataset, or else of collate_fn."""
        return self._line("row", path, indices, lambda history: history.line_of_leaf(path))

    def of_not_finite(self, indices: Sequence[Index]) -> Traced | None:
        """The line of collate_fn after which a value is NaN or infinite."""
        return self._line("not finite", "", indices, lambda history: history.first(is_not_finite, history.collated))

    def of_both(self, first: str, second: str, indices: Sequence[Index] = ()) -> Traced | None:
        """The line of the function that makes two leaves, in which the later one is made."""
        paths = _path(first), _path(second)
        return self._line("both", paths, indices or self._few, lambda history: history.line_of_both(*paths))

    def of_order(self, names: tuple[str, str], indices: Sequence[Index]) -> Traced | None:
        """The line after which the rows of one of two leaves are in another order than the samples."""
        return self._line("order", names, indices, partial(_line_of_order, names=names))

    def of_loss(self, lost: Sequence[int], indices: Sequence[Index]) -> Traced | None:
        """The line after which the samples at these positions are missing."""
        return self._line("loss", lost, indices, lambda history: history.line_without(lost))

    def of_cast(self, path: str, indices: Sequence[Index]) -> Traced | None:
        """The line after which this leaf of all samples has integers, that are not its values."""
        return self._line("cast", path, indices, partial(_line_of_cast, path=path))

    def of_rows(self, name: str, indices: Sequence[Index]) -> Traced | None:
        """The line of collate_fn after which the rows of a leaf exist as they are, but for padding."""
        return self._line("rows", name, indices, partial(_line_of_rows, name=name))

    def of_getitems(self, indices: Sequence[Index]) -> Traced | None:
        """The line after which `__getitems__` has other samples than those requested."""
        return self._line("getitems", "", indices, _line_of_misreading, follow_getitems)

    def of_writing(self, index: Index) -> Traced | None:
        """The line of collate_fn that writes into the sample of an index."""
        subject = self.subject
        few = [index, *(other for other in self._few if other != index)]
        return subject.observe(("writing", index), lambda folder: _line_of_writing(subject.build(), folder, few))

    def of_width(self, name: str, long: Index, short: Index, width: int) -> Traced | None:
        """The line of collate_fn after which a width of a leaf follows the shorter one of two samples."""
        path = _path(name)

        def follow(loader: Loader, folder: Path, pair: Sequence[Index]) -> BatchHistory:
            alone = follow_batch(loader, folder, (pair[0], pair[0]))
            for order in (pair[::-1], pair):
                history = follow_batch(loader, folder, order)
                row = array_of(dict(iter_leaves(history.batch))[path])[order.index(pair[0])]
                if row.size == width:
                    break
            full = array_of(dict(iter_leaves(alone.batch))[path])[0]
            sizes = next((both for both in zip(row.shape, full.shape, strict=True) if both[0] != both[1]), None)
            look = line_of_size(history, alone, sizes, collated=True) if sizes else None
            return BatchHistory(history.samples, history.batch, [look] if look else [], 0)

        return self._line("width", (path, width), (long, short), _only, follow)

    def of_size(self, path: str, odd: Index, usual: Index) -> Traced | None:
        """The line after which a leaf of a sample has another size than that of a usual sample."""

        def follow(loader: Loader, folder: Path, pair: Sequence[Index]) -> BatchHistory:
            first, second = (follow_sample(loader, folder, index) for index in pair)
            shapes = [array_of(dict(iter_leaves(one.samples[0]))[path]).shape for one in (first, second)]
            sizes = next((both for both in zip(*shapes, strict=False) if both[0] != both[1]), None)
            look = line_of_size(first, second, sizes, collated=False) if sizes else None
            look = look or first.line_of_sample()
            return BatchHistory(first.samples, None, [look] if look else [], 0)

        return self._line("size", path, (odd, usual), _only, follow)

    def of_double(self, path: str) -> Traced | None:
        """The line after which a leaf is float64: that of the dataset, if its samples are."""
        return self._line("double", path, self._few, partial(_line_of_double, path=path))

    @property
    def _few(self) -> Sequence[Index]:
        return choose(self.subject.epoch)[:FEW_FOLLOWED]

    def _line(
        self,
        what: str,
        key: Hashable,
        indices: Sequence[Index],
        find: Callable[[BatchHistory], Look | None],
        follow: Callable[[Loader, Path, Sequence[Index]], BatchHistory] = follow_batch,
    ) -> Traced | None:
        if not self.subject.facts.batched:
            raise NotApplicable("automatic batching is off (batch_size=None): nothing is collated")
        return self.subject.line_in_batch((what, key), tuple(indices), find, follow)


def _path(name: str) -> str:
    """The path of the leaf of a column, or of the first one of a list."""
    return name.partition(" along ")[0].replace("[*]", "[0]", 1)


def _only(history: BatchHistory) -> Look | None:
    return next(iter(history.looks), None)


def _rows(history: BatchHistory, name: str) -> list[np.ndarray]:
    count = len(history.samples)
    column = next((column for column in columns(history.batch, count) if column.name == name), None)
    rows = column.rows if column else ()
    return [array_of(row) for row in rows if not isinstance(row, bytes)]


def _line_of_rows(history: BatchHistory, name: str) -> Look | None:
    rows = _rows(history, name)
    return (history.line_of_rows(rows) if rows else None) or history.line_of_leaf(_path(name))


def _line_of_order(history: BatchHistory, names: tuple[str, str]) -> Look | None:
    """The line that sorts one leaf, or else, where a variable holds the order, that which leaves the other unsorted."""
    orders = {name: _order(history, name) for name in names}
    is_kept = any(order and _is_held(history, order) for order in orders.values())
    usual = list(range(len(history.samples)))
    for name in sorted(names, key=lambda name: (orders[name] == usual) is not is_kept):
        look = _line_of_rows(history, name)
        if look is not None:
            return look
    return None


def _order(history: BatchHistory, name: str) -> list[int]:
    """The position of the sample that each row of a leaf holds some leaf of; [] if one is not recognized."""
    contents = [list(sample_contents(sample).values()) for sample in history.samples]
    order: list[int] = []
    for row, content in enumerate(map(content_of, _rows(history, name))):
        own = [number for number, sample in enumerate(contents) if any(holds(content, leaf) for leaf in sample)]
        order += [row] if row in own else own[:1]
    return order if len(order) == len(contents) else []


def _is_held(history: BatchHistory, order: list[int]) -> bool:
    """Whether a variable of collate_fn holds this order as numbers, which is not that of the samples."""
    looks = history.looks[history.collated :]
    return order != sorted(order) and any(
        part.values.dtype.kind in "iu" and part.values.tolist() == order for look in looks for part in parts(look)
    )


def _line_of_cast(history: BatchHistory, path: str) -> Look | None:
    values = [dict(iter_leaves(sample)).get(path) for sample in history.samples]
    for name, leaf in iter_leaves(history.batch):
        if getattr(leaf, "dtype", None) in INTEGERS and len(leaf) == len(values):
            cast = np.array([array_of(value) for value in values]).astype(array_of(leaf).dtype)
            if cast.shape == array_of(leaf).shape and bool((cast == array_of(leaf)).all()):
                return history.line_of_leaf(name, collated=True)
    return None


def _line_of_misreading(history: BatchHistory) -> Look | None:
    """The line after which a list has samples, or a part of them, that are not those requested, in that order."""
    contents = [list(sample_contents(sample).values()) for sample in history.samples]
    everything = [content for sample in contents for content in sample]

    def is_wrong(look: Look) -> bool:
        entries: dict[str, list[Any]] = {}
        for part in parts(look):
            entries.setdefault(part.first_step or part.path, []).append(content_of(part.values))
        known = [
            [part for part in entry if any(holds(part, content) for content in everything)]
            for entry in entries.values()
        ]
        if not all(known[: len(contents)]) or len(entries) < len(contents):
            return False
        if len(entries) > len(contents):
            return look.name == "return"
        return any(
            not any(holds(part, content) for content in own)
            for entry, own in zip(known, contents, strict=True)
            for part in entry
        )

    return next((look for look in history.looks if is_wrong(look)), None)


def _line_of_double(history: BatchHistory, path: str) -> Look | None:
    source = dict(iter_leaves(history.samples[0])).get(path)
    values = None if source is None or isinstance(source, str | bytes) else array_of(source)
    if values is None or values.dtype != np.float64:
        return history.line_of_leaf(path)
    if not values.ndim:
        return history.first(lambda part: part.identity == id(source)) or history.line_of_sample()
    found: Look | None = None
    for look in history.looks[: history.collated]:
        for part in parts(look):
            if part.values.size == values.size and part.values.ndim:
                found = (found or look) if part.values.dtype == np.float64 else None
            if part.identity == id(source):
                return found
    return history.line_of_sample()


def _line_of_writing(loader: Loader, folder: Path, indices: Sequence[Index]) -> Traced | None:
    reader = Reader(loader, folder)
    samples = [reader.read(index) for index in indices]
    with gate("collate"), seeded(SEED):
        place = line_of_change(lambda: loader.collate_fn(list(samples)), lambda: leaves_of(samples[0]))
    return place and Traced(*place, "", exact=True)
