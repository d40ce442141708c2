"""DG105: spawned and forked workers return different samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.randomness.start_methods import SPAWN, differing_items, diverging_line, freed_views, spawn_trial
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, Undecided

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG105", "spawn-divergence", Severity.ERROR)
def dg105_spawn_divergence(lab: Lab) -> Judgement:
    """Spawned workers start, but return other samples than forked ones: a warning where fork is the platform's default.

    Symptom: no error; the same code trains on different data on macOS, on Windows, or when the default start method
        of Python changes.
    Cause: a spawned worker imports every module again and receives the dataset through pickle. Module globals and class
        attributes set at run time are back at their defaults, what `__getstate__` drops is missing, and a numpy view of
        a tensor no longer shares its memory, or has lost it. Batches with a tensor and a view of it lose that
        wherever workers are used.
    Fix: pass values set at run time to the dataset as attributes, set them again in `worker_init_fn`, or include them
        in `__getstate__`; keep a tensor or its numpy view, not both.
    Links: https://docs.pytorch.org/docs/stable/data.html#platform-specific-behaviors
    """
    if lab.facts.num_workers == 0:
        raise NotApplicable("num_workers=0: no worker starts")
    if (yield from freed_views(lab)):
        return Coverage({})
    if lab.facts.spawns and lab.facts.kind == "stream":
        return (yield from _stream(lab))
    differing, coverage = (_spawned if lab.facts.spawns else _forked)(lab)
    where = "of the stream" if lab.facts.kind == "stream" else "of index {}"
    for path in sorted(differing, key=lambda path: (not path.startswith("sample"), path))[:1]:
        method = lab.facts.start_method if lab.facts.spawns else SPAWN
        yield Finding(
            message=f"{path} {where.format(differing[path][0])} differs between fork and {method}",
            evidence={
                "leaf": path,
                "samples that differ": list(differing[path]),
                "samples compared": coverage.exercised["items"],
                "frozen RNGs": "those of python, numpy and torch" if lab.facts.spawns else "all that were found",
            },
            at=diverging_line(lab),
            ambiguous=not lab.facts.spawns,
        )
    return coverage


Differing = Mapping[str, Sequence[str]]
"""The samples in which a leaf differs, by its path."""


def _spawned(lab: Lab) -> tuple[Differing, Coverage]:
    """The loader's own workers, compared with forked ones."""
    same_items = lab.randomness.same_items
    spawned, forked = same_items(), same_items(method="fork")
    if differing_items(spawned, forked):  # not by chance, as what varies rarely does
        spawned, forked = same_items(0), same_items(0, method="fork")
    if spawned.shown != forked.shown:
        raise Undecided("the loader draws different indices in each run, so their samples cannot be compared")
    exercised = {"draws": forked.draws, "items": forked.items, "workers": forked.workers}
    return differing_items(spawned, forked), Coverage(exercised)


def _forked(lab: Lab) -> tuple[Differing, Coverage]:
    """The trial of a spawned worker, if fork is only the default here."""
    trial = spawn_trial(lab)
    if trial.failure:
        # Worded unlike the reason of a loader that does not run: this one does, with its own workers.
        raise NotApplicable(f"spawned workers do not start: {trial.failure.headline} (see DG104)")
    return trial.differing, Coverage({"items": trial.items})


def _stream(lab: Lab) -> Judgement:
    """The same for a stream: its samples are compared in whatever order they come."""
    workers, start = lab.facts.num_workers, lab.facts.start_method
    observe = partial(lab.streams.stream, workers, seeded=True, frozen=True)
    spawned, forked = observe(), observe(method="fork")
    paths = spawned.differing(forked)
    if paths:  # and not because every run differs
        unsteady = {*spawned.differing(observe(run=1)), *forked.differing(observe(method="fork", run=1))}
        paths = [path for path in paths if path not in unsteady]
    if paths:
        yield Finding(
            message=f"sample{paths[0]} of the stream differs between fork and {start}",
            evidence={
                "leaves": [f"sample{path}" for path in paths],
                f"samples under {start}": spawned.total,
                "samples under fork": forked.total,
                "frozen RNGs": "all that were found",
            },
            at=diverging_line(lab),
        )
    return Coverage({"samples": spawned.total, "workers": workers})
