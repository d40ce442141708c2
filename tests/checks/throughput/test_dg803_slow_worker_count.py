"""DG803: whether another number of workers is faster, from the times of each round."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from dataguard.checks.throughput.dg803_slow_worker_count import dg803_slow_worker_count
from dataguard.core.model import Undecided
from dataguard.measured import LoaderTimes, Setting, Timed
from tests.support.recordings import Verdict, verdict_of


def judged(*times: Sequence[float], starved: bool | None = True) -> Verdict:
    """The verdict on seconds per batch with 0, 1, 2, ... workers; the loader has none."""
    workers = [Timed(Setting(count, None, False, False), tuple(seconds)) for count, seconds in enumerate(times)]
    sweep = LoaderTimes("train", 4, None, workers[0].setting, tuple(workers))
    waits = SimpleNamespace(starved=starved, spread="0 to 50%", batches=9, share=0.5)
    return verdict_of(
        dg803_slow_worker_count.judge, SimpleNamespace(throughput=SimpleNamespace(waits=waits, sweep=sweep))
    )


def test_another_number_is_faster() -> None:
    verdict = judged([2.0, 2.1, 1.9, 2.0, 2.0], [1.0, 1.05, 0.95, 1.0], ())
    (finding,) = verdict.findings
    assert finding.message.startswith(
        "1 worker would be 2.00 times as fast as 0 workers (99.8% confidence interval: 1.9"
    )
    assert finding.evidence == {
        "seconds per batch": {"0 workers": "2 (1.9 to 2.1 in 5 rounds)", "1 worker": "1 (0.95 to 1.05 in 4 rounds)"},
        "waiting": "50% of the time",
    }
    assert verdict.outcome.exercised == {"settings": 2, "rounds": 5}


def test_a_tenth_is_worth_a_change() -> None:
    assert judged([1.2] * 6, [1.0] * 6).findings
    slight: Any = judged([1.08] * 6, [1.0] * 6)
    assert slight.findings == ()
    assert slight.outcome.exercised == {"settings": 2, "rounds": 6}


def test_the_number_of_the_loader_is_the_fastest() -> None:
    verdict = judged([1.0] * 6, [2.0] * 6)
    assert verdict.findings == ()
    assert verdict.outcome.exercised == {"settings": 2, "rounds": 6}


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ([[1.0] * 6], "no other number of workers could be measured"),
        ([(), [1.0] * 6, [2.0] * 6], "no other number of workers could be measured"),
        ([[1.0] * 6, [1.0] * 6], "which is faster, 0 workers or 1 worker"),
        ([[2.0, 1.0, 3.0, 0.9], [1.0, 2.0, 0.9, 3.0]], "cannot tell which is faster"),
        ([[2.0] * 3, [1.0] * 3], "which is faster, 0 workers or 1 worker"),
    ],
)
def test_what_cannot_be_told(times: Sequence[Sequence[float]], words: str) -> None:
    verdict = judged(*times)
    assert verdict.findings == ()
    assert isinstance(verdict.outcome, Undecided)
    assert words in str(verdict.outcome)


def test_only_a_step_that_waits_is_of_interest() -> None:
    assert judged([2.0] * 6, [1.0] * 6, starved=False).outcome.exercised == {"batches": 9}
    assert "waiting varies from 0 to 50%" in str(judged([2.0] * 6, [1.0] * 6, starved=None).outcome)
