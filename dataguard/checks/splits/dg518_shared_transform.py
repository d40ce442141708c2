"""DG518: training and evaluation share one transform."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.drift import seeded_leaves
from dataguard.checks.splits.random_evaluation import random_shared, shared_with, unmasked
from dataguard.checks.splits.split_mismatch import splits_of
from dataguard.core.model import Coverage, Finding, Judgement, Location, NotApplicable, Severity
from dataguard.settings.parsers import EVALUATION

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.splits.shared_transforms import SharedTransform
    from dataguard.lab.subject import Subject


@check("DG518", "shared-transform", Severity.ERROR, since="2026.2")
def dg518_shared_transform(lab: Lab) -> Judgement:
    """Training and evaluation read one dataset object, so that both get the transform that is meant for one of them.

    Symptom: the model overfits, because training has lost its augmentation; or validation is worse than it should be
        and jumps from epoch to epoch, because its samples are augmented.
    Cause: `random_split` and `Subset` do not copy a dataset: `val.dataset.transform = ...` changes training too, and
        without it evaluation has the augmentation of training.
    Fix: make two datasets, each with its own transform, and give both the same split of indices; or wrap each subset in
        a dataset that applies a transform of its own.
    Links: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.random_split
    """
    lab.need_map("a stream has no dataset that splits could share")
    lab.facts.need_role("train", *EVALUATION, otherwise="only training and evaluation need different transforms")
    training = lab.facts.role == "train"
    others = [one for side in splits_of(lab) for one in side if (one.facts.role == "train") is not training]
    shared = list(shared_with(lab, others))
    if not shared:
        reason = "no other loader reads splits of the same data" if not others else "splits share no transform"
        raise NotApplicable(reason)
    drawn = seeded_leaves(lab.dataset.readings)
    if not training:
        random = random_shared(lab, unmasked(lab, drawn))
        if random:
            path, (index, *_) = next(iter(random.leaves.items()))
            yield Finding(
                message=f"sample{path} of index {index} is random in a {lab.facts.role} loader: "
                f"{random.transform.path} ({random.transform.name}) is shared with {random.other}",
                evidence={
                    "fix here": f"make a dataset for {lab.facts.name} alone, with a transform without random steps",
                    "leaves": [f"sample{one}" for one in random.leaves],
                    "confirmed by": f"they no longer vary while {random.transform.path} has one random state",
                },
                at=lab.places.transform(random.transform.path) or Location(None, None, random.transform.path),
                repro=lab.repro.samples(index, index),
                sample=index,
            )
    elif not drawn:
        yield from _replaced(lab, shared)
    return Coverage({**lab.dataset.readings.exercised, "loaders": 1 + len(others)})


def _replaced(lab: Lab, shared: Sequence[tuple[Subject, SharedTransform]]) -> Iterator[Finding]:
    """The finding that training has lost a random transform to one that was assigned later."""
    replaced = lab.splits.replaced([transform for _, transform in shared])
    if replaced is None:
        return
    other = next(one for one, transform in shared if transform.path == replaced.path)
    file, line, _ = replaced.at or (None, None, None)
    what = f"{replaced.replacement} replaced {replaced.name} in {replaced.path}"
    yield Finding(
        message=f"{lab.facts.name} has no augmentation: {what}, which {other.facts.name} reads too",
        evidence={
            "fix here": f"make a dataset for each of {lab.facts.name} and {other.facts.name}, with its own transform",
            "confirmed by": f"samples of {lab.facts.name} are random if {replaced.name} is put back",
        },
        at=Location(file, line, replaced.path),
    )
