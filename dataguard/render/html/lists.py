"""The HTML pages of `dataguard doctor` and `dataguard list`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from dataguard.machine.checkup import Checkup
from dataguard.machine.units import counted
from dataguard.model import Check
from dataguard.render.check_pages import GROUPS
from dataguard.render.html.templating import page
from dataguard.render.machine import library_rows, machine_rows


def render_checkup(seen: Checkup, *, unicode: bool = True, **look: Any) -> str:
    """Return the checkup as one HTML document, problems first; `look` is ignored."""
    problems = [remark for remark in seen.remarks if remark.wrong]
    return page(
        "doctor.html.j2",
        unicode=unicode,
        version=seen.version,
        verdict=counted(len(problems), "problems") if problems else "no problems",
        problems=problems,
        notes=[remark for remark in seen.remarks if not remark.wrong],
        tables=[("Machine", machine_rows(seen)), ("Libraries", library_rows(seen))],
    )


def render_checks(checks: Iterable[Check], *, unicode: bool = True, **look: Any) -> str:
    """Return all checks by group as one HTML document; `look` is ignored."""
    groups = groupby(checks, key=lambda check: check.code[2])
    listed = [(GROUPS[digit], list(members)) for digit, members in groups]
    return page("list.html.j2", unicode=unicode, groups=listed, count=sum(len(members) for _, members in listed))
