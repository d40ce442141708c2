"""Where a scan of all samples keeps what it read, so that it can go on after an interruption. Standard library only.

A folder below the current directory, beside those of pytest and ruff; it is there as long as the scan is not finished.
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

from dataguard.incident import imported_files, is_library
from dataguard.process.torchrun import Team
from dataguard.settings.settings import Settings

CACHE = ".dataguard_cache"
_SOURCES = "sources.json"
_LOCK = ".lock"
_PATIENCE = 2.0
"""Seconds that the processes of an interrupted scan get to end."""
_TOLD_BY = ("seed", "workers", "start_method", "samples", "key")
"""The settings that decide what is read, in which order, and what is kept of it."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The folder in which a scan keeps what it reads, None where it cannot.

    `afresh` says why it starts at the beginning, where it was asked to go on with an earlier one.
    """

    folder: Path | None
    afresh: str | None = None


NOTHING = Kept(None)
"""What a scan keeps that does not read all samples."""


def state_of(spelling: str, settings: Settings) -> Path | None:
    """Where the state of a scan of a target is kept; None for one that does not read all samples."""
    if not settings.all:
        return None
    told = [_version(), spelling, *(getattr(settings, name) for name in _TOLD_BY)]
    return Path.cwd() / CACHE / hashlib.blake2b(repr(told).encode(), digest_size=8).hexdigest()


def _version() -> str:
    """The installed version, none where the package is only imported from its folder."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version("dataguard")
    return ""


def opened(state: Path, team: Team | None, *, resume: bool) -> Kept:
    """The folder of this rank; it is empty unless an interrupted scan of the same modules is gone on with."""
    own = state / (f"{team.rank} of {team.world}" if team else "alone")
    try:
        state.mkdir(parents=True, exist_ok=True)
        (state.parent / ".gitignore").write_text("*\n", encoding="utf-8")
        if not _locks_soon(own.with_suffix(_LOCK)):
            return Kept(None, "another scan of it is under way" if resume else None)
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
    """Why what was kept in a folder is of no use to modules as they are now, if it is not."""
    try:
        then = json.loads((own / _SOURCES).read_text(encoding="utf-8"))
    except FileNotFoundError:
        others = [folder.name for folder in own.parent.iterdir() if folder.is_dir() and folder != own]
        return _for_others(others, own.name) if others else "nothing was kept of a scan with these settings"
    except (OSError, ValueError):
        return "what was kept is damaged"
    if then == now:
        return None
    changed = [file for file in sorted({*then, *now}) if then.get(file) != now.get(file)]
    return f"{Path(changed[0]).name} is not what it was"


def _for_others(kept: Sequence[str], own: str) -> str:
    """What is kept in other folders than one's own: that of one process, or of other ranks."""
    worlds = sorted({name.rpartition(" of ")[2] for name in kept})
    whose = " and ".join("one process" if world == "alone" else f"{world} ranks" for world in worlds)
    return f"what was kept is that of {whose}" + (
        ", but not of this one" if own.rpartition(" of ")[2] in worlds else ""
    )


def _locks_soon(path: Path) -> bool:
    """Lock a file, as soon as the processes of an interrupted scan that have it locked have ended."""
    deadline = time.monotonic() + _PATIENCE
    while _lock(path) is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _lock(path: Path, *, create: bool = True) -> int | None:
    """Lock a file until its descriptor is closed, by the end of this process at the latest; None where it is locked."""
    flags = os.O_WRONLY | (os.O_CREAT if create else 0)  # not for reading: it is none of the files that samples are in
    descriptor = os.open(path, flags)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _own_sources() -> dict[str, int]:
    """The files of the user's own modules that are imported, and when they were changed (ns)."""
    files = set(imported_files().values())
    own = sorted(file for file in files if not is_library(file) and Path(file).exists())
    return {file: Path(file).stat().st_mtime_ns for file in own}


def holds_something(state: Path | None) -> bool:
    """Whether there is anything to go on from."""
    return state is not None and any(state.rglob("position.json"))


def forget_all(targets: Sequence[str], settings: Settings) -> None:
    """Remove the states of a finished scan of some targets."""
    for state in filter(None, (state_of(target, settings) for target in targets)):
        forget(state)


def forget(state: Path) -> None:
    """Remove the state of a scan that is finished, and with the last of them the folder of all.

    What another process is at work on stays.
    """
    locks: list[int] = []
    with contextlib.suppress(OSError):  # other ranks, which remove it as well, may be ahead of this one
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
