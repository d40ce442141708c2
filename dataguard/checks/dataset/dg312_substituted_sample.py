"""DG312: a silent substitute for a sample that cannot be read."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.drift import unsteady
from dataguard.checks.dataset.replaced_samples import equal_index, is_flagged, is_replaced, unlike
from dataguard.model import Coverage, Finding, Judgement, Location, NotTested, Severity, Undecided, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG312", "substituted-sample", Severity.WARNING)
def dg312_substituted_sample(lab: Lab) -> Judgement:
    """A sample whose file or encoded content is missing or unreadable is silently replaced by something else.

    Symptom: no error, however many files are lost: some samples occur twice, or black images keep the labels of the
        images that they replace; or training stands still, since a worker waits for a file that is lost.
    Cause: `__getitem__` catches the error and falls back to the next index, a random one or zeros, or tries again
        without end.
    Fix: let it raise, or return None and drop it in collate_fn; count what is dropped. To continue anyway, make it
        visible: log a warning, or mark the sample with a flag or an ignored label.
    Links: https://docs.pytorch.org/docs/stable/data.html#working-with-collate-fn
    """
    sample, substitutes = lab.dataset.sample_sources, lab.dataset.substitutes
    looked = {"files": len(sample.sources), "substitutes": len(substitutes)}
    for substitute in substitutes:
        if substitute.endlessly:
            name = substitute.source.shown
            fact = f"dataset[{sample.whole.index}] never returns if {name} cannot be read: it tries endlessly"
            yield Finding(fact, {"file": substitute.source.name}, Location(*substitute.endlessly))
            return Coverage(looked)
    replaced = [substitute for substitute in substitutes if is_replaced(sample, substitute)]
    for substitute in replaced:
        if substitute.opened:
            name = substitute.source.shown
            raise NotTested(f"{name} is opened by native code; a missing file cannot be simulated")
    if replaced and set(unlike(sample, replaced[0].answer)) & unsteady(lab):
        raise Undecided("the sample under test varies from read to read")
    note: str | None = None
    for substitute in replaced:
        instead = [Path(path).name for path in substitute.instead if path not in sample.opened]
        if is_flagged(sample, substitute.answer, lab.epoch.samples):
            continue
        same = equal_index(sample, substitute.answer, lab.epoch.samples)
        what = f"dataset[{same}]" if same is not None else "a constant" if substitute.constant else "something else"
        fact = f"dataset[{sample.whole.index}] without {substitute.source.shown} returns {what}"
        if substitute.warning:
            note = note or f"{fact} and warns: {textwrap.shorten(substitute.warning, 100)}"
            continue
        yield Finding(
            message=f"{fact} and raises nothing",
            evidence=without_empty(
                {
                    "file": substitute.source.name if substitute.source.is_file else None,
                    "read instead": instead[:4],
                    "leaves": [f"sample{path}" for path in unlike(sample, substitute.answer)],
                }
            ),
            at=lab.dataset.location,
        )
        break
    return Coverage(looked, note=note)
