"""DG310: a dataset whose order depends on string hashes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.drift import unsteady
from dataguard.checks.dataset.index_meaning import compare
from dataguard.core.model import Coverage, Finding, Judgement, Location, NotApplicable, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG310", "hash-order", Severity.ERROR)
def dg310_hash_order(lab: Lab) -> Judgement:
    """Which sample or label an index returns depends on the order of a set of strings, or on their hashes.

    Symptom: each run gives other class indices, another order or another split, although everything is seeded; spawned
        workers disagree with each other and with the main process.
    Cause: Python salts string hashes in every process, so the order of a set of names, or `hash(name)`, differs between
        processes. Only `PYTHONHASHSEED` fixes it; seeding RNGs does not.
    Fix: sort the set (`sorted(set(names))`), or use `dict.fromkeys(names)`, which keeps the insertion order; to derive
        a number from a string, use `zlib.crc32(name.encode())`.
    Links: https://docs.python.org/3/using/cmdline.html#envvar-PYTHONHASHSEED
    """
    forward = lab.dataset.rebuilt()
    if not forward.iterated:
        raise NotApplicable("no iteration over a set of strings and no hash of a string seen")
    backward = lab.dataset.rebuilt(sets_backward=True)
    change = compare(
        forward.answers, backward.answers, lambda: lab.dataset.rebuilt(again=True).answers, partial(unsteady, lab)
    )
    if change:
        location = next((entry for entry in forward.iterated if entry), None)
        yield Finding(
            message=f"{change.subject} when the order of a set of strings (hash seed) changes",
            evidence=change.evidence
            | without_empty({"set or hash used at": [f"{at[0]}:{at[1]}" for at in forward.iterated if at]}),
            at=Location(*location) if location else lab.dataset.location,
            repro=f"for seed in 1 2 3 4; do PYTHONHASHSEED=$seed {lab.repro.samples(change.index)}; done",
            sample=change.index,
        )
    return Coverage({"samples": len(forward.answers), "orders": 2})
