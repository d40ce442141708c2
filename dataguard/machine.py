"""What this machine offers to data loading, read once. Standard library only."""

from __future__ import annotations

import multiprocessing
import os
import platform
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Machine:
    """Facts of the machine and process; make one by hand to judge for another machine.

    `shm_total` and `shm_free` are bytes of /dev/shm, None where the platform has none.
    """

    cores: int
    start_method: str
    platform: str
    python: str
    shm_total: int | None
    shm_free: int | None

    @classmethod
    def read(cls) -> Machine:
        """Look at the machine this runs on."""
        usage = shutil.disk_usage(SHARED_MEMORY) if SHARED_MEMORY.is_dir() else None
        affinity = getattr(os, "sched_getaffinity", None)
        return cls(
            cores=len(affinity(0)) if affinity else os.cpu_count() or 1,
            start_method=multiprocessing.get_start_method(allow_none=True)
            or multiprocessing.get_all_start_methods()[0],
            platform=platform.platform(),
            python=sys.version.split()[0],
            shm_total=usage and usage.total,
            shm_free=usage and usage.free,
        )


def identity() -> dict[str, object]:
    """What makes this machine itself, as far as the times of a loader are concerned: its name, processor and memory."""
    return {
        "name": platform.node(),
        "system": platform.system(),
        "processor": _processor(),
        "cores": Machine.read().cores,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def _processor() -> str:
    """The model of the processor; its architecture where the system does not tell more."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text(errors="replace").splitlines() if told.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()
