"""What happens when a guarded loader breaks a contract: an exception, a warning, or only a line of the report.

`Options` are the arguments of `guard`, and `Alarm` acts on violations as they say.
"""

from __future__ import annotations

import functools
import re
import sys
import time
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import torch
import torch.distributed as dist

from dataguard.core.incident import is_library
from dataguard.core.model import Check, DataguardError, Finding, Severity, UsageError
from dataguard.core.source_lines import source_lines
from dataguard.render.escapes import printable
from dataguard.settings.parsers import ROLES
from dataguard.settings.target_spelling import spelled_role

Action = Literal["warn", "raise", "record"]
ACTIONS: tuple[Action, ...] = ("warn", "raise", "record")


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of `guard`, which documents them."""

    role: str | None
    num_classes: int | None
    ignore_index: int | None
    label: str | int | None
    all_values: bool
    on_violation: Action
    ignore: Collection[str]
    save_to: Path | None
    max_wait: float | None
    ranks: bool
    rank_timeout: float
    same_batches: int
    resume: Path | None = None

    def __post_init__(self) -> None:
        if self.on_violation not in ACTIONS:
            raise UsageError(f"on_violation is one of {', '.join(ACTIONS)}, not {self.on_violation!r}")
        if self.role is not None and self.role not in ROLES:
            raise UsageError(f"role is one of {', '.join(ROLES)}, not {self.role!r}")
        unknown = sorted(set(self.ignore) - set(CODES))
        if unknown:
            raise UsageError(f"guard does not watch {', '.join(unknown)}; ignore takes {', '.join(CODES)}")

    def role_of(self, name: str) -> str | None:
        """The role of a loader of this name."""
        return self.role or spelled_role(name)


class Alarm:
    """Acts on the violations of one loader, and keeps their findings by code.

    A check whose severity is WARNING never raises: its violation may be on purpose.
    """

    def __init__(self, loader: str, action: Action, ignored: Collection[str], folder: Path | None) -> None:
        self.loader = loader
        self.action = action
        self.ignored = frozenset(ignored)
        self.folder = folder
        self.findings: dict[str, list[Finding]] = {}
        self.counts: dict[str, int] = {}

    def listens(self, code: str) -> bool:
        """Whether violations of this check are wanted."""
        return code not in self.ignored

    def report(self, code: str, finding: Finding, where: ViolatingBatch | None = None) -> None:
        """Record a violation and act on it; the first batch of each check is saved if there is a folder.

        Raises ContractViolation if that is the action. Warns once for each check.
        """
        if code in self.ignored:
            return
        first = code not in self.counts
        self.counts[code] = self.counts.get(code, 0) + 1
        if first and where is not None and self.folder is not None:
            finding = self._saved(self.folder, code, finding, where)
        if self.counts[code] <= MOST_FINDINGS:
            self.findings.setdefault(code, []).append(finding)
        if self.action == "raise" and watched()[code].severity is Severity.ERROR:
            raise ContractViolation(code, self.loader, finding)
        if first and self.action != "record":
            warnings.warn(described(code, self.loader, finding), ContractWarning, stacklevel=_stacklevel())

    def _saved(self, folder: Path, code: str, finding: Finding, where: ViolatingBatch) -> Finding:
        """The finding with a line that loads the batch; that it cannot be saved is evidence, not an error."""
        name = re.sub(r"[^\w.-]+", "-", f"{code}-{self.loader}-epoch{where.epoch}-batch{where.batch}.pt")
        path = folder / name
        content = {"batch": where.content, "indices": where.indices, "epoch": where.epoch, "number": where.batch}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            torch.save({**content, "code": code, "message": finding.message}, path)
        except Exception as error:  # noqa: BLE001 - a full disk, or a batch of the user's that cannot be pickled
            return replace(finding, evidence={**finding.evidence, "not saved": f"{type(error).__name__}: {error}"})
        line = f"python -c \"import torch; print(torch.load({str(path)!r}, weights_only=False)['batch'])\""
        return replace(finding, repro=line)


MOST_FINDINGS = 100
"""How many findings of a check are kept; further ones are only counted, so that a long training does not fill the
memory."""


class ContractViolation(DataguardError):
    """A guarded loader broke a contract: `code` names the check that `dataguard explain` describes."""

    def __init__(self, code: str, loader: str, finding: Finding) -> None:
        super().__init__(code, loader, finding)
        self.code = code
        self.loader = loader
        self.finding = finding

    def __str__(self) -> str:
        return described(self.code, self.loader, self.finding)


class ContractWarning(UserWarning):
    """A guarded loader broke a contract, and training continues."""


@dataclass(frozen=True, slots=True)
class ViolatingBatch:
    """The batch of a violation: its epoch and number, both from 0, and the indices of its samples if known."""

    epoch: int
    batch: int
    indices: Sequence[Any] | None = None
    content: Any = None

    def __str__(self) -> str:
        return f"batch {self.batch} of epoch {self.epoch}"


def described(code: str, loader: str, finding: Finding) -> str:
    """A violation as one paragraph, for a warning or an exception."""
    evidence = "; ".join(f"{key}: {value}" for key, value in finding.evidence.items())
    parts = [f"{watched()[code].id}[{on_rank(loader)}] {finding.message}", evidence and f"({evidence})"]
    at = finding.at
    source = source_lines(at.file, at.line, _LOADED_AT) if at and at.file and at.line else None
    place = [f"at {at}"] if at and str(at) else []
    quoted = [source.marked(at.line)] if at and source else []
    lines = [" ".join(filter(None, parts)), *place, *quoted, f"`dataguard explain {code}` describes cause and fix"]
    return printable("\n".join([*lines, f"saved: {finding.repro}"] if finding.repro else lines))


def on_rank(loader: str) -> str:
    """The name of a loader, with the rank of this process if there are several: each of them reports."""
    several = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
    return f"{loader}, rank {dist.get_rank()}" if several else loader


_LOADED_AT = time.time()
"""When the user's code was loaded, or soon after: lines of files that changed later are not shown."""


@functools.cache
def watched() -> dict[str, Check]:
    """Those checks by code. Spawned workers import this module, and do without the catalogue."""
    from dataguard.checks import CATALOGUE

    return {check.code: check for check in CATALOGUE if check.code in CODES}


CODES = (
    *("DG101", "DG102", "DG202", "DG203", "DG206", "DG209", "DG305"),
    *("DG307", "DG403", "DG423", "DG501", "DG502", "DG801"),
)
"""The checks whose contracts a guard watches."""


def _stacklevel() -> int:
    """How far up the stack the user's code is, so that the warning names its line; that of the caller without any."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and is_library(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    return 2 if frame is None else level
