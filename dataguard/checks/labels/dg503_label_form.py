"""DG503: labels in a form that losses reject or misread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.labels import classes_of
from dataguard.checks.labels.label_forms import Table, divided, fits, guessed, misread, tables
from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity, Undecided

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

ASK = "[tool.dataguard.contract] target_form or num_classes settles it"


@check("DG503", "label-form", Severity.WARNING)
def dg503_label_form(lab: Lab) -> Judgement:
    """Labels come in a form that cross entropy rejects or misreads.

    Symptom: "expected scalar type Long but found Float", "0D or 1D target tensor expected"; or none at all, and a loss
        that compares every prediction with every label, or never falls to where it should.
    Cause: class numbers read from a table as floats; an axis too many, as `label[:, None]` leaves it; whole numbers, as
        `F.one_hot` gives them; smoothed or mixed labels that do not sum to 1; a mask that went through `ToTensor`,
        which divides by 255.
    Fix: give numbers of classes as int64 of shape (N,), or shares as floats that sum to 1; say what is meant by
        `[tool.dataguard.contract] target_form`, as "index", "soft" or "multilabel".
    Links: https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html
    """
    form, classes = lab.settings.contract.get("target_form"), classes_of(lab)
    if not lab.facts.batched:
        raise NotApplicable("automatic batching is off (batch_size=None): the form of a batch is not told")
    found = tables(lab)
    if form:
        count = int(classes.count) if classes and classes.declared else None
        if not any(fits(table, form, count) for table in found):
            table = _meant(found, form)
            yield _finding(lab, table, f"is {table.spelled}, {_held(table)}, and the contract says {form!r}")
        return Looked(lab.epoch.exercised)
    count = classes.count if classes else guessed(lab, found)
    if count is None:
        raise NotApplicable(f"nothing tells which leaf is a label, or how many classes there are: {ASK}")
    for path, said in divided(lab, count).items():
        source = f"{classes.source} {count}" if classes else f"labels tell of {count}"
        yield Finding(f"sample{path} {said}, and {source} classes", at=lab.dataset.place)
    good = [table for table in found if _is_usual(table, count)]
    for table in [] if good else found:
        wrong = misread(lab, table, count)
        if wrong:
            yield _finding(lab, table, wrong)
            break
    return Looked({**lab.epoch.exercised, "leaves": len(found)})


def _is_usual(table: Table, classes: int) -> bool:
    """Whether cross entropy takes a leaf as it is, or a loss for yes and no does."""
    values = table.values or {-1}
    usual = fits(table, "index", classes) and table.rank == 1 and len(values) <= classes + 1
    several = fits(table, "multilabel", classes) and not table.one_hot
    return usual or several or fits(table, "soft", classes)


def _meant(found: list[Table], form: str) -> Table:
    """The leaf that is the label, where none has the form that is meant. Raises Undecided where it is not clear."""
    named = [table for table in found if table.named]
    for leaves in (named, found):
        if len(leaves) == 1:
            return leaves[0]
    count = f"{len(found)} leaves of a batch may be labels" if found else "no leaf of a batch looks like a label"
    raise Undecided(f"{count}, and none is {form}")


def _held(table: Table) -> str:
    """The range of what a leaf holds, in words."""
    low, high = min(one.low for one in table.numbers), max(one.high for one in table.numbers)
    return f"from {low:.4g} to {high:.4g}"


def _finding(lab: Lab, table: Table, said: str) -> Finding:
    indices = [index for index in table.first if index is not None]
    return Finding(
        message=f"batch{table.path} {said}",
        evidence={"collated by": lab.facts.collate, "batches": len(table.numbers)},
        at=lab.dataset.place,
        repro=lab.repro.batch(indices) if indices else None,
    )
