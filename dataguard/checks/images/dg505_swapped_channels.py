"""DG505: the channels of an image are in another order than the model means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.image_findings import image_finding
from dataguard.model import Judgement, Looked, NotApplicable, Severity, Undecided
from dataguard.settings.normalization import KNOWN, plain_factor, read

if TYPE_CHECKING:
    from dataguard.lab.images.chart_fit import Fit
    from dataguard.lab.lab import Lab


@check("DG505", "swapped-channels", Severity.ERROR)
def dg505_swapped_channels(lab: Lab) -> Judgement:
    """Red and blue are swapped on the way from the file to the model.

    Symptom: a pretrained model is a few percent worse than published, skies look orange, and training still works;
        predictions break where another program reads the images.
    Cause: `cv2.imread` and `cv2.imdecode` give blue, green, red, while torchvision, pretrained weights and the usual
        statistics mean red, green, blue; or channels are turned twice, or after Pillow, which had them right.
    Fix: `cv2.cvtColor(image, cv2.COLOR_BGR2RGB)` right after decoding, once; or
        `[tool.dataguard.contract] channels = "BGR"` where the model really means that order.
    Links: https://docs.opencv.org/4.x/d4/da8/group__imgcodecs.html
    """
    colours = lab.images.charts
    if not colours.decoded:
        raise NotApplicable(f"no decoder is called while a sample is read, only {colours.source}: who knows the order?")
    if colours.grey:
        raise NotApplicable("images are grey, and have no order of channels")
    images = [fit for fit in colours.fits if len(fit.gains) == 3]
    if not images:
        raise NotApplicable("no image leaf has three channels")
    swapped = {fit: why for fit in images for why in [_why(lab, fit)] if why}
    if swapped:
        fit, why = next(iter(swapped.items()))
        what = f"pure red, green and blue in place of what {colours.source} decodes come out so"
        yield image_finding(lab, swapped, f"holds {fit.order} and not {why}: {what}")
    else:
        _need_clear(lab, images)
    told = f"{colours.root}{images[0].path}: {colours.told(images[0], lab.images.meanings)}"
    return Looked(colours.exercised, None if swapped else told)


def _why(lab: Lab, fit: Fit) -> str | None:
    """The order that is meant and what shows that, where channels come in another one."""
    wanted = lab.settings.contract.get("channels")
    if not fit.order or len(set(fit.order)) < 3 or fit.order == (wanted or "RGB"):
        return None
    if wanted:
        return f"{wanted}, as the contract says"
    if fit.order != "BGR":
        return "RGB, nor BGR"
    if not fit.is_float:  # raw bytes: whoever scales them may turn them as well
        return None
    found = read(fit.gains, fit.offsets, lab.images.meanings)
    if found and not found.statistics.symmetric:
        return None if found.bgr else f"RGB, the order of {found.statistics.name}'s statistics, which it is given"
    factor = plain_factor(fit.gains, fit.offsets)
    unit = factor is not None and factor <= 1.01
    return "RGB, which values from 0 to 1 without statistics mean everywhere" if unit else None


def _need_clear(lab: Lab, images: list[Fit]) -> None:
    """Raise Undecided where the order is not known, or its meaning."""
    wanted = lab.settings.contract.get("channels")
    ask = '[tool.dataguard.contract] channels = "RGB" or "BGR" settles it'
    for fit in images:
        if fit.order is None:
            raise Undecided("the order of channels differs from draw to draw")
        if fit.order == "BGR" and fit.is_float and not wanted:
            found = read(fit.gains, fit.offsets, list(KNOWN.values()))
            if found is None or found.statistics.symmetric:
                raise Undecided(f"the channels are BGR, and nothing shows whether that is meant: {ask}")
