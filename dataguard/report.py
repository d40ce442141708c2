"""Results that show themselves: as text, as JSON, and as a page in notebooks."""

from __future__ import annotations

import sys
from abc import abstractmethod
from typing import Any

from dataguard.core import figures, model
from dataguard.render.formats import renderer
from dataguard.render.summary import counts


class _Shown:
    """What prints itself as text, and is its HTML page in a notebook."""

    __slots__ = ()

    def show(self) -> None:
        """Print it."""
        sys.stdout.write(str(self))

    def __str__(self) -> str:
        return self._rendered("text")

    def _repr_html_(self) -> str:
        return self._rendered("html", document=False)

    @abstractmethod
    def _rendered(self, form: str, **look: Any) -> str:
        """The text of a format."""


class Report(_Shown, model.Report):
    """The results of one scan; printed, it is the text of `dataguard scan`, and in a notebook its HTML page."""

    __slots__ = ()

    def to_json(self) -> str:
        """The report as `--format json` writes it."""
        return self._rendered("json")

    def __repr__(self) -> str:
        return f"<Report {counts(self)}>"

    def _rendered(self, form: str, **look: Any) -> str:
        from dataguard.checks import CATALOGUE  # here, as importing them takes longer than making a report

        text: str = renderer("scan", form)(self, {check.code: check.doc for check in CATALOGUE}, **look)
        return text


class SampleViews(_Shown, figures.SampleViews):
    """Some samples of one loader; printed, they are the text of `dataguard show`, and in a notebook its HTML page."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<SampleViews {', '.join(sample.name for sample in self.samples)}>"

    def _rendered(self, form: str, **look: Any) -> str:
        text: str = renderer("show", form)(self, **look)
        return text
