"""What charts show of an image: gains, offsets, and where neither can be fitted."""

from __future__ import annotations

import numpy as np
import pytest

from dataguard.lab.images.chart_fit import BLACK, CHARTS, ChartResponse, fit, follows, response_to
from dataguard.lab.images.colour_chart_reader import ColourChartReader
from dataguard.lab.images.painter import RGB
from dataguard.settings.normalization import (
    KNOWN,
    plain_factor,
    recovered,
)


def image(colour: RGB, size: int = 16) -> np.ndarray:
    return np.broadcast_to(np.array(colour, np.float64)[:, None, None], (3, size, size)).copy()


def responses(make: object, draws: int = 2) -> list[ChartResponse]:
    assert callable(make)
    return [response_to(chart, draw, make(image(chart), draw)) for draw in range(draws) for chart in CHARTS]


def test_padding_is_not_a_colour() -> None:
    def pad(pixels: np.ndarray, _: int) -> np.ndarray:
        return np.pad(pixels / 255, ((0, 0), (20, 20), (0, 0)), constant_values=0.3)

    found = fit(responses(pad), "")
    assert found is not None
    assert (found.order, found.exact) == ("RGB", True)
    assert plain_factor(found.gains, found.offsets) == pytest.approx(1)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("frames", [2, 4, 16])
def test_frames_are_not_channels(axis: int, frames: int) -> None:
    found = fit(responses(lambda pixels, _: np.stack([pixels / 255] * frames, axis=axis)), "")
    assert found is not None
    assert (found.order, found.exact) == ("RGB", True)


def test_jitter_is_clipped_at_black_and_white() -> None:
    def jitter(pixels: np.ndarray, draw: int) -> np.ndarray:
        bright = np.clip(pixels[::-1] / 255 * (0.7 + 0.1 * draw), 0, 1)
        normalized: np.ndarray = (bright - np.reshape(KNOWN["imagenet"].mean, (3, 1, 1))) / np.reshape(
            KNOWN["imagenet"].std, (3, 1, 1)
        )
        return normalized

    found = fit(responses(jitter, draws=6), "")
    assert found is not None
    assert (found.order, found.exact) == ("BGR", False)
    mean, std = recovered(found.gains, found.offsets)
    assert mean == pytest.approx(KNOWN["imagenet"].mean, abs=1e-6)
    assert std == pytest.approx(KNOWN["imagenet"].std, abs=1e-6)


def test_a_nonlinear_response_has_no_fit() -> None:
    def curve(pixels: np.ndarray, _: int) -> np.ndarray:
        return (pixels / 255) ** 2.2

    def noise(pixels: np.ndarray, draw: int) -> np.ndarray:
        return pixels / 255 + 0.01 * np.random.default_rng(draw * 1000 + int(pixels.sum()) % 997).normal()

    assert fit(responses(curve), "") is None
    assert fit(responses(noise, draws=6), "") is None


def test_a_leaf_with_one_value_does_not_follow_the_colour() -> None:
    taken = responses(lambda pixels, _: (pixels - pixels.mean()) * 0)
    assert not follows(taken, "")
    nothing = [ChartResponse(BLACK, 0, {"": ()}, {"": "float32"})]
    assert not follows(nothing, "")


@pytest.mark.parametrize(
    ("orders", "found"),
    [
        (["RGB", "BGR", "RGB", "GBR", "RGB", "RGB"], "RGB"),
        (["BGR"] * 6, "BGR"),
        (["BGR", "BGR", "RGB", "BGR", "GRB", "BGR"], None),
        (["BGR", "BGR", "RGB", "BGR", "GRB", "BGR"] * 4, "BGR"),
        (["RGB", "BGR", "GBR", "RBG", "GRB", "BRG"], None),
        (["RGB", "BGR", "GBR", "RBG", "GRB", "BRG"] * 4, ""),
        (["RGB", "BGR"] * 12, None),
    ],
)
def test_the_order_is_that_of_most_draws(orders: list[str], found: str | None) -> None:
    seen = [
        response_to(chart, draw, image(chart)[["RGB".index(name) for name in order]])
        for draw, order in enumerate(orders)
        for chart in CHARTS
    ]
    fitted = fit(seen, "")
    assert fitted is not None
    assert fitted.order == found
    assert ColourChartReader._settled([fitted], len(orders)) is (found is not None)


def test_two_draws_settle_the_usual_order_alone() -> None:
    usual, other = (
        fit([response_to(chart, draw, image(chart)[order]) for draw in range(2) for chart in CHARTS], "")
        for order in ([0, 1, 2], [2, 1, 0])
    )
    assert ColourChartReader._settled([usual], 2)
    assert not ColourChartReader._settled([other], 2)
