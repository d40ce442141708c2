"""The data-loading resources of this machine. Standard library only."""

from __future__ import annotations

import math
import multiprocessing
import os
import platform
import resource
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from dataguard.machine.cgroups import read_allowance

SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Machine:
    """Facts of the machine and process; construct one by hand to judge for another machine.

    `cores` is how many of `cores_total` this process may run on, `cpu_quota` the CPU quota of its cgroup. Sizes are in
    bytes, None if unknown: `shm_total` and `shm_free` of /dev/shm, `memory_total` of the machine, `memory_limit` and
    `memory_used` of the cgroup. `open_files` and `processes` are soft limits, `open_files_most` is the hard limit.
    """

    cores: int
    start_method: str
    platform: str
    python: str
    shm_total: int | None
    shm_free: int | None
    cores_total: int | None = None
    cpu_quota: float | None = None
    memory_total: int | None = None
    memory_limit: int | None = None
    memory_used: int | None = None
    open_files: int | None = None
    open_files_most: int | None = None
    processes: int | None = None
    cgroup: int | None = None

    @classmethod
    def read(cls, root: Path = Path("/")) -> Machine:
        """Read the facts of this machine; `root` is the root of the file system with the cgroups."""
        usage = shutil.disk_usage(SHARED_MEMORY) if SHARED_MEMORY.is_dir() else None
        affinity = getattr(os, "sched_getaffinity", None)
        allowed = read_allowance(root)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        started, _ = resource.getrlimit(resource.RLIMIT_NPROC)
        return cls(
            cores=len(affinity(0)) if affinity else os.cpu_count() or 1,
            start_method=multiprocessing.get_start_method(allow_none=True)
            or multiprocessing.get_all_start_methods()[0],
            platform=platform.platform(),
            python=sys.version.split()[0],
            shm_total=usage and usage.total,
            shm_free=usage and usage.free,
            cores_total=os.cpu_count(),
            cpu_quota=allowed.cpus,
            memory_total=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            memory_limit=allowed.memory,
            memory_used=allowed.memory_used,
            open_files=_limit(soft),
            open_files_most=_limit(hard),
            processes=min((limit for limit in (_limit(started), allowed.processes) if limit is not None), default=None),
            cgroup=allowed.version,
        )

    @property
    def usable_cores(self) -> int:
        """The number of cores that this process can keep busy."""
        return max(1, min(self.cores, math.ceil(self.cpu_quota or self.cores)))

    @property
    def memory(self) -> int | None:
        """Bytes of memory available to all processes here."""
        return min((size for size in (self.memory_total, self.memory_limit) if size is not None), default=None)

    @property
    def memory_free(self) -> int | None:
        """Bytes left of the memory limit of the cgroup, None without a limit."""
        if self.memory_limit is None or self.memory_used is None:
            return None
        return max(self.memory_limit - self.memory_used, 0)


def _limit(number: int) -> int | None:
    return None if number == resource.RLIM_INFINITY else number


def identity() -> dict[str, object]:
    """The properties of this machine that affect the speed of a loader, and its name.

    Memory is rounded to GiB, because the share of the kernel varies from boot to boot.
    """
    machine = Machine.read()
    return {
        "name": platform.node(),
        "system": platform.system(),
        "processor": _processor(),
        "cores": machine.usable_cores,
        "memory_gib": round((machine.memory or 0) / 2**30),
    }


def _processor() -> str:
    """The model of the processor, or its architecture if the model is unknown."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(errors="replace").splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()
