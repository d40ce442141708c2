"""DG520: each label of a sample is compared, whichever of them conflicts."""

from __future__ import annotations

import torch

from dataguard.checks.labels.dg520_restarted_labels import dg520_restarted_labels
from dataguard.lab.dataset.concatenated_parts import Part
from tests.support.epochs import lab
from tests.support.recordings import verdict_of

PARTS = (
    Part("dataset.datasets[0]", {"cat": 0, "dog": 1}, {"['b']": (0, 1)}, {}, 8),
    Part("dataset.datasets[1]", {"elk": 0, "fox": 1}, {"['b']": (0, 1)}, {}, 8),
)


def test_a_label_without_a_conflict_does_not_hide_another() -> None:
    samples = [{"x": torch.rand(3, 8, 8), "a": place % 2, "b": place % 2} for place in range(8)]
    made = lab(samples, concatenated_parts=PARTS)
    made.need_map = lambda _: None
    (finding,) = verdict_of(dg520_restarted_labels.judge, made).findings
    assert finding.message == "label 0 in sample['b'] is 'cat' in dataset.datasets[0] and 'elk' in dataset.datasets[1]"
