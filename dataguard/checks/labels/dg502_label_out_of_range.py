"""DG502: labels that are no number of a class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.labels import Classes, Kind, Labels, candidates, chosen, ignored, numbered, whole
from dataguard.checks.labels.class_numbers import arrives, balance, guessed, meaningless
from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity, known

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

NOT_CLASSES = ("binary", "multilabel", "regression")
"""Forms of targets that number no classes."""

MOST = 8
"""Values out of range that are looked into."""


@check("DG502", "label-out-of-range", Severity.ERROR)
def dg502_label_out_of_range(lab: Lab) -> Judgement:
    """A label is no number of a class: below 0, or as large as the number of classes, or larger.

    Symptom: "Target 10 is out of bounds" in the best case; on a GPU "device-side assert triggered", in some later line;
        or an output that no class belongs to, and training on a class that does not exist.
    Cause: classes count from 1; -1 or 255 marks what has no label, and the loss is not told; class numbers of a larger
        set (COCO's 1 to 90 for 80 classes) are taken as they are; a mask of 0 and 255 was not divided. Where nothing
        tells how many classes there are, labels say so themselves, and the finding is a warning.
    Fix: map labels to 0, ..., C - 1 where they are read; pass `ignore_index` to the loss for what has no label, and say
        so by `[tool.dataguard.contract] ignore_index = 255`.
    Links: https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html
    """
    form = lab.settings.contract.get("target_form")
    if form in NOT_CLASSES:
        raise NotApplicable(f"the contract says that targets are {form}: they number no classes")
    found = candidates(lab)
    if not found:
        raise NotApplicable("no leaf of a sample can number its class: a whole number beside a larger input")
    groups = numbered(lab, found)
    notes: list[str | None] = []
    if not groups:
        yield from _guessed(lab, found)
        notes = [_unknown(lab, found, ignored(lab.settings.contract))]
    for classes, leaves in groups:
        labels = chosen(leaves, classes.count, declared=classes.declared)
        if labels is None:
            notes.append(f"{classes.source} {classes.count} classes, but no leaf numbers them clearly")
            continue
        labels = whole(lab, labels)
        yield from _judged(lab, labels, classes)
        notes.append(balance(labels, meaningless(lab.settings.contract, labels, classes), classes))
    return Looked(lab.epoch.exercised, "; ".join(filter(None, notes)) or None)


def _unknown(lab: Lab, found: Sequence[Labels], void: Sequence[int]) -> str | None:
    """How classes are balanced where nobody says how many there are."""
    likely = [one for one in found if one.repeats and one.kind is Kind.SAMPLE and len(one.values) > 1]
    return balance(whole(lab, likely[0]), void) if len(likely) == 1 else None


def _guessed(lab: Lab, found: Sequence[Labels]) -> Iterator[Finding]:
    """What makes no sense where the labels alone tell how many classes there may be."""
    labels_and_classes = guessed(lab, [whole(lab, labels) for labels in found])
    if labels_and_classes:
        yield from (replace(finding, mild=True) for finding in _judged(lab, *labels_and_classes))


def _judged(lab: Lab, labels: Labels, classes: Classes) -> Iterator[Finding]:
    """The values out of range that reach a batch, in one finding."""
    void = meaningless(lab.settings.contract, labels, classes)
    wrong = [one for one in labels.outside(classes.count, void)[:MOST] if arrives(lab, labels, one)]
    if wrong:
        yield _finding(lab, labels, classes, wrong)


def _finding(lab: Lab, labels: Labels, classes: Classes, wrong: Sequence[int]) -> Finding:
    worst = max(wrong, key=lambda value: labels.values[value])
    sample = labels.first[worst]
    where = "a sample of the stream" if sample.index is None else f"dataset[{sample.index!r}]"
    first = min(value for value in labels.values if value >= 0 or value in wrong)
    one_based = worst == classes.count and first == 1 and len(wrong) == 1
    why = ": they count from 1" if one_based else ""
    meant = f"{classes.source} {classes.count} classes, 0 to {classes.count - 1}"
    return Finding(
        message=f"sample{labels.path} of {where} is {worst}, but {meant}{why}",
        evidence=known(
            {
                "labels seen": f"{min(labels.values)} to {max(labels.values)}",
                "out of range": {str(value): f"in {labels.samples[value]} of {labels.of} samples" for value in wrong},
                "one label for each": labels.kind.value,
                "all labels": labels.table,
            }
        ),
        at=lab.dataset.place,
        repro=None if sample.index is None else lab.repro.expression(f".dataset[{sample.index!r}]"),
    )
