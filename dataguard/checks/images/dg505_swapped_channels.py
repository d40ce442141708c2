"""DG505: the channels of an image are not those that the model expects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.image_findings import image_finding, last_reordering
from dataguard.checks.common.rewrites import channels_turned
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, NotTested, Severity, Undecided
from dataguard.stats.normalization import KNOWN, plain_factor, read

if TYPE_CHECKING:
    from dataguard.lab.images.chart_fit import Fit
    from dataguard.lab.images.colour_lines import ColourStep
    from dataguard.lab.lab import Lab

_UNIT = ", but values from 0 to 1 without normalization are RGB by convention"
_CENTRED = ", but values from -1 to 1 are RGB by convention"
_CONVENTIONS = {_UNIT, _CENTRED}
_EXACT = 1e-3
"""How far the ends of a range may be off: models from Caffe divide by 128 to get close to 1, and may mean BGR."""


@check("DG505", "swapped-channels", Severity.ERROR)
def dg505_swapped_channels(lab: Lab) -> Judgement:
    """Red and blue are swapped between the file and the model, or all colours are in each channel.

    Symptom: a pretrained model is a few percent worse than published, skies look orange, and training still works;
        predictions fail when another program decodes the images.
        A warning where only the usual convention speaks against it, as a model may learn from BGR throughout.
    Cause: `cv2.imread` and `cv2.imdecode` return BGR, while torchvision, pretrained weights and the usual statistics
        expect RGB; or channels are swapped twice, or after Pillow, which already returns RGB; or `view` or `reshape`
        is meant to move the channels, and moves pixels.
    Fix: `cv2.cvtColor(image, cv2.COLOR_BGR2RGB)` once, right after decoding; or
        `[tool.dataguard.contract] channels = "BGR"` if the model really expects BGR. `permute(2, 0, 1)` puts channels
        first, and `view` does not.
    Links: https://docs.opencv.org/4.x/d4/da8/group__imgcodecs.html
    """
    if lab.images.scrambled:
        path = lab.images.scrambled[0]
        yield Finding(
            message=f"each channel of {path} holds pixels of all three colours (tested with pure-colour images): it is "
            "reshaped where its axes are to be exchanged",
            evidence={"fix here": "exchange the axes with permute or transpose", "leaves": list(lab.images.scrambled)},
            at=lab.images.scrambling_line or lab.dataset.location,
            repro=lab.repro.scan("DG505", ""),
        )
        return Coverage({"leaves": len(lab.images.scrambled)})
    colours = lab.images.charts
    if not colours.decoded:
        raise NotTested(f"no image decoder is called, only {colours.source}: the channel order is unknown")
    if colours.grey:
        raise NotApplicable("images are grey and have no channel order")
    images = [fit for fit in colours.fits if len(fit.gains) == 3]
    if not images:
        raise NotApplicable("no image in the sample has three channels")
    swapped = {fit: why for fit in images for why in [_why(lab, fit)] if why}
    if swapped:
        fit, why = next(iter(swapped.items()))
        tested = f"tested with pure-colour images in place of what {colours.source} returns"
        yield replace(
            image_finding(
                lab,
                swapped,
                f"is {fit.order}{why} ({tested})",
                _decoding if fit.other_orders else last_reordering,
                [channels_turned],
                f"turn the channels once: {fit.order} to {lab.settings.contract.get('channels') or 'RGB'}",
            ),
            ambiguous={*swapped.values()} <= _CONVENTIONS,
        )
    else:
        _need_clear(lab, images)
    measured = f"{colours.root}{images[0].path}: {colours.summary(images[0], lab.images.candidates)}"
    return Coverage(colours.exercised, None if swapped else measured)


def _decoding(steps: Sequence[ColourStep]) -> ColourStep:
    """The step that decodes in another order than RGB: a later one may reorder channels at random, as the hue does."""
    return steps[0] if steps[0].red_plane else last_reordering(steps)


def _why(lab: Lab, fit: Fit) -> str | None:
    """Why the channel order of an image is wrong, as it follows that order in the message; None where it is right."""
    wanted = lab.settings.contract.get("channels")
    if not fit.order or len(set(fit.order)) < 3 or fit.order == (wanted or "RGB"):
        return None
    if wanted:
        return f", but the contract says {wanted}"
    if fit.order != "BGR":
        return ", which is neither RGB nor BGR"
    if not fit.is_float:  # raw bytes: code that scales them later may also swap channels
        return None
    reading = read(fit.gains, fit.offsets, lab.images.candidates)
    if reading and not reading.statistics.symmetric:
        return None if reading.bgr else f" but normalized with {reading.statistics.name}'s RGB statistics"
    if all(abs(low + 1) < _EXACT and abs(high - 1) < _EXACT for low, high in zip(fit.offsets, fit.white, strict=True)):
        return _CENTRED
    factor = plain_factor(fit.gains, fit.offsets)
    unit = factor is not None and factor <= 1.01
    return _UNIT if unit else None


def _need_clear(lab: Lab, images: list[Fit]) -> None:
    """Raise Undecided where the channel order is unknown, or whether it is intended."""
    wanted = lab.settings.contract.get("channels")
    ask = 'set [tool.dataguard.contract] channels = "RGB" or "BGR"'
    for fit in images:
        if fit.order is None:
            raise Undecided("the channel order differs between draws")
        if fit.order == "BGR" and fit.is_float and not wanted:
            reading = read(fit.gains, fit.offsets, list(KNOWN.values()))
            if reading is None or reading.statistics.symmetric:
                raise Undecided(f"channels are BGR, and it is unknown whether the model expects that: {ask}")
