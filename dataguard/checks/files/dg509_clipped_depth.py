"""DG509: images of 16 bits of which the upper values are lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.image_findings import file_finding, shown
from dataguard.model import Judgement, Looked, Severity, Undecided

if TYPE_CHECKING:
    from dataguard.lab.files.bit_depth import Depth
    from dataguard.lab.lab import Lab

SHARE = 0.01
"""The share of pixels from which on it matters what becomes of them."""


@check("DG509", "clipped-depth", Severity.ERROR)
def dg509_clipped_depth(lab: Lab) -> Judgement:
    """Values of 16 bits are squeezed into fewer by cutting them off, and not by scaling them.

    Symptom: scans and depth maps come out nearly white, nearly black, or with contours where there are none; training
        goes on with what is left.
    Cause: Pillow's `convert("L")` and `convert("RGB")` make 255 of all values above; `astype(np.uint8)` keeps the lower
        8 bits; `ToTensor` makes int16 of `I;16`, so that values above 32767 turn negative; scaling what has become 32
        bits leaves nearly nothing.
    Fix: read with `cv2.IMREAD_UNCHANGED` or `np.asarray(image)`, make float32 of it, and divide by the largest value.
    Links: https://pillow.readthedocs.io/en/stable/handbook/concepts.html#modes
    """
    depth = lab.files.depth
    wrong = _wrong(depth)
    if wrong:
        yield file_finding(
            lab,
            depth.place,
            f"{wrong} ({shown(depth.name)} goes up to {depth.largest})",
            {
                "files of 16 bits": depth.files,
                "pixels above 255": f"{depth.above:.1%}",
                "pixels above 32767": f"{depth.upper:.1%}",
            },
        )
    elif depth.upper >= SHARE and not any(len(set(curve.values)) > 1 for curve in depth.curves):
        raise Undecided("even images of different values all come out alike: whether large values turn is not seen")
    note = "values are reduced to their upper 8 bits" if depth.reduced else None
    return Looked({"files of 16 bits": depth.files, "levels": 5}, note)


def _wrong(depth: Depth) -> str | None:
    """What becomes of values that 8 bits do not hold, if they get lost."""
    if depth.clipped:
        return f"all values above 255 come out as 255 does, {depth.above:.0%} of the pixels of a file of 16 bits"
    if depth.wrapped:
        return "only the lower 8 of 16 bits come out: 256 looks like 0, and 257 like 1"
    for curve in depth.curves:
        if curve.wraps and depth.upper >= SHARE:
            low, high = curve.values[2:4]
            return f"{curve.path} falls where values pass 32767: 30000 comes out as {low:g}, and 40000 as {high:g}"
        if curve.vanishes:
            return f"{curve.path} is {curve.values[-1]:.2g} for a value of 60000: 16 bits are scaled as 32"
    return None
