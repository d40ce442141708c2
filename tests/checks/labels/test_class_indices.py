"""Class indices: how they are balanced, which values mark no class, and what they look like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch

from dataguard.checks.common.labels import (
    Classes,
    Kind,
    Labels,
    Seen,
    balance,
    balance_without_count,
    inferred,
    is_presumed_label,
    meaningless,
    out_of_range,
)
from dataguard.checks.labels.dg502_label_out_of_range import dg502_label_out_of_range
from dataguard.core.model import NotApplicable
from dataguard.lab.core.records import Numbers
from dataguard.lab.labels.declared_labels import ClassNames
from tests.support.epochs import lab
from tests.support.recordings import verdict_of

IMAGE = torch.rand(3, 8, 8)


def labels(
    values: Mapping[int, int],
    kind: Kind = Kind.SAMPLE,
    type_name: str = "int64",
    samples: Mapping[int, int] | None = None,
    *,
    fixed: bool = True,
    path: str = "[1]",
) -> Labels:
    samples = samples or values
    return Labels(path, kind, type_name, values, samples, {}, sum(samples.values()), fixed=fixed)


def test_balance_is_one_line() -> None:
    few = labels({0: 3, 2: 1, 255: 2})
    assert balance(few, (255,), Classes(4, "", declared=True)) == (
        "sample[1] has 2 of 4 classes in 6 samples: 0 × 3, 2 × 1; 255 marks no class"
    )
    assert balance(labels({255: 2}), (255,), Classes(4, "", declared=True)) == "sample[1] has no class"
    assert balance(labels({0: 3, 1: 1}), (0,)) == "sample[1] has 2 classes in 4 samples: 0 × 3, 1 × 1"
    many = labels({number: 2 + (number != 7) for number in range(40)})
    assert balance(many, ()) == "sample[1] has 40 classes in 119 samples: 2 to 3 of each, the rarest is 7"


@pytest.mark.parametrize(
    ("values", "note"), [({0: 6, 1: 2}, "sample[1] has 2 classes in 8 samples: 0 × 6, 1 × 2"), ({0: 8}, None)]
)
def test_a_single_value_is_no_class(values: Mapping[int, int], note: str | None) -> None:
    assert balance_without_count(lab([]), [labels(values)]) == note


def test_a_label_that_no_batch_showed_is_read_again() -> None:
    made = lab([], numbers=lambda _: [Numbers("[0]", "float32", (3,), 0, 1, False), NINE])
    made.facts.default_collate = True
    found = replace(labels({9: 1}), first={9: Seen(7)})
    assert out_of_range(made, found, Classes(3, "", declared=True)) == [9]


NINE = Numbers("[1]", "int64", (), 9, 9, True)


def test_up_to_twelve_classes_are_listed() -> None:
    assert "11 × 2" in balance(labels(dict.fromkeys(range(12), 2)), ())
    assert "the rarest is 0" in balance(labels(dict.fromkeys(range(13), 2)), ())


class TestMeaningless:
    """Values that may mark no class, beside -100, the default of torch's cross entropy."""

    CLASSES = Classes(3, "", declared=False)

    @pytest.mark.parametrize(
        ("found", "void"),
        [
            (labels({0: 5, 1: 5}), ()),
            (labels({-1: 4, 0: 5}), ()),
            (labels({-1: 5, 0: 5}), (-1,)),  # half of them are unlabelled
            (labels({0: 5, 1: 5}, Kind.BOX), (3, -1)),
            (labels({0: 5, 1: 5}, Kind.BOX, fixed=False), (3,)),
            (labels({0: 5, 2: 5}, Kind.PIXEL), (3, -1, 255)),
            (labels({1: 5, 2: 5}, Kind.PIXEL), (-1, 255)),  # no background
            (labels({0: 5, 255: 5}, Kind.PIXEL), (3, -1)),  # a binary mask that was not divided
            (labels({0: 5, 255: 5}, Kind.PIXEL, "uint8"), (3, -1, 255)),
        ],
    )
    def test_of_classes_that_the_dataset_counts(self, found: Labels, void: tuple[int, ...]) -> None:
        assert meaningless({}, found, self.CLASSES) == (-100, *void)

    def test_signs_of_two_classes(self) -> None:
        signs = labels({-1: 1, 1: 9})
        assert -1 in meaningless({}, signs, Classes(2, "", declared=False))
        assert -1 not in meaningless({}, signs, Classes(3, "", declared=False))
        assert -1 not in meaningless({}, labels({-1: 1, 0: 4, 1: 5}), Classes(2, "", declared=False))

    @pytest.mark.parametrize("kind", list(Kind))
    def test_a_contract_leaves_no_doubt(self, kind: Kind) -> None:
        found = labels({-1: 5, 1: 5}, kind)
        assert meaningless({}, found, Classes(2, "", declared=True)) == (-100,)
        assert meaningless({"ignore_index": [7, 8]}, found, Classes(2, "", declared=True)) == (7, 8)


class TestInferred:
    """The number of classes is inferred where their indices are not 0 to C - 1."""

    @staticmethod
    def count(*found: Labels, sample: Any = (IMAGE, 1)) -> int | None:
        seen = inferred(lab([sample]), found)
        return seen[1].count if seen else None

    @pytest.mark.parametrize(
        ("values", "count"),
        [
            ({0: 8, 1: 8, 2: 8}, None),
            ({1: 8, 2: 8, 3: 8}, 3),
            ({1: 8, 2: 8}, 2),
            ({2: 8, 3: 8, 4: 8}, None),
            ({0: 8, 1: 8, 3: 8}, 3),
            ({-1: 7, 0: 8, 1: 9}, 2),
            ({-1: 11, 0: 6, 1: 7}, 2),
            ({-1: 12, 0: 6, 1: 6}, None),  # half are unlabelled
            ({-5: 8, 0: 8, 1: 8}, None),
            ({1: 8, 2: 8, 3: 7}, None),  # too few
            ({1: 3, 2: 12, 3: 12}, None),  # one of them is rare
            ({1: 4, 2: 12, 3: 12}, 3),
            ({1: 20}, None),
        ],
    )
    def test_of_samples(self, values: Mapping[int, int], count: int | None) -> None:
        assert self.count(labels(values)) == count

    @pytest.mark.parametrize(
        ("values", "type_name", "count"),
        [
            ({0: 900, 255: 100}, "int64", 2),
            ({0: 900, 255: 100}, "uint8", None),
            ({1: 900, 2: 100}, "int64", 2),
            ({0: 900, 1: 100}, "int64", None),
            ({0: 900, 2: 100}, "int64", None),  # a class that is in none of these masks
        ],
    )
    def test_of_pixels(self, values: Mapping[int, int], type_name: str, count: int | None) -> None:
        assert self.count(labels(values, Kind.PIXEL, type_name, dict.fromkeys(values, 8))) == count

    def test_only_of_a_single_label(self) -> None:
        one = labels({1: 8, 2: 8, 3: 8})
        assert self.count(one, labels({0: 8, 2: 16}, path="[2]")) is None
        assert self.count(one, labels(dict.fromkeys(range(24), 1), path="[2]")) == 3  # an identifier
        assert self.count(one, labels({5: 24}, Kind.BOX, path="[2]")) == 3
        assert self.count(labels({1: 8, 2: 8, 3: 8}, path="['count']")) is None

    @pytest.mark.parametrize(
        ("beside", "presumed"),
        [
            (torch.arange(8), False),
            (torch.arange(7), True),
            (torch.rand(8), True),
            (torch.arange(16).reshape(2, 8), True),
            ("text", True),
        ],
    )
    def test_beside_tokens_a_number_is_no_label(self, beside: Any, presumed: bool) -> None:
        assert is_presumed_label(lab([(beside, 1)]), "[1]") == presumed
        assert is_presumed_label(lab([(beside, 1)]), "['label']")
        assert not is_presumed_label(lab([(beside, 1)]), "['count']")


class TestOutOfRange:
    """DG502 on labels of a map-style dataset."""

    @pytest.mark.parametrize("form", ["binary", "multilabel", "regression"])
    def test_targets_that_are_no_indices(self, form: str) -> None:
        verdict = verdict_of(dg502_label_out_of_range.judge, lab([(IMAGE, 7)], {"target_form": form, "num_classes": 2}))
        assert isinstance(verdict.outcome, NotApplicable)

    def test_each_leaf_has_classes_of_its_own(self) -> None:
        samples = [{"x": IMAGE, "colour": 70 + place, "shape": place % 4} for place in range(8)]
        names = (ClassNames("dataset.colours", 2, leaf="['colour']"), ClassNames("dataset.shapes", 3, leaf="['shape']"))
        made = lab(samples, class_names=names)
        verdict = verdict_of(dg502_label_out_of_range.judge, made)
        (finding,) = verdict.findings
        assert finding.message == "sample['shape'] of dataset[3] is 3, but dataset.shapes has 3 classes, 0 to 2"
        assert "dataset.colours has 2 classes, but no single leaf clearly holds their indices" in verdict.outcome.note

    def test_a_sample_of_a_stream_has_no_index(self) -> None:
        made = lab([(IMAGE, place % 4) for place in range(8)], {"num_classes": 3})
        (finding,) = verdict_of(dg502_label_out_of_range.judge, made).findings
        assert finding.repro == "dataguard show pkg:make 3"
        made.epoch.value_summaries = [replace(one, index=None) for one in made.epoch.value_summaries]
        (finding,) = verdict_of(dg502_label_out_of_range.judge, made).findings
        assert finding.repro is None
        assert finding.message.startswith("sample[1] of a sample of the stream is 3")
