"""DG513: samples that cannot be read, all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.model import Finding, Judgement, Location, Looked, NotApplicable, Severity, known

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.reading.epoch_trace import EpochTrace
    from dataguard.process.progress import Unreadable


@check("DG513", "unreadable-sample", Severity.ERROR)
def dg513_unreadable_sample(lab: Lab) -> Judgement:
    """Reading a sample raises: with `--all`, every index that does, with its file and the reason.

    Symptom: training stops at some hour of the first epoch, and at another one after the file is replaced.
    Cause: files that are damaged, empty, missing or of another kind than the rest, and annotations that do not fit
        them. A scan of all samples passes over what cannot be read, and goes on.
    Fix: repair the files that the evidence lists, or take them out of the list that the dataset reads.
    Links: https://docs.pytorch.org/docs/stable/data.html#map-style-datasets
    """
    if not lab.settings.all:
        raise NotApplicable("needs --all, which reads every sample")
    lab.need_map("the samples of a stream have no index; one that raises ends it")
    if lab.facts.own_iter:
        raise NotApplicable("the loader has an __iter__ of its own, which needs whole batches: see DG001")
    epoch = lab.epoch
    alike: dict[tuple[object, ...], list[Unreadable]] = {}
    for one in epoch.unreadable:
        alike.setdefault((one.error_type, one.where), []).append(one)
    asked_for = (epoch.read or 0) + len(epoch.unreadable)
    for group in alike.values():
        yield _finding(lab, group, asked_for)
    return Looked({**epoch.exercised, "samples": asked_for}, note=_resumed(epoch, asked_for))


def _resumed(epoch: EpochTrace, asked_for: int) -> str | None:
    """Where the scan went on after an interruption."""
    count = "all" if epoch.before == asked_for else f"{epoch.before} of {asked_for}"
    before = f"{count} samples were read before the interruption" if epoch.before else None
    afresh = f"read from the beginning: {epoch.afresh}" if epoch.afresh else None
    return "; ".join(filter(None, (before, afresh))) or None


def _finding(lab: Lab, group: Sequence[Unreadable], asked_for: int) -> Finding:
    first = group[0]
    others = f", and {len(group) - 1} more cannot be read" if len(group) > 1 else ""
    return Finding(
        message=f"dataset[{first.shown}] raises {first.reason}{others}",
        evidence=known(
            {
                "unreadable": f"{len(group)} of {asked_for} samples",
                "samples": [known({"index": one.shown, "file": one.file, "reason": one.reason}) for one in group],
            }
        ),
        at=Location(*first.where) if first.where else None,
        repro=lab.repro.expression(f".dataset[{first.shown}]"),
    )
