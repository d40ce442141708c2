"""DG212: rows, files or parts that a dataset holds and no sample reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.incident import LoaderFailed
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, Undecided
from dataguard.machine.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dataguard.lab.lab import Lab
    from dataguard.lab.provenance.unread import Parts, Reach, Reached
    from dataguard.lab.sound.window_starts import WindowStarts


@check("DG212", "unread-source", Severity.WARNING, since="2026.4")
def dg212_unread_source(lab: Lab) -> Judgement:
    """The last rows or files of a dataset, or one of several joined datasets, are read by no loader.

    Symptom: no error; training uses fewer samples than there are, and a class or time that comes last is missing.
    Cause: a length that is rounded down or off by one, as `n // size * size` and `(n - window) // stride` are; files of
        the last shard are not counted; indices are drawn for the length of one dataset and used for several; the start
        of a window of a sound file is drawn in seconds, and used as a number of frames.
    Fix: derive `__len__` from what `__getitem__` reads: `(n - window) // stride + 1` windows. If the rest is left out
        on purpose, remove it from what the dataset holds, or keep the limit in an attribute of the dataset.
    Links: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.Dataset
    """
    lab.need_map("a stream says nothing of what it holds")
    windows = _sound_windows(lab)
    still = [one for one in windows if _hardly_moves(one)]
    if still:
        yield _still(lab, still[0])
        return Coverage({"draws": len(still[0].starts)})
    own = lab.provenance.reached
    if not own.reaches and not own.parts:
        raise NotApplicable("no array, table, list of files or joined dataset is read in order")
    left = [reach for reach in own.reaches if _is_left(reach)]
    whole = [parts for parts in own.parts if not all(parts.requested)]
    others, unknown = _others(lab) if left or whole else ({}, None)
    findings = [*_unread(lab, left, others), *_unrequested(lab, whole, others)]
    if findings and unknown:
        raise Undecided(f"what {unknown} reads of it is not known")
    yield from findings
    return Coverage({"sources": len(own.reaches) + len(own.parts)})


def _sound_windows(lab: Lab) -> tuple[WindowStarts, ...]:
    """The waveforms that are cut from their files at random."""
    try:
        return lab.sound.window_starts
    except (LoaderFailed, NotApplicable, Undecided):
        return ()


def _hardly_moves(one: WindowStarts) -> bool:
    """Whether the start of a window moves by less frames than its file has seconds, and a second of it is unread."""
    moved = max(one.starts) - min(one.starts)
    return moved * one.rate <= one.frames and one.frames - one.length - max(one.starts) >= one.rate


def _still(lab: Lab, one: WindowStarts) -> Finding:
    return Finding(
        message=f"dataset[{one.index!r}]: {one.root}{one.path} begins at frame {min(one.starts)} to {max(one.starts)} "
        f"of {one.frames:,} in {Path(one.file).name}, in {len(one.starts)} random states: the rest is not read",
        evidence={
            "fix here": f"draw the start in frames: up to {one.frames - one.length:,} here",
            "starts": list(one.starts),
            "frames of the window": one.length,
            "sample rate": one.rate,
            "confirmed by": "noise in the place of the file",
        },
        at=lab.places.random(one.index, one.path) or lab.dataset.location,
        repro=lab.repro.samples(one.index),
        sample=one.index,
    )


def _is_left(reach: Reach) -> bool:
    """Whether at least one more sample could be read after the last one."""
    return not reach.limited and len(reach.unread) >= max(reach.window, reach.step)


def _others(lab: Lab) -> tuple[Mapping[str, Reached], str | None]:
    """What the other loaders of the target read, and the name of one of which that is not known."""
    found, unknown = {}, None
    for name, other in lab.siblings.items():
        if other is not lab:
            try:
                found[name] = other.provenance.reached
            except LoaderFailed:
                continue
            except (NotApplicable, Undecided):  # of other data, if its name says so
                unknown = name if other.facts.stem is not None and other.facts.stem == lab.facts.stem else unknown
    return found, unknown


def _unread(lab: Lab, left: list[Reach], others: Mapping[str, Reached]) -> Iterator[Finding]:
    read = {name for other in others.values() for reach in other.reaches for name in reach.read}
    for reach in left:
        if read.intersection(reach.unread) or _said_before(lab, reach, others):
            continue
        evidence: dict[str, object] = {"samples": reach.samples, "unread": len(reach.unread)}
        if reach.kind == "files":
            evidence["files"] = [Path(str(name)).name for name in reach.unread[:8]]
        else:
            evidence |= {"rows of a sample": reach.window, "from one sample to the next": reach.step}
            more = (len(reach.unread) - reach.window) // reach.step + 1
            evidence |= {"more samples": more, "fix here": f"return {reach.samples + more} for these data"}
        yield Finding(
            message=f"no sample reads the last {len(reach.unread):,} of {counted(reach.count, reach.kind)} in "
            f"{reach.path}: dataset[{reach.samples - 1}], the last one, ends at number {reach.end - 1:,}",
            evidence=evidence,
            at=lab.places.length(reach.path.rpartition(".")[0]) or lab.dataset.location,
            repro=lab.repro.samples(reach.samples - 1),
        )


def _said_before(lab: Lab, reach: Reach, others: Mapping[str, Reached]) -> bool:
    """Whether an earlier loader of the target leaves the same unread."""
    for name in lab.siblings:
        if name == lab.facts.name:
            return False
        if name in others and any(reach.unread == other.unread for other in others[name].reaches):
            return True
    return False


def _unrequested(lab: Lab, whole: list[Parts], others: Mapping[str, Reached]) -> Iterator[Finding]:
    """Parts of joined datasets of which subsets choose nothing, while they choose all of others before them."""
    for parts in whole:
        same = {name: one for name, each in others.items() for one in each.parts if one.name == parts.name}
        if next(name for name in lab.siblings if name in same or name == lab.facts.name) in same:
            continue  # an earlier loader says it
        requested = [
            set[int]().union(*each) for each in zip(*(one.requested for one in (parts, *same.values())), strict=True)
        ]
        used = [len(each) for each in requested]
        count = next((place for place, number in enumerate(used) if not number), len(used))
        complete = used[:count] == list(parts.lengths[:count]) and not any(used[count:])
        if 0 < count < len(used) and complete:
            yield Finding(
                message=f"{parts.path} joins {counted(len(used), 'datasets')}, and all loaders request samples of only "
                f"the first {count}: {sum(parts.lengths[count:]):,} of {sum(parts.lengths):,} samples are unread",
                evidence={"samples of each": list(parts.lengths), "requested of each": used},
                at=lab.dataset.location,
            )
