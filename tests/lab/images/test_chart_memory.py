"""Charts that the user's code is given lie in memory like what they replace: writable, their own, with its strides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import tv_tensors

from dataguard.core.model import Status
from dataguard.engine import scan
from dataguard.lab.geometry.charts import ChartPainter
from dataguard.lab.images.cached_images import replaced_in_cache
from dataguard.lab.images.painter import Painter, in_container_of
from dataguard.settings.settings import Settings

NOISE = np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)
FROZEN = NOISE.copy()
FROZEN.flags.writeable = False
IMAGES: dict[str, Any] = {
    "grey": NOISE[..., 0].copy(),
    "one channel": NOISE[..., :1].copy(),
    "colours": NOISE,
    "colours with alpha": np.dstack([NOISE, NOISE[..., 0]]),
    "spectral bands": NOISE.repeat(3, 2),
    "columns first": np.asfortranarray(NOISE),
    "16 bits": NOISE.astype(np.uint16) * 257,
    "fractions": NOISE / np.float32(255),
    "other order": NOISE[..., ::-1],
    "repeated": np.broadcast_to(NOISE[..., :1], (20, 30, 3)),
    "read-only": FROZEN,
    "channels first": NOISE.transpose(2, 0, 1).copy(),
    "tensor": torch.from_numpy(NOISE.transpose(2, 0, 1).copy()),
    "tensor of a decoder": torch.from_numpy(NOISE).permute(2, 0, 1),
    "one plane": torch.from_numpy(NOISE[None, ..., 0].copy()),
    "tv_tensor": tv_tensors.Image(torch.from_numpy(NOISE).permute(2, 0, 1)),
    "RGB": Image.fromarray(NOISE),
    "L": Image.fromarray(NOISE[..., 0]),
    "P": Image.fromarray(NOISE).convert("P"),
    "1": Image.fromarray(NOISE[..., 0] > 127),
}


class Passes:
    """A dataset whose transform returns what it is given."""

    def __init__(self) -> None:
        self.transform: Callable[[Any], Any] = lambda image: image
        self.images: list[Any] = []

    def __len__(self) -> int:
        return len(self.images)


def striped(given: Any) -> Any:
    painter = ChartPainter()
    painter.chart = 0
    return painter.paint(given, "")


def coloured(given: Any) -> Any:
    dataset, painter = Passes(), Painter()
    painter.colour, painter.grey = (10, 20, 30), True
    painter.patch_transforms(dataset)
    return dataset.transform(given)


def cached(given: Any) -> Any:
    dataset = Passes()
    dataset.images = [given]
    with replaced_in_cache(dataset, 0, lambda image, name: striped(image)):
        return dataset.images[0]


def contained(given: Any) -> Any:
    return in_container_of(given, NOISE[:16])


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("chart", [striped, coloured, cached, contained], ids=lambda one: one.__name__)
def test_a_chart_lies_in_memory_like_what_it_replaces(chart: Callable[[Any], Any], name: str) -> None:
    given = IMAGES[name]
    made = chart(given)
    assert type(made) is type(given)
    if made is given:  # colours do not replace every image
        assert chart is coloured
    elif isinstance(made, np.ndarray):
        assert made.flags.writeable
        assert made.flags.owndata
        if made.shape == given.shape:
            assert made.strides == np.empty_like(given).strides
    elif isinstance(made, torch.Tensor):
        made[...] = 0
        if made.shape == given.shape:
            assert made.stride() == given.stride()
    else:
        made.putpixel((0, 0), 0)
        assert not made.readonly


def test_native_code_writes_into_a_chart() -> None:
    decoded = cv2.imdecode(cv2.imencode(".png", NOISE)[1], cv2.IMREAD_COLOR)
    for chart in (striped(decoded), coloured(decoded)):
        assert chart is not decoded
        assert cv2.cvtColor(chart, cv2.COLOR_BGR2RGB, dst=chart) is not None


@pytest.mark.scan
def test_code_that_writes_into_images_and_masks_is_judged() -> None:
    report = scan("tests.loaders.in_place:make_loader", Settings(select=("DG505", "DG506", "DG511", "DG512")))
    assert {result.code: result.status for result in report.results} == dict.fromkeys(
        ("DG505", "DG506", "DG511", "DG512"), Status.PASSED
    )
