"""The accelerator that torch uses: CUDA, ROCm (which torch calls cuda), XPU, MPS, or one that a package registers."""

from __future__ import annotations

from typing import Any

import torch


def kind_built() -> str | None:
    """The type of the devices that torch is built for or that a package registers, such as "cuda"; None without any.

    The machine may have none of them. Before torch 2.6, which has `torch.accelerator`, only CUDA is known.
    """
    if hasattr(torch, "accelerator"):
        built = torch.accelerator.current_accelerator()
        return None if built is None else str(built.type)
    return "cuda" if torch.backends.cuda.is_built() else None


def module_of(kind: str) -> Any:
    """The functions of torch for a type of devices, such as `torch.cuda`."""
    return getattr(torch, kind)


def accelerator() -> str | None:
    """The type of the accelerator of this machine, None without one. Counting devices may initialize them."""
    kind = kind_built()
    return kind if kind is not None and module_of(kind).device_count() else None


def pins(kind: str | None) -> bool:
    """Whether torch pins memory for this type of devices: it does for all but MPS."""
    return kind not in (None, "mps")


def initialized() -> str | None:
    """The type of the devices that this process has initialized: none of its forks can use them; None if it has not."""
    kind = kind_built()
    is_initialized = getattr(module_of(kind), "is_initialized", None) if kind is not None else None
    return kind if is_initialized is not None and is_initialized() else None


def lost() -> str | None:
    """The type of the devices that this process cannot use, as a fork of one that has initialized them; else None."""
    kind = kind_built()
    in_bad_fork = getattr(module_of(kind), "_is_in_bad_fork", None) if kind is not None else None
    return accelerator() if in_bad_fork is not None and in_bad_fork() else None


def shown_kind(kind: str) -> str:
    """A type of devices as people write it."""
    return kind.upper()
