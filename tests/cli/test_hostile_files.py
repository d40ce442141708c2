"""Files that somebody else wrote or replaced: each is refused in a line that names it, before anything runs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dataguard.baseline import SCHEMA as BASELINE
from dataguard.cli import main
from dataguard.cli.console import require_writable
from dataguard.measured import FORMAT
from dataguard.settings.files import text_in, write_text

DATA = "from torch.utils.data import DataLoader\n\ndef make():\n    return DataLoader(range(3))\n"
READERS = {
    "baseline": ("scan", "data:make", "--baseline"),
    "earlier baseline": ("scan", "data:make", "--write-baseline"),
    "fingerprint": ("fingerprint", "data:make", "--against"),
    "settings": ("scan", "data:make", "--config"),
}


def of_bytes(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


def of_size(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(5 << 30)  # a hole: nothing is on the disk


FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "pipe": (os.mkfifo, "not a regular file|no such file|a pipe that nothing reads"),
    "folder": (Path.mkdir, "directory|not a regular file|is a folder|no such file"),
    "endless": (lambda path: path.symlink_to("/dev/zero"), "not a regular file|no such file"),
    "huge": (of_size, "larger than 16 MB"),
    "empty": (of_bytes(b""), ""),
    "not UTF-8": (of_bytes(b'{"a": "\xff"}'), "byte 7 is not UTF-8"),
    "UTF-16": (of_bytes('{"a": 1}'.encode("utf-16")), "byte 0 is not UTF-8"),
    "nested lists": (of_bytes(b"a = " + b"[" * 100_000), "nested too deeply|not valid JSON"),
    "nested JSON": (of_bytes(b"[" * 100_000), "nested too deeply|Expected|Invalid"),
    "nested tables": (of_bytes(b'{"a":' * 100_000), "nested too deeply|Invalid"),
    "long number": (of_bytes(b'{"format": ' + b"9" * 10_000 + b"}"), "not valid JSON|Invalid"),
    "binary": (of_bytes(bytes(range(128))), ""),
    "JSON null": (of_bytes(b"null"), ""),
    "JSON list": (of_bytes(b"[1, NaN]"), ""),
    "NaN": (of_bytes(b'{"schema": NaN, "format": NaN}'), ""),
    "long schema": (of_bytes(b'{"schema": "' + b"x" * 10_000 + b'", "format": "' + b"y" * 10_000 + b'"}'), ""),
    "command": (of_bytes(b'{"schema": "\\n::error::x ##[error]y", "format": "\\n::error::x ##[error]y"}'), ""),
    "wrong baseline": (of_bytes(json.dumps({"schema": BASELINE, "findings": [{"target": {}}]}).encode()), ""),
    "wrong findings": (of_bytes(json.dumps({"schema": BASELINE, "findings": "x"}).encode()), ""),
    "wrong fingerprint": (of_bytes(json.dumps({"format": FORMAT, "fingerprints": [{"loader": 3}]}).encode()), ""),
    "no fingerprints": (of_bytes(json.dumps({"format": FORMAT, "fingerprints": None}).encode()), ""),
    "a pickle": (of_bytes(b"cos\nsystem\n(S'touch canary'\ntR."), ""),
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "data.py").write_text(DATA)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("reader", READERS)
def test_a_file_is_refused_by_name(project: Path, reader: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    if (reader, kind) == ("settings", "empty"):
        pytest.skip("these are settings")
    make, expected = FILES[kind]
    make(project / "given.file")
    code = main.main([*READERS[reader], "given.file"])
    out, err = capsys.readouterr()
    assert (code, out) == (2, ""), err
    assert "given.file" in err
    assert "Traceback" not in err
    assert len(err) < 1_000
    assert not any(line.startswith("::") or "##[" in line for line in err.splitlines())
    if expected:
        assert any(words in err for words in expected.split("|")), err
    assert not (project / "canary").exists()


@pytest.mark.parametrize("argument", ["[" * 100_000, '{"b":' * 100_000], ids=["lists", "tables"])
@pytest.mark.usefixtures("project")
def test_an_argument_is_refused(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["scan", "data:make", "--arg", f"a={argument}"]) == 2
    assert "the value is not valid JSON" in capsys.readouterr().err


def test_an_own_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_text(tmp_path / "link", "words")
    assert text_in(tmp_path / "file") == "words"


@pytest.mark.parametrize(
    "command", ["scan|data:make|--output", "scan|data:make|--write-baseline", "fingerprint|data:make|--output"]
)
@pytest.mark.parametrize("link", [False, True])
@pytest.mark.usefixtures("project")
def test_a_pipe_without_a_reader_is_refused(command: str, link: bool, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("pipe")
    Path("link").symlink_to("pipe")
    name = "link" if link else "pipe"
    assert main.main([*command.split("|"), name]) == 2
    assert f"{name}: a pipe that nothing reads; start its reader first" in capsys.readouterr().err


def test_a_pipe_is_open_for_its_reader_until_it_is_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        require_writable("--output", str(tmp_path / "pipe"))
        assert pipe.read() is None  # there will be more: not b"", the end
        write_text(tmp_path / "pipe", "words")
        assert (pipe.read(), pipe.read()) == (b"words", b"")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make links of another user")
@pytest.mark.parametrize("option", ["--output", "--write-baseline"])
def test_a_link_of_another_user_is_not_followed(project: Path, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "victim").write_text("keep")
    (project / "planted").symlink_to(project / "victim")
    os.lchown(project / "planted", 1234, 1234)
    with pytest.raises(OSError, match="a link of another user; remove it"):
        write_text(project / "planted", "words")
    assert main.main(["scan", "data:make", option, "planted"]) == 2
    assert "planted: is a link of another user" in capsys.readouterr().err
    assert (project / "victim").read_text() == "keep"


def test_sources_that_cannot_be_read_are_left_out(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(project / "pipe.py")
    (project / "broken.py").symlink_to("nowhere.py")
    (project / "deep.py").write_text("(" * 10_000)
    (project / "null.py").write_bytes(b"x = 1\0")
    (project / "pyproject.toml").write_bytes(b"\xff")
    assert main.main(["init", "--no-scan"]) == 2
    assert "pyproject.toml: byte 0 is not UTF-8" in capsys.readouterr().err
