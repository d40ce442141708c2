"""Logs of CI servers are read for commands by the runner: none may come from the words of users, in any format."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from xml.etree import ElementTree as Xml

import pytest

from dataguard.cli.console import complain, say
from dataguard.core.model import Finding, Location, Status
from dataguard.render.escapes import printable
from dataguard.render.formats import formats_of, renderer
from dataguard.report import Report
from tests.support.sample_reports import DOCS, empty, result

COMMANDS = (
    "::error::x",
    "\n  ::stop-commands::x",
    "\n\u3000::add-mask::x",
    "\n\u200b::warning::x",
    ":\u200b:error::x",
    "##[error]x",
    "a ###[group]x",
    "##[add-mask]x",
    "##vso[task.setvariable variable=PATH]x",
    "##VSO[build.addbuildtag]x",
    "#\u200b#vs\xado[task.complete]x",
    "##teamcity[buildStop]",
)
OWN = re.compile(r"::(group|endgroup|error|warning|notice)\b[^:]*::")


def obeyed(log: str, own: re.Pattern[str] | None = None) -> Iterator[str]:
    """What a runner obeys: GitHub trims a line, and both compare texts as .NET does, without what has no width."""
    for line in log.split("\n"):
        seen = re.sub("[\xad\u200b-\u200f\u2060\ufeff]", "", line)
        if re.search(r"##\w*\[", seen) or (seen.strip().startswith("::") and not (own and own.match(line))):
            yield line


def hostile(words: str) -> Report:
    finding = Finding(words, {words: words, "nested": {words: [words]}}, Location(words, 3, words), words)
    results = [
        replace(result("DG101", words, status, finding), reason=words, target="pkg.mod:f")
        for status in (Status.FAILED, Status.BROKEN, Status.INCONCLUSIVE, Status.EXPECTED, Status.SKIPPED)
    ]
    return replace(
        empty(), targets=(words,), results=tuple(results), notes=(words,), environment={words: words}, settings={}
    )


@pytest.mark.parametrize("form", formats_of("scan"))
@pytest.mark.parametrize("words", COMMANDS, ids=ascii)
def test_no_format_repeats_a_command(form: str, words: str) -> None:
    for look in ({}, {"verbosity": 1}, {"unicode": False}):
        text = renderer("scan", form)(hostile(words), DOCS, **look)
        assert list(obeyed(text, OWN if form == "github" else None)) == []


@pytest.mark.parametrize("words", COMMANDS, ids=ascii)
def test_json_keeps_the_words(words: str) -> None:
    (read, *_) = json.loads(renderer("scan", "json")(hostile(words), DOCS))["results"]
    assert read["findings"][0]["evidence"] == {words: words, "nested": {words: [words]}}


def test_xml_stays_xml() -> None:
    tree = Xml.fromstring(renderer("scan", "junit")(hostile("\n::error::x ##[error]y"), DOCS))
    assert "#\\#[error]y" in Xml.tostring(tree).decode()


@pytest.mark.parametrize("words", COMMANDS, ids=ascii)
def test_messages_hold_no_command(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    complain(words, 2)
    say(words)
    assert list(obeyed("".join(capsys.readouterr()))) == []


def test_what_is_no_command_stays() -> None:
    for words in ("## a heading [1]", "std::vector", "a ::b", "#1 [x]", "C# [x]"):
        assert printable(words) == words
