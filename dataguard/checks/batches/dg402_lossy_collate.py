"""DG402: a batch that does not match its samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dataguard.checks.batches.pairing import mispaired, misread, missing
from dataguard.checks.common.check import check
from dataguard.checks.common.drift import is_aliased, moving_leaves
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, Undecided, without_empty
from dataguard.machine.units import counted

if TYPE_CHECKING:
    from dataguard.lab.batches.collate_trials import Collation
    from dataguard.lab.lab import Lab

_HARMLESS = "collate_fn writes into samples that the dataset stores; workers lose this at the end of each epoch"


@check("DG402", "lossy-collate", Severity.ERROR)
def dg402_lossy_collate(lab: Lab) -> Judgement:
    """A batch does not match what the dataset returns for its indices.

    Symptom: a loss that falls slowly or not at all, or metrics at chance level: inputs are paired with wrong labels.
    Cause: collate_fn, or `__getitems__`, sorts or filters one part of the samples and not the others, drops samples,
        truncates fractions, or writes into samples that the dataset stores.
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
    found = list(_lost(collation)) or list(_apart(collation))
    found += [*_changed(collation), *(_mutated(lab, collation) if lasting else ())]
    if found and is_aliased(lab):
        raise NotApplicable("all samples share one buffer: see DG308")
    for message, evidence in found:
        order = None if None in collation.indices else list(collation.shown)
        yield Finding(message, without_empty({**evidence, "collated samples": order}), repro=repro)
    wrong = misread(getitems) if getitems else None
    if getitems and wrong:
        returned = [" or ".join(map(str, place)) or "another sample" for place in getitems.given]
        requested = [str(index) for index in getitems.asked]
        line = lab.repro.samples(*getitems.asked, batch=True)
        yield Finding(f"__getitems__ {wrong}", {"requested": requested, "returned": returned}, repro=line)
    leaves = {one.leaf for form in collation.forms.values() for one in form.recognized}
    if not (leaves or found or getitems):
        if facts.default_collate:
            raise NotApplicable("torch's collate_fn keeps the order of samples, whose values are random or equal")
        if lab.batches.random_leaves.others:
            raise NotApplicable("collate_fn mixes or changes samples at random, so no row of the batch is a sample")
        raise Undecided("no row of the batch matches a sample: samples are mixed, regenerated, or all equal")
    looked = {"samples": count, "batches": len(collation.forms), "leaves": len(leaves), "reads": observed.reads}
    return Coverage(looked, _HARMLESS if collation.mutated and not lasting else None)


def _name(collation: Collation, sample: int) -> str:
    index = collation.indices[sample]
    return f"sample {sample} of a stream" if index is None else f"dataset[{index!r}]"


def _apart(collation: Collation) -> Iterator[tuple[str, dict[str, object]]]:
    pair = mispaired(collation)
    if pair:
        one, two = (_name(collation, sample) for sample in pair.samples)
        message = f"row {pair.row} of batch{pair.leaf} is {one}, but row {pair.row} of batch{pair.other} is {two}"
        yield message, {"batch": f"{counted(len(pair.order), 'samples')}, {pair.form}"}


def _lost(collation: Collation) -> Iterator[tuple[str, dict[str, object]]]:
    gone = missing(collation)
    if gone:
        names = ", ".join(_name(collation, sample) for sample in gone.samples[:4])
        names += ", ..." if len(gone.samples) > 4 else ""
        rows = f"{counted(gone.rows, 'rows')} of batch{gone.leaf} for {counted(len(collation.indices), 'samples')}"
        fault = f"replaces {names} with copies of other samples" if gone.repeated else f"drops {names}"
        yield f"collate_fn {fault}", {"rows": rows, "samples lost": len(gone.samples)}


def _mutated(lab: Lab, collation: Collation) -> Iterator[tuple[str, dict[str, object]]]:
    moving = moving_leaves(lab) if collation.mutated else ()
    mutated = {path: index for path, index in collation.mutated.items() if path not in moving}
    if mutated:
        path, index = next(iter(mutated.items()))
        message = f"collate_fn writes into dataset[{index!r}]{path}: the next read returns the modified value"
        yield message, {"modified leaves": [f"sample{path}" for path in mutated]}


def _changed(collation: Collation) -> Iterator[tuple[str, dict[str, object]]]:
    for path, cast in collation.truncated.items():
        yield f"sample{path} is truncated: {cast}, where all samples are equal", {}
    for path, cast in collation.overflowed.items():
        yield f"sample{path} overflows: {cast}, where large numbers wrap around", {}
