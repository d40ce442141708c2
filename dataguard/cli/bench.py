"""`dataguard bench`: how fast loaders are under several settings, and where their time goes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from dataguard.cli.console import STDOUT, destinations, progress, put
from dataguard.machine.machine import identity
from dataguard.model import UsageError
from dataguard.process.session import Session
from dataguard.settings.parsers import EVERY_METHOD
from dataguard.settings.settings import Settings, resolve
from dataguard.settings.suggestions import suggest
from dataguard.timings import HOST, Bench, Change, Wanted, changes, from_file, need_alike

SLOWER = 1
"""The exit code when the user's own setting has become slower."""
_MOST_WORKERS = 256
_FORMATS = ("text", "json")
_FORMAT_HELP = "What to write: text, json. [default: text]"
_FUNCTION = re.compile(r"[\w.-]+:[^\W\d][\w.]*")
_EXAMPLES = """\b
Examples:
  dataguard bench mypkg.data:make_loaders --loader train
  dataguard bench mypkg.data:make_loaders --workers 0,2,4,8 --step-ms 85
  dataguard bench mypkg.data:make_loaders --format json --output before.json
  dataguard bench mypkg.data:make_loaders --compare before.json
"""


def _default(setting: str) -> str:
    return f"[default: {getattr(Settings(), setting):g}]"


@click.command(short_help="Measure how fast loaders are, and under which settings they are faster.", epilog=_EXAMPLES)
@click.argument("target", metavar="[TARGET]", required=False)
@click.option("--loader", "names", metavar="NAME", multiple=True, help="Measure only this one. [default: all]")
@click.option("--workers", metavar="N,N,...", help="Worker counts to try. [default: up to twice the cores]")
@click.option("--step-ms", metavar="MS", help="How long a training step takes. [default: contract.step_ms]")
@click.option("--step", metavar="PKG.MOD:FUNCTION", help="A training step: a function of a batch.")
@click.option("--budget", metavar="SECONDS", help=f"Time for each loader. {_default('budget')}")
@click.option("--timeout", metavar="SECONDS", help=f"No progress for so long is a hang. {_default('timeout')}")
@click.option("--seed", metavar="N", help=f"Seed before the factory is called. {_default('seed')}")
@click.option("--compare", metavar="FILE", help="Compare with the JSON of an earlier run on this machine.")
@click.option("--format", "formats", metavar="FORMAT", type=click.Choice(_FORMATS), multiple=True, help=_FORMAT_HELP)
@click.option("--output", "outputs", metavar="FILE", multiple=True, help="For each --format, in order; - is stdout.")
@click.option("--config", metavar="FILE", help="Settings file instead of dataguard.toml or pyproject.toml.")
def bench(
    target: str | None,
    names: tuple[str, ...],
    workers: str | None,
    step_ms: str | None,
    step: str | None,
    compare: str | None,
    formats: tuple[str, ...],
    outputs: tuple[str, ...],
    config: str | None,
    **options: Any,
) -> int:
    """Measure how fast the loaders of TARGET are: numbers of workers in turns, and where the time of a batch goes.

    What chance could explain is not told apart, and said so. Exits with 1 when --compare finds the loader's own setting
    to be slower than before.
    """
    settings = resolve(config, targets=(target,) if target else None, **options)
    if len(settings.targets) != 1:
        raise UsageError("bench measures one target: name it, such as `dataguard bench mypkg.data:make_loader`")
    places = destinations(formats, outputs)
    earlier = from_file(Path(compare)) if compare is not None else None
    if earlier is not None:
        here = identity()
        need_alike(earlier, settings.targets[0], here)  # before anything is measured
        if earlier.machine.get(HOST) != here[HOST]:
            host = earlier.machine.get(HOST)
            click.echo(
                f"dataguard: the earlier run was made on {host}, a machine like this one, {here[HOST]}", err=True
            )
    wanted = _wanted(workers, step_ms, step, settings)
    made = measure(settings.targets[0], settings, wanted, names)
    found = changes(made, earlier) if earlier is not None else ()
    for form, output in places:
        put(partial(_RENDERERS[form], made, found), output)
    if all(output != STDOUT for _, output in places):
        click.echo(f"dataguard: written to {', '.join(output for _, output in places)}", err=True)
    return SLOWER if any(change.own and change.words == "slower" for change in found) else 0


def measure(spelling: str, settings: Settings, wanted: Wanted, names: Sequence[str] = ()) -> Bench:
    """Measure loaders of a target; all of them without `names`.

    Raises UsageError for a target or name that makes no sense, and for a loader that does not run.
    """
    started = time.monotonic()
    method = None if settings.start_method == EVERY_METHOD else settings.start_method
    with Session(spelling, replace(settings, all=False, start_method=method)) as session, progress() as listen:
        known = session.loaders()
        for name in names:
            if name not in known:
                raise UsageError(f"--loader {name}: {spelling} has no such loader{suggest(name, known)}")
        measured = []
        for name in [name for name in known if not names or name in names]:
            if listen:
                listen("bench", name, None)
            # Each loader has the whole budget.
            measured.append(session.bench(name, wanted))
        environment = session.environment
    facts = {key: environment[key] for key in ("python", "platform", "packages") if key in environment}
    device = next((str(times.device["name"]) for times in measured if "name" in times.device), None)
    return Bench(spelling, {**identity(), "accelerator": device}, facts, tuple(measured), time.monotonic() - started)


def _wanted(workers: str | None, step_ms: str | None, step: str | None, settings: Settings) -> Wanted:
    if step is not None and step_ms is not None:
        raise UsageError("--step and --step-ms: give one of them, a step or how long it takes")
    if step is not None and not _FUNCTION.fullmatch(step):
        raise UsageError(f"--step {step}: expected pkg.mod:function")
    declared = settings.contract.get("step_ms") if step is None else None
    return Wanted(_counts(workers), _milliseconds(step_ms) if step_ms is not None else declared, step)


def _counts(words: str | None) -> tuple[int, ...]:
    if words is None:
        return ()
    numbers = [word.strip() for word in words.split(",")]
    if not all(re.fullmatch(r"\d{1,9}", number) for number in numbers):
        raise UsageError(f"--workers {words}: expected whole numbers with commas between them, such as 0,2,4")
    counts = tuple(dict.fromkeys(map(int, numbers)))
    if max(counts) > _MOST_WORKERS:
        raise UsageError(f"--workers {words}: at most {_MOST_WORKERS} workers can be tried")
    return counts


def _milliseconds(word: str) -> float:
    try:
        number = float(word)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e9:
        raise UsageError(f"--step-ms {word}: expected a positive number of milliseconds")
    return number


def _text(made: Bench, found: Sequence[Change], **look: Any) -> str:
    from dataguard.render.timings import render

    return render(made, found, **look)


def _json(made: Bench, _: Sequence[Change], **__: Any) -> str:
    return made.to_json()


_RENDERERS: Mapping[str, Callable[..., str]] = {"text": _text, "json": _json}
