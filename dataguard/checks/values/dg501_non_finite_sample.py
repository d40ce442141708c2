"""DG501: NaN or Inf in the data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.lines import line_at
from dataguard.core.incident import observed_or_none
from dataguard.core.model import Coverage, Finding, Judgement, Severity

if TYPE_CHECKING:
    from dataguard.lab.core.records import Index, LeafRecord
    from dataguard.lab.lab import Lab


@check("DG501", "non-finite-sample", Severity.ERROR)
def dg501_non_finite_sample(lab: Lab) -> Judgement:
    """A sample or batch contains NaN or Inf.

    Symptom: the loss turns NaN at some step, and every weight with it.
    Cause: a missing value, a division by a zero standard deviation, a logarithm of zero, an overflow in half precision.
    Fix: repair or drop the samples that the evidence lists; guard the division or the logarithm.
    Links: https://docs.pytorch.org/docs/stable/generated/torch.isfinite.html
    """
    epoch = lab.epoch
    ends = _at_the_ends(lab) if epoch.read is None else []
    seen = [(sample.shown, sample.index, sample.leaves) for sample in epoch.samples] + ends
    read = (epoch.read or len(epoch.samples)) + len(ends)
    bad = [(shown, index, leaf) for shown, index, leaves in seen for leaf in [_worst(leaves)] if leaf]
    for path in dict.fromkeys(leaf.path for *_, leaf in bad):
        yield _in_samples(lab, [one for one in bad if one[2].path == path], read)
    bad_batch = None if bad else next((batch for batch in epoch.batches if _worst(batch.leaves)), None)
    if bad_batch:
        leaf = _worst(bad_batch.leaves)
        where = f"batch{leaf.path if leaf else ''}"
        yield Finding(
            message=f"{where} contains {_counts(leaf)}, but its samples do not: collate_fn produces it",
            evidence={"indices": [str(index) for index in bad_batch.indices[:16]], "worker": bad_batch.worker},
            at=line_at(lab.batches.lines.of_not_finite, bad_batch.indices) or lab.facts.collate_at,
        )
    return Coverage({**epoch.exercised, "samples": read})


def _at_the_ends(lab: Lab) -> list[tuple[str | None, Index, tuple[LeafRecord, ...]]]:
    """The first and last samples of a map-style dataset, which an ordinary epoch may not have read."""
    ends = observed_or_none(lambda: lab.dataset.ends)
    if ends is None:
        return []
    read_indices = {sample.index for sample in lab.epoch.samples}
    inside = [answer for answer in ends.inside if answer.index not in read_indices]
    return [(str(answer.index), answer.index, answer.leaves) for answer in inside]


def _worst(leaves: Iterable[LeafRecord]) -> LeafRecord | None:
    """The first leaf with non-finite values; an additive attention mask is -inf by design."""
    return next((leaf for leaf in leaves if (leaf.nan or leaf.inf) and not leaf.mask), None)


def _counts(leaf: LeafRecord | None) -> str:
    counts = ((leaf.nan, "NaN"), (leaf.inf, "Inf")) if leaf else ()
    return " and ".join(f"{count} {name}" for count, name in counts if count)


def _in_samples(lab: Lab, bad: list[tuple[str | None, Index, LeafRecord]], read: int) -> Finding:
    shown, index, leaf = bad[0]
    return Finding(
        message=f"sample{leaf.path} of {'a stream' if shown is None else f'dataset[{shown}]'} contains {_counts(leaf)}",
        evidence={
            "affected samples": f"{len(bad)} of {read} read",
            "indices": list(dict.fromkeys(one[0] for one in bad if one[0] is not None))[:16],
            "shape": list(leaf.shape or ()),
        },
        at=None if index is None else lab.places.not_finite(index, leaf.path),
        repro=None if shown is None else lab.repro.spelled(shown),
        sample=index,
    )
