"""The settings, and one resolver for the command line, pytest, settings files and Python. Standard library only.

Later layers win: defaults < `dataguard.toml` or `[tool.dataguard]` < command line and pytest options < Python
arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any

from dataguard.core.model import FIRST_SET, RUNNING, Check, Severity, UsageError
from dataguard.settings.files import beside, find, read, require_path, working_folder
from dataguard.settings.parsers import PARSERS
from dataguard.settings.target_spelling import as_args, parsed, suggest, with_args

PATIENCE = 3
"""A loader that makes no progress but burns CPU or reads files gets this many times the timeout."""
SCRIPT_PATIENCE = 30
"""A script may load a model before its loaders: it may take this many times the timeout without progress."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One resolved set of settings; made by `resolve`."""

    targets: tuple[str, ...] = ()
    """The targets to scan: `[name=]pkg.mod:attr`, with arguments as `pkg.mod:attr(split="train")`."""
    pythonpath: tuple[str, ...] = ()
    """Folders, relative to the settings file, from which the modules of targets are imported."""
    select: tuple[str, ...] = ()
    """Codes, code prefixes or names of the checks to run; empty means all."""
    ignore: tuple[str, ...] = ()
    """Codes, code prefixes or names of the checks to skip."""
    samples: int = 256
    """The maximum number of samples that the traced pass reads."""
    all: bool = False
    """Read every sample once; `samples` then limits the closer examinations."""
    pictures: bool = False
    """Add pictures of samples to findings, for reports that draw."""
    budget: float = 60.0
    """Time limit in seconds for all observations of one loader."""
    timeout: float = 20.0
    """Seconds without progress after which a loader counts as hanging."""
    import_timeout: float = 120.0
    """Seconds that importing torch may take, and then importing the module of a target."""
    seed: int = 271_828
    """Seed for python, numpy and torch before the factory is called, which users don't pick for their own generators.

    With 0, a random split drawn globally could equal one drawn from `torch.Generator().manual_seed(0)`."""
    workers: int | None = None
    """Overrides the loader's num_workers."""
    start_method: str | None = None
    """Overrides the loader's multiprocessing start method: fork, spawn or forkserver; `all` tries each of them."""
    ranks: int | None = None
    """The number of ranks to start, at most 4; by default two if the loader is rank-aware."""
    model: str | None = None
    """The model to try batches with, `pkg.mod:make_model`: a module, or a function or class that returns one."""
    loss: str | None = None
    """Its loss, a function or module that is called as `loss(output, target)`."""
    step: str | None = None
    """A function `step(model, batch)` that returns the loss, instead of `loss`, if no convention fits the batch."""
    checks: str | None = None
    """The check set to use, such as `2026.1`; by default the newest, whose new checks are warnings at most."""
    fail_on: Severity = Severity.WARNING
    """The lowest severity that makes the exit code 1: `error`, `warning` or `note`."""
    fail_on_undecided: bool = False
    """A check that could not be decided makes the exit code 1 too."""
    expect: Mapping[str, str] = field(default_factory=dict)
    """Known findings, `DG401` or `DG401[train]`, each with its reason."""
    baseline: str | None = None
    """A file of known findings, as `--write-baseline` writes it."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """The role of a loader by name: train, val, test or predict."""
    contract: Mapping[str, Any] = field(default_factory=dict)
    """What only the user knows about the data."""
    hypothesis: Mapping[str, Any] = field(default_factory=dict)
    """Options of hypothesis: a `seed`, and a `database`, a folder of failing examples; deterministic without both."""
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings of single targets by name, such as `budget`, `roles` and `expect`; tables are merged key by key."""

    def as_mapping(self) -> dict[str, Any]:
        """Every setting by name, as plain data for a report."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {**values, "fail_on": self.fail_on.value}

    def of_target(self, spelling: str) -> Settings:
        """The settings of one target: its overrides, and what is set by the names that its loaders have in reports."""
        name = parsed(spelling).name
        settings = _with(self, self.overrides.get(name, {}))
        own = f"{name}."
        roles = {loader.removeprefix(own): role for loader, role in settings.roles.items() if loader.startswith(own)}
        known = {word.replace(f"[{own}", "[", 1): why for word, why in settings.expect.items() if f"[{own}" in word}
        return _with(settings, {"roles": roles, "expect": known})

    @property
    def import_path(self) -> list[str]:
        """Where the modules of targets are looked for."""
        return [*(str(Path.cwd() / folder) for folder in self.pythonpath), str(Path.cwd()), *sys.path]

    def build_timeout(self, *, script: bool) -> float:
        """Seconds without progress that a factory may take, or a script up to its loaders."""
        return self.timeout * (SCRIPT_PATIENCE if script else 1)

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of the model, its loss and its step."""
        return tuple(filter(None, (self.model, self.loss, self.step)))

    @property
    def memory(self) -> int | None:
        """Bytes of memory of the machine that trains, if the user declared them."""
        given = self.contract.get("memory_gb")
        return None if given is None else round(1e9 * given)

    @property
    def key(self) -> str | None:
        """The function that returns the identity of a sample: `pkg.mod:function`."""
        return self.contract.get("key")


def resolve(config: str | Path | None = None, start: Path | None = None, **options: Any) -> Settings:
    """Merge the settings file and the options that are not None into `Settings`.

    `config` names a file; without it the nearest `dataguard.toml`, else the nearest `pyproject.toml` with a
    `[tool.dataguard]` table, at or above `start` (default: the current directory) is read.
    Raises UsageError for a missing file, an unknown key or a value of the wrong shape.
    """
    here = working_folder()
    if config is not None:
        require_path(config, "--config")
    path = Path(config) if config is not None else find(start or here)
    table = read(path, required=config is not None) if path else {}
    values = _parse(table, f"{path}: ")
    _require_targets(values.get("overrides", {}), values.get("targets", ()), f"{path}: ")
    if path is not None and "pythonpath" in values:
        values["pythonpath"] = tuple(beside(path, folder) for folder in values["pythonpath"])
    if path is not None and "baseline" in values:
        values["baseline"] = str((path.parent / values["baseline"]).resolve())
    settings = changed(replace(Settings(), **values), **options)
    if missing := [folder for folder in settings.pythonpath if not Path(folder).is_dir()]:
        raise UsageError(f"pythonpath: no such folder: {missing[0]}")
    if settings.model is None and (settings.loss or settings.step):
        raise UsageError(f"--{'loss' if settings.loss else 'step'} requires --model (in a settings file: model = ...)")
    return settings


def changed(settings: Settings, **options: Any) -> Settings:
    """The settings, updated with the options that are not None; tables are merged key by key.

    The option `args` has arguments for the factories of all targets: a table, or words `name=value`.
    Raises UsageError for an unknown option or a value of the wrong shape.
    """
    given = {name: value for name, value in options.items() if value is not None}
    args = as_args(given.pop("args", ()))
    given = _parse(given, "")
    overrides = {name: _outranked(own, given) for name, own in settings.overrides.items()}
    merged = _with(replace(settings, overrides=overrides), given)
    return replace(merged, targets=tuple(with_args(target, args) for target in merged.targets)) if args else merged


def _require_targets(overrides: Iterable[str], targets: Sequence[str], origin: str) -> None:
    """Raise UsageError for overrides of a target that a settings file does not name, if it names any."""
    names = [parsed(target).name for target in targets]
    for name in overrides:
        if names and name not in names:
            raise UsageError(f"{origin}overrides.{name}: no target of this name{suggest(name, names)}")


def _with(settings: Settings, given: Mapping[str, Any]) -> Settings:
    """The settings with these values; tables are merged key by key."""
    tables = {key: {**getattr(settings, key), **given[key]} for key in _MERGED if key in given}
    return replace(settings, **{**given, **tables})


def _outranked(override: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What an override still sets where an option is given, which counts for all targets."""
    left = {key: value for key, value in override.items() if key not in given or key in _MERGED}
    return {key: {**value, **given[key]} if key in given else value for key, value in left.items()}


UNREADABLE = "DG513"
"""The check that lists the samples which an epoch of all samples skips because they raise."""
_LISTED = "; `dataguard list` shows all checks"


def similar(word: str, spellings: Iterable[str]) -> str:
    """The end of an error message about an unknown check: a similar name; a code of other digits is no misspelling."""
    code = word.upper().startswith("DG") and word[2:].isdigit()
    return _LISTED if code else suggest(word, spellings, _LISTED)


def chosen(checks: Iterable[Check], settings: Settings) -> tuple[Check, ...]:
    """The checks that `select` and `ignore` leave, in catalogue order; `all` selects the one that lists what it found.

    Raises UsageError for an unknown check, with the closest code or name, and for an unknown check set.
    """
    available = _of_set(tuple(checks), settings.checks)
    kind = f"check in set {settings.checks}" if settings.checks else "check"
    spellings = [spelling for check in available for spelling in check.spellings]
    for option, words in (("select", settings.select), ("ignore", settings.ignore)):
        for word in words:
            if not any(_names(word, check) for check in available):
                raise UsageError(f"{option}: unknown {kind} {word!r}{similar(word, spellings)}")
    expected = (own.get("expect", {}) for own in settings.overrides.values())
    for word in chain(settings.expect, *expected):
        code = word.partition("[")[0]
        if code not in spellings:
            raise UsageError(f"expect: unknown {kind} {code!r}{similar(code, spellings)}")
    return tuple(
        check
        for check in available
        if (
            not settings.select
            or any(_names(word, check) for word in settings.select)
            or (settings.all and check.code == UNREADABLE)
        )
        and not any(_names(word, check) for word in settings.ignore)
    )


def unselected(checks: Iterable[Check], settings: Settings) -> tuple[Check, ...]:
    """The checks of whether a loader runs that `select` and `ignore` leave out."""
    selected = {check.code for check in chosen(checks, settings)}
    return tuple(check for check in checks if check.code in RUNNING and check.code not in selected)


def _of_set(checks: tuple[Check, ...], wanted: str | None) -> tuple[Check, ...]:
    """The checks of a set; without a set, the errors of the newest set count as warnings."""
    sets = sorted({check.since for check in checks} | {FIRST_SET}, key=_numbers)
    if wanted is not None and wanted not in sets:
        raise UsageError(f"checks: unknown check set {wanted!r}{suggest(wanted, sets)}")
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
    """The user's reason why this check is expected to fail on this loader, if any."""
    for word in (*(f"{spelling}[{loader}]" for spelling in check.spellings), *check.spellings):
        if word in settings.expect:
            return settings.expect[word]
    return None


def require_known(settings: Settings, loaders: Collection[str]) -> None:
    """Raise UsageError, with a suggestion, for a setting of a loader that does not exist but resembles one.

    A name that resembles no loader, or one that other settings name, may belong to another target.
    """
    named = {**{name: f"roles.{name}" for name in settings.roles}, **_expected(settings)}
    for name, setting in named.items():
        hint = suggest(name, {*loaders} - set(named), "") if name not in loaders else ""
        if hint:
            raise UsageError(f"{setting}: no loader named {name!r}{hint}")


def _expected(settings: Settings) -> dict[str, str]:
    """The loaders that expectations name, each with its setting."""
    return {word.partition("[")[2].removesuffix("]"): f"expect.{word}" for word in settings.expect if "[" in word}


def _names(word: str, check: Check) -> bool:
    word = word.upper()
    exact = word in (spelling.upper() for spelling in check.spellings)
    return exact or (word.startswith("DG") and check.code.startswith(word))


_MERGED = ("expect", "roles", "contract", "hypothesis", "overrides")
"""Tables that are merged key by key."""


def _parse(table: Mapping[str, Any], origin: str) -> dict[str, Any]:
    names = [item.name for item in fields(Settings)]
    values = {}
    for spelled, value in table.items():
        key = spelled.replace("-", "_")
        if key not in names:
            raise UsageError(f"{origin}unknown setting {spelled!r}{suggest(key, names)}")
        values[key] = PARSERS[key](value, f"{origin}{spelled}")
    return values
