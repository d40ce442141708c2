"""What the user asked for: one resolver for the command line, pytest, configuration files and Python.

Later layers win: defaults < `dataguard.toml` or `[tool.dataguard]` < command line and pytest options < Python
arguments.
Standard library only.
"""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from dataguard.model import Check, Severity, UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROLES = ("train", "val", "test")
EVERY_METHOD = "all"
"""Judge the loader's own start method, and what the others change."""
START_METHODS = ("fork", "spawn", "forkserver", EVERY_METHOD)
CONTRACT_KEYS = (
    "channels",
    "normalization",
    "value_range",
    "num_classes",
    "ignore_index",
    "target_form",
    "bbox_format",
    "repeat",
    "step_ms",
    "deterministic",
    "key",
)
READ = ("key", "repeat")
"""The keys of the contract that checks of this version read."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One resolved set of choices; `resolve` is the way to get one."""

    targets: tuple[str, ...] = ()
    """Spellings of what to examine: `[name=]pkg.mod:attr`."""
    select: tuple[str, ...] = ()
    """Codes, code prefixes or names of the checks to run; empty means all."""
    ignore: tuple[str, ...] = ()
    """Codes, code prefixes or names of the checks to leave out."""
    samples: int = 256
    """How many samples the traced pass reads at most."""
    budget: float = 60.0
    """Seconds that the observations of one loader may take together."""
    timeout: float = 20.0
    """Seconds without any progress after which a loader counts as hanging."""
    seed: int = 0
    """Seed of python, numpy and torch before the factory is called."""
    workers: int | None = None
    """Replaces the loader's own num_workers."""
    start_method: str | None = None
    """Replaces the loader's own multiprocessing start method: fork, spawn or forkserver; `all` tries every one."""
    ranks: int | None = None
    """How many real ranks to look at; None means two, where the loader knows of ranks."""
    checks: str | None = None
    fail_on: Severity = Severity.WARNING
    """The mildest severity that makes the exit code 1."""
    expect: Mapping[str, str] = field(default_factory=dict)
    """Known findings, `DG401` or `DG401[train]`, each with its reason."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """Loader name to train, val or test."""
    contract: Mapping[str, Any] = field(default_factory=dict)
    """What only the user knows about the data."""

    def as_mapping(self) -> dict[str, Any]:
        """Every setting by name, as plain data for a report."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {**values, "fail_on": self.fail_on.value}

    @property
    def unread(self) -> tuple[str, ...]:
        """The keys the user set that no check of this version reads."""
        contract = (f"contract.{key}" for key in self.contract if key not in READ)
        return (*(("checks",) if self.checks else ()), *contract)

    @property
    def key(self) -> str | None:
        """Where the function is that gives the identity of a sample: `pkg.mod:function`."""
        return self.contract.get("key")


def resolve(config: str | Path | None = None, start: Path | None = None, **options: Any) -> Settings:
    """Merge the configuration file and the options that are not None into `Settings`.

    `config` names a file; without it the nearest `dataguard.toml`, else the nearest `pyproject.toml` with a
    `[tool.dataguard]` table, at or above `start` (default: the current directory) is read.
    Raises UsageError for a missing file, an unknown key or a value of the wrong shape.
    """
    path = Path(config) if config is not None else _find(start or Path.cwd())
    table = _read(path, required=config is not None) if path else {}
    given = {name: value for name, value in options.items() if value is not None}
    merged = _parse(table, f"{path}: ")
    for key, value in _parse(given, "").items():
        merged[key] = {**merged.get(key, {}), **value} if key in _MERGED else value
    return replace(Settings(), **merged)


def chosen(checks: Iterable[Check], settings: Settings) -> tuple[Check, ...]:
    """The checks that `select` and `ignore` leave, in catalogue order.

    Raises UsageError for a word that names no check, with the closest code or name.
    """
    known = tuple(checks)
    for option, words in (("select", settings.select), ("ignore", settings.ignore)):
        for word in words:
            if not any(_names(word, check) for check in known):
                spellings = [spelling for check in known for spelling in (check.code, check.name)]
                raise UsageError(f"{option}: no check is called {word!r}{_suggest(word, spellings)}")
    for word in settings.expect:
        code = word.partition("[")[0]
        if not any(code in (check.code, check.name) for check in known):
            raise UsageError(f"expect: no check is called {code!r}{_suggest(code, [check.code for check in known])}")
    return tuple(
        check
        for check in known
        if (not settings.select or any(_names(word, check) for word in settings.select))
        and not any(_names(word, check) for word in settings.ignore)
    )


def expectation(settings: Settings, check: Check, loader: str) -> str | None:
    """The reason why this check is expected to fail on this loader, if the user gave one."""
    for word in (f"{check.code}[{loader}]", f"{check.name}[{loader}]", check.code, check.name):
        if word in settings.expect:
            return settings.expect[word]
    return None


def _names(word: str, check: Check) -> bool:
    word = word.upper()
    return word in (check.name.upper(), check.id.upper()) or (word.startswith("DG") and check.code.startswith(word))


def _find(start: Path) -> Path | None:
    for folder in (start, *start.parents):
        own = folder / "dataguard.toml"
        if own.is_file():
            return own
        project = folder / "pyproject.toml"
        if project.is_file() and "dataguard" in _tools(project):
            return project
    return None


def _read(path: Path, *, required: bool) -> Mapping[str, Any]:
    if required and not path.is_file():
        raise UsageError(f"--config {path}: no such file")
    table: Any = _tools(path).get("dataguard", {}) if path.name == "pyproject.toml" else _load(path)
    if not isinstance(table, dict):
        raise UsageError(f"{path}: [tool.dataguard] must be a table")
    return table


def _tools(path: Path) -> Mapping[str, Any]:
    tools = _load(path).get("tool", {})
    return tools if isinstance(tools, dict) else {}


def _load(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: {error}") from error


_MERGED = ("expect", "roles", "contract")
"""Tables, of which a later layer replaces single entries."""


def _parse(table: Mapping[str, Any], origin: str) -> dict[str, Any]:
    known = [item.name for item in fields(Settings)]
    parsed = {}
    for spelled, value in table.items():
        key = spelled.replace("-", "_")
        if key not in known:
            raise UsageError(f"{origin}unknown setting {spelled!r}{_suggest(key, known)}")
        parsed[key] = _PARSERS[key](value, f"{origin}{spelled}")
    return parsed


def _words(value: Any, where: str) -> tuple[str, ...]:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        raise UsageError(f"{where}: expected a list of strings, got {value!r}")
    return tuple(part.strip() for word in words for part in word.split(",") if part.strip())


def _whole(minimum: int) -> Callable[[Any, str], int]:
    def parse(value: Any, where: str) -> int:
        try:
            number = int(value) if isinstance(value, str) else value
        except ValueError:
            number = None
        if not isinstance(number, int) or isinstance(number, bool) or number < minimum:
            raise UsageError(f"{where}: expected a whole number of at least {minimum}, got {value!r}")
        return number

    return parse


def _seconds(value: Any, where: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, bool) or not 0 < number < math.inf:
        raise UsageError(f"{where}: expected a positive number of seconds, got {value!r}")
    return number


def _one_of(choices: tuple[str, ...]) -> Callable[[Any, str], str]:
    def parse(value: Any, where: str) -> str:
        if value not in choices:
            raise UsageError(
                f"{where}: expected one of {', '.join(choices)}, got {value!r}{_suggest(str(value), choices)}"
            )
        return str(value)

    return parse


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{where}: expected text, got {value!r}")
    return value


def _severity(value: Any, where: str) -> Severity:
    return Severity(_one_of(tuple(severity.value for severity in Severity))(value, where))


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UsageError(f"{where}: expected a table, got {value!r}")
    return value


def _reasons(value: Any, where: str) -> Mapping[str, str]:
    for code, reason in _table(value, where).items():
        if not isinstance(reason, str) or not reason.strip():
            raise UsageError(f'{where}.{code}: a reason is mandatory, such as {code} = "depth maps are not RGB"')
    return dict(value)


def _roles(value: Any, where: str) -> Mapping[str, str]:
    return {loader: _one_of(ROLES)(role, f"{where}.{loader}") for loader, role in _table(value, where).items()}


def _contract(value: Any, where: str) -> Mapping[str, Any]:
    for key in _table(value, where):
        if key not in CONTRACT_KEYS:
            raise UsageError(f"{where}: unknown key {key!r}{_suggest(key, CONTRACT_KEYS)}")
    if "key" in value:
        _text(value["key"], f"{where}.key")
    if "repeat" in value:
        _whole(1)(value["repeat"], f"{where}.repeat")
    return dict(value)


def _suggest(word: str, known: Iterable[str]) -> str:
    options = list(known)
    close = difflib.get_close_matches(word, options, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(options)}"


_PARSERS: Mapping[str, Callable[[Any, str], Any]] = {
    "targets": _words,
    "select": _words,
    "ignore": _words,
    "samples": _whole(1),
    "budget": _seconds,
    "timeout": _seconds,
    "seed": _whole(0),
    "workers": _whole(0),
    "start_method": _one_of(START_METHODS),
    "ranks": _whole(1),
    "checks": _text,
    "fail_on": _severity,
    "expect": _reasons,
    "roles": _roles,
    "contract": _contract,
}
