"""Findings about what belongs to each entry of a sequence or set, and keeps its order when that has another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.core.model import Finding

if TYPE_CHECKING:
    from dataguard.checks.geometry.alignment import Compared
    from dataguard.lab.lab import Lab

FEWEST_KEPT = 2
"""Pairs of random states in which it keeps its order: one may be a draw of its own."""


def order_findings(lab: Lab) -> Compared:
    """Labels of bases, edges or points that keep their order when sequence, graph or cloud gets another one."""
    rows = lab.geometry.reordered_rows if lab.facts.kind == "map" else ()
    findings = [
        Finding(
            message=f"sample{one.other} keeps its order in {one.kept} of {one.compared} pairs of random states in "
            f"which the {one.entries} entries of sample{one.path} are "
            f"{'reversed' if one.is_reversed else 'in another one'}",
            evidence={"fix here": f"put sample{one.other} in the same order as sample{one.path}"},
            at=lab.geometry.line_of_order(one) or lab.dataset.location,
            repro=lab.repro.samples(one.index),
            sample=one.index,
        )
        for one in rows
        if one.kept >= FEWEST_KEPT
    ]
    if not rows:
        return [], {}, []
    leaves = list(dict.fromkeys(f"sample{path}" for one in rows for path in (one.path, one.other)))
    return findings[:1], {"draws": max(one.compared for one in rows), "leaves": len(leaves)}, leaves
