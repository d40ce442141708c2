"""The report that the README shows, drawn as SVG from a scan of one of the samples."""

from __future__ import annotations

import re
from html import escape, unescape
from io import StringIO

from rich.console import Console
from rich.text import Text

import dataguard
from dataguard.checks import CATALOGUE
from dataguard.render.text import render
from dataguard.report import Report

SCAN = "sample_datasets.dg101_cloned_worker_rng:bad"
WIDTH = 100
_FONTS = re.compile(r"@font-face \{.*?\}\n", re.DOTALL)
_DESCRIPTION = re.compile(r"<desc>(.*?)</desc>", re.DOTALL)
_SECONDS = re.compile(r"[\d.]+ s\b")


def scanned(target: str) -> Report:
    """The report of a scan of one check."""
    return dataguard.scan(target, select=["DG101"])


def _text(report: Report, *, colour: bool) -> str:
    docs = {check.code: check.doc for check in CATALOGUE}
    return render(report, docs, width=WIDTH, colour=colour, unicode=True, verbosity=-1)


def drawn(target: str, report: Report) -> str:
    """The report of this target as an image, which loads nothing, and has its text as description."""
    console = Console(file=StringIO(), record=True, width=WIDTH, force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(_text(report, colour=True)))
    title = f"dataguard scan -q {target} --select DG101"
    image = _FONTS.sub("", console.export_svg(title=title, unique_id="report"))
    image = image.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")
    description = f"<title>{escape(title)}</title>\n<desc>{escape(_text(report, colour=False))}</desc>\n"
    lines = re.sub(r"(<svg [^>]*>\n)", lambda head: head[1] + description, image, count=1).splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def described(image: str) -> str:
    """The text of a drawn report, without how long the scan took."""
    found = _DESCRIPTION.search(image)
    assert found, "the image has no description"
    return _SECONDS.sub("… s", unescape(found[1]))
