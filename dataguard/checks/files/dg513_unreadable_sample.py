"""DG513: all samples that cannot be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.model import Coverage, Finding, Judgement, Location, NotTested, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.process.progress import Unreadable


@check("DG513", "unreadable-sample", Severity.ERROR)
def dg513_unreadable_sample(lab: Lab) -> Judgement:
    """Reading a sample raises. With `--all`, every such index is listed with its file and the reason.

    Symptom: training stops hours into the first epoch, and at another sample once that file is replaced.
    Cause: files that are damaged, empty, missing or in another format than the rest, and annotations that do not match
        them. A scan with `--all` skips what cannot be read and continues.
    Fix: repair the files listed in the evidence, or remove them from the dataset's list.
    Links: https://docs.pytorch.org/docs/stable/data.html#map-style-datasets
    """
    if not lab.settings.all:
        raise NotTested("needs --all, which reads every sample")
    lab.need_map("samples of a stream have no index, and one that raises ends the stream")
    if lab.facts.own_iter:
        raise NotTested("the loader's own __iter__ needs complete batches, so no sample can be skipped: see DG001")
    epoch = lab.epoch
    groups: dict[tuple[object, ...], list[Unreadable]] = {}
    for unreadable in epoch.unreadable:
        groups.setdefault((unreadable.error_type, unreadable.where), []).append(unreadable)
    requested = (epoch.read or 0) + len(epoch.unreadable)
    for group in groups.values():
        yield _finding(lab, group, requested)
    return Coverage({**epoch.exercised, "samples": requested})


def _finding(lab: Lab, group: Sequence[Unreadable], requested: int) -> Finding:
    first = group[0]
    others = f", and {len(group) - 1} more cannot be read" if len(group) > 1 else ""
    return Finding(
        message=f"dataset[{first.shown}] raises {first.reason}{others}",
        evidence=without_empty(
            {
                "unreadable": f"{len(group)} of {requested} samples",
                "samples": [
                    without_empty({"index": unreadable.shown, "file": unreadable.file, "reason": unreadable.reason})
                    for unreadable in group
                ],
            }
        ),
        at=Location(*first.where) if first.where else None,
        repro=lab.repro.spelled(first.shown),
    )
