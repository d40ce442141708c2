"""Known findings, of the settings and in a file: what identifies one from run to run, and how they change a result.

Standard library only. A finding is identified by its target, its loader, its check and its culprit, never by lines,
counts or seeds, which change while the defect stays.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from pathlib import Path, PurePath
from typing import Any

from dataguard.core.model import STALE, Finding, Report, Result, Severity, Status, UsageError
from dataguard.machine.units import counted
from dataguard.settings.files import json_in
from dataguard.settings.target_spelling import is_held, parsed, script_of, shown_target, with_args

SCHEMA = "urn:dataguard:baseline:1"
_PATH = re.compile(
    r"\b(?:batch|sample|dataset|loader|sampler|batch_sampler|collate_fn|model)"
    r"(?:\.[^\W\d]\w*|\[(?:\d+|'[^'\n]*'|\"[^\"\n]*\")\])+"
)
"""An attribute or a leaf in a message: `dataset.rng`, `batch['image']`."""
_INDEX = re.compile(r"\[\d+\]")
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+\b")
_LONGEST_NAME = 200
"""Characters that identify a finding: enough to tell its place and leaf from others, whatever names the user gives."""


@dataclass(frozen=True, slots=True, order=True)
class Known:
    """What identifies a finding. Two findings of a check on a loader with one culprit are one."""

    target: str
    loader: str
    check: str
    culprit: str

    def __post_init__(self) -> None:
        if not all(isinstance(value, str) for value in astuple(self)):
            raise TypeError("every part of a known finding is a string")

    @property
    def digest(self) -> str:
        """The same as a short text, for formats that keep one."""
        return hashlib.sha256("\0".join(astuple(self)).encode()).hexdigest()[:32]


def identity(result: Result, finding: Finding) -> Known:
    """What identifies a finding: the same from the command line and from pytest, with one target and with several."""
    target = _target(result.target)
    name = parsed(result.target).name if result.target else ""
    loader = result.loader.removeprefix(f"{result.target}.").removeprefix(f"{name}.")
    loader = name if loader == result.target else loader
    return Known(_utf8(target), _utf8(loader), f"{result.code}-{result.name}", culprit(finding))


def _target(spelling: str) -> str:
    """A target without the name that the user gave it, and a script without its arguments."""
    if script := script_of(spelling):
        return f"run {script[0]}"
    if not spelling or is_held(spelling):
        return shown_target(spelling)
    whole = parsed(spelling)
    return with_args(f"{whole.module}:{whole.attribute}", whole.args)


def culprit(finding: Finding) -> str:
    """What is to blame: the name of the file, the attribute or function there, and the leaf that the message names.

    Indices in a dataset depend on which sample was read first; those of a batch or a sample say which leaf it is.
    """
    at = finding.at
    file = PurePath(at.file.replace("\\", "/")).name if at and at.file else ""
    what = _plain(at.what) if at and at.what else ""
    path = _PATH.search(finding.message[:10_000])
    leaf = _plain(path[0]) if path else ""
    return _utf8(" ".join(part for part in (file, what, leaf if leaf != what else "") if part)[:_LONGEST_NAME])


def _plain(words: str) -> str:
    without_indices = words if words.startswith(("batch", "sample[", "sample.")) else _INDEX.sub("[]", words)
    return " ".join(_ADDRESS.sub("0x", without_indices).split())


def _utf8(words: str) -> str:
    return words.encode("utf-8", "backslashreplace").decode()


_KEYS = [item.name for item in fields(Known)]


@dataclass(frozen=True, slots=True)
class Baseline:
    """The known findings of a file; none without one."""

    file: str = ""
    findings: frozenset[Known] = field(default_factory=frozenset)

    def applied(self, result: Result) -> Result:
        """A result without its known findings: EXPECTED if it has no others.

        A passed result, or one with other findings, says which known findings have vanished. One that is not decided
        says nothing of them.
        """
        if result.status not in (Status.PASSED, Status.FAILED) or not self.findings:
            return result
        keys = [identity(result, finding) for finding in result.findings]
        unseen = self._of(result) - set(keys)
        new = tuple(finding for key, finding in zip(keys, result.findings, strict=True) if key not in self.findings)
        seen = len(keys) - len(new)
        if result.status is Status.PASSED:
            return replace(result, reason=f"{STALE} ({self._reason}), but it passes: {_UPDATE}") if unseen else result
        if not new:
            gone = f"; {_vanished(unseen)}" if unseen else ""
            return replace(result, status=Status.EXPECTED, reason=f"{self._reason}{gone}")
        notes = [result.reason, f"{counted(seen, 'more findings')} {self._reason}" if seen else None]
        notes += [f"{self._reason}: {_vanished(unseen)}"] if unseen else []
        ambiguous = result.severity is Severity.ERROR and all(finding.ambiguous for finding in new)
        severity = Severity.WARNING if ambiguous else result.severity
        return replace(result, findings=new, severity=severity, reason="; ".join(filter(None, notes)) or None)

    @property
    def _reason(self) -> str:
        return f"in the baseline {self.file}"

    def _of(self, result: Result) -> set[Known]:
        """The known findings of this check on this loader."""
        unnamed = identity(result, Finding(""))
        return {finding for finding in self.findings if replace(finding, culprit="") == unnamed}


_UPDATE = "update it with --write-baseline"


def _vanished(gone: Iterable[Known]) -> str:
    names = sorted(finding.culprit or "one" for finding in gone)
    return f"no longer found: {', '.join(names)}; {_UPDATE}"


def expected(result: Result, reason: str | None) -> Result:
    """Apply the user's reason to expect a failure, if any: it becomes EXPECTED, and a pass makes the reason stale."""
    if reason is None:
        return result
    if result.status is Status.FAILED:
        return replace(result, status=Status.EXPECTED, reason=reason)
    if result.status is Status.PASSED:
        return replace(result, reason=f"{STALE} ({reason}), but it passes: remove the expectation")
    return result


def read(file: str | None) -> Baseline:
    """The baseline of a file; an empty one for None. Raises UsageError for a file that is no baseline."""
    if file is None:
        return Baseline()
    if not Path(file).exists():
        raise UsageError(f"baseline {file}: no such file; --write-baseline {file} writes one")
    try:
        document = json_in(Path(file))
    except ValueError as error:
        raise UsageError(f"baseline {file}: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        schema = document.get("schema") if isinstance(document, dict) else None
        raise UsageError(f"baseline {file}: expected a file with the schema {SCHEMA}, got {schema!r:.40}")
    return Baseline(_short(file), frozenset(_entries(document.get("findings"), file)))


def _short(file: str) -> str:
    """A path below the current directory from there."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


def _entries(entries: Any, file: str) -> Iterator[Known]:
    for number, entry in enumerate(entries if isinstance(entries, list) else [None], start=1):
        try:
            finding = Known(**entry)
            yield Known(*map(_utf8, astuple(finding)))
        except TypeError:
            raise UsageError(f"baseline {file}: finding {number} needs {', '.join(_KEYS)}, each a string") from None


def written(report: Report, earlier: Baseline) -> str:
    """The text of a baseline with every finding of a report that failed.

    What the report does not judge is kept from the `earlier` baseline: other targets, checks that were not selected,
    and those that were not decided.
    """
    decided = {
        identity(result, Finding(""))
        for result in report.results
        if result.status in (Status.PASSED, Status.FAILED, Status.EXPECTED)
    }
    failed = {identity(result, finding) for result in report.defects for finding in result.findings}
    kept = {finding for finding in earlier.findings if replace(finding, culprit="") not in decided}
    lines = [json.dumps(asdict(finding), ensure_ascii=False) for finding in sorted(failed | kept)]
    listed = "[\n    {}\n  ]".format(",\n    ".join(lines)) if lines else "[]"
    return f'{{\n  "schema": "{SCHEMA}",\n  "findings": {listed}\n}}\n'
