"""Checks as text: the table of `dataguard list`, the page of `dataguard explain`, and the groups of both."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from dataguard.core.model import Check
from dataguard.render.escapes import cleaned

NARROWEST = 20
"""Columns of a summary, however narrow the terminal is."""


def render(checks: Iterable[Check], *, width: int = 100, unicode: bool = True, **_: Any) -> str:
    """Return a row for each check: code, name, severity and summary."""
    rows = [
        (check.code, check.name, check.severity.value, cleaned(check.doc.summary, unicode=unicode)) for check in checks
    ]
    widths = [max(map(len, column), default=0) + 2 for column in zip(*rows, strict=True)][:-1]
    lines: list[str] = []
    for *cells, summary in rows:
        lead = "".join(cell.ljust(size) for cell, size in zip(cells, widths, strict=True))
        room = max(width, len(lead) + NARROWEST)
        lines += textwrap.wrap(
            summary, room, initial_indent=lead, subsequent_indent=" " * len(lead), break_on_hyphens=False
        )
    return "".join(f"{line}\n" for line in lines)


GROUPS: Mapping[str, tuple[str, ...]] = {
    "The loader runs": ("DG0",),
    "Workers, randomness, reproducibility": ("DG1", "DG7"),
    "Streams, shards, order": ("DG2",),
    "Dataset protocol": ("DG3", "DG513"),
    "Batches": ("DG40", "DG41"),
    "Tokens of language models": ("DG42", "DG43"),
    "Images, masks, boxes": (
        "DG505",
        "DG506",
        "DG507",
        "DG508",
        "DG509",
        "DG510",
        "DG511",
        "DG512",
        "DG516",
        "DG519",
        "DG522",
        "DG529",
    ),
    "Values and labels": ("DG501", "DG502", "DG503", "DG504", "DG520"),
    "Sources of values": ("DG524", "DG525", "DG526", "DG527", "DG528"),
    "Splits": ("DG514", "DG515", "DG517", "DG518", "DG521", "DG523"),
    "Sound": ("DG53",),
    "Machine and throughput": ("DG6", "DG8"),
    "First step of training": ("DG9",),
}
"""The groups of checks, in the order in which they are listed, with what the codes in each begin with."""

TITLES = {"DG107": "lost-worker-state"}
"""Titles of pages, of checks whose names, which stay as they are, say little to a stranger."""


def explanation(check: Check) -> str:
    """Return the documentation of one check in Markdown."""
    doc = check.doc
    sections = [
        f"# {check.code} · {plain_name(check)}",
        f"**{check.severity.value}** · {doc.summary}",
        f"## Symptom\n\n{sentence(doc.symptom)}",
        f"## Cause\n\n{sentence(doc.cause)}",
        f"## Fix\n\n{sentence(doc.fix)}",
        "## If it is intended\n\nGive the reason in `pyproject.toml`, and the finding is reported as expected:\n\n"
        f'```toml\n[tool.dataguard.expect]\n{check.code} = "the reason"\n```',
    ]
    if doc.links:
        sections.append("## Links\n\n" + "\n".join(f"- <{link}>" for link in doc.links))
    return "\n\n".join(sections) + "\n"


def plain_name(check: Check) -> str:
    """The name of a check, or `lost-worker-state (deaf-workers)` where another one is plainer."""
    return f"{TITLES[check.code]} ({check.name})" if check.code in TITLES else check.name


def sentence(text: str) -> str:
    """Capitalize the first letter of a section; in a docstring it follows a colon."""
    return text[:1].upper() + text[1:]


def group_of(code: str) -> str:
    """Return the group that a code belongs to."""
    (group,) = (title for title, beginnings in GROUPS.items() if code.startswith(beginnings))
    return group


def grouped(codes: Iterable[str]) -> Mapping[str, list[str]]:
    """Return the groups that have any of these codes, in order, with their codes."""
    ordered = sorted(codes)
    groups = {title: [code for code in ordered if group_of(code) == title] for title in GROUPS}
    return {title: members for title, members in groups.items() if members}
