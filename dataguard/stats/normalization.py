"""Identify the normalization from a recovered gain and offset: which statistics, channel order and scale.

A channel decoded as `v`, from 0 to 255, becomes `gain * v + offset`. The usual pipeline computes
`(v / 255 - mean) / std`, so `offset = -mean / std` identifies the statistics whatever the scale, and the gain then
gives the scale. Standard library only.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from typing import Any

Numbers = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Statistics:
    """Mean and standard deviation of red, green and blue, for values from 0 to 1."""

    name: str
    mean: Numbers
    std: Numbers

    def of(self, channels: int, *, bgr: bool) -> list[tuple[float, float]]:
        """Mean and standard deviation for this many channels, in BGR order if `bgr`; empty if they do not fit."""
        numbers = list(zip(self.mean, self.std, strict=True))
        if len(set(numbers)) == 1:
            return numbers[:1] * channels
        return (numbers[::-1] if bgr else numbers) if channels == len(numbers) else []

    @property
    def symmetric(self) -> bool:
        """Whether the statistics are the same in RGB and BGR order."""
        return self.mean == self.mean[::-1] and self.std == self.std[::-1]

    @property
    def is_telling(self) -> bool:
        """Whether these numbers are too specific to be measured on other data by chance."""
        return min(self.std) > _NO_DEVIATION and (len(self.mean) == 1 or not self.symmetric)


_NO_DEVIATION = 0.01
"""Standard deviations below this are 1 / 255: bytes of which only a mean was subtracted, as for models from Caffe."""


def _of_255(name: str, mean: Numbers, std: Numbers) -> Statistics:
    return Statistics(name, tuple(number / 255 for number in mean), tuple(number / 255 for number in std))


KNOWN: Mapping[str, Statistics] = {
    "imagenet": Statistics("ImageNet", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "inception": Statistics("Inception", (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "clip": Statistics("CLIP", (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    "cifar10": Statistics("CIFAR-10", (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "cifar10-patches": Statistics("CIFAR-10", (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "cifar100": Statistics("CIFAR-100", (0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)),
    "svhn": Statistics("SVHN", (0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970)),
    "stl10": Statistics("STL-10", (0.4467, 0.4398, 0.4066), (0.2603, 0.2566, 0.2713)),
    "tiny-imagenet": Statistics("Tiny ImageNet", (0.4802, 0.4481, 0.3975), (0.2770, 0.2691, 0.2821)),
    "gtsrb": Statistics("GTSRB", (0.3403, 0.3121, 0.3214), (0.2724, 0.2608, 0.2669)),
    "coco": Statistics("COCO", (0.470, 0.447, 0.408), (0.278, 0.274, 0.289)),
    "cityscapes": Statistics("Cityscapes", (0.28689554, 0.32513303, 0.28389177), (0.18696375, 0.19017339, 0.18720214)),
    "cityscapes-bisenet": Statistics("Cityscapes", (0.3257, 0.3690, 0.3223), (0.2112, 0.2148, 0.2115)),
    "mnist": Statistics("MNIST", (0.1307,), (0.3081,)),
    "fashion-mnist": Statistics("Fashion-MNIST", (0.2860,), (0.3530,)),
    "kinetics": Statistics("Kinetics", (0.43216, 0.394666, 0.37645), (0.22803, 0.22145, 0.216989)),
    "slowfast": Statistics("SlowFast", (0.45, 0.45, 0.45), (0.225, 0.225, 0.225)),
    "caffe": _of_255("Caffe", (123.68, 116.779, 103.939), (1.0, 1.0, 1.0)),
    "ssd": _of_255("SSD", (123.0, 117.0, 104.0), (1.0, 1.0, 1.0)),
    "fcn": _of_255("FCN", (122.67891434, 116.66876762, 104.00698793), (1.0, 1.0, 1.0)),
    "faster-rcnn": _of_255("Faster R-CNN", (122.7717, 115.9465, 102.9801), (1.0, 1.0, 1.0)),
    "detectron": _of_255("Detectron", (123.675, 116.28, 103.53), (1.0, 1.0, 1.0)),
}
"""Statistics that published models were trained with, by their names in the contract."""


def declared(contract: Mapping[str, Any]) -> Statistics | None:
    """The statistics that the contract names or gives, if any; a mean above 1 means values from 0 to 255.

    Also None for the name of weights, which torchvision or timm resolves.
    """
    given = contract.get("normalization")
    if given is None or isinstance(given, str):
        return KNOWN.get(given or "")
    mean, std = tuple(map(float, given["mean"])), tuple(map(float, given["std"]))
    return (_of_255 if max(mean) > 1 else Statistics)("the contract", mean, std)


@dataclass(frozen=True, slots=True)
class Reading:
    """The statistics that were applied, `times` times, on a scale that is off by `factor`.

    `bgr` means that they were applied in BGR order.
    """

    statistics: Statistics
    bgr: bool
    factor: float
    times: int

    @property
    def slip(self) -> str | None:
        """The scale error, if the factor is a known one."""
        return slip_of(self.factor)


def read(gains: Sequence[float], offsets: Sequence[float], statistics: Sequence[Statistics]) -> Reading | None:
    """Which of the given statistics were applied, whatever the scale; RGB order is tried before BGR."""
    for times in (1, 2):
        for bgr in (False, True):
            for candidate in statistics:
                factor = _factor(gains, offsets, candidate, times, bgr=bgr)
                if factor is not None:
                    return Reading(candidate, bgr, factor, times)
    return None


def _factor(
    gains: Sequence[float], offsets: Sequence[float], statistics: Statistics, times: int, *, bgr: bool
) -> float | None:
    numbers = statistics.of(len(gains), bgr=bgr)
    if not numbers:
        return None
    factors = []
    for gain, offset, (mean, std) in zip(gains, offsets, numbers, strict=True):
        expected = -sum(mean / std**power for power in range(1, times + 1))
        if not isclose(offset, expected, rel_tol=_CLOSE, abs_tol=1e-4):
            return None
        factors.append(gain * std**times * 255)
    even = factors[0] > 0 and all(isclose(factor, factors[0], rel_tol=_SLIP) for factor in factors)
    return factors[0] if even else None


_CLOSE = 1e-3
"""Relative tolerance of gains and offsets: float16 is exact to 5e-4."""
_SLIP = 2e-3
"""Relative tolerance of a factor: the factors 255 and 257, and 65025 and 65535, are 8e-3 apart."""


def slip_of(factor: float) -> str | None:
    """The scale error with this factor; None for a correct scale or an unknown factor."""
    return next((words for exact, words in FACTORS.items() if isclose(factor, exact, rel_tol=_SLIP)), None)


FACTORS: Mapping[float, str] = {
    255.0: "not divided by 255",
    1 / 255: "divided by 255 twice",
    257.0: "16-bit data scaled as 8-bit",
    1 / 257: "8-bit data scaled as 16-bit",
    65535.0: "16-bit data not divided by 65535",
    65025.0: "multiplied by 255 instead of divided by it",
    1 / 65025: "divided by 255 three times",
    1 / 65535: "divided by 255 and by 65535",
}
"""Typical scale errors: the factor by which values are off, and its cause."""


def plain_factor(gains: Sequence[float], offsets: Sequence[float]) -> float | None:
    """The value of white if no statistics were applied: 1 for values from 0 to 1, 255 for raw values."""
    even = gains[0] > 0 and all(isclose(gain, gains[0], rel_tol=_CLOSE) for gain in gains)
    through = all(abs(offset) <= _CLOSE * abs(255 * gain) for gain, offset in zip(gains, offsets, strict=True))
    return gains[0] * 255 if even and through else None


def recovered(gains: Sequence[float], offsets: Sequence[float]) -> tuple[Numbers, Numbers]:
    """The applied mean and standard deviation, for values from 0 to 1."""
    pairs = list(zip(gains, offsets, strict=True))
    return tuple(-offset / gain / 255 for gain, offset in pairs), tuple(1 / gain / 255 for gain, _ in pairs)


def own_slip(gains: Sequence[float], offsets: Sequence[float]) -> str | None:
    """The scale error with custom statistics: they are plausible only when scaled by 255 or 1/255."""
    # Means and deviations of images are between 0.02 and 1 of their range, so on either scale they overlap nowhere: the
    # ranges of values from 0 to 1 and of bytes, 2 to 255, are a factor of two apart.
    mean, std = recovered(gains, offsets)
    if all(0.02 < 255 * number < 1 for number in (*mean, *std)):
        return FACTORS[255.0]
    if all(2 < number < 255 for number in (*mean, *std)):
        return FACTORS[1 / 255]
    return None


def mixed_scales(gains: Sequence[float], offsets: Sequence[float]) -> str | None:
    """Whether mean and standard deviation are for different value ranges, in words."""
    mean, std = recovered(gains, offsets)
    if _is_a_range(gains, offsets):
        return None
    # Bounds of plausible statistics: means from 0.2 to 1 of the range (0.25 where bytes are meant), deviations from
    # 0.02 to 0.8 of it, or from 10 to 255 for bytes. What is within those of the other scale in all channels is meant
    # for it.
    if min(mean) > 2 and max(std) < 2:
        return BIG_MEAN
    if min(mean) > 0.25 / 255 and max(mean) < 1 / 255 and min(std) > 10 / 255:
        return BIG_STD
    if min(mean) > 0.2 and max(mean) < 1:
        if min(std) > 0.02 / 255 and max(std) < 0.8 / 255:
            return BIG_MEAN
        if min(std) > 10 and max(std) < 255:
            return BIG_STD
    return None


BIG_MEAN = "the mean is for values from 0 to 255, the standard deviation for values from 0 to 1"
BIG_STD = "the mean is for values from 0 to 1, the standard deviation for values from 0 to 255"


def _is_a_range(gains: Sequence[float], offsets: Sequence[float]) -> bool:
    """Whether black and white are -N and N, as for X-rays from -1024 to 1024; no deviation is written so."""
    white = offsets[0] + 255 * gains[0]
    of_255 = 1 / gains[0]
    # The tolerances are those of float32 after a few operations, and of a whole number that users write.
    symmetric = all(
        abs(2 * offset + 255 * gain) < 1e-4 * abs(white) for gain, offset in zip(gains, offsets, strict=True)
    )
    return symmetric and abs(white - round(white)) < 1e-3 and abs(of_255 - round(of_255, 3)) > 1e-4


def near_miss(gains: Sequence[float], offsets: Sequence[float]) -> tuple[Statistics, float, float] | None:
    """Known statistics of which all numbers but one were applied; the expected and the applied number."""
    applied = [number for part in recovered(gains, offsets) for number in part]
    for statistics in KNOWN.values():
        meant = [*statistics.mean, *statistics.std]
        if len(applied) != len(meant) or statistics.symmetric or max(statistics.std) < _NO_DEVIATION:
            continue
        off = [pair for pair in zip(meant, applied, strict=True) if abs(pair[0] - pair[1]) > _WRITTEN]
        if len(off) == 1 and abs(off[0][0] - off[0][1]) > _WRONG:
            return statistics, *off[0]
    return None


_WRITTEN = 2e-4
"""Tolerance between a measured number and the published one. Published numbers have three or four decimals: this is
less than half of the third."""
_WRONG = 1e-3
"""How far a single number must be off to be a mistake: more than rounding to three decimals explains."""


def muddled(gains: Sequence[float], offsets: Sequence[float]) -> str | None:
    """How the numbers of known statistics were mixed up, in words; None if they were not.

    Only meaningful when no known statistics were applied correctly.
    """
    mean, std = recovered(gains, offsets)
    telling = [
        statistics for statistics in KNOWN.values() if len(statistics.mean) == len(mean) and statistics.is_telling
    ]
    for statistics in telling:
        if _same(mean, statistics.std) and _same(std, statistics.mean):
            return f"mean and standard deviation of {statistics.name} are swapped"
        if _same(mean, std) and (_same(mean, statistics.mean) or _same(mean, statistics.std)):
            part = "mean" if _same(mean, statistics.mean) else "standard deviation"
            return f"the {part} of {statistics.name} is used for both"
        if _same(sorted(mean), sorted(statistics.mean)) and _same(sorted(std), sorted(statistics.std)):
            return f"the statistics of {statistics.name} are permuted"
        if _same(mean, statistics.mean) and _same(std, [each**2 for each in statistics.std]):
            return f"values are divided by the variance of {statistics.name}, not by the standard deviation"
        if _same(mean, statistics.mean) and _same(std, [1 / each for each in statistics.std]):
            return f"values are multiplied by the standard deviation of {statistics.name}, not divided by it"
        if _same(mean, [-each for each in statistics.mean]) and _same(std, statistics.std):
            return f"the mean of {statistics.name} is added, not subtracted"
    of_mean = [statistics.name for statistics in telling if _same(mean, statistics.mean)]
    of_std = [statistics.name for statistics in telling if _same(std, statistics.std)]
    if of_mean and of_std and len(mean) > 1:
        return f"the mean is from {of_mean[0]}, the standard deviation from {of_std[0]}"
    return _stacked(mean, std)


def _stacked(mean: Numbers, std: Numbers) -> str | None:
    """Which two known RGB statistics were applied one after the other, if that explains all numbers."""
    candidates = [
        statistics
        for statistics in KNOWN.values()
        if len(statistics.mean) == len(mean) > 1 and min(statistics.std) > _NO_DEVIATION
    ]
    for first, second in itertools.permutations(candidates, 2):
        pairs = list(zip(first.mean, first.std, second.mean, strict=True))
        both = tuple(mean + std * then for mean, std, then in pairs)
        spread = tuple(std * then for std, then in zip(first.std, second.std, strict=True))
        if (first.is_telling or second.is_telling) and _same(mean, both) and _same(std, spread):
            return f"{first.name} statistics are applied, then {second.name} statistics"
    return None


def _same(some: Sequence[float], others: Sequence[float]) -> bool:
    return all(abs(number - other) <= _WRITTEN for number, other in zip(some, others, strict=True))


def applied(gains: Sequence[float], offsets: Sequence[float], statistics: Sequence[Statistics]) -> str:
    """The applied scale, mean and standard deviation in words."""
    factor = plain_factor(gains, offsets)
    if factor is not None:
        return f"scale {_scale(factor / 255)}, not normalized"
    reading = read(gains, offsets, statistics)
    factor = reading.factor if reading else 1
    mean, std = (shown([factor * number for number in part]) for part in recovered(gains, offsets))
    return f"scale {_scale(factor / 255)}, mean {mean}, std {std}"


def _scale(factor: float) -> str:
    inverse = round(1 / factor)
    return f"1/{inverse}" if inverse > 1 and isclose(factor * inverse, 1, rel_tol=_SLIP) else f"{factor:.4g}"


def shown(numbers: Sequence[float]) -> list[float]:
    """Numbers as they are reported: five digits, and no negative zero."""
    return [float(f"{number:.5g}") + 0 for number in numbers]
