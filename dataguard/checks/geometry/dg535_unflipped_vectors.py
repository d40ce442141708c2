"""DG535: a flip or rotation moves a map or cloud of vectors, and not the vectors."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.incident import observed_or_none
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, Undecided
from dataguard.machine.units import counted

if TYPE_CHECKING:
    from dataguard.lab.geometry.rotated_clouds import RotatedCloud
    from dataguard.lab.lab import Lab


@check("DG535", "unflipped-vectors", Severity.WARNING, since="2026.4")
def dg535_unflipped_vectors(lab: Lab) -> Judgement:
    """A flip moves the pixels of a flow or normal map, or rotates a point cloud, and its vectors keep their direction.

    Symptom: the loss stays high where things move or face sideways; predictions are drawn towards zero there.
    Cause: a flip is applied to the map as to an image. In the flipped image, what moved to the right moves to the left,
        and what faced left faces right: the x component changes its sign; after a vertical flip, the y component.
        A rotation of points, too, is applied to the columns of their coordinates alone.
    Fix: negate the component in the same step: `flow = flow.flip(-1); flow[0] = -flow[0]`. Rotate and flip normals
        with their points.
    Links: https://docs.pytorch.org/vision/stable/models.html#optical-flow
    """
    lab.need_map("a stream has no indices to read again")
    clouds = lab.geometry.rotated_clouds
    for cloud in clouds:
        if cloud.kept and not cloud.rotated:
            yield _of_cloud(lab, cloud)
    if clouds:
        return Coverage({"leaves": len(clouds), "turns": sum(one.kept + one.rotated for one in clouds)})
    vectors = lab.geometry.flipped_vectors
    if not vectors:
        raise NotApplicable("no flow or map of normals is flipped in any of several reads")
    for one in vectors:
        name, component = f"sample{one.path}", "x" if one.how == "horizontally" else "y"
        if one.kept and one.negated:
            raise Undecided(f"the {component} component of {name} changes its sign in some flips only")
        if one.kept:
            yield Finding(
                message=f"{name} ({one.kind}) is flipped {one.how}, but its {component} component keeps its sign",
                evidence={
                    "fix here": f"negate component {'xy'.index(component)} of {one.kind} in the step that flips",
                    "compared": f"{counted(one.kept, 'pairs')} of reads that differ by a flip",
                },
                at=observed_or_none(partial(lab.geometry.line_of_unflipped, one)) or lab.dataset.location,
                repro=lab.repro.samples(one.index, one.index, one.index, one.index),
                sample=one.index,
            )
    return Coverage(
        {"leaves": len({one.path for one in vectors}), "flips": sum(one.kept + one.negated for one in vectors)}
    )


def _of_cloud(lab: Lab, cloud: RotatedCloud) -> Finding:
    name = f"columns {cloud.first} to {cloud.first + 2} of sample{cloud.path}"
    return Finding(
        message=f"the points of sample{cloud.path} are rotated or flipped, but their normals, {name}, are not",
        evidence={
            "fix here": "multiply normals by the same matrix as points",
            "compared": f"{counted(cloud.kept, 'pairs')} of reads whose points differ by a rotation or reflection",
        },
        at=observed_or_none(partial(lab.geometry.line_of_turn, cloud)) or lab.dataset.location,
        repro=lab.repro.samples(*[cloud.index] * 4),
        sample=cloud.index,
    )
