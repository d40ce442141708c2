"""The socket between the reporting and the observing process, and what may pass through it.

The observing process runs the user's code, which may write to any descriptor that is open there. So each answer begins
with a digest under a key that is sent before the user's code is imported: what lacks it, or repeats one, is no answer.
Each field of an answer is read as its type says. Standard library only.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import struct
import time
from collections.abc import Mapping, Sequence, Set
from hashlib import blake2b
from hmac import compare_digest
from multiprocessing.connection import Connection
from typing import Any

from dataguard.core.figures import SampleViews
from dataguard.core.model import Check, Result, Severity, Status
from dataguard.measured import Fingerprint, LoaderTimes
from dataguard.process.host_lost import Refused
from dataguard.process.progress import PROGRESS, ReadingProgress
from dataguard.settings.parsers import built, plain

ANSWERS: Mapping[str, Any] = {
    **dict.fromkeys(("importing", "building"), type(None)),
    "ready": tuple[tuple[str, ...], Mapping[str, Any], tuple[str, ...]],
    "result": tuple[int, Result],
    PROGRESS: ReadingProgress,
    "bench": LoaderTimes,
    "fingerprint": Fingerprint,
    "show": SampleViews,
    **dict.fromkeys(("failed", "usage", "broken"), str),
}
"""The kinds of answers, and the type of what each holds.

`ready` holds the names of the loaders, the environment and notes; `result`, the number of what was asked and its
result; `failed`, why a loader cannot be observed; `usage`, what is wrong with the target; `broken`, the traceback of a
bug of dataguard.
"""
MOST_LOADERS = 10_000
"""Loaders of a target: each is judged by all checks, so that far fewer already take hours."""
_LONGEST_NAME = 10_000
"""Characters of the name of a loader, which every result repeats; `targets.discovery` shortens each part to 200."""
_MOST_BYTES = 1 << 29
"""Bytes of a message: images of samples take some megabytes, and the memory of this process must suffice."""
_MOST_VALUES = 1 << 22
"""Values in a message; each may take a hundred bytes once it is read."""
_CHUNK = 1 << 20
"""Bytes that are read at once."""
_REST_SECONDS = 20
"""Seconds to wait for the rest of a message that has begun; the observing process writes each in one go."""
_KEY_BYTES = _DIGEST_BYTES = 32
"""Bytes of the key and of a digest: 256 bits, which cannot be guessed."""
_FORGED = "code of the target wrote to the socket of dataguard's observing process"
_encode = json.JSONEncoder(separators=(",", ":")).encode
"""As `json.dumps`, which the user's code may replace."""


class _Seal:
    """The digests of one message after the other, under a key; a message that is repeated needs another one."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._number = 0

    def next(self, content: bytes) -> bytes:
        """The digest of the next message."""
        self._number += 1
        salt = self._number.to_bytes(blake2b.SALT_SIZE, "big")
        return blake2b(content, digest_size=_DIGEST_BYTES, key=self._key, salt=salt).digest()


class Answers(Connection):
    """The end of the socket in the observing process, which sends answers."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)  # no program that the user's code starts has it
        super().__init__(descriptor)
        self._seal = _Seal(self.recv_bytes(_KEY_BYTES))

    def send(self, answer: Any) -> None:
        """Send an answer of `ANSWERS`."""
        content = _encode(plain(answer)).encode()
        self.send_bytes(self._seal.next(content) + content)


class Questions(Connection):
    """The end of the socket in the reporting process, which sends questions."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection.detach())
        key = secrets.token_bytes(_KEY_BYTES)
        self._seal = _Seal(key)
        self.send_bytes(key)

    def answer(self, *kinds: str) -> tuple[str, Any] | None:
        """The next answer, of one of these kinds, or progress; None if the observing process has gone.

        Raises Refused for anything else, whoever sent it.
        """
        until = time.monotonic() + _REST_SECONDS
        try:
            (size,) = struct.unpack("!i", self._received(4, until))
            if not _DIGEST_BYTES <= size <= _MOST_BYTES:
                raise Refused(_FORGED)
            digest, content = self._received(_DIGEST_BYTES, until), self._received(size - _DIGEST_BYTES, until)
        except (EOFError, ConnectionResetError):
            return None
        if not compare_digest(digest, self._seal.next(content)):
            raise Refused(_FORGED)
        return _read(content, kinds)

    def _received(self, size: int, until: float) -> bytes:
        """So many bytes. Raises Refused if they have not arrived by then, and EOFError if they never will."""
        content = bytearray()
        while len(content) < size:
            if not self.poll(max(until - time.monotonic(), 0)):
                raise Refused(_FORGED)
            part = os.read(self.fileno(), min(size - len(content), _CHUNK))
            if not part:
                raise EOFError
            content += part
        return bytes(content)


def _read(content: bytes, kinds: Sequence[str]) -> tuple[str, Any]:
    """An answer of one of these kinds, or progress, from its bytes. Raises Refused for any other content."""
    try:
        if content.count(b",") > _MOST_VALUES:
            raise ValueError("too many values")
        kind, value = json.loads(content)
        if kind not in (*kinds, PROGRESS):
            raise ValueError(f"unexpected {kind!r:.40}")
        answer = built(ANSWERS[kind], value)
        if kind == "ready":
            _require_names(answer[0])
    except Exception as error:  # any content can raise any
        raise _refused(error) from error
    return kind, answer


def _require_names(loaders: Sequence[str]) -> None:
    if not 0 < len(loaders) <= MOST_LOADERS:
        raise ValueError(f"{len(loaders):,} loaders")
    if len(set(loaders)) < len(loaders) or len(max(loaders, key=len)) > _LONGEST_NAME:
        raise ValueError("loaders of one name, or of a long one")


def require_result(result: Result, asked: tuple[Check, str] | None) -> None:
    """Raise Refused unless a result is one of the check on the loader that was asked for."""
    if asked is None:
        raise _refused(f"{result.id} once more")
    check, loader = asked
    severities = {check.severity, Severity.WARNING if check.severity is Severity.ERROR else check.severity}
    if (result.code, result.name, result.loader) != (check.code, check.name, loader):
        raise _refused(f"{result.id} instead of {check.id}[{loader}]")
    if result.severity not in severities or result.status not in _STATUSES_WITH[bool(result.findings)]:
        raise _refused(f"{result.severity.value}, {result.status.value}, {len(result.findings)} findings")


_STATUSES_WITH: Mapping[bool, Set[Status]] = {
    True: {Status.FAILED, Status.INCONCLUSIVE, Status.SKIPPED, Status.BROKEN},
    False: {Status.PASSED, Status.INCONCLUSIVE, Status.SKIPPED, Status.BROKEN},
}
"""The statuses of results with and without findings, before what is expected of them is known."""


def _refused(why: object) -> Refused:
    return Refused(f"the observing process sent an invalid answer ({str(why)[:200]})")
