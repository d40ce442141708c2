"""The command line: `list`, `explain`, `schema` and `doctor`; other commands are in modules of their own.

Exit codes: 0 clean, 1 findings at or above `--fail-on`, a scan without a verdict, or a problem with the machine, 2 a
wrong option or target, 3 a bug of dataguard, 130 Ctrl-C.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from dataguard import __version__
from dataguard.cli.bench import bench
from dataguard.cli.console import (
    BROKEN,
    FILE_WIDTH,
    INTERRUPTED,
    MISUSED,
    STDOUT,
    complain,
    console,
    encodable,
    format_option,
    open_streams,
    put,
)
from dataguard.cli.fingerprint import fingerprint
from dataguard.cli.init import init
from dataguard.cli.scan import run, scan
from dataguard.cli.show import show
from dataguard.core.model import ISSUES, UsageError
from dataguard.render.formats import renderer
from dataguard.settings.settings import similar
from dataguard.settings.target_spelling import suggest

if TYPE_CHECKING:
    from dataguard.core.model import Check


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; every error ends here, as one message."""
    with open_streams():
        return _run(arguments)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        outcome = dataguard.main(args=arguments, prog_name="dataguard", standalone_mode=False)
    except UsageError as error:
        return complain(str(error), MISUSED)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "dataguard"
        return complain(f"{error.format_message()}\nSee '{command} --help'.", MISUSED)
    except click.ClickException as error:
        return complain(error.format_message(), MISUSED)
    except (click.Abort, KeyboardInterrupt):
        return complain("interrupted, no report", INTERRUPTED, kind="")
    except OSError as error:  # of a file that the user named, or of a machine that has no more disk, files or processes
        name = f": {str(error.filename)[:100]}" if error.filename else ""
        return complain(f"{error.strerror or error}{name}", MISUSED)
    except Exception:  # noqa: BLE001 - user code runs in another process, so whatever arrives here is a dataguard bug
        request = f"This is a bug in dataguard {__version__}. Please report it at {ISSUES} with the lines above."
        return complain(f"{traceback.format_exc()}\n{request}", BROKEN, kind="bug: ")
    return outcome if isinstance(outcome, int) else 0


class _Commands(click.Group):
    """The commands, with a word for one that does not exist."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of these arguments. Raises UsageError, with the closest one, or the function of this name."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            raise UsageError(f"no command {args[0]!r}{_PYTHON.get(args[0]) or suggest(args[0], self.commands)}")
        return super().resolve_command(ctx, args)


_PYTHON = {
    "check": "; `dataguard scan TARGET` checks a loader, and `dataguard.check(loader)` does in Python",
    "guard": "; `dataguard.guard(loader)` in Python watches a loader while it trains a model",
}
"""What to say where a function of the package is taken for a command."""


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": FILE_WIDTH},
    invoke_without_command=True,
)
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.pass_context
def dataguard(context: click.Context) -> int:
    """Run a PyTorch Dataset or DataLoader and report, with evidence, the contracts it silently breaks."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
    return MISUSED


@dataguard.command(name="list", short_help="List all checks.")
@format_option("list")
def list_checks(form: str) -> None:
    """List all checks: code, name, severity and summary."""
    from dataguard.checks import CATALOGUE

    put(partial(renderer("list", form), CATALOGUE), STDOUT)


@dataguard.command(short_help="Explain checks: symptom, cause and fix.")
@click.argument("checks", metavar="CHECK...", nargs=-1, required=True)
def explain(checks: tuple[str, ...]) -> None:
    """Explain each CHECK, a code or a name: its symptom, its cause and the fix.

    A code prefix, or a word of names and summaries such as `shuffle`, lists its checks.
    """
    from dataguard.checks import CATALOGUE
    from dataguard.render.check_pages import explanation

    matches = [_named(word, CATALOGUE) for word in checks]
    families = list(dict.fromkeys(check for family in matches if len(family) > 1 for check in family))
    if families:
        put(partial(renderer("list", "text"), families), STDOUT)
    single = [check for check, *others in matches if not others]
    texts = [f"{explanation(check)}\nOnline: <{check.page}>\n" for check in single]
    out = console(sys.stdout)
    if not out.is_terminal or out.options.ascii_only:
        click.echo(encodable("\n".join(texts), sys.stdout), nl=False)
        return
    from rich.markdown import Markdown

    for text in texts:
        out.print(Markdown(text))


@dataguard.command(short_help="List this machine's data-loading resources.")
@format_option("doctor")
def doctor(form: str) -> int:
    """List the data-loading resources of this machine, problems first, ready to paste into a bug report.

    Exits with 1 if there is a problem, with 0 otherwise.
    """
    from dataguard.cli.doctor import check_up

    seen = check_up()
    put(partial(renderer("doctor", form), seen), STDOUT)
    return int(not seen.healthy)


@dataguard.command(short_help="Print the JSON schema of reports or of settings files.")
@click.argument("name", metavar="report|settings", type=click.Choice(["report", "settings"]))
def schema(name: str) -> None:
    """Print the JSON schema of a report in JSON, or of a settings file.

    Editors complete `dataguard.toml` by the schema that a comment in its first line names.
    """
    from importlib import resources

    folder = {"report": "render", "settings": "settings"}[name]
    file = resources.files("dataguard") / folder / f"{name}.schema.json"
    click.echo(file.read_text(encoding="utf-8"), nl=False)


def _named(word: str, catalogue: Sequence[Check]) -> list[Check]:
    """The check of a code or name; else all whose codes begin with a prefix such as DG1, or that mention a word."""
    by_spelling = {spelling.lower(): check for check in catalogue for spelling in check.spellings}
    if word.lower() in by_spelling:
        return [by_spelling[word.lower()]]
    family = [check for check in catalogue if len(word) > 1 and check.code.startswith(word.upper())]
    if family:
        return family
    mentioning = [check for check in catalogue if word.lower() in f"{check.name} {check.doc.summary}".lower()]
    if len(word) >= _SHORTEST_WORD and mentioning:
        return mentioning
    raise UsageError(f"unknown check {word!r}{similar(word, by_spelling)}")


_SHORTEST_WORD = 4
"""Letters of a word that is searched: fewer stand inside of others."""

for command in (bench, fingerprint, init, run, scan, show):
    dataguard.add_command(command)
