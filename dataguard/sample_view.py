"""Samples as `dataguard show` prints and draws them: plain data. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dataguard.figures import Picture


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to show: samples by index (in a stream, by position), read one after the other `repeat` times.

    With `batch`, they are then collated, in a worker if the loader has any.
    """

    indices: tuple[Any, ...]
    batch: bool = False
    repeat: int = 1


@dataclass(frozen=True, slots=True)
class LeafView:
    """One leaf of a sample or batch, in words.

    `path` begins with sample or batch; `type` is its type and dtype; `values` its range, or all of a few values;
    `digest` is a short hash of its content; `note` compares it with samples above.
    """

    path: str
    type: str
    shape: tuple[int, ...] | None
    values: str
    digest: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class SampleView:
    """One sample or batch: its leaves, with pictures of those that are images; or the error that reading it raised."""

    name: str
    leaves: tuple[LeafView, ...] = ()
    pictures: tuple[Picture, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class SampleViews:
    """Some samples of one loader, in the order in which they were read; `others` are the target's other loaders."""

    target: str
    loader: str
    samples: tuple[SampleView, ...]
    others: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether one of them could not be read."""
        return any(sample.error for sample in self.samples)
