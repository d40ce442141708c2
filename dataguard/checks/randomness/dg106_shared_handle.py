"""DG106: several workers read through one file offset."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.incident import LoaderFailed, LoaderInterleaved
from dataguard.model import Finding, Judgement, Location, Looked, NotApplicable, Severity, Undecided, known

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.randomness.open_files import OpenFile
    from dataguard.lab.randomness.shared_offsets import SharedOffsets


@check("DG106", "shared-handle", Severity.ERROR)
def dg106_shared_handle(lab: Lab) -> Judgement:
    """A file that was opened before the workers started is read by several of them, through one offset.

    Symptom: some samples hold the bytes of others, in silence, and other ones in every run; or `BadZipFile`,
        `zlib.error`, `UnpicklingError` or short reads that nobody can repeat and that are gone with one worker.
    Cause: forked processes share an open file, its offset included. Between one worker's `seek` and its `read`, another
        worker moves the offset. Zip and tar archives, too, read by `seek` and `read`.
    Fix: open the file inside the worker: on first use in `__getitem__`, or in `worker_init_fn`. Or read without an
        offset: `os.pread`, `mmap`, `numpy.memmap`. A `multiprocessing.Lock` helps only around unbuffered reads,
        because a buffer remembers an offset that is no longer true.
    Links: https://man7.org/linux/man-pages/man2/fork.2.html
        https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading
    """
    if lab.facts.num_workers < 2:
        raise NotApplicable(f"num_workers={lab.facts.num_workers}: no offset is shared{_latent(lab)}")
    if lab.facts.spawns:
        raise NotApplicable(f"workers start by {lab.facts.start_method}: an open file does not survive the way there")
    exercised = {}
    with contextlib.suppress(LoaderInterleaved):  # the defect itself: what the observation below saw of it is told
        exercised = {unit: count for unit, count in lab.epoch.exercised.items() if unit != "batches"}
    handles = _look(lab)
    note = None
    if handles.workers:
        exercised = {"samples": handles.samples, "workers": handles.workers}
    if handles.at_risk:
        yield _finding(handles, _incident(lab))
    elif handles.moved:
        note = f"workers share the offset of {_names(handles)}; they take a lock, and all samples came out right"
    return Looked({**exercised, "files": len(handles.moved)}, note)


def _look(lab: Lab) -> SharedOffsets:
    try:
        return lab.randomness.shared_offsets
    except LoaderFailed as failure:
        reason = f"it fails under the settings of this observation: {failure.incident.headline}"
        raise Undecided(reason) from failure


def _latent(lab: Lab) -> str:
    """What more workers would meet: said, but not held against a loader that has none."""
    try:
        shared = [
            file
            for file in lab.randomness.shared_offsets.shared
            if file.readers > 1 and lab.facts.start_method == "fork"
        ]
    except (LoaderFailed, NotApplicable, Undecided):  # the user's code ended the attempt; it says nothing of a file
        return ""
    return f"; several forked workers may share that of {_called(shared)}" if shared else ""


def _finding(handles: SharedOffsets, incident_headline: str | None) -> Finding:
    moved = handles.moved or handles.later
    file, before, after = moved[0]
    first = handles.wrong[0] if handles.wrong else None
    exception = handles.raised.headline if handles.raised else incident_headline
    outcome = f": {len(handles.wrong)} of {handles.samples} samples came out wrong" if first else ""
    outcome = outcome or (f": {exception}" if exception else "")
    evidence = {
        "files": sorted({one.file for one, _, _ in moved}),
        "offset seen by the main process": f"{before}, then {after}" if before != after else None,
        "samples wrong": f"{len(handles.wrong)} of {handles.samples}" if first else None,
        "first": f"{first.leaf} of index {first.index} in worker {first.worker}" if first else None,
        "raised only by several workers": exception,
        "lock": "taken by workers, without avail" if handles.locked else None,
    }
    place, line = file.at or (None, None)
    message = f"{handles.workers} workers read {file.name} through one file offset{outcome}"
    return Finding(message, known(evidence), Location(place, line, file.path) if place else None)


def _incident(lab: Lab) -> str | None:
    try:
        lab.epoch  # noqa: B018 - remembered: only its failure is asked for
    except LoaderFailed as failure:
        return failure.incident.headline
    return None


def _names(handles: SharedOffsets) -> str:
    return _called([file for file, _, _ in handles.moved])


def _called(files: Sequence[OpenFile]) -> str:
    return ", ".join(dict.fromkeys(file.name for file in files[:3]))
