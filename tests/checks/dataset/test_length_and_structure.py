"""DG301 and DG305: samples that are missing, and samples of several structures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dataguard.checks.dataset.dg301_overlong_len import dg301_overlong_len
from dataguard.checks.dataset.dg305_shifting_structure import dg305_shifting_structure, difference, unlike
from dataguard.core.incident import Incident, LoaderRaised
from dataguard.lab.batches.settings_trials import Clash, MixedPair
from tests.support.epochs import sample
from tests.support.recordings import Verdict, recordings, verdict_of


class TestGaps:
    """DG301: a sample inside the range that is looked up by a label that does not exist."""

    def judged(self, incident: Incident, length: int | None = 10, kind: str = "map") -> Verdict:
        recorded = recordings("dg301_overlong_len")["bad"]
        facts = SimpleNamespace(kind=kind, length=length)
        changes = {".dataset.ends": LoaderRaised(incident), ".facts": facts}
        return verdict_of(dg301_overlong_len.judge, recorded.but(changes).lab)

    @pytest.mark.parametrize("message", ["KeyError: 5", "KeyError: np.int64(5)", "KeyError: 5\nmore"])
    def test_a_key_that_is_the_index(self, message: str) -> None:
        verdict = self.judged(Incident("sample", message, index="5"))
        (finding,) = verdict.findings
        assert finding.message.startswith("len(dataset) is 10, but index 5 raises KeyError: ")
        assert finding.evidence["failing index"] == 5
        assert str(finding.repro).startswith("dataguard show tests.loaders.recorded:named 5 ")
        assert verdict.outcome.exercised == {}

    @pytest.mark.parametrize(
        ("incident", "length", "kind"),
        [
            (Incident("sample", "KeyError: 5", index="5"), 5, "map"),
            (Incident("sample", "KeyError: 5", index="5"), None, "map"),
            (Incident("sample", "KeyError: 5", index="5"), 10, "stream"),
            (Incident("sample", "KeyError: 5", index="6"), 10, "map"),
            (Incident("sample", "KeyError: 'name'", index="5"), 10, "map"),
            (Incident("sample", "IndexError: 5", index="5"), 10, "map"),
            (Incident("collate", "KeyError: 5", index="5"), 10, "map"),
        ],
    )
    def test_another_failure_is_not_about_the_length(self, incident: Incident, length: int | None, kind: str) -> None:
        verdict = self.judged(incident, length, kind)
        assert verdict.findings == ()
        assert isinstance(verdict.outcome, LoaderRaised)


class TestStructures:
    """DG305: what collate_fn does with samples of two structures."""

    def judged(self, pairs: Sequence[MixedPair] = (), clash: Clash | None = None, **changes: Any) -> Verdict:
        """The verdict on the samples of the twin, whose batches in the epoch each hold samples of one structure."""
        bad = recordings("dg305_shifting_structure")["bad"]
        (mixed,) = (path for path in bad.reads if path.startswith(".batches.mixed("))
        epoch = bad.read(".epoch")
        same = {sample.form for sample in epoch.samples[:1]}
        kept = (
            tuple(one for one in epoch.samples if one.form in same) if changes.pop("uniform", False) else epoch.samples
        )
        epoch = replace(epoch, samples=kept, **changes.pop("epoch", {}))
        tried = replace(bad.read(mixed), pairs=tuple(pairs), clash=clash)
        facts = replace(bad.read(".facts"), **changes)
        return verdict_of(dg305_shifting_structure.judge, bad.but({".epoch": epoch, mixed: tried, ".facts": facts}).lab)

    def test_one_structure(self) -> None:
        verdict = self.judged(uniform=True)
        assert (verdict.findings, verdict.outcome.exercised["structures"]) == ((), 1)

    def test_samples_that_are_not_batched(self) -> None:
        verdict = self.judged(batched=False)
        assert (verdict.findings, verdict.outcome.note) == ((), "samples differ in structure, but are not batched")

    def test_batches_that_collate_fn_refuses(self) -> None:
        (finding,) = self.judged(clash=Clash((0, 1), (), Incident("collate", "TypeError"))).findings
        assert finding.message.endswith("fails on a batch of both")
        assert str(finding.repro).endswith(" --batch")

    def test_an_epoch_without_planned_batches(self) -> None:
        assert self.judged(epoch={"sizes": None}).findings

    @pytest.mark.parametrize(("kind", "clash"), [("stream", True), ("map", False)])
    def test_pairs_are_tried_where_a_shuffle_may_combine_them(self, kind: str, clash: bool) -> None:
        refused = Clash((0, 1), (), Incident("collate", "TypeError")) if clash else None
        verdict = self.judged(clash=refused, kind=kind)
        assert not any("fails on" in finding.message for finding in verdict.findings)

    @pytest.mark.parametrize(("reverse", "wrong"), [("float32", True), ("int64", False)])
    def test_a_collate_fn_whose_result_depends_on_the_order(self, reverse: str, wrong: bool) -> None:
        bad = recordings("dg305_shifting_structure")["bad"]
        samples = bad.read(".epoch").samples
        one, two = unlike(samples)
        leaf = replace(one.leaves[0], path="[0]", dtype="int64")
        pairs = [
            MixedPair((one.index, two.index), (leaf,)),
            MixedPair((two.index, one.index), (replace(leaf, dtype=reverse),)),
        ]
        verdict = self.judged(pairs, default_collate=False, epoch={"batches": ()})
        assert bool(verdict.findings) == wrong
        assert (verdict.outcome.note is None) == wrong


@pytest.mark.parametrize(
    ("one", "two", "found"),
    [
        ({"a": 1}, {"a": 1.0}, ("['a']", "int64 at index 0 and float64 at index 1")),
        ({"a": 1}, {"a": 1, "b": 2}, ("['b']", "absent at index 0 and int64 at index 1")),
        (torch.zeros(2), torch.zeros(2, 2), ("", "float32 of rank 1 at index 0 and float32 of rank 2 at index 1")),
        ((1, 2), (1, 2), ("", "nested differently at index 0 and at index 1")),
    ],
)
def test_the_first_difference(one: Any, two: Any, found: tuple[str, str]) -> None:
    assert difference(sample(one, 0), sample(two, 1)) == found
