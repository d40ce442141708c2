"""Memory, open files and threads of a process at some point of an epoch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pages:
    """Bytes of a process by kind of page: anonymous pages, and dirty ones, `private` or `shared` with others."""

    anonymous: int
    private: int
    shared: int


@dataclass(frozen=True, slots=True)
class Reading:
    """A process after so many `samples`: bytes `allocated`, its `pages` if counted, and open `descriptors`.

    `in_use` are the bytes of live objects, None if they are unknown: growth shows in it after few samples, as nothing
    is rounded to pages. `at` is the time, and `spent` the CPU time of all earlier readings, in seconds.
    """

    worker: int | None
    epoch: int
    samples: int
    allocated: int
    in_use: int | None
    pages: Pages | None
    descriptors: int
    at: float
    spent: float


@dataclass(frozen=True, slots=True)
class Pools:
    """The libraries of a process that use more than one thread, each with its number of threads."""

    worker: int | None
    epoch: int
    pools: tuple[str, ...]
