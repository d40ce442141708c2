"""Copies to an accelerator, proven by its own events. Skipped, with the reason, where there is none."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from dataguard.core.model import Status
from dataguard.engine import scan
from dataguard.lab.throughput import device_copies
from dataguard.settings.settings import Settings

pytestmark = pytest.mark.scan

WHY_NOT = device_copies.unavailable_reason()
cuda = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
BYTES = 40_000_000


@dataclass
class Plain:
    """A batch that pinning does not reach into."""

    images: Tensor


@dataclass
class Pinnable(Plain):
    """A batch that pinning reaches into."""

    def pin_memory(self) -> Pinnable:
        return Pinnable(self.images.pin_memory())


@cuda
class TestCopies:
    def test_only_what_is_pinned_is_copied_beside_computation(self) -> None:
        plain = torch.zeros(BYTES, dtype=torch.uint8)
        assert device_copies.copy([plain]).overlap < 0.5
        assert device_copies.copy([plain.pin_memory()]).overlap > 0.5

    def test_no_copy_is_faster_than_the_machine_s_own_limit(self) -> None:
        limit = device_copies.limit()
        for tensor in (torch.zeros(BYTES, dtype=torch.uint8), torch.zeros(BYTES, dtype=torch.uint8).pin_memory()):
            assert device_copies.copy([tensor]).rate < 1.2 * limit

    def test_the_stages_of_a_batch(self) -> None:
        moving = device_copies.measure_transfer([torch.zeros(BYTES // 4), torch.zeros(3)], pinned=True)
        assert all(stage.seconds for stage in moving.stages)
        assert moving.known["unpinned"] == []
        assert moving.known["pinned"]["overlap"] > moving.known["pageable"]["overlap"]

    @pytest.mark.parametrize(("kind", "unpinned"), [(Plain, [".images"]), (Pinnable, [])])
    def test_a_batch_of_the_user_s_own_class(self, kind: type[Plain], unpinned: list[str]) -> None:
        moving = device_copies.measure_transfer(kind(torch.zeros(BYTES // 4)), pinned=True)
        assert moving.known["unpinned"] == unpinned


@cuda
@pytest.mark.parametrize("face", ["bad", "good", "good_small", "good_own_class"])
def test_a_sample_trips_what_its_name_says(face: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(samples=64, select=("DG802",), contract={"step_ms": 40})
    report = scan(f"sample_datasets.dg802_unoverlapped_copy:{face}", settings)
    (result,) = report.results
    assert result.status is (Status.FAILED if face == "bad" else Status.PASSED), result


@pytest.mark.skipif(WHY_NOT is None, reason="there is an accelerator")
def test_without_a_device_every_stage_says_why() -> None:
    moving = device_copies.measure_transfer([torch.zeros(BYTES // 4)], pinned=True)
    assert {stage.skipped for stage in moving.stages} == {WHY_NOT}
    assert moving.known == {}
    settings = Settings(samples=64, select=("DG802",), contract={"step_ms": 40})
    (result,) = scan("sample_datasets.dg802_unoverlapped_copy:bad", settings).results
    assert (result.status, result.reason) == (Status.SKIPPED, f"not tested: {WHY_NOT}")
