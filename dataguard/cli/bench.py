"""`dataguard bench`: how fast loaders are under different settings, and where their time goes."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from dataguard.cli.console import STDOUT, destinations, format_option, progress, put, say
from dataguard.core.model import UsageError
from dataguard.render.formats import renderer
from dataguard.settings.parsers import EVERY_METHOD, MOST_WORKERS
from dataguard.settings.settings import Settings, resolve
from dataguard.settings.target_spelling import suggest
from dataguard.targets.spelling import require_findable

if TYPE_CHECKING:
    from dataguard.measured import Bench, BenchOptions

_FUNCTION = re.compile(r"[\w.-]+:[^\W\d][\w.]*")
_EXAMPLES = """\b
Examples:
  dataguard bench mypkg.data:make_loaders --loader train
  dataguard bench mypkg.data:make_loaders --workers 0,2,4,8 --step-ms 85
  dataguard bench mypkg.data:make_loaders --format json --output bench.json
  dataguard bench 'run train.py --data data'
"""


def _default(setting: str) -> str:
    return f"[default: {getattr(Settings(), setting):g}]"


@click.command(short_help="Measure how fast loaders are, and which settings are faster.", epilog=_EXAMPLES)
@click.argument("target", metavar="[TARGET]", required=False)
@click.option("--arg", "args", metavar="NAME=VALUE", multiple=True, help="Argument of the factory: JSON, else text.")
@click.option("--loader", "names", metavar="NAME", multiple=True, help="Measure only this loader. [default: all]")
@click.option("--workers", metavar="N,N,...", help="Worker counts to try. [default: up to twice the cores]")
@click.option("--step-ms", metavar="MS", help="Duration of a training step. [default: contract.step_ms]")
@click.option("--step", metavar="PKG.MOD:FUNCTION", help="A training step: a function of a batch.")
@click.option("--budget", metavar="SECONDS", help=f"Time limit for each loader. {_default('budget')}")
@click.option("--timeout", metavar="SECONDS", help=f"No progress for this long is a hang. {_default('timeout')}")
@click.option("--seed", metavar="N", help=f"Seed python, numpy and torch before the factory. {_default('seed')}")
@format_option("bench", multiple=True)
@click.option("--output", "outputs", metavar="FILE", multiple=True, help="Where to write; the suffix sets the format.")
@click.option("--config", metavar="FILE", help="Settings file, instead of dataguard.toml or pyproject.toml.")
def bench(
    target: str | None,
    names: tuple[str, ...],
    workers: str | None,
    step_ms: str | None,
    step: str | None,
    formats: tuple[str, ...],
    outputs: tuple[str, ...],
    config: str | None,
    args: tuple[str, ...],
    **options: Any,
) -> int:
    """Measure how fast the loaders of TARGET are with different worker counts, and where the time of a batch goes.

    The fastest setting is shown as a change of your line. Of a script, forks train with it and without, in turns.
    Differences within noise are reported as "cannot tell".
    """
    settings = resolve(config, targets=(target,) if target else None, args=args or None, **options)
    if len(settings.targets) != 1:
        raise UsageError("bench measures one target; name it: `dataguard bench mypkg.data:make_loader`")
    places = destinations("bench", formats, outputs)
    wanted = _wanted(workers, step_ms, step, settings)
    made = measure(settings.targets[0], settings, wanted, names)
    for form, output in places:
        put(partial(renderer("bench", form), made), output)
    if all(output != STDOUT for _, output in places):
        say(f"dataguard: written to {', '.join(output for _, output in places)}", err=True)
    return 0


def measure(spelling: str, settings: Settings, wanted: BenchOptions, names: Sequence[str] = ()) -> Bench:
    """Measure the loaders of a target that `names` lists, or all of them.

    Raises UsageError for a wrong target or name, and for a loader that does not run.
    """
    from dataguard.machine.machine import identity  # here, as other commands do not need what these import
    from dataguard.measured import Bench
    from dataguard.process.session import Session

    require_findable([spelling], settings.import_path)
    settings = settings.of_target(spelling)
    started = time.monotonic()
    method = None if settings.start_method == EVERY_METHOD else settings.start_method
    with Session(spelling, replace(settings, all=False, start_method=method)) as session, progress() as terminal:
        loaders = session.loaders()
        for name in names:
            if name not in loaders:
                raise UsageError(f"--loader {name}: no such loader in {spelling}{suggest(name, loaders)}")
        measured = []
        for name in [name for name in loaders if not names or name in names]:
            if terminal:
                terminal.show(f"measuring {name}")
            # The budget applies to each loader.
            measured.append(session.bench(name, wanted))
        environment = session.environment
    facts = {key: environment[key] for key in ("python", "platform", "packages") if key in environment}
    device = next((str(times.device["name"]) for times in measured if "name" in times.device), None)
    return Bench(spelling, {**identity(), "accelerator": device}, facts, tuple(measured), time.monotonic() - started)


def _wanted(workers: str | None, step_ms: str | None, step: str | None, settings: Settings) -> BenchOptions:
    if step is not None and step_ms is not None:
        raise UsageError("--step and --step-ms exclude each other: give the step or its duration")
    if step is not None and not _FUNCTION.fullmatch(step):
        raise UsageError(f"--step {step}: expected pkg.mod:function")
    from dataguard.measured import BenchOptions

    declared = settings.contract.get("step_ms") if step is None else None
    return BenchOptions(_counts(workers), _milliseconds(step_ms) if step_ms is not None else declared, step)


def _counts(words: str | None) -> tuple[int, ...]:
    if words is None:
        return ()
    numbers = [word.strip() for word in words.split(",")]
    if not all(re.fullmatch(r"\d{1,9}", number) for number in numbers):
        raise UsageError(f"--workers {words}: expected integers separated by commas, such as 0,2,4")
    counts = tuple(dict.fromkeys(map(int, numbers)))
    if max(counts) > MOST_WORKERS:
        raise UsageError(f"--workers {words}: at most {MOST_WORKERS} workers are allowed")
    return counts


def _milliseconds(word: str) -> float:
    try:
        number = float(word)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e9:
        raise UsageError(f"--step-ms {word}: expected a positive number of milliseconds")
    return number
