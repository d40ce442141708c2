"""What is said of measured times."""

from __future__ import annotations

import pytest

from dataguard.measured import Advice, Timed
from dataguard.render.html.pages import render_bench
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

    @pytest.mark.parametrize(
        ("seconds", "words", "advised"),
        [
            ([0.05, 0.051] * 4, "train.py with `4 workers`: 2.1", True),
            ([0.1, 0.11] * 4, "keep yours, training does not wait for this loader", False),
            ([0.05, 0.2, 0.3, 0.04] * 2, "cannot tell whether it pays", True),
            ([0.1], "too few rounds of train.py", True),
        ],
    )
    def test_advice_is_a_diff_that_was_tried(self, seconds: list[float], words: str, *, advised: bool) -> None:
        tried = (timed(OWN, *([0.1, 0.11] * 4)[: len(seconds)]), timed(FOUR, *seconds))
        advice = Advice(FOUR, "train.py:7", ("-    num_workers=2", "+    num_workers=4"), "train.py", tried)
        made = bench(timed(OWN, 0.1), timed(FOUR, 0.05), advice=advice)
        text = render(made)
        assert words in " ".join(text.split())
        assert ("change train.py:7:\n    -    num_workers=2\n    +    num_workers=4" in text) == advised
        assert ('<pre class="source">' in render_bench(made)) == advised

    def test_advice_for_a_line_that_is_unknown_has_arguments(self) -> None:
        text = render(bench(timed(OWN, 0.1), timed(FOUR, 0.05), advice=Advice(FOUR)))
        assert "change the line that constructs the loader:\n    + num_workers=4\n" in text

    def test_nothing_measured_is_said(self) -> None:
        assert "nothing could be measured" in render(bench(Timed(OWN, failed="x")))
