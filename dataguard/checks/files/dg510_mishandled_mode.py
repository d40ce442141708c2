"""DG510: palette, alpha, CMYK and grey files that are decoded to the wrong channels or colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.image_findings import file_finding, file_line, shown
from dataguard.checks.common.rewrites import in_three_channels, rewritten
from dataguard.core.model import Coverage, Judgement, NotApplicable, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG510", "mishandled-mode", Severity.WARNING)
def dg510_mishandled_mode(lab: Lab) -> Judgement:
    """Image files with an unusual pixel mode are decoded to the wrong channels or colours.

    Symptom: a few images have one channel or four, and the model fails on them; others look like noise, are inverted,
        or show what transparency should hide.
    Cause: a folder filled from many sources holds palette or alpha PNG files, and CMYK or grey JPEG files;
        `np.asarray(Image.open(path))` and `ToTensor` take the pixels as stored. Or a palette mask is converted to grey,
        by `convert("L")` or `cv2.IMREAD_GRAYSCALE`, although its palette indices are the class indices.
    Fix: `Image.open(path).convert("RGB")`, or `decode_image(path, mode="RGB")`; composite images with alpha onto a
        background: `Image.alpha_composite`. Do not convert masks: `np.array(Image.open(path))`.
    Links: https://pillow.readthedocs.io/en/stable/handbook/concepts.html#modes
    """
    modes = lab.files.modes
    counts = dict(modes.counts)
    wrong = {trial.mode: trial for trial in reversed(modes.trials) if trial.wrong}
    for mode, trial in wrong.items():
        at = file_line(lab, trial.index, trial.name, lambda step: not step.is_stored)
        fix = None if "alpha" in mode else rewritten(lab, at, in_three_channels)  # that is to be composited
        yield file_finding(
            lab,
            trial.index,
            f"{trial.path} from {shown(trial.name)} ({mode}) {trial.wrong}",
            without_empty({"fix here": fix, "files of this mode": counts[mode], "files by mode": counts}),
            at,
        )
    if modes.refused and not wrong:
        raise NotApplicable(f"collate_fn fails when {modes.refused[0]} files meet others in a batch: see DG401")
    return Coverage({"files": sum(counts.values()), "modes": len(counts)})
