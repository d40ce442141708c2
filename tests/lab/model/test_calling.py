"""How batches of many forms reach a model and its loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from dataguard.core.model import Undecided, UsageError
from dataguard.lab.model.calling import Caller, is_target
from dataguard.settings.settings import Settings
from tests.loaders import trained

HERE = "tests.loaders.trained"
CROSS_ENTROPY = "torch.nn.functional:cross_entropy"


def settings(model: str, loss: str | None = None, step: str | None = None) -> Settings:
    named = [name and (name if ":" in name else f"{HERE}:{name}") for name in (model, loss, step)]
    return Settings(model=named[0], loss=named[1], step=named[2])


def label(value: object) -> str:
    """The name of a function, which is the same in every process; else the value itself."""
    return getattr(value, "__name__", str(value))


def caller_of(make: Callable[[], Any], *named: str | None) -> tuple[Caller, Any]:
    loader = make()
    return Caller(settings(*named), loader), next(iter(loader))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (trained.pairs, ("Rows", CROSS_ENTROPY)),
        (trained.pairs, ("Rows", "torch.nn:CrossEntropyLoss")),
        (trained.pairs, ("Rows", "torch.nn:CrossEntropyLoss(label_smoothing=0.1)")),
        (trained.pairs, ("Rows", f"{CROSS_ENTROPY}(label_smoothing=0.1)")),
        (trained.pairs, ("Rows(outputs=4)", "make_loss")),
        (trained.pairs, ("SHARED", "half")),
        (trained.pairs, ("for_classes", "half")),
        (trained.pairs, ("Trainer",)),
        (trained.named, ("Rows", "half")),
        (trained.named, ("OfBatches", "half")),
        (trained.named, ("Rows", None, "step")),
        (trained.triples, ("Two", "half")),
        (trained.nested, ("Two", "half")),
        (trained.tokens, ("Language",)),
        (trained.tokens, ("Language", "by_token")),
        (trained.chunks, ("Characters",)),
        (trained.scenes, ("Detector",)),
        (trained.masks, ("Segmenter", "half")),
    ],
    ids=label,
)
def test_a_batch_reaches_its_loss(make: Callable[[], Any], named: tuple[str | None, ...]) -> None:
    caller, batch = caller_of(make, *named)
    loss = caller(batch)
    assert loss.shape == ()
    assert loss.isfinite()
    loss.backward()
    assert any(parameter.grad is not None for parameter in caller.module.parameters())


@pytest.mark.parametrize(
    ("make", "named", "message"),
    [
        (trained.pairs, ("Rows",), "a batch has 2 parts, and the model takes x"),
        (trained.alone, ("Rows",), r"the model returns a tensor of shape \(4, 3\), not a loss: name a loss function"),
        (trained.alone, ("Rows", "half"), "a single tensor, without a target"),
        (trained.triples, ("Rows", "half"), "a batch has 2 inputs, and the model takes x"),
        (trained.tokens, ("Two", "half"), "a batch has input_ids, attention_mask, labels, overflow, and the model"),
    ],
    ids=label,
)
def test_what_fits_no_convention_asks_for_a_step(
    make: Callable[[], Any], named: tuple[str | None, ...], message: str
) -> None:
    caller, batch = caller_of(make, *named)
    with pytest.raises(Undecided, match=message) as asked:
        caller(batch)
    assert "--step pkg.mod:step" in str(asked.value)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        (("NO_MODEL",), "--model .*: expected a torch.nn.Module, got dict"),
        (("make_loss", "NO_MODEL"), "--loss .*: expected a function of output and target, got dict"),
        (("Rows", None, "NO_MODEL"), "--step .*: expected a function of model and batch, got dict"),
    ],
    ids=label,
)
def test_what_is_no_function_is_refused(named: tuple[str | None, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Caller(settings(*named), trained.pairs())  # type: ignore[arg-type]


def test_a_batch_may_name_its_targets() -> None:
    images, targets = next(iter(trained.scenes()))
    assert is_target("[1][0]['boxes']", (images, targets))
    assert not is_target("[0][0]", (images, targets))
    assert is_target("['labels']", {"labels": 0, "x": 0})
    assert not is_target("['x']", {"labels": 0, "x": 0})


def test_a_model_is_in_training_mode_and_on_the_cpu() -> None:
    caller, _ = caller_of(trained.pairs, "Rows", "half")
    assert caller.module.training
    assert {parameter.device for parameter in caller.module.parameters()} == {torch.device("cpu")}
