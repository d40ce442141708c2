"""What a terminal shows during a scan, with words that must not reach it as they are."""

from __future__ import annotations

import pytest

from dataguard.cli.live_progress import Terminal
from dataguard.core.model import Finding, Status
from dataguard.process.progress import CheckProgress, ReadingProgress, Unreadable
from tests.support.sample_reports import result

EVIL = "\x1b[2J\n::error::x"


def test_no_word_of_the_user_moves_the_cursor_or_begins_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    failed = result("DG101", EVIL, Status.FAILED, Finding(EVIL))
    unreadable = Unreadable(0, 3, 7, EVIL, EVIL, "OSError", EVIL, None)
    with Terminal() as terminal:
        terminal.show(EVIL)
        terminal.listen(CheckProgress(0, 0, building=EVIL))
        terminal.listen(CheckProgress(1, 2, failed, ("DG102", EVIL)))
        terminal.listen(ReadingProgress(EVIL, 1, 10, (unreadable,)))
    shown = capfd.readouterr().err
    assert "\\x1b[2J\\n::error::x" in shown
    assert "\x1b[2J" not in shown
    assert not [line for line in shown.splitlines() if line.lstrip().startswith("::")]
