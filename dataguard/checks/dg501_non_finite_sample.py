"""DG501: NaN or Inf in the data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dataguard.model import Finding, Judgement, Looked, Severity, check

if TYPE_CHECKING:
    from dataguard.lab import Lab
    from dataguard.lab.records import Leaf, SampleRecord


@check("DG501", "non-finite-sample", Severity.ERROR)
def dg501_non_finite_sample(lab: Lab) -> Judgement:
    """A sample or batch holds NaN or Inf.

    Symptom: the loss turns NaN at some step, and every weight with it.
    Cause: a missing value, a division by a zero standard deviation, a logarithm of zero, an overflow in half precision.
    Fix: repair or leave out the samples that the evidence lists; guard the division or the logarithm.
    Links: https://docs.pytorch.org/docs/stable/generated/torch.isfinite.html
    """
    epoch = lab.epoch
    bad = [(sample, _worst(sample.leaves)) for sample in epoch.samples if _worst(sample.leaves)]
    for path in dict.fromkeys(leaf.path for _, leaf in bad if leaf):
        yield _in_samples(lab, path, [(sample, leaf) for sample, leaf in bad if leaf and leaf.path == path])
    if not bad:
        for batch in epoch.batches:
            leaf = _worst(batch.leaves)
            if leaf:
                yield Finding(
                    message=f"batch{leaf.path} holds {_counts(leaf)}, none of its samples does: collate_fn makes it",
                    evidence={"indices": [str(index) for index in batch.indices[:16]], "worker": batch.worker},
                )
                break
    return Looked(epoch.exercised)


def _worst(leaves: Iterable[Leaf]) -> Leaf | None:
    """The first leaf with non-finite values; an additive attention mask is -inf by design."""
    return next((leaf for leaf in leaves if (leaf.nan or leaf.inf) and not leaf.mask), None)


def _counts(leaf: Leaf) -> str:
    return " and ".join(f"{count} {name}" for count, name in ((leaf.nan, "NaN"), (leaf.inf, "Inf")) if count)


def _in_samples(lab: Lab, path: str, bad: list[tuple[SampleRecord, Leaf]]) -> Finding:
    sample, leaf = bad[0]
    known = sample.shown is not None
    where = f"dataset[{sample.shown}]" if known else f"sample {sample.position} of batch {sample.batch}"
    return Finding(
        message=f"sample{path} of {where} holds {_counts(leaf)}",
        evidence={
            "samples with it": f"{len(bad)} of {len(lab.epoch.samples)} looked at",
            "indices": [one.shown for one, _ in bad[:16] if one.shown is not None],
            "shape": list(leaf.shape or ()),
            "worker": sample.worker,
        },
        repro=lab.repro(f".dataset[{sample.shown}]{path}") if known else None,
    )
