"""DG310: a dataset in the order of hashes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.drift import unsteady
from dataguard.checks.dataset.index_meaning import moved
from dataguard.model import Finding, Judgement, Location, Looked, NotApplicable, Severity, known

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG310", "hash-order", Severity.ERROR)
def dg310_hash_order(lab: Lab) -> Judgement:
    """Which sample or label an index means depends on the order of a set of texts, or on their hashes.

    Symptom: each run gives other class numbers, another order or another split, although everything is seeded; spawned
        workers disagree with each other and with the main process.
    Cause: Python salts the hashes of texts anew in every process, so that a set of names, or `hash(name)`, is another
        one in each. `PYTHONHASHSEED` decides it, and no generator does.
    Fix: sort what comes out of a set (`sorted(set(names))`), or use `dict.fromkeys(names)`, which keeps the order; for
        a number of a text, take `zlib.crc32(name.encode())`.
    Links: https://docs.python.org/3/using/cmdline.html#envvar-PYTHONHASHSEED
    """
    one = lab.dataset.hashed()
    if not one.places:
        raise NotApplicable("the code goes through no set of texts, and asks for no hash of one")
    two = lab.dataset.hashed(turned=True)
    found = moved(one.answers, two.answers, lambda: lab.dataset.hashed(again=True).answers, partial(unsteady, lab))
    if found:
        place = next((entry for entry in one.places if entry), None)
        what = "is another sample" if found.whole else f"has another {found.leaves[0] or 'value'}"
        yield Finding(
            message=f"dataset[{found.index}] {what} when a set of texts is gone through in another order",
            evidence=found.evidence | known({"in order of hashes": [f"{at[0]}:{at[1]}" for at in one.places if at]}),
            at=Location(*place) if place else lab.dataset.place,
            repro=f"PYTHONHASHSEED=1 {lab.repro.expression(f'.dataset[{found.index!r}]')}",
        )
    return Looked({"samples": len(one.answers), "orders": 2})
