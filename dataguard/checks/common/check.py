"""The decorator that makes a check of a judge."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

from dataguard.core.model import FIRST_SET, Check, Doc, Judgement, Severity

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


def check(
    code: str, name: str, severity: Severity, since: str = FIRST_SET
) -> Callable[[Callable[[Lab], Judgement]], Check]:
    """Turn a judge into a `Check`; its docstring becomes the check's documentation."""

    def decorate(judge: Callable[[Lab], Judgement]) -> Check:
        return Check(code, name, severity, Doc.parse(judge.__doc__ or _docstring(judge)), judge, since)

    return decorate


def _docstring(function: Callable[..., object]) -> str:
    """The docstring in the source of a function, which PYTHONOPTIMIZE=2 strips from it."""
    (definition,) = ast.parse(inspect.getsource(function)).body
    return (isinstance(definition, ast.FunctionDef) and ast.get_docstring(definition)) or ""
