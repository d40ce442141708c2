"""The HTML pages of `dataguard bench`, `doctor`, `list` and `show`; that of a scan is in `report.py`."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

from dataguard.core.figures import Line, Pictures, Plot, SampleViews
from dataguard.core.model import Check
from dataguard.machine.checkup import Checkup
from dataguard.machine.units import counted
from dataguard.measured import Bench, LoaderTimes, Timed
from dataguard.render.check_pages import grouped
from dataguard.render.html.figures import FigureRenderer, View
from dataguard.render.html.templating import page
from dataguard.render.machine import library_rows, machine_rows
from dataguard.render.sample import shape_of
from dataguard.render.timings import (
    advised,
    changed_place,
    device_lines,
    epoch_size,
    machine,
    method,
    not_measured,
    race_rows,
    races,
    stage_rows,
    step_rows,
    tried_words,
    verdict,
)


def render_bench(bench: Bench, *, unicode: bool = True, **look: Any) -> str:
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
    advice = loader.advice
    tried = [race_rows(f"in {advice.script}", loader, advice.tried)] if advice and advice.tried else []
    return {
        "name": loader.name,
        "size": epoch_size(loader),
        "verdicts": [verdict(loader, race) for race in races(loader).values()],
        "plot": plot and studio.draw(plot),
        "not_measured": [words for race in races(loader).values() for words in not_measured(loader, race)],
        "races": [race_rows(title, loader, race) for title, race in races(loader).items()] + tried,
        "stages": stage_rows(loader.stages),
        "steps": step_rows(loader) if loader.waits else [],
        "device": list(device_lines(loader)) if loader.device else [],
        "advice": tried_words(loader, advice) if advice else [],
        "change": changed_place(advice) if advice else None,
        "diff": advised(loader, advice) if advice else [],
        "notes": loader.notes,
    }


def render_checkup(seen: Checkup, *, unicode: bool = True, **look: Any) -> str:
    """Return the checkup as one HTML document, problems first; `look` is ignored."""
    problems = [remark for remark in seen.remarks if remark.wrong]
    return page(
        "doctor.html.j2",
        unicode=unicode,
        version=seen.version,
        verdict=counted(len(problems), "problems") if problems else "no problems",
        problems=problems,
        notes=[remark for remark in seen.remarks if not remark.wrong],
        tables=[("Machine", machine_rows(seen)), ("Libraries", library_rows(seen))],
    )


def render_checks(checks: Iterable[Check], *, unicode: bool = True, **look: Any) -> str:
    """Return all checks by group as one HTML document; `look` is ignored."""
    by_code = {check.code: check for check in checks}
    groups = [(title, [by_code[code] for code in codes]) for title, codes in grouped(by_code).items()]
    return page("list.html.j2", unicode=unicode, groups=groups, count=len(by_code))


def render_sample(views: SampleViews, *, unicode: bool = True, document: bool = True, **look: Any) -> str:
    """Return the samples as one HTML document, or without `document` what a notebook embeds; `look` is ignored."""
    figures = [
        Pictures(sample.name, "", ("",), tuple(picture.label for picture in sample.pictures), (sample.pictures,))
        for sample in views.samples
    ]
    studio = FigureRenderer(figures)
    samples = [
        {
            "name": sample.name,
            "error": sample.error,
            "sources": sample.sources,
            "figure": studio.draw(figure) if sample.pictures else None,
            "rows": [
                ["leaf", "type", "shape", "values", "digest", ""],
                *(
                    [leaf.path, leaf.type, shape_of(leaf), leaf.values, leaf.digest, leaf.note]
                    for leaf in sample.leaves
                ),
            ],
        }
        for sample, figure in zip(views.samples, figures, strict=True)
    ]
    return page(
        "sample.html.j2",
        layout="page.html.j2" if document else "notebook.html.j2",
        unicode=unicode,
        target=views.target,
        loader=views.loader,
        samples=samples,
    )
