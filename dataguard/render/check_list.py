"""The output of `dataguard list`: a table of all checks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.table import Table

from dataguard.model import Check
from dataguard.render.layout import Page


def render(checks: Iterable[Check], *, width: int = 100, colour: bool = False, unicode: bool = True, **_: Any) -> str:
    """Return a row for each check: code, name, severity and summary."""
    page = Page.blank(width, colour=colour, unicode=unicode)
    table = Table.grid(padding=(0, 2))
    for check in checks:
        table.add_row(check.code, check.name, check.severity.value, page.clean(check.doc.summary))
    page.console.print(table)
    return page.finish()
