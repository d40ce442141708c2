"""Which tensors of a batch torch pins."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence
from torch.utils.data._utils.pin_memory import pin_memory

from dataguard.lab.core.leaves import iter_leaves


@dataclass(frozen=True, slots=True)
class Pinning:
    """The result of pinning a batch: how many `tensors` it has then, and the paths of those `unpinned`.

    `before` is the number of tensors in the batch, `kind` its type, `result` the type afterwards, and `refused` what
    pinning raised. `real`: memory was pinned, not only requested.
    """

    before: int
    tensors: int
    unpinned: tuple[str, ...]
    kind: str
    result: str
    refused: str | None = None
    real: bool = False


def try_pinning(batch: Any, *, real: bool = False) -> Pinning:
    """Let torch pin a batch as its pinning thread does, and find the tensors that are not pinned.

    Without an accelerator no memory can be pinned: calls of `Tensor.pin_memory` are recorded instead.
    """
    before, kind = sum(1 for _ in tensors_of(batch)), type(batch).__name__
    noted: dict[int, Tensor] = {}

    def note(self: Tensor, *_: Any, **__: Any) -> Tensor:
        pinned = self.detach()
        noted[id(pinned)] = pinned  # kept alive, so that no other object gets the same id
        return pinned

    is_pinned: Callable[[Tensor], bool] = _is_really_pinned if real else lambda tensor: id(tensor) in noted
    original = Tensor.pin_memory
    if not real:
        Tensor.pin_memory = note  # type: ignore[method-assign, assignment]
    try:
        pinned = pin_memory(batch)
    except Exception as error:  # noqa: BLE001 - user-defined classes may raise anything
        return Pinning(before, 0, (), kind, "nothing", f"{type(error).__name__}: {error}", real)
    finally:
        Tensor.pin_memory = original  # type: ignore[method-assign]
    found = list(tensors_of(pinned))
    unpinned = tuple(path for path, tensor in found if not is_pinned(tensor))
    return Pinning(before, len(found), unpinned, kind, type(pinned).__name__, None, real)


def tensors_of(batch: Any) -> Iterator[tuple[str, Tensor]]:
    """Every CPU tensor in a batch, with its path.

    The batch sizes of a PackedSequence are left out: torch never moves them.
    """
    for path, leaf in iter_leaves(batch, atomic=(PackedSequence,)):
        if isinstance(leaf, PackedSequence):
            yield f"{path}.data", leaf.data
        elif isinstance(leaf, Set):
            inside = (tensors_of(item) for item in leaf)
            yield from (
                (f"{path}[{number}]{below}", tensor) for number, one in enumerate(inside) for below, tensor in one
            )
        elif isinstance(leaf, Tensor) and leaf.device.type == "cpu":
            yield path, leaf


def _is_really_pinned(tensor: Tensor) -> bool:
    parts = (tensor._indices(), tensor._values()) if tensor.layout is torch.sparse_coo else (tensor,)
    return all(part.is_pinned() for part in parts if part.numel())


@functools.cache
def can_pin() -> bool:
    """Whether this process can pin memory for a CUDA device."""
    return torch.cuda.is_available()
