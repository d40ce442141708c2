"""Where the samples of a stream come from, if their content is random, and whether they end. Standard library only."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dataguard.core.model import DataguardError, NotApplicable, Undecided

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.streams.stream_trace import StreamTrace

RANDOM_SHARE = 0.5
"""The share of new samples at the start of a second epoch, above which the content of samples is random."""
KNOWN_SHARE = 0.9
"""The share of samples whose source has to be known: of those that a buffer holds for a while, it is not."""


def read_from(
    several: Callable[..., StreamTrace], single_process: Callable[..., StreamTrace], single: StreamTrace, **asked: Any
) -> tuple[StreamTrace, StreamTrace] | None:
    """What the samples of several processes, and of one, are read from; None if that does not identify them.

    Only where the content of what a `single` process yields is random: several samples that never change may be parts
    of one file.
    """
    if single.renewed <= RANDOM_SHARE:
        return None
    known = single_process(seeded=False, sources=True, **asked)
    if known.known < KNOWN_SHARE:
        return None
    shared = several(seeded=False, sources=True, **asked)
    return (shared, known) if shared.known >= KNOWN_SHARE else None


def not_ended(lab: Lab, reason: str) -> DataguardError:
    """Why nothing can be said of the end of a stream that was not read so far: it has none, or the reason."""
    loop = lab.places.endless_loop
    return NotApplicable(f"the stream never ends: `while True` in {loop}") if loop else Undecided(reason)
