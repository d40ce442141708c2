"""The time to move a batch to a CUDA device: pinning, copying, and whether copies overlap compute.

Measured by events of the device on two streams. Without CUDA every stage states why it has no value.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils.data._utils.pin_memory import pin_memory

from dataguard.lab.batches.pin_memory import tensors_of
from dataguard.process.originals import time
from dataguard.timings import Stage

_ROUNDS = 7
_LIMIT_BYTES = 64_000_000
"""The size of the copy that measures the machine's own limit."""
_LARGE = 100_000
"""Bytes of a batch below which a copy is too short to overlap anything."""


@dataclass(frozen=True, slots=True)
class DeviceTransfer:
    """The stages of moving a batch to the device, and facts about the device; empty without one."""

    stages: tuple[Stage, ...]
    known: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CopyTimes:
    """One way of copying some tensors to the device, in seconds.

    `alone` is the copy by itself and `computing` a kernel by itself; `together` is from the start to the end of both,
    with the copy issued first. `blocked` is how long the call that issues the copy does not return.
    """

    count: int
    alone: float
    computing: float
    together: float
    blocked: float

    @property
    def overlap(self) -> float:
        """The share of the shorter one that overlapped the other: 1 if concurrent, 0 if sequential."""
        shorter = min(self.alone, self.computing)
        return min(max((self.alone + self.computing - self.together) / shorter, 0.0), 1.0)

    @property
    def rate(self) -> float:
        """Bytes per second."""
        return self.count / self.alone


def unavailable_reason() -> str | None:
    """Why copies cannot be measured in this process, None with a CUDA device."""
    if torch.cuda.is_available():
        return "CUDA was initialized before this process was forked" if torch.cuda._is_in_bad_fork() else None
    mps = getattr(torch.backends, "mps", None)
    if mps is not None and mps.is_available():
        return "no CUDA device: copies to MPS are not measured"
    if hasattr(torch, "xpu") and torch.xpu.is_available():
        return "no CUDA device: copies to XPU are not measured"
    return "no CUDA device"


def initialize_pinning() -> None:
    """Initialize the device, which takes seconds, before the first batch is pinned: training has done so by then."""
    if unavailable_reason() is None:
        torch.empty(1).pin_memory()


@dataclass(frozen=True, slots=True)
class DeliveredBatch:
    """The copy of a batch as the loader yields it: `unpinned` are the paths of its tensors in pageable memory.

    `copying` is None if the batch is too small for its copy to matter.
    """

    count: int
    unpinned: tuple[str, ...]
    copying: CopyTimes | None


def copy_delivered(batch: Any) -> DeliveredBatch:
    """Copy a batch to the device unchanged."""
    tensors = _dense(batch)
    count = sum(tensor.nbytes for _, tensor in tensors)
    unpinned = tuple(path for path, tensor in tensors if not tensor.is_pinned())
    return DeliveredBatch(count, unpinned, copy([tensor for _, tensor in tensors]) if count >= _LARGE else None)


def measure_transfer(batch: Any, *, pinned: bool) -> DeviceTransfer:
    """Pin a batch and copy it to the device, with and without pinning; `pinned`: the loader pins."""
    reason = unavailable_reason()
    if reason is not None:
        return DeviceTransfer((Stage("pinning", skipped=reason), Stage("copy to device", skipped=reason)))
    known: dict[str, Any] = {
        "name": torch.cuda.get_device_name(),
        "cuda": torch.version.cuda,
        "limit_bytes_per_second": limit(),
    }
    plain = [tensor for _, tensor in _dense(batch)]
    count = sum(tensor.nbytes for tensor in plain)
    if count < _LARGE:
        reason = f"the tensors of a batch hold only {count:,} bytes"
        return DeviceTransfer((Stage("pinning", skipped=reason), Stage("copy to device", skipped=reason)), known)
    pin_memory(batch)  # allocates memory that torch then reuses
    started = time.perf_counter()
    reached = _dense(pin_memory(batch))
    pinning = time.perf_counter() - started
    known["unpinned"] = [path for path, tensor in reached if not tensor.is_pinned()]
    ways = {"pageable": plain, "pinned": [tensor for _, tensor in reached]}
    for name, tensors in ways.items():
        copying = copy(tensors)
        known[name] = {
            "bytes_per_second": copying.rate,
            "overlap": copying.overlap,
            "blocked_share": min(copying.blocked / copying.alone, 1.0),
            "seconds": copying.alone,
        }
    own = known["pinned" if pinned else "pageable"]["seconds"]
    pin = Stage("pinning", pinning) if pinned else Stage("pinning", skipped="pin_memory is off")
    return DeviceTransfer((pin, Stage("copy to device", own)), known)


def _dense(batch: Any) -> list[tuple[str, Tensor]]:
    """The strided tensors of a batch, with their paths."""
    return [(path, tensor) for path, tensor in tensors_of(batch) if tensor.layout is torch.strided]


def limit() -> float:
    """How many bytes per second the machine copies from pinned memory to the device: one large tensor."""
    return copy([torch.empty(_LIMIT_BYTES, dtype=torch.uint8).pin_memory()]).rate


def copy(tensors: list[Tensor]) -> CopyTimes:
    """Copy tensors to the device, alone and concurrently with a kernel of the same duration; medians over rounds."""
    there = [torch.empty_like(tensor, device="cuda") for tensor in tensors]  # allocating may wait for the device

    def send() -> None:
        for place, tensor in zip(there, tensors, strict=True):
            place.copy_(tensor, non_blocking=True)

    send()
    torch.cuda.synchronize()
    alone = _median(lambda: _elapsed(send))
    cycles = _cycles(alone)

    def compute() -> None:
        torch.cuda._sleep(cycles)

    computing = _median(lambda: _elapsed(compute))
    both = [_overlapped(send, compute) for _ in range(_ROUNDS)]
    return CopyTimes(
        sum(tensor.nbytes for tensor in tensors),
        alone,
        computing,
        statistics.median(together for together, _ in both),
        statistics.median(blocked for _, blocked in both),
    )


def _median(measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(_ROUNDS))


def _elapsed(work: Callable[[], None]) -> float:
    """Seconds on the device from before the work to after it."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def _cycles(seconds: float) -> int:
    """How many cycles a kernel must sleep for this duration; the clock of the device is measured."""
    known = 10_000_000
    each = _median(lambda: _elapsed(lambda: torch.cuda._sleep(known))) / known
    return max(int(seconds / each), 1000)


def _overlapped(send: Callable[[], None], compute: Callable[[], None]) -> tuple[float, float]:
    """Issue the copy on one stream, then the kernel on another: seconds to the end of both, and of the call."""
    copying, computing = torch.cuda.Stream(), torch.cuda.Stream()
    start, copied, computed = (torch.cuda.Event(enable_timing=True) for _ in range(3))
    torch.cuda.synchronize()
    start.record()
    copying.wait_event(start)
    computing.wait_event(start)
    asked = time.perf_counter()
    with torch.cuda.stream(copying):
        send()
        copied.record(copying)
    blocked = time.perf_counter() - asked
    with torch.cuda.stream(computing):
        compute()
        computed.record(computing)
    torch.cuda.synchronize()
    return max(start.elapsed_time(copied), start.elapsed_time(computed)) / 1e3, blocked
