"""The start of an observing process: `main` imports what it needs, or answers why that cannot be imported.

Neither torch nor any other library is needed to import this.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

from dataguard.process.messages import Answers


def main(descriptor: str, parent: str) -> None:
    """Serve one session; the arguments are those of `host.main`."""
    try:
        from dataguard.observer import host
    except Exception as error:  # noqa: BLE001 - a broken installation may raise anything while it is imported
        with Answers(int(descriptor)) as pipe:
            pipe.recv()
            pipe.send(_failure(error))
        return
    host.main(int(descriptor), int(parent), forked=False)


def observe_here(folder: Path, stdin: int, stdout: int, descriptor: int) -> None:
    """In a fork of the reporting process: see `zygote.become_reaper_here`."""
    from dataguard.observer.zygote import become_reaper_here

    become_reaper_here(folder, stdin, stdout, descriptor)


def _failure(error: Exception) -> tuple[str, str]:
    """What is wrong: a library, or, if it is none, dataguard itself."""
    modules = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    modules.append((error.name if isinstance(error, ImportError) else None) or "")
    packages = (name.partition(".")[0] for name in modules)
    library = next((name for name in packages if name not in ("", "dataguard", "importlib")), None)
    if library is None:
        return "broken", "".join(traceback.format_exception(error))
    first = str(error).strip().partition("\n")[0]
    return "usage", (
        f"{library} cannot be imported by {sys.executable}: {type(error).__name__}: {first}; install it again, or run "
        "dataguard with the Python that trains (`dataguard doctor` lists the libraries)"
    )
