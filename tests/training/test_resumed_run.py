"""Whether a guard finds that a training does not go on where its checkpoint was saved."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dataguard.training.guard import guard
from dataguard.training.resumed_run import Checkpoint, digests_of
from tests.loaders.resumed import train

SAVED = "a checkpoint was saved after 3 batches of epoch 1, and the resumed run "
STOPPED, WHOLE = 15, 1000


@pytest.mark.parametrize(
    ("case", "stop", "expected"),
    [
        ("goes-on", STOPPED, "passed"),
        ("goes-on", 13, "passed"),
        ("skips-in-the-loop", STOPPED, "passed"),
        ("starts-over", STOPPED, SAVED + "starts over"),
        ("starts-over", 13, SAVED + "starts over"),
        ("ahead", STOPPED, SAVED + "skips 1 batch"),
        ("ahead", 13, SAVED + "yields 6 batches of the 7 that were left"),
        ("another-order", STOPPED, SAVED + "continues in another order: "),
        ("stays", STOPPED, SAVED + "yields 7 of 10 batches in the epoch after that, too"),
    ],
)
def test_a_training_that_was_stopped_is_compared_with_what_was_to_come(
    tmp_path: Path, case: str, stop: int, expected: str
) -> None:
    assert train(case, str(tmp_path), stop) == ["skipped"]
    guard.reset()
    (verdict,) = train(case, str(tmp_path), WHOLE)
    assert verdict.startswith(expected)


@pytest.mark.scan
@pytest.mark.parametrize(("case", "expected"), [("starts-over", SAVED + "starts over"), ("stateful-2", "passed")])
def test_a_script_that_is_killed_and_started_again(tmp_path: Path, case: str, expected: str) -> None:
    for verdict in ("skipped", expected):
        command = [sys.executable, "-m", "tests.loaders.resumed", case, str(tmp_path), str(STOPPED)]
        ended = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
        assert ended.stdout.strip() == str([verdict]), ended.stderr


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = Checkpoint(1, 3, 10, 3, [{"[0]": "ab"}], [{"[0]": "cd"}], [0, 7, 9], repeats=False)
    written.write(tmp_path / "a" / "run.json")
    assert Checkpoint.read(tmp_path / "a" / "run.json") == written
    assert Checkpoint.read(tmp_path / "none.json") is None


def test_batches_of_the_same_indices_have_one_digest() -> None:
    assert digests_of((), [1, 2])["indices"] == digests_of((), [1, 2])["indices"] != digests_of((), [2, 1])["indices"]
