"""The documentation of a check, which is the docstring of its judge. Standard library only."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Doc:
    """The documentation of a check, read from its judge's docstring."""

    summary: str
    symptom: str
    cause: str
    fix: str
    links: tuple[str, ...] = ()

    @classmethod
    def parse(cls, docstring: str) -> Doc:
        """Split a docstring into its summary and its `Symptom:`, `Cause:`, `Fix:` and `Links:` sections.

        Raises ValueError when a section is missing.
        """
        summary, *sections = re.split(r"^(Symptom|Cause|Fix|Links):", inspect.cleandoc(docstring), flags=re.MULTILINE)
        texts = {
            name.lower(): inspect.cleandoc("    " + text)
            for name, text in zip(sections[::2], sections[1::2], strict=True)
        }
        missing = {"symptom", "cause", "fix"} - set(texts)
        if missing or not summary.strip():
            raise ValueError(f"a check's docstring lacks: {', '.join(sorted(missing)) or 'its summary'}")
        links = tuple(texts.pop("links", "").split())
        return cls(summary=" ".join(summary.split()), links=links, **texts)
