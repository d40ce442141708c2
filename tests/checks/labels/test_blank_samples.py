"""A sample is blank when none of its images shows anything."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from dataguard.checks.labels.dg504_blank_sample import dg504_blank_sample, empty, lasts
from dataguard.lab.core.leaves import describe
from dataguard.lab.core.records import SampleRecord
from tests.support.epochs import lab
from tests.support.epochs import sample as record
from tests.support.recordings import Verdict, verdict_of


def sample(*values: tuple[str, Any]) -> SampleRecord:
    return SampleRecord(None, 0, 0, 0, 0, "0", 0.0, tuple(describe(path, value) for path, value in values))


def test_a_sample_is_blank_when_all_its_images_are() -> None:
    noise, zeros = torch.rand(3, 16, 16), torch.zeros(3, 16, 16)
    assert sample(("image", zeros), ("mask", torch.rand(16, 16))).blank
    assert not sample(("image", noise), ("mask", torch.zeros(16, 16)), ("masks", torch.zeros(5, 16, 16))).blank
    assert sample(("one", noise), ("two", zeros)).blank
    assert not sample(("one", noise), ("two", torch.zeros(3, 8, 8))).blank
    assert not sample(("values", torch.zeros(100)), ("label", 1)).blank
    assert sample(("scan", torch.zeros(1, 16, 16)), ("label", 1)).blank


def test_a_normalized_image_of_one_colour_is_blank() -> None:
    colour = torch.tensor([-2.12, -2.04, -1.8])
    image = colour.view(3, 1, 1).expand(3, 16, 16)
    assert sample(("image", image)).blank
    assert sample(("image", image.movedim(0, -1).numpy())).blank
    assert sample(("clip", image.expand(5, 3, 16, 16))).blank
    assert not sample(("board", torch.stack([torch.zeros(8, 8), torch.zeros(8, 8), torch.ones(8, 8)]))).blank
    marked = image.clone()
    marked[1, 9, 11] = 0
    assert not sample(("image", marked)).blank
    assert not sample(("rows", torch.arange(5.0).view(5, 1, 1).expand(5, 16, 16))).blank
    assert not sample(("rows", colour.view(3, 1).expand(3, 64))).blank


def test_an_input_is_what_most_samples_have() -> None:
    samples = [sample(("text", torch.rand(8)))] * 4 + [sample(("image", torch.rand(8)))] * 5
    assert empty([*samples, sample(("text", torch.rand(0)))]) == {}
    assert empty([*samples[:4], sample(("text", torch.rand(0)))])


IMAGE, BLACK = torch.rand(3, 16, 16), torch.zeros(3, 16, 16)


class TestBlankSamples:
    """DG504: how many blank samples are a defect, and what else explains them."""

    @staticmethod
    def judged(blank: int, of: int = 40, *, clipped: bool | None = None, lasts: bool = True) -> Verdict:
        made = lab([(BLACK if place < blank else IMAGE, 1) for place in range(of)], is_blank=lambda _: lasts)
        made.files = SimpleNamespace(depth=None if clipped is None else SimpleNamespace(clipped=clipped))
        return verdict_of(dg504_blank_sample.judge, made)

    @pytest.mark.parametrize(("blank", "found"), [(0, False), (1, True), (20, True), (21, False), (40, False)])
    def test_more_than_half_are_normal(self, blank: int, found: bool) -> None:
        verdict = self.judged(blank)
        assert bool(verdict.findings) == found
        normal = f"sample[0] has a single colour in {blank} of 40 samples: taken as normal for these data"
        assert verdict.outcome.note == (normal if blank > 20 else None)

    def test_the_first_sixteen_are_listed(self) -> None:
        (finding,) = self.judged(20).findings
        assert finding.message == "sample[0] has a single colour in dataset[0]"
        assert finding.evidence["indices"] == [str(place) for place in range(16)]
        assert finding.evidence["blank samples"] == "20 of 40 read"

    def test_clipped_files_are_another_defect(self) -> None:
        verdict = self.judged(3, clipped=True)
        assert (verdict.findings, verdict.outcome.note) == (
            (),
            "sample[0] has a single colour in 3 of 40 samples, read from clipped files: see DG509",
        )
        assert self.judged(3, clipped=False).findings

    @pytest.mark.parametrize(
        ("blank", "found"), [([BLACK], True), ([BLACK, BLACK], False), ([BLACK, torch.ones(3, 16, 16)], True)]
    )
    @pytest.mark.parametrize("other", [torch.arange(12), "a text", IMAGE])
    def test_one_image_in_several_samples_is_a_placeholder_beside_another_input(
        self, blank: list[Tensor], found: bool, other: object
    ) -> None:
        made = lab(
            [*((image, other) for image in blank), *((IMAGE, other) for _ in range(30))], is_blank=lambda _: True
        )
        made.files = SimpleNamespace(depth=None)
        verdict = verdict_of(dg504_blank_sample.judge, made)
        assert bool(verdict.findings) == found
        assert ("taken as a placeholder" in (verdict.outcome.note or "")) != found

    @pytest.mark.parametrize(("usual", "found"), [(IMAGE, True), ((IMAGE > 0.5).float(), False)])
    def test_a_blank_mask_beside_an_image_is_none(self, usual: Tensor, found: bool) -> None:
        made = lab([(IMAGE, BLACK), *((IMAGE, usual) for _ in range(9))], is_blank=lambda _: True)
        made.files = SimpleNamespace(depth=None)
        assert bool(verdict_of(dg504_blank_sample.judge, made).findings) == found

    def test_what_is_blank_only_beside_other_workers_is_not(self) -> None:
        assert self.judged(3, lasts=False).findings == ()

    @pytest.mark.parametrize(("bad", "asked"), [(2, 3), (1, 2), (3, 3)])
    def test_up_to_three_are_read_again(self, bad: int, asked: int) -> None:
        reads: list[object] = []

        def is_blank(index: object) -> bool:
            reads.append(index)
            return len(reads) > bad

        made = lab([(BLACK, 1)] * 5, is_blank=is_blank)
        assert lasts(made, made.epoch.samples) == (bad < 3)
        assert len(reads) == asked


@pytest.mark.parametrize(
    ("samples", "fault"),
    [
        ([torch.rand(5), torch.rand(7), torch.rand(0)], "sample is empty"),
        (["ab", "c", ""], "sample is empty"),
        ([("ab", 1), ("", 1), ("c", 1)], "sample[0] is empty"),
        ([torch.rand(1), torch.rand(1), torch.rand(0)], None),
        ([torch.rand(5), torch.rand(0), torch.rand(0)], None),  # most have none
        ([torch.rand(5), torch.rand(7)], None),
    ],
)
def test_empty_inputs(samples: list[Any], fault: str | None) -> None:
    found = empty([record(one) for one in samples])
    assert list(found) == ([fault] if fault else [])
