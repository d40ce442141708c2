"""The data-loading resources of this machine, with the limits of its cgroups. Standard library only.

Containers and batch systems limit a process by cgroups, of version 1 or 2 (`read_allowance`). Limits of parent groups
apply as well; a container that only sees its own groups sees them as the root.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import platform
import resource
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Allowance:
    """The limits, None for no limit.

    `memory` is in bytes, and `memory_used` is the use of the group with that limit, without reclaimable file pages;
    `cpus` is a number of processors, such as 1.5; `processes` includes threads. `version` is 1 or 2.
    """

    memory: int | None = None
    memory_used: int | None = None
    cpus: float | None = None
    processes: int | None = None
    version: int | None = None


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


SHARED_MEMORY = Path("/dev/shm")


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


def read_allowance(root: Path = Path("/")) -> Allowance:
    """Read the groups of this process below `root`, which is `/` except in tests."""
    groups = dict(_groups(root))
    mounted = root / "sys/fs/cgroup"
    unified = mounted if (mounted / "cgroup.controllers").exists() else mounted / "unified"
    memory: list[tuple[int, int | None]] = []
    cpus: list[float] = []
    processes: list[int] = []
    for folder in _line(unified, groups.get("", "/")):
        memory += _limit_in(folder, "memory.max", "memory.current", "inactive_file")
        cpus += _share(_words(folder / "cpu.max"))
        processes += _numbers(folder / "pids.max")
    version = 2 if unified == mounted else None
    for name in ("memory", "cpu", "pids"):
        for folder in _line(mounted / name, groups.get(name, "/")):
            version = version or 1
            memory += _limit_in(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            cpus += _share([*_words(folder / "cpu.cfs_quota_us"), *_words(folder / "cpu.cfs_period_us")])
            processes += _numbers(folder / "pids.max")
    least, used = min(memory, default=(None, None), key=lambda limit: limit[0])
    return Allowance(least, used, min(cpus, default=None), min(processes, default=None), version)


def oom_kills(root: Path = Path("/")) -> int:
    """How many processes of the groups of this one the kernel has killed so far, as memory ran out."""
    groups = dict(_groups(root))
    mounted = root / "sys/fs/cgroup"
    counted = 0
    for top, name, file in ((mounted, "", "memory.events"), (mounted / "memory", "memory", "memory.oom_control")):
        for folder in [*_line(top, groups.get(name, "/"))][:1]:
            words = _words(folder / file)
            counted += sum(int(words[at + 1]) for at, word in enumerate(words[:-1]) if word == "oom_kill")
    return counted


def _groups(root: Path) -> Iterator[tuple[str, str]]:
    """The group of this process by controller; that of version 2 has the controller ''."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        names, _, group = rest.partition(":")
        yield from ((name, group) for name in names.split(","))


def _line(mounted: Path, group: str) -> Iterator[Path]:
    """The folders of a group and its parents; only the root if the path is that of the host."""
    if not mounted.is_dir():
        return
    folder = mounted / group.lstrip("/")
    if ".." not in group and folder.is_dir():
        while folder != mounted:
            yield folder
            folder = folder.parent
    yield mounted


def _limit_in(folder: Path, limit: str, used: str, reclaimable: str) -> Iterator[tuple[int, int | None]]:
    for most in _numbers(folder / limit):
        spare = [
            words[1] for words in map(str.split, _text(folder / "memory.stat").splitlines()) if words[0] == reclaimable
        ]
        taken = next(iter(_numbers(folder / used)), None)
        yield most, None if taken is None else max(taken - sum(map(int, spare)), 0)


def _share(words: Iterable[str]) -> list[float]:
    """Processors from a quota and its period, both in microseconds; `max` and -1 mean no limit."""
    with contextlib.suppress(ValueError):
        quota, period = map(int, words)
        return [quota / period] if quota > 0 and period > 0 else []
    return []


def _numbers(file: Path) -> list[int]:
    with contextlib.suppress(ValueError):
        return [number for number in map(int, _words(file)) if number < _NO_LIMIT]
    return []


_NO_LIMIT = 1 << 60
"""Version 1 writes a number about this large for no limit; the exact number depends on the page size."""


def _words(file: Path) -> list[str]:
    return _text(file).split()


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
