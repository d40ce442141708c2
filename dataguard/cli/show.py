"""`dataguard show`: single samples of a loader, printed and drawn."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from dataguard.cli.console import STDOUT, destinations, format_option, put
from dataguard.core.figures import Wanted
from dataguard.core.model import UsageError
from dataguard.render.formats import renderer
from dataguard.settings.settings import Settings, resolve
from dataguard.settings.target_spelling import script_of

FAILED = 1
"""The exit code when a sample cannot be read."""
MOST_SAMPLES = 64
"""The most samples that are shown at once: they are written when all are read, and a page holds their images."""
_EXAMPLES = """\b
Examples:
  dataguard show mypkg.data:make_loaders 20
  dataguard show mypkg.data:make_loaders 20 20 --loader val
  dataguard show mypkg.data:make_loaders 3 5 --batch
  dataguard show mypkg.data:make_loaders 20 --output sample.png
"""


@click.command(
    short_help="Print and draw single samples.",
    epilog=_EXAMPLES,
    context_settings={"ignore_unknown_options": True},  # -1 is an index
)
@click.argument("words", metavar="[TARGET] [INDEX]...", nargs=-1)
@click.option("--loader", metavar="NAME", help="The loader. [default: the first of TARGET]")
@click.option("--batch", is_flag=True, help="Also collate the samples, in a worker if the loader has any.")
@click.option("--repeat", metavar="N", default=1, type=click.IntRange(1), help="Read each sample N times in a row.")
@click.option("--arg", "args", metavar="NAME=VALUE", multiple=True, help="Argument of the factory: JSON, else text.")
@click.option(
    "--seed", metavar="N", help=f"Seed python, numpy and torch before the factory. [default: {Settings().seed}]"
)
@click.option("--timeout", metavar="SECONDS", help="No progress for this long is a hang.")
@format_option("show", multiple=True)
@click.option("--output", "outputs", metavar="FILE", multiple=True, help="Where to write; the suffix sets the format.")
@click.option("--config", metavar="FILE", help="Settings file, instead of dataguard.toml or pyproject.toml.")
def show(
    words: tuple[str, ...],
    loader: str | None,
    batch: bool,
    repeat: int,
    formats: tuple[str, ...],
    outputs: tuple[str, ...],
    config: str | None,
    args: tuple[str, ...],
    **options: Any,
) -> int:
    """Print the samples of TARGET at these indices: shape, dtype and range of each leaf, the label, and pictures.

    An INDEX is what the dataset takes, 0 if none is given; of a stream, it is a position. Samples are read in this
    order in one process, so that a sample given twice shows what is random in it. A digest stands for the content of a
    leaf. Exits with 1 if a sample cannot be read.
    """
    given = words[:1] if words and (":" in words[0] or script_of(words[0])) else ()
    settings = resolve(config, targets=given or None, args=args or None, **options)
    if len(settings.targets) != 1:
        raise UsageError("show takes one target; name it: `dataguard show mypkg.data:make_loader 0`")
    wanted = Wanted(_indices(words[len(given) :]), batch, repeat)
    places = destinations("show", formats, outputs)
    if ("png", STDOUT) in places:
        raise UsageError("--format png: name a file: --output sample.png")
    from dataguard.engine import show as engine

    views = engine(settings.targets[0], wanted, settings, loader)
    for form, output in places:
        put(partial(renderer("show", form), views), output)
    return FAILED if views.failed else 0


def _indices(words: Sequence[str]) -> tuple[Any, ...]:
    """Indices as Python writes them: 3, -1, (0, 2); any other word is a key."""
    if len(words) > MOST_SAMPLES:
        raise UsageError(f"{len(words)} samples: show at most {MOST_SAMPLES} at once")
    return tuple(map(_index, words)) or (0,)


def _index(word: str) -> Any:
    if word.startswith("--"):
        raise UsageError(f"no such option: {word}")
    try:
        index = ast.literal_eval(word)
    except (ValueError, SyntaxError):
        return word
    return index if isinstance(index, int | str | tuple) else word
