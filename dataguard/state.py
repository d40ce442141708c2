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
import sys
from importlib import metadata
from pathlib import Path

from dataguard.incident import is_library
from dataguard.settings import Settings
from dataguard.team import Team

CACHE = ".dataguard_cache"
_SOURCES = "sources.json"
_LOCK = ".lock"
_TOLD_BY = ("seed", "workers", "start_method", "samples", "key")
"""The settings that decide what is read, in which order, and what is kept of it."""


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


def opened(state: Path, team: Team | None, *, resume: bool) -> Path | None:
    """The folder of this rank, empty unless an interrupted scan is gone on with, of the same modules as they are now.

    None where nothing can be written, or where another process reads the same at this moment.
    """
    own = state / (f"{team.rank} of {team.world}" if team else "alone")
    sources = own / _SOURCES
    now = json.dumps(_own_sources())
    try:
        state.mkdir(parents=True, exist_ok=True)
        (state.parent / ".gitignore").write_text("*\n", encoding="utf-8")
        if _lock(own.with_suffix(_LOCK)) is None:
            return None
        if not (resume and sources.exists() and sources.read_text(encoding="utf-8") == now):
            shutil.rmtree(own, ignore_errors=True)
            own.mkdir()
            sources.write_text(now, encoding="utf-8")
    except OSError:
        return None
    return own


def _lock(path: Path) -> int | None:
    """Lock a file until its descriptor is closed, by the end of this process at the latest; None where it is locked."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)  # not for reading: it is none of the files that samples are in
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _own_sources() -> dict[str, int]:
    """The files of the user's own modules that are imported, and when they were changed (ns)."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    own = sorted(file for file in files if isinstance(file, str) and not is_library(file) and Path(file).exists())
    return {file: Path(file).stat().st_mtime_ns for file in own}


def holds_something(state: Path | None) -> bool:
    """Whether there is anything to go on from."""
    return state is not None and any(state.rglob("checkpoint.json"))


def forget(state: Path) -> None:
    """Remove the state of a scan that is finished, and with the last of them the folder of all.

    What another process is at work on stays.
    """
    locks = [_lock(path) for path in state.glob(f"*{_LOCK}")]
    if None not in locks:
        shutil.rmtree(state, ignore_errors=True)
    for descriptor in filter(None, locks):
        os.close(descriptor)
    cache = state.parent
    with contextlib.suppress(OSError):
        if [entry.name for entry in cache.iterdir()] == [".gitignore"]:
            (cache / ".gitignore").unlink()
            cache.rmdir()
