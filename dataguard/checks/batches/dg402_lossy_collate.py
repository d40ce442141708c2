"""DG402: a batch that does not match its samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from dataguard.checks.batches.pairing import mispaired, misread, missing, name_of
from dataguard.checks.common.check import check
from dataguard.checks.common.drift import is_aliased, moving_leaves
from dataguard.checks.common.lines import line_at
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, Undecided, without_empty
from dataguard.machine.units import counted

if TYPE_CHECKING:
    from dataguard.lab.batches.collate_trials import Collation
    from dataguard.lab.culprit.line_trace import Traced
    from dataguard.lab.lab import Lab


@check("DG402", "lossy-collate", Severity.ERROR)
def dg402_lossy_collate(lab: Lab) -> Judgement:
    """A batch does not match what the dataset returns for its indices.

    Symptom: a loss that falls slowly or not at all, or metrics at chance level: inputs are paired with wrong labels.
    Cause: collate_fn, or `__getitems__`, sorts or filters one part of the samples and not the others, drops samples,
        fills one field with another, truncates fractions, or writes into samples that the dataset stores. Edges of
        graphs are joined without the offsets of their nodes, or with those of nodes that have edges. Torch Geometric
        adds these to every attribute whose name holds `index` or `face`, and to no other.
    Fix: sort and filter whole samples before unpacking them; copy before writing; return database rows in the order of
        the indices.
    Links: https://docs.pytorch.org/docs/stable/data.html#working-with-collate-fn
    """
    observed = lab.batches.observed
    collation, getitems = observed.collation, observed.getitems
    count = len(collation.indices)
    if count < 2:
        raise NotApplicable("each batch holds a single sample")
    repro = None if None in collation.indices else lab.repro.samples(*collation.indices, batch=True)
    facts = lab.facts
    lasting = not facts.num_workers or facts.persistent or facts.spawns
    faults = list(_lost(lab, collation)) or list(_apart(lab, collation))
    faults += [*_changed(lab, collation), *(_mutated(lab, collation) if lasting else ())]
    if faults and is_aliased(lab):
        raise NotApplicable("all samples share one buffer: see DG308")
    for fault in faults:
        order = None if None in collation.indices else list(collation.shown)
        evidence = without_empty({**fault.evidence, "collated samples": order})
        yield Finding(fault.message, evidence, line_at(fault.line), repro)
    wrong = misread(getitems) if getitems else None
    if getitems and wrong:
        returned = [" or ".join(map(str, indices)) or "another sample" for indices in getitems.given]
        requested = [str(index) for index in getitems.asked]
        line = lab.repro.samples(*getitems.asked, batch=True)
        asked = getitems.asked
        yield Finding(
            f"__getitems__ {wrong}",
            {
                "fix here": "return one sample for each index, in the order of the indices",
                "requested": requested,
                "returned": returned,
            },
            line_at(lab.batches.lines.of_getitems, asked),
            line,
        )
    leaves = {recognized.leaf for form in collation.forms.values() for recognized in form.recognized}
    if not (leaves or faults or getitems):
        if facts.default_collate:
            raise NotApplicable("torch's collate_fn keeps the order of samples, whose values are random or equal")
        if lab.batches.random_leaves.others:
            raise NotApplicable("collate_fn mixes or changes samples at random, so no row of the batch is a sample")
        raise Undecided("no row of the batch matches a sample: samples are mixed, regenerated, or all equal")
    exercised = {"samples": count, "batches": len(collation.forms), "leaves": len(leaves), "reads": observed.reads}
    return Coverage(exercised, _HARMLESS if collation.mutated and not lasting else None)


_HARMLESS = "collate_fn writes into samples that the dataset stores; workers lose this at the end of each epoch"


@dataclass(frozen=True, slots=True)
class _Fault:
    """What a batch does to samples, as the rest of a finding, and how its line is observed."""

    message: str
    evidence: Mapping[str, object]
    line: Callable[[], Traced | None]


def _lost(lab: Lab, collation: Collation) -> Iterator[_Fault]:
    gone = missing(collation)
    if gone:
        names = ", ".join(name_of(collation, sample) for sample in gone.samples[:4])
        names += ", ..." if len(gone.samples) > 4 else ""
        rows = f"{counted(gone.rows, 'rows')} of batch{gone.leaf} for {counted(len(collation.indices), 'samples')}"
        fault = f"replaces {names} with copies of other samples" if gone.repeated else f"drops {names}"
        yield _Fault(
            f"collate_fn {fault}",
            {"fix here": "keep a row for each sample", "rows": rows, "samples lost": len(gone.samples)},
            lambda: (
                lab.batches.lines.of_rows(gone.leaf, collation.indices)
                if gone.repeated
                else lab.batches.lines.of_loss(gone.samples, collation.indices)
            ),
        )


def _apart(lab: Lab, collation: Collation) -> Iterator[_Fault]:
    pair = mispaired(collation)
    if pair:
        first, second = (name_of(collation, sample) for sample in pair.samples)
        message = f"row {pair.row} of batch{pair.leaf} is {first}, but row {pair.row} of batch{pair.other} is {second}"
        order = [collation.indices[position] for position in pair.order]
        yield _Fault(
            message,
            {
                "fix here": "sort or filter whole samples, before they are taken apart",
                "batch": f"{counted(len(pair.order), 'samples')}, {pair.form}",
            },
            lambda: lab.batches.lines.of_order((pair.leaf, pair.other), order),
        )


def _changed(lab: Lab, collation: Collation) -> Iterator[_Fault]:
    for path, cast in collation.truncated.items():
        message = f"sample{path} is truncated: {cast}, where all samples are equal"
        yield _Fault(message, {"fix here": "keep the dtype: .float()"}, partial(_line_of_cast, lab, path, collation))
    for path, cast in collation.overflowed.items():
        message = f"sample{path} overflows: {cast}, where large numbers wrap around"
        yield _Fault(message, {"fix here": "keep the dtype: .long()"}, partial(_line_of_cast, lab, path, collation))
    for path, other in collation.replaced.items():
        message = f"batch{path} holds sample{other}, and sample{path} is nowhere in the batch"
        line = partial(lab.batches.lines.of_leaf, path, collation.indices)
        yield _Fault(message, {"fix here": f"make batch{path} of sample{path}"}, line)

    for path, shifted in collation.shifted.items():
        message = (
            f"batch{path} adds the rows of sample{shifted.other} before each sample, as to indices of them, but holds "
            f"{shifted.number} in a sample that has {shifted.rows}"
        )
        line = partial(lab.batches.lines.of_leaf, path, collation.indices)
        yield _Fault(message, {"fix here": f"join sample{path} without an offset, or under another name"}, line)

    for path, unmoved in collation.unmoved.items():
        message = (
            f"batch{path} joins the indices of rows of batch{unmoved.other} without offsets: the {unmoved.rows} rows "
            f"of the second sample begin at row {unmoved.before}"
            if unmoved.moved is None
            else f"batch{path} moves the indices after a sample with {unmoved.rows} rows of batch{unmoved.other} by "
            f"{unmoved.moved}, its largest index and one"
        )
        line = partial(lab.batches.lines.of_leaf, path, collation.indices)
        yield _Fault(message, {"fix here": f"add the rows of batch{unmoved.other} before each sample"}, line)


def _line_of_cast(lab: Lab, path: str, collation: Collation) -> Traced | None:
    return lab.batches.lines.of_cast(path, collation.indices)


def _mutated(lab: Lab, collation: Collation) -> Iterator[_Fault]:
    moving = moving_leaves(lab) if collation.mutated else ()
    mutated = {path: index for path, index in collation.mutated.items() if path not in moving}
    if mutated:
        path, index = next(iter(mutated.items()))
        message = f"collate_fn writes into dataset[{index!r}]{path}: the next read returns the modified value"
        evidence = {
            "fix here": "write into a copy: copy.deepcopy(sample)",
            "modified leaves": [f"sample{path}" for path in mutated],
        }
        yield _Fault(message, evidence, lambda: lab.batches.lines.of_writing(index))
