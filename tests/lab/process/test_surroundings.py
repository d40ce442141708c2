"""What the user's code takes from the process that observes."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator

import pytest

from dataguard.lab.process import answers
from dataguard.process import originals


@pytest.fixture
def _restored() -> Iterator[None]:
    limits, mask = resource.getrlimit(resource.RLIMIT_FSIZE), os.umask(0o22)
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    os.umask(mask)


@pytest.mark.usefixtures("_restored")
def test_changes_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(originals.os, "geteuid", lambda: 1000)
    answers.note_surroundings()
    os.umask(0o27)
    assert answers.changed_surroundings() is None
    assert str(answers.why_unwritten("no file", OSError(28, "No space"))).endswith("prevented: no file: No space")
    os.umask(0o777)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    assert answers.changed_surroundings() == (
        "the rights of new files, with os.umask, the limit of file sizes, RLIMIT_FSIZE"
    )
    monkeypatch.setattr(originals.os, "geteuid", lambda: 7)
    assert "os.seteuid" in str(answers.why_unwritten("no file", OSError(13, "Permission denied")))
