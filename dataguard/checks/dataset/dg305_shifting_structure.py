"""DG305: samples whose structure (keys, nesting, type or rank) varies with the index."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dataguard.checks.common.check import check
from dataguard.checks.common.labels import ENTRY, is_named
from dataguard.core.model import Coverage, Finding, Judgement, Location, Severity

if TYPE_CHECKING:
    from dataguard.lab.batches.settings_trials import MixedPair
    from dataguard.lab.core.records import BatchRecord, Index, LeafRecord, SampleRecord
    from dataguard.lab.lab import Lab

_SCALAR = re.compile(r"^(int|float)\d+$")
_STEP = re.compile(r"\[(?:'[^']*'|[^\]]*)\]|\.\w+")
"""One step of a path: a key, a place in a sequence, or an attribute."""


@check("DG305", "shifting-structure", Severity.ERROR)
def dg305_shifting_structure(lab: Lab) -> Judgement:
    """Keys, nesting, type or rank differ between samples, and collate_fn fails on the mix or hides it.

    Symptom: some batches lack a key, or have another dtype or scale, depending on which samples they mix; or collate_fn
        raises (DG401 reports that, too).
    Cause: some samples take another code path: a fallback, a second source, a label that is an int here and a float
        there, an optional annotation. default_collate takes the keys of the first sample, and promotes numbers to the
        widest type.
    Fix: give all samples one structure at the end of `__getitem__` (`torch.as_tensor(label, dtype=torch.float32)`), or
        handle the variants in a custom collate_fn.
    Links: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.default_collate
    """
    epoch = lab.epoch
    kept, promoted = without_promoted(epoch.samples)
    forms = Counter(sample.form for sample in kept)
    coverage = Coverage({**epoch.exercised, "structures": len(forms)})
    if len(forms) < 2:
        return replace(coverage, note=f"sample{promoted[0]} is int or float, and promoted") if promoted else coverage
    if not lab.facts.batched:
        return Coverage(coverage.exercised, note="samples differ in structure, but are not batched")
    mixed = _mixed(lab)
    if mixed is None:
        yield _finding(lab, kept, forms, "fails on a batch of both")
        return coverage
    batches = [batch for batch, _ in mixed]
    for batch, samples in (
        mixed if lab.facts.default_collate else [pair for pair in mixed if _order_matters(pair[0], batches)]
    ):
        path, _ = difference(*unlike(samples))
        arrived = [leaf.type_name for leaf in batch.leaves if leaf.path == path]
        yield _finding(lab, samples, forms, f"returns {arrived[0]} for both" if arrived else "drops it")
        return coverage
    for batch, samples in mixed:
        if outcome := hidden_key(batch, samples):
            yield replace(_finding(lab, samples, forms, outcome), ambiguous=True)
            return coverage
    return Coverage(coverage.exercised, note="samples differ in structure, but collate_fn handles that")


def unlike(samples: Sequence[SampleRecord]) -> list[SampleRecord]:
    """The first sample and the first of another structure; empty if all have the same."""
    return next(([samples[0], sample] for sample in samples if sample.form != samples[0].form), [])


def difference(first: SampleRecord, second: SampleRecord) -> tuple[str, str]:
    """The first leaf in which two samples differ, and its kind in each; entries of lists come and go."""
    by_path, others = ({leaf.path: leaf for leaf in sample.leaves} for sample in (first, second))
    for path in sorted(dict.fromkeys((*by_path, *others)), key=lambda path: bool(ENTRY.search(path))):
        kinds = [_kind(leaves.get(path)) for leaves in (by_path, others)]
        if kinds[0] != kinds[1]:
            return path, f"{kinds[0]} at index {first.index} and {kinds[1]} at index {second.index}"
    return "", f"nested differently at index {first.index} and at index {second.index}"


def without_promoted(samples: Sequence[SampleRecord]) -> tuple[list[SampleRecord], list[str]]:
    """Samples without the numbers beside a target that are int in some and float in others, and the paths of those.

    Such numbers describe a sample, and collating promotes them; a label of two types is another matter. A target is
    named like a label, or is an array beside another one, if the number has a name.
    """
    kinds: dict[str, set[str]] = defaultdict(set)
    arrays = set()
    for sample in samples:
        for leaf in sample.leaves:
            kinds[leaf.path].add(_SCALAR.sub(r"\1", leaf.kind))
            arrays |= {leaf.path} if leaf.shape else set()
    labelled = any(map(is_named, kinds))
    shifting = [
        path
        for path, kinds_of_leaf in kinds.items()
        if kinds_of_leaf == {"int", "float"}
        and not is_named(path)
        and (labelled or (path[-2:] == "']" and len(arrays) > 1))
    ]
    if not shifting:
        return list(samples), []
    kept = [
        replace(sample, leaves=tuple(leaf for leaf in sample.leaves if leaf.path not in shifting)) for sample in samples
    ]
    return kept, shifting


def _kind(leaf: LeafRecord | None) -> str:
    if leaf is None:
        return "absent"
    return f"{leaf.type_name} of rank {len(leaf.shape)}" if leaf.shape else leaf.type_name


def hidden_key(batch: BatchRecord | MixedPair, samples: Sequence[SampleRecord]) -> str | None:
    """What collate_fn does with a key that some of these samples lack, if it hides that.

    It lists the samples' dicts as they are, or the values that there are, so that nothing says whose they are.
    """
    first, second = unlike(samples)
    path, kinds = difference(first, second)
    lacking = second if any(leaf.path == path for leaf in first.leaves) else first
    steps = _STEP.findall(path)
    prefixes = ["".join(steps[:count]) for count in range(1, len(steps) + 1)]
    key = next((prefix for prefix in prefixes if not any(_within(leaf, prefix) for leaf in lacking.leaves)), "")
    if "absent" not in kinds or not key.endswith("']"):
        return None
    tails = "|".join(re.escape("".join(steps[start:])) for start, step in enumerate(steps) if step[1] == "'")
    if any(re.search(rf"\[\d+\]({tails})$", leaf.path) for leaf in batch.leaves):
        return "leaves that to whoever reads the batch"
    sample_paths = {ENTRY.sub("", leaf.path) for sample in samples for leaf in sample.leaves}
    if any(ENTRY.sub("", leaf.path) not in sample_paths for leaf in batch.leaves):
        return None  # a mask, or numbers of samples
    having = [leaf for sample in samples for leaf in sample.leaves if leaf.path == path]
    listed = {entry[1] for leaf in batch.leaves if (entry := re.match(rf"{re.escape(key)}\[(\d+)\]", leaf.path))}
    stacked = any(leaf.path == path and leaf.shape == (len(having), *(having[0].shape or ())) for leaf in batch.leaves)
    return f"keeps {len(having)} for {len(samples)} samples" if stacked or len(listed) == len(having) else None


def _within(leaf: LeafRecord, prefix: str) -> bool:
    """Whether a leaf is at this path, or below it."""
    return leaf.path.startswith(prefix) and leaf.path[len(prefix) :][:1] in ("", "[", ".")


def _finding(lab: Lab, samples: Sequence[SampleRecord], forms: Counter[Any], outcome: str) -> Finding:
    first, second = unlike(samples)
    path, kinds = difference(first, second)
    return Finding(
        message=f"sample{path} is {kinds}: {lab.facts.collate} {outcome}",
        evidence={"structures": len(forms), "rarest structure": f"{min(forms.values())} of {forms.total()} samples"},
        at=_place(lab, path, first.index, second.index) or lab.dataset.location,
        repro=None if first.index is None else lab.repro.samples(first.index, second.index, batch=True),
        sample=second.index,
    )


def _place(lab: Lab, path: str, first: Index, second: Index) -> Location | None:
    """The line that only one of two samples runs; else the one that makes the leaf in which they differ."""
    if first is None or second is None:
        return None
    branch = lab.places.departure(second, first) or lab.places.departure(first, second)
    return branch or lab.places.value(second, path) or lab.places.value(first, path)


def _mixed(lab: Lab) -> list[tuple[BatchRecord | MixedPair, Sequence[SampleRecord]]] | None:
    """Batches of samples that differ in structure: those of the epoch, and pairs that shuffling may combine.

    None if collate_fn fails on such samples.
    """
    epoch = lab.epoch
    members = epoch.members()
    batches: list[tuple[BatchRecord | MixedPair, list[SampleRecord]]]
    batches = [(batch, members[batch.worker, batch.batch]) for batch in epoch.batches]
    refused = any(batch.incident for batch in epoch.batches if unlike(members[batch.worker, batch.batch]))
    if lab.facts.kind == "map" and lab.facts.mixes_samples and not refused:
        by_index = {sample.index: sample for sample in epoch.samples}
        tried = lab.batches.mixed(epoch.samples, single=1 in (epoch.sizes or ()))
        batches += [(pair, [by_index[index] for index in pair.indices]) for pair in tried.pairs]
        refused = tried.clash is not None
    differing = [(batch, without_promoted(samples)[0]) for batch, samples in batches]
    return None if refused else [(batch, samples) for batch, samples in differing if unlike(samples)]


def _order_matters(batch: BatchRecord | MixedPair, others: Sequence[BatchRecord | MixedPair]) -> bool:
    """Whether the same samples in reverse order give a batch of another structure."""
    return any(_types(other) != _types(batch) for other in others if other.indices == batch.indices[::-1])


def _types(batch: BatchRecord | MixedPair) -> Counter[tuple[str, str]]:
    return Counter((re.sub(r"\[\d+\]", "[]", leaf.path), leaf.type_name) for leaf in batch.leaves)
