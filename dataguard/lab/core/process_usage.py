"""What a process holds at some point of an epoch: memory, open files, threads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pages:
    """Bytes of a process by pages: anonymous ones, and those written to, either `private` or `shared` with others."""

    anonymous: int
    private: int
    shared: int


@dataclass(frozen=True, slots=True)
class Reading:
    """What a process held after so many samples: bytes that it took, its `pages` where they were counted, open files.

    `at` is a time, and `spent` the time of the CPU that all readings before this one took, in seconds.
    """

    worker: int | None
    epoch: int
    samples: int
    taken: int
    pages: Pages | None
    descriptors: int
    at: float
    spent: float


@dataclass(frozen=True, slots=True)
class Pools:
    """The libraries of a process that use more than one thread, each with their number."""

    worker: int | None
    epoch: int
    pools: tuple[str, ...]
