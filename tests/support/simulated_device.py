"""An accelerator in software, which torch takes for its own once this module is imported; `torch.simulated`.

It has a clock that only its work moves. Work that is issued on a stream begins when the stream is free: copies of
pinned memory and additions return at once, copies of pageable memory wait for their end, as those of CUDA do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import backend_registration

KIND = "simulated"
BYTES_PER_SECOND = 4e9
NUMBERS_PER_SECOND = 2e10


class Stream:
    """Work in order; `free_at` is when it ends, in seconds of the device's clock."""

    def __init__(self) -> None:
        self.free_at = 0.0

    def wait_event(self, event: Event) -> None:
        self.free_at = max(self.free_at, event.at)


class Event:
    """A moment on a stream."""

    def __init__(self, *, enable_timing: bool = False) -> None:
        self.at = 0.0

    def record(self, stream: Stream | None = None) -> None:
        self.at = max(DEVICE.now, (stream or DEVICE.current).free_at)

    def elapsed_time(self, other: Event) -> float:
        """Milliseconds."""
        return (other.at - self.at) * 1e3


class Device:
    """What torch and dataguard call as `torch.simulated`."""

    Stream, Event = Stream, Event

    def __init__(self) -> None:
        self.now = 0.0
        self.current = Stream()
        self.streams = [self.current]

    def issue(self, seconds: float, *, waits: bool = False) -> None:
        """Work on the current stream; the caller may wait for its end."""
        if self.current not in self.streams:
            self.streams.append(self.current)
        self.current.free_at = max(self.now, self.current.free_at) + seconds
        self.now = self.current.free_at if waits else self.now

    @contextlib.contextmanager
    def stream(self, stream: Any) -> Iterator[None]:
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    def synchronize(self) -> None:
        self.now = max([self.now, *(stream.free_at for stream in self.streams)])

    def is_initialized(self) -> bool:
        return False

    def is_available(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        """Nothing is random."""


class SimulatedTensor(torch.Tensor):
    """A tensor of the device; its numbers are nowhere."""


DEVICE = Device()


def _empty(size: Any, *_: Any, dtype: torch.dtype | None = None, **__: Any) -> torch.Tensor:
    made = torch._C._acc.create_empty_tensor(tuple(size), dtype or torch.get_default_dtype())
    made.__class__ = SimulatedTensor
    return made


def _copy(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    DEVICE.issue(source.nbytes / BYTES_PER_SECOND, waits=not (non_blocking and source.is_pinned()))
    return target


def _add(target: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    DEVICE.issue(target.numel() / NUMBERS_PER_SECOND)
    return target


def _pinned(tensor: torch.Tensor, *_: Any) -> torch.Tensor:
    copied = tensor.clone()
    copied.in_pinned_memory = True  # type: ignore[attr-defined]
    return copied


backend_registration._setup_privateuseone_for_python_backend(KIND, backend_module=DEVICE)
LIBRARY = torch.library.Library("aten", "IMPL", "PrivateUse1")
LIBRARY.impl("empty.memory_format", _empty)
LIBRARY.impl("empty_strided", _empty)
LIBRARY.impl("_copy_from", _copy)
LIBRARY.impl("add_.Tensor", _add)
LIBRARY.impl("zero_", _add)
torch.Tensor.pin_memory = _pinned  # type: ignore[method-assign, assignment]
torch.Tensor.is_pinned = lambda tensor, *_: getattr(tensor, "in_pinned_memory", False)  # type: ignore[method-assign]
