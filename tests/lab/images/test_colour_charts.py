"""Gains and offsets: what they mean, and how they are measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from dataguard.core.model import Undecided
from dataguard.lab.images.colour_charts import Colours, run_charts
from dataguard.lab.images.painter import Painter
from dataguard.lab.process.isolation import isolated
from dataguard.stats.normalization import (
    KNOWN,
    read,
    recovered,
)
from tests.loaders import coloured


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)  # as in the host: a fork hangs otherwise


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
    colours = run_charts(getattr(coloured, name), tmp_path, indices, batched=True).colours
    if isinstance(colours, Undecided):
        raise colours
    return colours


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
    assert mean == pytest.approx(KNOWN["imagenet"].mean[::step], abs=1e-4)
    assert std == pytest.approx(KNOWN["imagenet"].std[::step], abs=1e-4)
    found = read(one.gains, one.offsets, [KNOWN["imagenet"]])
    assert found is not None
    assert found.factor == pytest.approx(1, abs=1e-4)
    assert "scale 1/255, mean [0." in outcome.summary(one, [KNOWN["imagenet"]])


@pytest.mark.scan
@pytest.mark.parametrize(("name", "mean", "std"), [("grey", [0.1307], [0.3081]), ("bands", [0.5] * 6, [0.5] * 6)])
def test_images_without_colours_are_measured(name: str, mean: list[float], std: list[float], tmp_path: Path) -> None:
    outcome = isolated(lambda: charts(name, tmp_path), tmp_path, timeout=60, allowed=120)
    (one,) = outcome.fits
    assert (outcome.grey, one.order) == (True, "")
    assert recovered(one.gains, one.offsets)[0] == pytest.approx(mean, abs=1e-4)
    assert recovered(one.gains, one.offsets)[1] == pytest.approx(std, abs=1e-4)
