"""What a scaler was fitted on, seen by changing rows before the factory runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataguard.core.model import Result, Status
from dataguard.engine import scan
from dataguard.lab.provenance.refitting import _digits, moduli_for, rows_spelled, with_columns
from dataguard.settings.settings import Settings


def judged(factory: str, which: str) -> Result:
    """The verdict of DG521 on the validation split."""
    report = scan(f'tests.loaders.fitted:{factory}(which="{which}")', Settings(select=("DG521",)))
    (result,) = (result for result in report.results if result.loader == "val")
    return result


@pytest.mark.scan
@pytest.mark.parametrize("which", ["windows", "each_split", "two_files", "episodes"])
def test_training_samples_change_with_evaluation_rows_that_were_fitted_on(which: str) -> None:
    result = judged("fitted_on_all", which)
    assert result.status is Status.FAILED
    assert "samples of train change if" in result.findings[0].message


@pytest.mark.scan
@pytest.mark.parametrize(("which", "status"), [("each_split", Status.PASSED), ("episodes", Status.SKIPPED)])
def test_what_was_fitted_on_training_rows_stays(which: str, status: Status) -> None:
    result = judged("fitted_on_training", which)
    assert result.status is status
    assert (status is Status.PASSED) == bool(result.exercised.get("rows changed"))


@given(rows=st.integers(30, 20_000), columns=st.integers(1, 7), gain=st.floats(0.01, 100), first=st.floats(0, 0.4))
def test_a_scaled_column_still_spells_the_number_of_a_row(rows: int, columns: int, gain: float, first: float) -> None:
    moduli = moduli_for(rows, columns)
    table = np.random.default_rng(0).normal(size=(rows, columns)).astype(np.float32)
    numbered = with_columns(table, lambda c, at: _digits(c, np.arange(rows), moduli[at]) if at < len(moduli) else c)
    part = numbered[int(first * rows) :]
    spelled = rows_spelled((part - part.mean(0)) * np.float32(gain), moduli)
    if spelled is not None:
        assert spelled.tolist() == list(range(int(first * rows), rows))
    else:  # too few rows to show every remainder
        assert len(part) < max(moduli) or any(len(np.unique(part[:, at])) != m for at, m in enumerate(moduli))
