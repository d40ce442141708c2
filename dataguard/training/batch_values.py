"""What a guard checks in each batch: NaN and Inf (DG501), labels (DG502, DG423), and structure (DG305).

All of it runs in numpy: a parallel operation of torch in the main process can hang workers that are forked later. A
batch is compared with the first one that has the same leaves. Keys that come and go, lists whose length varies and
shapes are not judged: tasks alternate, and the last batch is smaller.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dataguard.lab.core.leaves import describe, iter_leaves
from dataguard.lab.labels.declared_labels import class_names_of, stored
from dataguard.lab.tokens.token_roles import roles_of

Arrays = list[tuple[str, Any]]
"""The tensors and arrays of a batch, each with its path."""
Kind = tuple[str, int]
"""The dtype of an array, and its number of dimensions."""


class Structure:
    """The structures that a loader's batches have had."""

    def __init__(self) -> None:
        self._known: set[Any] = set()
        self._kinds: dict[frozenset[str], dict[str, set[Kind]]] = {}

    def is_known(self, batch: Any) -> bool:
        """Whether a batch with the same types, dtypes and dimensions was compared already."""
        return signature(batch) in self._known

    @property
    def is_full(self) -> bool:
        """Whether no further signature is remembered: the batches of this loader all differ."""
        return len(self._known) >= MOST_SIGNATURES

    def changed(self, batch: Any, arrays: Arrays) -> tuple[str, Kind, Kind] | None:
        """The path of the first leaf whose dtype or number of dimensions is new, and what it was and is."""
        if not self.is_full:
            self._known.add(signature(batch))
        kinds: dict[str, set[Kind]] = {}
        for path, leaf in arrays:
            dtype = str(leaf.dtype).removeprefix("torch.")
            kinds.setdefault(_DEEPER.sub("[*]", path), set()).add((dtype, leaf.ndim))
        before = self._kinds.setdefault(frozenset(kinds), kinds)
        changed = ((path, seen - before[path]) for path, seen in kinds.items())
        return next(((path, min(before[path]), min(new)) for path, new in changed if new), None)


MOST_SIGNATURES = 256
"""How many signatures are remembered: loaders whose batches all differ must not fill the memory."""
_DEEPER = re.compile(r"(?<=.)\[\d+\]")


def signature(value: Any, depth: int = 0) -> Any:
    """What batches of one structure have in common, as a value that is quick to make and to compare."""
    kind = type(value)
    if kind is Tensor:
        return value.dtype, value.ndim
    if depth < MOST_DEPTH:
        if kind is list or kind is tuple:
            return (kind, *[signature(item, depth + 1) for item in value[:MOST_FIELDS]])
        if kind is dict or issubclass(kind, Mapping):
            return (kind, *[(key, signature(item, depth + 1)) for key, item in value.items()])
    if issubclass(kind, Tensor | np.ndarray):
        return kind, value.dtype, value.ndim
    return kind


MOST_DEPTH = 8
"""Levels of lists and dicts that are looked into: a structure may contain itself."""
MOST_FIELDS = 8
"""How many entries of a list or tuple count; a longer one holds samples, not fields."""


def arrays_of(batch: Any) -> Arrays:
    """The tensors and arrays of a batch, with their paths."""
    arrays: Arrays = []
    _gather(batch, "", 0, arrays)
    return arrays


def _gather(value: Any, path: str, depth: int, arrays: Arrays) -> None:
    kind = type(value)
    if len(arrays) >= MOST_LEAVES or kind in _PLAIN:
        return
    if issubclass(kind, Tensor | np.ndarray) and getattr(value.dtype, "kind", "") not in ("O", "V"):
        arrays.append((path, value))
    elif (kind is list or kind is tuple) and depth < MOST_DEPTH:
        for number, item in enumerate(value[:MOST_LEAVES]):
            _gather(item, f"{path}[{number}]", depth + 1, arrays)
    elif kind is dict and depth < MOST_DEPTH:
        for key, item in value.items():
            _gather(item, f"{path}[{key!r}]", depth + 1, arrays)
    else:
        leaves = islice(iter_leaves(value, path), MOST_LEAVES)
        arrays += [(step, leaf) for step, leaf in leaves if isinstance(leaf, Tensor | np.ndarray)]


MOST_LEAVES = 256
"""Tensors and arrays of a batch that are looked at, so that a batch of thousands does not slow the loop."""
_PLAIN = (str, bytes, int, float, bool, type(None))


@dataclass(frozen=True, slots=True)
class InvalidValues:
    """Values of a leaf that are wrong: what they are, as words, and the rows of the batch that hold them."""

    path: str
    what: str
    rows: tuple[int, ...]
    size: int
    """The number of rows of the leaf."""


def non_finite(arrays: Arrays) -> Iterator[InvalidValues]:
    """The leaves with NaN or Inf; an additive attention mask is -inf by design."""
    for path, leaf in arrays:
        if isinstance(leaf, Tensor):
            if not (leaf.is_floating_point() and leaf.device.type == "cpu" and leaf.layout == torch.strided):
                continue
            if _is_finite(leaf.detach()):
                continue
        elif leaf.dtype.kind != "f" or np.isfinite(leaf).all():
            continue
        record = describe(path, leaf, digests=False)
        counts = [f"{count:,} {name}" for count, name in ((record.nan, "NaN"), (record.inf, "Inf")) if count]
        if counts and not record.mask:
            bad = ~np.isfinite(_array(leaf))
            yield InvalidValues(path, " and ".join(counts), _rows(bad), len(bad) if bad.ndim else 1)


def _is_finite(leaf: Tensor) -> bool:
    """Whether a tensor holds no NaN or Inf, at about the speed at which memory is read."""
    plain = leaf.as_subclass(Tensor) if type(leaf) is not Tensor else leaf
    exponent = _HALF_EXPONENTS.get(plain.dtype)
    if exponent is not None:
        bits = plain.view(torch.int16).numpy()
        return not bool(((bits & exponent) == exponent).any())
    try:
        values = plain.numpy()
    except TypeError:  # numpy has no such dtype (8-bit floats)
        return True
    with np.errstate(all="ignore"):  # a sum of large numbers may overflow
        return bool(np.isfinite(values.sum())) or bool(np.isfinite(values).all())


_HALF_EXPONENTS = {torch.float16: 0x7C00, torch.bfloat16: 0x7F80}
"""The exponent bits of 16-bit floats; all are set in NaN and Inf."""


def _array(leaf: Any) -> np.ndarray:
    if not isinstance(leaf, Tensor):
        return np.asarray(leaf)
    plain = leaf.detach().as_subclass(Tensor)
    return np.asarray((plain.float() if plain.dtype in _HALF_EXPONENTS else plain).numpy())


def _rows(bad: np.ndarray) -> tuple[int, ...]:
    """The rows with any of these values."""
    if not bad.ndim:
        return (0,)
    return tuple(np.flatnonzero(bad.reshape(len(bad), -1).any(axis=1)).tolist())


LABELS = ("label", "labels", "target", "targets", "y", "class", "class_id", "category")
"""Keys of labels in batches that are dicts."""


@dataclass(slots=True)
class Labels:
    """Which leaf of a loader's batches holds class indices, and which are valid.

    With `count` from the user, every leaf with the place or key of a label is judged. With the count that the dataset
    declares, only a leaf with one value per sample, most of whose values are valid.
    """

    count: int | None
    ignored: int
    key: str | int | None = None
    source: str = "num_classes"
    _seen: dict[str, tuple[int, int]] = field(default_factory=dict)
    """How many values of a leaf were valid, of how many, while it is not known whether it holds labels."""

    @classmethod
    def of(cls, dataset: Any, count: int | None, ignored: int | None, key: str | int | None) -> Labels:
        """Those of a loader with this dataset; the user's arguments are None if not given."""
        if count is None and dataset is not None:
            counts = {names.count: names.where for names in class_names_of(dataset, stored)}
            if len(counts) == 1:
                ((classes, where),) = counts.items()
                return cls(classes, IGNORED if ignored is None else ignored, key, where)
        return cls(count, IGNORED if ignored is None else ignored, key)

    def wrong(self, arrays: Arrays) -> Iterator[InvalidValues]:
        """The labels that are out of range."""
        if self.count is None:
            return
        for path, leaf in _integers(arrays, self.key):
            values = _array(leaf)
            if self.source != "num_classes" and values.ndim != 1:
                continue
            bad = ((values < 0) | (values >= self.count)) & (values != self.ignored) & (values != IGNORED)
            if self._are_labels(path, values.size - int(bad.sum()), values.size) and bad.any():
                invalid = sorted({int(value) for value in values[bad].flat})
                more = f" and {len(invalid) - 3} more values" if len(invalid) > 3 else ""
                yield InvalidValues(
                    path, ", ".join(map(str, invalid[:3])) + more, _rows(bad), len(bad) if bad.ndim else 1
                )

    def _are_labels(self, path: str, valid: int, size: int) -> bool:
        """Whether a leaf holds labels: the user says how many classes there are, or most of its values are valid."""
        if self.source == "num_classes":
            return True
        before = self._seen.get(path, (0, 0))
        all_valid, all_values = self._seen[path] = before[0] + valid, before[1] + size
        return all_values >= FEWEST_LABELS and all_valid > 0.5 * all_values


IGNORED = -100
"""The ignore index of torch's cross entropy."""
FEWEST_LABELS = 32
"""Values that must be seen before a leaf counts as the labels that the dataset declares classes for: more report
later."""


def _integers(arrays: Arrays, key: str | int | None) -> Iterator[tuple[str, Any]]:
    """The integer leaves with the place or key of a label: the second field of a tuple, or a key such as `labels`."""
    for path, leaf in arrays:
        given = path == "[1]" or path.endswith(_KEYS) if key is None else path.startswith(f"[{key!r}]")
        if given and is_integer(leaf):
            yield path, leaf


_KEYS = tuple(f"[{key!r}]" for key in LABELS)


def is_integer(leaf: Any) -> bool:
    """Whether a tensor or array holds integers in the memory of this machine."""
    if isinstance(leaf, np.ndarray):
        return leaf.dtype.kind in "iu"
    real = leaf.is_floating_point() or leaf.is_complex() or leaf.dtype == torch.bool
    return not real and leaf.device.type == "cpu" and leaf.layout == torch.strided


class LossMask:
    """Counts the labels of tokens in the batches of one loader whose values are checked."""

    def __init__(self, ignored: int | None) -> None:
        self.ignored = {IGNORED, IGNORED if ignored is None else ignored}
        self.batches = 0
        self.labels: Counter[int] = Counter()
        """How many labels of tokens an epoch had."""
        self.learned: Counter[int] = Counter()
        """How many of them were not the ignored index."""

    def see(self, epoch: int, arrays: Arrays) -> str | None:
        """Count the labels of a batch; the path of its labels if none of them counts for the loss."""
        leaves = {path: leaf for path, leaf in arrays if is_integer(leaf)}
        path = roles_of(leaves, {}).get("labels")
        if path is None or leaves[path].ndim < 2:
            return None
        values = leaves[path].detach().numpy() if isinstance(leaves[path], Tensor) else leaves[path]
        learned = int(np.isin(values, list(self.ignored), invert=True).sum())
        self.batches += 1
        self.labels[epoch] += values.size
        self.learned[epoch] += learned
        return None if learned or not values.size else path

    @property
    def shares(self) -> str:
        """The share of labels that count, epoch by epoch, in words; empty without any."""
        shares = [f"{self.learned[epoch] / count:.0%}" for epoch, count in sorted(self.labels.items()) if count]
        more = "… " if len(shares) > MOST_EPOCHS else ""
        return f"{more}{', '.join(shares[-MOST_EPOCHS:])} of the labels count for the loss, by epoch" if shares else ""


MOST_EPOCHS = 8
"""How many epochs the report lists: the last ones, which fit into a line."""
