"""`dataguard fingerprint`: digests of what loaders yield, to compare machines, versions and months."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dataguard.cli.console import progress, require_writable, say
from dataguard.core.model import Finding, UsageError
from dataguard.render.escapes import one_line
from dataguard.settings.files import write_text
from dataguard.settings.settings import Settings, resolve
from dataguard.targets.spelling import require_findable

if TYPE_CHECKING:
    from dataguard.measured import Changed, Fingerprint

DIFFERS = 1
"""The exit code when a fingerprint differs."""
BATCHES = 4
"""How many batches are digested unless asked otherwise."""
_EXAMPLES = """\b
Examples:
  dataguard fingerprint mypkg.data:make_loaders
  dataguard fingerprint mypkg.data:make_loaders --output before.json
  dataguard fingerprint mypkg.data:make_loaders --against before.json
"""


@click.command(short_help="Write or compare digests of what loaders yield.", epilog=_EXAMPLES)
@click.argument("target", metavar="[TARGET]", required=False)
@click.option("--arg", "args", metavar="NAME=VALUE", multiple=True, help="Argument of the factory: JSON, else text.")
@click.option("--batches", metavar="N", default=BATCHES, type=click.IntRange(1), help="Batches.", show_default=True)
@click.option("--workers", metavar="N", help="Override the loader's num_workers.")
@click.option("--start-method", metavar="METHOD", help="Override the start method.")
@click.option(
    "--seed", metavar="N", help=f"Seed python, numpy and torch before the factory. [default: {Settings().seed}]"
)
@click.option("--timeout", metavar="SECONDS", help="No progress for this long is a hang.")
@click.option("--output", metavar="FILE", help="Write the fingerprints to this file.")
@click.option("--against", metavar="FILE", help="Compare with the fingerprints in this file.")
@click.option("--config", metavar="FILE", help="Settings file, instead of dataguard.toml or pyproject.toml.")
def fingerprint(
    target: str | None,
    batches: int,
    output: str | None,
    against: str | None,
    config: str | None,
    args: tuple[str, ...],
    **options: Any,
) -> int:
    """Digest some samples of the dataset and the first batches of each loader of TARGET.

    The digest is the same in every process and on every machine if the same seed gives the same data. With --against,
    it is compared with an earlier one: exits with 1 and names the first difference, and a generator without a seed if
    that is to blame.
    """
    settings = resolve(config, targets=(target,) if target else None, args=args or None, **options)
    if len(settings.targets) != 1:
        raise UsageError("fingerprint takes one target; name it: `dataguard fingerprint mypkg.data:make_loader`")
    if output is not None:
        require_writable("--output", output)
    from dataguard.measured import first_change, read, written  # here, as other commands do not need it

    earlier = read(Path(against)) if against is not None else {}
    current = taken(settings.targets[0], settings, batches)
    if output is not None:
        _write(Path(output), written(current))
    for now in current:
        say(f"{now.digest}  {one_line(now.loader)}")
    missing = [now.loader for now in current if now.loader not in earlier]
    if against is not None and missing:
        raise UsageError(f"{against} has no fingerprint of {', '.join(missing)}; it has {', '.join(earlier)}")
    changes = [(now, first_change(now, earlier[now.loader])) for now in current if now.loader in earlier]
    different = {now.loader for now, change in changes if change}
    unsteady = culprits(settings.targets[0], settings) if different else {}
    for now, change in changes:
        say(f"{one_line(now.loader)}: the same as in {against}" if change is None else _described(now, change))
        if change and now.loader in unsteady:
            say(f"  {one_line(_named(unsteady[now.loader]))}")
    return DIFFERS if different else 0


def taken(spelling: str, settings: Settings, batches: int) -> list[Fingerprint]:
    """The fingerprints of all loaders of a target. Raises UsageError for a loader that does not run."""
    from dataguard.process.session import Session

    require_findable([spelling], settings.import_path)
    with Session(spelling, replace(settings.of_target(spelling), all=False)) as session, progress() as terminal:
        fingerprints = []
        for name in session.loaders():
            if terminal:
                terminal.show(f"reading {name}")
            fingerprints.append(session.fingerprint(name, batches))
        environment = session.environment
    here = {name: environment[name] for name in ("python", "platform", "cores")} | environment["packages"]
    return [replace(now, conditions={**now.conditions, **here}) for now in fingerprints]


def culprits(spelling: str, settings: Settings) -> dict[str, Finding]:
    """By loader, what makes two runs from one seed differ on this machine, with nothing changed in between."""
    from dataguard.engine import scan

    contract = {**settings.contract, "deterministic": True}
    asked = replace(settings, select=("DG701",), ignore=(), expect={}, baseline=None, all=False, contract=contract)
    return {result.loader: result.findings[0] for result in scan((spelling,), asked).defects}


def _named(finding: Finding) -> str:
    return f"{finding.message}{f' at {finding.at}' if finding.at and str(finding.at) else ''}"


def _write(path: Path, content: str) -> None:
    try:
        write_text(path, content)
    except OSError as error:
        raise UsageError(f"--output {path}: {error.strerror}") from error


def _described(now: Fingerprint, change: Changed) -> str:
    leaves = f" ({', '.join(change.leaves)})" if any(change.leaves) else ""
    lines = [f"{now.loader}: differs first in {change.part.stage}: {change.part.what}{leaves}"]
    return "\n".join(map(one_line, [*lines, *(f"  {condition}" for condition in change.conditions)]))
