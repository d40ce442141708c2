"""The blocks of code in a document, and what it takes to run them in a project."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

_FENCE = re.compile(r"(?:<!-- (?:not run|run by): .+ -->\s*)?^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\S+\.py)\n")
_CODE = re.compile(r"\bDG\d{3}\b")
_COUNTS = re.compile(r"(?<=\d failed) ·.*|(?<=no findings) ·.*|[\d.]+ s\b|(?<=for items ).*")
"""Counts of other checks than those that are run here, times, and the items that a shuffle put first."""
_QUICK = {"init": ("--no-scan",)}
"""Options that keep a command short."""
SETTINGS = '[tool.dataguard]\nselect = ["DG301", "DG902"]\nsamples = 16\n'
"""Settings that keep scans short: one cheap check, and one for models."""


@dataclass(frozen=True)
class Block:
    """A block of code of some kind, and the text of the block that follows it: what its command prints."""

    kind: str
    code: str
    shown: str

    @property
    def file(self) -> str | None:
        """The file that the block is: its first line names it."""
        named = _FILE.match(self.code)
        return named and named[1]

    def commands(self) -> list[list[str]]:
        """The words of each command of dataguard and pytest, without comments, pipes and redirections."""
        lines = self.code.splitlines() if self.kind in ("bash", "console") else ()
        simple = (re.split(r" [|>] ", line.removeprefix("$ "))[0] for line in lines)
        commands = (shlex.split(line, comments=True) for line in simple)
        return [words for words in commands if words[:1] in (["dataguard"], ["pytest"])]

    def quick(self, words: list[str]) -> list[str]:
        """The arguments of a command of dataguard; kept short, with the checks of the report that is shown."""
        added = _QUICK.get(words[1], ())
        if codes := sorted(set(_CODE.findall(self.shown))):
            added = (*added, "--select", ",".join(codes))
        return [*words[1:], *added]

    def missing_from(self, output: str) -> list[str]:
        """The lines that the document shows and the command did not print."""
        printed = {_plain(line) for line in output.splitlines()}
        lines = map(_plain, self.shown.splitlines())
        return [line for line in lines if line not in ("", "...") and line not in printed]

    def applied(self, folder: Path) -> None:
        """Replace the lines of a file that a block of changes removes, each run of them by the lines that follow."""
        name, *lines = self.code.splitlines()
        path = folder / name.removeprefix("--- ")
        text = path.read_text(encoding="utf-8")
        for removed, added in re.findall(r"((?:^-.*\n)+)((?:^\+.*\n)*)", "\n".join(lines) + "\n", re.MULTILINE):
            before, after = (re.sub("^.", "", part, flags=re.MULTILINE) for part in (removed, added))
            assert text.count(before) == 1, f"{path} does not have once: {before}"
            text = text.replace(before, after)
        path.write_text(text, encoding="utf-8")


def _plain(line: str) -> str:
    return " ".join(_COUNTS.sub("", line).split())


def blocks(document: Path) -> list[Block]:
    """The blocks of a document in their order, without those that are marked."""
    text = document.read_text(encoding="utf-8")
    found = list(_FENCE.finditer(text))
    ends = {block.start(): block for block in found}
    return [
        Block(block[2], dedent(block[3]), following[3] if following and following[2] == "text" else "")
        for block in found
        if not block[0].startswith("<!--")
        for following in [ends.get(block.end() + len(text[block.end() :]) - len(text[block.end() :].lstrip("\n")))]
    ]
