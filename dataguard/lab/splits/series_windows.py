"""Windows of one series that two splits share, each from another step on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor
from xxhash import xxh3_64_intdigest

from dataguard.lab.core.index import Index
from dataguard.lab.core.leaves import array_of, iter_leaves
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.subject import Subject
from dataguard.targets.variants import Loader

WINDOWS = 256
"""How many samples of each split are read."""
RUN = 4
"""Steps in a row that two windows share only if they are of one series; all of them differ."""
SHORTEST, LONGEST = 12, 512
"""The steps of a window: the fewest, and the most that are compared."""
SHARED = 0.5
"""The share of the runs of a window that another split has."""

Runs = Sequence[int | None]
"""The digest of the run that begins at each step; None if its steps do not all differ."""


@dataclass(frozen=True, slots=True)
class SharedSeries:
    """How many `windows` of a split, `of` those that were read, lie inside the series of another one; and a `pair`.

    The pair holds an index of this split and one of the other, whose windows begin so many steps apart: `shift`.
    """

    windows: int
    of: int
    pair: tuple[Index, Index] | None = None
    shift: int = 0


def shared_series(subject: Subject, other: Subject) -> SharedSeries:
    """The windows whose end has a successor in the other split: those that follow on it, as in time, have none."""
    own, theirs = _windows(subject), _windows(other)
    inside = {run: (index, step) for index, runs in theirs.items() for step, run in enumerate(runs[:-1]) if run}
    known = inside.keys() | {runs[-1] for runs in theirs.values() if runs and runs[-1]}
    if len(known) < len(theirs):  # a pattern that repeats
        return SharedSeries(0, len(own))
    shared = {
        index: runs
        for index, runs in own.items()
        if runs and runs[-1] in inside and sum(run in known for run in runs if run) >= SHARED * len(runs)
    }
    for index, runs in shared.items():
        earlier, step = inside[runs[-1] or 0]
        return SharedSeries(len(shared), len(own), (index, earlier), abs(len(runs) - 1 - step))
    return SharedSeries(0, len(own))


def _windows(subject: Subject) -> Mapping[Index, Runs]:
    if not any(_is_series(leaf.shape, leaf.dtype) for sample in subject.epoch.samples[:1] for leaf in sample.leaves):
        return {}
    indices = subject.epoch.asked(WINDOWS)
    subject.afford_reads("series", len(indices))
    found: Mapping[Index, Runs] = subject.vary("series", lambda folder: _read(subject.build, folder, indices))
    return found


def _is_series(shape: Sequence[int] | None, dtype: Any) -> bool:
    return shape is not None and len(shape) in (1, 2) and max(shape) >= SHORTEST and "float" in str(dtype)


def _read(build: Callable[..., Loader], folder: Path, indices: Sequence[Index]) -> Mapping[Index, Runs]:
    reader = Reader(build(), folder)
    return {index: _runs(reader.read(index)) for index in indices}


def _runs(sample: Any) -> Runs:
    """The runs of the largest series of a sample, along its longer axis."""
    leaves = (leaf for _, leaf in iter_leaves(sample) if isinstance(leaf, Tensor | np.ndarray))
    series = [array_of(leaf) for leaf in leaves if _is_series(leaf.shape, leaf.dtype)]
    if not series:
        return ()
    largest = max(series, key=lambda array: array.size)
    rows = largest.T if largest.ndim == 2 and largest.shape[0] < largest.shape[1] else largest
    steps = [row.tobytes() for row in np.ascontiguousarray(rows[:LONGEST])]
    runs = (steps[start : start + RUN] for start in range(len(steps) - RUN + 1))
    return [xxh3_64_intdigest(b"".join(run)) if len(set(run)) == RUN else None for run in runs]
