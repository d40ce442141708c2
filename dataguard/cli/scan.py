"""The commands `dataguard scan` and `dataguard run`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dataguard import baseline
from dataguard.cli.console import (
    FINDINGS,
    INTERRUPTED,
    STDOUT,
    announce,
    complain,
    destinations,
    drawn,
    format_option,
    progress,
    put,
    require_writable,
    say,
)
from dataguard.core.model import Interrupted, Severity, UsageError
from dataguard.machine.units import counted
from dataguard.render.formats import renderer
from dataguard.settings.files import working_folder, write_text
from dataguard.settings.parsers import ROLES, START_METHODS
from dataguard.settings.settings import Settings, resolve
from dataguard.settings.target_spelling import script_spelling

if TYPE_CHECKING:
    from dataguard.core.model import Report

REPORT = "dataguard.report"
"""The report of a scan, by this name in the context of the command, for a command that has it made."""
_SEVERITIES = ", ".join(severity.value for severity in Severity)
_EXAMPLES = """\b
Examples:
  dataguard scan mypkg.data:make_loaders
  dataguard scan mypkg.data:make_loaders --select DG1,ragged-collate --workers 2
  dataguard scan mypkg.data:build_loader --arg cfg=configs/small.yaml --arg split=train
  dataguard scan mypkg.data:make_loaders --format json --output report.json
"""
_RUN_EXAMPLES = """\b
Examples:
  dataguard run train.py
  dataguard run --select DG1 train.py --data data --epochs 3
  dataguard run -m mypkg.train --data data
  dataguard run torchrun --nproc-per-node 2 train.py
"""


def _default(setting: str) -> str:
    value = getattr(Settings(), setting)
    return f"[default: {value.value if isinstance(value, Severity) else format(value, 'g')}]"


@click.command(short_help="Run the checks on every loader of a target.", epilog=_EXAMPLES)
@click.argument("targets", metavar="[TARGET]...", nargs=-1)
@click.option("--arg", "args", metavar="NAME=VALUE", multiple=True, help="Argument of the factory: JSON, else text.")
@click.option("--select", metavar="CHECKS", multiple=True, help="Run only these checks: codes, code prefixes or names.")
@click.option("--ignore", metavar="CHECKS", multiple=True, help="Skip these checks.")
@click.option("--samples", metavar="N", help=f"Read at most N samples in the traced pass. {_default('samples')}")
@click.option("--all", is_flag=True, default=None, help="Read every sample once; under torchrun, ranks share the work.")
@click.option("--budget", metavar="SECONDS", help=f"Time limit for the observations of a loader. {_default('budget')}")
@click.option("--timeout", metavar="SECONDS", help=f"No progress for this long is a hang. {_default('timeout')}")
@click.option("--import-timeout", metavar="SECONDS", help=f"Limit of an import. {_default('import_timeout')}")
@click.option("--seed", metavar="N", help=f"Seed python, numpy and torch before the factory. {_default('seed')}")
@click.option("--workers", metavar="N", help="Override the loader's num_workers.")
@click.option("--start-method", metavar="METHOD", help=f"Override the start method: {', '.join(START_METHODS)}.")
@click.option("--ranks", metavar="N", help="DDP ranks to start, at most 4. [default: 2 if the loader is rank-aware]")
@click.option("--model", metavar="PKG.MOD:ATTR", help="Try batches with this model: a module, or what returns one.")
@click.option("--loss", metavar="PKG.MOD:ATTR", help="Loss of the model: called with output and target.")
@click.option("--step", metavar="PKG.MOD:FUNCTION", help="Instead of --loss: step(model, batch) returns the loss.")
@click.option("--role", "roles", metavar="LOADER=ROLE", multiple=True, help=f"Role of a loader: {', '.join(ROLES)}.")
@click.option("--expect", metavar="CODE=REASON", multiple=True, help="A known finding, DG401 or DG401[val], and why.")
@click.option("--baseline", metavar="FILE", help="Findings in this file are known and do not fail.")
@click.option("--write-baseline", metavar="FILE", help="Write all findings to FILE; from then on they are known.")
@click.option("--fail-on", metavar="SEVERITY", help=f"Lowest severity that fails: {_SEVERITIES}. {_default('fail_on')}")
@click.option("--fail-on-undecided", is_flag=True, default=None, help="Exit with 1 if a check could not be decided.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 whatever is found.")
@format_option("scan", multiple=True)
@click.option("--output", "outputs", metavar="FILE", multiple=True, help="Where to write; the suffix sets the format.")
@click.option("--pictures", is_flag=True, default=None, help="Add pictures of samples to findings, for HTML reports.")
@click.option("--config", metavar="FILE", help="Settings file, instead of dataguard.toml or pyproject.toml.")
@click.option("--statistics", is_flag=True, help="Count the findings of each check instead of showing them.")
@click.option("-q", "--quiet", is_flag=True, help="Print findings only.")
@click.option("-v", "--verbose", is_flag=True, help="Also list passed and skipped checks; abbreviate nothing.")
def scan(
    targets: tuple[str, ...],
    formats: tuple[str, ...],
    outputs: tuple[str, ...],
    roles: tuple[str, ...],
    expect: tuple[str, ...],
    config: str | None,
    write_baseline: str | None,
    exit_zero: bool,
    statistics: bool,
    quiet: bool,
    verbose: bool,
    **options: Any,
) -> int:
    """Run the checks on every loader of each TARGET, given as [name=]pkg.mod:attr.

    A target is a DataLoader, a Dataset, a mapping, tuple or dataclass of them, or a function that returns one. Without
    TARGET, the targets of the settings file are scanned. To list several checks, repeat the option or use commas.
    """
    _require_no_modules(targets)
    given: dict[str, Any] = {name: None if value == () else value for name, value in options.items()}
    settings = resolve(
        config,
        targets=targets or None,
        roles=_pairs("--role", roles, "LOADER=ROLE", needs_value=True),
        expect=_pairs("--expect", expect, "CODE=REASON, such as 'DG401=batches of one'", needs_value=True),
        **given,
    )
    if not settings.targets:
        raise UsageError(
            "no target: name one, such as `dataguard scan mypkg.data:make_loader`, or set targets = "
            '["mypkg.data:make_loader"] under [tool.dataguard] in pyproject.toml; `dataguard init` finds and sets one'
        )
    wanted = destinations("scan", formats, outputs)
    settings = replace(settings, pictures=settings.pictures and drawn(wanted, asked=bool(options["pictures"])))
    earlier = _to_write(write_baseline)
    if earlier is not None:
        settings = replace(settings, baseline=None)
    from dataguard.engine import scan as engine  # here, as other commands need no processes
    from dataguard.process.torchrun import own_team

    team, stopped = own_team(shared=settings.all), None
    report: Report
    with progress(shown=team is None or team.leads) as terminal:
        try:
            report = engine(settings.targets, settings, terminal.listen if terminal else None)
        except Interrupted as stop:
            report, stopped = stop.report, stop
    click.get_current_context().meta[REPORT] = report
    leads = team is None or team.leads
    if earlier is not None and leads and not stopped:
        report = _known_from_now_on(report, earlier)
    code = report.exit_code(settings.fail_on, fail_on_undecided=settings.fail_on_undecided)
    if code == FINDINGS and exit_zero:
        code = 0
    if leads and (report.results or not stopped):
        _deliver_all(report, wanted, verbosity=int(verbose) - int(quiet), statistics=statistics)
    if stopped:
        return complain(_interruption(stopped), INTERRUPTED, kind="")
    if team is not None:
        code = team.agree(code)
    return code


_MOST_NAMED = 4
"""Makers of loaders, and loaders, of a module that are named at most."""


def _require_no_modules(targets: Sequence[str]) -> None:
    """Raise UsageError, with what makes its loaders, for a target that is a module or package of this project."""
    for target in targets:
        parts = target.split(".")
        is_package = Path(*parts, "__init__.py").is_file()
        is_known = is_package or Path(*parts).with_suffix(".py").is_file()
        if not all(part.isidentifier() for part in parts) or not is_known:
            continue
        from dataguard.project.proposal import proposals
        from dataguard.project.sources import LoaderCalls, Project

        project = Project(working_folder())
        inside = (f"{target}:", f"{target}.") if is_package else f"{target}:"
        found = [each.target for each in proposals(project) if each.target.startswith(inside)]
        for source in (source for source in project.sources if source.name == target):
            made = LoaderCalls(project).bindings(source, source.tree.body).values()
            found += [f"{target}:{name}" for names in made for name in names]
        if found:
            named = ", ".join(found[:_MOST_NAMED])
            kind = "package" if is_package else "module"
            raise UsageError(f"{target} is a {kind}: name what makes its loaders, such as {named}")


class _Run(click.Command):
    """What follows SCRIPT is its own, as for `python` and `torchrun`; with a `--`, what follows that."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line."""
        ctx.allow_interspersed_args = "--" in args
        return super().parse_args(ctx, args)


@click.command(cls=_Run, short_help="Run the checks on the loaders of a training script.", epilog=_RUN_EXAMPLES)
@click.option("-m", "module", is_flag=True, help="SCRIPT is a module, as for `python -m`.")
@click.argument("script", metavar="SCRIPT")
@click.argument("arguments", metavar="[ARGUMENT]...", nargs=-1)
def run(script: str, module: bool, arguments: tuple[str, ...], **options: Any) -> int:
    """Run SCRIPT with these arguments up to its first batch, and the checks on the loaders that it has by then.

    The loaders are observed as the script made them, in forks of its process; no batch reaches the script, so nothing
    is trained. Options of `dataguard scan` come before SCRIPT. Of several ranks, only rank 0 runs, in one process,
    unless `--ranks` asks for more: then SCRIPT runs up to its first batch on each, several times. SCRIPT may also be
    `torchrun` or `accelerate`, with what follows it.
    """
    if int(os.environ.get("RANK", "0")) and "TORCHELASTIC_RUN_ID" in os.environ:
        return 0  # rank 0 reports
    program = f"-m {script}" if module else script
    options_of_scan = {spelling for option in scan.params for spelling in option.opts}
    passed = [word for word in arguments if word.partition("=")[0] in options_of_scan] if "--" not in sys.argv else []
    if passed:
        say(f"dataguard: {passed[0]} is passed to {program}; options of dataguard come before it", err=True)
    code: int = click.get_current_context().invoke(scan, targets=(script_spelling(program, arguments),), **options)
    return code


run.params[:0] = [param for param in scan.params if isinstance(param, click.Option)]


def _to_write(file: str | None) -> baseline.Baseline | None:
    """The earlier content of the baseline to write, empty if there is none; checked before anything runs."""
    if file is None:
        return None
    require_writable("--write-baseline", file)
    return baseline.read(file) if Path(file).exists() else baseline.Baseline(file)


def _known_from_now_on(report: Report, earlier: baseline.Baseline) -> Report:
    """Write the findings of a report to its baseline, and return the report in which they are known."""
    try:
        write_text(Path(earlier.file), baseline.written(report, earlier))
    except OSError as error:
        raise UsageError(f"--write-baseline {earlier.file}: {error.strerror or error}") from error
    written = baseline.read(earlier.file)
    say(f"dataguard: {counted(len(written.findings), 'known findings')} written to {earlier.file}", err=True)
    return replace(report, results=tuple(map(written.applied, report.results)))


def _deliver_all(report: Report, wanted: Sequence[tuple[str, str]], *, verbosity: int, statistics: bool) -> None:
    """Write every report that can be written. Raises UsageError if one could not."""
    from dataguard.checks import CATALOGUE

    docs = {check.code: check.doc for check in CATALOGUE}
    lost: list[UsageError] = []
    for form, output in wanted:
        render = partial(renderer("scan", form), report, docs, verbosity=verbosity, statistics=statistics)
        try:
            put(render, output)
        except UsageError as error:
            lost.append(error)
    if lost:
        raise UsageError("; ".join(map(str, lost)))
    if verbosity >= 0 and all(output != STDOUT for _, output in wanted):
        announce(report, [output for _, output in wanted])


def _interruption(stop: Interrupted) -> str:
    """What Ctrl-C left: a report of what was judged before."""
    done = len(stop.report.results)
    return f"interrupted, {f'{done} of {stop.total} checks ran' if done else 'no report'}"


def _pairs(option: str, words: tuple[str, ...], form: str, *, needs_value: bool) -> dict[str, str] | None:
    pairs = {}
    for word in words:
        name, _, value = (part.strip() for part in word.partition("="))
        if not name or (needs_value and not value):
            raise UsageError(f"{option} {word}: expected {form.replace('DG401', name or 'DG401')}")
        pairs[name] = value
    return pairs or None
