"""Gains and offsets: what they mean, and how they are measured."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from dataguard.engine import scan
from dataguard.lab.images.chart_fit import BLACK, CHARTS, ChartResponse, fit, follows, response_to
from dataguard.lab.images.colour_charts import Colours, run_charts
from dataguard.lab.images.painter import RGB, Painter
from dataguard.lab.images.weight_statistics import statistics_of
from dataguard.lab.process.isolation import isolated
from dataguard.model import Status, Undecided
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
from dataguard.settings.settings import Settings
from tests.loaders import coloured

IMAGENET = KNOWN["imagenet"]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)  # as in the host: a fork hangs otherwise


def numbers(scale: float, mean: Sequence[float], std: Sequence[float]) -> tuple[list[float], list[float]]:
    """Gains and offsets of a pipeline that multiplies by a scale and normalizes."""
    return [scale / one for one in std], [-one / other for one, other in zip(mean, std, strict=True)]


def image(colour: RGB, size: int = 16) -> np.ndarray:
    return np.broadcast_to(np.array(colour, np.float64)[:, None, None], (3, size, size)).copy()


def responses(make: object, draws: int = 2) -> list[ChartResponse]:
    assert callable(make)
    return [response_to(chart, draw, make(image(chart), draw)) for draw in range(draws) for chart in CHARTS]


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
        normalized: np.ndarray = (bright - np.reshape(IMAGENET.mean, (3, 1, 1))) / np.reshape(IMAGENET.std, (3, 1, 1))
        return normalized

    found = fit(responses(jitter, draws=6), "")
    assert found is not None
    assert (found.order, found.exact) == ("BGR", False)
    mean, std = recovered(found.gains, found.offsets)
    assert mean == pytest.approx(IMAGENET.mean, abs=1e-6)
    assert std == pytest.approx(IMAGENET.std, abs=1e-6)


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


@pytest.mark.scan
@pytest.mark.parametrize(
    ("face", "contract", "status"),
    [
        ("bad", {"channels": "BGR"}, Status.PASSED),
        ("good_raw", {"channels": "RGB"}, Status.FAILED),
        ("good_turned_statistics", {"channels": "RGB"}, Status.FAILED),
        ("good_features", {}, Status.SKIPPED),
        ("good_scans", {}, Status.SKIPPED),
    ],
)
def test_the_contract_sets_the_channel_order(face: str, contract: dict[str, str], status: Status) -> None:
    settings = Settings(select=("DG505",), contract=contract)
    assert scan(f"sample_datasets.dg505_swapped_channels:{face}", settings).results[0].status is status


@pytest.mark.scan
def test_opencv_may_be_asked_for_red_first(tmp_path: Path) -> None:
    encoded = cv2.imencode(".png", np.zeros((8, 8, 3), np.uint8))[1]
    grey = cv2.imencode(".png", np.zeros((8, 8), np.uint8))[1]
    flags = (cv2.IMREAD_COLOR, cv2.IMREAD_UNCHANGED, cv2.IMREAD_COLOR_RGB, cv2.IMREAD_GRAYSCALE)

    def decoded() -> list[list[int]]:
        painter = Painter()
        painter.install()
        painter.colour = (10, 20, 30)
        images = [cv2.imdecode(encoded, flag) for flag in flags] + [cv2.imdecode(grey, cv2.IMREAD_UNCHANGED)]
        return [np.ravel(pixels[0, 0]).tolist() for pixels in images if pixels is not None]

    found = isolated(decoded, tmp_path, timeout=60, allowed=120)
    assert found == [[30, 20, 10], [30, 20, 10], [10, 20, 30], [0], [0]]


def painted(decode: Callable[[bytes], np.ndarray], tmp_path: Path) -> list[int]:
    """The first pixel that a decoder returns for a JPEG file while the painter has a colour."""
    encoded = cv2.imencode(".jpg", np.full((8, 8, 3), 7, np.uint8))[1].tobytes()

    def pixel() -> list[int]:
        painter = Painter()
        painter.install()
        painter.colour = (10, 20, 30)
        return list(map(int, np.ravel(decode(encoded)[0, 0])))

    return isolated(pixel, tmp_path, timeout=60, allowed=120)


ORDERS = [
    ("RGB", [10, 20, 30]),
    ("BGR", [30, 20, 10]),
    ("RGBA", [10, 20, 30, 255]),
    ("BGRA", [30, 20, 10, 255]),
    ("ARGB", [255, 7, 7, 7]),
    ("GRAY", [7]),
]


@pytest.mark.scan
@pytest.mark.parametrize(("order", "pixel"), ORDERS)
def test_simplejpeg_is_asked_for_an_order(order: str, pixel: list[int], tmp_path: Path) -> None:
    simplejpeg = pytest.importorskip("simplejpeg")
    assert painted(lambda data: simplejpeg.decode_jpeg(data, order), tmp_path) == pixel
    if order == "RGB":
        assert painted(lambda data: simplejpeg.decode_jpeg(data), tmp_path) == pixel, "is what it gives unasked"


@pytest.mark.scan
@pytest.mark.parametrize(("order", "pixel"), ORDERS)
def test_turbojpeg_is_asked_for_an_order(order: str, pixel: list[int], tmp_path: Path) -> None:
    turbojpeg = pytest.importorskip("turbojpeg")
    try:
        turbo = turbojpeg.TurboJPEG()
    except RuntimeError:
        pytest.skip("its system library is not installed")
    number = getattr(turbojpeg, f"TJPF_{order}")
    assert painted(lambda data: turbo.decode(data, pixel_format=number), tmp_path) == pixel
    if order == "BGR":
        assert painted(turbo.decode, tmp_path) != pixel, "a method that was bound before is not patched"
        assert painted(lambda data: turbo.decode(data), tmp_path) == pixel, "is what it gives unasked"


NEEDED = {
    "batched": "kornia",
    "jpeg": "simplejpeg",
    "clips": "av",
    "clips_of_images": "av",
    "clips_of_packets": "av",
    "by_skimage": "skimage",
    "by_imageio": "imageio",
    "by_tifffile": "tifffile",
}


def charts(name: str, tmp_path: Path) -> Colours:
    """The measurements of a loader, in this process."""
    indices = () if name == "stream" else tuple(range(12))
    return run_charts(getattr(coloured, name), tmp_path, indices, batched=True)


@pytest.mark.scan
@pytest.mark.filterwarnings("ignore:The image decoding:DeprecationWarning")
@pytest.mark.parametrize(
    ("name", "order", "decoded"),
    [
        ("v1", "RGB", True),
        ("v2_tensors", "RGB", True),
        ("albumentations", "RGB", True),
        ("by_hand", "BGR", True),
        ("stream", "RGB", True),
        ("in_memory", "RGB", False),
        ("wrapped", "RGB", False),
        ("floats", "RGB", False),
        ("kept", "RGB", True),
        ("film", "RGB", True),
        ("cached", "RGB", True),
        ("read_file", "RGB", True),
        ("v1_filled", "RGB", True),
        ("opencv", "RGB", True),
        ("batched", "RGB", True),
        ("with_alpha", "RGB", True),
        ("rows_and_columns", "RGB", True),
        ("mixed", "RGB", True),
        ("mosaic", "RGB", True),
        ("jpeg", "RGB", True),
        ("clips", "RGB", True),
        ("clips_of_images", "RGB", True),
        ("clips_of_packets", "RGB", True),
        ("by_skimage", "RGB", True),
        ("by_imageio", "RGB", True),
        ("by_tifffile", "RGB", True),
    ],
)
def test_statistics_are_recovered(name: str, order: str, decoded: bool, tmp_path: Path) -> None:
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])
    outcome = isolated(lambda: charts(name, tmp_path), tmp_path, timeout=60, allowed=120)
    assert outcome.decoded is decoded
    (one,) = outcome.fits
    step = -1 if order == "BGR" else 1
    mean, std = recovered(one.gains, one.offsets)
    assert one.order == order
    assert mean == pytest.approx(IMAGENET.mean[::step], abs=1e-4)
    assert std == pytest.approx(IMAGENET.std[::step], abs=1e-4)
    found = read(one.gains, one.offsets, [IMAGENET])
    assert found is not None
    assert found.factor == pytest.approx(1, abs=1e-4)
    assert "scale 1/255, mean [0." in outcome.summary(one, [IMAGENET])


@pytest.mark.scan
@pytest.mark.parametrize(("name", "mean", "std"), [("grey", [0.1307], [0.3081]), ("bands", [0.5] * 6, [0.5] * 6)])
def test_images_without_colours_are_measured(name: str, mean: list[float], std: list[float], tmp_path: Path) -> None:
    outcome = isolated(lambda: charts(name, tmp_path), tmp_path, timeout=60, allowed=120)
    (one,) = outcome.fits
    assert (outcome.grey, one.order) == (True, "")
    assert recovered(one.gains, one.offsets)[0] == pytest.approx(mean, abs=1e-4)
    assert recovered(one.gains, one.offsets)[1] == pytest.approx(std, abs=1e-4)


def test_weights_have_statistics() -> None:
    assert statistics_of("torchvision:ResNet50_Weights.IMAGENET1K_V2").mean == IMAGENET.mean
    assert statistics_of("ResNet50_Weights.IMAGENET1K_V2").std == IMAGENET.std
    for name, words in (("torchvision:ResNet5_Weights.V1", "torchvision has no"), ("keras:resnet50", "keras")):
        with pytest.raises(Undecided, match=words):
            statistics_of(name)


def test_models_of_timm_have_statistics() -> None:
    if importlib.util.find_spec("timm") is None:
        with pytest.raises(Undecided, match="needs timm"):
            statistics_of("timm:resnet50")
        return
    assert statistics_of("timm:vit_base_patch16_clip_224.openai").mean == KNOWN["clip"].mean
    with pytest.raises(Undecided, match="did you mean 'resnet50"):
        statistics_of("timm:resnett50")


@pytest.mark.scan
@pytest.mark.parametrize(
    ("loader", "contract", "failing"),
    [
        ("tests.loaders.coloured:raw_floats", {"value_range": [0, 1]}, ["DG506"]),
        ("tests.loaders.coloured:raw_floats", {"value_range": [0, 255]}, []),
        ("tests.loaders.coloured:raw_floats", {"normalization": "imagenet"}, ["DG507"]),
        ("tests.loaders.coloured:in_memory", {"normalization": "imagenet"}, []),
        ("tests.loaders.coloured:in_memory", {"normalization": "clip"}, ["DG507"]),
        ("tests.loaders.coloured:in_memory", {"normalization": "torchvision:ResNet18_Weights.DEFAULT"}, []),
        ("tests.loaders.coloured:in_memory", {"normalization": "ResNet50_Weights.IMAGENET1K_V2"}, []),
        ("tests.loaders.coloured:in_memory", {"normalization": "R2Plus1D_18_Weights.KINETICS400_V1"}, ["DG507"]),
        ("tests.loaders.coloured:in_memory", {"normalization": "ResNet5_Weights.IMAGENET1K_V2"}, []),
        ("tests.loaders.coloured:by_hand", {"normalization": "imagenet", "channels": "BGR"}, []),
        ("sample_datasets.dg506_wrong_scale:bad", {"normalization": "imagenet"}, ["DG506"]),
        ("sample_datasets.dg507_wrong_normalization:bad", {"normalization": "imagenet"}, ["DG507"]),
        ("sample_datasets.dg507_wrong_normalization:bad_turned", {"normalization": "imagenet"}, ["DG507"]),
        (
            "sample_datasets.dg507_wrong_normalization:bad_turned",
            {"normalization": "imagenet", "channels": "BGR"},
            ["DG505"],
        ),
        ("sample_datasets.dg505_swapped_channels:bad", {"normalization": "imagenet"}, ["DG505"]),
    ],
)
def test_the_contract_sets_the_statistics(loader: str, contract: dict[str, Any], failing: list[str]) -> None:
    report = scan(loader, Settings(select=("DG505", "DG506", "DG507"), contract=contract))
    assert [result.code for result in report.results if result.status is Status.FAILED] == failing
    assert not report.count(Status.BROKEN)


@pytest.mark.scan
def test_palettes_and_raw_floats_are_not_judged() -> None:
    for name, status in (("raw_floats", Status.INCONCLUSIVE), ("palettes", Status.SKIPPED)):
        report = scan(f"tests.loaders.coloured:{name}", Settings(select=("DG506",)))
        assert report.results[0].status is status, report.results[0]
