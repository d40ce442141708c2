"""What is said of measured times."""

from __future__ import annotations

from dataguard.measured import Timed
from dataguard.render.timings import render
from tests.support.benches import FOUR, OWN, bench, timed


class TestText:
    def test_a_ranking_is_said_with_its_interval(self) -> None:
        text = render(bench(timed(OWN, *[0.1, 0.11] * 4), timed(FOUR, *[0.05, 0.051] * 4)))
        assert "`4 workers` is fastest: 2.1" in " ".join(text.split())
        assert "2 workers (yours)" in text

    def test_cannot_tell_is_said(self) -> None:
        text = render(bench(timed(OWN, *[0.1, 0.2] * 4), timed(FOUR, *[0.2, 0.1] * 4)))
        assert "cannot tell" in text
        assert "a larger --budget gives more rounds" in text

    def test_what_failed_is_said_in_its_place(self) -> None:
        made = bench(timed(OWN, 0.1), Timed(FOUR, failed="RuntimeError: no\x1b[31m space"), batches=None)
        text = render(made, width=60, unicode=False)
        assert text.isascii()
        assert "4 workers: not measured: RuntimeError: no\\x1b[31m space" in text

    def test_nothing_measured_is_said(self) -> None:
        assert "nothing could be measured" in render(bench(Timed(OWN, failed="x")))
