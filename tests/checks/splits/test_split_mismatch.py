"""DG515: how two splits differ in their structure, classes and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dataguard.checks.splits.dg515_mismatched_splits import dg515_mismatched_splits
from dataguard.checks.splits.split_mismatch import _alike, _function, _orders, mismatches
from dataguard.core.incident import Incident
from dataguard.core.model import NotApplicable
from dataguard.lab.images.chart_fit import ChannelOrder, Fit
from tests.support import epochs
from tests.support.recordings import verdict_of

IMAGE = torch.rand(3, 16, 16)


class Uncharted:
    """A loader without images or sound that charts could replace."""

    @property
    def charts(self) -> Any:
        raise NotApplicable("nothing is decoded")

    depth = orders = charts


def lab(name: str, samples: Sequence[Any]) -> Any:
    made = epochs.lab(samples)
    made.provenance = SimpleNamespace(reads=())
    made.images = made.sound = made.files = Uncharted()
    made.facts.name, made.facts.role = name, None
    return made


def faults(own: Sequence[Any], other: Sequence[Any]) -> list[str]:
    return [one.fault for one in mismatches(lab("val", own), lab("train", other))]


@pytest.mark.parametrize(
    ("own", "other", "fault"),
    [
        ({"x": IMAGE, "y": 1}, {"x": IMAGE, "y": 1}, None),
        ({"x": IMAGE, "y": 1}, {"image": IMAGE, "y": 1}, "has its input in batch['x'], train in batch['image']"),
        ({"x": IMAGE, "y": 1}, {"image": IMAGE, "y": 1, "z": 2}, None),  # other parts differ as well
        ({"x": IMAGE, "y": 1, "z": 2}, {"image": IMAGE, "y": 1}, None),
        ({"x": IMAGE, "y": 1}, {"image": IMAGE.double(), "y": 1}, None),
        ({"x": IMAGE, "y": 1}, {"image": IMAGE[0], "y": 1}, None),
        ((IMAGE, torch.rand(3, 8, 8)), (torch.rand(3, 8, 8), IMAGE), "has its input in batch[0], train in batch[1]"),
        ((IMAGE, torch.rand(3, 8, 8)), (torch.rand(3, 8, 8), torch.rand(3, 32, 32)), None),  # crops of other sizes
        ((IMAGE, IMAGE[0].long()), (torch.rand(3, 4, 4), torch.zeros(64, 64, dtype=torch.int64)), None),
        ((1, IMAGE), (IMAGE, 1), "has its input in batch[1], train in batch[0]"),
        ({"x": IMAGE}, {"x": IMAGE.double()}, "returns batch['x'] as float32, train as float64"),
        (
            {"x": IMAGE},
            {"x": IMAGE.movedim(0, -1)},
            "returns batch['x'] with 3 channels first, train with 3 channels last",
        ),
        ({"x": IMAGE}, {"x": IMAGE[:1]}, "returns batch['x'] with 3 channels first, train with 1 channel first"),
        ({"x": IMAGE}, {"x": IMAGE[0]}, "returns batch['x'] with 3 channels first, train without a channel axis"),
        (
            {"x": IMAGE},
            {"x": torch.rand(4, 16, 16)},
            "returns batch['x'] with 3 channels first, train with 4 channels first",
        ),
        ({"x": IMAGE}, {"x": torch.rand(3, 16, 3)}, None),  # both may be the channels
        ({"x": IMAGE}, {"x": torch.rand(16, 4)}, None),  # rows of four numbers are no image
    ],
)
def test_the_input(own: Any, other: Any, fault: str | None) -> None:
    assert faults([own] * 8, [other] * 8) == ([fault] if fault else [])


def test_a_batch_that_collate_fn_refuses_shows_no_input() -> None:
    own, other = lab("val", [{"x": IMAGE}] * 16), lab("train", [{"x": IMAGE[0]}] * 16)
    own.epoch.batches[0] = replace(own.epoch.batches[0], leaves=(), incident=Incident("collate", "TypeError"))
    (fault,) = (one.fault for one in mismatches(own, other))
    assert fault == "returns batch['x'] with 3 channels first, train without a channel axis"
    own.epoch.batches[0] = replace(own.epoch.batches[0], incident=None)
    assert len(mismatches(own, other)) == 1


def columns(values: Any) -> list[dict[str, Any]]:
    """Samples of a row of eight floats, and one of these values each."""
    rows = torch.randn(len(values), 8, generator=torch.Generator().manual_seed(0))
    return [{"x": row, "y": torch.tensor(float(value))} for row, value in zip(rows, values, strict=True)]


PRICES = torch.randn(60, generator=torch.Generator().manual_seed(1)).exp() * 40_000
OFFSETS = torch.randn(60, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize(
    ("own", "other", "differs"),
    [
        (PRICES, PRICES.log1p(), True),
        (OFFSETS * 1000, OFFSETS, True),  # millimetres and metres, on both sides of zero
        (torch.linspace(0, 3650, 60), torch.linspace(0, 30, 60), False),  # days of a long and of a short recording
        (PRICES, PRICES[(PRICES > 40_000) & (PRICES < 42_000)].repeat(20), False),  # a part of the range
        (PRICES, PRICES.index_fill(0, torch.tensor([3, 9]), 1e8), False),  # two extreme values
        (torch.ones(60), OFFSETS.exp() * 1e-4, False),  # no weights
    ],
    ids=["logarithm", "offsets", "times", "part", "outliers", "weights"],
)
def test_the_range_of_targets(own: Any, other: Any, differs: bool) -> None:
    for one, two in ((own, other), (other, own)):
        found = mismatches(lab("val", columns(one)), lab("train", columns(two)))
        assert [("['y']" in each.fault, each.ambiguous) for each in found] == [(True, True)] * differs


def test_sides_that_are_exchanged() -> None:
    wide = torch.rand(3, 16, 24)
    (fault,) = faults([{"x": wide}] * 8, [{"x": wide.mT}] * 8)
    assert fault == "returns batch['x'] as 16 rows of 24 pixels, train as 24 rows of 16"
    assert not faults([{"x": wide}] * 8, [{"x": wide}] * 8 + [{"x": wide.mT}] * 8)  # images of both orientations


def test_the_range_of_values() -> None:
    image = torch.linspace(0, 1, 768).reshape(3, 16, 16)
    (fault,) = faults([{"x": image * 255}] * 8, [{"x": image}] * 8)
    assert fault == "has values from 0 to 255 in sample['x'], train from 0 to 1"
    assert faults([{"x": image * 40}] * 8, [{"x": image}] * 8)
    assert not faults([{"x": image * 39}] * 8, [{"x": image}] * 8)
    assert not faults([{"x": image * 255}] * 3, [{"x": image}] * 8)  # too few samples
    assert not faults([{"x": image * 0}] * 8, [{"x": image}] * 8)
    assert faults([{"x": image * 255}] * 8, [{"x": image + 100}] * 8)
    assert not faults([{"x": image}] * 8, [{"x": image + 10000}] * 8)
    assert not faults([{"x": image * 255 + 10000}] * 8, [{"x": image * 100}] * 8)
    (fault,) = faults([{"x": image * 255, "weight": 0.5}] * 8, [{"x": image, "weight": 0.5}] * 8)
    assert fault == "has values from 0 to 255 in sample['x'], train from 0 to 1"


def test_classes_that_stand_beside_their_names() -> None:
    def samples(names: str) -> list[Any]:
        return [{"x": IMAGE, "name": names[place % 3], "y": place % 3} for place in range(12)]

    (fault,) = faults(samples("acb"), samples("abc"))
    assert fault == "assigns index 1 to class 'c', train assigns 2"
    assert faults(samples("abc"), samples("abc")) == []
    assert faults(samples("xyz"), samples("abc")) == []
    long = [{"text": str(place) * 1000, **one} for place, one in enumerate(samples("acb"))]  # too long to be shown
    assert faults(long, samples("abc")) == [fault]


@pytest.mark.parametrize(
    ("pairs", "found"),
    [
        ([("a", 0), ("b", 1), ("a", 0), ("b", 1)], {"a": 0, "b": 1}),
        ([("a", 0), ("b", 1), ("a", 0)], {}),  # too few samples
        ([("a", 0), ("b", 1), ("a", 0), (None, 1)], {}),
        ([("a", 0), ("b", 0), ("a", 0), ("b", 0)], {}),  # two names of one index
        ([("a", 0)] * 4, {}),  # a single class
        ([("a", 0), ("b", 1), ("c", 2), ("a", 0), ("c", 1)], {"a": 0, "b": 1}),  # c has two
        ([(name, place) for place, name in enumerate("abc")] + [("a", 0), ("a", 0)], {"a": 0, "b": 1, "c": 2}),
        ([(name, place) for place, name in enumerate("abc")] + [("a", 0)], {}),  # most names are seen once
    ],
)
def test_names_of_classes(pairs: Sequence[tuple[str | None, int | None]], found: dict[str, int]) -> None:
    assert _function(pairs) == found


def test_a_channel_of_small_values_is_compared_as_part_of_the_image() -> None:
    one, two = (Fit("", "float32", "RGB", (1.0, 1.0, 0.01), (0.0, 0.0, low), 0.0, exact=True) for low in (0.0, 1.0))
    assert _alike(one, two)


@pytest.mark.parametrize(
    ("drawn", "differ"), [((), True), (("BGR",), False), (("GRB",), True), (("GRB", "BGR", "RBG"), True)]
)
def test_an_order_that_training_draws_is_no_mismatch(drawn: tuple[str, ...], differ: bool) -> None:
    orders = {"train": ChannelOrder("RGB", drawn), "val": ChannelOrder("BGR")}

    def played(name: str) -> Any:
        images = SimpleNamespace(orders={"sample": orders[name]})
        return SimpleNamespace(facts=SimpleNamespace(name=name), images=images)

    found = _orders(played("val"), played("train"))
    assert (found is not None) is differ
    if found:
        usual = "RGB in most draws" if drawn else "RGB"
        assert found.fault == f"has channels BGR in sample, train has {usual}"


def test_what_a_loader_has_unlike_two_others_is_said_once() -> None:
    labs = {name: lab(name, [{"x": IMAGE if name == "test" else IMAGE[0]}] * 8) for name in ("train", "val", "test")}
    for name, made in labs.items():
        made.siblings, made.settings.roles = labs, {}
        made.facts.stem, made.facts.role = "", name
    (finding,) = verdict_of(dg515_mismatched_splits.judge, labs["test"]).findings
    assert finding.message.startswith("test returns batch['x'] with 3 channels first, train without a channel axis")


@pytest.mark.parametrize(
    ("scale", "exact", "alike"),
    [
        (1.0, (True, True), True),
        (1.015, (True, True), True),
        (1.03, (True, True), False),
        (1.05, (False, False), True),
        (1.05, (True, False), True),
        (1.9, (True, False), True),
        (2.1, (False, False), False),
    ],
)
@pytest.mark.parametrize("white", [1.0, 255.0, 0.01])
def test_images_are_alike_up_to_a_share_of_their_range(
    scale: float, exact: tuple[bool, bool], white: float, alike: bool
) -> None:
    one, two = (
        Fit("", "float32", "RGB", (white * each / 255,) * 3, (0.0,) * 3, 0.0, exact=sure)
        for each, sure in zip((1.0, scale), exact, strict=True)
    )
    assert _alike(one, two) is alike
    assert _alike(two, one) is alike
