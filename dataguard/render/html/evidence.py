"""Evidence, settings and places as rows of a table: short values in one line, long ones folded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dataguard.machine.units import counted
from dataguard.model import Finding
from dataguard.render.html.figures import View
from dataguard.render.html.templating import cut
from dataguard.render.layout import current_folder, fold, shortened

_MOST = 4_000
"""The most characters of a value, folded ones included; the JSON report has them all."""
_UNFOLDED = 14
"""The most lines of a stack or of output that are shown unfolded."""
_ROW = 60
"""A mapping of more characters than this gets one row for each key."""
_ROWS = 40


@dataclass(frozen=True, slots=True)
class Evidence:
    """Turns values into rows; paths below the folder `home` are relative."""

    home: re.Pattern[str] | None

    @classmethod
    def here(cls) -> Evidence:
        """Return the one for the current directory."""
        return cls(current_folder())

    def short(self, words: str) -> str:
        """The words with short paths, and without what is too long to read."""
        return shortened(cut(words, _MOST), self.home)

    def place(self, finding: Finding) -> str:
        """The file and line of a finding, or nothing."""
        at = finding.at
        return self.short(at.file if at.line is None else f"{at.file}:{at.line}") if at and at.file else ""

    def rows(self, values: Mapping[str, object]) -> list[View]:
        """A row for each key and its value."""
        shown = [self._row(str(key).replace("_", " "), value) for key, value in list(values.items())[:_ROWS]]
        if len(values) > _ROWS:
            shown.append(self._row("…", counted(len(values) - _ROWS, "more rows")))
        return shown

    def _row(self, key: str, value: object) -> View:
        text = fold(value)
        row: View = {"key": key, "text": self.short(text).strip("\n"), "full": "", "rows": [], "folds": 0}
        if isinstance(value, Mapping) and len(text) > _ROW:
            return row | {"rows": self.rows(value)}
        if "\n" in text:
            lines = row["text"].count("\n") + 1
            return row | {"full": row["text"], "folds": lines if lines > _UNFOLDED else 0}
        return row
