"""Normalization statistics are recognised from the gains and offsets of an image."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dataguard.stats.normalization import (
    BIG_MEAN,
    BIG_STD,
    KNOWN,
    Statistics,
    applied,
    declared,
    mixed_scales,
    muddled,
    near_miss,
    plain_factor,
    read,
    recovered,
    slip_of,
)

IMAGENET = KNOWN["imagenet"]


def numbers(scale: float, mean: Sequence[float], std: Sequence[float]) -> tuple[list[float], list[float]]:
    """Gains and offsets of a pipeline that multiplies by a scale and normalizes."""
    return [scale / one for one in std], [-one / other for one, other in zip(mean, std, strict=True)]


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("bgr", [False, True])
def test_known_statistics_are_read_on_every_scale(name: str, bgr: bool) -> None:
    one = KNOWN[name]
    step = -1 if bgr else 1
    for factor in (1, 255, 1 / 255):
        gains, offsets = numbers(factor / 255, one.mean[::step], one.std[::step])
        found = read(gains, offsets, list(KNOWN.values()))
        assert found is not None
        assert found.statistics.mean[::step] == pytest.approx(one.mean[::step], abs=2e-3)
        assert found.bgr == (bgr and not one.symmetric)
        assert found.factor == pytest.approx(factor, rel=2e-3)
        assert found.times == 1


def test_statistics_that_are_applied_twice_are_read() -> None:
    gains, offsets = numbers(1 / 255, IMAGENET.mean, IMAGENET.std)
    twice = [
        (gain / std, (offset - mean) / std)
        for gain, offset, mean, std in zip(gains, offsets, IMAGENET.mean, IMAGENET.std, strict=True)
    ]
    found = read([gain for gain, _ in twice], [offset for _, offset in twice], [IMAGENET])
    assert found is not None
    assert (found.times, found.bgr) == (2, False)


@pytest.mark.parametrize("sign", [0, -1])
def test_an_inverted_or_constant_image_is_not_normalized_by_any(sign: int) -> None:
    gains, offsets = numbers(1 / 255, IMAGENET.mean, IMAGENET.std)
    assert read([sign * gain for gain in gains], offsets, [IMAGENET]) is None


def test_custom_statistics_are_not_known_ones() -> None:
    gains, offsets = numbers(1 / 255, (0.44, 0.43, 0.41), (0.2, 0.21, 0.22))
    assert read(gains, offsets, list(KNOWN.values())) is None
    assert recovered(gains, offsets)[0] == pytest.approx((0.44, 0.43, 0.41))


@pytest.mark.parametrize(
    ("mean", "std", "words"),
    [
        (IMAGENET.std, IMAGENET.mean, "mean and standard deviation of ImageNet are swapped"),
        (IMAGENET.mean, IMAGENET.mean, "the mean of ImageNet is used for both"),
        ((0.3081,), (0.1307,), "mean and standard deviation of MNIST are swapped"),
        (
            IMAGENET.mean,
            (0.052441, 0.050176, 0.050625),
            "values are divided by the variance of ImageNet, not by the standard deviation",
        ),
        ((0.1307,), (3.245699,), "values are multiplied by the standard deviation of MNIST, not divided by it"),
        ((-0.485, -0.456, -0.406), IMAGENET.std, "the mean of ImageNet is added, not subtracted"),
        (IMAGENET.mean[::-1], IMAGENET.std, "the statistics of ImageNet are permuted"),
        ((0.456, 0.485, 0.406), (0.224, 0.229, 0.225), "the statistics of ImageNet are permuted"),
        (KNOWN["clip"].mean, IMAGENET.std, "the mean is from CLIP, the standard deviation from ImageNet"),
        (
            tuple(mean + std / 2 for mean, std in zip(IMAGENET.mean, IMAGENET.std, strict=True)),
            tuple(std / 2 for std in IMAGENET.std),
            "ImageNet statistics are applied, then Inception statistics",
        ),
        ((0.1307,), (0.3530,), None),
        ((0.725, 0.725, 0.725), (0.1125, 0.1125, 0.1125), None),
        ((0.1307 + 0.3081 * 0.2860,), (0.3081 * 0.3530,), None),
        (IMAGENET.mean, (0.5, 0.5, 0.5), None),
        (IMAGENET.mean, (1, 1, 1), None),
        ((0.45, 0.45, 0.45), (0.45, 0.45, 0.45), None),
        ((0.44, 0.43, 0.41), (0.2, 0.21, 0.22), None),
    ],
)
def test_numbers_that_do_not_belong_together_are_named(
    mean: Sequence[float], std: Sequence[float], words: str | None
) -> None:
    assert muddled(*numbers(1 / 255, mean, std)) == words


@pytest.mark.parametrize(
    ("scale", "mean", "std", "mixed"),
    [
        (1, (123.675, 116.28, 103.53), IMAGENET.std, BIG_MEAN),
        (1 / 255, (123.675, 116.28, 103.53), IMAGENET.std, BIG_MEAN),
        (1 / 255, (123.675, 116.28, 0.4), IMAGENET.std, None),  # one of them is a share
        (1 / 255, IMAGENET.mean, (58.395, 57.12, 57.375), BIG_STD),
        (1 / 255, IMAGENET.mean, (58.395, 57.12, 10), None),
        (1 / 255, (0.485, 0.456, 1.5), (58.395, 57.12, 57.375), None),
        (1 / 255, IMAGENET.mean, (58.395, 57.12, 300), None),
        (1 / 255, IMAGENET.mean, (0.229 / 255, 0.224 / 255, 0.9 / 255), None),
        (1 / 255, (123.675, 116.28, 103.53), (0.229, 0.224, 2.5), None),
        (1 / 255, IMAGENET.mean, (0.229 / 255, 0.224 / 255, 0.225 / 255), BIG_MEAN),
        (1 / 255, IMAGENET.mean, (0.229 / 255, 0.224 / 255, 0.01 / 255), None),
        (1, IMAGENET.mean, (58.395, 57.12, 57.375), BIG_STD),
        (1, IMAGENET.mean, (58.395, 57.12, 9), None),
        (1, (0.485, 0.456, 0.1), (58.395, 57.12, 57.375), None),
        (1, (0.485, 0.456, 1.5), (58.395, 57.12, 57.375), None),
        (1, (123.68, 116.779, 103.939), (1, 1, 1), None),
        (1, (127.5,), (128,), None),
        (1 / 255, IMAGENET.mean, (1, 1, 1), None),
    ],
)
def test_a_mean_and_a_deviation_for_different_scales_are_named(
    scale: float, mean: Sequence[float], std: Sequence[float], mixed: str | None
) -> None:
    assert mixed_scales(*numbers(scale, mean, std)) == mixed


@pytest.mark.parametrize(
    ("black", "white", "mixed"),
    [
        (-1024, 1024, None),  # X-rays
        (-1000, 1000, None),
        (-1024.05, 1024, None),  # but for rounding
        (-1024.5, 1024.5, BIG_MEAN),  # not whole
        (-1024, 1030, BIG_MEAN),  # not symmetric
        (-1020, 1020, BIG_MEAN),  # (v - 127.5) / 0.125
    ],
)
def test_a_symmetric_range_is_no_mixture(black: float, white: float, mixed: str | None) -> None:
    assert mixed_scales([(white - black) / 255], [black]) == mixed


def test_each_channel_of_a_symmetric_range_is_symmetric() -> None:
    assert mixed_scales([2048 / 255] * 3, [-1024, -1024, -1024]) is None
    assert mixed_scales([2048 / 255] * 3, [-1024, -1024, -1000]) == BIG_MEAN


@pytest.mark.parametrize("name", ["imagenet", "kinetics", "gtsrb"])
def test_a_single_wrong_number_is_named(name: str) -> None:
    one = KNOWN[name]
    typed = (one.mean[0], one.mean[1] + 0.01, one.mean[2])
    missed = near_miss(*numbers(1 / 255, typed, one.std))
    assert missed is not None
    assert missed[:2] == (one, one.mean[1])
    assert missed[2] == pytest.approx(typed[1])
    assert near_miss(*numbers(1 / 255, one.mean, one.std)) is None
    assert near_miss(*numbers(1 / 255, (typed[0] + 0.01, *typed[1:]), one.std)) is None
    rounded = (one.mean[0] + 0.0005, *one.mean[1:])
    assert near_miss(*numbers(1 / 255, rounded, one.std)) is None


@pytest.mark.parametrize(
    ("std", "telling"), [((0.2, 0.2, 0.3), True), ((0.01, 0.2, 0.3), False), ((1 / 255,) * 3, False)]
)
def test_a_deviation_that_only_scales_is_not_telling(std: tuple[float, ...], telling: bool) -> None:
    assert Statistics("own", (0.5, 0.4, 0.3), std).is_telling == telling


PUBLISHED = {
    "caffe": (103.939, 116.779, 123.68),
    "ssd": (104, 117, 123),
    "fcn": (104.00698793, 116.66876762, 122.67891434),
    "faster-rcnn": (102.9801, 115.9465, 122.7717),
    "detectron": (103.53, 116.28, 123.675),
}
"""Means that models of Caffe subtract, in BGR order, as they were published."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_is_subtracted_from_bgr_images(name: str) -> None:
    found = read([1.0] * 3, [-number for number in PUBLISHED[name]], [KNOWN[name]])
    assert found is not None
    assert found.bgr
    assert found.factor == pytest.approx(1)


@pytest.mark.parametrize("name", sorted(KNOWN.keys() - PUBLISHED.keys()))
def test_published_statistics_are_those_of_natural_images(name: str) -> None:
    one = KNOWN[name]
    for mean, std in one.of(len(one.mean), bgr=False):
        assert 0.1 < mean <= 0.55
        assert 0.15 < std <= 0.5


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        (1 / 255, "scale 1/255, not normalized"),
        (1 / 65535, "scale 1/65535, not normalized"),
        (0.5, "scale 1/2, not normalized"),
        (0.3, "scale 0.3, not normalized"),
        (1.0, "scale 1, not normalized"),
        (2.0, "scale 2, not normalized"),
    ],
)
def test_a_scale_in_words(gain: float, words: str) -> None:
    assert applied([gain] * 3, [0.0] * 3, []) == words


def test_values_without_statistics_have_a_scale() -> None:
    assert plain_factor([1 / 255] * 3, [0.0] * 3) == pytest.approx(1)
    assert plain_factor([1.0] * 3, [0.0] * 3) == 255
    assert plain_factor([-1.0] * 3, [255.0] * 3) is None
    assert plain_factor([0.0] * 3, [0.0] * 3) is None
    assert plain_factor([-1.0] * 3, [0.0] * 3) is None
    assert plain_factor([1.0, 1.0, 0.9], [0.0] * 3) is None


@pytest.mark.parametrize(
    ("factor", "slip"),
    [
        (1, None),
        (1.004, None),
        (255, "not divided by 255"),
        (1 / 255, "divided by 255 twice"),
        (1 / 255**2, "divided by 255 three times"),
        (255 * 255, "multiplied by 255 instead of divided by it"),
        (65535 / 255, "16-bit data scaled as 8-bit"),
        (255 / 65535, "8-bit data scaled as 16-bit"),
        (65535, "16-bit data not divided by 65535"),
        (1 / 65535, "divided by 255 and by 65535"),
    ],
)
def test_a_scale_error_is_named(factor: float, slip: str | None) -> None:
    assert slip_of(factor) == slip


def test_the_contract_gives_statistics_in_either_unit() -> None:
    assert declared({}) is None
    assert declared({"normalization": "clip"}) == KNOWN["clip"]
    small = declared({"normalization": {"mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25]}})
    large = declared({"normalization": {"mean": [127.5, 127.5, 127.5], "std": [63.75, 63.75, 63.75]}})
    assert small == large
    assert declared({"normalization": {"mean": [1.5], "std": [51.0]}}) == Statistics(
        "the contract", (1.5 / 255,), (0.2,)
    )
    mixed = declared({"normalization": {"mean": [127.5, 0.0], "std": [51.0, 51.0]}})
    assert mixed == Statistics("the contract", (0.5, 0.0), (0.2, 0.2))
