"""DG524: files of one sample, or a file and its row of a table, that belong to different ones."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.next_rows import is_next
from dataguard.checks.common.paths import shortened
from dataguard.checks.common.rewrites import rewritten, sorted_alike
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.provenance.named_records import NamedRecords
    from dataguard.lab.provenance.paired_files import PairedRoles

FEWEST_WRONG = 2
"""One sample may have a partner of its own for a reason, such as a link to the file of another one."""
RIGHT_SHARE = 1 / 3
"""The share of right pairs that shows that files are meant to be paired by name. Of 24 at random, one is."""
MOST_SAMPLES = 1.2
"""Samples for each file: where there are more, a file is in several pairs."""


@check("DG524", "mispaired-files", Severity.ERROR, since="2026.4")
def dg524_mispaired_files(lab: Lab) -> Judgement:
    """Files of one sample, or a file and its row of a table, belong to different ones by their names.

    Symptom: the model learns a blurred average, or nothing, although each file is right and no error is raised.
    Cause: two listings are zipped that are in different orders, such as `glob` without `sorted`, one sorted as text
        and one by number, or files in the order of their names and rows of a table in another one; or one has an entry
        more, such as an image without a label, and all that follow are shifted.
    Fix: derive the name of the partner from the name of the first file (`mask_folder / f"{image.stem}.png"`), and let
        it raise if there is none. Open the file that the row of a table names, or look the row up by that name.
    Links: https://docs.python.org/3/library/functions.html#zip
    """
    found, records = lab.provenance.paired_roles, lab.provenance.named_records
    if not found and not records:
        raise NotApplicable("no files of one sample have names that correspond, and no row of a table names one")
    notes = []
    for table in records:
        if len(table.wrong) < FEWEST_WRONG:
            continue
        if is_next(table.places):
            row = table.wrong[0]
            notes.append(
                f"dataset[{row.index!r}] has the contents of a later or earlier row of {_last_name(table.table)}"
            )
            continue
        yield _other_record(lab, table)
        return Coverage({"samples": table.samples})
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
    samples = max([roles.samples for roles in found] + [table.samples for table in records])
    counts = {"pairs of roles": len(found), "tables": len(records)}
    used = {name: count for name, count in counts.items() if count}
    return Coverage({"samples": samples, **used}, "; ".join(notes) or None)


def _other_record(lab: Lab, table: NamedRecords) -> Finding:
    """The finding of samples that have what a table says of other files."""
    first, name = table.wrong[0], _last_name(table.table)
    return Finding(
        message=f"dataset[{first.index!r}] is read from {_last_name(first.file)}, and has what {name} says of "
        f"{_last_name(first.other_file)}: {len(table.wrong)} of {table.samples} samples have the row of another file",
        evidence={
            "fix here": "open the file that the row names, or look the row up by the name of the file",
            "table": table.table,
            "rows": {f"dataset[{one.index!r}]": f"{one.other}, and not {one.row}" for one in table.wrong[:8]},
            "confirmed by": f"other contents in these rows of a copy of {name}: the samples follow them",
        },
        at=lab.places.listing(first.file) or lab.dataset.location,
        repro=lab.repro.samples(first.index),
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


def _last_name(path: str) -> str:
    return PurePosixPath(path).name


def _last(roles: PairedRoles, role: int) -> str:
    """The name of the folder of a role, or of a file where both have one."""
    if roles.folders[0] == roles.folders[1]:
        return _last_name(roles.wrong[0].files[role].rpartition("::")[2])
    return _last_name(roles.folders[role])
