"""Where the leaves of samples come from, draw by draw: which follow a picture, which a map, and how far they part."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dataguard.lab.core.index import Index
from dataguard.lab.geometry.charted_reader import Sitting, View
from dataguard.lab.geometry.mask_values import Inks, inks_of
from dataguard.lab.geometry.stripe_charts import (
    CHARTS,
    Field,
    apart,
    ends_of,
    flattened,
    located,
    pose_of,
    sampled,
    still,
)

LOOKS = 6
"""Samples that are read as they are, to tell pictures from maps."""
DRAWS, FEWEST = 10, 4
"""How many states the generators are put into, and in how many of them at least."""
SECONDS = 1.5
"""Seconds after which there are no more than the fewest draws."""
_KEPT = 0.02
"""How far a map that was left as it was may seem to have moved."""


@dataclass(frozen=True, slots=True)
class Shift:
    """Where a picture and a map came from in one draw: how far apart, and what happened to each, for a reader.

    `distance` is a share of the picture, and `tolerance` what two pixels of the coarser leaf are.
    """

    draw: int
    index: Index
    distance: float
    tolerance: float
    picture: str
    target: str


@dataclass(frozen=True, slots=True)
class Target:
    """A map among the leaves of a sample: the picture it was compared with, in each draw, and which values it takes.

    `kept` tells that it comes out as it was read, for later, and not for the model. `ends` are the values that were
    drawn, dark and light, of the first channel.
    """

    path: str
    picture: str
    shifts: tuple[Shift, ...]
    kept: bool
    ends: tuple[float, float]
    inks: Inks | None


@dataclass(frozen=True, slots=True)
class Draw:
    """The views of each leaf in one draw, chart by chart, and its height and width, by path."""

    draw: int
    index: Index
    views: dict[str, list[np.ndarray]]
    sizes: dict[str, tuple[int, int]]

    def field(self, path: str, *, negative: bool = False) -> Field | None:
        """Where the points of a picture come from."""
        return located([flattened(view) for view in self.views[path]], negative=negative)

    def target(self, path: str, *, labels: bool) -> Field | None:
        """Where the points of a map come from; one of `labels` shows two values and little else."""
        shots = [flattened(view) for view in self.views[path]]
        ends = ends_of(shots) if labels else None
        return located(shots, ends=ends) if ends or not labels else None


class Study:
    """Draws of one loader with all charts, and what follows from them.

    In `entangled` ones a picture comes out otherwise when its map does, or a map when its picture does: patches are cut
    out around what a map marks, so that each chart is cut at another place.
    """

    def __init__(self, sitting: Sitting) -> None:
        self._sitting = sitting
        self.draws: list[Draw] = []
        self.pictures: set[str] = set()
        self.maps: set[str] = set()
        self.reads = self.entangled = 0
        self._next = 0
        self._labels = sitting.easel.ends is not None
        ends = sitting.easel.ends or ((0.0,), (0.0,))
        self._ends = ends[0][0], ends[1][0]

    def take(self, most: int) -> None:
        """Take draws until there are so many, or no more time."""
        started = time.monotonic()
        for draw in range(self._next, most):
            late = time.monotonic() - started > SECONDS
            if late and len(self.draws) >= FEWEST:
                break
            self._take(draw)
            self._next = draw + 1

    def _take(self, draw: int) -> None:
        number = LOOKS + draw
        views = [self._shot(number, draw, chart) for chart in range(CHARTS)]
        if any(view is None for view in views):
            return
        taken = [view for view in views if view is not None]
        self._tell_apart(number, draw, taken[0])
        paths = [path for path in taken[0].leaves if all(path in view.leaves for view in taken)]
        paths = [path for path in paths if len({view.leaves[path].shape for view in taken}) == 1]
        sizes = {path: taken[0].leaves[path].shape[-2:] for path in paths}
        stacks = {path: [sampled(view.leaves[path]) for view in taken] for path in paths}
        self.draws.append(Draw(draw, taken[0].index, stacks, sizes))

    def _shot(self, number: int, draw: int, chart: int, **negative: bool) -> View | None:
        self.reads += 1
        return self._sitting.shot(number, draw, chart, **negative)

    def _tell_apart(self, number: int, draw: int, first: View) -> None:
        """Which leaves follow the picture, and which the map: each is drawn as its negative once.

        Leaves that have been told apart, and that follow both in another draw, hang on what a map holds.
        """
        picture = self._shot(number, draw, 0, picture=True)
        target = self._shot(number, draw, 0, target=True)
        if picture is None or target is None:
            return
        follows = {
            path: [_differ(leaf, other.leaves.get(path)) for other in (picture, target)]
            for path, leaf in first.leaves.items()
        }
        self.entangled += any(follows.get(path) == [True, True] for path in self.pictures | self.maps)
        if not (self.maps and self.pictures):
            self.pictures |= {path for path, both in follows.items() if both == [True, False]}
            self.maps |= {path for path, both in follows.items() if both == [False, True]}

    def targets(self, looks: Sequence[View]) -> Iterator[Target]:
        """Every map leaf, with the picture that it keeps closest to."""
        for path in sorted(self.maps):
            draws = [draw for draw in self.draws if path in draw.views]
            natural = [look.leaves[path] for look in looks if path in look.leaves]
            inks = inks_of([draw.views[path] for draw in draws], natural)
            compared = [(picture, self._shifts(path, picture, draws)) for picture in sorted(self.pictures)]
            compared = [(picture, shifts) for picture, shifts in compared if shifts]
            picture, shifts = min(compared, key=lambda one: max(map(_excess, one[1])), default=("", ()))
            kept = self._is_kept(path, picture, looks, draws)
            yield Target(path, picture, tuple(shifts), kept, self._ends, inks)

    def _shifts(self, path: str, picture: str, draws: Sequence[Draw]) -> list[Shift]:
        found = []
        for draw in draws:
            target = draw.target(path, labels=self._labels)
            own = (
                [draw.field(picture, negative=negative) for negative in (False, True)] if picture in draw.views else []
            )
            lengths = [
                (length, number)
                for number, field in enumerate(own)
                if field is not None and target is not None
                if (length := apart(field, target)) is not None
            ]
            if not lengths:
                continue
            length, number = min(lengths)
            poses = [None if field is None else pose_of(field) for field in (own[number], target)]
            words = ["transformed in another way" if pose is None else pose.words for pose in poses]
            coarse = min(*draw.sizes[path], *draw.sizes[picture])
            found.append(Shift(draw.draw, draw.index, length, 2 / coarse + 0.01, *words))
        return found

    def _is_kept(self, path: str, picture: str, looks: Sequence[View], draws: Sequence[Draw]) -> bool:
        """Whether a map stays as it came along, in its own size, while the picture gets another: it is for later."""
        leaves = [(look, look.leaves[path], look.leaves.get(picture)) for look in looks if path in look.leaves]
        for look, leaf, other in leaves:
            sizes = {one.size for one in look.given}
            if other is None or leaf.shape[-2:] not in sizes or leaf.shape[-2:] == other.shape[-2:]:
                return False
        fields = (draw.target(path, labels=self._labels) for draw in draws)
        moved = (None if field is None else apart(field, still()) for field in fields)
        return bool(leaves) and all(length is not None and length < _KEPT for length in moved)


def _excess(shift: Shift) -> float:
    return shift.distance / shift.tolerance


def _differ(one: np.ndarray, other: np.ndarray | None) -> bool:
    """Whether a leaf looks different in two views of one draw."""
    if other is None or one.shape != other.shape:
        return True
    return bool((np.abs(one.astype(np.float64) - other) > 1e-6 * max(float(np.abs(one).max()), 1e-9)).mean() > 0.02)
