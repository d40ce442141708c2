"""The HTML page of `dataguard bench`: which setting is faster, a chart of the worker counts, where the time goes."""

from __future__ import annotations

import statistics
from typing import Any

from dataguard.figures import Line, Plot
from dataguard.render.html.figures import FigureRenderer, View
from dataguard.render.html.templating import page
from dataguard.render.timings import (
    device_lines,
    epoch_size,
    machine,
    method,
    not_measured,
    race_rows,
    races,
    stage_rows,
    step_rows,
    verdict,
)
from dataguard.timings import Bench, LoaderTimes, Timed


def render(bench: Bench, *, unicode: bool = True, **look: Any) -> str:
    """Return the measurements as one HTML document; `look` is ignored."""
    plots = {loader.name: plot for loader in bench.loaders if (plot := throughput(loader))}
    studio = FigureRenderer(plots.values())
    return page(
        "bench.html.j2",
        unicode=unicode,
        target=bench.target,
        machine=machine(bench),
        method=method(bench),
        loaders=[_loader(loader, plots.get(loader.name), studio) for loader in bench.loaders],
    )


def throughput(loader: LoaderTimes) -> Plot | None:
    """The throughput of each worker count, with the lowest and highest round; None if there is nothing to compare."""
    measured: dict[int, Timed] = {}
    for timed in loader.workers:
        if timed.per_batch:
            measured.setdefault(timed.setting.workers, timed)
    if len(measured) < 2:
        return None
    units, each = ("samples", loader.batch_size) if loader.batch_size else ("batches", 1)
    counts = sorted(measured)
    middle = [each / statistics.median(measured[count].per_batch) for count in counts]
    spread = [(each / max(times), each / min(times)) for times in (measured[count].per_batch for count in counts)]
    best = max(range(len(counts)), key=middle.__getitem__)
    return Plot(
        f"{units.capitalize()} per second by number of workers",
        f"Highest with {counts[best]}: {middle[best]:,.4g} {units} per second. The band spans all rounds.",
        "workers",
        f"{units} per second",
        (Line(loader.name, tuple((float(x), y) for x, y in zip(counts, middle, strict=True)), tuple(spread)),),
    )


def _loader(loader: LoaderTimes, plot: Plot | None, studio: FigureRenderer) -> View:
    return {
        "name": loader.name,
        "size": epoch_size(loader),
        "verdicts": [verdict(loader, race) for race in races(loader).values()],
        "plot": plot and studio.draw(plot),
        "not_measured": [words for race in races(loader).values() for words in not_measured(loader, race)],
        "races": [race_rows(title, loader, race) for title, race in races(loader).items()],
        "stages": stage_rows(loader.stages),
        "steps": step_rows(loader) if loader.waits else [],
        "device": list(device_lines(loader)) if loader.device else [],
        "notes": loader.notes,
    }
