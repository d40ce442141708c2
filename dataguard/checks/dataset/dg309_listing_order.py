"""DG309: a dataset in the order of its files."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.drift import unsteady
from dataguard.checks.dataset.index_meaning import moved
from dataguard.model import Finding, Judgement, Location, Looked, NotApplicable, Severity, known

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG309", "listing-order", Severity.ERROR)
def dg309_listing_order(lab: Lab) -> Judgement:
    """Which sample or label an index means depends on the order in which the file system lists files.

    Symptom: the same seed gives another split, other classes or another order on another machine, or after the data
        were copied; a saved model gives the right answers under the wrong names.
    Cause: `os.listdir`, `os.scandir`, `os.walk`, `glob` and `Path.iterdir` list in whatever order the file system has.
    Fix: sort what they give: `sorted(os.listdir(folder))`, `sorted(root.glob("*/*.jpg"))`.
    Links: https://docs.python.org/3/library/os.html#os.listdir
    """
    listed = lab.dataset.listed()
    if not listed.places:
        raise NotApplicable("no folder is listed while the dataset is made and read")
    turned = lab.dataset.listed(turned=True)
    found = moved(
        listed.answers, turned.answers, lambda: lab.dataset.listed(again=True).answers, partial(unsteady, lab)
    )
    if found:
        place = next((one for one in turned.places if one), None)
        yield Finding(
            message=f"dataset[{found.index}] is another sample when folders are listed backwards"
            if found.whole
            else f"sample{found.leaves[0]} of index {found.index} is another one when folders are listed backwards",
            evidence=found.evidence | known({"listed at": [f"{one[0]}:{one[1]}" for one in turned.places if one]}),
            at=Location(*place) if place else lab.dataset.place,
        )
    return Looked({"samples": len(listed.answers), "orders": 2})
