"""DG213: a weighted sampler draws frequent classes even more often."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.labels import Kind, Labels, candidates, labels_by_index, of_all_samples
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.streams.sampler_weights import SamplerWeights

RULES: Mapping[str, Callable[[float], float]] = {
    "1 / its share": lambda share: 1 / share,
    "1 / the square root of its share": lambda share: 1 / math.sqrt(share),
    "1 - its share": lambda share: 1 - share,
}
"""How the weight of a class follows from its share of the samples, as people write it."""
ROUNDED = 1e-3
"""Relative difference below which two weights are equal: weights are often rounded to a few digits."""
IMBALANCED = 1.5
"""The least ratio of the largest class to the smallest: below, the order of weights changes little."""


@dataclass(frozen=True, slots=True)
class Weighted:
    """How many samples a class has, and their weight; the label is None if no sample of the class was seen."""

    label: int | None
    count: int
    weight: float


@check("DG213", "misplaced-weights", Severity.WARNING, since="2026.4")
def dg213_misplaced_weights(lab: Lab) -> Judgement:
    """The weights of a sampler balance the classes, but each class has the weight of another one.

    Symptom: no error; frequent classes are drawn even more often than without weights, and rare ones hardly ever.
    Cause: weights in the order of `value_counts()`, which lists the most frequent class first, or of another list of
        names, are indexed by label; or weights are the shares of the classes, and not their inverse; or those of
        concatenated datasets are in another order than the datasets; or they are those of the first samples of a
        dataset, and the sampler draws from a `Subset` of it.
    Fix: count in the order of labels, `1 / torch.bincount(labels)[labels]`, of the samples that the loader draws; make
        the weights of concatenated datasets in one loop over `dataset.datasets`.
    Links: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.WeightedRandomSampler
    """
    lab.need_map("a stream has no sampler")
    if lab.facts.sampler != "WeightedRandomSampler":
        raise NotApplicable("the sampler does not weight samples")
    weights = lab.streams.weights(())
    if weights is not None and (finding := _of_parts(lab, weights)):
        yield finding
        return Coverage({"parts": len(weights.parts)})
    leaves = [labels for labels in candidates(lab) if labels.kind is Kind.SAMPLE and labels.repeats]
    if not leaves:
        raise NotApplicable("samples have no class index")
    coverage = Coverage({"labels": len(leaves)})
    for labels in leaves:
        if finding := _of_whole(lab, labels):
            yield finding
            break
        classes = _classes(lab, labels)
        if classes is not None and (how := _misplaced(classes)):
            yield _finding(lab, labels, classes, how)
            break
    return coverage


def _of_parts(lab: Lab, weights: SamplerWeights) -> Finding | None:
    """The finding where each part of a concatenated dataset has the weights of another one."""
    lengths = [length for length, _ in weights.runs]
    if len(lengths) < 2 or sorted(lengths) != sorted(weights.parts):
        return None
    how: str | None = "are in another order than the parts of the concatenated dataset"
    if lengths == list(weights.parts):
        how = _misplaced([Weighted(None, length, weight) for length, weight in weights.runs], "part")
    if how is None:
        return None
    samples, mass = sum(lengths), sum(length * weight for length, weight in weights.runs)
    of_samples = [weight / mass for length, weight in weights.runs for _ in range(length)]
    ends = list(accumulate(weights.parts))
    drawn = [sum(of_samples[end - length : end]) for length, end in zip(weights.parts, ends, strict=True)]
    worst = max(range(len(drawn)), key=lambda part: drawn[part] - weights.parts[part] / samples)
    return Finding(
        message=f"the sampler's weights {how}: dataset.datasets[{worst}] is {weights.parts[worst] / samples:.0%} of "
        f"the samples, and {drawn[worst]:.0%} of what is drawn",
        evidence={
            "fix here": "one loop over dataset.datasets that makes the weights of each",
            "samples of each part": list(weights.parts),
            "samples of one weight, in order": lengths,
            "sampler": lab.facts.sampler,
        },
        at=lab.places.sampler,
    )


def _of_whole(lab: Lab, labels: Labels) -> Finding | None:
    """The finding where the weights of a subset are by label in the order of the whole dataset, and not in its own."""
    seen = dict(labels_by_index(lab, labels.path))
    weights = lab.streams.weights(tuple(sorted(seen)))
    whole = {} if weights is None else _by_label(seen, weights.of_whole)
    if weights is None or len(weights.of_whole) < FEWEST or not _is_by_label(whole):
        return None
    own = _by_label(seen, weights.of)
    if _is_by_label(own):
        return None
    meant = {label: next(iter(several)) for label, several in whole.items()}
    wrong = [index for index, weight in weights.of.items() if weight != meant.get(seen[index], weight)]
    return Finding(
        message=f"the sampler's weights are in the order of the whole dataset, of which a Subset is drawn: "
        f"{len(wrong):,} of {len(weights.of):,} samples have the weight of another class of sample{labels.path}",
        evidence={
            "fix here": "weights[subset.indices]",
            "weights of samples in the order of the whole dataset": f"one for each of {len(whole)} classes",
            "of samples in the order of the Subset": f"up to {max(map(len, own.values()))} for one class",
            "sampler": lab.facts.sampler,
        },
        at=lab.places.sampler,
    )


FEWEST = 24
"""Samples whose labels decide their weights by no chance: of two classes as large, by odds of one in millions."""


def _by_label(seen: Mapping[int, int], weights: Mapping[int, float]) -> Mapping[int, set[float]]:
    by_label: dict[int, set[float]] = defaultdict(set)
    for index, weight in weights.items():
        by_label[seen[index]].add(weight)
    return by_label


def _is_by_label(by_label: Mapping[int, set[float]]) -> bool:
    """Whether the label of a sample decides its weight, which differs between labels."""
    return all(len(several) == 1 for several in by_label.values()) and len({*map(min, by_label.values())}) > 1


def _classes(lab: Lab, labels: Labels) -> list[Weighted] | None:
    """The classes of a label that decides the weight of its sample; None if it does not."""
    seen = dict(labels_by_index(lab, labels.path))
    weights = lab.streams.weights(tuple(sorted(seen)))
    if weights is None:
        raise NotApplicable("the sampler of the project draws in another way than torch's")
    by_label = _by_label(seen, weights.of)
    if len(by_label) < 2 or any(len(several) > 1 for several in by_label.values()):
        return None
    weight_of = {label: min(several) for label, several in by_label.items()}
    whole = of_all_samples(lab, labels)
    if whole.table is not None and whole.values.keys() == weight_of.keys():
        return [Weighted(label, whole.values[label], weight) for label, weight in weight_of.items()]
    label_of = {weight: label for label, weight in weight_of.items()}
    if len(label_of) < len(weight_of):  # two classes have one weight: how many samples has each?
        return None
    return [Weighted(label_of.get(weight), count, weight) for weight, count in weights.counts.items()] or None


def _misplaced(classes: Sequence[Weighted], what: str = "class") -> str | None:
    """How the weights differ from those by a rule: they are in another order, or those of its inverse.

    `what` are the classes, or parts of a dataset.
    """
    counts, weights = [one.count for one in classes], [one.weight for one in classes]
    if min(weights) <= 0 or max(counts) < IMBALANCED * min(counts):
        return None
    shares = [count / sum(counts) for count in counts]
    if _proportional(weights, shares):
        return f"grow with the share of the {what}"
    for name, rule in RULES.items():
        expected = [rule(share) for share in shares]
        if _proportional(weights, expected):
            return None
        if _proportional(sorted(weights), sorted(expected)):
            return f"are {name}, of another {what}"
    return None


def _proportional(numbers: Sequence[float], others: Sequence[float]) -> bool:
    ratios = [number / other for number, other in zip(numbers, others, strict=True) if other]
    return len(ratios) == len(numbers) and max(ratios) <= min(ratios) * (1 + ROUNDED)


def _finding(lab: Lab, labels: Labels, classes: Sequence[Weighted], how: str) -> Finding:
    samples, mass = sum(one.count for one in classes), sum(one.count * one.weight for one in classes)
    shares = [(one, one.count / samples, one.count * one.weight / mass) for one in classes]
    worst, share, drawn = max(shares, key=lambda of: of[2] - of[1])
    named = "a class" if worst.label is None else f"class {worst.label} of sample{labels.path}"
    return Finding(
        message=f"the sampler's weights {how}: {named} is {share:.0%} of the samples, and {drawn:.0%} of what is drawn",
        evidence={
            "fix here": "1 / torch.bincount(labels)[labels], with the labels of the samples that are drawn",
            "class: share of the samples, share drawn": [
                f"{'not seen' if one.label is None else one.label}: {of:.1%}, {drawn_of:.1%}"
                for one, of, drawn_of in sorted(shares, key=lambda of: -of[1])[:MOST_SHOWN]
            ],
            "sampler": lab.facts.sampler,
        },
        at=lab.places.sampler,
    )


MOST_SHOWN = 8
"""Most classes in the evidence, the most frequent first."""
