"""How samples differ beyond their shapes: keys, nesting, type or rank. Standard library only."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dataguard.checks.common.labels import is_named

if TYPE_CHECKING:
    from dataguard.lab.batches.mixed_batches import MixedPair
    from dataguard.lab.core.records import BatchRecord, LeafRecord, SampleRecord


_ENTRY = re.compile(r"(?<=.)\[\d+\]")
"""A place in a list inside a sample, or in one of a batch."""
_SCALAR = re.compile(r"^(int|float)\d+$")
_STEP = re.compile(r"\[(?:'[^']*'|[^\]]*)\]|\.\w+")
"""One step of a path: a key, a place in a sequence, or an attribute."""


def unlike(samples: Sequence[SampleRecord]) -> list[SampleRecord]:
    """The first sample and the first of another structure; empty if all have the same."""
    return next(([samples[0], sample] for sample in samples if sample.form != samples[0].form), [])


def difference(one: SampleRecord, two: SampleRecord) -> tuple[str, str]:
    """The first leaf in which two samples differ, and its kind in each; entries of lists come and go."""
    first, second = ({leaf.path: leaf for leaf in sample.leaves} for sample in (one, two))
    for path in sorted(dict.fromkeys((*first, *second)), key=lambda path: bool(_ENTRY.search(path))):
        kinds = [_kind(leaves.get(path)) for leaves in (first, second)]
        if kinds[0] != kinds[1]:
            return path, f"{kinds[0]} at index {one.index} and {kinds[1]} at index {two.index}"
    return "", f"nested differently at index {one.index} and at index {two.index}"


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
        for path, found in kinds.items()
        if found == {"int", "float"} and not is_named(path) and (labelled or (path[-2:] == "']" and len(arrays) > 1))
    ]
    if not shifting:
        return list(samples), []
    kept = [replace(one, leaves=tuple(leaf for leaf in one.leaves if leaf.path not in shifting)) for one in samples]
    return kept, shifting


def _kind(leaf: LeafRecord | None) -> str:
    if leaf is None:
        return "absent"
    return f"{leaf.type_name} of rank {len(leaf.shape)}" if leaf.shape else leaf.type_name


def hidden_key(batch: BatchRecord | MixedPair, samples: Sequence[SampleRecord]) -> str | None:
    """What collate_fn does with a key that some of these samples lack, if it hides that.

    It lists the samples' dicts as they are, or the values that there are, so that nothing says whose they are.
    """
    one, two = unlike(samples)
    path, kinds = difference(one, two)
    lacking = two if any(leaf.path == path for leaf in one.leaves) else one
    steps = _STEP.findall(path)
    prefixes = ["".join(steps[:count]) for count in range(1, len(steps) + 1)]
    key = next((prefix for prefix in prefixes if not any(_within(leaf, prefix) for leaf in lacking.leaves)), "")
    if "absent" not in kinds or not key.endswith("']"):
        return None
    tails = "|".join(re.escape("".join(steps[start:])) for start, step in enumerate(steps) if step[1] == "'")
    if any(re.search(rf"\[\d+\]({tails})$", leaf.path) for leaf in batch.leaves):
        return "leaves that to whoever reads the batch"
    known = {_ENTRY.sub("", leaf.path) for sample in samples for leaf in sample.leaves}
    if any(_ENTRY.sub("", leaf.path) not in known for leaf in batch.leaves):
        return None  # a mask, or numbers of samples
    having = [leaf for sample in samples for leaf in sample.leaves if leaf.path == path]
    listed = {entry[1] for leaf in batch.leaves if (entry := re.match(rf"{re.escape(key)}\[(\d+)\]", leaf.path))}
    stacked = any(leaf.path == path and leaf.shape == (len(having), *(having[0].shape or ())) for leaf in batch.leaves)
    return f"keeps {len(having)} for {len(samples)} samples" if stacked or len(listed) == len(having) else None


def _within(leaf: LeafRecord, prefix: str) -> bool:
    """Whether a leaf is at this path, or below it."""
    return leaf.path.startswith(prefix) and leaf.path[len(prefix) :][:1] in ("", "[", ".")
