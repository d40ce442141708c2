"""The forms that targets have."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from dataguard.checks.labels.label_forms import Table, fits
from dataguard.lab.spy.value_summaries import numbers_of
from dataguard.settings.parsers import TARGET_FORMS


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
