"""Exceptions of the user's code as plain data."""

from __future__ import annotations

import errno
import re
import traceback
from collections.abc import Sequence
from typing import Any

from dataguard.incident import OWN, Incident, shown_index
from dataguard.model import Undecided, prevented
from dataguard.targets.loading import frames_of


def incident_of(
    error: BaseException, stage: str, index: Any = None, batch: Sequence[Any] = (), worker: int | None = None
) -> Incident:
    """Describe an exception of the user's code as plain data."""
    words = _words(error)
    bases = [cls.__name__ for cls in type(error).__mro__[1:-1]]
    return Incident(
        stage=stage,
        message=f"{type(error).__name__}: {words}" if words else type(error).__name__,
        frames=frames_of(error),
        index=None if index is None else shown_index(index),
        batch=shown_batch(batch),
        worker=worker,
        error_type=type(error).__name__,
        error_bases=tuple(bases),
    )


def shown_batch(indices: Sequence[Any]) -> tuple[str, ...]:
    """The first indices of a batch for the reader; none in a stream."""
    return tuple(shown_index(item)[:40] for item in indices[:16] if item is not None)


def raised_by_dataguard(error: BaseException, gate: str) -> bool:
    """Whether the innermost frame of an exception is dataguard's own, in a worker if torch sent it from there.

    `gate` is the file of the function that called the user's code: an object that this call itself refuses, such as one
    that is no iterator, is the user's.
    """
    files = [entry.filename for entry in traceback.extract_tb(error.__traceback__)]
    sent = _IN_WORKER.findall(_words(error)) if _SENT.match(_words(error)) else []
    innermost = (sent or files)[-1]
    return innermost.startswith(OWN) and innermost != gate


_SENT = re.compile(r"Caught \w+ in .*\nOriginal Traceback")
_IN_WORKER = re.compile(r'^  File "(.+)", line \d+', re.MULTILINE)


def _words(error: BaseException) -> str:
    """The `str` of a user-defined exception, whose `__str__` may raise."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - see above; SystemExit would end the process that describes it
        return f"<{type(error).__name__} that cannot be shown>"


_SCARCE = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)


def is_scarcity(error: BaseException) -> bool:
    """Whether an exception says that the machine has too little of something."""
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _SCARCE)


def too_deep(error: RecursionError) -> str:
    """What a recursion of dataguard, or of a library that it calls, did not get to the end of."""
    *_, innermost = traceback.extract_tb(error.__traceback__)
    return (
        "samples or other objects of the loader are nested too deeply to be examined, or contain themselves: "
        f"RecursionError in {innermost.name}"
    )


def scarcity(error: BaseException) -> Undecided:
    """What is raised for what an observation had too little of."""
    words = ": ".join(filter(None, (type(error).__name__, str(error).partition("\n")[0])))
    return prevented(f"it ran out of resources during an observation: {words}")
