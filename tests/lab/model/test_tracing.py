"""Which leaves reach a model and a loss, and what the loss gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from dataguard.lab.model.calling import SUBTRACTION, LossCall, Tracer, is_outer, record

BATCH = {"x": torch.rand(8, 4), "y": torch.arange(8) % 3, "mask": torch.ones(8, 4), "id": torch.arange(8)}


def traced(net: nn.Module, step: Callable[[nn.Module, Any], Tensor]) -> tuple[Tracer, tuple[LossCall, ...]]:
    batch = {name: leaf.clone() for name, leaf in BATCH.items()}
    tracer = Tracer(net, batch)
    with tracer:
        step(net, batch)
    return tracer, tuple(record(call, tracer.values_of) for call in tracer.calls)


def test_leaves_are_followed_through_what_is_computed() -> None:
    def step(net: nn.Module, batch: Any) -> Tensor:
        batch = {name: leaf.to("cpu") for name, leaf in batch.items()}
        scaled = torch.stack([row / 2 for row in batch["x"]]) * batch["mask"]
        return functional.cross_entropy(net(scaled).float(), batch["y"].clone().long())

    tracer, (call,) = traced(nn.Linear(4, 3), step)
    assert tracer.handed == {"['x']", "['mask']"}
    assert "['id']" not in tracer.used
    assert call.output.leaves == ("['mask']", "['x']")
    assert call.target.leaves == ("['y']",)
    assert (call.function, call.output.shape, call.target.dtype) == ("cross_entropy", (8, 3), "int64")
    assert call.outside == ()


def test_lengths_as_a_list_are_used() -> None:
    tracer, _ = traced(nn.Linear(4, 3), lambda net, batch: net(batch["x"])[batch["id"].tolist()].sum())
    assert {"['x']", "['id']"} <= tracer.used


@pytest.mark.parametrize(
    ("last", "activation", "sums"),
    [
        (nn.Softmax(1), "softmax", True),
        (nn.Sigmoid(), "sigmoid", False),
        (nn.LogSoftmax(1), "log_softmax", False),
        (nn.Sequential(nn.Softmax(1), nn.Flatten()), "softmax", True),
        (nn.Sequential(nn.Softmax(1), nn.Linear(3, 3)), None, False),
        (nn.Identity(), None, False),
    ],
)
def test_the_last_activation_is_known(last: nn.Module, activation: str | None, sums: bool) -> None:
    net = nn.Sequential(nn.Linear(4, 3), last)
    _, (call,) = traced(net, lambda net, batch: nn.CrossEntropyLoss()(net(batch["x"]), batch["y"]))
    assert call.output.activation == activation
    assert (call.row_sums == pytest.approx((1, 1))) is sums


def test_labels_that_are_no_classes() -> None:
    def step(net: nn.Module, batch: Any) -> Tensor:
        labels = torch.tensor([0, 1, 2, 7, -1, -100, -100, 255])
        return functional.cross_entropy(net(batch["x"]), labels, None, None, -100)

    with pytest.raises(IndexError):
        traced(nn.Linear(4, 3), step)
    tracer = Tracer(nn.Identity(), BATCH)
    with tracer, pytest.raises(IndexError):
        step(nn.Linear(4, 3), BATCH)
    call = record(tracer.calls[0], tracer.values_of)
    assert call.outside == (-1, 7, 255)
    assert call.ignored == 0.25
    assert call.error is not None
    assert call.error.startswith("IndexError: Target")


def difference(net: nn.Module, batch: Any) -> Tensor:
    differences: Tensor = net(batch["x"]) - batch["y"]
    return differences.abs().mean()


def test_a_subtraction_that_broadcasts_is_a_loss_outside_of_the_model() -> None:
    _, (call,) = traced(nn.Linear(4, 1), difference)
    assert (call.function, call.output.shape, call.target.shape) == (SUBTRACTION, (8, 1), (8,))
    assert traced(nn.Sequential(nn.Linear(4, 1), nn.Flatten(0)), difference)[1] == ()


class Pairwise(nn.Module):
    """Subtracts inputs from what it has computed, on purpose."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.head(x) - x[:, 0]
        return made


def test_a_subtraction_inside_of_the_model_is_none() -> None:
    assert traced(Pairwise(), lambda net, batch: net(batch["x"]).mean())[1] == ()


def test_models_with_vmap_and_sparse_tensors_run() -> None:
    def step(net: nn.Module, batch: Any) -> Tensor:
        summed: Any = torch.func.vmap(torch.sum)(batch["x"])
        sparse = batch["x"].to_sparse()
        made: Tensor = net(batch["x"]).sum() + summed.sum() + torch.sparse.sum(sparse)
        return made

    assert traced(nn.Linear(4, 3), step)[0].handed == {"['x']"}


@pytest.mark.parametrize(
    ("one", "other", "outer"),
    [
        ((8, 1), (8,), True),
        ((8,), (8, 1), True),
        ((8, 1, 1), (8,), True),
        ((8, 1), (8, 1), False),
        ((8, 3), (8, 1), False),
        ((8, 3), (24,), False),
        ((1,), (), False),
    ],
)
def test_shapes_that_broadcast_to_more(one: tuple[int, ...], other: tuple[int, ...], outer: bool) -> None:
    assert is_outer(torch.Size(one), torch.Size(other)) is outer


@pytest.mark.parametrize(("trains", "known"), [(True, True), (False, False)])
def test_statistics_of_the_batch_are_noticed_where_they_are_used(trains: bool, known: bool) -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.LayerNorm(3)).train(trains)
    tracer, _ = traced(net, lambda net, batch: net(batch["x"]).sum())
    assert tracer.batch_statistics is known
