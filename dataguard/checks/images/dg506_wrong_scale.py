"""DG506: images are scaled by a wrong factor."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.image_findings import divided_again, file_finding, image_finding, wrong_scaling
from dataguard.checks.common.labels import samples_of
from dataguard.checks.common.rewrites import divided, undivided
from dataguard.core.incident import observed_or_none
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, Undecided
from dataguard.stats.normalization import FACTORS, KNOWN, own_slip, plain_factor, read, shown, slip_of

if TYPE_CHECKING:
    from dataguard.lab.core.records import Numbers
    from dataguard.lab.images.chart_fit import Fit, Uneven
    from dataguard.lab.lab import Lab

WHITES = (255.0, 65535.0)
"""The value of white in unscaled images."""
AS_8_BIT = FACTORS[257.0]
"""The cause of this factor, by which FACTORS lists 16-bit data that is scaled as 8-bit data."""

FEWEST_IMAGES, LEAST_WHITE, SMALLEST_SIDE = 4, 128, 8
"""The fewest images that show a scale, the brightness that one of them has at least, and the smallest side in pixels.
Chosen, not derived."""
BYTE_ERROR = 1e-3
"""How far a byte may be off after two divisions in float32, which is exact to 6e-8: less than 255 times that."""


@check("DG506", "wrong-scale", Severity.ERROR)
def dg506_wrong_scale(lab: Lab) -> Judgement:
    """Image values are too large or too small by 255 or a similar factor.

    Symptom: a pretrained model predicts noise; the loss starts huge or does not move, unless batch normalization hides
        it; all images look the same to the model, black or white.
    Cause: statistics for values from 0 to 1 are applied to bytes that were never divided by 255 (`ToTensor` scales
        bytes, but not float arrays or other types); or values are divided by 255 before `ToTensor` or `Normalize`,
        which divide again, or once more after `Normalize`; or one branch of an augmentation divides, and another one
        does not; or 16-bit values are scaled as 8-bit.
    Fix: scale once, where the dtype of the image is known: `v2.ToDtype(torch.float32, scale=True)`, or one division.
    Links: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.ToTensor.html
    """
    try:
        colours = lab.images.charts
    except NotApplicable as error:
        by_values = _by_values(lab)
        if by_values:
            yield by_values
            return Coverage(lab.epoch.exercised)
        yield _shallow(lab, error)
        return Coverage({"16-bit files": lab.files.depth.files})
    images = [fit for fit in colours.fits if fit.is_float]
    scales = {scale.path: scale for scale in lab.images.uneven}
    mixed = next((fit for fit in images if fit.path in scales), None)
    if mixed is not None:
        yield _mixed_scales(lab, mixed, scales[mixed.path])
        return Coverage(colours.exercised)
    if not images:
        raise NotApplicable("image values are integers, to be scaled later")
    wrong = {fit: why for fit in images for why in [_why(lab, fit)] if why}
    if wrong:
        fit, why = next(iter(wrong.items()))
        black, white = shown(fit.offsets)[0], shown(fit.white)[0]
        yield image_finding(
            lab,
            wrong,
            f"is {why}: black becomes {black:g} and white {white:g} in channel 0",
            wrong_scaling,
            [undivided] if why.startswith(FACTORS[1 / 255]) else [divided] if why.startswith(FACTORS[255]) else [],
            "scale the values once, to the range from 0 to 1",
        )
    elif not {"value_range", "normalization"} & set(lab.settings.contract):
        _need_scaled(images)
    return Coverage(colours.exercised)


def _mixed_scales(lab: Lab, fit: Fit, scale: Uneven) -> Finding:
    """The finding for values that are scaled in some draws, and not in others."""
    colours = lab.images.charts
    steps = observed_or_none(lambda: lab.images.steps_in(scale.draw)) or ()
    return Finding(
        message=f"{colours.root}{fit.path} is {scale.factor:.0f} times as large in some draws as in others: black and "
        f"white are {scale.wide:.4g} or {scale.narrow:.4g} apart",
        evidence={
            "fix here": "scale the values once in each branch, to the range from 0 to 1",
            "charted via": colours.source,
            "charts": colours.charts,
        },
        at=wrong_scaling(steps).location if steps else lab.dataset.location,
        repro=None if colours.collated or colours.index is None else lab.repro.samples(colours.index),
        sample=colours.index,
    )


def _shallow(lab: Lab, error: NotApplicable) -> Finding:
    """The finding for grey 16-bit images that are divided by 255. Raises the error where there are none."""
    depth = observed_or_none(lambda: lab.files.depth)
    curves = depth.curves if depth else ()
    wide = {curve.path: curve.span for curve in curves if curve.span and slip_of(curve.span) == AS_8_BIT}
    if depth is None or not wide:
        raise error
    path, span = next(iter(wide.items()))
    message = f"{path} is {AS_8_BIT}: the range from 0 to 65535 becomes {shown([span])[0]:g} wide"
    return file_finding(lab, depth.index, message, {"leaves": [*wide], "16-bit files": depth.files})


def _by_values(lab: Lab) -> Finding | None:
    """The finding for images that no chart can replace, whose values show that they were divided by 255 twice.

    Their extremes are bytes divided by 255 twice in all samples: of other values, one in 500 is so close to such a
    number.
    """
    by_path: dict[str, list[Numbers]] = defaultdict(list)
    for summary in samples_of(lab.epoch.value_summaries):
        for numbers in summary.numbers:
            by_path[numbers.path].append(numbers)
    for path, seen in by_path.items():
        bytes_of = [255 * 255 * end for numbers in seen for end in (numbers.low, numbers.high)]
        largest = max(bytes_of)
        if (
            len(seen) >= FEWEST_IMAGES
            and all(numbers.is_float and _is_image_shape(numbers.shape) for numbers in seen)
            and min(bytes_of) >= 0
            and LEAST_WHITE < largest < 256
            and all(abs(value - round(value)) < BYTE_ERROR for value in bytes_of)
        ):
            first = next(iter(samples_of(lab.epoch.value_summaries)))
            message = (
                f"sample{path} is {FACTORS[1 / 255]}: values are bytes divided by 65025, up to {largest / 65025:.4g}"
            )
            return Finding(
                message,
                {"fix here": "scale the values once, to the range from 0 to 1", "samples": len(seen)},
                at=(None if first.index is None else lab.places.value(first.index, path)) or lab.dataset.location,
                repro=None if first.index is None else lab.repro.samples(first.index),
                sample=first.index,
            )
    return None


def _is_image_shape(shape: tuple[int, ...]) -> bool:
    """Whether these are rows and columns of one or three channels, first or last."""
    return len(shape) == 3 and any(
        channels in (1, 3) and min(sides) >= SMALLEST_SIDE
        for channels, sides in ((shape[0], shape[1:]), (shape[2], shape[:2]))
    )


def _why(lab: Lab, fit: Fit) -> str | None:
    """What is wrong with the scale, and what shows that."""
    if divided_again(lab, fit):
        return f"{FACTORS[1 / 255]}, the second time after its normalization"
    contract = lab.settings.contract
    declared = lab.images.expected
    reading = read(fit.gains, fit.offsets, [declared] if declared else list(KNOWN.values()))
    if reading:
        return reading.slip and f"{reading.slip}, but {reading.statistics.name}'s statistics expect values from 0 to 1"
    if declared:
        return None
    if "value_range" in contract:
        low, high = contract["value_range"]
        ends = (*fit.offsets, *fit.white)
        slip = slip_of((max(ends) - min(ends)) / (high - low))
        return slip and f"{slip}: the contract says {low} to {high}"
    factor = plain_factor(fit.gains, fit.offsets)
    if factor is None:
        slip = own_slip(fit.gains, fit.offsets)
        return slip and f"{slip}, but its mean and std fit values from 0 to 1"
    slip = None if _is_raw(factor) else slip_of(factor)
    return slip and f"{slip}, without normalization"


def _is_raw(factor: float) -> bool:
    return any(abs(factor - white) < 1e-3 * white for white in WHITES)


def _need_scaled(images: list[Fit]) -> None:
    """Raise Undecided where values are unscaled floats: some models expect them."""
    for fit in images:
        factor = plain_factor(fit.gains, fit.offsets)
        if factor is not None and _is_raw(factor):
            ask = f"set [tool.dataguard.contract] value_range = [0, 1] or [0, {factor:.0f}]"
            raise Undecided(f"values are floats from 0 to {factor:.0f}, which some models expect: {ask}")
