"""How long a batch takes to be pinned and copied to the accelerator, and whether copies overlap computation.

Times are those of events on two streams of the device. Where none can be measured, every stage says why.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils.data._utils.pin_memory import pin_memory

from dataguard.lab.batches.collate_observations import tensors_of
from dataguard.lab.process.accelerators import accelerator, lost, module_of, shown_kind
from dataguard.measured import Stage
from dataguard.process.originals import time

_COPY_ROUNDS = 7
"""How often each copy is measured: a median of seven ignores three that other work has slowed down."""
_LIMIT_BYTES = 64_000_000
"""The size of the copy that measures the machine's own limit: at 32 GB/s it takes 2 ms, beside which the start of a
copy is nothing."""
_LARGE_BYTES = 100_000
"""Bytes of a batch below which a copy is too short to overlap anything: they take a few microseconds, as starting one
does."""


_KERNEL_NUMBERS = 4_000_000
"""Numbers that a kernel adds to where a device cannot sleep: adding takes longer than starting it."""


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
    """Why copies cannot be measured in this process, None if they can."""
    if (kind := lost()) is not None:
        return f"{shown_kind(kind)} was initialized before this process was forked"
    kind = accelerator()
    if kind is None:
        return "no accelerator"
    return None if hasattr(module_of(kind), "Stream") else f"copies to {shown_kind(kind)} are not measured: one stream"


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
    return DeliveredBatch(count, unpinned, copy([tensor for _, tensor in tensors]) if count >= _LARGE_BYTES else None)


def measure_transfer(batch: Any, *, pinned: bool) -> DeviceTransfer:
    """Pin a batch and copy it to the device, with and without pinning; `pinned`: the loader pins."""
    reason = unavailable_reason()
    if reason is not None:
        return DeviceTransfer((Stage("pinning", skipped=reason), Stage("copy to device", skipped=reason)))
    used = device()
    details: dict[str, Any] = {"name": used.name, "limit_bytes_per_second": limit()}
    plain = [tensor for _, tensor in _dense(batch)]
    count = sum(tensor.nbytes for tensor in plain)
    if count < _LARGE_BYTES:
        reason = f"the tensors of a batch hold only {count:,} bytes"
        return DeviceTransfer((Stage("pinning", skipped=reason), Stage("copy to device", skipped=reason)), details)
    pin_memory(batch)  # allocates memory that torch then reuses
    started = time.perf_counter()
    reached = _dense(pin_memory(batch))
    pinning = time.perf_counter() - started
    details["unpinned"] = [path for path, tensor in reached if not tensor.is_pinned()]
    ways = {"pageable": plain, "pinned": [tensor for _, tensor in reached]}
    for name, tensors in ways.items():
        copying = copy(tensors)
        details[name] = {
            "bytes_per_second": copying.rate,
            "overlap": copying.overlap,
            "blocked_share": min(copying.blocked / copying.alone, 1.0),
            "seconds": copying.alone,
        }
    seconds = details["pinned" if pinned else "pageable"]["seconds"]
    pin = Stage("pinning", pinning) if pinned else Stage("pinning", skipped="pin_memory is off")
    return DeviceTransfer((pin, Stage("copy to device", seconds)), details)


def _dense(batch: Any) -> list[tuple[str, Tensor]]:
    """The strided tensors of a batch, with their paths."""
    return [(path, tensor) for path, tensor in tensors_of(batch) if tensor.layout is torch.strided]


def limit() -> float:
    """How many bytes per second the machine copies from pinned memory to the device: one large tensor."""
    return copy([torch.empty(_LIMIT_BYTES, dtype=torch.uint8).pin_memory()]).rate


def copy(tensors: list[Tensor]) -> CopyTimes:
    """Copy tensors to the device, alone and concurrently with a kernel of the same duration; medians over rounds."""
    used = device()
    targets = [torch.empty_like(tensor, device=used.kind) for tensor in tensors]  # allocating may wait for the device

    def send() -> None:
        for target, tensor in zip(targets, tensors, strict=True):
            target.copy_(tensor, non_blocking=True)

    send()
    used.module.synchronize()
    copying = _median(lambda: used.elapsed(send))
    compute = used.kernel(copying)
    computing = _median(lambda: used.elapsed(compute))
    both = [used.overlapped(send, compute) for _ in range(_COPY_ROUNDS)]
    return CopyTimes(
        sum(tensor.nbytes for tensor in tensors),
        copying,
        computing,
        statistics.median(together for together, _ in both),
        statistics.median(blocked for _, blocked in both),
    )


def device() -> Device:
    """The accelerator, where `unavailable_reason` is None."""
    kind = accelerator()
    assert kind is not None
    return Device(kind)


def _median(measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(_COPY_ROUNDS))


@dataclass(frozen=True, slots=True)
class Device:
    """Times on the current device of a type; torch names streams and events alike for CUDA, XPU and other types."""

    kind: str

    @property
    def module(self) -> Any:
        """The functions of torch for it, such as `torch.cuda`."""
        return module_of(self.kind)

    @property
    def name(self) -> str:
        """What its maker calls it, else its type."""
        name = getattr(self.module, "get_device_name", None)
        return str(name()) if name is not None else shown_kind(self.kind)

    def elapsed(self, work: Callable[[], None]) -> float:
        """Seconds on the device from before the work to after it."""
        start, end = (self.module.Event(enable_timing=True) for _ in range(2))
        self.module.synchronize()
        start.record()
        work()
        end.record()
        self.module.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    def kernel(self, seconds: float) -> Callable[[], None]:
        """A function that keeps the device busy for about so long, without waiting for it.

        CUDA can sleep for so many cycles; other devices add to a tensor so many times.
        """
        sleep = getattr(self.module, "_sleep", None)
        numbers = torch.zeros(_KERNEL_NUMBERS if sleep is None else 1, device=self.kind)

        def add(count: int) -> None:
            for _ in range(count):
                numbers.add_(1)

        work, trial, least = (sleep, 10_000_000, 1000) if sleep is not None else (add, 20, 1)
        work(trial)  # the first call compiles
        each = _median(lambda: self.elapsed(lambda: work(trial))) / trial
        count = max(int(seconds / each), least)
        return lambda: work(count)

    def overlapped(self, send: Callable[[], None], compute: Callable[[], None]) -> tuple[float, float]:
        """Issue the copy on one stream, then the kernel on another: seconds to the end of both, and of the call."""
        copying, computing = self.module.Stream(), self.module.Stream()
        start, copied, computed = (self.module.Event(enable_timing=True) for _ in range(3))
        self.module.synchronize()
        start.record()
        copying.wait_event(start)
        computing.wait_event(start)
        asked = time.perf_counter()
        with self.module.stream(copying):
            send()
            copied.record(copying)
        blocked = time.perf_counter() - asked
        with self.module.stream(computing):
            compute()
            computed.record(computing)
        self.module.synchronize()
        return max(start.elapsed_time(copied), start.elapsed_time(computed)) / 1e3, blocked
