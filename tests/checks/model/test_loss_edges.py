"""DG902 and DG903: what is reported of a step, by the records of its calls and leaves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dataguard.checks.common.labels import Classes
from dataguard.checks.model.dg902_target_loss_mismatch import dg902_target_loss_mismatch
from dataguard.checks.model.dg903_ignored_input import dg903_ignored_input
from dataguard.core.incident import Incident
from dataguard.core.model import NotApplicable, Undecided
from dataguard.lab.labels.declared_labels import ClassNames
from dataguard.lab.model.calling import LossCall, Values
from dataguard.lab.model.trial import BatchLeaf, Trial
from tests.support.recordings import Verdict, verdict_of

LOGITS = Values((8, 3), "float32", -2.0, 2.0, ("[0]",))
LABELS = Values((8,), "int64", 0, 2, ("[1]",))
CALL = LossCall("cross_entropy", LOGITS, LABELS, ignore_index=-100)


def lab(trial: Trial, classes: Classes | None = None, role: str | None = None) -> Any:
    names = (ClassNames("dataset.classes", classes.count),) if classes and not classes.declared else ()
    contract = {"num_classes": classes.count} if classes and classes.declared else {}
    model = SimpleNamespace(trial=trial, stepped=trial, need_call=lambda _: None, repro="repro of {}".format)
    return SimpleNamespace(
        model=model,
        settings=SimpleNamespace(contract=contract),
        dataset=SimpleNamespace(class_names=names),
        facts=SimpleNamespace(role=role),
    )


class TestLosses:
    """DG902."""

    def judged(self, *calls: LossCall, classes: Classes | None = None, **trial: Any) -> Verdict:
        made = Trial(trial.pop("samples", 8), whole=True, calls=calls, **trial)
        return verdict_of(dg902_target_loss_mismatch.judge, lab(made, classes))

    def test_a_call_that_is_right(self) -> None:
        verdict = self.judged(CALL, CALL)
        assert (verdict.findings, verdict.outcome.exercised) == ((), {"samples": 8, "loss calls": 2})
        assert self.judged(CALL, samples=None).outcome.exercised["samples"] == 1
        assert "no loss function of torch" in self.judged().outcome.note

    @pytest.mark.parametrize(
        ("failed", "what"), [("loss", "the loss function"), ("backward", "computing gradients of the loss")]
    )
    def test_an_exception(self, failed: str, what: str) -> None:
        verdict = self.judged(CALL, failed=failed, incident=Incident(failed, "ValueError: no"))
        (finding,) = verdict.findings
        assert finding.message == f"{what} raised ValueError: no"
        assert finding.repro == "repro of DG902"
        assert verdict.outcome.exercised == {"samples": 8}

    @pytest.mark.parametrize("samples", [8, None])
    def test_the_call_that_raised_is_named(self, samples: int | None) -> None:
        refused = LossCall("cross_entropy", LOGITS, Values((8,), "float32", 0, 2, ("[1]",)), error="expected Long")
        incident = Incident("loss", "RuntimeError: expected Long")
        verdict = self.judged(CALL, refused, failed="loss", incident=incident, samples=samples)
        (finding,) = verdict.findings
        assert finding.evidence["exception"] == "RuntimeError: expected Long"
        assert finding.evidence["target"] == "(8,) float32, 0 to 2"
        assert verdict.outcome.exercised == {"samples": samples or 1}

    @pytest.mark.parametrize(("count", "wrong"), [(2, False), (3, False), (4, True)])
    @pytest.mark.parametrize("declared", [False, True])
    def test_fewer_outputs_than_classes(self, count: int, declared: bool, wrong: bool) -> None:
        found = self.judged(CALL, classes=Classes(count, "", declared=declared)).findings
        assert [one.ambiguous for one in found] == ([not declared] if wrong else [])

    def test_outputs_count_classes_in_a_single_call_with_one_target(self) -> None:
        four = Classes(4, "", declared=True)
        assert not self.judged(CALL, CALL, classes=four).findings
        mixed = LossCall("cross_entropy", LOGITS, Values((8,), "int64", 0, 2, ("[1]", "[2]")), ignore_index=-100)
        assert not self.judged(mixed, classes=four).findings
        assert not self.judged(LossCall("nll_loss", LOGITS, LABELS, ignore_index=-100), classes=four).findings
        beside = LossCall("mse_loss", Values((8,), "float32", 0, 1), Values((8,), "float32", 0, 1))
        assert self.judged(CALL, beside, classes=four).findings


def leaf(path: str, shape: tuple[int, ...] = (8, 6), dtype: str = "float32", **changes: Any) -> BatchLeaf:
    known = {"constant": False, "handed": True, "used": True, "target": False, "changes": True}
    return BatchLeaf(path, dtype, shape, **{**known, **changes})


class TestInputs:
    """DG903."""

    def judged(self, *leaves: BatchLeaf, role: str | None = "train", loss: float | None = 1.0) -> Verdict:
        trial = Trial(8, whole=True, loss=loss, leaves=leaves)
        return verdict_of(dg903_ignored_input.judge, lab(trial, role=role))

    def ignored(self, *leaves: BatchLeaf) -> list[str]:
        """The leaves that are reported beside an input that is used."""
        verdict = self.judged(leaf(".image", (8, 3, 9, 9)), *leaves)
        assert not isinstance(verdict.outcome, Exception)
        return [finding.message.partition(" ")[0] for finding in verdict.findings]

    @pytest.mark.parametrize(
        ("one", "wrong"),
        [
            (leaf(".other", changes=False), True),
            (leaf(".other", changes=True), False),
            (leaf(".other", changes=False, used=False), True),  # the model takes it, and leaves it
            (leaf(".other", changes=False, handed=False), True),  # a loss takes it, and leaves it
            (leaf(".other", changes=False, constant=True), False),
            (leaf(".other", changes=False, target=True), False),
            (leaf(".label", changes=False), False),
            (leaf(".label_mask", changes=False), True),
            (leaf(".other", (8,), changes=False), False),
            (leaf(".lengths", (8,), "int64", changes=False), True),
            (leaf(".sample_ids", (8, 6), "int64", changes=False), True),  # tokens
            (leaf(".sample_ids", (8, 6), changes=False), False),
            (leaf(".sample_ids", (8, 6), "int64", changes=False, handed=False), False),
            (leaf(".ids", (8,), "int64", changes=False), False),
        ],
    )
    def test_which_leaves_should_matter(self, one: BatchLeaf, wrong: bool) -> None:
        assert self.ignored(one) == ([f"batch{one.path}"] if wrong else [])

    @pytest.mark.parametrize(
        ("one", "wrong"),
        [
            (leaf(".view", (8, 3, 9, 9)), True),
            (leaf(".view", (8, 3, 9, 8)), False),
            (leaf(".view", (8, 3, 9, 9), "int64"), False),
            (leaf(".mask", (8, 3), "bool"), True),
            (leaf(".mask", (8, 4), "bool"), False),
            (leaf(".length", (8,), "int64"), True),
            (leaf(".length", (7,), "int64"), False),
            (leaf(".mask", (8, 3, 9), "bool"), False),
            (leaf(".special_tokens_mask", (8, 3), "bool"), False),
            (leaf(".number", (8, 3), "int64"), False),
        ],
    )
    def test_which_leaves_are_missed(self, one: BatchLeaf, wrong: bool) -> None:
        unused = BatchLeaf(one.path, one.dtype, one.shape, False, False, False, False, False)
        assert self.ignored(unused) == ([f"batch{one.path}"] if wrong else [])

    def test_a_mask_is_not_missed_beside_another(self) -> None:
        used = leaf(".lengths", (8,), "int64")
        unused = BatchLeaf(".mask", "bool", (8, 3), False, False, False, False, False)
        assert self.ignored(used, unused) == []
        assert self.ignored(leaf(".row", (8,)), unused) == ["batch.mask"]

    def test_numbers_have_no_length(self) -> None:
        unused = leaf(".lengths", (8,), "int64", handed=False, used=False, changes=False)
        assert isinstance(self.judged(leaf(".row", (8,)), unused, role="val").outcome, NotApplicable)

    def test_an_input_without_any_effect(self) -> None:
        nothing = leaf(".image", changes=False)
        assert isinstance(self.judged(nothing).outcome, NotApplicable)
        assert len(self.judged(nothing, role="val").findings) == 1
        assert isinstance(self.judged(leaf(".image", changes=None)).outcome, Undecided)
        assert isinstance(self.judged(leaf(".label")).outcome, NotApplicable)

    @pytest.mark.parametrize("loss", [None, float("nan"), float("inf")])
    def test_a_loss_that_is_no_number(self, loss: float | None) -> None:
        assert str(self.judged(leaf(".image"), loss=loss).outcome) == f"see DG901: the loss is {loss}"
