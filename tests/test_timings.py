"""Measured times: what they say of a setting, and what becomes of them in a file."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dataguard.measured import Bench, Setting, Stage, Timed, Waits
from dataguard.settings.parsers import built
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
    def test_what_is_written_is_read(self) -> None:
        made = bench(
            timed(OWN, 0.1, 0.2),
            Timed(FOUR, failed="it raised"),
            others=(timed(OWN, 1.0),),
            stages=(Stage("fetch", 0.1, (Stage("Crop", 0.05),)), Stage("pinning", skipped="no accelerator")),
            waits=(Waits(OWN, 3, (1.0,), (2.0,)),),
            ideal=0.5,
            step="20 ms",
        )
        assert built(Bench, json.loads(made.to_json())) == made
