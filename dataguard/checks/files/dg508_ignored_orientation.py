"""DG508: photographs that are not upright, because their EXIF orientation is ignored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.image_findings import file_finding, file_line, shown
from dataguard.checks.common.rewrites import rewritten, upright
from dataguard.core.model import Coverage, Judgement, Severity, Undecided

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

AS_STORED = {
    2: "flipped horizontally",
    3: "rotated 180 degrees",
    4: "flipped vertically",
    5: "flipped and rotated 90 degrees",
    6: "rotated 90 degrees",
    7: "flipped and rotated 90 degrees",
    8: "rotated 90 degrees",
}
"""How the stored pixels differ from the upright image, by EXIF orientation."""


@check("DG508", "ignored-orientation", Severity.WARNING)
def dg508_ignored_orientation(lab: Lab) -> Judgement:
    """The EXIF orientation of image files is ignored or applied in the wrong direction.

    Symptom: some photographs are rotated by 90 degrees or upside down; every viewer shows them upright, and so did the
        annotation tool.
    Cause: cameras store images as the sensor sees them. `cv2.imread` applies the EXIF orientation, while
        `PIL.Image.open`, `torchvision.io.decode_image` and `cv2.IMREAD_UNCHANGED` do not; or your own code rotates in
        the wrong direction: `rotate(90)` in Pillow is counterclockwise.
    Fix: `ImageOps.exif_transpose(image)` right after opening, or `decode_image(..., apply_exif_orientation=True)`; or
        rotate the files once and clear the tag.
    Links: https://pillow.readthedocs.io/en/stable/reference/ImageOps.html#PIL.ImageOps.exif_transpose
    """
    observed = lab.files.orientations
    exercised = {"files": observed.files, "orientations": len(observed.trials)}
    reversed_trials = [trial for trial in observed.trials if trial.misrotated]
    if reversed_trials:
        trial = reversed_trials[0]
        yield file_finding(
            lab,
            trial.index,
            f"{trial.misrotated[0]} shows {shown(trial.name)} upside down: "
            f"EXIF orientation {trial.orientation} is applied in the wrong direction",
            {"EXIF orientation": trial.orientation, "compared with": "the same image stored upright and upside down"},
            file_line(lab, trial.index, trial.name),
        )
        return Coverage(exercised)
    ignoring = [trial for trial in observed.trials if trial.ignored and not trial.changed]
    if not observed.rotated:
        latent = "no image has an EXIF rotation; if one had, it would be ignored"
        return Coverage(exercised, latent if ignoring else None)
    wrong = [trial for trial in ignoring if not trial.companion]
    if any(trial.inconsistent for trial in wrong):
        raise Undecided(
            "two samples given the same file differ: the dataset may have read orientations when it was built"
        )
    if wrong:
        trial = wrong[0]
        count = sum(count for _, count in observed.rotated)
        at = file_line(lab, trial.index, trial.name)
        yield file_finding(
            lab,
            trial.index,
            f"{trial.ignored[0]} shows {shown(trial.name)} {AS_STORED[trial.orientation]}: "
            f"EXIF orientation is ignored ({count} of {observed.files} files need rotation)",
            {
                "fix here": rewritten(lab, at, upright) or "apply the EXIF orientation to what this line decodes",
                "EXIF orientation": trial.orientation,
                "files by EXIF orientation": {str(orientation): count for orientation, count in observed.rotated},
                "confirmed by": "the same file with orientation 1 gives the same sample",
            },
            at,
        )
    as_stored = ignoring and not wrong
    note = "EXIF orientation is ignored, but other files of the sample match the stored image" if as_stored else None
    return Coverage(exercised, note)
