"""DG213: a weighted sampler draws frequent classes even more often."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.labels import Kind, Labels, candidates, labels_by_index, of_all_samples
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity
from dataguard.stats.coincidence import CERTAIN

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
    """The weights of a sampler balance the classes, but each class, or each sample, has the weight of another one.

    Symptom: no error; frequent classes are drawn even more often than without weights, and rare ones hardly ever.
    Cause: weights in the order of `value_counts()`, which lists the most frequent class first, or of another list of
        names, are indexed by label; or weights are the shares of the classes, and not their inverse; or they are those
        of a whole data set where the loader draws from a subset, or were computed before samples were put in another
        order; or those of concatenated datasets are in another order than the datasets.
    Fix: count in the order of labels, `1 / torch.bincount(labels)[labels]`, of the samples that the loader draws; make
        the weights of concatenated datasets in one loop over `dataset.datasets`.
    Links: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.WeightedRandomSampler
    """
    lab.need_map("a stream has no sampler")
    if lab.facts.sampler != "WeightedRandomSampler":
        raise NotApplicable("the sampler does not weight samples")
    whole = lab.streams.weights(())
    if whole is not None and (finding := _of_parts(lab, whole)):
        yield finding
        return Coverage({"parts": len(whole.parts)})
    leaves = [labels for labels in candidates(lab) if labels.kind is Kind.SAMPLE and labels.repeats]
    if not leaves:
        raise NotApplicable("samples have no class index")
    coverage = Coverage({"labels": len(leaves)})
    decided = False
    for labels in leaves:
        classes = _classes(lab, labels)
        decided = decided or classes is not None
        if classes and (how := _misplaced(classes)):
            yield _finding(lab, labels, classes, how)
            return coverage
    if not decided:
        found = ((labels, whose) for labels in leaves if (whose := _of_other_samples(lab, labels)))
        yield from (_other_samples(lab, *one) for one in islice(found, 1))
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


def _weights(lab: Lab, labels: Labels) -> tuple[dict[int, int], SamplerWeights]:
    """The labels of samples by index, and their weights."""
    seen = dict(labels_by_index(lab, labels.path))
    weights = lab.streams.weights(tuple(sorted(seen)))
    if weights is None:
        raise NotApplicable("the sampler of the project draws in another way than torch's")
    return seen, weights


def _by_label(seen: Mapping[int, int], weights: Mapping[int, float]) -> dict[int, float] | None:
    """The weight of each label; None if samples with one label have several."""
    by_label: dict[int, set[float]] = defaultdict(set)
    for index, weight in weights.items():
        by_label[seen[index]].add(weight)
    if len(by_label) < 2 or any(len(several) > 1 for several in by_label.values()):
        return None
    return {label: min(several) for label, several in by_label.items()}


def _classes(lab: Lab, labels: Labels) -> list[Weighted] | None:
    """The classes of a label that decides the weight of its sample; None if it does not."""
    seen, weights = _weights(lab, labels)
    weight_of = _by_label(seen, weights.of)
    if weight_of is None:
        return None
    whole = of_all_samples(lab, labels)
    if whole.table is not None and whole.values.keys() == weight_of.keys():
        return [Weighted(label, whole.values[label], weight) for label, weight in weight_of.items()]
    label_of = {weight: label for label, weight in weight_of.items()}
    if len(label_of) < len(weight_of):  # two classes have one weight: how many samples has each?
        return []
    return [Weighted(label_of.get(weight), count, weight) for weight, count in weights.counts.items()]


def _of_other_samples(lab: Lab, labels: Labels) -> str | None:
    """Whose weights they are, if labels do not decide those of their own samples."""
    seen, weights = _weights(lab, labels)
    if len(set(weights.of.values())) < 2:
        return None
    outside = _by_label(seen, weights.outside)
    if outside is not None and len(set(outside.values())) > 1 and _log_odds(seen, weights) < CERTAIN:
        return "of the data set that its Subset takes samples from, by their places there"
    own = [Weighted(None, count, weight) for weight, count in weights.counts.items()]
    if len(own) < 2:  # or more than can be classes
        return None
    total = sum(one.count for one in own)
    shares, found = [one.count / total for one in own], [one.weight for one in own]
    ruled = any(_proportional(found, list(map(rule, shares))) for rule in RULES.values())
    if not ruled or max(shares) < IMBALANCED * min(shares):
        return None
    length, counts = lab.facts.length or 0, of_all_samples(lab, labels)
    if total < length and len(own) == len(labels.values):
        return f"of {total:,} samples in another order, and the data set has {length:,}"
    if counts.table is not None and sorted(counts.values.values()) == sorted(weights.counts.values()):
        return "of as many samples with each label, in another order"
    return None


def _log_odds(seen: Mapping[int, int], weights: SamplerWeights) -> float:
    """log10 of the odds that weights in a random order would go by label, each at the place outside."""
    total = sum(weights.counts.values())
    odds = 0.0
    for label, weight in (_by_label(seen, weights.outside) or {}).items():
        times = sum(seen[index] == label for index in weights.outside)
        odds += (times - 1) * math.log10(weights.counts.get(weight, 1) / max(total, 1))
    return odds


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


def _other_samples(lab: Lab, labels: Labels, whose: str) -> Finding:
    seen, weights = _weights(lab, labels)
    by_label: dict[int, Counter[float]] = defaultdict(Counter)
    for index, weight in weights.of.items():
        by_label[seen[index]][weight] += 1
    return Finding(
        message=f"the sampler's weights are those {whose}: samples with one label in sample{labels.path} have several",
        evidence={
            "fix here": "make the weights of the labels of the samples that are drawn, in their order",
            "label: weights of its samples": [
                f"{label}: {', '.join(f'{weight:.4g} of {count}' for weight, count in found.most_common(4))}"
                for label, found in sorted(by_label.items())[:MOST_SHOWN]
            ],
            "sampler": lab.facts.sampler,
        },
        at=lab.places.sampler,
    )


MOST_SHOWN = 8
"""Most classes in the evidence, the most frequent first."""
