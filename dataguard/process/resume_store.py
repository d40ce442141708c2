"""Where a scan of all samples keeps its state, so that it can resume after an interruption. Standard library only.

A folder in the current directory, like the caches of pytest and ruff; it is removed when the scan finishes.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from dataguard.process.imported_modules import own_files
from dataguard.process.torchrun import Team
from dataguard.settings.settings import Settings
from dataguard.settings.user_files import json_in
from dataguard.unnamed import is_held

CACHE = ".dataguard_cache"
_SOURCES = "sources.json"
_LOCK = ".lock"
_DAMAGED = "the saved state is damaged"
_PATIENCE = 2.0
"""Seconds to wait for the processes of an interrupted scan to end."""
_DEPENDS_ON = ("seed", "workers", "start_method", "samples", "key")
"""The settings that decide what is read, in which order, and what is kept."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The folder with the state of a scan, None if there is none.

    `afresh` says why the scan starts over although it was asked to resume.
    """

    folder: Path | None
    afresh: str | None = None


NOTHING = Kept(None)
"""For a scan that does not read all samples."""


def state_of(spelling: str, settings: Settings) -> Path | None:
    """The folder for the state of a scan; None for one that does not read all samples, or whose target has no name."""
    if not settings.all or is_held(spelling):
        return None
    key = [_version(), spelling, *(getattr(settings, name) for name in _DEPENDS_ON)]
    return Path.cwd() / CACHE / hashlib.blake2b(repr(key).encode(), digest_size=8).hexdigest()


def _version() -> str:
    """The installed version; empty if the package is imported without being installed."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version("dataguard")
    return ""


def opened(state: Path, team: Team | None, *, resume: bool) -> Kept:
    """The folder of this rank, empty unless an interrupted scan of unchanged modules is resumed."""
    own = state / (f"{team.rank} of {team.world}" if team else "alone")
    try:
        state.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError), (state.parent / ".gitignore").open("x", encoding="utf-8") as ignored:
            ignored.write("*\n")
        if not _acquire_lock(own.with_suffix(_LOCK)):
            return Kept(None, "another scan of it is running" if resume else None)
        now = _own_sources()
        afresh = _why_afresh(own, now)
        if afresh or not resume:
            shutil.rmtree(own, ignore_errors=True)
            own.mkdir()
            (own / _SOURCES).write_text(json.dumps(now), encoding="utf-8")
    except OSError as error:
        return Kept(None, f"{CACHE} cannot be used ({error.strerror})" if resume else None)
    return Kept(own, afresh if resume else None)


def _why_afresh(own: Path, now: dict[str, int]) -> str | None:
    """Why the state in a folder cannot be used, if so: missing, damaged, or made from other sources."""
    try:
        then = json_in(own / _SOURCES) if (own / _SOURCES).exists() else None
    except ValueError:
        return _DAMAGED
    if then is None:
        others = [folder.name for folder in own.parent.iterdir() if folder.is_dir() and folder != own]
        return _for_others(others, own.name) if others else "no interrupted scan with these settings"
    if then == now:
        return None
    if not isinstance(then, dict):
        return _DAMAGED
    changed = [file for file in sorted({*then, *now}) if then.get(file) != now.get(file)]
    return f"{Path(changed[0]).name} has changed"


def _for_others(kept: Sequence[str], own: str) -> str:
    """Says that the saved state is from another number of processes."""
    worlds = sorted({name.rpartition(" of ")[2] for name in kept})
    whose = " and ".join("one process" if world == "alone" else f"{world} ranks" for world in worlds)
    missing = ", without this rank" if own.rpartition(" of ")[2] in worlds else ""
    return f"the saved state is from {whose}{missing}"


def _acquire_lock(path: Path) -> bool:
    """Lock a file; wait briefly for the processes of an interrupted scan to release it."""
    deadline = time.monotonic() + _PATIENCE
    while _lock(path) is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _lock(path: Path, *, create: bool = True) -> int | None:
    """Lock a file until its descriptor is closed or this process ends; None if it is already locked."""
    # Not for reading, so that it does not count as a file of samples.
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | (os.O_CREAT if create else 0)
    descriptor = os.open(path, flags)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _own_sources() -> dict[str, int]:
    """The source files of the user's imported modules, with modification times in ns."""
    own = sorted(file for file in set(own_files().values()) if Path(file).exists())
    return {file: Path(file).stat().st_mtime_ns for file in own}


def holds_something(state: Path | None) -> bool:
    """Whether there is a state to resume from."""
    return state is not None and any(state.rglob("position.json"))


def forget_all(targets: Sequence[str], settings: Settings) -> None:
    """Remove the states of the finished scans of these targets."""
    for state in filter(None, (state_of(target, settings) for target in targets)):
        forget(state)


def forget(state: Path) -> None:
    """Remove the state of a finished scan, and the cache folder when it is empty.

    A state that another process uses is kept.
    """
    locks: list[int] = []
    with contextlib.suppress(OSError):  # other ranks remove it too and may be faster
        for path in sorted(state.glob(f"*{_LOCK}")):
            descriptor = _lock(path, create=False)
            if descriptor is None:
                break
            locks.append(descriptor)
        else:
            shutil.rmtree(state, ignore_errors=True)
    for descriptor in locks:
        os.close(descriptor)
    cache = state.parent
    with contextlib.suppress(OSError):
        if [entry.name for entry in cache.iterdir()] == [".gitignore"]:
            (cache / ".gitignore").unlink()
            cache.rmdir()
