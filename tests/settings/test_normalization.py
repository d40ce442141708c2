"""Normalization statistics are recognised from the gains and offsets of an image."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dataguard.settings.normalization import (
    KNOWN,
    declared,
    mixed_scales,
    muddled,
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
        (IMAGENET.mean[::-1], IMAGENET.std, "the statistics of ImageNet are permuted"),
        ((0.456, 0.485, 0.406), (0.224, 0.229, 0.225), "the statistics of ImageNet are permuted"),
        (KNOWN["clip"].mean, IMAGENET.std, "the mean is from CLIP, the standard deviation from ImageNet"),
        (
            tuple(mean + std / 2 for mean, std in zip(IMAGENET.mean, IMAGENET.std, strict=True)),
            tuple(std / 2 for std in IMAGENET.std),
            "ImageNet statistics are applied, then Inception statistics",
        ),
        ((0.725, 0.725, 0.725), (0.1125, 0.1125, 0.1125), None),
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
        (1, (123.675, 116.28, 103.53), IMAGENET.std, "the mean is for values from 0 to 255"),
        (1 / 255, IMAGENET.mean, (58.395, 57.12, 57.375), "the mean is for values from 0 to 1"),
        (1, (123.68, 116.779, 103.939), (1, 1, 1), None),
        (1, (127.5,), (128,), None),
        (1 / 255, IMAGENET.mean, (1, 1, 1), None),
    ],
)
def test_a_mean_and_a_deviation_for_different_scales_are_named(
    scale: float, mean: Sequence[float], std: Sequence[float], mixed: str | None
) -> None:
    found = mixed_scales(*numbers(scale, mean, std))
    assert found is None if mixed is None else str(found).startswith(mixed)


def test_values_without_statistics_have_a_scale() -> None:
    assert plain_factor([1 / 255] * 3, [0.0] * 3) == pytest.approx(1)
    assert plain_factor([1.0] * 3, [0.0] * 3) == 255
    assert plain_factor([-1.0] * 3, [255.0] * 3) is None
    assert plain_factor([-1.0] * 3, [0.0] * 3) is None
    assert plain_factor([1.0, 1.0, 0.9], [0.0] * 3) is None
    assert slip_of(1) is None
    assert slip_of(1.004) is None
    assert slip_of(255) == "not divided by 255"


def test_the_contract_gives_statistics_in_either_unit() -> None:
    assert declared({}) is None
    assert declared({"normalization": "clip"}) == KNOWN["clip"]
    small = declared({"normalization": {"mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25]}})
    large = declared({"normalization": {"mean": [127.5, 127.5, 127.5], "std": [63.75, 63.75, 63.75]}})
    assert small == large
