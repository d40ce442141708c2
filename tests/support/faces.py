"""The faces of checks: the factories of `sample_datasets` whose names begin with bad or good."""

from __future__ import annotations

import ast
import importlib
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from dataguard.core.model import Check

T = TypeVar("T")

SAMPLES = Path(__file__).parents[2] / "sample_datasets"

TRAINED: dict[str, Any] = {name: f"sample_datasets._training:{name}" for name in ("model", "step")}
"""The settings of family 9: the loaders of its samples know their models."""

WHOLE = {"DG513"}
"""Checks that judge in scans of all samples."""


EVERY_FACE = "DATAGUARD_EVERY_FACE" in os.environ
"""Runs every face under every start method, and every check on each: about an hour, and so only when asked for."""
TENTHS = 10
TENTH = os.environ.get("DATAGUARD_TENTH")
"""The tenth of the faces, from 0 to 9, that runs as well; `.ci/run` takes another one each day."""


def in_tenth(face: str, tenth: int) -> bool:
    """Whether a face, `stem:name`, belongs to a tenth: the same one in every run."""
    return zlib.crc32(face.encode()) % TENTHS == tenth


def todays(cases: Iterable[T], turns: int = TENTHS) -> list[T]:
    """The cases of a list whose turn it is: one of so many, of shorter lists one case; all with `EVERY_FACE`.

    Within ten days each has its turn: cases that take long, and of which one shows about what another does.
    """
    listed = list(cases)
    turns = min(turns, len(listed))
    return listed if EVERY_FACE else listed[int(TENTH or 0) % turns :: turns]


def runs(face: str) -> bool:
    """Whether a face runs that does not always do."""
    return EVERY_FACE or (TENTH is not None and in_tenth(face, int(TENTH)))


@dataclass(frozen=True, slots=True)
class Face:
    """One face of a check: a factory of its sample whose name begins with bad or good."""

    check: Check
    name: str

    def __str__(self) -> str:
        return f"{self.check.stem}:{self.name}"

    @property
    def loader(self) -> str:
        """What `tests.loaders.faces` calls it."""
        return f"{self.check.code}.{self.name}"

    @property
    def expected(self) -> list[str]:
        """The codes that its name promises to fail."""
        return [self.check.code] if self.name.startswith("bad") else []


def samples(check: Check) -> list[Face]:
    """The faces of a check: the functions of its sample module that are called bad or good."""
    tree = ast.parse((SAMPLES / f"{check.stem}.py").read_text(encoding="utf-8"))
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [Face(check, name) for name in names if name.partition("_")[0] in ("bad", "good")]


def settings_of(check: Check) -> dict[str, Any]:
    """The settings that the samples of a check are judged with."""
    special: dict[str, Any] = {"all": True} if check.code in WHOLE else {}
    if check.code == "DG603":
        special = {"contract": {"memory_gb": 1}}
    if check.code in ("DG801", "DG803"):
        step = importlib.import_module(f"sample_datasets.{check.stem}").STEP_MS
        special = {"contract": {"step_ms": step}, "samples": 16, "budget": 30}
    return special | (TRAINED if check.code.startswith("DG9") else {})
