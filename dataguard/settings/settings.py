"""What the user asked for: one resolver for the command line, pytest, configuration files and Python.

Later layers win: defaults < `dataguard.toml` or `[tool.dataguard]` < command line and pytest options < Python
arguments.
Standard library only.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from dataguard.model import FIRST_SET, Check, Severity, UsageError
from dataguard.settings.parsers import PARSERS
from dataguard.settings.suggestions import suggest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


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
    all: bool = False
    """Read every sample once; `samples` then bounds what is looked at closely."""
    resume: bool = False
    """Go on with a scan of all samples that was interrupted."""
    budget: float = 60.0
    """Seconds that the observations of one loader may take together."""
    timeout: float = 20.0
    """Seconds without any progress after which a loader counts as hanging."""
    seed: int = 271_828
    """Seed of python, numpy and torch before the factory is called.

    None that users give to generators of their own: with 0, what is drawn at random for one split would be what a
    `torch.Generator().manual_seed(0)` draws for another, and the two would look like one.
    """
    workers: int | None = None
    """Replaces the loader's own num_workers."""
    start_method: str | None = None
    """Replaces the loader's own multiprocessing start method: fork, spawn or forkserver; `all` tries every one."""
    ranks: int | None = None
    """How many real ranks to look at; None means two, where the loader knows of ranks."""
    checks: str | None = None
    """The check set to keep to, as `2026.1`; None is the newest, whose new checks are warnings at most."""
    fail_on: Severity = Severity.WARNING
    """The mildest severity that makes the exit code 1."""
    expect: Mapping[str, str] = field(default_factory=dict)
    """Known findings, `DG401` or `DG401[train]`, each with its reason."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """Loader name to train, val or test."""
    contract: Mapping[str, Any] = field(default_factory=dict)
    """What only the user knows about the data."""
    hypothesis: Mapping[str, Any] = field(default_factory=dict)
    """How hypothesis draws: by a `seed`, or with a `database`, a folder of failing examples; the same without both."""

    def as_mapping(self) -> dict[str, Any]:
        """Every setting by name, as plain data for a report."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {**values, "fail_on": self.fail_on.value}

    @property
    def memory(self) -> int | None:
        """How many bytes of memory the machine has on which the loader is meant to run, if the user says so."""
        given = self.contract.get("memory_gb")
        return None if given is None else round(1e9 * given)

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
    settings = changed(replace(Settings(), **_parse(table, f"{path}: ")), **options)
    if settings.resume and not settings.all:
        raise UsageError("resume: only a scan of all samples can be gone on with; add --all (all = true)")
    return settings


def changed(settings: Settings, **options: Any) -> Settings:
    """The settings with those options that are not None; tables are merged entry by entry.

    Raises UsageError for an unknown option or a value of the wrong shape.
    """
    given = _parse({name: value for name, value in options.items() if value is not None}, "")
    tables = {key: {**getattr(settings, key), **given[key]} for key in _MERGED if key in given}
    return replace(settings, **{**given, **tables})


LISTED = "; `dataguard list` shows them all"
"""What to say of a check that does not exist, where no other has a similar name."""


def chosen(checks: Iterable[Check], settings: Settings) -> tuple[Check, ...]:
    """The checks that `select` and `ignore` leave, in catalogue order.

    Raises UsageError for a word that names no check, with the closest code or name, and for a set that does not exist.
    """
    known = _of_set(tuple(checks), settings.checks)
    kind = f"check of {settings.checks}" if settings.checks else "check"
    spellings = [spelling for check in known for spelling in check.spellings]
    for option, words in (("select", settings.select), ("ignore", settings.ignore)):
        for word in words:
            if not any(_names(word, check) for check in known):
                raise UsageError(f"{option}: no {kind} is called {word!r}{suggest(word, spellings, LISTED)}")
    for word in settings.expect:
        code = word.partition("[")[0]
        if code not in spellings:
            raise UsageError(f"expect: no {kind} is called {code!r}{suggest(code, spellings, LISTED)}")
    return tuple(
        check
        for check in known
        if (not settings.select or any(_names(word, check) for word in settings.select))
        and not any(_names(word, check) for word in settings.ignore)
    )


def _of_set(checks: tuple[Check, ...], wanted: str | None) -> tuple[Check, ...]:
    """The checks of a set; those that are new in the newest one do not fail as errors yet."""
    sets = sorted({check.since for check in checks} | {FIRST_SET}, key=_numbers)
    if wanted is not None and wanted not in sets:
        raise UsageError(f"checks: there is no set {wanted!r}{suggest(wanted, sets)}")
    newest = wanted is None and sets[-1] != FIRST_SET
    return tuple(
        replace(check, severity=Severity.WARNING)
        if newest and check.since == sets[-1] and check.severity is Severity.ERROR
        else check
        for check in checks
        if wanted is None or _numbers(check.since) <= _numbers(wanted)
    )


def _numbers(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.split("."))


def expectation(settings: Settings, check: Check, loader: str) -> str | None:
    """The reason why this check is expected to fail on this loader, if the user gave one."""
    for word in (*(f"{spelling}[{loader}]" for spelling in check.spellings), *check.spellings):
        if word in settings.expect:
            return settings.expect[word]
    return None


def misspelled(settings: Settings, loaders: Collection[str]) -> Iterator[str]:
    """A remark on each loader name in the settings that no loader has, where one that they leave out is similar.

    Names that are unlike all of them may belong to other targets.
    """
    roles = {name: f"roles.{name}" for name in settings.roles}
    named = {word.partition("[")[2].removesuffix("]"): f"expect.{word}" for word in settings.expect if "[" in word}
    for name, setting in (named | roles).items():
        hint = suggest(name, {*loaders} - {*named, *roles}, "") if name not in loaders else ""
        if hint:
            yield f"{setting}: no loader is called {name!r}{hint}"


def _names(word: str, check: Check) -> bool:
    word = word.upper()
    exact = word in (spelling.upper() for spelling in check.spellings)
    return exact or (word.startswith("DG") and check.code.startswith(word))


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


_MERGED = ("expect", "roles", "contract", "hypothesis")
"""Tables, of which a later layer replaces single entries."""


def _parse(table: Mapping[str, Any], origin: str) -> dict[str, Any]:
    known = [item.name for item in fields(Settings)]
    parsed = {}
    for spelled, value in table.items():
        key = spelled.replace("-", "_")
        if key not in known:
            raise UsageError(f"{origin}unknown setting {spelled!r}{suggest(key, known)}")
        parsed[key] = PARSERS[key](value, f"{origin}{spelled}")
    return parsed
