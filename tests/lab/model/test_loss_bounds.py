"""What a loss can reach, compared with what it is for such predictions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from dataguard.lab.model.calling import LiveCall
from dataguard.lab.model.learning import accuracy, all_ignored, bounds, classes_of

LABELS = torch.tensor([0, 0, 0, 1, 2, 2, -100, -100])


def call(function: str, output: Tensor, target: Tensor, **options: Any) -> LiveCall:
    return LiveCall(function, output, target, options)


@pytest.mark.parametrize("options", [{}, {"reduction": "sum"}, {"label_smoothing": 0.2}], ids=str)
def test_cross_entropy(options: Mapping[str, Any]) -> None:
    kept = LABELS[LABELS >= 0]
    smoothing = options.get("label_smoothing", 0.0)
    rows = functional.one_hot(kept, 4).double() * (1 - smoothing) + smoothing / 4
    found = bounds(call("cross_entropy", torch.zeros(8, 4), LABELS, **options))
    assert found is not None
    perfect, constant = torch.zeros(8, 4), rows.mean(0).clamp(min=1e-9).log().expand(8, 4)
    perfect[LABELS >= 0] = rows.clamp(min=1e-9).log().float()
    for output, bound in zip((perfect, constant.float()), found, strict=True):
        assert float(functional.cross_entropy(output, LABELS, **options)) == pytest.approx(bound, abs=1e-4)


def test_cross_entropy_of_probabilities_and_dense_labels() -> None:
    soft = torch.rand(8, 4).softmax(1)
    found = bounds(call("cross_entropy", torch.zeros(8, 4), soft))
    assert found is not None
    assert float(functional.cross_entropy(soft.log(), soft)) == pytest.approx(found[0], abs=1e-5)
    dense = torch.zeros(2, 4, 5, 5)
    assert bounds(call("cross_entropy", dense, torch.ones(2, 5, 5).long())) == pytest.approx((0, 0))


def test_binary_cross_entropy_and_squares() -> None:
    flags = torch.tensor([[0.0, 1], [1, 1], [0, 1], [1, 1]])
    assert bounds(call("binary_cross_entropy", flags, flags)) == pytest.approx((0, math.log(2) / 2))
    values = torch.tensor([[1.0], [3.0]])
    assert bounds(call("mse_loss", values, values)) == pytest.approx((0, 1))
    assert bounds(call("mse_loss", values, values, reduction="sum")) == pytest.approx((0, 2))


def test_samples_with_the_same_input_get_the_same_prediction() -> None:
    groups, flags = torch.tensor([0, 0, 1, 2]), torch.tensor([0.0, 1, 1, 1])
    found = bounds(call("cross_entropy", torch.zeros(4, 2), flags.long()), groups)
    assert found == pytest.approx((math.log(2) / 2, 0.5623), abs=1e-4)
    assert bounds(call("binary_cross_entropy", flags, flags), groups) == pytest.approx(found)
    assert bounds(call("mse_loss", flags, flags), groups) == pytest.approx((0.125, 0.1875))


@pytest.mark.parametrize(
    "unknown",
    [
        call("cross_entropy", torch.zeros(8, 4), LABELS, weight=torch.ones(4)),
        call("cross_entropy", torch.zeros(8, 4), LABELS, reduction="none"),
        call("cross_entropy", torch.zeros(8, 2), LABELS),
        call("cross_entropy", torch.zeros(8, 4), torch.full((8,), -100)),
        call("binary_cross_entropy", torch.zeros(2), torch.tensor([0.0, 255])),
        call("mse_loss", torch.zeros(8, 1), torch.zeros(8)),
        call("huber_loss", torch.zeros(8), torch.zeros(8)),
    ],
)
def test_what_is_not_known(unknown: LiveCall) -> None:
    assert bounds(unknown) is None


def test_classes_and_accuracy() -> None:
    output = functional.one_hot(torch.tensor([0, 0, 0, 0, 2, 2, 1, 1]), 4).float()
    known = call("cross_entropy", output, LABELS)
    assert classes_of(known) == 4
    assert accuracy(known) == pytest.approx((5 / 6, 0.5))
    assert not all_ignored(known)
    ignored = call("cross_entropy", output, torch.full((8,), -100))
    assert (all_ignored(ignored), accuracy(ignored)) == (True, None)
