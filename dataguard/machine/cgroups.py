"""Limits of this process by cgroups, version 1 and 2, as set by containers and batch systems. Standard library only.

Limits of parent groups apply as well; a container that only sees its own groups sees them as the root.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_NO_LIMIT = 1 << 60
"""Version 1 writes a number about this large for no limit; the exact number depends on the page size."""


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


def read_allowance(root: Path = Path("/")) -> Allowance:
    """Read the groups of this process below `root`, which is `/` except in tests."""
    groups = dict(_groups(root))
    mounted = root / "sys/fs/cgroup"
    unified = mounted if (mounted / "cgroup.controllers").exists() else mounted / "unified"
    memory: list[tuple[int, int | None]] = []
    cpus: list[float] = []
    processes: list[int] = []
    for folder in _line(unified, groups.get("", "/")):
        memory += _limit(folder, "memory.max", "memory.current", "inactive_file")
        cpus += _share(_words(folder / "cpu.max"))
        processes += _numbers(folder / "pids.max")
    version = 2 if unified == mounted else None
    for name in ("memory", "cpu", "pids"):
        for folder in _line(mounted / name, groups.get(name, "/")):
            version = version or 1
            memory += _limit(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            cpus += _share([*_words(folder / "cpu.cfs_quota_us"), *_words(folder / "cpu.cfs_period_us")])
            processes += _numbers(folder / "pids.max")
    least, used = min(memory, default=(None, None), key=lambda limit: limit[0])
    return Allowance(least, used, min(cpus, default=None), min(processes, default=None), version)


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


def _limit(folder: Path, limit: str, used: str, reclaimable: str) -> Iterator[tuple[int, int | None]]:
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


def _words(file: Path) -> list[str]:
    return _text(file).split()


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
