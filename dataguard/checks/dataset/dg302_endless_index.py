"""DG302: a dataset that never raises IndexError."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.rewrites import rewritten, unlimited
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity

if TYPE_CHECKING:
    from dataguard.lab.core.records import Index
    from dataguard.lab.dataset.index_semantics import Ends
    from dataguard.lab.lab import Lab
    from dataguard.lab.reading.sample_reader import Answer


@check("DG302", "endless-index", Severity.ERROR)
def dg302_endless_index(lab: Lab) -> Judgement:
    """An index past the end returns a sample instead of raising IndexError.

    Symptom: `for sample in dataset` never ends, and an index that is too large silently returns a wrong sample. A
        warning for a loader whose sampler asks for no such index.
    Cause: the index is taken modulo the length, or clamped to the last sample. Or `__len__` is too small: the
        last samples of the data follow at len(dataset), and training never sees them (a warning).
    Fix: raise IndexError for an index outside range(len(self)). To repeat a dataset, use a sampler or a larger length.
        Count the last samples in `__len__`.
    Links: https://docs.python.org/3/reference/datamodel.html#object.__getitem__
    """
    ends = lab.dataset.ends
    exercised = {"reads": ends.reads}
    if ends.first_failing is not None or ends.beyond[0].incident:
        return Coverage(exercised)
    equals = {answer.index: _equal(answer, ends) for answer in ends.beyond if not answer.incident}
    if _is_left_out(ends, lab.facts.batch_size):
        count = ends.left_out
        those = (
            f"dataset[{ends.length}] is one more sample"
            if count == 1
            else (f"dataset[{ends.length}] to dataset[{ends.length + count - 1}] are {count} more samples")
        )
        yield Finding(
            message=f"{those}, which no loader reads: len(dataset) is {ends.length}",
            evidence={
                "fix here": f"let __len__ count the last {'sample' if count == 1 else f'{count} samples'}, too",
                "past the end": {f"dataset[{answer.index}]": _shown(answer) for answer in ends.beyond[: count + 1]},
                "likely cause": f"__len__ is {count} too small{' (off by one)' if count == 1 else ''}",
            },
            at=lab.places.length("dataset") or lab.dataset.location,
            repro=lab.repro.samples(ends.length),
            ambiguous=True,
        )
        return Coverage(exercised)
    if None in equals.values():  # a single equal sample may be chance: silence in audio, a title frame
        return Coverage(
            exercised, note=f"dataset[{ends.length}] does not raise IndexError: iteration runs past the end"
        )
    if lab.dataset.content_repeats:
        raise NotApplicable("the index already wraps around inside the range: see DG303")
    asked = any(isinstance(index, int) and index >= ends.length for index in lab.epoch.indices)
    clamped = set(equals.values()) == {ends.length - 1} and len(equals) > 1
    at = lab.places.limited_index or lab.dataset.location
    yield Finding(
        message=f"dataset[{ends.length}] returns dataset[{equals[ends.length]}], but len(dataset) is {ends.length}",
        evidence={
            "fix here": rewritten(lab, at, unlimited) or "raise IndexError for an index past the end",
            "past the end": {f"dataset[{index}]": f"dataset[{equal}]" for index, equal in equals.items()},
            "likely cause": "the index is clamped" if clamped else "the index wraps around",
        },
        at=at,
        repro=lab.repro.samples(ends.length),
        ambiguous=not (asked or lab.facts.bare),  # a sampler keeps to the range
    )
    return Coverage(exercised)


def _is_left_out(ends: Ends, batch_size: int | None) -> bool:
    """Whether samples like those inside, but new, follow the range up to the end of the data.

    A dataset may leave some out to fill its batches, or hold how many it has.
    """
    paths = ends.identifying
    new = all(
        answer.digests.get(path) not in {inside.digests.get(path) for inside in ends.inside}
        for answer in ends.beyond[: ends.left_out]
        for path in paths
    )
    fills = batch_size not in (None, 1) and ends.length % batch_size == 0 and ends.left_out < batch_size
    return ends.left_out > 0 and bool(paths) and new and not fills and not ends.counted


def _shown(answer: Answer) -> str:
    if answer.incident:
        return f"raises {answer.incident.headline}"
    return ", ".join(f"{leaf.path or 'sample'} of shape {list(leaf.shape or ())}" for leaf in answer.leaves[:4])


def _equal(answer: Answer, ends: Ends) -> Index:
    """An index inside the range with the same content, by the leaves that identify samples; None without one.

    Every such leaf must occur somewhere in the range: a dataset of pairs may wrap each half separately.
    """
    equal = None
    for path in ends.identifying:
        wanted = answer.digests.get(path)
        equal = next((inside.index for inside in ends.inside if inside.digests.get(path) == wanted), None)
        if equal is None:
            return None
    return equal
