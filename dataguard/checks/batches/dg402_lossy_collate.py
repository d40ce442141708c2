"""DG402: a batch is not made of its samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dataguard.checks.batches.pairing import mispaired, misread, missing
from dataguard.checks.common.check import check
from dataguard.checks.common.drift import is_aliased, moving_leaves
from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity, Undecided, known

if TYPE_CHECKING:
    from dataguard.lab.batches.collate_trials import Collation
    from dataguard.lab.lab import Lab


_HARMLESS = "collate_fn writes into samples that the dataset keeps, which workers forget while they are not persistent"


@check("DG402", "lossy-collate", Severity.ERROR)
def dg402_lossy_collate(lab: Lab) -> Judgement:
    """What arrives in a batch is not what the dataset gives index by index.

    Symptom: a loss that goes down slowly or not at all, or metrics no better than chance: inputs meet other labels.
    Cause: collate_fn, or `__getitems__`, sorts or filters one part of the samples and not the others, skips samples,
        cuts fractions off, or writes into samples that the dataset keeps.
    Fix: sort and filter whole samples, before they are taken apart; copy what is written into; ask a database for rows
        in the order of the indices.
    Links: https://docs.pytorch.org/docs/stable/data.html#working-with-collate-fn
    """
    bench = lab.batches.bench
    collation, together = bench.collation, bench.together
    count = len(collation.indices)
    if count < 2:
        raise NotApplicable("each batch holds a single sample")
    repro = None if None in collation.indices else lab.repro.batch(collation.indices)
    facts = lab.facts
    lasting = not facts.num_workers or facts.persistent or facts.spawns
    found = list(_lost(collation)) or list(_apart(collation))
    found += [*_changed(collation), *(_written(lab, collation) if lasting else ())]
    if found and is_aliased(lab):
        raise NotApplicable("samples lie in one buffer, whatever is made of them: see DG308")
    for message, evidence in found:
        order = None if None in collation.indices else list(collation.shown)
        yield Finding(message, known({**evidence, "samples put together": order}), repro=repro)
    wrong = misread(together) if together else None
    if together and wrong:
        answers = [" or ".join(map(str, place)) for place in together.given]
        asked = [str(index) for index in together.asked]
        line = lab.repro.expression(f".dataset.__getitems__({list(together.asked)})")
        yield Finding(f"__getitems__ {wrong}", {"asked for": asked, "given": answers}, repro=line)
    leaves = {one.leaf for form in collation.forms.values() for one in form.carried}
    if not (leaves or found or together):
        raise Undecided("nothing in the batch is recognised: its samples are mixed, made anew, or all alike")
    looked = {"samples": count, "batches": len(collation.forms), "leaves": len(leaves), "reads": bench.reads}
    return Looked(looked, _HARMLESS if collation.written and not lasting else None)


def _name(collation: Collation, sample: int) -> str:
    index = collation.indices[sample]
    return f"sample {sample} of a stream" if index is None else f"dataset[{index!r}]"


def _apart(collation: Collation) -> Iterator[tuple[str, dict[str, object]]]:
    pair = mispaired(collation)
    if pair:
        one, two = (_name(collation, sample) for sample in pair.samples)
        message = f"row {pair.row} of batch{pair.leaf} is {one}, and of batch{pair.other} {two}"
        yield message, {"rows": f"{len(pair.order)} samples, {pair.form}"}


def _lost(collation: Collation) -> Iterator[tuple[str, dict[str, object]]]:
    gone = missing(collation)
    if gone:
        names = ", ".join(_name(collation, sample) for sample in gone.samples[:4])
        names += ", ..." if len(gone.samples) > 4 else ""
        rows = f"{gone.rows} rows of batch{gone.leaf} for {len(collation.indices)} samples"
        verb = "does" if len(gone.samples) == 1 else "do"
        why = ": others stand there several times" if gone.repeated else ""
        yield f"{names} {verb} not come out of collate_fn{why}", {"rows": rows, "samples lost": len(gone.samples)}


def _written(lab: Lab, collation: Collation) -> Iterator[tuple[str, dict[str, object]]]:
    moving = moving_leaves(lab) if collation.written else ()
    written = {path: index for path, index in collation.written.items() if path not in moving}
    for path, index in list(written.items())[:1]:
        message = f"collate_fn writes into dataset[{index!r}]{path}, which is another one when it is read again"
        yield message, {"leaves written into": list(written)}


def _changed(collation: Collation) -> Iterator[tuple[str, dict[str, object]]]:
    for path, words in collation.cut.items():
        yield f"sample{path} loses its fraction: {words}, where all samples are the same", {}
    for path, words in collation.wrapped.items():
        yield f"sample{path} does not fit: {words}, where large numbers turn into others", {}
