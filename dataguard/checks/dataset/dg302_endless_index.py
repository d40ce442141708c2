"""DG302: the dataset has no end."""

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
    """An index beyond the end gives a sample of the dataset instead of an IndexError.

    Symptom: `for sample in dataset` never ends, and an index that is off by some is answered with a wrong sample.
    Cause: the index is taken modulo the number of items, or clamped to the last one.
    Fix: raise IndexError for an index that is not in range(len(self)); repeat a dataset by its sampler or its length.
    Links: https://docs.python.org/3/reference/datamodel.html#object.__getitem__
    """
    ends = lab.dataset.ends
    looked = {"reads": ends.reads}
    if ends.first_failing is not None or ends.beyond[0].incident:
        return Looked(looked)
    twins = {answer.index: _twin(answer, ends) for answer in ends.beyond if not answer.incident}
    if None in twins.values():  # a single twin may be chance, as of a silence or a title
        return Looked(
            looked, note=f"dataset[{ends.length}] does not raise IndexError: iteration goes on beyond the end"
        )
    if lab.dataset.wraps:
        raise NotApplicable("the index wraps round inside the range already: see DG303")
    clamped = set(twins.values()) == {ends.length - 1} and len(twins) > 1
    yield Finding(
        message=f"dataset[{ends.length}] is dataset[{twins[ends.length]}], although len(dataset) is {ends.length}",
        evidence={
            "beyond the end": {f"dataset[{index}]": f"dataset[{twin}]" for index, twin in twins.items()},
            "likely": "the index is clamped" if clamped else "the index wraps round",
        },
        repro=lab.repro.expression(f".dataset[{ends.length}]"),
    )
    return Looked(looked)


def _twin(answer: Answer, ends: Ends) -> Index:
    """An index inside the range with the same content, judged by leaves that tell samples apart; None without one.

    Each such leaf must have its like somewhere in the range: a dataset of pairs may wrap each half by itself.
    """
    landed = None
    for path in _telling_paths(ends):
        wanted = _digest(answer, path)
        landed = next((inside.index for inside in ends.inside if _digest(inside, path) == wanted), None)
        if landed is None:
            return None
    return landed


def _telling_paths(ends: Ends) -> list[str]:
    """Leaves that stay the same from draw to draw and differ from sample to sample."""
    paths = [leaf.path for leaf in ends.twice.leaves if _digest(ends.inside[0], leaf.path) == leaf.digest]
    counts = {path: len({_digest(inside, path) for inside in ends.inside}) for path in paths}
    return [path for path, count in counts.items() if count > 0.8 * len({inside.index for inside in ends.inside})]


def _digest(answer: Answer, path: str) -> bytes | None:
    return next((leaf.digest for leaf in answer.leaves if leaf.path == path), None)
