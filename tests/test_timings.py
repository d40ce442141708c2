"""Measured times: what they say of a setting, and what becomes of them in a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dataguard.model import UsageError
from dataguard.timings import Bench, Setting, Stage, Timed, Waits, changes, from_file
from tests.support.benches import FOUR, NONE, OWN, bench, timed


class TestNouns:
    @pytest.mark.parametrize(
        ("setting", "words"),
        [
            (NONE, "0 workers"),
            (replace(OWN, workers=1), "1 worker"),
            (replace(OWN, prefetch=4, persistent=True, pin=True), "2 workers, prefetch 4, persistent, pinned"),
        ],
    )
    def test_a_setting_is_named_by_what_is_not_usual(self, setting: Setting, words: str) -> None:
        assert str(setting) == words

    def test_an_epoch_is_its_start_and_what_follows_the_first_row(self) -> None:
        assert timed(OWN, 0.01).costs(102) == pytest.approx((1.1,))
        assert timed(NONE, 0.01).costs(101) == pytest.approx((1.1,))
        assert timed(FOUR, 0.01).costs(3) == (0.1,)
        assert timed(OWN, 0.01).costs(None) == (0.01,)
        assert Timed(NONE, (0.01, 0.02), (0.9, 0.1)).costs(101) == pytest.approx((1.1, 2.1))

    @pytest.mark.parametrize(
        ("waiting", "starved"),
        [((1.0, 2.0, 1.0), True), ((0.0, 9.0, 9.0), None), ((0.1, 0.0, 0.2), False), ((5.0,), None), ((0.0,), None)],
    )
    def test_a_step_is_starved_when_every_stretch_says_so(
        self, waiting: tuple[float, ...], starved: bool | None
    ) -> None:
        waits = Waits(OWN, 30, waiting, tuple(5.0 for _ in waiting))
        assert waits.starved is starved


class TestFiles:
    def test_what_is_written_is_read(self, tmp_path: Path) -> None:
        made = bench(
            timed(OWN, 0.1, 0.2),
            Timed(FOUR, failed="it raised"),
            others=(timed(OWN, 1.0),),
            stages=(Stage("fetch", 0.1, (Stage("Crop", 0.05),)), Stage("pinning", skipped="no CUDA device")),
            waits=(Waits(OWN, 3, (1.0,), (2.0,)),),
            ideal=0.5,
            step="20 ms",
        )
        path = tmp_path / "bench.json"
        path.write_text(made.to_json(), encoding="utf-8")
        assert from_file(path) == made

    def test_two_runs_are_compared_cautiously(self) -> None:
        then = bench(timed(OWN, *[0.1, 0.101, 0.1, 0.102] * 2), timed(FOUR, *[0.1] * 4), timed(NONE, 0.1))
        now = bench(timed(OWN, *[0.15, 0.151, 0.15, 0.149] * 2), timed(FOUR, *[0.105] * 4), timed(NONE, 0.2))
        found = {change.setting: change for change in changes(now, then)}
        assert (found[OWN].words, found[OWN].own) == ("slower", True)
        assert found[FOUR].words == "cannot tell"
        assert found[NONE].words == "too few rounds to tell"
        assert {change.setting: change.words for change in changes(then, now)}[OWN] == "faster"

    @pytest.mark.parametrize(
        ("other", "message"),
        [
            (replace(bench(timed(OWN, 0.1)), machine={"name": "here", "cores": 4}), "another machine: cores was 4"),
            (replace(bench(timed(OWN, 0.1)), machine={"name": "here", "cores": 2, "gpu": "x"}), "another machine"),
            (replace(bench(timed(OWN, 0.1)), target="pkg:other"), "the earlier run measured pkg:other"),
            (bench(timed(FOUR, 0.1)), "no loader was measured with the same setting"),
        ],
    )
    def test_what_was_not_made_alike_is_refused(self, other: Bench, message: str) -> None:
        with pytest.raises(UsageError, match=message):
            changes(bench(timed(OWN, 0.1)), other)

    def test_a_machine_may_have_another_name(self) -> None:
        then = replace(bench(timed(OWN, 0.1)), machine={"name": "another start of a container", "cores": 2})
        assert len(changes(bench(timed(OWN, 0.1)), then)) == 1
