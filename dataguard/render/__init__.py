"""The output formats: each is one function from a `Report` to text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from dataguard.model import Doc, Report
from dataguard.render import json, text


class Renderer(Protocol):
    """Turns a report into text; machine-readable formats ignore the layout arguments."""

    def __call__(
        self,
        report: Report,
        docs: Mapping[str, Doc],
        *,
        width: int = 100,
        colour: bool = False,
        verbosity: int = 0,
        unicode: bool = True,
    ) -> str:
        """Render `report`; `docs` maps the codes of its checks to their documentation."""


FORMATS: Mapping[str, Renderer] = {"text": text.render, "json": json.render}
