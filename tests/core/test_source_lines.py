"""The source of a finding is the line that ran, with its neighbours, or nothing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dataguard.core.source_lines import source_lines

LATER = 60.0


@pytest.mark.parametrize(
    ("content", "line", "expected"),
    [
        (b"a = 1\nb = 2\n\tc = 3\nd = 4\n", 2, (1, ("a = 1", "b = 2", "\tc = 3"))),
        ("\ufeffgröße = 1\n\n".encode(), 1, (1, ("größe = 1", ""))),
        (b"a\n" + b"x" * 300 + b"\n", 2, (1, ("a", "x" * 199 + "…"))),
        (b"a = 1\n\nb = 2\n", 2, None),
        (b"a = 1\n", 2, None),
        (b"a = 1\n", 0, None),
        (b"a = '\xff'\n", 1, None),
    ],
)
def test_lines_are_read_as_text(
    content: bytes, line: int, expected: tuple[int, tuple[str, ...]] | None, tmp_path: Path
) -> None:
    file = tmp_path / "data.py"
    file.write_bytes(content)
    seen = source_lines(str(file), line, time.time() + LATER)
    assert (seen and (seen.first, seen.lines)) == expected


@pytest.mark.parametrize("name", ["data.py", "site-packages/data.py"])
def test_lines_that_did_not_run_or_are_not_the_users_are_left_out(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("a = 1\n")
    loaded_at = time.time() + LATER * (1 if "/" in name else -1)
    assert source_lines(str(file), 1, loaded_at) is None


@pytest.mark.parametrize("name", ["", "gone.py", "<string>", "a\0b", "."])
def test_what_is_no_file_has_no_lines(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert source_lines(name, 1, time.time()) is None
