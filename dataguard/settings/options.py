"""The options of `dataguard.scan` and `dataguard.check`, for editors and type checkers; `Settings` documents them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

Words = str | Sequence[str]
"""One, or several: in a sequence, or separated by commas."""


class Options(TypedDict, total=False):
    """Each is a field of `Settings`, but `args` and `config`; None leaves it to the settings file."""

    config: str | Path | None
    args: Mapping[str, Any] | Sequence[str] | None
    pythonpath: Words | None
    select: Words | None
    ignore: Words | None
    samples: int | None
    all: bool | None
    pictures: bool | None
    budget: float | None
    timeout: float | None
    import_timeout: float | None
    seed: int | None
    workers: int | None
    start_method: Literal["fork", "spawn", "forkserver", "all"] | None
    ranks: int | None
    model: Any
    loss: Any
    step: Any
    checks: str | None
    fail_on: Literal["error", "warning", "note"] | None
    fail_on_undecided: bool | None
    expect: Mapping[str, str] | None
    baseline: str | None
    roles: Mapping[str, str] | None
    contract: Mapping[str, Any] | None
    hypothesis: Mapping[str, Any] | None
    overrides: Mapping[str, Mapping[str, Any]] | None
