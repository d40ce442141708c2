"""DG508: photographs that lie on their side, because nobody asks how the camera was held."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.image_findings import file_finding, shown
from dataguard.model import Judgement, Looked, Severity, Undecided

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

TURNED = {
    2: "mirrored",
    3: "upside down",
    4: "mirrored and upside down",
    5: "mirrored and on its side",
    6: "on its side",
    7: "mirrored and on its side",
    8: "on its side",
}
"""How an image is stored that is to be turned, by its EXIF orientation."""


@check("DG508", "ignored-orientation", Severity.WARNING)
def dg508_ignored_orientation(lab: Lab) -> Judgement:
    """Files say by their EXIF orientation that they are to be turned, and the loader shows them as they are stored.

    Symptom: a part of the photographs lies on its side; every viewer shows them upright, and so does whatever wrote the
        annotations.
    Cause: cameras store images as the sensor sees them. `cv2.imread` turns them, while `PIL.Image.open`,
        `torchvision.io.decode_image` and `cv2.IMREAD_UNCHANGED` do not; or code of one's own turns them the wrong way:
        `rotate(90)` of Pillow turns to the left.
    Fix: `ImageOps.exif_transpose(image)` right after opening, `decode_image(..., apply_exif_orientation=True)`; or turn
        the files once, and clear the tag.
    Links: https://pillow.readthedocs.io/en/stable/reference/ImageOps.html#PIL.ImageOps.exif_transpose
    """
    turns = lab.files.turns
    looked = {"files": turns.files, "files turned": len(turns.tried)}
    astray = [turn for turn in turns.tried if turn.astray]
    if astray:
        turn = astray[0]
        path, told = turn.astray[0], f"its orientation is {turn.orientation}"
        yield file_finding(
            lab,
            turn.place,
            f"{path} shows {shown(turn.name)} upside down: {told}, and it is turned the wrong way",
            {"EXIF orientation": turn.orientation, "tried": "the same image stored upright, and upside down"},
        )
        return Looked(looked)
    ignoring = [turn for turn in turns.tried if turn.ignored and not turn.followed]
    if not turns.rotated:
        latent = "no file says that it is to be turned; one that did would be shown as it is stored"
        return Looked(looked, latent if ignoring else None)
    wrong = [turn for turn in ignoring if not turn.beside]
    if any(turn.apart for turn in wrong):
        raise Undecided("two samples of one file differ: what is known of a file besides, may be its orientation")
    if wrong:
        turn = wrong[0]
        count = sum(count for _, count in turns.rotated)
        yield file_finding(
            lab,
            turn.place,
            f"{turn.ignored[0]} shows {shown(turn.name)} {TURNED[turn.orientation]}, as it is stored: "
            f"{count} of {turns.files} files are to be turned, and are not",
            {
                "EXIF orientation": turn.orientation,
                "files by orientation": {str(orientation): count for orientation, count in turns.rotated},
                "tried": "the same file with orientation 1 gives the same sample",
            },
        )
    stored = ignoring and not wrong
    note = "files are shown as they are stored, and other files of their samples are stored alike" if stored else None
    return Looked(looked, note)
