"""DG529: pixel values exceed their integer type, or one branch of an augmentation saturates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataguard.checks.common.check import check
from dataguard.core.model import Coverage, Finding, Judgement, Location, Severity, without_empty

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dataguard.lab.lab import Lab

MOST_SATURATED = 0.5
"""The share of the real pixels at one extreme that an augmentation is not meant to make. Chosen: strong changes of
brightness make a fifth white."""


@check("DG529", "wrapped-values", Severity.ERROR, since="2026.4")
def dg529_wrapped_values(lab: Lab) -> Judgement:
    """Pixel values exceed their integer type in an augmentation, so that white becomes black; or most become white.

    Symptom: some training images have black spots in bright areas, or bright ones in shadows, or are nearly all white;
        augmentation makes the model worse.
    Cause: brightness, contrast or noise is added to uint8 values, which wrap round: 250 + 10 is 4; or one branch of an
        augmentation multiplies values by 255 that already are on that scale, and clips them.
    Fix: change values as floats or int16, clip them to the range, and convert them back then:
        `np.clip(image.astype(np.float32) + delta, 0, 255).astype(np.uint8)`; or use a library's transform.
    Links: https://numpy.org/doc/stable/user/basics.types.html#overflow-errors
    """
    curves = lab.images.curves
    for wrap in curves.wrapped:
        (grey, value), (next_grey, next_value) = wrap.before, wrap.after
        words = f"wraps round: a grey of {grey} becomes {value:.4g}, and one of {next_grey} becomes {next_value:.4g}"
        evidence = {"fix here": "compute with floats, and clip them", "values that wrap": f"{wrap.share:.0%}"}
        yield _finding(lab, f"{curves.root}{wrap.path}", words, evidence, lab.images.wrapping_line(curves))
        return Coverage(curves.exercised)
    for drawn in curves.saturated:
        if drawn.share >= MOST_SATURATED > drawn.usual:
            words = (
                f"is {drawn.extreme:.4g} in {drawn.share:.0%} of its pixels in {drawn.draws} of {curves.draws} draws, "
                f"and in {drawn.usual:.0%} of them else"
            )
            confirmed = "every grey from 4 on becomes that value in these draws"
            yield _finding(lab, f"{curves.root}{drawn.path}", words, {"confirmed by": confirmed})
            break
    return Coverage(curves.exercised)


def _finding(lab: Lab, leaf: str, words: str, evidence: Mapping[str, Any], at: Location | None = None) -> Finding:
    curves = lab.images.curves
    return Finding(
        message=f"{leaf} {words}",
        evidence=without_empty({"leaves": [leaf], **evidence, "charted via": curves.source, "charts": curves.reads}),
        at=at or lab.dataset.location,
        repro=None if curves.collated or curves.index is None else lab.repro.samples(curves.index),
        sample=curves.index,
    )
