"""Source positions of image points, label masks, box formats, and transforms that nothing uses."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset

from dataguard.core.model import Status
from dataguard.engine import scan
from dataguard.lab.geometry.alignment import mask_values_of
from dataguard.lab.geometry.box_tables import BoxFormat, candidates_of, fits, formats_of, tables_of
from dataguard.lab.geometry.charted_reader import ChartedSample
from dataguard.lab.geometry.charts import (
    CHARTS,
    ChartPainter,
    Field,
    displacement,
    extent,
    flattened,
    input_image,
    label_pair_of,
    located,
    mask_rule,
    pattern,
    pose_of,
    sampled,
    unmoved,
)
from dataguard.lab.geometry.image_pairs import are_drawn_together
from dataguard.lab.geometry.mask_charts import _labels_of
from dataguard.lab.images.painter import in_container_of, is_image, planes_of, replace_images
from dataguard.lab.process.isolation import isolated
from dataguard.lab.transforms.pipeline_watch import UnusedTransform, find_unused
from dataguard.settings.settings import Settings
from tests.loaders.placed import LOADERS

Change = Callable[[np.ndarray], np.ndarray]


def views(change: Change, height: int = 48, width: int = 64) -> list[np.ndarray]:
    charts = (pattern(chart, height, width)[None].astype(np.float64) for chart in range(CHARTS))
    return [sampled(change(chart)) for chart in charts]


def field(change: Change, *, negative: bool = False) -> Field:
    found = located([flattened(view) for view in views(change)], negative=negative)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("change", "description"),
    [
        (lambda chart: chart, "unchanged"),
        (lambda chart: chart[..., ::-1] * 7 - 3, "flipped horizontally"),
        (lambda chart: chart[:, ::-1, ::-1], "flipped horizontally and flipped vertically"),
        (lambda chart: np.rot90(chart, axes=(1, 2)), "rotated 90 degrees left"),
        (lambda chart: np.rot90(chart, axes=(2, 1)), "rotated 90 degrees right"),
        (lambda chart: chart.transpose(0, 2, 1), "transposed"),
        (lambda chart: chart[:, 12:36, 16:48], "cropped to 25-75% of its width and 25-75% of its height"),
    ],
)
def test_stripes_show_how_an_image_is_transformed(change: Change, description: str) -> None:
    pose = pose_of(field(change))
    assert pose is not None
    assert re.sub(r"\d+", "", pose.description) == re.sub(r"\d+", "", description)


def test_images_that_move_together_have_no_displacement() -> None:
    whole, flipped = field(lambda chart: chart), field(lambda chart: chart[..., ::-1])
    assert displacement(whole, unmoved()) == pytest.approx(0, abs=0.02)
    assert displacement(whole, field(lambda chart: chart[:, ::4, ::4])) == pytest.approx(0, abs=0.05)
    assert displacement(whole, field(lambda chart: -chart, negative=True)) == 0
    assert (displacement(whole, flipped) or 0) > 0.4
    shifted = displacement(field(lambda chart: chart[..., :40]), field(lambda chart: chart[..., 8:48]))
    assert shifted == pytest.approx(8 / 64, abs=0.03)


def test_erased_points_have_no_source() -> None:
    def erase(chart: np.ndarray) -> np.ndarray:
        erased = chart.copy()
        erased[:, :20, :30] = 0.5
        return erased

    assert displacement(field(erase), field(lambda chart: chart)) == pytest.approx(0, abs=0.01)
    assert located([np.ones((8, 8))] * CHARTS) is None


def test_a_mask_holds_two_values_and_few_others() -> None:
    ignored = [flattened(view) for view in views(lambda chart: np.where(chart > 0, 3.0, 1.0))]
    assert label_pair_of(ignored) == (1, 3)
    assert label_pair_of([np.arange(64.0).reshape(8, 8) * chart for chart in range(CHARTS)]) is None


@pytest.mark.parametrize(
    ("change", "between"),
    [
        (lambda chart: chart * 3, False),
        (lambda chart: (chart[:, :-1] + chart[:, 1:]) * 1.5, True),
        (lambda chart: np.concatenate([chart, 1 - chart]), False),
    ],
)
def test_values_between_two_labels_are_seen(change: Change, between: bool) -> None:
    values = mask_values_of([views(change)], [])
    assert values is not None
    assert (values.share > 0.004) is between
    assert values.edge_share < 0.5
    assert mask_values_of([views(lambda chart: chart * 0)], []) is None


def stored(array: np.ndarray, quality: int) -> np.ndarray:
    written = BytesIO()
    Image.fromarray(array).save(written, "JPEG", quality=quality)
    return np.asarray(Image.open(written))


def blocks() -> np.ndarray:
    labels = np.zeros((60, 80), np.uint8)
    labels[10:40, 15:50] = 200
    labels[45:55, 60:75] = 100
    return labels


def test_a_label_mask_is_distinguished_from_an_image_and_from_a_matte() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (60, 80), np.uint8)
    matte = np.asarray(Image.fromarray(blocks()).resize((37, 29), Image.Resampling.BILINEAR))
    assert input_image(blocks(), "").labels == ((0.0,), (200.0,), (100.0,))
    assert not input_image(blocks(), "").edge_labels
    assert input_image(noise, "").labels is None
    soft = input_image(matte, "")
    assert soft.labels is None or len(soft.edge_labels) > len(soft.labels) / 2


def test_one_lossy_mask_of_several_may_hide_its_labels() -> None:
    lossy = input_image(stored(blocks(), 75), "", lossy=True)
    hidden = input_image(stored(np.random.default_rng(0).integers(0, 256, (60, 80), np.uint8), 75), "", lossy=True)
    whole = input_image(blocks(), "")
    assert _labels_of([lossy, lossy, lossy, hidden]) == ((0.0,), (100.0,), (200.0,))
    assert _labels_of([lossy, hidden]) == _labels_of([whole, whole, whole, hidden]) == ()


def test_a_lossy_label_mask_is_recognised() -> None:
    lossy = input_image(stored(blocks(), 75), "", lossy=True)
    assert lossy.labels == ((0.0,), (100.0,), (200.0,))
    assert lossy.is_lossy_mask
    photograph = np.cumsum(np.random.default_rng(0).normal(size=(60, 80)), axis=1) * 8 + 128
    assert input_image(stored(photograph.clip(0, 255).astype(np.uint8), 75), "", lossy=True).labels is None


def test_images_and_masks_are_distinguished_in_every_sample_or_not_at_all() -> None:
    photograph = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
    image, labels = input_image(photograph, ""), input_image(blocks(), "")
    rule = mask_rule([[image, labels]] * 2)
    assert rule is not None
    assert (rule(image), rule(labels)) == (False, True)
    assert mask_rule([[image, image]]) is None
    assert mask_rule([[image, labels], [image]]) is None
    assert mask_rule([]) is None


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGB", "RGBA", "I;16", "F"])
def test_every_pillow_mode_can_be_replaced_by_a_chart(mode: str) -> None:
    painter = ChartPainter()
    painter.chart = 0
    image = Image.new("L", (16, 12)).convert(mode) if mode != "I;16" else Image.new(mode, (16, 12))
    painted = painter.paint(image, "")
    assert (painted.mode, painted.size) == (mode, (16, 12))
    planes = planes_of(painted)
    assert planes[0].min() < planes[0].max()
    assert planes.shape[0] < 4 or (planes[3] == 255).all()


def test_an_image_has_height_and_width() -> None:
    assert is_image(np.zeros((3, 9, 9)))
    assert is_image(np.zeros((9, 9), bool))
    assert not is_image(np.zeros((50, 4)))
    assert not is_image(np.array(["a"] * 81).reshape(9, 9))
    assert planes_of(torch.zeros(2, 3, 9, 9)).shape == (6, 9, 9)


@pytest.mark.parametrize("given", [torch.rand(3, 9, 9), torch.zeros(9, 9).long(), np.zeros((9, 9, 1), np.float32)])
def test_an_image_takes_the_container_of_another(given: torch.Tensor | np.ndarray) -> None:
    made = in_container_of(given, np.full((20, 30, 3), 200, np.uint8))
    assert (type(made), made.dtype, made.ndim) == (type(given), given.dtype, given.ndim)
    swapped = replace_images({"a": [given, 5]}, lambda one: made if one is given else one)
    assert swapped["a"][0] is made
    assert swapped["a"][1] == 5


def beside(chart: np.ndarray, share: float = 0.0) -> np.ndarray:
    """A chart in the left half, through which another image shines, beside that image."""
    other = np.linspace(0, 1, 48)[None, :, None] * np.ones_like(chart)
    return np.concatenate([(1 - share) * chart + share * other, other], axis=-1)


@pytest.mark.parametrize(
    ("change", "right", "holds_more"),
    [
        (lambda chart: chart, 1.0, False),
        (lambda chart: chart * 7 - 3, 1.0, False),
        (lambda chart: chart + np.random.default_rng(0).normal(0, 0.1, chart.shape), 1.0, False),
        (beside, 0.5, False),
        (partial(beside, share=0.4), 0.5, True),
    ],
    ids=["alone", "normalized", "noisy", "beside another", "under another"],
)
def test_other_images_are_seen_beside_and_under_a_chart(change: Change, right: float, holds_more: bool) -> None:
    shown, more = extent([flattened(view) for view in views(change)])
    assert shown.tolist() == [[0.0, 0.0, right, 1.0]]
    assert more is holds_more


def test_boxes_are_found_in_any_structure() -> None:
    boxes = [[1.0, 2.0, 5.0, 6.0], [2.0, 3.0, 9.0, 9.0]]
    sample = (np.zeros((3, 9, 9)), {"boxes": torch.tensor(boxes)}, [{"bbox": row, "id": 1} for row in boxes], [boxes])
    found = {path: table.tolist() for path, _, table in tables_of(sample)}
    assert found["[1]['boxes']"] == boxes
    assert found["[2][...]['bbox']"] == boxes
    assert found["[3]"] == boxes
    assert len(found) == 3


def test_wide_rows_are_a_box_and_the_points_in_it() -> None:
    source = np.random.default_rng(0)
    corners, sizes = source.uniform(0, 0.4, (6, 1, 2)), source.uniform(0.2, 0.4, (6, 1, 2))
    rows = [corners, corners + sizes, corners + sizes * source.uniform(0.1, 0.9, (6, 5, 2))]
    wide = np.concatenate([np.concatenate(rows, axis=1).reshape(6, 14), np.ones((6, 1))], axis=1)

    def parts(rows: np.ndarray, name: str = "target") -> dict[str, bool]:
        image = np.zeros((3, 48, 64))
        return candidates_of([ChartedSample(number, (), {"image": image}, {name: rows}) for number in range(2)])

    assert parts(wide) == {"['target'][:, 0:4]": False, "['target'][:, 4:14]": True}
    assert parts(source.permuted(wide, axis=1)) == {}
    assert parts(wide[:, 4:14], "landmarks") == {"['landmarks'][:, 0:10]": True}
    found = {path: table.shape for path, _, table in tables_of({"target": wide})}
    assert found["['target'][:, 4:14]"] == (30, 2)


def test_a_box_format_must_fit() -> None:
    table = np.array([[10.0, 20.0, 30.0, 15.0], [40.0, 5.0, 20.0, 30.0]])
    fitting = {
        box_format for box_format in formats_of(4, points=False) if fits(box_format, [(table, (48, 64))], strictly=True)
    }
    assert fitting == {BoxFormat("xywh", 0, True)}
    shares = {
        box_format.pixels
        for box_format in formats_of(4, points=False)
        if fits(box_format, [(table / 64, (48, 64))], strictly=True)
    }
    assert shares == {False}
    assert not fits(BoxFormat("xyxy", 0, True), [], strictly=True)


@pytest.mark.scan
def test_images_are_replaced_whatever_their_source() -> None:
    report = scan("tests.loaders.placed:LOADERS", Settings(select=("DG0", "DG511", "DG512", "DG516")))
    wrong = dict.fromkeys(("stream", "cached", "lists"), "DG512") | {"constant": "DG511", "generated": "DG511"}
    failed = {result.loader: result.code for result in report.results if result.status is Status.FAILED}
    assert failed == {name: code for name, code in wrong.items() if name in LOADERS}
    assert not report.count(Status.BROKEN)
    looked = {result.loader: result.status for result in report.results if result.code == "DG512"}
    others = {
        "val": Status.SKIPPED,
        "cropped": Status.INCONCLUSIVE,
        "labelled": Status.PASSED,
        "tensors": Status.PASSED,
    }
    assert others.items() & looked.items() == {(name, status) for name, status in others.items() if name in LOADERS}


@pytest.mark.scan
@pytest.mark.parametrize(
    ("use", "path"),
    [
        ("nowhere", "dataset.transform"),
        ("when read", None),
        ("when built", None),
        ("by a flag that is off", None),
        ("on a subset", "dataset.transform"),
        ("under a subset", "dataset.dataset.transform"),
    ],
)
def test_a_transform_is_unused_if_nothing_reads_it(use: str, path: str | None, tmp_path: Path) -> None:
    def build(**_: Any) -> Any:
        class Images(Dataset[Tensor]):
            def __init__(self) -> None:
                self.transform = torch.nn.Identity()
                self.images = torch.rand(20, 3, 16, 16)
                if use == "when built":
                    self.images = self.transform(self.images)

            def __len__(self) -> int:
                return len(self.images)

            def __getitem__(self, index: int) -> Tensor:
                used = use in ("when read", "on a subset") or (
                    use == "by a flag that is off" and self.transform is None
                )
                return self.transform(self.images[index]) if used else self.images[index]

        dataset: Dataset[Tensor] = Images()
        if "subset" in use:
            dataset = Subset(dataset, range(18))
        if use == "on a subset":
            dataset.transform = torch.nn.Identity()  # type: ignore[attr-defined]
        return DataLoader(dataset, batch_size=4)

    def found() -> UnusedTransform | None:
        return find_unused(build, tmp_path, range(18))

    unused = isolated(found, tmp_path, timeout=60, allowed=120)
    assert (unused.path if unused else None) == path


A, B, C, D = (bytes([65 + number]) for number in range(4))


@pytest.mark.parametrize(
    ("draws", "together"),
    [
        ([(A, B), (C, D)] * 8, True),
        ([(A, B), (C, D), (A, D)] * 5 + [(A, B)], False),  # drawn each by itself
        ([(A, B), (B, A), (C, D)] * 5 + [(A, B)], False),  # two views, in any order
        ([(bytes([number]), b"second") for number in range(16)], False),  # none is seen again
    ],
)
def test_pairs_that_are_drawn_together(draws: list[tuple[bytes, bytes]], together: bool) -> None:
    image = input_image(np.zeros((16, 16, 3), np.uint8), "")
    inputs = [tuple(replace(image, thumbnail=np.frombuffer(part, np.uint8)) for part in pair) for pair in draws]
    assert are_drawn_together([ChartedSample(0, pair, {}, {"caption": 1.0}) for pair in inputs]) is together
    varying = [ChartedSample(0, pair, {}, {"angle": float(number)}) for number, pair in enumerate(inputs)]
    assert not are_drawn_together(varying), "something else is drawn that may say how the two differ"
