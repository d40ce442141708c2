"""The registry of output formats: what each command can write, and who writes it.

A format is one entry. A command that it does not name refuses it, and tells what it can write instead.
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
"""For each format the `module:function` of this room that turns what a command reports into text.

It takes that, and `width` in columns, `colour` and `unicode` for what is to be read by people. A module is imported
when it renders, because help and a report in JSON need nothing of those that lay text out.
"""


def formats_of(command: str) -> tuple[str, ...]:
    """The formats that a command can write."""
    return tuple(form for form, renderers in FORMATS.items() if command in renderers)


def check_format(command: str, form: str) -> None:
    """Raise UsageError, with what there is instead, for a format that a command cannot write."""
    known = formats_of(command)
    if form not in known:
        hint = f"; known: {', '.join(known)}" if form in FORMATS else suggest(form, known)
        raise UsageError(f"--format {form}: `dataguard {command}` has no such format{hint}")


def renderer(command: str, form: str) -> Callable[..., str]:
    """The function that writes what a command reports. Raises UsageError for a format that the command cannot write."""
    check_format(command, form)
    module, _, function = FORMATS[form][command].partition(":")
    found: Callable[..., str] = getattr(import_module(f"dataguard.render.{module}"), function)
    return found
