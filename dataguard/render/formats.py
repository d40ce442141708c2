"""The registry of output formats: which formats each command supports, and which function renders them.

A format is one entry. A command that the entry does not name rejects the format and lists the formats it supports.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from dataguard.core.model import UsageError
from dataguard.settings.target_spelling import suggest

FORMATS: Mapping[str, Mapping[str, str]] = {
    "text": {
        "scan": "text:render",
        "bench": "timings:render",
        "doctor": "machine:render",
        "list": "check_pages:render",
        "show": "sample:render",
    },
    "json": {
        "scan": "json:render",
        "bench": "json:render_bench",
        "doctor": "json:render_checkup",
        "list": "json:render_checks",
    },
    "html": {
        "scan": "html.report:render",
        "bench": "html.pages:render_bench",
        "doctor": "html.pages:render_checkup",
        "list": "html.pages:render_checks",
        "show": "html.pages:render_sample",
    },
    "png": {"show": "sample_picture:render"},
    "sarif": {"scan": "ci.sarif:render"},
    "github": {"scan": "ci.github:render"},
    "markdown": {
        "scan": "ci.markdown:render",
        "bench": "ci.markdown:render_bench",
        "doctor": "ci.markdown:render_checkup",
        "list": "ci.markdown:render_checks",
    },
    "junit": {"scan": "ci.junit:render"},
}
"""For each format and command, the `module:function` of this package that renders the command's output.

The function takes the output, and `width` in columns, `colour` and `unicode` for human-readable formats. A module is
imported when it renders, because help and JSON do not need the modules that lay out text.
"""

DRAWING = ("html",)
"""The formats that draw the figures of findings."""

_SUFFIXES = {"txt": "text", "md": "markdown", "htm": "html", "xml": "junit"}
"""The formats of file names whose suffix is not the format's name."""
SUMMARY = "GITHUB_STEP_SUMMARY"
"""The variable in which GitHub Actions gives the file for the summary of a step; its name has no suffix."""


def format_of(command: str, file: str) -> str:
    """The format that the suffix of a file's name asks for; text without one. Raises UsageError for another suffix."""
    suffix = "md" if file == os.environ.get(SUMMARY) else Path(file).suffix[1:].lower()
    form = _SUFFIXES.get(suffix, suffix or "text")
    if form not in formats_of(command):
        raise UsageError(f"--output {file}: no format of `dataguard {command}` has this suffix; add --format")
    return form


def formats_of(command: str) -> tuple[str, ...]:
    """The formats that a command supports."""
    return tuple(form for form, renderers in FORMATS.items() if command in renderers)


def check_format(command: str, form: str) -> None:
    """Raise UsageError, with a suggestion, for a format that a command does not support."""
    supported = formats_of(command)
    if form not in supported:
        hint = f"; known: {', '.join(supported)}" if form in FORMATS else suggest(form, supported)
        raise UsageError(f"--format {form}: not supported by `dataguard {command}`{hint}")


def renderer(command: str, form: str) -> Callable[..., Any]:
    """The function that renders a command's output, as text, or as the bytes of an image.

    Raises UsageError for a format that it does not support.
    """
    check_format(command, form)
    module, _, function = FORMATS[form][command].partition(":")
    render: Callable[..., Any] = getattr(import_module(f"dataguard.render.{module}"), function)
    return render
