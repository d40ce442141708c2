"""The socket between the reporting and the observing process, and what may pass through it.

The observing process runs the user's code, which may write to any file that is open there. So the reporting process
reads plain data and records of dataguard from it, and calls nothing else that a pickle names. Standard library only.
"""

from __future__ import annotations

import io
import pickle
import socket
import struct
from collections.abc import Callable, Mapping
from enum import Enum
from multiprocessing.connection import Connection
from numbers import Integral, Real
from typing import Any

from dataguard import figures, incident, model, timings
from dataguard.fingerprint import Fingerprint, Part
from dataguard.process.host_lost import HostLost
from dataguard.process.progress import PROGRESS, ReadingProgress, Unreadable
from dataguard.sample_view import LeafView, SampleView, SampleViews

RECORDS: tuple[type[Any], ...] = (
    *(model.Finding, model.Location, model.Result, model.Severity, model.Status),
    *(figures.Box, figures.Line, figures.Matrix, figures.Picture, figures.Pictures, figures.Plot),
    *(figures.Span, figures.Swatches, figures.Timeline),
    *(incident.Frame, incident.Incident),
    *(timings.LoaderTimes, timings.Setting, timings.Stage, timings.Timed, timings.Waits),
    *(Fingerprint, Part, ReadingProgress, Unreadable),
    *(LeafView, SampleView, SampleViews),
)
"""The classes that answers consist of, besides plain data."""
_CALLED: tuple[type[Any], ...] = (*RECORDS, dict, float, int, str, tuple)
_NAMED = {(kind.__module__, kind.__qualname__): kind for kind in _CALLED}
_RESEMBLED: tuple[tuple[Any, type[Any]], ...] = (
    *((Integral, int), (Real, float), (Mapping, dict), (list, tuple), (tuple, tuple), (object, str)),
)
"""For other kinds of objects, the plain ones that they arrive as."""
_LARGEST = 1 << 29
"""Bytes of a message; pictures of samples take some megabytes."""
_STALLED = 60
"""Seconds after which the rest of a message that has begun is no longer waited for."""


class Answers(Connection):
    """The end of the socket in the observing process, which sends answers."""

    def send(self, answer: Any) -> None:
        """Send an answer; what is neither plain nor a record arrives as text."""
        content = io.BytesIO()
        _Pickler(content).dump(answer)
        self.send_bytes(content.getvalue())


class Questions(Connection):
    """The end of the socket in the reporting process, which sends questions."""

    def __init__(self, own: socket.socket) -> None:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", _STALLED, 0))
        super().__init__(own.detach())

    def answer(self) -> tuple[str, Any] | None:
        """The next answer; None if the observing process has gone. Raises HostLost for what is no answer."""
        try:
            return _read(self.recv_bytes(_LARGEST))
        except (EOFError, ConnectionResetError):
            return None
        except OSError as error:  # it is too large, or stops in the middle
            raise _refused(error) from error


def _read(message: bytes) -> tuple[str, Any]:
    """An answer from its bytes, whoever wrote them. Raises HostLost for any other content."""
    try:
        answer: tuple[str, Any] = _Unpickler(io.BytesIO(message)).load()
    except Exception as error:  # damaged bytes can raise any
        raise _refused(error) from error
    match answer:
        case (
            ("importing" | "building", None)
            | ("usage" | "broken" | "failed", str())
            | ("ready", (tuple(), dict(), tuple()))
            | ("result", (int(), model.Result()))
            | ("made", Fingerprint() | SampleViews() | timings.LoaderTimes())
        ):
            return answer
        case (kind, ReadingProgress()) if kind == PROGRESS:
            return answer
    raise _refused("of another form")


def _refused(why: object) -> HostLost:
    return HostLost(f"the observing process sent what is no answer of dataguard ({str(why)[:200]})")


class _Pickler(pickle.Pickler):
    """Writes records and plain data as they are, and other objects as the plain data that they resemble."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, RECORDS) or (isinstance(value, type) and value in _CALLED):
            return NotImplemented
        plain = next(plain for kind, plain in _RESEMBLED if isinstance(value, kind))
        return plain, (plain(value),)


class _Unpickler(pickle._Unpickler):
    """Reads what `_Pickler` writes.

    The one in Python, as the one in C takes gigabytes for a message of 13 bytes that names a large entry of its memo.
    """

    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        kind = _NAMED.get((module, name))
        if kind is None:
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        # A class that is an enumeration would let a message set its attributes.
        return (lambda value: kind(value)) if issubclass(kind, Enum) else kind
