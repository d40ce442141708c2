"""The HTML pages of `dataguard doctor` and `dataguard list`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dataguard.machine.checkup import Checkup
from dataguard.machine.units import counted
from dataguard.model import Check
from dataguard.render.check_pages import grouped
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
    known = {check.code: check for check in checks}
    groups = [(title, [known[code] for code in codes]) for title, codes in grouped(known).items()]
    return page("list.html.j2", unicode=unicode, groups=groups, count=len(known))
