"""Findings about masks, boxes and points that do not follow their image. Standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.model import Finding, NotApplicable, Undecided

if TYPE_CHECKING:
    from dataguard.lab.geometry.alignment import Shift, Target
    from dataguard.lab.geometry.box_alignment import Boxed, Follower
    from dataguard.lab.geometry.mask_charts import Charted
    from dataguard.lab.lab import Lab

CLEAR = 3
"""How many times the tolerance one draw alone must show; two draws need no more than once."""

COMPUTED = 0.5
"""The share of a map between its two values, along one edge, from which on it shows no places."""
FOLLOWED = 0.7
"""The share of boxes that must lie where the image tells; some cover so much of it that they do so anyway."""


def maps_apart(lab: Lab) -> tuple[list[Finding], dict[str, int]]:
    """Findings about masks and other maps that part from the image that they keep closest to, and how much was seen.

    Raises NotApplicable where there is none, and Undecided where they cannot be compared.
    """
    maps = lab.geometry.maps
    compared = [target for target in maps.targets if target.shifts and not target.kept]
    if not compared:
        kept = [target.path for target in maps.targets if target.kept]
        if kept:
            raise NotApplicable(f"{maps.root}{kept[0]} is kept as it was read, in its own size")
        if all(target.inks is None or target.inks.spread > COMPUTED for target in maps.targets):
            raise NotApplicable("nothing shows the mask itself, only what is computed of it")
        raise Undecided("no draw shows enough of the image and its mask side by side")
    found = [_apart(lab, maps, target, shift) for target in compared for shift in [_worst(target)] if shift]
    return found, maps.exercised


def boxes_left(lab: Lab) -> tuple[list[Finding], dict[str, int]]:
    """The same about boxes and points, against where their image comes from in each draw."""
    boxed = lab.geometry.boxes
    follows = [one for one in boxed.followers if one.found >= FOLLOWED * one.comparable]
    # Beside boxes that follow, others are kept as they were read.
    if not follows and lab.facts.role in ("val", "test") and not any(one.moved for one in boxed.followers):
        raise NotApplicable("boxes are those of the file, as an evaluation compares them")
    left = [] if follows else [_left_behind(lab, boxed, one) for one in boxed.followers]
    return left, boxed.exercised


def _worst(target: Target) -> Shift | None:
    """The draw in which picture and map lie farthest apart, where that is farther than rounding explains."""
    beyond = [shift for shift in target.shifts if shift.distance > shift.tolerance]
    clear = len(beyond) > 1 or any(shift.distance > CLEAR * shift.tolerance for shift in beyond)
    return max(beyond, key=lambda shift: shift.distance) if clear else None


def _apart(lab: Lab, maps: Charted, target: Target, shift: Shift) -> Finding:
    image, other = f"{maps.root}{target.picture}", f"{maps.root}{target.path}"
    where = "" if shift.index is None else f" for dataset[{shift.index}]"
    return Finding(
        message=f"{image} comes out {shift.picture}{where}, {other} {shift.target}: {shift.distance:.0%} of it apart",
        evidence={
            "apart": f"{shift.distance:.1%} of the image, where {shift.tolerance:.1%} would be rounding",
            "draw": shift.draw,
            "apart in": f"{sum(one.distance > one.tolerance for one in target.shifts)} of {len(target.shifts)} draws",
            "drawn over": maps.source,
        },
        at=lab.dataset.place,
        repro=None if maps.collated or shift.index is None else lab.repro.expression(f".dataset[{shift.index!r}]"),
    )


def _left_behind(lab: Lab, boxed: Boxed, one: Follower) -> Finding:
    what = "points" if one.points else "boxes"
    lost = one.comparable - one.found
    table, image = f"{boxed.root}{one.path}", f"{boxed.root}{one.picture}"
    return Finding(
        message=f"{table} does not follow {image}: {lost} of {one.comparable} {what} lie elsewhere when it moves",
        evidence={
            "the image, once": one.one,
            "and once": one.other,
            "pairs of draws": one.pairs,
            "read as": one.form,
        },
        at=lab.dataset.place,
        repro=None if boxed.collated or one.index is None else lab.repro.expression(f".dataset[{one.index!r}]"),
    )
