"""Which tensors of a batch torch's pinning reaches."""

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
    """What comes out of pinning a batch: how many `tensors` it holds then, and the paths of those that are `unpinned`.

    `before` is the number of tensors in the batch, `kind` its type, and `refused` what pinning it raised. `really`
    tells that memory was pinned, and not only asked for.
    """

    before: int
    tensors: int
    unpinned: tuple[str, ...]
    kind: str
    came_out: str
    refused: str | None = None
    really: bool = False


def try_pinning(batch: Any, *, really: bool = False) -> Pinning:
    """Let torch pin a batch as its pinning thread does, and look which of the tensors that come out are pinned.

    Without an accelerator no memory can be pinned: then `Tensor.pin_memory` takes note that it was called.
    """
    before, kind = sum(1 for _ in tensors_of(batch)), type(batch).__name__
    noted: dict[int, Tensor] = {}

    def note(self: Tensor, *_: Any, **__: Any) -> Tensor:
        pinned = self.detach()
        noted[id(pinned)] = pinned  # held, so that no other object gets the same id
        return pinned

    is_pinned: Callable[[Tensor], bool] = _is_really_pinned if really else lambda tensor: id(tensor) in noted
    original = Tensor.pin_memory
    if not really:
        Tensor.pin_memory = note  # type: ignore[method-assign, assignment]
    try:
        pinned = pin_memory(batch)
    except Exception as error:  # noqa: BLE001 - classes of the user's own may raise anything
        return Pinning(before, 0, (), kind, "nothing", f"{type(error).__name__}: {error}", really)
    finally:
        Tensor.pin_memory = original  # type: ignore[method-assign]
    found = list(tensors_of(pinned))
    unpinned = tuple(path for path, tensor in found if not is_pinned(tensor))
    return Pinning(before, len(found), unpinned, kind, type(pinned).__name__, None, really)


def tensors_of(batch: Any) -> Iterator[tuple[str, Tensor]]:
    """Every CPU tensor in a batch, with its path.

    The batch sizes of a PackedSequence are left out: torch itself never moves them.
    """
    for path, leaf in iter_leaves(batch, whole=(PackedSequence,)):
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
