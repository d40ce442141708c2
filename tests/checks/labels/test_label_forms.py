"""The forms that targets have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch.utils.data import default_collate

from dataguard.checks.common.label_forms import Table, divided, fits, inferred, tables
from dataguard.checks.labels.dg503_label_form import dg503_label_form
from dataguard.core.model import Coverage, NotApplicable
from dataguard.lab.spy.recording import numbers_of
from dataguard.settings.contract import TARGET_FORMS
from tests.support.epochs import lab
from tests.support.recordings import Verdict, verdict_of


def table(*rows: Sequence[float], dtype: torch.dtype = torch.float32) -> Table:
    batch = torch.tensor(rows, dtype=dtype)
    return Table("", list(numbers_of(batch, rows=True)), [None] * len(batch))


@pytest.mark.parametrize(
    ("found", "forms"),
    [
        (table([0, 1, 0], [1, 0, 0]), {"one-hot", "soft", "multilabel", "regression"}),
        (table([0, 1, 0], [1, 0, 0], dtype=torch.int64), {"index", "one-hot", "multilabel"}),
        (table([0.5, 0.5, 0], [0.2, 0, 0.8]), {"soft", "regression"}),
        (table([0, 1, 1], [0, 0, 0]), {"multilabel", "regression"}),
        (table([1], [0]), {"binary", "regression"}),
        (table([2], [0], dtype=torch.int64), set()),
        (table([0.5, 0.7, 0], [0.2, 0, 0.8]), {"regression"}),
    ],
)
def test_a_leaf_has_some_forms_and_not_others(found: Table, forms: set[str]) -> None:
    width = found.width if (found.width or 0) > 1 else None
    assert {form for form in TARGET_FORMS if fits(found, form, width) and (form != "multilabel" or width)} == forms


@pytest.mark.parametrize(("classes", "fitting"), [(None, True), (3, True), (4, False)])
def test_a_column_for_each_class(classes: int | None, fitting: bool) -> None:
    found = table([0, 1, 0], [1, 0, 0])
    assert [fits(found, form, classes) for form in ("one-hot", "soft", "multilabel")] == [fitting] * 3


@pytest.mark.parametrize(
    ("numbers", "classes", "index"),
    [
        ((0, 2), 3, True),
        ((0, 9), 3, True),
        ((2, 9), 3, True),
        ((3, 9), 3, False),
        ((-1, -2), 3, False),
        ((3, 9), None, True),
    ],
)
def test_some_indices_are_inside(numbers: Sequence[int], classes: int | None, index: bool) -> None:
    labels = Table("", list(numbers_of(torch.tensor(numbers), rows=True)), [0, 1])
    assert fits(labels, "index", classes) == index


IMAGE = torch.rand(3, 8, 8)


def judged(
    samples: Sequence[Any],
    contract: Mapping[str, Any] | None = None,
    *,
    size: int = 8,
    collate: Callable[[list[Any]], Any] = default_collate,
    batched: bool = True,
) -> Verdict:
    made = lab(samples, contract, size=size, collate=collate)
    made.facts.batched = batched
    return verdict_of(dg503_label_form.judge, made)


def faults(samples: Sequence[Any], classes: int | None = None, **options: Any) -> list[str]:
    """What DG503 reports."""
    verdict = judged(samples, {"num_classes": classes} if classes else {}, **options)
    assert isinstance(verdict.outcome, Coverage), verdict.outcome
    return [finding.message for finding in verdict.findings]


class TestWhichLeavesAreTables:
    """A leaf of batches is a label if it is much smaller than another, or stands beside rows of floats alone."""

    @pytest.mark.parametrize(
        ("one", "paths"),
        [
            ((IMAGE, 1), ["[1]"]),
            ((torch.rand(8), 1, 2), ["[1]", "[2]"]),
            ((torch.rand(7), 1, 2), []),
            ((torch.rand(4), 1), ["[1]"]),
            ((torch.rand(4), 1, 2), []),
            ((torch.rand(1), 1), []),
            ((torch.rand(2, 2), 1), []),
            ((torch.arange(4), 1), []),
            (("text", 1), ["[1]"]),
            ((IMAGE, torch.zeros(8, 8).long()), ["[1]"]),
        ],
    )
    def test_small_leaves(self, one: Any, paths: list[str]) -> None:
        assert [table.path for table in tables(lab([one] * 8))] == paths


class TestHowManyClasses:
    """The number of classes is inferred from the only possible label."""

    @pytest.mark.parametrize(
        ("samples", "count"),
        [
            ([(IMAGE, place % 3) for place in range(24)], 3),
            ([(IMAGE, place % 3) for place in range(23)], None),
            ([(IMAGE, 1 + place % 3) for place in range(24)], None),
            ([(IMAGE, float(place % 3)) for place in range(24)], 3),
            ([(torch.rand(16), float(place % 3)) for place in range(24)], None),
            ([{"x": torch.rand(16), "label": float(place % 3)} for place in range(24)], 3),
            ([{"x": IMAGE, "count": place % 3} for place in range(24)], None),
            ([(IMAGE, place % 3, place % 2) for place in range(24)], None),
            ([(IMAGE, torch.eye(5)[place % 5]) for place in range(8)], 5),
            ([(IMAGE, torch.tensor([place % 3])) for place in range(24)], 3),
            ([("text", float(place % 3)) for place in range(24)], None),
            ([(IMAGE, torch.rand(4, 4)) for place in range(24)], None),
        ],
    )
    def test_inferred(self, samples: Sequence[Any], count: int | None) -> None:
        made = lab(samples)
        assert inferred(made, tables(made)) == count


def rows(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers)


def mixed(make: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[list[Any]], Any]:
    """A collate_fn that changes the labels."""

    def collate(samples: list[Any]) -> Any:
        images, labels = default_collate(samples)
        return [images, make(labels)]

    return collate


def blend(labels: torch.Tensor) -> torch.Tensor:
    """Mixup with a share of its own for each sample."""
    share = torch.linspace(0.1, 0.9, len(labels)).reshape(-1, *[1] * (labels.ndim - 1))
    return share * labels + (1 - share) * labels.flip(0)


class TestMisread:
    """Labels that no loss reads as what they are."""

    def test_indices_as_floats(self) -> None:
        three = [(IMAGE, torch.tensor(place % 3, dtype=torch.float32)) for place in range(24)]
        (fault,) = faults(three, 3)
        assert "holds class indices as float32 of shape (N,)" in fault
        assert faults(three) == faults(three, 3)
        assert faults([(image, label % 2) for image, label in three], 2) == []  # binary targets

    def test_indices_beside_an_identifier(self) -> None:
        samples = [{"x": IMAGE, "id": place, "label": float(place % 3)} for place in range(24)]
        assert len(faults(samples, 3)) == 1

    def test_indices_beside_a_label_that_is_right(self) -> None:
        for right in (lambda place: place % 3, lambda place: torch.eye(3)[place % 3], lambda place: torch.ones(3)):
            samples = [{"x": IMAGE, "right": right(place), "other": float(place % 3)} for place in range(24)]
            assert faults(samples, 3) == []

    def test_indices_that_are_mixed(self) -> None:
        samples = [(IMAGE, place % 3) for place in range(24)]
        (fault,) = faults(samples, 3, collate=mixed(blend))
        assert "mixes into fractions" in fault
        assert faults(samples, 3, collate=mixed(lambda labels: labels * 0.1)) == []  # no more values than classes
        two = [(IMAGE, place % 2) for place in range(24)]
        assert faults(two, 2, collate=mixed(blend)) == []

    def test_rows_of_integers(self) -> None:
        one_hot = [(IMAGE, torch.eye(3, dtype=torch.int64)[place % 3]) for place in range(8)]
        assert "one-hot rows as int64 of shape (N, 3)" in faults(one_hot, 3)[0]
        assert faults(one_hot[:1], 3) == []
        assert faults([(image, row.float()) for image, row in one_hot], 3) == []

    @pytest.mark.parametrize(
        ("on", "off", "sums"),
        [
            (0.9, 0.05, "1.05"),
            (0.9, 0.0, "0.9"),
            (0.95, 0.05, None),
            (0.9, 0.05 - 0.15, None),
            (0.3, 0.3, None),
            (0.8, 0.1, None),
        ],
    )
    def test_rows_that_are_smoothed_wrongly(self, on: float, off: float, sums: str | None) -> None:
        eye = torch.eye(4 if sums or off != 0.1 else 3)
        samples = [(IMAGE, row * (on - off) + off) for row in eye] * 2
        found = faults(samples, len(eye))
        assert [fault.split("sum to ")[1].split()[0] for fault in found] == ([sums] if sums else [])
        assert bool(faults(samples[:2], len(eye))) == bool(sums)
        assert faults(samples[:1], len(eye)) == []  # a single row may be anything

    def test_rows_that_differ_are_not_smoothed(self) -> None:
        assert faults([(IMAGE, rows(0.9, 0.05, 0.05, 0.05)), (IMAGE, rows(0.3, 0.9, 0.2, 0.0))] * 4, 4) == []

    @pytest.mark.parametrize(("factor", "wrong"), [(1.5, True), (1.0, False), (-1.5, False)])
    def test_rows_that_collate_fn_makes_of_indices(self, factor: float, wrong: bool) -> None:
        def make(labels: torch.Tensor) -> torch.Tensor:
            return blend(torch.eye(3)[labels]) * factor

        samples = [(IMAGE, place % 3) for place in range(8)]
        assert bool(faults(samples, 3, collate=mixed(make))) == wrong

    @pytest.mark.parametrize(
        ("labels", "factor", "wrong"),
        [
            ([rows(1, 0, 0), rows(0, 1, 0), rows(0, 0, 1)], 1.5, True),
            ([rows(1, 0, 0), rows(0, 1, 0), rows(0, 0, 1)], 1.0, False),
            ([rows(1, 0, 0), rows(0, 1, 0), rows(0, 0, 1)], -1.5, False),
            ([rows(0.5, 0.5, 0), rows(0, 0.2, 0.8), rows(0.1, 0.8, 0.1)], 1.5, True),
            ([rows(1, 0, 0), rows(0, 1, 0), rows(0.5, 0, 1)], 1.5, False),
            ([rows(1.5, -0.5, 0), rows(0, 1, 0), rows(0, 0, 1)], 1.5, False),
        ],
    )
    def test_probabilities_that_are_mixed(self, labels: list[torch.Tensor], factor: float, wrong: bool) -> None:
        samples = [(IMAGE, label) for label in labels * 3]
        assert bool(faults(samples, 3, collate=mixed(lambda table: blend(table) * factor))) == wrong

    def test_rows_with_negative_numbers_are_no_probabilities(self) -> None:
        samples = [(IMAGE, row) for row in torch.eye(3)] * 3
        signs = torch.tensor([1.5, 1.5, -1.5]).repeat(3)[:, None]
        assert faults(samples[:6], 3, collate=mixed(lambda table: blend(table) * signs[: len(table)])) == []

    def test_sums_of_one_hot_rows_are_multilabel_targets(self) -> None:
        samples = [(IMAGE, row) for row in torch.eye(3)] * 3
        assert faults(samples, 3, collate=mixed(lambda table: table + table.roll(1, 0) * 2)) == []


class TestDividedMasks:
    """Masks of class indices that ToTensor divided by 255."""

    @pytest.mark.parametrize(
        ("image", "masks", "wrong"),
        [
            (IMAGE, [torch.full((1, 8, 8), 2 / 255)], True),
            (IMAGE, [torch.full((8, 8), 2 / 255)], True),
            (IMAGE, [torch.full((8, 8), 5 / 255)], False),  # no index of five classes
            (IMAGE, [torch.cat([torch.full((4, 8), 2 / 255), torch.ones(4, 8)])], True),  # with void pixels
            (IMAGE, [torch.cat([torch.full((4, 8), 2 / 255), torch.full((4, 8), 7 / 255)])], False),
            (IMAGE, [torch.full((8, 8), 2 / 255), torch.zeros(8, 8)], True),
            (IMAGE, [torch.full((8, 8), 2 / 255), torch.ones(8, 8)], False),  # undivided in another sample
            (IMAGE, [torch.full((8, 8), 2 / 255), torch.full((8, 8), 0.3333)], False),
            (IMAGE, [torch.full((1, 1, 8, 8), 2 / 255)], False),
            (torch.rand(8, 8), [torch.full((8, 8), 2 / 255)], False),  # an image of one channel looks the same
            (torch.rand(3, 16, 16), [torch.full((8, 8), 2 / 255)], False),
        ],
    )
    def test_divided(self, image: torch.Tensor, masks: list[torch.Tensor], wrong: bool) -> None:
        samples = [(image, mask) for mask in masks] * 4
        found = divided(lab(samples), 5)
        assert [*found] == (["[1]"] if wrong else [])

    def test_the_finding_says_who_counts_classes(self) -> None:
        samples = [{"x": IMAGE, "mask": torch.full((8, 8), 2 / 255), "label": place % 3} for place in range(24)]
        assert faults(samples, 3)[0].endswith("but the contract declares 3 classes")

        def without_masks(samples: list[Any]) -> Any:
            return default_collate([{"x": one["x"], "label": one["label"]} for one in samples])

        (fault,) = faults(samples, collate=without_masks)
        assert (
            fault
            == "sample['mask'] holds class indices divided by 255, up to 0.00784, but the labels look like 3 classes"
        )


class TestDeclaredForms:
    """The contract declares the form."""

    def test_a_leaf_that_has_it(self) -> None:
        samples = [(IMAGE, place % 3) for place in range(8)]
        assert judged(samples, {"target_form": "index"}).findings == ()

    def test_the_only_leaf_or_the_only_one_with_the_name_of_a_label(self) -> None:
        (finding,) = judged([(IMAGE, 0.25), (IMAGE, 2.0)], {"target_form": "index"}).findings
        assert finding.message == "batch[1] is float64 of shape (N,), from 0.25 to 2, but the contract declares 'index'"
        named = [{"x": IMAGE, "weight": 0.5, "label": 1.0}] * 4
        (finding,) = judged(named, {"target_form": "index"}).findings
        assert finding.message.startswith("batch['label'] is")

    def test_no_leaf_or_several(self) -> None:
        verdict = judged([(IMAGE, 0.5, 1.5)] * 4, {"target_form": "index"})
        assert str(verdict.outcome) == "2 leaves of a batch may be labels, and none has the form 'index'"
        verdict = judged([(IMAGE, IMAGE)] * 4, {"target_form": "index"})
        assert str(verdict.outcome) == "no leaf of a batch looks like a label"

    def test_without_batches_the_form_is_unknown(self) -> None:
        assert isinstance(judged([(IMAGE, 1)] * 4, {"target_form": "index"}, batched=False).outcome, NotApplicable)
