"""The decorator that makes a check of a judge."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dataguard.model import FIRST_SET, Check, Doc, Judgement, Severity

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


def check(
    code: str, name: str, severity: Severity, since: str = FIRST_SET
) -> Callable[[Callable[[Lab], Judgement]], Check]:
    """Turn a judge into a `Check`; its docstring becomes the check's documentation."""

    def decorate(judge: Callable[[Lab], Judgement]) -> Check:
        return Check(code, name, severity, Doc.parse(judge.__doc__ or ""), judge, since)

    return decorate
