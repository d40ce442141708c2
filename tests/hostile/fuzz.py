"""Properties of everything that users write, on arbitrary text: spellings, options, settings, files, and reports.

Whatever is wrong is answered in words and with an exit code; no traceback reaches a user, and no loader runs.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import string
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from dataguard import baseline
from dataguard.checks import CATALOGUE
from dataguard.cli import main as cli
from dataguard.core.model import Finding, Location, Result, Severity, Status, UsageError
from dataguard.measured import first_change
from dataguard.measured import read as read_fingerprints
from dataguard.process import session
from dataguard.render import json as report_json
from dataguard.render.formats import formats_of, renderer
from dataguard.report import Report
from dataguard.settings.contract import CONTRACT
from dataguard.settings.parsers import PARSERS

SCHEMA = Draft202012Validator(
    json.loads((Path(report_json.__file__).parent / "report.schema.json").read_text(encoding="utf-8"))
)
DOCS = {check.code: check.doc for check in CATALOGUE}

SPECIAL = (
    *("", " ", ":", "=", "[", "]", "(", ")", ",", ".", "/", "\\", "'", '"', "-", "--", "%s", "{}", "\0", "\n", "\r\n"),
    *("\x1b[2J", "\x1b]0;title\x07", "\u202e", "\udcff", "\ud800", "::error::x", "<script>", "$(x)", "[bold]", "[/]"),
    *("NaN", "inf", "-1", "0", "1e999", "9" * 400, "true", "null", "DG", "DG0", "DG101", "fork", "train", "json"),
    *("x" * 300, "\N{COMBINING ACUTE ACCENT}" * 50, "\N{FAMILY}", "no_such_module:make"),
)
TEXT = st.text(max_size=30) | st.sampled_from(SPECIAL) | st.lists(st.sampled_from(SPECIAL), max_size=4).map("".join)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=10,
)
WORD = st.text(string.ascii_letters + "_.:-()=[]{}\"' 0123456789,/", max_size=40)

COMMANDS = ("scan", "run", "list", "explain", "doctor", "bench", "fingerprint", "init")


def options_of(command: str) -> list[str]:
    """The long options of a command, without those that end in a scan of this machine."""
    known = cli.dataguard.commands[command].params
    return sorted(word for one in known for word in one.opts if word.startswith("--"))


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """A command with options and values that may fit it; it names no target that exists."""
    command = draw(st.sampled_from([one for one in COMMANDS if one not in ("doctor", "init")]))
    words = [command]
    for option in draw(st.lists(st.sampled_from(options_of(command)), max_size=4)) if command != "explain" else ():
        words += [option, *draw(st.lists(TEXT | WORD, max_size=2))]
    words += draw(st.lists(TEXT | WORD, max_size=3))
    return draw(st.permutations(words)) if draw(st.integers(0, 9)) == 0 else words


@contextlib.contextmanager
def alone() -> Iterator[Path]:
    """An empty folder to be in; a scan that would start ends at once."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(session, "start", side_effect=UsageError("starts")):
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)


class _Stream(io.StringIO):
    """A stream that takes only what UTF-8 takes."""

    encoding = "utf-8"

    def write(self, words: str) -> int:
        words.encode()
        return super().write(words)


def answered(words: list[str]) -> str:
    """Run a command line, and see that its answer is no traceback; returns what it printed."""
    out, err = _Stream(), _Stream()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(words)
    said = [stream.getvalue() for stream in (out, err)]
    assert code in (0, 1, 2), f"{words!r:.2000}\n{said[1][-3000:]}"
    assert not any("Traceback" in text or "bug in dataguard" in text for text in said), said
    assert "\x1b]" not in said[1], (words, said)
    return "".join(said)


def a_command_line_is_answered(words: list[str]) -> None:
    with alone():
        answered(words)


def settings_are_answered(text: str) -> None:
    with alone() as folder:
        (folder / "dataguard.toml").write_bytes(text.encode(errors="surrogatepass"))
        answered(["scan", "no_such_module:make"])
        (folder / "dataguard.toml").unlink()
        (folder / "pyproject.toml").write_bytes(f"[tool.dataguard]\n{text}".encode(errors="surrogatepass"))
        answered(["scan"])


def _toml(value: Any) -> str:
    """A JSON value as TOML, which has no null."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(str(key))} = {_toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps("null" if value is None else value)


KEYS = sorted({*PARSERS, *CONTRACT, "targets", "expect", "roles", "contract", "hypothesis"})
SETTINGS = (
    st.dictionaries(st.sampled_from(KEYS) | TEXT, JSON, max_size=4).map(
        lambda table: "\n".join(f"{_toml(key)} = {_toml(value)}" for key, value in table.items())
    )
    | st.dictionaries(st.sampled_from(sorted(CONTRACT)) | TEXT, JSON, max_size=4).map(
        lambda table: f"contract = {_toml(table)}"
    )
    | TEXT
)
"""Settings files: of known keys with arbitrary values, mostly, or arbitrary text."""


def damaged(good: Any) -> st.SearchStrategy[Any]:
    """A JSON value in which one thing was replaced by an arbitrary one, or removed."""

    @st.composite
    def draw_one(draw: st.DrawFn) -> Any:
        copy = json.loads(json.dumps(good))
        holder = copy
        while True:
            keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            if not keys:
                return copy
            key = draw(st.sampled_from(keys))
            if isinstance(holder[key], dict | list) and draw(st.integers(0, 3)):
                holder = holder[key]
            elif draw(st.booleans()):
                holder[key] = draw(JSON)
                return copy
            else:
                del holder[key]
                return copy

    return draw_one()


FINGERPRINTS = {
    "format": 1,
    "fingerprints": [
        {
            "digest": "0",
            "target": "pkg:make",
            "loader": "train",
            "parts": [{"stage": "dataset", "what": "dataset[0]", "digests": {"[0]": "00", "[1]": "11"}}],
            "conditions": {"seed": 1, "numpy": "2"},
        }
    ],
}


def _written(value: Any) -> Iterator[Path]:
    with alone() as folder:
        file = folder / "file.json"
        file.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
        yield file


def fingerprints_are_compared_or_refused(value: Any) -> None:
    for file in _written(value):
        answered(["fingerprint", "no_such_module:make", "--against", file.name])
        good = file.with_name("good.json")
        good.write_text(json.dumps(FINGERPRINTS))
        with contextlib.suppress(UsageError):
            for one in read_fingerprints(file).values():
                for other in read_fingerprints(good).values():
                    first_change(one, other)
                    assert len(one.digest) == 32


BASELINE = {
    "schema": baseline.SCHEMA,
    "findings": [{"target": "t", "loader": "train", "check": "DG501-non-finite-sample", "culprit": "sample[0]"}],
}


def baselines_are_applied_or_refused(value: Any) -> None:
    for file in _written(value):
        answered(["scan", "no_such_module:make", "--baseline", file.name])
        with contextlib.suppress(UsageError):
            known = baseline.read(file.name)
            for status in (Status.PASSED, Status.FAILED):
                findings = (Finding("sample[0] of index 3 has NaN"),) if status is Status.FAILED else ()
                result = Result("DG501", "non-finite-sample", Severity.ERROR, "train", status, findings, target="t")
                report = Report(("t",), (known.applied(result),), {}, {})
                file.write_text(baseline.written(report, known), encoding="utf-8")
                assert baseline.read(file.name).findings >= known.findings or status is Status.PASSED


WORDS = st.none() | TEXT.filter(len)
FOUND = (Status.FAILED, Status.EXPECTED)
"""The statuses that have findings."""
REASONED = (Status.SKIPPED, Status.INCONCLUSIVE, Status.BROKEN, Status.EXPECTED)
"""The statuses that have a reason."""


@st.composite
def reports(draw: st.DrawFn) -> Report:
    """A report of arbitrary text in every field that the user's code has a say in."""
    results = []
    for _ in range(draw(st.integers(0, 3))):
        check = draw(st.sampled_from(CATALOGUE))
        at = st.none() | st.builds(Location, WORDS, st.none() | st.integers(1), WORDS)
        evidence = st.dictionaries(TEXT, JSON, max_size=3)
        finding = st.builds(Finding, TEXT.filter(len), evidence, at, st.none() | TEXT, st.booleans())
        status = draw(st.sampled_from(Status))
        results.append(
            Result(
                check.code,
                check.name,
                draw(st.sampled_from(Severity)),
                draw(TEXT),
                status,
                tuple(draw(st.lists(finding, min_size=1, max_size=2)) if status in FOUND else ()),
                draw(TEXT if status in REASONED else st.none() | TEXT),
                draw(st.dictionaries(st.sampled_from(("samples", "batches", "ranks")), st.integers(0), max_size=2)),
                draw(st.floats(0, 1e9)),
            )
        )
    return Report(
        tuple(draw(st.lists(TEXT.filter(len), min_size=1, max_size=2))),
        tuple(results),
        draw(st.dictionaries(TEXT, JSON, max_size=3)),
        draw(st.dictionaries(TEXT, JSON, max_size=3)),
        draw(st.floats(0, 1e9)),
        tuple(draw(st.lists(TEXT, max_size=2))),
    )


def reports_are_rendered(report: Report) -> None:
    for form in formats_of("scan"):
        for look in ({}, {"width": 20, "unicode": False, "verbosity": 1}, {"colour": True, "statistics": True}):
            text = renderer("scan", form)(report, DOCS, **look)
            text.encode()
            if form == "json":
                SCHEMA.validate(json.loads(text))
            elif not look.get("colour"):
                assert "\x1b" not in text, form


PROPERTIES: dict[Callable[[Any], None], st.SearchStrategy[Any]] = {
    a_command_line_is_answered: command_lines(),
    settings_are_answered: SETTINGS,
    fingerprints_are_compared_or_refused: damaged(FINGERPRINTS) | JSON | st.binary(max_size=50),
    baselines_are_applied_or_refused: damaged(BASELINE) | JSON | st.binary(max_size=50),
    reports_are_rendered: reports(),
}
"""Each property with the values that it holds for."""
