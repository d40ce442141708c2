"""DG209: a restored loader does not continue as it would have without an interruption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from dataguard.checks.common.check import check
from dataguard.core.incident import observed_or_none
from dataguard.core.model import (
    Coverage,
    Finding,
    Judgement,
    Location,
    NotApplicable,
    Severity,
    Undecided,
    without_empty,
)
from dataguard.machine.units import counted

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.streams.offsets import OffsetRun, Offsets
    from dataguard.lab.streams.resume import Batches, Point, Restart, Resumes, Run

DISTINCT_SHARE = 0.5
"""The share of batches that differ from all others in a leaf by which batches are recognised."""
KNOWN_SHARE = 0.9
"""The share of samples that were read before, from which on other batches mean a different order."""
OTHER_SHARE = 0.25
"""The share of indices that were read before, below which two orders differ: the right one has half of them."""
FEWEST_EPOCHS = 2
"""A restored run that continues has the rest of an epoch, and the next one."""
OTHER_WORKERS = 2
"""The number of workers to try where the loader has none."""


@check("DG209", "broken-resume", Severity.ERROR)
def dg209_broken_resume(lab: Lab) -> Judgement:
    """A resumed loader yields other batches than without an interruption, or shorter epochs later.

    Symptom: after each restart some samples are seen again and others never, or the epoch restarts.
    Cause: the state lacks something that determines the remaining batches: the position in the epoch, the order of a
        shuffling sampler, the epoch number, or what the workers have prefetched; or it cannot be saved. Or it holds for
        the process alone that saved it: an order drawn from a global generator or by hashes of strings, an `id`. Or a
        sampler that starts at an offset does so in every later epoch.
    Fix: save the number of batches already yielded, and the RNG state from which this epoch's order was drawn;
        torchdata's StatefulDataLoader does both for samplers and datasets that have a `state_dict`. Set an offset back
        once the epoch that was continued has ended.
    Links: https://docs.pytorch.org/data/main/stateful_dataloader_tutorial.html
    """
    facts = lab.facts
    offsets = lab.streams.offsets
    at_offsets = {} if offsets.of_stream else offset_faults(offsets)
    unset = _left_to_training(offsets) if offsets.of_stream else None
    for offset, (fault, evidence) in at_offsets.items():
        yield Finding(
            message=f"with {offset.name} = {offset.value}, the {offset.holder} {fault}",
            evidence=evidence,
            at=lab.places.order or lab.places.sampler,
        )
    try:
        resumes = lab.streams.resumes(facts.num_workers)
    except NotApplicable:
        if not offsets.offsets:
            raise
        return Coverage({"offsets": len(offsets.offsets)}, unset)
    by_point = _judged(lab, resumes)
    if by_point:
        point, fault = next(iter(by_point.items()))
        outcomes = {str(where): by_point.get(str(where), "continues correctly") for where in resumes.restored}
        yield Finding(
            message=f"restored {point}, the loader {fault}",
            evidence=without_empty(
                {
                    "fix here": "save the epoch, the batches read and the state of generators, and restore all of them",
                    "state of": " and ".join(resumes.method.parts) if resumes.method.of_parts else None,
                    "after restoring": outcomes,
                    "batches per epoch": len(resumes.reference.epochs[0]),
                    "workers": facts.num_workers,
                }
            ),
            at=lab.places.state,
        )
    elsewhere, note = (None, None) if by_point else _in_new_process(lab, resumes)
    if elsewhere is not None:
        yield elsewhere
    exercised = {"restarts": len(resumes.restored), "batches": sum(map(len, resumes.reference.epochs))}
    is_faulty = by_point or at_offsets or elsewhere
    return Coverage(exercised, None if is_faulty else note or unset or _latent(lab))


def _left_to_training(offsets: Offsets) -> str | None:
    """What a stream leaves out of later epochs, unless training sets its offset back, which no loader shows."""
    for offset, (fault, _) in offset_faults(offsets).items():
        return f"with {offset.name} = {offset.value}, the {offset.holder} {fault}, unless training sets it back"
    return None


SETS = "sets_backward"
CAUSES: dict[str, tuple[Mapping[str, bool], str]] = {
    "its objects are new ones": ({}, "save values: an id and what a module holds are those of one process"),
    "strings have other hashes, and sets of them another order": (
        {SETS: True},
        "sort the set, and derive numbers from strings with zlib.crc32",
    ),
    "the global generators have drawn other numbers": (
        {"read": True},
        "seed the order with the epoch, or save the state of the generator from which it is drawn",
    ),
}
"""What differs in a new process, with the arguments of `Streams.restart` for that alone, and what helps."""


def _in_new_process(lab: Lab, resumes: Resumes) -> tuple[Finding | None, str | None]:
    """What a restart in a new process does wrong, if one in a fork of the first process is right; or else a note.

    All that differs between two processes of one training is changed at once; if that matters, one after the other.
    """

    def restart(**differs: bool) -> tuple[Restart, str | None] | None:
        made = observed_or_none(lambda: lab.streams.restart(lab.facts.num_workers, **differs))
        if made is None:
            return None
        return made, _fault_of_restart(resumes, made, is_same_data=bool(differs) and "made" not in differs)

    reads = resumes.method.load is None  # functions of the user restore what training draws, too
    sets_backward = True  # the first process may have the same order of a small set, so that both are tried
    tried = restart(sets_backward=sets_backward, read=reads)
    if tried and not tried[1] and tried[0].hashed:
        sets_backward = False
        tried = restart(sets_backward=sets_backward, read=reads)
    if tried is None:
        return None, None
    if not tried[1]:
        unseeded = restart(made=True) if reads else None
        fault = unseeded and unseeded[1]
        note = f"if the global generators are not seeded before it is made, it {fault} after a restart"
        return None, note if fault else None
    for words, (differs, fix) in CAUSES.items():
        cause = restart(**{name: sets_backward if name == SETS else value for name, value in differs.items()})
        if cause and cause[1]:
            lines = [Location(*place) for place in cause[0].hashed if place]
            evidence = {"differs there": words, "fix here": fix, "at": [f"{at.file}:{at.line}" for at in lines]}
            message = f"restored {cause[0].point} in a new process, the loader {cause[1]}"
            at = next(iter(lines), None) or lab.places.state
            return Finding(message=message, evidence=without_empty(evidence), at=at), None
    return None, None


def _fault_of_restart(resumes: Resumes, restart: Restart, *, is_same_data: bool) -> str | None:
    """What is wrong after a restart in a new process; samples of other data than those of the first one say nothing."""
    point, run = restart.point, restart.run
    try:
        fault = _fault(resumes, point, run, _stable(resumes))
    except Undecided:  # unknown samples, which an order of many may begin with
        yielded, expected = resumes.reference.compared(point, run)
        read = run.indices & resumes.reference.indices
        is_order = len(read) < OTHER_SHARE * len(run.indices) and [*map(len, yielded)] == [*map(len, expected)]
        return "continues at the right position in another order" if is_same_data and is_order else None
    return fault if is_same_data or run.refused or _are_known(resumes, run) else None


def _are_known(resumes: Resumes, run: Run) -> bool:
    """Whether nearly all samples of a restored run were read before, too."""
    read, known = (
        one.samples or {row for rows in one.rows for row in chain(*rows)} for one in (run, resumes.reference)
    )
    return len(read & known) > KNOWN_SHARE * len(read)


def _judged(lab: Lab, resumes: Resumes) -> dict[str, str]:
    """The faults of a restored loader, unless the state is not meant to hold a position in the epoch.

    States of parts that never change within an epoch are those of each epoch, or of a training loop that sets them;
    only copies in workers make a state that would change otherwise stand still.
    """
    if resumes.method.of_parts and not resumes.holds_position:
        if not lab.facts.num_workers or not lab.streams.resumes(0).holds_position:
            parts = " and ".join(resumes.method.parts)
            raise NotApplicable(f"the state of the {parts} does not change in an epoch: the training loop sets it")
        stays = "its state is taken in the main process, and workers read copies of the dataset"
        return {point: f"{fault}: {stays}" for point, fault in faults(resumes).items()}
    return faults(resumes)


def offset_faults(offsets: Offsets) -> dict[OffsetRun, tuple[str, dict[str, Any]]]:
    """What samplers that get a place to start from do wrong, by offset: the first fault of each."""
    found: dict[OffsetRun, tuple[str, dict[str, Any]]] = {}
    for offset in offsets.offsets:
        if any(one.name == offset.name for one in found):
            continue
        whole, start = offsets.epochs, offset.skipped
        for epoch, ((continued, _), wanted) in enumerate(zip(offset.epochs, whole, strict=False)):
            if continued != wanted[start:]:
                again = len(set(continued) & set(wanted[:start]))
                where = "" if epoch == 0 else " of the second epoch"
                fault = f"continues at the right position{where}, but in another order"
                evidence = {"samples read again": again, "samples left out": len({*wanted[start:]} - {*continued})}
                found[offset] = (fault, evidence)
                break
        else:
            later = offset.epochs[0][1]
            if len(later) < len(whole[1]):
                fault = f"yields {len(later)} of {len(whole[1])} samples in later epochs, too"
                found[offset] = (fault, {"samples left out of each epoch": len(whole[1]) - len(later)})
    return found


def faults(resumes: Resumes) -> dict[str, str]:
    """What a restored loader does wrong, by where the run was interrupted.

    Raises Undecided when two uninterrupted runs differ, or when random and wrong batches cannot be distinguished.
    """
    if resumes.asked.refused:
        return {"in another process": f"fails: its state cannot be pickled ({resumes.asked.refused})"}
    stable = _stable(resumes)
    if not stable:
        raise Undecided("two uninterrupted runs yield different batches")
    by_point: dict[str, str] = {}
    doubts: list[Undecided] = []
    for where, runs in (("", resumes.restored), (" through JSON", resumes.by_json)):
        for point, run in runs.items():
            try:
                fault = _fault(resumes, point, run, stable)
            except Undecided as doubt:
                doubts.append(doubt)
                continue
            if fault and (not where or str(point) not in by_point):
                by_point[f"{point}{where}"] = fault
    if doubts and not by_point:
        raise doubts[0]
    return by_point


def _stable(resumes: Resumes) -> list[str]:
    """The leaves of batches that are the same in two uninterrupted runs."""
    paths = dict.fromkeys(path for epoch in resumes.reference.epochs for batch in epoch for path, _ in batch)
    return [path for path in paths if _leaf(resumes.reference, path) == _leaf(resumes.asked, path)]


def _leaf(run: Run, path: str) -> list[Batches]:
    """One leaf of every batch, epoch by epoch."""
    return [_only(epoch, path) for epoch in run.epochs]


def _only(batches: Batches, path: str) -> Batches:
    return tuple(tuple(part for part in batch if part[0] == path) for batch in batches)


def _fault(resumes: Resumes, point: Point, run: Run, stable: Sequence[str]) -> str | None:
    """What is wrong with the batches that are yielded after restoring at a point."""
    if run.refused:
        return None if point.again else f"fails: {run.refused}"  # the user sees the error of a later restart
    return _fault_of_rest(resumes, point, run, stable) or _fault_of_next(resumes, run)


def _fault_of_next(resumes: Resumes, run: Run) -> str | None:
    """What is wrong with the length of the epoch after the one that was continued, where all epochs have one length."""
    lengths = {len(epoch) for one in (resumes.reference, resumes.asked) for epoch in one.epochs}
    if len(run.epochs) < FEWEST_EPOCHS or len(lengths) > 1 or len(run.epochs[1]) in lengths:
        return None
    return f"yields {counted(len(run.epochs[1]), 'batches')} instead of {max(lengths)} in the next epoch"


def _fault_of_rest(resumes: Resumes, point: Point, run: Run, stable: Sequence[str]) -> str | None:
    """What is wrong with the rest of the epoch."""
    yielded, expected = resumes.reference.compared(point, run)
    if point.end and (not yielded or len(yielded) == len(expected)):
        return None  # either the end once more, or a new epoch, in whatever order
    wrong = [path for path in stable if _only(yielded, path) != _only(expected, path)]
    right = [path for path in stable if path not in wrong]
    if not wrong or any(_identifies(resumes.reference, path) for path in right):
        return None
    whole = expected if point.end else resumes.reference.epochs[point.epoch]
    fault = _misplaced(whole, len(whole) - len(expected), yielded, stable)
    recognised = len(run.samples & resumes.reference.samples) > KNOWN_SHARE * len(run.samples)
    other = resumes.reseeded
    drawn = other is None or all(_leaf(resumes.reference, path) != _leaf(other, path) for path in wrong)
    if fault is None and not recognised and drawn:
        raise Undecided("the restored loader draws random samples, so its batches cannot be compared")
    return fault or _reordered(resumes, point, run) or "yields other batches than without the interruption"


def _reordered(resumes: Resumes, point: Point, run: Run) -> str | None:
    """How many samples are lost and read again where the rest has the right length and comes in another order."""
    if point.end or not resumes.reference.rows or not run.rows:
        return None
    whole, rest = resumes.reference.rows[point.epoch], run.rows[0]
    expected = whole[point.after :]
    rest = rest if resumes.reference.ended else rest[: len(expected)]
    before, wanted, yielded = ({*chain(*rows)} for rows in (whole[: point.after], expected, rest))
    if [*map(len, rest)] != [*map(len, expected)] or not yielded or before & wanted:
        return None
    if not yielded <= before | wanted and resumes.reference.ended:
        return None  # other samples
    again, lost = len(yielded & before), len(wanted - yielded) if resumes.reference.ended else 0
    repeated = f": it repeats {counted(again, 'samples')}" if again else ""
    omitted = f" and leaves out {lost}" if again and lost else ""
    return f"continues at the right position in another order{repeated}{omitted}"


def _identifies(run: Run, path: str) -> bool:
    """Whether most batches of an epoch differ in a leaf."""
    leaf = _only(run.epochs[0], path)
    return len(set(leaf)) > DISTINCT_SHARE * len(leaf) and len(set(leaf)) > 1


def _misplaced(epoch: Batches, after: int, yielded: Batches, stable: Sequence[str]) -> str | None:
    """Where in the epoch the restored loader continues, if it does so at one of its batches, but not at the right one.

    At the right one it may still end too early or too late.
    """
    if not yielded:
        return f"yields no batch instead of {len(epoch) - after}"
    first, *others = (tuple(part for part in batch if part[0] in stable) for batch in (yielded[0], *epoch))
    if others.count(first) != 1:
        return None
    ahead = others.index(first) - after
    if ahead == 0:
        rest = len(epoch) - after
        return f"yields {counted(len(yielded), 'batches')} instead of {rest}" if len(yielded) != rest else None
    return f"repeats {counted(-ahead, 'batches')}" if ahead < 0 else f"skips {counted(ahead, 'batches')}"


def _latent(lab: Lab) -> str | None:
    """What would break with workers, or without them."""
    other = 0 if lab.facts.num_workers else OTHER_WORKERS
    try:
        resumes = lab.streams.resumes(other)
        if resumes.method.of_parts:
            return None  # which run differently in workers, as their users know
        by_point = faults(resumes)
    except (NotApplicable, Undecided):
        return None
    return next((f"with num_workers={other}, restored {point}, it {fault}" for point, fault in by_point.items()), None)
