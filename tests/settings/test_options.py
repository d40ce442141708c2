"""The typed options of `scan` and `check` are those of the settings and of the command line."""

from __future__ import annotations

from dataclasses import fields

import click

from dataguard.cli.scan import scan
from dataguard.settings.options import Options
from dataguard.settings.settings import Settings

OF_THE_REPORT = {"write_baseline", "exit_zero", "formats", "outputs", "statistics", "quiet", "verbose"}
"""Options of the command line about its report, which Python has as an object."""


def test_options_are_the_fields_of_the_settings() -> None:
    assert set(Options.__annotations__) == {one.name for one in fields(Settings)} - {"targets"} | {"args", "config"}


def test_the_command_line_has_no_other_options() -> None:
    names = {str(one.name) for one in scan.params if isinstance(one, click.Option)}
    assert names - OF_THE_REPORT <= set(Options.__annotations__)
