"""DG520: concatenated datasets number different classes alike."""

from __future__ import annotations

import re
from itertools import combinations
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.labels import Kind, candidates
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, Undecided

if TYPE_CHECKING:
    from dataguard.lab.dataset.dataset_observations import Part
    from dataguard.lab.lab import Lab

_NUMBER = re.compile(r"[a-z]?\d+")


@check("DG520", "restarted-labels", Severity.WARNING, since="2026.2")
def dg520_restarted_labels(lab: Lab) -> Judgement:
    """Concatenated datasets use the same class indices for different classes.

    Symptom: no error; two classes become one, and accuracy on both stays low.
    Cause: `ConcatDataset` joins datasets that number their own classes from 0, as `ImageFolder` does for the folders it
        finds.
    Fix: map labels to indices of one common list of names, for instance with a `target_transform` for each part; or
        merge the folders, and read them as one dataset.
    Links: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.ConcatDataset
    """
    lab.need_map("the samples of a stream are not from one part each")
    parts = lab.dataset.concatenated_parts
    if len(parts) < 2:
        raise NotApplicable("there are no concatenated datasets with different class names")
    paths = [labels.path for labels in candidates(lab) if labels.kind is Kind.SAMPLE]
    doubts = []
    for first, second in combinations(parts, 2):
        for path in paths:
            conflict = _conflict(first, second, path)
            if conflict is None:
                continue
            index, certain = conflict
            both = " and ".join(f"{_name_of(part, index)!r} in {part.path}" for part in (first, second))
            if certain:
                yield Finding(
                    message=f"label {index} in sample{path} is {both}",
                    evidence={
                        "class names": {part.path: list(part.names)[:8] for part in (first, second)},
                        "labels seen": {part.path: list(part.numbers[path])[:8] for part in (first, second)},
                    },
                    at=lab.places.dataset or lab.dataset.location,
                )
                return Coverage({"samples": sum(part.samples for part in parts), "parts": len(parts)})
            doubts.append(f"label {index} in sample{path} is {both}")
    if doubts:
        raise Undecided(f"{doubts[0]}: these may be one class, or labels may be mapped to other indices")
    return Coverage({"samples": sum(part.samples for part in parts), "parts": len(parts)})


def _conflict(first: Part, second: Part, path: str) -> tuple[int, bool] | None:
    """A label that both parts have, for classes of different names, and whether these are certainly different classes.

    Labels that are indices of one common list agree wherever names do, so that parts cannot have more labels in common
    than names, and not both count from 0 unless their names are the same. Classes are different if a name is in both
    lists at another index, or no name is in both.
    """
    if any(second.constant.get(leaf, digest) != digest for leaf, digest in first.constant.items()):
        return None  # this leaf says which part a sample is from
    seen = [set(part.numbers.get(path, ())) for part in (first, second)]
    class_names = [{index: _plain(name) for name, index in part.names.items()} for part in (first, second)]
    if not all(labels and labels <= names.keys() for labels, names in zip(seen, class_names, strict=True)):
        return None
    if any(all(_NUMBER.fullmatch(name) for name in names.values()) for names in class_names):
        return None
    common = set(class_names[0].values()) & set(class_names[1].values())
    both = seen[0] & seen[1]
    differ = sorted(index for index in both if class_names[0][index] != class_names[1][index])
    if not differ:
        return None
    crossed = [index for index in differ if class_names[0][index] in common or class_names[1][index] in common]
    whole = all(labels == names.keys() for labels, names in zip(seen, class_names, strict=True))
    restarted = len(both) > len(common) or (whole and set(class_names[0].values()) != set(class_names[1].values()))
    return (crossed or differ)[0], restarted and (not common or bool(crossed))


def _name_of(part: Part, index: int) -> str:
    return next(name for name, number in part.names.items() if number == index)


def _plain(name: str) -> str:
    """A name without differences of case, spaces and punctuation."""
    return re.sub(r"[\W_]+", "", name.lower())
