"""A report that shows itself: as text, as JSON, and as a page in notebooks."""

from __future__ import annotations

import sys
from typing import Any

from dataguard import model
from dataguard.render.formats import renderer
from dataguard.render.summary import counts


class Report(model.Report):
    """The results of one scan; printed, it is the text of `dataguard scan`, and in a notebook its HTML page."""

    __slots__ = ()

    def to_json(self) -> str:
        """The report as `--format json` writes it."""
        return self._rendered("json")

    def show(self) -> None:
        """Print the report."""
        sys.stdout.write(str(self))

    def __str__(self) -> str:
        return self._rendered("text")

    def __repr__(self) -> str:
        return f"<Report {counts(self)}>"

    def _repr_html_(self) -> str:
        return self._rendered("html", document=False)

    def _rendered(self, form: str, **look: Any) -> str:
        from dataguard.checks import CATALOGUE  # here, as importing them takes longer than making a report

        text: str = renderer("scan", form)(self, {check.code: check.doc for check in CATALOGUE}, **look)
        return text
