"""Where a finding is in the scanned project: a path relative to the current directory, as CI servers need it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from dataguard.core.model import Finding, Report, Result, Severity, UsageError
from dataguard.machine.units import counted
from dataguard.render.escapes import escaped
from dataguard.settings.target_spelling import parsed, script_of

_NOWHERE = "pyproject.toml"
"""A finding without a place is shown at the file that every project has."""
_MOST_CHARACTERS = 4_000
"""Of one text: a server shows a few lines of it."""
_MOST_ITEMS = 1_000
"""Of one list or mapping."""


@dataclass(frozen=True, slots=True)
class Project:
    """The current directory, and where the modules of targets are."""

    root: Path | None
    folders: tuple[str, ...]
    targets: tuple[str, ...]
    _files: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, report: Report) -> Project:
        """The project of a report."""
        try:
            root = Path.cwd()
        except OSError:  # it was deleted
            root = None
        given = report.settings.get("pythonpath")
        folders = tuple(map(str, given)) if isinstance(given, list | tuple) else ()
        return cls(root, (*folders, "", "src"), report.targets)

    def place(self, result: Result, finding: Finding) -> tuple[str, int | None]:
        """File and line of a finding; those of another package are shown at the file of the target."""
        at = finding.at
        users_file = self.relative(at.file) if at and at.file else None
        return (users_file, at.line or None) if users_file and at else (self._target_file(result.target), None)

    def relative(self, file: str) -> str | None:
        """The path of a file of this project from its root; None for any other file."""
        path = Path(os.path.normpath(file))
        if "site-packages" in path.parts or "dist-packages" in path.parts or path.parts[:1] == ("..",) or "\0" in file:
            return None
        if not path.is_absolute():
            return PurePosixPath(*path.parts).as_posix()
        return path.relative_to(self.root).as_posix() if self.root and path.is_relative_to(self.root) else None

    def _target_file(self, target: str) -> str:
        target = target or next(iter(self.targets), "")
        if target not in self._files:
            self._files[target] = self._found(target)
        return self._files[target]

    def _found(self, target: str) -> str:
        if script := script_of(target):
            return self.relative(script[0]) or _NOWHERE
        try:
            module = parsed(target).module
        except UsageError:
            return _NOWHERE
        stem = module.replace(".", "/")
        names = [str(Path(folder, file)) for folder in self.folders for file in (f"{stem}.py", f"{stem}/__init__.py")]
        users_files = (self.relative(name) for name in names if self.root and (self.root / name).is_file())
        return next(filter(None, users_files), _NOWHERE)


def bounded(report: Report) -> Report:
    """A report with strings of a size that a server accepts and a reader can use."""
    return replace(
        report,
        results=tuple(map(_bounded, report.results)),
        notes=tuple(map(_kept, report.notes)),
        targets=tuple(map(_kept, report.targets)),
    )


def _bounded(result: Result) -> Result:
    return replace(
        result,
        findings=tuple(map(_bounded_finding, result.findings)),
        reason=result.reason and _kept(result.reason),
        loader=_kept(result.loader),
    )


def _bounded_finding(finding: Finding) -> Finding:
    at = finding.at
    return replace(
        finding,
        message=_kept(finding.message),
        evidence={_kept(str(key)): _within(value) for key, value in finding.evidence.items()},
        at=at and replace(at, file=at.file and _kept(at.file), what=_kept(at.what or "")),
        repro=finding.repro and _kept(finding.repro),
    )


def _within(value: Any) -> Any:
    if isinstance(value, str):
        return _kept(value)
    if isinstance(value, Mapping):
        return {_kept(str(key)): _within(item) for key, item in islice(value.items(), _MOST_ITEMS)}
    return [*map(_within, value[:_MOST_ITEMS])] if isinstance(value, list | tuple) else value


def _kept(words: str, longest: int = _MOST_CHARACTERS) -> str:
    if len(words) <= longest:
        return words
    return f"{words[:longest]} … {counted(len(words) - longest, 'more characters')}"


def clean(words: str, longest: int = _MOST_CHARACTERS + 100) -> str:
    """Words that can be shown anywhere; of more than so many characters, the first, and how many follow."""
    return escaped(_kept(words, longest))


def thresholds(report: Report) -> tuple[Severity, bool]:
    """The lowest severity that fails a scan, and whether a check that was not decided does."""
    return Severity(report.settings.get("fail_on", Severity.WARNING)), bool(report.settings.get("fail_on_undecided"))
