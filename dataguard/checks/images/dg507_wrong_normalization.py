"""DG507: an image is normalized with the wrong statistics."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.image_findings import divided_again, image_finding, last_shift
from dataguard.checks.common.rewrites import Rewrite, number_replaced, unturned
from dataguard.core.model import Coverage, Judgement, NotApplicable, Severity
from dataguard.stats.normalization import KNOWN, Statistics, mixed_scales, muddled, near_miss, read, recovered, shown

if TYPE_CHECKING:
    from dataguard.lab.images.chart_fit import Fit
    from dataguard.lab.lab import Lab


@check("DG507", "wrong-normalization", Severity.ERROR)
def dg507_wrong_normalization(lab: Lab) -> Judgement:
    """An image is normalized with the wrong mean or standard deviation.

    Symptom: a pretrained model is slightly or much worse than published; no error, because any numbers work.
    Cause: the transform and the dataset both normalize; statistics in BGR order are applied to RGB channels; one number
        is mistyped (0.255 for 0.225); the variance is used in place of the standard deviation; mean and standard
        deviation are swapped, come from different models, or are meant for different value ranges; or they are not
        those of the contract, with which the weights were trained.
    Fix: take the statistics from the weights (`weights.transforms()`), and normalize once.
    Links: https://docs.pytorch.org/vision/stable/models.html
    """
    colours = lab.images.charts
    images = [fit for fit in colours.fits if fit.is_float]
    if not images:
        raise NotApplicable("image values are integers, to be normalized later")
    images = [fit for fit in images if not divided_again(lab, fit)]
    if not images:
        return Coverage(colours.exercised, "DG506 reports the scale")
    declared, channels = lab.images.expected, lab.settings.contract.get("channels")
    wrong = {
        fit: why for fit in images for why in [_unlike(fit, declared, channels) if declared else _suspect(fit)] if why
    }
    if wrong:
        fit, why = next(iter(wrong.items()))
        mean, std = (shown(part) for part in recovered(fit.gains, fit.offsets))
        yield image_finding(
            lab,
            wrong,
            f"is normalized with mean {mean} and std {std}: {why}",
            last_shift,
            list(_rewrites(fit)),
            "normalize once, with the mean and std of each channel, for the range that values have there",
        )
    in_dg505 = colours.decoded and not colours.grey and any(len(fit.gains) == 3 for fit in colours.fits)
    measured = f"{colours.root}{images[0].path}: {colours.summary(images[0], lab.images.candidates)}"
    return Coverage(colours.exercised, None if wrong or in_dg505 else measured)


def _unlike(fit: Fit, declared: Statistics, channels: str | None) -> str | None:
    """How the statistics differ from those of the contract, for channels in the order that the contract says, if any.

    A wrong scale alone is left to DG506, and a wrong channel order alone to DG505.
    """
    reading = read(fit.gains, fit.offsets, [declared])
    if reading is None:
        return f"the contract says mean {shown(declared.mean)} and std {shown(declared.std)}"
    if reading.times > 1:
        return "the contract's statistics are applied twice"
    if reading.bgr and (channels or fit.order) != "BGR":
        return "the contract's statistics are applied in BGR order to RGB channels"
    if reading.slip is None and abs(reading.factor - 1) > 2e-3:
        return f"the contract says mean {shown(declared.mean)} and std {shown(declared.std)}, for values from 0 to 1"
    return None


def _rewrites(fit: Fit) -> Iterator[Rewrite]:
    """The changes of a line that normalizes: statistics the other way round, or with one other number."""
    missed = near_miss(fit.gains, fit.offsets)
    if missed:
        yield partial(number_replaced, round(missed[2], 4), missed[1])
    yield unturned


def _suspect(fit: Fit) -> str | None:
    """Why statistics are wrong whatever the contract says."""
    reading = read(fit.gains, fit.offsets, list(KNOWN.values()))
    if reading and reading.times > 1:
        return f"{reading.statistics.name}'s statistics are applied twice"
    if reading:
        swapped = reading.bgr and fit.order == "RGB"
        return f"{reading.statistics.name}'s statistics are applied in BGR order to RGB channels" if swapped else None
    if mixed := mixed_scales(fit.gains, fit.offsets):
        return mixed
    missed = near_miss(fit.gains, fit.offsets) if fit.order == "RGB" else None
    if missed:
        return f"{missed[0].name}'s statistics, but with {shown(missed[2:])[0]:g} instead of {missed[1]:g}"
    return muddled(fit.gains, fit.offsets) if fit.order in ("", "RGB", "BGR") else None
