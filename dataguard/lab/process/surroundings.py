"""What the user's code took from this process that observing needs: the root folder, the user, the size of files."""

from __future__ import annotations

import resource
from collections.abc import Iterator

from dataguard.model import Undecided, prevented
from dataguard.process.originals import os


def _now() -> dict[str, object]:
    root, masked = os.stat("/"), os.umask(0o77)  # for a moment, as nothing else tells it
    os.umask(masked)
    return {
        "the root folder, with os.chroot": (root.st_dev, root.st_ino),
        "the user, with os.setuid or os.seteuid": os.geteuid(),
        "the rights of new files, with os.umask": os.geteuid() != 0 and masked & 0o700,
        "the limit of file sizes, RLIMIT_FSIZE": resource.getrlimit(resource.RLIMIT_FSIZE),
    }


_before: dict[str, object] = {}


def note() -> None:
    """Note what they are, before the user's code is called."""
    _before.update(_now())


def changed() -> str | None:
    """What the user's code has changed since, if anything."""
    changes: Iterator[str] = (name for name, value in _now().items() if _before.get(name, value) != value)
    return ", ".join(changes) or None


def unwritten(what: str, error: BaseException) -> Undecided:
    """What is raised where observing failed at a file, with the reason."""
    why = str(getattr(error, "strerror", None) or type(error).__name__)
    change = changed()
    return prevented(f"{what}: " + (f"the user's code changes {change} ({why})" if change else why))
