"""DG312: a silent substitute for a sample that cannot be read.

A sample is replaced if without its file the dataset returns one of the same structure with another input; a mask, a
flag or an ignored label makes that visible.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.drift import unsteady
from dataguard.core.model import Coverage, Finding, Judgement, NotTested, Severity, Undecided, without_empty

if TYPE_CHECKING:
    from dataguard.lab.core.records import SampleRecord
    from dataguard.lab.dataset.missing_file import SampleSources, Substitute
    from dataguard.lab.lab import Lab
    from dataguard.lab.reading.sample_reader import Answer

FEWEST_VALUES = 8
"""A leaf of fewer values is not what a decoder made of a file. Chosen: two boxes have as many."""
CLASS_SHARE = 0.25
"""The share of distinct values below which a leaf counts as a class or a flag. Chosen, not derived."""


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
    exercised = {"files": len(sample.sources), "substitutes": len(substitutes)}
    for number, substitute in enumerate(substitutes):
        if substitute.endlessly:
            name = substitute.source.shown
            fact = f"dataset[{sample.whole.index}] never returns if {name} cannot be read: it tries endlessly"
            yield Finding(
                fact, {"fix here": _LIMIT, "file": substitute.source.name}, lab.dataset.substituting_line(number)
            )
            return Coverage(exercised)
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
                    "fix here": "let the error rise, or return None and leave that out in collate_fn",
                    "file": substitute.source.name if substitute.source.is_file else None,
                    "read instead": instead[:4],
                    "leaves": [f"sample{path}" for path in unlike(sample, substitute.answer)],
                }
            ),
            at=lab.dataset.substituting_line(substitutes.index(substitute)),
        )
        break
    return Coverage(exercised, note=note)


_LIMIT = "raise after a few attempts"


def unlike(sample: SampleSources, answer: Answer) -> list[str]:
    """The leaves that are no longer what they are in every read of the whole sample."""
    stable = {path: digest for path, digest in sample.whole.digests.items() if sample.again.digests.get(path) == digest}
    return [path for path, digest in stable.items() if answer.digests.get(path) != digest]


def is_replaced(sample: SampleSources, substitute: Substitute) -> bool:
    """Whether a sample of the same structure was returned, with another input."""
    if substitute.answer.incident or substitute.answer.form != sample.whole.form:
        return False
    sizes = {leaf.path: math.prod(leaf.shape or ()) for leaf in sample.whole.leaves}
    least = max(sizes.values()) if substitute.source.first else FEWEST_VALUES
    return any(sizes[path] >= least for path in unlike(sample, substitute.answer))


def is_flagged(sample: SampleSources, answer: Answer, samples: Sequence[SampleRecord]) -> bool:
    """Whether a mask, a flag or an ignored label marks the substitute: a value of few that no ordinary sample has."""
    kinds = {leaf.path: leaf.dtype for leaf in answer.leaves}
    for path in unlike(sample, answer):
        if kinds[path] == "bool":
            return True
        seen = {leaf.digest for sample in samples for leaf in sample.leaves if leaf.path == path and not leaf.shape}
        if seen and len(seen) < max(CLASS_SHARE * len(samples), 2) and answer.digests[path] not in seen:
            return True
    return False


def equal_index(sample: SampleSources, answer: Answer, samples: Sequence[SampleRecord]) -> object:
    """The index of the sample that was returned instead, if it was read before."""
    changed = set(unlike(sample, answer))
    wanted = {(path, digest) for path, digest in answer.digests.items() if path in changed}
    return next((sample.index for sample in samples if wanted <= set(sample.digest)), None)
