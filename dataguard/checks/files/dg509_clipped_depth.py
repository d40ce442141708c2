"""DG509: 16-bit images that lose their upper values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.image_findings import file_finding, file_line, shown
from dataguard.core.model import Coverage, Judgement, Severity, Undecided

if TYPE_CHECKING:
    from dataguard.lab.files.file_observations import BitDepth
    from dataguard.lab.lab import Lab

FEWEST_CLIPPED = 0.01
"""The smallest share of affected pixels that is reported. Chosen, not derived."""
FEWEST_LEVELS = 64
"""With fewer grey levels, contours are seen: 10 m in millimetres keep 40 of them, 14 bits 64, and full 16 bits 256."""


@check("DG509", "clipped-depth", Severity.ERROR)
def dg509_clipped_depth(lab: Lab) -> Judgement:
    """16-bit image values are clipped or truncated instead of scaled.

    Symptom: scans and depth maps are nearly white, nearly black, or show contours where there are none; training
        continues on what is left.
    Cause: Pillow's `convert("L")` and `convert("RGB")` clip all values at 255; `astype(np.uint8)` keeps only the lower
        8 bits; `cv2.imread` without `IMREAD_UNCHANGED` keeps only the upper 8 bits, of which depth in millimetres and
        scans of 12 bits use few; `ToTensor` converts `I;16` to int16, so that values above 32767 become negative; those
        that were converted to 32 bits are scaled by the 32-bit range, and end up near zero.
    Fix: read with `cv2.IMREAD_UNCHANGED` or `np.asarray(image)`, convert to float32, and divide by the largest value.
    Links: https://pillow.readthedocs.io/en/stable/handbook/concepts.html#modes
    """
    depth = lab.files.depth
    wrong = _wrong(depth)
    if wrong:
        yield file_finding(
            lab,
            depth.index,
            f"{wrong} (the maximum of {shown(depth.name)} is {depth.largest})",
            {
                "16-bit files": depth.files,
                "pixels above 255": f"{depth.above:.1%}",
                "pixels above 32767": f"{depth.upper:.1%}",
            },
            file_line(lab, depth.index, depth.name, lambda step: step.most != depth.largest),
        )
    elif depth.upper >= FEWEST_CLIPPED and not any(len(set(curve.values)) > 1 for curve in depth.curves):
        raise Undecided("uniform images of different values give the same output: overflow above 32767 cannot be seen")
    note = "only the upper 8 of 16 bits are kept" if depth.reduced else None
    return Coverage({"16-bit files": depth.files, "grey levels": 5}, note)


def _wrong(depth: BitDepth) -> str | None:
    """How values that need more than 8 bits are lost; None where they are not."""
    if depth.clipped:
        return f"values above 255 are clipped to 255: {depth.above:.0%} of the pixels of a 16-bit file"
    if depth.wrapped:
        return "only the lower 8 of 16 bits are kept: 256 becomes 0, and 257 becomes 1"
    if depth.reduced and depth.brightest >> 8 < FEWEST_LEVELS:
        levels = (depth.brightest >> 8) + 1
        return f"only the upper 8 of 16 bits are kept, and values up to {depth.brightest} become {levels} grey levels"
    for curve in depth.curves:
        if curve.wraps and depth.upper >= FEWEST_CLIPPED:
            low, high = curve.values[2:4]
            return f"{curve.path} overflows above 32767: 30000 becomes {low:g}, and 40000 becomes {high:g}"
        if curve.vanishes:
            return f"{curve.path} is {curve.values[-1]:.2g} for a value of 60000: 16-bit values are scaled as 32-bit"
    return None
