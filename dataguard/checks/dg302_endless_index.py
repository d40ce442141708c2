"""DG302: the dataset has no end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.model import Finding, Judgement, Looked, Severity, check

if TYPE_CHECKING:
    from dataguard.lab import Lab
    from dataguard.lab.protocol import Answer, Ends


@check("DG302", "endless-index", Severity.ERROR)
def dg302_endless_index(lab: Lab) -> Judgement:
    """An index beyond the end gives a sample of the dataset instead of an IndexError.

    Symptom: `for sample in dataset` never ends, and an index that is off by some is answered with a wrong sample.
    Cause: the index is taken modulo the number of items, or clamped to the last one.
    Fix: raise IndexError for an index that is not in range(len(self)); repeat a dataset by its sampler or its length.
    Links: https://docs.python.org/3/reference/datamodel.html#object.__getitem__
    """
    ends = lab.ends
    looked = {"reads": ends.reads}
    if ends.first_failing is not None or any(answer.incident for answer in ends.beyond):
        return Looked(looked)
    twins = [(answer.index, _twin(answer, ends)) for answer in ends.beyond[:3]]
    if all(twin is not None for _, twin in twins):
        index, twin = twins[0]
        clamped = all(found == ends.length - 1 for _, found in twins)
        yield Finding(
            message=f"dataset[{index}] is dataset[{twin}], although len(dataset) is {ends.length}",
            evidence={
                "beyond the end": {f"dataset[{index}]": f"dataset[{twin}]" for index, twin in twins},
                "likely": "the index is clamped" if clamped else "the index is taken modulo the number of items",
            },
            repro=lab.repro(f".dataset[{index}]"),
        )
        return Looked(looked)
    return Looked(looked, note=f"dataset[{ends.length}] does not raise IndexError: `for sample in dataset` never ends")


def _twin(answer: Answer, ends: Ends) -> int | None:
    """The index inside the range whose sample this is, judged by the leaves that do not change from draw to draw."""
    stable = _stable_paths(ends)
    wanted = _content(answer, stable)
    if len({_content(inside, stable) for inside in ends.inside}) < 2:  # all samples look alike: a twin says nothing
        return None
    return next((inside.index for inside in ends.inside if _content(inside, stable) == wanted), None)


def _stable_paths(ends: Ends) -> set[str]:
    first = {leaf.path: leaf.digest for leaf in ends.inside[0].leaves}
    return {leaf.path for leaf in ends.twice.leaves if first.get(leaf.path) == leaf.digest}


def _content(answer: Answer, paths: set[str]) -> tuple[tuple[str, bytes], ...]:
    return tuple((leaf.path, leaf.digest) for leaf in answer.leaves if leaf.path in paths)
