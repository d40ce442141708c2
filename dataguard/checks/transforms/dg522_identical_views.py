"""DG522: one random draw for two views."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.drift import seeded_leaves
from dataguard.core.leaf_paths import key_of
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, Undecided
from dataguard.stats.coincidence import CERTAIN

if TYPE_CHECKING:
    from dataguard.lab.core.records import LeafRecord, SampleRecord
    from dataguard.lab.dataset.repeated_reads import Readings
    from dataguard.lab.lab import Lab

_ENTRY = re.compile(r"(.+)\[\d+\]")
"""An entry of a list inside a sample; the entries of a sample that is a list are fields."""
_NUMBER = re.compile(r"_?(\d+|(?<=_)[abijkq])$")
_VIEW = re.compile(r"view|aug|crop|anchor|positive", re.IGNORECASE)
_NO_VIEWS = 'two equal images are right where one is input and target: say views = "independent" if they are views'


@check("DG522", "identical-views", Severity.ERROR, since="2026.3")
def dg522_identical_views(lab: Lab) -> Judgement:
    """Two views of a sample are always equal, although both are random: one draw serves both.

    Symptom: a contrastive or self-distilling model collapses, or its loss is at its minimum from the first step.
    Cause: the transform is called once and its result returned twice, as `[transform(image)] * 2`; or the random state
        is reset between two calls; or two generators have one seed.
    Fix: call the transform once for each view, without seeding between. If both models are meant to see one view, set
        `views = "shared"` in the contract.
    Links: https://docs.pytorch.org/vision/stable/transforms.html
    """
    declared = lab.settings.contract.get("views")
    if declared == "shared":
        raise NotApplicable("the contract says that views are shared")
    samples = lab.epoch.samples
    images = [leaf for leaf in samples[0].leaves if _is_image(leaf)]
    if len({leaf.shape for leaf in images}) == len(images):
        raise NotApplicable("no sample has two images of one shape")
    equal = list(_equal(images, samples))
    views = [paths for paths in equal if declared or _are_views(paths, images)]
    drawn = seeded_leaves(lab.dataset.readings) if views else {}
    for paths in views:
        if not drawn.keys() >= set(paths):
            continue
        indices = {sample.index for sample in samples}
        if len(indices) * math.log10(_repeats(lab.dataset.readings, paths[0])) > CERTAIN:
            raise Undecided(f"the views of {len(indices)} samples are equal, too few to exclude coincidence")
        index = drawn[paths[0]][0]
        names = " and ".join(f"sample{path}" for path in paths)
        yield Finding(
            message=f"{names} are equal in each of {len(samples)} samples, although both are random",
            evidence={
                "fix here": "call the transform once for each view, without a seed between the calls",
                "confirmed by": f"sample{paths[0]} of index {index} varies from draw to draw",
            },
            at=lab.places.copies(index, paths[0]) or lab.dataset.location,
            repro=lab.repro.samples(index),
            sample=index,
        )
    return Coverage({"samples": len(samples), "leaves": len(images)}, _NO_VIEWS if equal and not views else None)


def _is_image(leaf: LeafRecord) -> bool:
    return leaf.kind == "PIL.Image" or (len(leaf.shape or ()) > 1 and min((leaf.shape or ())[-2:]) > 1)


def _equal(images: Sequence[LeafRecord], samples: Sequence[SampleRecord]) -> Iterator[list[str]]:
    """The paths of images that are equal to each other in every sample."""
    digests = [{leaf.path: leaf.digest for leaf in sample.leaves} for sample in samples]
    by_digests: dict[tuple[bytes | None, ...], list[str]] = {}
    for leaf in images:
        by_digests.setdefault(tuple(each.get(leaf.path) for each in digests), []).append(leaf.path)
    yield from (paths for digest, paths in by_digests.items() if len(paths) > 1 and None not in digest)


def _are_views(paths: Sequence[str], images: Sequence[LeafRecord]) -> bool:
    """Whether these are the images of one shape in a list, or have names that differ in a number, or say so."""
    lists = {match and match[1] for match in map(_ENTRY.fullmatch, paths)}
    if len(lists) == 1 and None not in lists:
        holder = lists.pop()
        shapes = {leaf.path: leaf.shape for leaf in images if leaf.path.startswith(f"{holder}[")}
        alike = [path for path, shape in shapes.items() if shape == shapes[paths[0]]]
        return len(alike) == len(paths) and (len(paths) == 2 or len(set(shapes.values())) > 1)
    names = list(map(key_of, paths))
    stems = {_NUMBER.sub("", name) for name in names}
    numbered = len(stems) == 1 < len(set(names)) and "" not in stems
    return numbered or all(map(_VIEW.search, names))


def _repeats(readings: Readings, path: str) -> float:
    """The share of pairs of draws of one sample that are equal, with one more than observed."""
    run = readings.forward
    draws = [run.same_state[0], *(answers for answers in run.passes if answers not in run.same_state)]
    series = [[answer.digests.get(path) for answer in answers] for answers in zip(*draws, strict=True)]
    equal = [digest == other for each in series for digest, other in combinations(each, 2)]
    return (equal.count(True) + 1) / (len(equal) + 1)
