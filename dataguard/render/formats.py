"""The registry of output formats: which commands support each format, and the function that renders it.

A format is one entry. Commands without a renderer in that entry refuse the format and list the ones they support.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from dataguard.model import UsageError
from dataguard.settings.suggestions import suggest

FORMATS: Mapping[str, Mapping[str, str]] = {
    "text": {
        "scan": "text:render",
        "bench": "timings:render",
        "doctor": "machine:render",
        "list": "check_list:render",
    },
    "json": {
        "scan": "json:render",
        "bench": "json:render_bench",
        "doctor": "json:render_checkup",
        "list": "json:render_checks",
    },
}
"""For each format the renderer of each command, as `module:function` in this package.

A renderer takes what the command reports, and the keywords `width` in columns, `colour` and `unicode`. Its module is
imported on use: `--help` and JSON output do not need rich.
"""


def formats_of(command: str) -> tuple[str, ...]:
    """The formats that a command supports."""
    return tuple(form for form, renderers in FORMATS.items() if command in renderers)


def check_format(command: str, form: str) -> None:
    """Raise UsageError, which lists the supported formats, for a format that a command does not support."""
    known = formats_of(command)
    if form not in known:
        hint = f"; known: {', '.join(known)}" if form in FORMATS else suggest(form, known)
        raise UsageError(f"--format {form}: not supported by `dataguard {command}`{hint}")


def renderer(command: str, form: str) -> Callable[..., str]:
    """The renderer of a command. Raises UsageError for a format that the command does not support."""
    check_format(command, form)
    module, _, function = FORMATS[form][command].partition(":")
    found: Callable[..., str] = getattr(import_module(f"dataguard.render.{module}"), function)
    return found
