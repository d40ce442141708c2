"""Whether the normals of a point cloud are rotated or flipped with its points.

A sample is read in several random states. Points of two states that differ by a rotation or reflection show what their
normals have to do. Points may be drawn and shuffled: rows whose normals are equal in both states belong together if
normals are kept, and rows in the same place do if they are rotated.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dataguard.core.model import Location
from dataguard.lab.core.leaves import array_of, iter_leaves
from dataguard.lab.core.records import Index, LeafRecord
from dataguard.lab.culprit.line_trace import LineTrace
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.subject import Subject
from dataguard.targets.variants import Loader

SAMPLES, DRAWS = 2, 4
"""Samples that are read, and the random states of each."""
READS = SAMPLES * DRAWS
"""The most reads."""
FEWEST_POINTS = 32
"""Points of a cloud, and of those that two states have in common: fewer may be corners of boxes, or joints."""
UNIT, UNIT_SHARE, OBLIQUE_SHARE = 0.01, 0.95, 0.1
"""How far the length of a normal is from 1 at most, the share of rows with one, and of those that are along no axis."""
LEAST_TURN = 0.3
"""The least distance of a turn from none, as the norm of the difference: 0.3 is a rotation by 12 degrees."""
EXPLAINED = 0.25
"""The share of the distances between points that remain after the turn: jitter remains, and other changes do."""


@dataclass(frozen=True, slots=True)
class RotatedCloud:
    """Normals at a path, in columns from `first` on, and how often they were `rotated` with their points, or `kept`."""

    path: str
    first: int
    rotated: int
    kept: int
    index: Index


def rotated_clouds_of(subject: Subject) -> tuple[RotatedCloud, ...]:
    """What is found for a loader; nothing if no sample may hold a cloud."""
    if not any(_may_be_cloud(leaf) for sample in subject.epoch.samples for leaf in sample.leaves):
        return ()
    indices, build = subject.epoch.asked(SAMPLES), subject.build
    subject.afford_reads("rotated clouds", READS)
    return subject.observe("rotated clouds", lambda folder: _find(Reader(build(num_workers=0), folder, DRAWS), indices))


def line_of_turn(subject: Subject, cloud: RotatedCloud) -> Location | None:
    """The line of the user's code after which the points of an array are rotated, and the normals in it are not."""
    build = subject.build
    return subject.observe(("line of turn", cloud.path), lambda folder: _line(build(num_workers=0), folder, cloud))


def _may_be_cloud(leaf: LeafRecord) -> bool:
    """Whether a leaf is a table of floats, with points and normals or one of these."""
    return _holds_points(leaf.shape or ()) and (leaf.dtype or "").startswith("float") and not leaf.constant


def _holds_points(shape: Sequence[int]) -> bool:
    """Whether an array of this shape has three numbers or more for each of many points."""
    return len(shape) == 2 and min(shape) >= 3 and max(shape) >= FEWEST_POINTS


def _find(reader: Reader, indices: Sequence[Index]) -> tuple[RotatedCloud, ...]:
    """Read samples in several random states, and compare their points and normals."""
    seen: dict[tuple[str, int], list[tuple[bool, Index]]] = {}
    for index in indices[:SAMPLES]:
        states = [_tables(reader.read(index, 0))]
        clouds_in = list(_normals(states[0]))
        states += [_tables(reader.read(index, draw)) for draw in range(1, DRAWS)] if clouds_in else []
        for points, path, first in clouds_in:
            found = seen.setdefault((path, first), [])
            for one, other in itertools.combinations(states, 2):
                if points in one and points in other and path in one and path in other:
                    clouds = [(state[points][:, :3], state[path][:, first : first + 3]) for state in (one, other)]
                    kept = _kept(*clouds[0], *clouds[1])
                    found += [] if kept is None else [(kept, index)]
    return tuple(
        RotatedCloud(path, first, sum(not kept for kept, _ in found), len(kept_in), (kept_in or [found[0][1]])[0])
        for (path, first), found in seen.items()
        for kept_in in [[index for kept, index in found if kept]]
        if found
    )


def _line(loader: Loader, folder: Path, cloud: RotatedCloud) -> Location | None:
    reader = Reader(loader, folder, DRAWS)
    columns = slice(cloud.first, cloud.first + 3)
    for draw in range(DRAWS):
        trace = LineTrace(partial(_state_of, columns=columns), {"dataset": loader.dataset})
        with trace.following():
            reader.read(cloud.index, draw)
        earlier: list[np.ndarray] = []
        for look in trace.looks:
            state: Any = look.state
            now = np.frombuffer(state[1]).reshape(state[0])
            if any(_turned(one, now, columns) for one in earlier):
                return look.location
            earlier.append(now)
    return None


def _turned(one: np.ndarray, now: np.ndarray, columns: slice) -> bool:
    """Whether points are rotated between two tables, and normals beside them are not."""
    if one.shape[1] == now.shape[1] == 3:
        alone = not _are_normals(now) and one.shape == now.shape
        return alone and _turn(one, now) is not None
    return min(one.shape[1], now.shape[1]) > 3 and bool(_kept(one[:, :3], one[:, columns], now[:, :3], now[:, columns]))


def _state_of(array: np.ndarray, columns: slice) -> Hashable | None:
    """The rows of an array with points and normals, or with points alone, as float64."""
    rows = _rows(array)
    if rows is None or (rows.shape[1] != 3 and (columns.start < 3 or not _holds_normals(rows, columns))):
        return None
    return rows.shape, rows.tobytes()


def _holds_normals(rows: np.ndarray, columns: slice) -> bool:
    return rows.shape[1] >= columns.stop and _are_normals(rows[:, columns])


def _tables(sample: Any) -> dict[str, np.ndarray]:
    """The tables of a sample with a row for each point, by path."""
    return {path: rows for path, leaf in iter_leaves(sample) if (rows := _rows(array_of(leaf))) is not None}


def _rows(array: np.ndarray) -> np.ndarray | None:
    """A row for each point, of which there are more than columns; None if it is no such table."""
    if array.dtype.kind != "f" or not _holds_points(array.shape):
        return None
    return (array if array.shape[0] > array.shape[1] else array.T).astype(np.float64, order="C")


def _normals(tables: Mapping[str, np.ndarray]) -> Iterator[tuple[str, str, int]]:
    """The path of points, and the path and first column of their normals."""
    for path, table in tables.items():
        for first in range(3, table.shape[1] - 2):
            if _are_normals(table[:, first : first + 3]):
                yield path, path, first
                break
        for other, points in tables.items():
            alike = other != path and len(points) == len(table) and table.shape[1] == points.shape[1] == 3
            if alike and _are_normals(table) and not _are_normals(points):
                yield other, path, 0


def _are_normals(vectors: np.ndarray) -> bool:
    unit = np.abs(np.linalg.norm(vectors, axis=1) - 1) < UNIT
    oblique = (np.abs(vectors) < 1 - UNIT).all(1)
    return bool(unit.mean() >= UNIT_SHARE and oblique.mean() >= OBLIQUE_SHARE)


def _kept(points: np.ndarray, normals: np.ndarray, others: np.ndarray, beside: np.ndarray) -> bool | None:
    """Whether points are rotated between two states, and normals are not; None if points are not, or both differ."""
    rows = {normal.tobytes(): row for row, normal in enumerate(beside)}
    pairs = [(row, rows[normal.tobytes()]) for row, normal in enumerate(normals) if normal.tobytes() in rows]
    if len(pairs) >= FEWEST_POINTS:
        here, there = np.array(pairs).T
        return True if _turn(points[here], others[there]) is not None else None
    turn = _turn(points, others) if points.shape == others.shape else None
    if turn is None:
        return None
    distance = np.abs(normals @ turn - beside).mean()
    return False if distance < EXPLAINED * np.abs(normals - beside).mean() else None


def _turn(points: np.ndarray, others: np.ndarray) -> np.ndarray | None:
    """The rotation or reflection between points, up to their scale and place; None if there is none, or almost none."""
    one, other = points - points.mean(0), others - others.mean(0)
    left, sizes, right = np.linalg.svd(one.T @ other)
    if not (one**2).sum() or sizes[-1] < 1e-6 * sizes[0]:
        return None  # all in one plane: a reflection there is a rotation
    turn = np.asarray(left @ right)
    scale = sizes.sum() / (one**2).sum()
    rest = np.linalg.norm(scale * one @ turn - other)
    straight = np.linalg.norm(scale * one - other)
    rotated = np.linalg.norm(turn - np.eye(3)) >= LEAST_TURN and rest < EXPLAINED * straight
    return turn if rotated else None
