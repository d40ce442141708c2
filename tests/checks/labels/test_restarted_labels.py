"""DG520: each label of a sample is compared, whichever of them conflicts."""

from __future__ import annotations

from dataclasses import replace

import torch

from dataguard.checks.labels.dg520_restarted_labels import dg520_restarted_labels
from dataguard.lab.dataset.dataset_observations import Part
from tests.support.epochs import lab
from tests.support.recordings import verdict_of

PARTS = (
    Part("dataset.datasets[0]", {"cat": 0, "dog": 1}, {"['b']": (0, 1)}, {}, 8),
    Part("dataset.datasets[1]", {"elk": 0, "fox": 1}, {"['b']": (0, 1)}, {}, 8),
)


def test_a_name_may_be_a_number() -> None:
    one, two = PARTS
    made = lab([{"x": torch.rand(3, 8, 8), "b": place % 2} for place in range(8)])
    made.dataset.concatenated_parts = (replace(one, names={"7": 0, "dog": 1}), two)
    made.need_map = lambda _: None
    assert verdict_of(dg520_restarted_labels.judge, made).findings
    made.dataset.concatenated_parts = (replace(one, names={"7": 0, "8": 1}), two)
    assert not verdict_of(dg520_restarted_labels.judge, made).findings


def test_a_label_without_a_conflict_does_not_hide_another() -> None:
    samples = [{"x": torch.rand(3, 8, 8), "a": place % 2, "b": place % 2} for place in range(8)]
    made = lab(samples, concatenated_parts=PARTS)
    made.need_map = lambda _: None
    (finding,) = verdict_of(dg520_restarted_labels.judge, made).findings
    assert finding.message == "label 0 in sample['b'] is 'cat' in dataset.datasets[0] and 'elk' in dataset.datasets[1]"
