"""A machine to reason about."""

from __future__ import annotations

from dataguard.machine.machine import Machine

GB, MB = 10**9, 10**6
MACHINE = Machine(
    cores=8,
    start_method="fork",
    platform="Linux-6.1",
    python="3.12.1",
    shm_total=16 * GB,
    shm_free=16 * GB,
    cores_total=8,
    memory_total=64 * GB,
    open_files=65536,
)
