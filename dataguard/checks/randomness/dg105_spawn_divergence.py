"""DG105: spawned and forked workers return different samples."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.start_methods import DEFAULT_ELSEWHERE
from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity, Undecided
from dataguard.stats.coincidence import is_random

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.randomness.same_items import SameItems


@check("DG105", "spawn-divergence", Severity.ERROR)
def dg105_spawn_divergence(lab: Lab) -> Judgement:
    """Spawned workers start, but return other samples than forked ones: a warning where fork is the platform's default.

    Symptom: no error; the same code trains on different data on macOS, on Windows, or when the default start method
        of Python changes.
    Cause: a spawned worker imports every module again and receives the dataset through pickle. Module globals and class
        attributes set at run time are back at their defaults, what `__getstate__` drops is missing, and a numpy view of
        a tensor no longer shares its memory, or has lost it.
    Fix: pass values set at run time to the dataset as attributes, set them again in `worker_init_fn`, or include them
        in `__getstate__`; keep a tensor or its numpy view, not both.
    Links: https://docs.pytorch.org/docs/stable/data.html#platform-specific-behaviors
    """
    if lab.facts.num_workers == 0:
        raise NotApplicable("num_workers=0: no worker starts")
    if not lab.facts.spawns:
        return (yield from _forked(lab))
    if lab.facts.kind == "stream":
        return (yield from _stream(lab))
    spawned, forked = lab.randomness.same_items(), lab.randomness.same_items(method="fork")
    if spawned.shown != forked.shown:
        raise Undecided("the loader draws different indices in each run, so their samples cannot be compared")
    paths = {*spawned.seeded, *forked.seeded}
    for path in sorted(paths, key=_samples_first):
        wrong = _wrong(path, spawned, forked)
        if wrong:
            yield Finding(
                message=f"{path} of index {wrong[0]} differs between fork and {lab.facts.start_method}",
                evidence={
                    "leaf": path,
                    "indices that differ": wrong,
                    "indices compared": forked.items,
                    "frozen RNGs": "those of python, numpy and torch",
                },
            )
            break
    return Looked({"draws": forked.draws, "items": forked.items, "workers": forked.workers})


def _wrong(path: str, spawned: SameItems, forked: SameItems) -> list[str]:
    """The indices whose leaf is the same in every forked worker, but differs in the first spawned worker."""
    drawn = forked.seeded.get(path, {})
    groups, found = drawn.get((0, 0), ()), spawned.seeded.get(path, {}).get((0, 0), ())
    if is_random(groups) or any(other != groups for (_, epoch), other in drawn.items() if not epoch):
        return []
    items = len(forked.shown)
    if not groups or not found:
        return list(forked.shown)
    differ = {number % items for number, (one, two) in enumerate(zip(groups, found, strict=True)) if one != two}
    return [forked.shown[item] for item in sorted(differ)]


def _forked(lab: Lab) -> Judgement:
    """The same for a loader whose workers are forked, if only because that is the default here."""
    if lab.facts.start_given:
        raise NotApplicable(f"the loader asks for {lab.facts.start_method}, which pickles nothing")
    trial = lab.randomness.spawn_trial
    if trial.failure:
        raise NotApplicable(f"see DG104: under spawn, {trial.failure.headline}")
    where = "of the stream" if lab.facts.kind == "stream" else "of index {}"
    for path in sorted(trial.differing, key=_samples_first)[:1]:
        found = trial.differing[path]
        yield Finding(
            message=f"{path} {where.format(found[0])} differs between fork and spawn ({DEFAULT_ELSEWHERE})",
            evidence={
                "leaf": path,
                "samples that differ": list(found),
                "samples compared": trial.items,
                "frozen RNGs": "all that were found",
            },
            mild=True,
        )
    return Looked({"samples": trial.items})


def _samples_first(path: str) -> tuple[bool, str]:
    return not path.startswith("sample"), path


def _stream(lab: Lab) -> Judgement:
    """The same for a stream: its samples are compared in whatever order they come."""
    workers, start = lab.facts.num_workers, lab.facts.start_method
    look = partial(lab.streams.stream, workers, seeded=True, frozen=True)
    spawned, forked = look(), look(method="fork")
    paths = spawned.differing(forked)
    if paths:  # and not because every run differs
        unsteady = {*spawned.differing(look(run=1)), *forked.differing(look(method="fork", run=1))}
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
        )
    return Looked({"samples": spawned.total, "workers": workers})
