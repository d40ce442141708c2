"""DG523: patients, speakers or sessions that are in two splits."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import product
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity
from dataguard.settings.parsers import EVALUATION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dataguard.lab.lab import Lab
    from dataguard.lab.reading.epoch_trace import EpochTrace
    from dataguard.lab.splits.index_contents import Groups

FEWEST_GROUPS = 12
"""Fewer groups may be classes, or conditions that each split is meant to have."""
_CLASSES = "groups are what the labels name: each is meant to be in both splits"
_UNNAMED = "nothing names a patient, subject, speaker, session or group: set `group` in the contract"
_RESTARTS = "each split numbers its groups from the same number on: whether they are the same is not known"


@check("DG523", "shared-group", Severity.WARNING, since="2026.3")
def dg523_shared_group(lab: Lab) -> Judgement:
    """Samples of one patient, subject, speaker or session are in training and in evaluation.

    Symptom: evaluation looks much better than on new patients, since the model recognises those that it has seen.
    Cause: samples are split at random, though several belong together.
    Fix: split the groups and not the samples, as scikit-learn's `GroupShuffleSplit` and `GroupKFold` do. If the groups
        have another name, set `group = "case_id"` in the contract.
    Links: https://scikit-learn.org/stable/modules/cross_validation.html#cross-validation-iterators-for-grouped-data
    """
    lab.need_map("a stream lists no groups")
    lab.facts.need_role(*EVALUATION, otherwise="groups are looked for in evaluation that are in training too")
    declared = lab.settings.contract.get("group")
    judged, notes, reason = 0, [], _UNNAMED
    for other in (one for one in lab.splits.earlier if one.facts.kind == "map"):
        for own, theirs in product(lab.splits.groups, lab.splits.groups_of(other)):
            if own.name != theirs.name:
                continue
            counts = [Counter(one.of.values()) for one in (own, theirs)]
            both, shared = counts[0] + counts[1], counts[0].keys() & counts[1].keys()
            if not declared and not _may_be_groups(both):
                reason = f"{own.name} may name few classes, not groups with numbers: set `group` in the contract"
                continue
            judged += len(counts[0])
            if not declared and any(_are_labels(one.epoch, each) for one, each in ((lab, own), (other, theirs))):
                notes.append(_CLASSES)
            elif shared and (own.table is None or own.table != theirs.table) and _restarts(*counts):
                notes.append(_RESTARTS)
            elif shared:
                most = max(sorted(shared), key=lambda name: counts[0][name] * counts[1][name])
                yield Finding(
                    message=f"{len(shared)} of {len(counts[0])} groups by {own.name} are in {other.facts.name} too: "
                    f"{most} has {counts[0][most]} samples here and {counts[1][most]} there",
                    evidence={
                        "fix here": f"split by {own.name}, as GroupShuffleSplit does",
                        "groups": sorted(shared)[:8],
                        "samples": f"{sum(counts[0][one] for one in shared)} here",
                    },
                    at=lab.places.split or lab.dataset.location,
                    repro=lab.repro.scan("DG523", ""),
                )
                break
    if not judged:
        raise NotApplicable(reason)
    return Coverage({"groups": judged}, notes[0] if notes else None)


def _may_be_groups(counts: Mapping[str, int]) -> bool:
    """Whether these are many groups of several samples, named by numbers as groups are and topics are not."""
    numbered = sum(any(letter.isdigit() for letter in name) for name in counts)
    return FEWEST_GROUPS <= len(counts) <= sum(counts.values()) / 2 and numbered > len(counts) / 2


def _restarts(own: Mapping[str, int], theirs: Mapping[str, int]) -> bool:
    """Whether each split numbers its groups without a gap from 0 or 1 on, or both together index an embedding."""
    if all(name.isdecimal() for name in (*own, *theirs)) and _has_no_gap({**own, **theirs}):
        return True
    return _has_no_gap(own) and _has_no_gap(theirs)


def _has_no_gap(names: Mapping[str, int]) -> bool:
    numbers = sorted({int("".join(filter(str.isdecimal, name)) or -1) for name in names})
    return numbers[0] in (0, 1) and numbers[-1] - numbers[0] == len(names) - 1


def _are_labels(epoch: EpochTrace, groups: Groups) -> bool:
    """Whether groups are what is to be predicted: a leaf has one value for each, or only the input is beside them."""
    others = {leaf.path for leaf in epoch.samples[0].leaves if not leaf.path.rstrip("']").endswith(groups.name)}
    named = len(others) < len(epoch.samples[0].leaves)
    known: dict[str, set[tuple[str, float]]] = defaultdict(set)
    for one in epoch.value_summaries:
        for each in one.numbers if one.position is not None and one.index in groups.of else ():
            if each.whole and each.size == 1 and each.path in others:
                known[each.path].add((groups.of[one.index], each.low))
    both = [
        (len({name for name, _ in pairs}), len({value for _, value in pairs}), len(pairs)) for pairs in known.values()
    ]
    return (named and len(others) < 2) or any(names == values == pairs > 1 for names, values, pairs in both)
