"""DG106: several workers read through one file offset."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.incident import LoaderFailed, LoaderInterleaved
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

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.randomness.shared_offsets import SharedOffsets
    from dataguard.lab.reading.open_files import OpenFile


@check("DG106", "shared-handle", Severity.ERROR)
def dg106_shared_handle(lab: Lab) -> Judgement:
    """Several workers read a file through one shared offset, because it was opened before they started.

    Symptom: some samples silently contain the bytes of others, different ones in every run; or `BadZipFile`,
        `zlib.error`, `UnpicklingError` or short reads that cannot be reproduced and disappear with one worker.
    Cause: forked processes share an open file, including its offset. Between one worker's `seek` and its `read`,
        another worker moves the offset. Zip and tar archives use `seek` and `read` as well.
    Fix: open the file inside the worker: on first use in `__getitem__`, or in `worker_init_fn`. Or read without an
        offset: `os.pread`, `mmap`, `numpy.memmap`. A `multiprocessing.Lock` helps only around unbuffered reads,
        because a buffer remembers a stale offset.
    Links: https://man7.org/linux/man-pages/man2/fork.2.html
        https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading
    """
    if lab.facts.num_workers < 2:
        raise NotApplicable(f"num_workers={lab.facts.num_workers}: fewer than two workers{_latent(lab)}")
    if lab.facts.spawns:
        raise NotApplicable(f"the start method is {lab.facts.start_method}: workers do not inherit open files")
    exercised = {}
    with contextlib.suppress(LoaderInterleaved):  # the defect itself: the observation below reports it
        exercised = {unit: count for unit, count in lab.epoch.exercised.items() if unit != "batches"}
    offsets = _shared_offsets(lab)
    note = None
    if offsets.workers:
        exercised = {"samples": offsets.samples, "workers": offsets.workers}
    if offsets.at_risk:
        yield _finding(lab, offsets, _incident(lab))
    elif offsets.moved:
        names = _names([file for file, _, _ in offsets.moved])
        note = f"workers share the file offset of {names}, but take a lock, and all samples are correct"
    return Coverage({**exercised, "files": len(offsets.moved)}, note)


def _shared_offsets(lab: Lab) -> SharedOffsets:
    try:
        return lab.randomness.shared_offsets
    except LoaderFailed as failure:
        reason = failure.incident.under_other_settings
        raise Undecided(reason) from failure


def _latent(lab: Lab) -> str:
    """What several workers would share, where the loader has fewer: mentioned, but no finding."""
    try:
        files = lab.randomness.shared_offsets.shared
    except (LoaderFailed, NotApplicable, Undecided):  # the user's code ended the attempt; it says nothing of a file
        return ""
    shared = [file for file in files if file.readers > 1] if lab.facts.start_method == "fork" else []
    return f"; several forked workers may share the file offset of {_names(shared)}" if shared else ""


def _finding(lab: Lab, offsets: SharedOffsets, incident_headline: str | None) -> Finding:
    moved = offsets.moved or offsets.later
    file, before, after = moved[0]
    first = offsets.wrong[0] if offsets.wrong else None
    exception = offsets.raised.headline if offsets.raised else incident_headline
    outcome = f": {len(offsets.wrong)} of {offsets.samples} samples are wrong" if first else ""
    outcome = outcome or (f": {exception}" if exception else "")
    evidence = {
        "files": sorted({moved_file.file for moved_file, _, _ in moved}),
        "offset seen by the main process": f"{before}, then {after}" if before != after else None,
        "wrong samples": f"{len(offsets.wrong)} of {offsets.samples}" if first else None,
        "first wrong sample": f"{first.leaf} of index {first.index} in worker {first.worker}" if first else None,
        "exception with several workers": exception,
        "lock": "taken by workers, but not effective" if offsets.locked else None,
    }
    path, at = file.path, file.at
    opened = lab.randomness.opening_line(path) if path else None
    message = f"{offsets.workers} workers read {file.name} through one file offset{outcome}"
    return Finding(message, without_empty(evidence), opened or (Location(*at, path) if at else None))


def _incident(lab: Lab) -> str | None:
    try:
        lab.epoch  # noqa: B018 - remembered: only its failure is asked for
    except LoaderFailed as failure:
        return failure.incident.headline
    return None


def _names(files: Sequence[OpenFile]) -> str:
    return ", ".join(dict.fromkeys(file.name for file in files[:3]))
