"""What charts show of an image: gains, offsets, and where neither can be fitted."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dataguard.lab.images.chart_fit import (
    BLACK,
    CHARTS,
    ChartResponse,
    fit,
    follows,
    paths_of,
    pixels_of,
    response_to,
    uneven,
)
from dataguard.lab.images.chart_reader import ColourChartReader, _mixing
from dataguard.lab.images.painter import RGB
from dataguard.stats.normalization import (
    KNOWN,
    plain_factor,
    recovered,
)


def image(colour: RGB, size: int = 16) -> np.ndarray:
    return np.broadcast_to(np.array(colour, np.uint8)[:, None, None], (3, size, size)).astype(np.float64)


def responses(make: object, draws: int = 2) -> list[ChartResponse]:
    assert callable(make)
    return [response_to(chart, draw, make(image(chart), draw)) for draw in range(draws) for chart in CHARTS]


@pytest.mark.parametrize("rows", [4, 20])
def test_padding_is_not_a_colour(rows: int) -> None:
    def pad(pixels: np.ndarray, _: int) -> np.ndarray:
        return np.pad(pixels / 255, ((0, 0), (rows, rows), (0, 0)), constant_values=0.3)

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


@pytest.mark.parametrize(
    ("scales", "factor"),
    [
        ((1, 1 / 255, 1, 1 / 255), 255),
        ((1, 0.8 / 255, 1.2, 1 / 255), 255 / 0.9 * 1.1),
        ((1, 1 / 255, 1 / 255, 1 / 255), None),
        ((1, 0.02, 1, 1 / 255), None),
        ((1 / 255, 0.5 / 255, 0.3 / 255, 1 / 255), None),
        ((1, 1 / 1000, 1, 1 / 1000), None),
    ],
    ids=["a branch", "with jitter", "once", "gradual", "jitter", "another factor"],
)
def test_draws_may_have_two_scales(scales: tuple[float, ...], factor: float | None) -> None:
    found = uneven(responses(lambda pixels, draw: pixels * scales[draw] + 3, len(scales)), "")
    assert (found and found.factor) == (factor and pytest.approx(factor))


def noise(pixels: np.ndarray, draw: int) -> np.ndarray:
    """Another noise for each draw of each colour."""
    return np.random.default_rng([draw, *pixels[:, 0, 0].astype(int)]).normal(size=pixels.shape)


@pytest.mark.parametrize("clipped", [True, False])
def test_the_median_of_noisy_pixels_is_their_colour(*, clipped: bool) -> None:
    def grain(pixels: np.ndarray, draw: int) -> np.ndarray:
        shown = pixels[::-1] + 6 * noise(pixels, draw)
        grainy: np.ndarray = (np.clip(shown, 0, 255).astype(np.uint8) if clipped else shown) / 255
        return grainy

    found = fit([response_to(c, draw, grain(image(c, 64), draw)) for draw in range(6) for c in CHARTS], "")
    assert found is not None
    assert found.order == "BGR"
    mean, std = recovered(found.gains, found.offsets)
    assert mean == pytest.approx((0, 0, 0), abs=0.01)
    assert std == pytest.approx((1, 1, 1), abs=0.02)


def test_noise_without_a_colour_follows_nothing() -> None:
    assert not follows(responses(lambda pixels, draw: noise(pixels, draw), draws=6), "")


def test_noise_over_a_gradient_has_no_colour() -> None:
    def fade(pixels: np.ndarray, draw: int) -> np.ndarray:
        faded: np.ndarray = pixels * np.linspace(0.2, 1, 64) + 6 * noise(pixels, draw)
        return faded

    shown = [response_to(c, draw, fade(image(c, 64), draw)) for draw in range(2) for c in CHARTS]
    assert not any(one.shades[""] for one in shown if one.chart == CHARTS[1])


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


@pytest.mark.parametrize("scale", [1, 0.01])
def test_a_nonlinear_response_has_no_fit(scale: float) -> None:
    def curve(pixels: np.ndarray, _: int) -> np.ndarray:
        return scale * (pixels / 255) ** 2.2

    def noise(pixels: np.ndarray, draw: int) -> np.ndarray:
        return pixels / 255 + 0.01 * np.random.default_rng(draw * 1000 + int(pixels.sum()) % 997).normal()

    assert fit(responses(curve), "") is None
    assert fit(responses(noise, draws=6), "") is None


@pytest.mark.parametrize("missing", [BLACK, CHARTS[1], CHARTS[-1]])
def test_black_white_and_grey_are_needed(missing: RGB) -> None:
    assert fit([one for one in responses(lambda pixels, _: pixels) if one.chart != missing], "") is None


def test_images_of_which_some_are_grey_have_no_fit() -> None:
    taken = responses(lambda pixels, draw: pixels[: 1 if draw else 3] / 255)
    assert fit(taken, "") is None
    assert not follows(taken, "")


def test_a_leaf_with_one_value_does_not_follow_the_colour() -> None:
    for value in (0, 0.5):
        taken = responses(lambda pixels, _: np.full_like(pixels, value))  # noqa: B023
        assert not follows(taken, "")
    nothing = [ChartResponse(BLACK, 0, {"": ()}, {"": 0.0}, {"": "float32"})]
    assert not follows(nothing, "")


@pytest.mark.parametrize(
    ("orders", "found"),
    [
        (["RGB", "BGR", "RGB", "GBR", "RGB", "RGB"], None),
        (["RGB", "BGR", "RGB", "GBR", "RGB", "RGB"] * 2, "RGB"),
        (["BGR"] * 6, "BGR"),
        (["BGR", "BGR", "RGB", "BGR", "GRB", "BGR"], None),
        (["BGR", "BGR", "RGB", "BGR", "GRB", "BGR"] * 4, "BGR"),
        (["RGB", "BGR", "GBR", "RBG", "GRB", "BRG"], None),
        (["RGB", "BGR", "GBR", "RBG", "GRB", "BRG"] * 4, ""),
        (["RGB", "BGR"] * 12, None),
        (["RGB", "RGB", "BGR"] * 4, "RGB"),
        (["RGB"] * 5 + ["BGR"] * 3 + ["GBR"], None),
        (["BGR", "BGR", "RGB", "GBR", "RBG", "GRB"] * 5, ""),
        (["RGB", "GBR", "BRG"] * 4, "RGB"),  # the hue is rotated
        (["GRB", "BGR", "RBG"] * 4, "BGR"),
        (["GRB", "BGR", "RBG"] * 3, None),
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


def test_an_order_of_one_draw_is_seen() -> None:
    seen = [
        response_to(chart, draw, image(chart)[[2, 1, 0] if draw == 2 else [0, 1, 2]])
        for draw in range(12)
        for chart in CHARTS
    ]
    fitted = fit(seen, "")
    assert fitted is not None
    assert (fitted.order, fitted.other_orders) == ("RGB", ("BGR",))


def test_two_draws_settle_the_usual_order_alone() -> None:
    usual, other = (
        fit([response_to(chart, draw, image(chart)[order]) for draw in range(2) for chart in CHARTS], "")
        for order in ([0, 1, 2], [2, 1, 0])
    )
    assert ColourChartReader._settled([usual], 2)
    assert not ColourChartReader._settled([other], 2)


class TestWhichLeavesAreImages:
    """The axes of an image, by its shape; `bands` is the number of channels of images without colours."""

    @pytest.mark.parametrize(
        ("shape", "bands", "pixels"),
        [
            ((3, 8, 8), 0, (64, 3)),
            ((8, 8, 3), 0, (64, 3)),
            ((4, 8, 8), 0, (64, 3)),  # without the alpha channel
            ((1, 8, 8), 0, (64, 1)),
            ((2, 8, 8), 0, None),
            ((5, 8, 8), 5, (64, 5)),
            ((8, 8, 5), 5, (64, 5)),
            ((3, 8, 8), 5, None),
            ((5, 8, 8), 4, None),
            ((4, 8, 8), 4, (64, 3)),
            ((3, 8, 8), 4, (64, 3)),
            ((8, 8), 0, None),
            ((8, 8), 1, (64, 1)),
            ((8, 8), 3, None),
            ((25, 3), 0, (25, 3)),  # the colours of rays
            ((24, 3), 0, None),
            ((3, 4, 8), 0, None),  # too small to have two axes of pixels
            ((3, 5, 8), 0, (40, 3)),
            ((4, 8, 3), 0, None),
            ((5, 8, 3), 0, (40, 3)),
            ((0, 8, 3), 0, None),
            ((2, 3, 8, 8), 0, (128, 3)),
            ((0, 3, 8, 8), 0, None),
            ((3, 2, 8, 8), 0, (128, 3)),  # channels, frames, height, width
            ((3, 1, 8, 8), 0, (192, 1)),  # grey images
            ((3, 3, 8, 8), 0, (192, 3)),
            ((3, 4, 8, 8), 0, (256, 3)),  # four frames
            ((3, 8, 8, 3), 0, (192, 3)),
        ],
    )
    def test_by_shape(self, shape: tuple[int, ...], bands: int, pixels: tuple[int, int] | None) -> None:
        found = pixels_of(np.random.default_rng(0).random(shape), bands)
        assert (None if found is None else found.shape) == pixels

    def test_by_type(self) -> None:
        assert pixels_of(np.zeros((3, 8, 8), bool), 0) is None
        assert pixels_of(torch.zeros(3, 8, 8), 0) is not None
        assert pixels_of("text", 0) is None

    def test_channels_stay_together(self) -> None:
        colour = np.array([1.0, 2.0, 3.0])
        for image in (np.tile(colour[:, None, None], (1, 8, 9)), np.tile(colour, (8, 9, 1))):
            found = pixels_of(image, 0)
            assert found is not None
            assert (found == colour).all()

    def test_large_images_are_sampled(self) -> None:
        found = pixels_of(np.zeros((3, 100, 100)), 0)
        assert found is not None
        assert 3000 < len(found) <= 4096


@pytest.mark.parametrize(("share", "colours"), [(4, 2), (3, 1), (50, 2)])
def test_a_colour_covers_some_of_its_image(share: int, colours: int) -> None:
    pixels = np.zeros((3, 10, 10))
    pixels.reshape(3, -1)[:, :share] = np.array([[0.5], [0.25], [1.0]])
    found = response_to(BLACK, 0, pixels).shades[""]
    assert len(found) == colours
    assert any(shade.tolist() == [0, 0, 0] for shade in found)
    assert any(shade.tolist() == [0.5, 0.25, 1.0] for shade in found) == (colours == 2)


def test_colours_that_differ_in_one_channel_are_two() -> None:
    pixels = np.zeros((3, 10, 10))
    pixels[1, :4], pixels[2, 4:7] = 1.0, 1.0
    assert len(response_to(BLACK, 0, pixels).shades[""]) == 3


def test_the_leaves_that_all_responses_have() -> None:
    both, one = ({"a": image(BLACK), "b": image(BLACK)}, {"b": image(BLACK)})
    assert paths_of([response_to(BLACK, 0, both), response_to(BLACK, 1, both)]) == ["['a']", "['b']"]
    assert paths_of([response_to(BLACK, 0, both), response_to(BLACK, 1, one)]) == ["['b']"]
    assert paths_of([response_to(BLACK, 0, one), response_to(BLACK, 1, both)]) == ["['b']"]
    assert paths_of([response_to(BLACK, 0, one)]) == ["['b']"]
    assert paths_of([]) == []


def test_a_leaf_follows_the_colour_in_every_channel() -> None:
    assert follows(responses(lambda pixels, _: pixels / 255), "")
    assert follows(responses(lambda pixels, _: -pixels / 65025), "")
    assert follows(responses(lambda pixels, _: pixels / 127.5 - 1), "")
    assert not follows(responses(lambda pixels, _: pixels / 255 * np.array([1, 1, 0])[:, None, None]), "")
    white_only = [one for one in responses(lambda pixels, _: pixels / 255) if one.chart != BLACK]
    assert not follows(white_only, "")


def test_channels_of_very_different_gains() -> None:
    gains = np.array([1.0, 2.0, 0.001])
    found = fit(responses(lambda pixels, _: pixels / 255 * gains[:, None, None]), "")
    assert found is not None
    assert found.order == "RGB"
    assert found.gains == pytest.approx(gains / 255)
    assert fit(responses(lambda pixels, _: pixels / 255 * np.array([1, 1, 0])[:, None, None]), "") is None


@pytest.mark.parametrize(
    ("share", "order"),
    [(1.0, "RGB"), (0.7, "RGB"), (0.6, "RGB"), (0.5, "")],
)
def test_a_clear_channel_shows_most_of_its_colour(share: float, order: str) -> None:
    """Colours of lower saturation: each channel has the same part of every colour beside its own."""
    rest = (1 - share) / 2
    mixing = np.full((3, 3), rest) + np.eye(3) * (share - rest)

    def mix(pixels: np.ndarray, _: int) -> np.ndarray:
        return np.tensordot(mixing, pixels / 255, 1)

    found = fit(responses(mix, draws=4), "")
    assert found is not None
    assert found.order == order


def test_one_colour_that_is_unclear_leaves_the_order_open() -> None:
    mixing = np.array([[1, 0, 0], [0, 1, 0], [0.25, 0.25, 0.5]])
    found = fit(responses(lambda pixels, _: np.tensordot(mixing, pixels / 255, 1), draws=4), "")
    assert found is not None
    assert found.order is None


def test_grey_images_have_no_order() -> None:
    weights = np.array([0.299, 0.587, 0.114])

    def grey(pixels: np.ndarray, _: int) -> np.ndarray:
        return np.stack([np.tensordot(weights, pixels / 255, 1)] * 3)

    found = fit(responses(grey, draws=4), "")
    assert found is not None
    assert found.order == ""


@pytest.mark.parametrize(
    ("unseen", "order"), [(None, "RGB"), ((0, 0, 255), None)], ids=["each colour was seen", "nothing shows blue"]
)
def test_channels_are_decided_one_by_one_where_draws_are_few(unseen: RGB | None, order: str | None) -> None:
    shown = [response_to(chart, 0, image(chart)) for chart in CHARTS if chart != unseen]
    found = fit([*shown, response_to(BLACK, 1, image(BLACK)), response_to(CHARTS[1], 1, image(CHARTS[1]))], "")
    assert found is not None
    assert found.order == order


def test_values_of_the_sample_do_not_follow_the_colour() -> None:
    """A mask that the charts do not replace has few values, so several draws agree on its extremes by chance."""
    rng = np.random.default_rng(3)
    unreplaced = rng.choice([0.0, 100.0, 255.0], (12 * len(CHARTS), 1, 1, 1)).repeat(16, axis=2).repeat(16, axis=3)
    shades = iter(unreplaced)
    assert fit(responses(lambda *_: next(shades), draws=12), "") is None


def test_a_sample_meets_every_chart() -> None:
    for count in (5, 7, 12, 23, 24, 48):
        indices = _mixing(range(count))
        assert {place * len(CHARTS) % len(indices) for place in range(len(indices))} == set(range(len(indices)))
        assert len(indices) >= min(count, 5)
    assert list(_mixing(range(4))) == [0, 1, 2, 3]
