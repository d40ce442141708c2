"""Where a scan of all samples keeps what it read, so that it can go on after an interruption. Standard library only.

A folder below the current directory, beside those of pytest and ruff; it is there as long as the scan is not finished.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import sys
from importlib import metadata
from pathlib import Path

from dataguard.incident import is_library
from dataguard.settings import Settings
from dataguard.team import Team

CACHE = ".dataguard_cache"
_SOURCES = "sources.json"
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

    None where nothing can be written.
    """
    own = state / (f"{team.rank} of {team.world}" if team else "alone")
    sources = own / _SOURCES
    now = json.dumps(_own_sources())
    try:
        if not (resume and sources.exists() and sources.read_text(encoding="utf-8") == now):
            shutil.rmtree(own, ignore_errors=True)
            own.mkdir(parents=True)
            (state.parent / ".gitignore").write_text("*\n", encoding="utf-8")
            sources.write_text(now, encoding="utf-8")
    except OSError:
        return None
    return own


def _own_sources() -> dict[str, int]:
    """The files of the user's own modules that are imported, and when they were changed (ns)."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    own = sorted(file for file in files if isinstance(file, str) and not is_library(file) and Path(file).exists())
    return {file: Path(file).stat().st_mtime_ns for file in own}


def holds_something(state: Path | None) -> bool:
    """Whether there is anything to go on from."""
    return state is not None and any(state.rglob("checkpoint.json"))


def forget(state: Path) -> None:
    """Remove the state of a scan that is finished, and with the last of them the folder of all."""
    shutil.rmtree(state, ignore_errors=True)
    cache = state.parent
    with contextlib.suppress(OSError):
        if [entry.name for entry in cache.iterdir()] == [".gitignore"]:
            (cache / ".gitignore").unlink()
            cache.rmdir()
