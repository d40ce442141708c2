"""DG302: a dataset that never raises IndexError."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity

if TYPE_CHECKING:
    from dataguard.lab.core.index import Index
    from dataguard.lab.dataset.index_ends import Ends
    from dataguard.lab.lab import Lab
    from dataguard.lab.reading.sample_reader import Answer


@check("DG302", "endless-index", Severity.ERROR)
def dg302_endless_index(lab: Lab) -> Judgement:
    """An index past the end returns a sample instead of raising IndexError.

    Symptom: `for sample in dataset` never ends, and an index that is too large silently returns a wrong sample. A
        warning for a loader whose sampler asks for no such index.
    Cause: the index is taken modulo the length, or clamped to the last sample.
    Fix: raise IndexError for an index outside range(len(self)). To repeat a dataset, use a sampler or a larger length.
    Links: https://docs.python.org/3/reference/datamodel.html#object.__getitem__
    """
    ends = lab.dataset.ends
    looked = {"reads": ends.reads}
    if ends.first_failing is not None or ends.beyond[0].incident:
        return Looked(looked)
    equals = {answer.index: _equal(answer, ends) for answer in ends.beyond if not answer.incident}
    if None in equals.values():  # a single equal sample may be chance: silence in audio, a title frame
        return Looked(looked, note=f"dataset[{ends.length}] does not raise IndexError: iteration runs past the end")
    if lab.dataset.content_repeats:
        raise NotApplicable("the index already wraps around inside the range: see DG303")
    asked = any(isinstance(index, int) and index >= ends.length for index in lab.epoch.indices)
    clamped = set(equals.values()) == {ends.length - 1} and len(equals) > 1
    yield Finding(
        message=f"dataset[{ends.length}] returns dataset[{equals[ends.length]}], but len(dataset) is {ends.length}",
        evidence={
            "past the end": {f"dataset[{index}]": f"dataset[{equal}]" for index, equal in equals.items()},
            "likely cause": "the index is clamped" if clamped else "the index wraps around",
        },
        repro=lab.repro.expression(f".dataset[{ends.length}]"),
        mild=not (asked or lab.facts.bare),  # a sampler keeps to the range
    )
    return Looked(looked)


def _equal(answer: Answer, ends: Ends) -> Index:
    """An index inside the range with the same content, by the leaves that identify samples; None without one.

    Every such leaf must occur somewhere in the range: a dataset of pairs may wrap each half separately.
    """
    equal = None
    for path in _identifying_paths(ends):
        wanted = _digest(answer, path)
        equal = next((inside.index for inside in ends.inside if _digest(inside, path) == wanted), None)
        if equal is None:
            return None
    return equal


def _identifying_paths(ends: Ends) -> list[str]:
    """Leaves that do not depend on the random state and differ between samples."""
    paths = [leaf.path for leaf in ends.first_again.leaves if _digest(ends.inside[0], leaf.path) == leaf.digest]
    counts = {path: len({_digest(inside, path) for inside in ends.inside}) for path in paths}
    return [path for path, count in counts.items() if count > 0.8 * len({inside.index for inside in ends.inside})]


def _digest(answer: Answer, path: str) -> bytes | None:
    return next((leaf.digest for leaf in answer.leaves if leaf.path == path), None)
