"""The model of a scan: without one, with objects in hand, with one that fails; and what losses misunderstand."""

from __future__ import annotations

from typing import Any

import pytest
from torch import nn
from torch.nn import functional

import dataguard
from dataguard.checks.model.loss_mismatch import mismatches, refusal
from dataguard.core.model import Result, Status, UsageError
from dataguard.lab.model.calling import LossCall, Values
from tests.loaders import trained

HERE = "tests.loaders.trained"
GRAPHS = "tests.loaders.trained_graphs"
CROSS_ENTROPY = "torch.nn.functional:cross_entropy"


def results(target: Any, **options: Any) -> dict[str, Result]:
    report = dataguard.scan(target, select=["DG9"], **options)
    return {result.code: result for result in report.results}


@pytest.mark.scan
def test_without_a_model_the_checks_say_how_to_name_one() -> None:
    for result in results(f"{HERE}:pairs").values():
        assert result.status is Status.SKIPPED
        assert result.reason == "not tested: no model is named: --model pkg.mod:make_model --loss pkg.mod:loss"


@pytest.mark.scan
def test_objects_in_hand_and_the_command_that_names_them() -> None:
    found = results(trained.pairs(), model=trained.Rows(), loss=nn.CrossEntropyLoss())
    assert {result.status for result in found.values()} == {Status.PASSED}, found
    softened = nn.Sequential(trained.Rows(), nn.Softmax(1))
    (finding,) = results(trained.pairs(), model=softened, loss=functional.cross_entropy)["DG902"].findings
    assert finding.message.startswith("cross_entropy gets the result of a softmax")


def test_objects_need_a_loader_in_hand() -> None:
    with pytest.raises(UsageError, match="needs a loader in hand"):
        dataguard.scan(f"{HERE}:pairs", model=trained.Rows())


@pytest.mark.scan
def test_a_model_that_raises_decides_nothing() -> None:
    for result in results(f"{HERE}:pairs", model=f"{HERE}:Refusing", loss=f"{HERE}:half").values():
        assert result.status is Status.INCONCLUSIVE
        assert "mat1 and mat2 shapes cannot be multiplied (4x2 and 5x3) at " in (result.reason or "")
        assert "--step pkg.mod:step" in (result.reason or "")


@pytest.mark.scan
@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"model": f"{HERE}:Rowz"}, "did you mean 'Rows'"),
        ({"model": "nowhere_at_all:Rows"}, "no module named 'nowhere_at_all'"),
        ({"model": f"{HERE}:Rows", "step": f"{HERE}:stop"}, "did you mean 'step'"),
    ],
    ids=str,
)
def test_a_wrong_name_is_a_wrong_setting(named: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        results(f"{HERE}:pairs", **named)


@pytest.mark.scan
@pytest.mark.parametrize(
    ("target", "named"),
    [
        (f"{HERE}:pairs", {"model": "tests.loaders.trained_lightning:Lit"}),
        (f"{GRAPHS}:graphs", {"model": f"{GRAPHS}:OfGraphs", "loss": CROSS_ENTROPY}),
        (f"{GRAPHS}:graphs", {"model": f"{GRAPHS}:OfBatches", "loss": CROSS_ENTROPY}),
    ],
    ids=str,
)
def test_models_of_libraries_learn(target: str, named: dict[str, str]) -> None:
    found = results(target, **named)
    assert {result.status for result in found.values()} == {Status.PASSED}, found


@pytest.mark.scan
def test_evaluation_is_not_learned() -> None:
    loaders = {"val": trained.pairs(), "test": trained.pairs()}
    report = dataguard.scan(loaders, select=["DG9"], model=trained.Rows(), loss=functional.cross_entropy)
    found = {(result.loader, result.code): result.status for result in report.results}
    skipped, passed = Status.SKIPPED, Status.PASSED
    assert found == {
        ("val", "DG901"): skipped,
        ("val", "DG902"): passed,
        ("val", "DG903"): passed,
        ("test", "DG901"): skipped,
        ("test", "DG902"): skipped,
        ("test", "DG903"): skipped,
    }


def floats(*shape: int, low: float = -2.0, high: float = 2.0, activation: str | None = None) -> Values:
    return Values(shape, "float32", low, high, ("['y']",), activation)


def labels(*shape: int, high: float = 3.0) -> Values:
    return Values(shape, "int64", 0.0, high, ("['y']",))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (LossCall("mse_loss", floats(8, 1), floats(8)), "each output with every target"),
        (LossCall("mse_loss", floats(8), floats(8, 1)), "each output with every target"),
        (LossCall("huber_loss", floats(8, 3, 4, 4), floats(8, 1, 4, 4)), "as (8, 3, 4, 4)"),
        (LossCall("mse_loss", floats(8, 1), floats(8, 1)), None),
        (LossCall("mse_loss", floats(8, 1), floats()), None),
        (LossCall("mse_loss", floats(8, 1), floats(1)), None),
        (LossCall("cross_entropy", floats(8, 4), labels(8), row_sums=(1, 1)), "never falls below 0.74 for 4"),
        (LossCall("cross_entropy", floats(8, 3), labels(8), row_sums=(1, 1)), "never falls below 0.55 for 3"),
        (LossCall("cross_entropy", floats(8, 4), labels(8), row_sums=(0.3, 2)), None),
        (LossCall("cross_entropy", floats(8, 4), labels(8), row_sums=(1, 2)), None),
        (LossCall("cross_entropy", floats(8, 2), labels(8), row_sums=(1, 1)), None),
        (LossCall("cross_entropy", floats(8, 4), labels(8), log_sums=0.0), None),
        (LossCall("cross_entropy", floats(8, 4), floats(8, 4), target_sums=(1, 1.001)), None),
        (LossCall("cross_entropy", floats(8, 4), floats(8, 4), target_sums=(0, 3)), "sum to 0 to 3"),
        (LossCall("cross_entropy", floats(8, 4), floats(8, 4), target_sums=(0.5, 1)), "sum to 0.5 to 1"),
        (LossCall("nll_loss", floats(8, 4), labels(8), log_sums=0.0), None),
        (LossCall("nll_loss", floats(8, 4), labels(8), log_sums=1.5), "gets logits"),
        (LossCall("nll_loss", floats(8, 4), labels(8), log_sums=1.6, row_sums=(1, 1)), "gets probabilities"),
        (LossCall("binary_cross_entropy", floats(8), floats(8, low=0, high=1)), None),
        (LossCall("binary_cross_entropy", floats(8), floats(8, low=0, high=255)), "targets from 0 to 255"),
        (LossCall("binary_cross_entropy_with_logits", floats(8), floats(8, low=-1), selects=True), None),
    ],
)
def test_what_a_loss_misunderstands(call: LossCall, words: str | None) -> None:
    found = [fault.message for fault in mismatches(call)]
    assert len(found) == (words is not None)
    assert all((words or "") in message for message in found)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (LossCall("cross_entropy", floats(8, 4), labels(8), outside=(4,)), "count classes from 0"),
        (LossCall("cross_entropy", floats(8, 4), labels(8), outside=(-1,)), "if -1 marks what has no class"),
        (LossCall("cross_entropy", floats(4), labels(), outside=(4,)), "count classes from 0"),
        (
            LossCall("cross_entropy", floats(8, 4), labels(8, 4), error="Expected floating point type for target"),
            "argmax(1)",
        ),
        (LossCall("cross_entropy", floats(8, 4), labels(8, 1), error="multi-target not supported"), "squeeze(1)"),
        (
            LossCall(
                "binary_cross_entropy", floats(8), floats(8), error="all elements of input should be between 0 and 1"
            ),
            "holds logits",
        ),
    ],
)
def test_what_to_change_if_a_loss_raises(call: LossCall, words: str) -> None:
    assert words in refusal(call).fix
    assert not call.outside or "but the output has 4 classes, 0 to 3" in refusal(call).message


@pytest.mark.parametrize(
    ("output", "target", "ambiguous"),
    [((8, 1), (8,), False), ((8, 3, 4, 4), (8, 1, 4, 4), True), ((8, 1), (1, 8), True), ((8, 4), (4,), True)],
)
def test_a_target_for_several_outputs_may_be_meant(
    output: tuple[int, ...], target: tuple[int, ...], ambiguous: bool
) -> None:
    (fault,) = mismatches(LossCall("mse_loss", floats(*output), floats(*target)))
    assert fault.ambiguous == ambiguous


@pytest.mark.parametrize(("activation", "ambiguous"), [("softmax", False), ("sigmoid", True)])
def test_one_sigmoid_for_each_class_may_be_meant(activation: str, ambiguous: bool) -> None:
    sums = (1, 1) if activation == "softmax" else None
    call = LossCall("cross_entropy", floats(8, 4, activation=activation), labels(8), row_sums=sums)
    assert [fault.ambiguous for fault in mismatches(call)] == [ambiguous]
