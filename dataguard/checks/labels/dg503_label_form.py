"""DG503: labels in a form that losses reject or misread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.label_forms import Table, divided, fits, inferred, misread_among, tables
from dataguard.checks.common.labels import classes_of
from dataguard.checks.common.lines import line_at
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, NotTested, Severity, Undecided

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

ASK = "set target_form or num_classes in [tool.dataguard.contract]"


@check("DG503", "label-form", Severity.WARNING)
def dg503_label_form(lab: Lab) -> Judgement:
    """Labels have a form that cross entropy rejects or misreads.

    Symptom: "expected scalar type Long but found Float", "0D or 1D target tensor expected"; or no error, but a loss
        that compares every prediction with every label, or stalls too high.
    Cause: class indices read from a table as floats; an extra axis, as from `label[:, None]`; integer one-hot rows, as
        from `F.one_hot`; smoothed or mixed labels that do not sum to 1; a mask that went through `ToTensor`, which
        divides by 255.
    Fix: return class indices as int64 of shape (N,), or class probabilities as floats that sum to 1; declare what you
        intend with `[tool.dataguard.contract] target_form`, such as "index", "soft" or "multilabel".
    Links: https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html
    """
    form, classes = lab.settings.contract.get("target_form"), classes_of(lab)
    if not lab.facts.batched:
        raise NotApplicable("automatic batching is off (batch_size=None): the form of a batch is unknown")
    label_tables = tables(lab)
    if form:
        count = int(classes.count) if classes and classes.declared else None
        if not any(fits(table, form, count) for table in label_tables):
            table = _declared(label_tables, form)
            yield _finding(lab, table, f"is {table.spelled}, {_range(table)}, but the contract declares {form!r}")
        return Coverage(lab.epoch.exercised)
    count = classes.count if classes else inferred(lab, label_tables)
    if count is None:
        raise NotTested(f"the label leaf or the number of classes is unclear: {ASK}")
    for path, fault in divided(lab, count).items():
        source = f"{classes.source} {count}" if classes else f"the labels look like {count}"
        first = next((sample.index for sample in lab.epoch.samples), None)
        at = lab.places.value(first, path) or lab.dataset.location
        yield Finding(f"sample{path} {fault}, but {source} classes", at=at)
    if wrong := misread_among(lab, label_tables, count):
        yield _finding(lab, *wrong)
    return Coverage({**lab.epoch.exercised, "leaves": len(label_tables)})


def _declared(label_tables: list[Table], form: str) -> Table:
    """The label leaf if none has the declared form. Raises Undecided if it is ambiguous."""
    named = [table for table in label_tables if table.named]
    for leaves in (named, label_tables):
        if len(leaves) == 1:
            return leaves[0]
    if not label_tables:
        raise Undecided("no leaf of a batch looks like a label")
    raise Undecided(f"{len(label_tables)} leaves of a batch may be labels, and none has the form {form!r}")


def _range(table: Table) -> str:
    """The range of values in a leaf, for a message."""
    low, high = min(numbers.low for numbers in table.numbers), max(numbers.high for numbers in table.numbers)
    return f"from {low:.4g} to {high:.4g}"


def _finding(lab: Lab, table: Table, fault: str) -> Finding:
    indices = [index for index in table.first if index is not None]
    return Finding(
        message=f"batch{table.path} {fault}",
        evidence={"collated by": lab.facts.collate, "batches": len(table.numbers)},
        at=line_at(lab.batches.lines.of_row, table.path, table.first) or lab.dataset.location,
        repro=lab.repro.samples(*indices, batch=True) if indices else None,
    )
