"""DG514: samples, or windows of tokens and series, that are in two splits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.rewrites import cut_at_one_place, rewritten
from dataguard.checks.common.sample_figures import MOST_SAMPLES
from dataguard.core.figures import Pictures, View
from dataguard.core.incident import observed_or_none
from dataguard.core.model import (
    Coverage,
    Finding,
    Judgement,
    NotApplicable,
    NotTested,
    Severity,
    Undecided,
    without_empty,
)
from dataguard.machine.units import counted

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.splits.sample_pairs import NearDuplicates, SamplePair
    from dataguard.lab.splits.shared_text import SharedText
    from dataguard.lab.splits.split_overlap import Comparison
    from dataguard.lab.subject import Subject

LEAKED_SHARE, WHOLE_SHARE = 0.25, 0.5
"""The share of windows from which on text is no common phrase, licence or template; and where all text is compared, as
that of splits of one text, of which 0.03 to 0.28 was measured for code and documentation. Chosen, not derived."""
OVERLAPPING_SHARE, FEWEST_WINDOWS = 0.1, 8
"""The share of windows of a series from which on it is no calibration or other pattern; and the fewest of them."""
READ, WHOLE = "the content of samples that were read", "the content of all samples"
"""What the samples of two epochs were compared by, and what this is called if it is all of them."""
FEWEST_ON_RANKS, SHARE_ON_RANKS = 2, 0.05
"""Fewer samples that one rank evaluates and another trains on may be copies, which a fixed split would share, too."""
ALIAS_SHARE = 0.95
"""With at least this share of common samples, a test split is the validation split under another name."""


@check("DG514", "leaked-split", Severity.ERROR)
def dg514_leaked_split(lab: Lab) -> Judgement:
    """The same sample, or the same text, is in two splits.

    Symptom: validation looks better than it should, and the model fails in production.
    Cause: splits drawn twice with different seeds, or on each rank with its own, overlapping index lists, folders or
        archives with copies under other names, a validation split that reads the training data, windows of one series
        that are split at random.
    Fix: draw the split once, with a seed, and store it; remove duplicates first, by file content and not by name.
    Links: https://scikit-learn.org/stable/common_pitfalls.html#data-leakage
    """
    lab.facts.need_role("val", "test", otherwise="val and test splits are compared with it")
    if lab.facts.kind != "map":
        return (yield from _leaked_stream(lab))
    beside = [other for other in lab.splits.earlier if min(other.facts.length or 0, lab.facts.length or 0) > 1]
    if not beside or not all(one.epoch.indices for one in (lab, *beside)):
        raise NotApplicable("the target has no other split with several samples that can be requested by index")
    notes, open_ends, compared, repeated = [], [], 0, 0
    for other in beside:
        seen = lab.splits.compared_with(other)
        shared, is_all = _shared(seen)
        compared, repeated = max(compared, seen.samples), seen.repeated
        if shared and other.facts.role != "train" and shared >= ALIAS_SHARE * max(seen.samples, seen.others):
            notes.append(f"it is {other.facts.name} under another name")
            continue
        if shared:
            yield _finding(lab, other, seen, shared, is_all=is_all)
            continue
        text = observed_or_none(partial(lab.splits.text_shared_with, other))
        if finding := _leaked_text(lab, other, text) or leaked_series(lab, other) or leaked_ranks(lab, other):
            yield finding
        elif text and text.whole:
            compared = max(compared, text.of)
            usual = f", and {text.windows} of {text.of} windows are in both" if text.windows else ""
            notes.append(f"all of its text was compared with that of {other.facts.name}{usual}")
        else:
            open_ends += _open(lab, seen, other.facts.name)
            notes += _notes(seen, other.facts.name)
    if open_ends:
        raise Undecided("; ".join([*open_ends, *notes]))
    notes += [f"{repeated} of its samples are duplicates of others in it"] if repeated else []
    return Coverage({"samples": compared, "splits": 1 + len(beside)}, note="; ".join(notes) or None)


def _leaked_stream(lab: Lab) -> Judgement:
    """A finding if a stream draws from the rows that an earlier one draws from."""
    beside = [other for other in lab.splits.earlier if other.facts.kind != "map"]
    if not beside:
        raise NotApplicable("the target has no other split that is a stream")
    for other in beside:
        shared = observed_or_none(partial(lab.splits.rows_shared_with, other))
        if shared:
            one, two = other.facts.name, lab.facts.name
            yield Finding(
                message=f"{two} draws from the rows of {Path(shared.files[0]).name} that {one} draws from: under one "
                f"random state both yield the same first sample, in {shared.states} of {shared.states} states",
                evidence={"read from": list(shared.files), "fix here": f"read the rows or the file of {two}"},
                at=lab.places.split_beside(other) or lab.dataset.location,
            )
            return Coverage({"samples": shared.states, "splits": 2})
    raise NotTested("the samples of a stream cannot be read again for a comparison")


def _leaked_text(lab: Lab, other: Subject, seen: SharedText | None) -> Finding | None:
    """A finding if much of the text of a split is in an earlier one, too, or one begins before the other ends."""
    least = WHOLE_SHARE if seen and seen.whole else LEAKED_SHARE
    if seen is None or seen.pair is None or (seen.windows < least * seen.of and not seen.cut):
        return None
    index, earlier = seen.pair
    one, two = other.facts.name, lab.facts.name
    return Finding(
        message=f"dataset[{index}] of {two} holds text of dataset[{earlier}] of {one}: {seen.windows} of {seen.of} "
        "windows do",
        evidence={
            "matched by": "the whole text of both" if seen.whole else "runs of 16 tokens, which begin at other places",
            "windows": seen.of,
        },
        at=lab.places.split_beside(other) or lab.dataset.location,
        repro=lab.repro.samples(index),
    )


def leaked_series(lab: Lab, other: Subject) -> Finding | None:
    """A finding if windows of a series lie between those of an earlier split."""
    seen = observed_or_none(lambda: lab.splits.series_shared_with(other))
    if seen is None or seen.pair is None or seen.windows < max(FEWEST_WINDOWS, OVERLAPPING_SHARE * seen.of):
        return None
    index, earlier = seen.pair
    one, two = other.facts.name, lab.facts.name
    return Finding(
        message=f"dataset[{index}] of {two} is a window of the series of dataset[{earlier}] of {one}, "
        f"{seen.shift} steps apart: {seen.windows} of {seen.of} windows overlap",
        evidence={"matched by": "runs of 4 steps", "fix here": "split the series in time, and cut windows afterwards"},
        at=lab.places.split_beside(other) or lab.dataset.location,
        repro=lab.repro.samples(index),
    )


def leaked_ranks(lab: Lab, other: Subject) -> Finding | None:
    """A finding if a rank evaluates samples that another rank trains on. Raises Undecided where a seed prevents it."""
    seen = observed_or_none(lambda: lab.ranks.overlap_with(other))
    if seen is None or other.facts.role != "train" or seen.samples < max(FEWEST_ON_RANKS, SHARE_ON_RANKS * seen.of):
        return None
    (rank, index), (trained_by, earlier) = seen.first
    one, two = other.facts.name, lab.facts.name
    shared = f"{seen.samples} of {seen.of} samples that rank {rank} evaluates are training samples of rank {trained_by}"
    if not seen.seeded:
        raise Undecided(f"{shared}, unless their global RNGs have the same seed: give the split a seed of its own")
    return Finding(
        message=f"{shared}: dataset[{index}] of {two} is dataset[{earlier}] of {one} there",
        evidence=without_empty(
            {
                "matched by": "contents of samples, which are one of a kind in both",
                "read from": list(seen.files),
                "fix here": "draw the split from a seed that all ranks share, or on rank 0",
            }
        ),
        at=lab.places.split or lab.dataset.location,
    )


def _shared(seen: Comparison) -> tuple[int, bool]:
    """How many samples are in both splits, and whether these are all.

    They are not where some may differ by their random values alone, were not compared, or occur too often to be pairs.
    """
    best = (0, False)
    for match in seen.matches:
        confirmed = sum(pair.same for pair in match.compared)
        proven = 0 < confirmed == len(match.compared)
        compares_all = seen.complete is not None and (match.name != READ or seen.complete == WHOLE)
        is_all = proven and (match.pairs == seen.samples or (compares_all and not seen.repeated))
        best = max(best, (match.pairs if proven else confirmed, is_all))
    return best


def _finding(lab: Lab, other: Subject, seen: Comparison, shared: int, *, is_all: bool) -> Finding:
    first, *_ = pairs = [pair for match in seen.matches for pair in match.compared if pair.same]
    one, two = other.facts.name, lab.facts.name
    count = f"{'' if is_all else 'at least '}{shared} of {seen.samples} samples"
    matched = {key.name: counted(key.pairs, "pairs") for key in seen.matches if any(pair.same for pair in key.compared)}
    at = lab.places.split_beside(other) or lab.dataset.location
    fix = (
        rewritten(lab, at, cut_at_one_place) or f"draw the indices once, and give {two} those that {one} does not read"
    )
    return Finding(
        message=f"dataset[{first.index}] of {two} is dataset[{first.earlier}] of {one}: {count} are in both",
        evidence=without_empty(
            {
                "fix here": fix,
                "matched by": matched,
                "confirmed by reading": list(dict.fromkeys(f"{two} {p.index} = {one} {p.earlier}" for p in pairs))[:8],
                "read from": list(dict.fromkeys(_files(p) for p in pairs if p.file))[:8],
                "samples": {one: seen.others, two: seen.samples},
            }
        ),
        at=at,
        repro=lab.repro.samples(first.index),
    )


def _files(pair: SamplePair) -> str:
    """The file that both samples are read from, or that and its copy."""
    return f"{pair.file} = {pair.copy}" if pair.copy else str(pair.file)


def _notes(seen: Comparison, other: str) -> Iterator[str]:
    """By what samples were compared with those of another split, and which are alike without being one."""
    if seen.complete:
        yield f"compared with all {seen.others:,} of {other} by {seen.complete}"
    if equal := max((match.pairs for match in seen.matches if match.equal), default=0):
        yield f"{equal} of its samples equal samples of {other}, which may be chance"
    if seen.near_duplicates:
        yield _near_duplicates(seen.near_duplicates, other)


def _near_duplicates(found: NearDuplicates, other: str) -> str:
    names = " and ".join("/".join(Path(name).parts[-2:]) for name in (found.own, found.earlier))
    verb, copies = ("looks", "a re-saved copy") if found.count == 1 else ("look", "re-saved copies")
    return f"{found.count} of its {found.of} images {verb} like {copies} from {other}: {names}"


def _open(lab: Lab, seen: Comparison, other: str) -> list[str]:
    """Why it is undecided whether two splits share samples, if it is."""
    for pair in (pair for match in seen.matches for pair in match.compared if pair.file):
        return [f"index {pair.index} and index {pair.earlier} of {other} read one file, perhaps in parts: {pair.file}"]
    if seen.complete:
        return []
    if seen.whole:
        return [f"all samples were compared with those of {other}, but random or equal ones cannot be matched"]
    few = counted(seen.samples, "samples were")
    return [f"only {few} compared with {seen.others} of {other}: use --all to compare all"]


def leaked(lab: Lab, findings: Sequence[Finding]) -> Iterator[Pictures]:
    """Samples that are in two splits, side by side."""
    del findings
    for other in lab.splits.earlier:
        seen = lab.splits.compared_with(other)
        same = {pair: None for match in seen.matches for pair in match.compared if pair.same}
        pairs = list({(pair.earlier, pair.index): pair for pair in same}.values())[:MOST_SAMPLES]
        if not pairs:
            continue
        one, two = lab.siblings[other.facts.name], lab
        theirs = one.pictures.shown(*(pair.earlier for pair in pairs), view=View())
        own = two.pictures.shown(*(pair.index for pair in pairs), view=View())
        rows = [
            (left.original or left.seen[0], right.original or right.seen[0])
            for left, right in zip(theirs, own, strict=True)
        ]
        names = one.facts.name, two.facts.name
        yield Pictures(
            f"Samples that are both in {names[0]} and in {names[1]}",
            "Each row shows one sample, as both splits hold it.",
            tuple(f"{names[0]} {pair.earlier} = {names[1]} {pair.index}" for pair in pairs),
            names,
            tuple(rows),
        )
