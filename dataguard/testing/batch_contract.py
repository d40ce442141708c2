"""A contract for each part of a batch, and an assertion that reports violations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Leaf:
    """The contract of one part of a batch; None means no constraint.

    `shape` has None or ... for any size, as in `(None, 3, 224, 224)`; `dtype` is a torch dtype or its name; `between`
    is the minimum and maximum; `finite` forbids NaN and Inf; `one_of` lists the allowed values.
    """

    shape: Sequence[int | None] | None = None
    dtype: torch.dtype | str | None = None
    between: tuple[float, float] | None = None
    finite: bool = True
    one_of: Iterable[float] | None = None

    def faults(self, value: Any) -> Iterator[str]:
        """The violations of a value, in words."""
        try:
            tensor = torch.as_tensor(value)
        except (TypeError, ValueError, RuntimeError):
            yield f"is a {type(value).__name__}, not numeric"
            return
        if self.shape is not None and not _fits(tuple(tensor.shape), tuple(self.shape)):
            yield f"has shape {_shown(tensor.shape)}, expected {_shown(self.shape)}"
        if self.dtype is not None and _name(tensor.dtype) != _name(self.dtype):
            yield f"is {_name(tensor.dtype)}, expected {_name(self.dtype)}"
        if not tensor.numel():
            return
        if self.finite and (tensor.is_floating_point() or tensor.is_complex()) and not bool(tensor.isfinite().all()):
            yield f"has {int((~tensor.isfinite()).sum())} non-finite values"
        known = tensor[tensor == tensor]  # NaN has no place between others; `finite` is what forbids it
        if self.between is not None and known.numel():
            least, greatest = float(known.min()), float(known.max())
            if not (self.between[0] <= least and greatest <= self.between[1]):
                yield f"has values from {least:g} to {greatest:g}, expected {self.between[0]:g} to {self.between[1]:g}"
        if self.one_of is not None:
            others = set(known.unique().tolist()) - set(self.one_of)
            if others:
                yield f"has values not in one_of: {', '.join(map(str, sorted(others)[:5]))}"


def assert_contract(loader: Iterable[Any], *, batches: int = 2, **parts: Leaf | Sequence[int | None]) -> None:
    """Read some batches in this process, and check their parts against a contract.

    Parts are named by key or attribute; for a tuple or list, the first name is the first part, and so on. A plain
    tuple means `Leaf(shape=...)`. Raises AssertionError with all violations, ValueError when no parts are named.
    """
    __tracebackhide__ = True
    if not parts:
        raise ValueError("name the parts of a batch, such as image=Leaf(shape=(None, 3, 224, 224))")
    agreed = {name: part if isinstance(part, Leaf) else Leaf(shape=part) for name, part in parts.items()}
    seen = 0
    faults: dict[str, None] = {}
    for number, batch in enumerate(islice(iter(loader), batches)):
        seen += 1
        for position, (name, leaf) in enumerate(agreed.items()):
            part = _part(batch, name, position)
            wrong = [f"is not in the batch, a {type(batch).__name__}"] if part is _NOTHING else leaf.faults(part)
            faults |= dict.fromkeys(f"batch {number}: {name} {words}" for words in wrong)
    if not seen:
        raise AssertionError("the loader yields no batch")
    if faults:
        raise AssertionError("the loader breaks the contract:\n" + "\n".join(f"  {fault}" for fault in faults))


_NOTHING = object()


def _part(batch: Any, name: str, position: int) -> Any:
    """A part of a batch: by key, by attribute, by position."""
    if isinstance(batch, Mapping):
        return batch.get(name, _NOTHING)
    if isinstance(batch, tuple | list) and name not in getattr(batch, "_fields", ()):
        return batch[position] if position < len(batch) else _NOTHING
    if isinstance(batch, torch.Tensor):
        return _NOTHING if position else batch
    return getattr(batch, name, _NOTHING)


def _fits(shape: tuple[int, ...], wanted: tuple[Any, ...]) -> bool:
    return len(shape) == len(wanted) and all(
        size in (None, ...) or size == given for given, size in zip(shape, wanted, strict=True)
    )


def _shown(shape: Iterable[Any]) -> str:
    sizes = ["any" if size in (None, ...) else str(size) for size in shape]
    return f"({', '.join(sizes)}{',' * (len(sizes) == 1)})"


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
