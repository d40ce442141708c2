"""What the name of a loader says."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

import dataguard
from dataguard.lab.core.loader_facts import facts_of
from dataguard.settings.target_spelling import stem_of


@pytest.mark.parametrize(
    ("name", "stem"),
    [("train", ""), ("val_loader", "_loader"), ("depth_test", "depth_"), ("testDataloader", "dataloader"), ("x", None)],
)
def test_splits_have_their_names_in_common(name: str, stem: str | None) -> None:
    assert stem_of(name) == stem


@pytest.mark.scan
@pytest.mark.parametrize(("roles", "noted"), [({}, True), ({"good": "val"}, False)])
def test_a_role_that_costs_checks_is_noted(roles: dict[str, str], noted: bool) -> None:
    report = dataguard.scan("sample_datasets.dg301_overlong_len:good", select=["DG207", "DG211", "DG301"], roles=roles)
    expected = "good: the role is unknown, so 2 checks were not tested; add --role good=train (or val, test, predict)"
    assert report.notes == ((expected,) if noted else ())


@pytest.mark.parametrize(("size", "known"), [(4, 4), (numpy.int64(4), 4), ("4", None), ([4, 2], None)])
def test_settings_are_of_their_types_whatever_the_user_passes(size: Any, known: int | None) -> None:
    sampler = BatchSampler(SequentialSampler(range(8)), 4, drop_last=False)
    sampler.batch_size = size
    given: Any = {"dataset": range(8), "pin_memory": 1, "batch_sampler": sampler}
    facts = facts_of("train", DataLoader(**given), {}, "make")
    assert (facts.batch_size, facts.pin_memory, facts.persistent) == (known, True, False)
