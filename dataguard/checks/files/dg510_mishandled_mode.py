"""DG510: files with a palette, with alpha, of CMYK or of grey that come out as something else than they show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.image_findings import file_finding, shown
from dataguard.model import Judgement, Looked, NotApplicable, Severity

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG510", "mishandled-mode", Severity.WARNING)
def dg510_mishandled_mode(lab: Lab) -> Judgement:
    """Files of another kind of pixels than most come out with other channels, or with what they do not show.

    Symptom: a few images have one channel or four, which a model refuses when it meets them; others look like noise, or
        inverted, or show what was cut out of them.
    Cause: a folder that was filled from many places holds PNG files with a palette or with alpha, JPEG files of CMYK
        and grey ones; `np.asarray(Image.open(path))` and `ToTensor` take the pixels as they are stored. Or a mask with
        a palette is made grey, by `convert("L")` or `cv2.IMREAD_GRAYSCALE`, where its numbers are the classes.
    Fix: `Image.open(path).convert("RGB")`, or `decode_image(path, mode="RGB")`; paste images with alpha onto a
        background: `Image.alpha_composite`. Leave masks as they are: `np.array(Image.open(path))`.
    Links: https://pillow.readthedocs.io/en/stable/handbook/concepts.html#modes
    """
    modes = lab.files.modes
    kinds = dict(modes.kinds)
    wrong = {trial.kind: trial for trial in reversed(modes.trials) if trial.wrong}
    for kind, trial in wrong.items():
        yield file_finding(
            lab,
            trial.place,
            f"{trial.path}, of {shown(trial.name)} ({kind}), {trial.wrong}",
            {"files of this kind": kinds[kind], "files by kind": kinds},
        )
    if modes.refused and not wrong:
        raise NotApplicable(f"collate_fn fails on files of {modes.refused[0]} beside others: see DG401")
    return Looked({"files": sum(kinds.values()), "kinds": len(kinds)})
