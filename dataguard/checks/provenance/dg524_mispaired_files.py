"""DG524: files of one sample that belong to different ones."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.paths import shortened
from dataguard.checks.common.rewrites import rewritten, sorted_alike
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.provenance.paired_files import PairedRoles

FEWEST_WRONG = 2
"""One sample may have a partner of its own for a reason, such as a link to the file of another one."""
RIGHT_SHARE = 1 / 3
"""The share of right pairs that shows that files are meant to be paired by name. Of 24 at random, one is."""
MOST_SAMPLES = 1.2
"""Samples for each file: where there are more, a file is in several pairs."""


@check("DG524", "mispaired-files", Severity.ERROR, since="2026.4")
def dg524_mispaired_files(lab: Lab) -> Judgement:
    """Files of one sample, such as an image and its mask, belong to different ones by their names.

    Symptom: the model learns a blurred average, or nothing, although each file is right and no error is raised.
    Cause: two listings are zipped that are in different orders, such as `glob` without `sorted`, or one sorted as text
        and one by number; or one has a file more, and all that follow are shifted.
    Fix: derive the name of the partner from the name of the first file (`mask_folder / f"{image.stem}.png"`), and let
        it raise if there is none.
    Links: https://docs.python.org/3/library/functions.html#zip
    """
    found = lab.provenance.paired_roles
    if not found:
        raise NotApplicable("no files of one sample have names that correspond")
    notes = []
    for roles in found:
        wrong = [pair for pair in roles.wrong if pair.partner]
        if len(wrong) < FEWEST_WRONG or _is_one_to_many(lab, roles):
            continue
        step = None if roles.right else _constant_step(roles)
        if step or (step == 0 and roles.files[0] == roles.files[1]):  # as many: one counts from 0, the other from 1
            notes += [f"{_last(roles, 1)} is {step:+d} from {_last(roles, 0)} in all samples"] if step else []
            continue
        pair = wrong[0]
        first, other, partner = shortened(*pair.files, pair.partner or "")
        at = lab.places.listing(*pair.files) or lab.dataset.location
        yield Finding(
            message=f"dataset[{pair.index!r}] has {first} with {other}, though {partner} exists: {len(wrong)} of "
            f"{roles.samples} samples are paired with the file of another one",
            evidence={
                "fix here": rewritten(lab, at, sorted_alike) or "sort both by one key, or look partners up by name",
                "files": list(pair.files),
                "right partner": pair.partner,
                "samples": [pair.index for pair in wrong[:8]],
                "wrong": f"{len(wrong)} of {roles.samples} samples",
                "names": f"{roles.shared} of {roles.files[0]} and {roles.files[1]} files correspond",
            },
            at=at,
            repro=lab.repro.samples(pair.index),
            ambiguous=not _is_meant(roles, len(wrong)),
        )
        break
    return Coverage(
        {"samples": max(roles.samples for roles in found), "pairs of roles": len(found)}, "; ".join(notes) or None
    )


def _is_one_to_many(lab: Lab, roles: PairedRoles) -> bool:
    """Whether files are in several pairs, as all pairs of two sets are."""
    many = roles.single and not roles.returning and (lab.facts.length or 0) > MOST_SAMPLES * max(roles.files)
    return roles.repeated or many


def _constant_step(roles: PairedRoles) -> int | None:
    """How far the other file is from the first one, if that is the same in all samples."""
    by_key, as_text = ({pair.steps[order] for pair in roles.wrong} for order in (0, 1))
    return next((steps.pop() for steps in (by_key, as_text) if len(steps) == 1), None)


def _is_meant(roles: PairedRoles, wrong: int) -> bool:
    """Whether these files are meant to be paired by name.

    Unrelated files may count from 1 on as well; they are not paired by name in part, nor in two orders of the names.
    """
    return not roles.numbered or roles.sorted or wrong < (1 - RIGHT_SHARE) * roles.samples


def _last(roles: PairedRoles, role: int) -> str:
    """The name of the folder of a role, or of a file where both have one."""
    if roles.folders[0] == roles.folders[1]:
        return PurePosixPath(roles.wrong[0].files[role].rpartition("::")[2]).name
    return PurePosixPath(roles.folders[role]).name
