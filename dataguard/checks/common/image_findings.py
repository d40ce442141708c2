"""Findings about image leaves and about the files they are decoded from. Standard library only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import isclose
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dataguard.checks.common.rewrites import Rewrite, rewritten
from dataguard.core.incident import observed_or_none
from dataguard.core.model import Finding, Location, without_empty
from dataguard.stats.normalization import BIG_STD, mixed_scales

if TYPE_CHECKING:
    from dataguard.lab.files.file_lines import FileStep
    from dataguard.lab.images.chart_fit import Fit
    from dataguard.lab.images.colour_lines import ColourStep
    from dataguard.lab.lab import Lab

MOST_STEPS = 8
"""Lines that are listed, the last ones: an image is seldom changed more often."""
LEAST_FACTOR = 100
"""By how much a division by 255 changes values at least; standard deviations change them less than tenfold."""


Step = TypeVar("Step", "ColourStep", "FileStep")
"""What a variable holds after a line; its `span` is the size of its range."""
Culprit = Callable[["Sequence[ColourStep]"], "ColourStep | None"]
"""Chooses the step after which the colours of an image are wrong."""


def image_finding(
    lab: Lab, wrong: Mapping[Fit, str], words: str, culprit: Culprit, rewrites: Sequence[Rewrite], otherwise: str
) -> Finding:
    """One finding for all wrong image leaves; `words` describe what is wrong with the first one.

    What to change is one of the rewrites of the line, or what is `otherwise` to be done.
    """
    colours = lab.images.charts
    fit = next(iter(wrong))
    steps = observed_or_none(lambda: lab.images.steps) or ()
    step = culprit(steps) if steps else None
    at = step.location if step else Location(*colours.at) if colours.at else lab.dataset.location
    return Finding(
        message=f"{colours.root}{fit.path} {words}",
        evidence=without_empty(
            {
                "fix here": rewritten(lab, at, *rewrites) or otherwise,
                "leaves": [f"{colours.root}{image.path}" for image in wrong],
                "line by line": [_described(each, each is step) for each in steps[-MOST_STEPS:]],
                **colours.evidence(fit),
            }
        ),
        at=at,
        repro=None if colours.collated or colours.index is None else lab.repro.samples(colours.index),
        sample=colours.index,
    )


def _described(step: ColourStep, marked: bool) -> str:
    where = f"{Path(step.file).name}:{step.line} {step.function if step.exact else step.name}"
    order = f" {('RGB', 'red in the middle', 'BGR')[step.red_plane]}" if len(step.red) == 3 else ""
    return f"{where}: {step.black[0]:g} to {step.white[0]:g}{order}{' (here)' if marked else ''}"


def last_reordering(steps: Sequence[ColourStep]) -> ColourStep:
    """The step that put channels in their last order: the one that decodes, if they stay as they were decoded."""
    orders = [step.red_plane for step in steps]
    changes = [number for number in range(1, len(steps)) if orders[number] != orders[number - 1]]
    return steps[changes[-1] if changes else 0]


def wrong_scaling(steps: Sequence[Step]) -> Step:
    """The step that scales once too often, or multiplies; without one, that which makes floats of unscaled values."""
    ratios = [step.span / before.span if before.span else 1.0 for before, step in pairwise(steps)]
    divisions = [number for number, ratio in enumerate(ratios, 1) if ratio < 1 / LEAST_FACTOR]
    products = [number for number, ratio in enumerate(ratios, 1) if ratio > LEAST_FACTOR]
    if products or len(divisions) > 1:
        return steps[(products or divisions)[-1]]
    if divisions:
        return steps[divisions[-1]]
    floats = [number for number, step in enumerate(steps) if step.is_float]
    return steps[floats[0]] if floats else steps[-1]


def divided_again(lab: Lab, fit: Fit) -> bool:
    """Whether an image is divided by 255 after its normalization.

    Its values are those of a standard deviation for bytes with a mean for values from 0 to 1, so that only the lines of
    code distinguish the two.
    """
    if mixed_scales(fit.gains, fit.offsets) != BIG_STD:
        return False
    steps = observed_or_none(lambda: lab.images.steps) or ()
    return any(all(before.black) and _is_divided(before, step) for before, step in pairwise(steps))


def _is_divided(before: ColourStep, step: ColourStep) -> bool:
    """Whether a step divides all values by 255, black too."""
    values, divided = (*before.black, *before.white), (*step.black, *step.white)
    return len(values) == len(divided) and all(
        isclose(value, 255 * less, rel_tol=_ROUNDED) for value, less in zip(values, divided, strict=True)
    )


_ROUNDED = 2e-3
"""Relative tolerance of a division by 255: levels have four digits, and 256 or 257 is further off."""


def last_shift(steps: Sequence[ColourStep]) -> ColourStep:
    """The last step that moves black, as a normalization does; the last one if none does."""
    shifts = [step for before, step in pairwise(steps) if step.black != before.black]
    return shifts[-1] if shifts else steps[-1]


def file_finding(
    lab: Lab, index: object, message: str, evidence: Mapping[str, object], at: Location | None = None
) -> Finding:
    """A finding about the file of one sample; `index` is its index, or its position in a stream."""
    indexed = lab.facts.kind == "map"
    return Finding(
        message=message,
        evidence={"index" if indexed else "position": index, **evidence},
        at=at or lab.dataset.location,
        repro=lab.repro.samples(index) if indexed else None,
        sample=index if indexed else None,
    )


def file_line(lab: Lab, index: Any, name: str, shows: Callable[[FileStep], bool] = lambda _: True) -> Location | None:
    """The first line after which what is held of a file shows this; without any, the line that decodes it."""
    steps = observed_or_none(lambda: lab.files.steps(index, name)) or ()
    step = next((step for step in steps if shows(step)), next(iter(steps), None))
    return step.location if step else None


def shown(file: str) -> str:
    """The name of an image: the last part of its path, or "an image" if it has no file of its own."""
    return Path(file).name if Path(file).is_absolute() else "an image"
