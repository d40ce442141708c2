"""DG507: an image is normalized by other statistics than those that are meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.image_findings import image_finding
from dataguard.model import Judgement, Looked, NotApplicable, Severity
from dataguard.settings.normalization import KNOWN, Statistics, mixed_scales, muddled, near_miss, read, recovered, shown

if TYPE_CHECKING:
    from dataguard.lab.images.chart_fit import Fit
    from dataguard.lab.lab import Lab


@check("DG507", "wrong-normalization", Severity.ERROR)
def dg507_wrong_normalization(lab: Lab) -> Judgement:
    """The mean and the standard deviation that an image is normalized by are not those that are meant.

    Symptom: a pretrained model is worse than published, by little or by much; no error, because any numbers fit.
    Cause: the transform and the dataset both normalize; the statistics stand blue first and the channels red first;
        one number is mistyped (0.255 for 0.225); mean and standard deviation are exchanged, those of different
        models, or for values of different scales;
        the weights were trained with other statistics than the contract says are applied.
    Fix: take the statistics from where the weights come from (`weights.transforms()`), and normalize once.
    Links: https://docs.pytorch.org/vision/stable/models.html
    """
    colours = lab.images.charts
    images = [fit for fit in colours.fits if fit.is_float]
    if not images:
        raise NotApplicable("image leaves hold whole numbers, which are normalized later")
    own, meant = lab.images.meant, lab.settings.contract.get("channels")
    wrong = {fit: why for fit in images for why in [_unlike(fit, own, meant) if own else _unmeant(fit)] if why}
    if wrong:
        fit, why = next(iter(wrong.items()))
        mean, std = (shown(part) for part in recovered(fit.gains, fit.offsets))
        yield image_finding(lab, wrong, f"is normalized by mean {mean} and standard deviation {std}: {why}")
    elsewhere = colours.decoded and not colours.grey and any(len(fit.gains) == 3 for fit in colours.fits)  # in DG505
    told = f"{colours.root}{images[0].path}: {colours.told(images[0], lab.images.meanings)}"
    return Looked(colours.exercised, None if wrong or elsewhere else told)


def _unlike(fit: Fit, own: Statistics, meant: str | None) -> str | None:
    """In what the statistics differ from those of the contract, for channels in the order that is `meant`.

    What only the scale makes wrong is not meant here, nor what only the order of the image does.
    """
    found = read(fit.gains, fit.offsets, [own])
    if found is None:
        return f"the contract says {shown(own.mean)} and {shown(own.std)}"
    if found.times > 1:
        return "those of the contract are applied twice"
    if found.bgr and (meant or fit.order) != "BGR":
        return "those of the contract, blue first, meet red first"
    if found.slip is None and abs(found.factor - 1) > 2e-3:
        return f"the contract says {shown(own.mean)} and {shown(own.std)}, for values from 0 to 1"
    return None


def _unmeant(fit: Fit) -> str | None:
    """What shows by itself that statistics are wrong."""
    found = read(fit.gains, fit.offsets, list(KNOWN.values()))
    if found and found.times > 1:
        return f"{found.statistics.name} statistics are applied twice"
    if found:
        turned = found.bgr and fit.order == "RGB"
        return f"{found.statistics.name} statistics, blue first, meet red first" if turned else None
    if mixed := mixed_scales(fit.gains, fit.offsets):
        return mixed
    missed = near_miss(fit.gains, fit.offsets) if fit.order == "RGB" else None
    if missed:
        return f"all as of {missed[0].name}, but {shown(missed[2:])[0]:g} where {missed[1]:g} is meant"
    return muddled(fit.gains, fit.offsets) if fit.order in ("", "RGB", "BGR") else None
