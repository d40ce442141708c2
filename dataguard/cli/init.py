"""`dataguard init`: write what a scan of this project needs, from what its source says."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dataguard.cli.console import say
from dataguard.cli.scan import REPORT
from dataguard.core.model import UsageError
from dataguard.settings.files import is_toml, text_in, working_folder, write_text
from dataguard.settings.target_spelling import script_of
from dataguard.targets.spelling import MODULE, TARGET

if TYPE_CHECKING:
    from dataguard.core.model import Report
    from dataguard.project.proposal import Proposal

_FILE = Path(f"{MODULE}.py")
_OWN, _PROJECT = Path("dataguard.toml"), Path("pyproject.toml")
_PREFIX = "tool.dataguard."
_HEADER = "\n[tool.dataguard]\n"
_MOST_NAMED = 5
"""Files that are named at most."""
_TABLE = """\
targets = {targets}
{pythonpath}# samples = 256               # read at most so many in the traced pass
# ignore = ["DG8"]            # checks to skip: codes, code prefixes or names

# [{prefix}roles]             # what a loader is for, if its name does not say it
# holdout = "val"

# [{prefix}expect]            # known findings, each with its reason
# DG401 = "batches of one: the model takes images of any size"

# [{prefix}contract]          # what only you know about the data
# normalization = "imagenet"
# num_classes = 10
"""


@click.command(short_help="Write the files that a scan of this project needs.")
@click.pass_context
@click.option("--list", "listed", is_flag=True, help="List what was found, the best first, and write nothing.")
@click.option("--no-scan", is_flag=True, help="Write the files, and scan nothing.")
@click.argument("arguments", metavar="[SCRIPT] [-- ARGUMENT...]", nargs=-1)
def init(context: click.Context, listed: bool, no_scan: bool, arguments: tuple[str, ...]) -> int:
    """Look for the DataLoaders of the project in the current directory, and write what a scan needs.

    The source is read, and nothing of it runs. The best is a function that returns loaders and needs no arguments, or
    the training script, or SCRIPT; a script is called with each ARGUMENT after --. The target is written to
    [tool.dataguard] in pyproject.toml, or to dataguard.toml. Nothing is overwritten. Then the target is scanned. If no
    loader runs, what was written is removed again.
    """
    if _FILE.exists():
        raise UsageError(f"{_FILE} exists; scan it with `dataguard scan {TARGET}`, or remove it and run init again")
    proposed = _proposed(arguments)
    if listed:
        for proposal in proposed:
            say(f"{proposal.target}: {proposal.name}")
        return 0
    best, *others = proposed
    say(f"found {best.name}" + (f" (and {len(others)} more: `dataguard init --list`)" if others else ""))
    before = {path: path.read_bytes() if path.is_file() else None for path in (_FILE, _PROJECT, _OWN)}
    if best.file is not None:
        write_text(_FILE, best.file)
        say(f"wrote {_FILE}")
    _write_settings(best)
    if best.unfinished:
        say(f"replace each ... in {_FILE} by a value, and run `dataguard scan`")
        return 0
    if no_scan:
        say("next: `dataguard scan`")
        return 0
    program = context.find_root().command
    assert isinstance(program, click.Group)
    try:
        code: int = context.invoke(program.commands["scan"], targets=best.targets)
    except UsageError as error:
        _restore(before)
        raise UsageError(f"{error}\n{_REMOVED}{_way_on(best, str(error))}") from error
    report: Report | None = context.meta.get(REPORT)
    if report is not None and not report.ran:
        _restore(before)
        words = " ".join(finding.message for result in report.failed for finding in result.findings)
        say(f"dataguard: no loader ran. {_REMOVED}{_way_on(best, words)}", err=True)
    return code


_REMOVED = "What init wrote was removed again."


def _way_on(proposal: Proposal, error: str) -> str:
    """What to try next where a target does not run: the arguments that its script asked for."""
    if not script_of(proposal.target):
        return " `dataguard init --list` shows all that was found."
    missing = re.search(r"arguments are required: ([^;]+)", error)
    options = [name.partition("/")[0] for name in missing[1].split(", ")] if missing else ["--data"]
    words = " ".join(f"{name.strip()} ..." if name.startswith("-") else "..." for name in options)
    return f" Pass the arguments of the script after --: `dataguard init -- {words}`"


def _proposed(arguments: tuple[str, ...]) -> list[Proposal]:
    """What the project offers; only SCRIPT if the first argument names one."""
    from dataguard.project.proposal import proposals
    from dataguard.project.sources import Project

    project = Project(working_folder())
    if arguments and arguments[0].endswith(".py") and Path(arguments[0]).is_file():
        return proposals(project, arguments[1:], arguments[0])
    if project.unparsed:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        say(
            f"dataguard: not read, no valid Python {version}: {', '.join(sorted(project.unparsed)[:_MOST_NAMED])}",
            err=True,
        )
    proposed = proposals(project, arguments)
    if not proposed:
        raise UsageError(
            "no DataLoader found in the Python files of this folder: write a function that returns your loaders, and "
            "scan it with `dataguard scan pkg.mod:function`"
        )
    return proposed


def _restore(earlier: Mapping[Path, bytes | None]) -> None:
    """Give files their earlier content again, and remove those that had none."""
    for path, content in earlier.items():
        if content is not None:
            path.write_bytes(content)
        else:
            path.unlink(missing_ok=True)


def _write_settings(proposal: Proposal) -> None:
    """Add the table to pyproject.toml, or write dataguard.toml; say what to add where the user has settings.

    A table that init wrote and nobody has edited is replaced, so that init can be run again with other arguments.
    """
    try:
        text = text_in(_PROJECT) if _PROJECT.is_file() else None
        users_text = text_in(_OWN) if _OWN.is_file() else ""
    except ValueError as error:
        raise UsageError(f"{_PROJECT}: {error}") from error
    kept, header, table = (text or "").partition(_HEADER)
    if header and _is_unedited(table, _PREFIX):
        text = kept
    if (_OWN.exists() and not _is_unedited(users_text, "")) or "[tool.dataguard" in (text or ""):
        say(f"settings exist; add to them:\n{_settings(proposal, '')}")
        return
    extended = None if text is None else f"{text.rstrip()}\n{_HEADER}{_settings(proposal, _PREFIX)}"
    if extended is not None and not users_text and is_toml(extended):
        write_text(_PROJECT, extended)
        say(f"added [tool.dataguard] to {_PROJECT}")
    else:
        write_text(_OWN, _settings(proposal, ""))
        say(f"wrote {_OWN}")


def _is_unedited(table: str, prefix: str) -> bool:
    """Whether a table has nothing that init does not write: only its target may differ."""
    written = _TABLE.format(targets="", pythonpath="", prefix=prefix)

    def lines(text: str) -> list[str]:
        return [line for line in text.splitlines() if not line.startswith(("targets = ", "pythonpath = "))]

    return lines(table) == lines(written)


def _settings(proposal: Proposal, prefix: str) -> str:
    pythonpath = f"pythonpath = {json.dumps(list(proposal.pythonpath))}\n" if proposal.pythonpath else ""
    return _TABLE.format(targets=json.dumps(list(proposal.targets)), pythonpath=pythonpath, prefix=prefix)
