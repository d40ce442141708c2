"""Ends reads of samples that would never end: the dataset catches what is raised, and tries again.

Observations change what is decoded while a sample is read. Code that rejects it, such as a blank image, may stand in a
loop: `while True: try: ... except Exception: index = random.randrange(len(self))`. Every decoder that is replaced
counts its calls here; a read that makes far more of them than others, for seconds, is ended. Code that catches that as
well, as a bare `except:` does, is ended with its process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dataguard.process.originals import os, time

FEWEST_CALLS, MOST_CALLS = 2048, 1 << 14
"""Calls of decoders in one read: no read with fewer is ended, nor one with fewer than the most if it is the first."""
TIMES_USUAL = 30
"""How many times the calls of the reads before a read may make: some videos are much longer than others."""
CPU_SECONDS = 2.0
"""Seconds of this process that a read may take anyway: pauses that are skipped, and other processes, do not count."""


class EndlessRead(BaseException):
    """The user's code reads without end. No `Exception`: its loop catches those."""

    @property
    def in_words(self) -> str:
        """Why nothing was decided."""
        return "not decided: where images or files are replaced, the dataset catches an error and tries again forever"


@dataclass(slots=True)
class _Reads:
    """The current read: its calls, when it began, and whether it was ended before; and the `usual` calls of others."""

    going: bool = False
    calls: int = 0
    began: float = 0.0
    ended: bool = False
    usual: int = 0
    process: int = 0
    answer: Callable[[EndlessRead], None] | None = None


_reads = _Reads()


def answer_by(answer: Callable[[EndlessRead], None]) -> None:
    """Let this process answer by this function if a read catches what ends it; forks of it end without an answer."""
    _reads.process, _reads.answer = os.getpid(), answer


@contextlib.contextmanager
def one_read() -> Iterator[None]:
    """Count the calls of decoders inside the context."""
    _reads.going, _reads.calls, _reads.began, _reads.ended = True, 0, time.process_time(), False
    try:
        yield
        _reads.usual = max(_reads.usual, _reads.calls)
    finally:
        _reads.going = False


def decoder_called() -> None:
    """Count a call. Raises EndlessRead in a read that does not end."""
    _reads.calls += 1
    most = max(FEWEST_CALLS, TIMES_USUAL * _reads.usual) if _reads.usual else MOST_CALLS
    if not _reads.going or _reads.calls < most or time.process_time() - _reads.began < CPU_SECONDS:
        return
    if _reads.ended:
        if _reads.answer is not None and os.getpid() == _reads.process:
            _reads.answer(EndlessRead())
        os._exit(0)
    _reads.ended = True
    raise EndlessRead
