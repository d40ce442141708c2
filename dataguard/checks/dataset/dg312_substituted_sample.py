"""DG312: a silent substitute for a sample that cannot be read."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.drift import unsteady
from dataguard.model import Finding, Judgement, Location, Looked, NotApplicable, Severity, Undecided, known

if TYPE_CHECKING:
    from dataguard.lab.core.records import SampleRecord
    from dataguard.lab.dataset.missing_file import SampleFile, Substitute
    from dataguard.lab.lab import Lab
    from dataguard.lab.reading.sample_reader import Answer

FEW = 0.25
"""The share of distinct values below which a leaf counts as a class or a flag."""


@check("DG312", "substituted-sample", Severity.WARNING)
def dg312_substituted_sample(lab: Lab) -> Judgement:
    """A sample whose file is missing or unreadable is silently replaced by something else.

    Symptom: no error, however many files are lost: some samples occur twice, or black images keep the labels of the
        images that they replace; or training stands still, since a worker waits for a file that is lost.
    Cause: `__getitem__` catches the error and falls back to the next index, a random one or zeros, or tries again
        without end.
    Fix: let it raise, or return None and drop it in collate_fn; count what is dropped. To continue anyway, make it
        visible: log a warning, or mark the sample with a flag or an ignored label.
    Links: https://docs.pytorch.org/docs/stable/data.html#working-with-collate-fn
    """
    source = lab.dataset.sample_file
    name, looked = Path(source.path).name, {"files": 1, "substitutes": len(lab.dataset.substitutes)}
    for line in (substitute.endlessly for substitute in lab.dataset.substitutes if substitute.endlessly):
        fact = f"dataset[{source.whole.index}] without {name} never returns: it tries endlessly to open the file"
        yield Finding(fact, {"file": source.path}, Location(*line))
        return Looked(looked)
    replaced = [substitute for substitute in lab.dataset.substitutes if _is_replaced(source, substitute)]
    if any(substitute.opened for substitute in replaced):
        raise NotApplicable(f"a library opens {name} past Python: it cannot be made to look missing")
    if replaced and set(_unlike(source, lab.dataset.substitutes[0].answer)) & unsteady(lab):
        raise Undecided("the sample under test varies from read to read")
    note: str | None = None
    for substitute in lab.dataset.substitutes:
        if not _is_replaced(source, substitute) or _is_flagged(source, substitute.answer, lab.epoch.samples):
            continue
        equal = _equal(source, substitute.answer, lab.epoch.samples)
        what = f"dataset[{equal}]" if equal is not None else "a constant" if substitute.constant else "something else"
        fact = f"dataset[{source.whole.index}] without {name} returns {what}"
        if substitute.warning:
            note = note or f"{fact} and warns: {textwrap.shorten(substitute.warning, 100)}"
            continue
        yield Finding(
            message=f"{fact} and raises nothing",
            evidence=known(
                {
                    "file": source.path,
                    "read instead": [Path(path).name for path in substitute.instead[:4]],
                    "leaves": [f"sample{path}" for path in _unlike(source, substitute.answer)],
                }
            ),
            at=lab.dataset.location,
        )
        break
    return Looked(looked, note=note)


def _unlike(source: SampleFile, answer: Answer) -> list[str]:
    stable = {path: one for path, one in source.whole.digests.items() if source.again.digests.get(path) == one}
    return [path for path, digest in stable.items() if answer.digests.get(path) != digest]


def _is_replaced(source: SampleFile, substitute: Substitute) -> bool:
    """Whether a sample of the same structure was returned, with another input."""
    if substitute.answer.incident or substitute.answer.form != source.whole.form:
        return False
    sizes = {leaf.path: math.prod(leaf.shape or ()) for leaf in source.whole.leaves}
    return any(sizes[path] == max(sizes.values()) for path in _unlike(source, substitute.answer))


def _is_flagged(source: SampleFile, answer: Answer, samples: Sequence[SampleRecord]) -> bool:
    """Whether a flag or an ignored label marks the substitute: a value of few that no ordinary sample has."""
    for path in _unlike(source, answer):
        seen = {leaf.digest for sample in samples for leaf in sample.leaves if leaf.path == path and not leaf.shape}
        if seen and len(seen) < max(FEW * len(samples), 2) and answer.digests[path] not in seen:
            return True
    return False


def _equal(source: SampleFile, answer: Answer, samples: Sequence[SampleRecord]) -> object:
    """The index of the sample that was returned instead, if it was read before."""
    unlike = set(_unlike(source, answer))
    wanted = {(path, digest) for path, digest in answer.digests.items() if path in unlike}
    return next((sample.index for sample in samples if wanted <= set(sample.digest)), None)
