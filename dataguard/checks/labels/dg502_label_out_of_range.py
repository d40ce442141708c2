"""DG502: labels that are not valid class indices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.labels import (
    Classes,
    Kind,
    Labels,
    balance,
    balance_without_count,
    candidates,
    chosen,
    classes_by_leaf,
    inferred,
    meaningless,
    of_all_samples,
    out_of_range,
)
from dataguard.checks.labels.positions import cut_spans
from dataguard.checks.splits.split_mismatch import splits_of
from dataguard.core.incident import observed_or_none
from dataguard.core.model import Coverage, Finding, Judgement, Location, NotApplicable, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.core.records import Index
    from dataguard.lab.lab import Lab

NOT_CLASSES = ("binary", "multilabel", "regression")
"""Forms of targets that are not class indices."""
BYTES = 256
"""How many values a byte has."""


@check("DG502", "label-out-of-range", Severity.ERROR)
def dg502_label_out_of_range(lab: Lab) -> Judgement:
    """A label is not a valid class index or position: it is negative, or not below the number of classes or tokens.

    Symptom: "Target 10 is out of bounds" in the best case; "device-side assert triggered" on a GPU, at some later line;
        or a model output without a class, trained on a class that does not exist.
    Cause: class indices start at 1; -1 or 255 marks unlabelled data, and the loss has no matching `ignore_index`; the
        indices of a larger set (COCO's 1 to 90 for 80 classes) are used unmapped; a mask of 0 and 255 was not divided;
        bytes store the indices of more than 256 classes, and wrap round; truncation cuts off the answer that a start
        and an end mark.
        If the number of classes is not declared, it is inferred from the labels, and the finding is a warning.
    Fix: map labels to 0, ..., C - 1 when reading them; pass `ignore_index` to the loss for unlabelled data, and declare
        it: `[tool.dataguard.contract] ignore_index = 255`.
    Links: https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html
    """
    form = lab.settings.contract.get("target_form")
    if form in NOT_CLASSES:
        raise NotApplicable(f"the contract declares target_form {form!r}, which has no class indices")
    spans = list(cut_spans(lab))
    if spans:
        yield from spans
        return Coverage(lab.epoch.exercised)
    label_leaves = candidates(lab)
    if not label_leaves:
        raise NotApplicable("no leaf of a sample looks like a class index: an integer beside a larger input")
    groups = classes_by_leaf(lab, label_leaves)
    notes: list[str | None] = []
    if not groups:
        yield from _inferred(lab, label_leaves)
        notes = [balance_without_count(lab, label_leaves)]
    for classes, leaves in groups:
        labels = chosen(leaves, classes.count, declared=classes.declared)
        if labels is None:
            notes.append(f"{classes.source} {classes.count} classes, but no single leaf clearly holds their indices")
            continue
        labels = of_all_samples(lab, labels)
        yield from _judged(lab, labels, classes)
        notes.append(balance(labels, meaningless(lab.settings.contract, labels, classes), classes))
    return Coverage(lab.epoch.exercised, "; ".join(filter(None, notes)) or None)


def _inferred(lab: Lab, label_leaves: Sequence[Labels]) -> Iterator[Finding]:
    """Labels out of range if the number of classes is inferred from the labels alone."""
    labels_and_classes = inferred(lab, [of_all_samples(lab, labels) for labels in label_leaves])
    if labels_and_classes and not _has_all_classes(lab, labels_and_classes[0]):
        yield from (replace(finding, ambiguous=True) for finding in _judged(lab, *labels_and_classes))


def _has_all_classes(lab: Lab, labels: Labels) -> bool:
    """Whether other splits have the classes that are missing here, as training has those that are rare."""
    splits = [split for part in splits_of(lab) for split in part]
    others = [observed_or_none(partial(candidates, other)) or [] for other in splits]
    seen = {value for leaves in others for one in leaves if one.path == labels.path for value in one.values}
    seen |= labels.values.keys()
    return seen == set(range(max(seen) + 1))


def _judged(lab: Lab, labels: Labels, classes: Classes) -> Iterator[Finding]:
    """One finding for the values out of range that reach a batch."""
    wrong = out_of_range(lab, labels, classes)
    if wrong:
        yield _finding(lab, labels, classes, wrong)
    elif labels.type_name == "uint8" and classes.count > BYTES and set(labels.values) == set(range(BYTES)):
        where = labels.table or f"sample{labels.path}"
        yield Finding(
            message=f"{classes.source} {classes.count} classes, but {where} holds all of 0 to {BYTES - 1} and no other "
            f"label: uint8 starts again at 0",
            evidence={
                "fix here": f"store {where} as int64",
                "one label per": labels.kind.value,
                "samples": labels.of,
            },
            at=_place(lab, labels, next(iter(labels.first.values())).index) or lab.dataset.location,
        )


def _finding(lab: Lab, labels: Labels, classes: Classes, wrong: Sequence[int]) -> Finding:
    worst = max(wrong, key=lambda value: labels.values[value])
    sample = labels.first[worst]
    where = "a sample of the stream" if sample.index is None else f"dataset[{sample.index!r}]"
    first = min(value for value in labels.values if value >= 0 or value in wrong)
    one_based = worst == classes.count and first == 1 and len(wrong) == 1
    why = ": labels start at 1" if one_based else ""
    valid = f"{classes.source} {classes.count} classes, 0 to {classes.count - 1}"
    verb = "is" if labels.kind is Kind.SAMPLE else "contains"
    return Finding(
        message=f"sample{labels.path} of {where} {verb} {worst}, but {valid}{why}",
        evidence=without_empty(
            {
                "fix here": f"subtract 1 from sample{labels.path}" if one_based else None,
                "labels seen": f"{min(labels.values)} to {max(labels.values)}",
                "out of range": {str(value): f"in {labels.samples[value]} of {labels.of} samples" for value in wrong},
                "one label per": labels.kind.value,
                "label table": labels.table,
            }
        ),
        at=_place(lab, labels, sample.index) or lab.dataset.location,
        repro=None if sample.index is None else lab.repro.samples(sample.index),
        sample=sample.index,
    )


def _place(lab: Lab, labels: Labels, index: Index) -> Location | None:
    return None if index is None else lab.places.value(index, labels.path)
