"""The pytest plugin: options, ini keys, marks and fixtures.

Imports pytest only. The rest of dataguard is loaded when `--dataguard` (or the ini key `dataguard`) names a target, or
when a test uses a fixture, so that other runs of pytest start as fast as without the plugin.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataguard.pytest_plugin.fixtures import Laboratory, Toolbox
    from dataguard.report import Report
    from dataguard.settings.settings import Settings
    from dataguard.targets.variants import Loader

T = TypeVar("T")

CONFIGURED = "config"
"""`--dataguard=config` stands for the targets of the settings file; no target can have this form."""


class Option(NamedTuple):
    """One command line option and its ini key, the same name with underscores.

    `setting` is the field of `Settings` that it sets. `kind` is "text" for one value, "words" for a repeatable one,
    "pairs" for repeatable KEY=VALUE, and "flag" for a switch.
    """

    flag: str
    setting: str
    kind: str
    metavar: str
    help: str

    @property
    def key(self) -> str:
        """The ini key and the option's destination: `dataguard_select`."""
        return self.flag.replace("-", "_")


OPTIONS = (
    Option(
        "dataguard", "targets", "words", "[NAME=]PKG.MOD:ATTR",
        "check the data loaders of this factory, loader or dataset, one test for each check and loader "
        f"(repeatable); '{CONFIGURED}' stands for the targets of [tool.dataguard]",
    ),
    Option(
        "dataguard-arg", "args", "words", "NAME=VALUE",
        "argument of the factory: a JSON value, else text (repeatable)",
    ),
    Option("dataguard-select", "select", "words", "CODE", "run only these checks: codes, code prefixes or names"),
    Option("dataguard-ignore", "ignore", "words", "CODE", "skip these checks"),
    Option("dataguard-samples", "samples", "text", "N", "read at most N samples in the traced pass"),
    Option("dataguard-all", "all", "flag", "", "read every sample once"),
    Option("dataguard-budget", "budget", "text", "SECONDS", "time limit for the observations of a loader"),
    Option("dataguard-timeout", "timeout", "text", "SECONDS", "report a hang after this long without progress"),
    Option("dataguard-import-timeout", "import_timeout", "text", "SECONDS", "limit of importing torch or a target"),
    Option("dataguard-seed", "seed", "text", "N", "seed python, numpy and torch with N before the factory is called"),
    Option("dataguard-workers", "workers", "text", "N", "override the loader's num_workers"),
    Option("dataguard-start-method", "start_method", "text", "METHOD", "fork, spawn, forkserver, or all in turn"),
    Option("dataguard-ranks", "ranks", "text", "N", "start N DDP ranks, even if the loader is not rank-aware"),
    Option("dataguard-model", "model", "text", "PKG.MOD:ATTR", "try batches with this model: a module, or its factory"),
    Option("dataguard-loss", "loss", "text", "PKG.MOD:ATTR", "loss of the model, called with output and target"),
    Option("dataguard-step", "step", "text", "PKG.MOD:FUNCTION", "instead of a loss: step(model, batch) returns it"),
    Option("dataguard-fail-on", "fail_on", "text", "SEVERITY", "lowest severity that fails: error, warning or note"),
    Option("dataguard-fail-on-undecided", "fail_on_undecided", "flag", "", "fail if a check could not be decided"),
    Option("dataguard-role", "roles", "pairs", "NAME=ROLE", "role of the loader NAME: train, val, test or predict"),
    Option("dataguard-expect", "expect", "pairs", "CODE=REASON", "CODE or CODE[loader] is known to fail: xfail"),
    Option("dataguard-baseline", "baseline", "text", "FILE", "findings in FILE are known to fail: xfail"),
    Option("dataguard-config", "config", "text", "FILE", "read settings from FILE (dataguard.toml or pyproject.toml)"),
)  # fmt: skip


_FILES = ("config", "baseline")
"""Settings that are paths: relative to where pytest was called, in an ini file to the root directory."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register every option and its ini key."""
    group = parser.getgroup("dataguard", "data loader contracts")
    for option in OPTIONS:
        if option.kind == "flag":
            group.addoption(f"--{option.flag}", dest=option.key, action="store_true", default=None, help=option.help)
            parser.addini(option.key, f"as --{option.flag}", type="bool", default=None)
            continue
        many = option.kind != "text"
        action = "append" if many else "store"
        group.addoption(
            f"--{option.flag}", dest=option.key, action=action, default=None, metavar=option.metavar, help=option.help
        )
        ini_type: Literal["linelist", "string"] = "linelist" if many else "string"
        parser.addini(option.key, f"as --{option.flag}", type=ini_type, default=None)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks; if a target is given, resolve the settings and load the rest of dataguard."""
    config.addinivalue_line("markers", "dataguard: one contract of one data loader, added by --dataguard")
    config.addinivalue_line("markers", "dataguard_checks: made by dataguard.parametrize_with_checks")
    config.addinivalue_line("markers", "dataguard_target: made by dataguard.use_target")
    asked = config.getoption("dataguard")
    if not asked and not config.getini("dataguard"):
        return
    contracts = [arg for arg in config.args if _is_own(arg)]
    if not asked and not contracts and all("::" in arg for arg in config.args):
        return  # The command line selects single tests and only the ini file names a target: run just those tests.
    config.args[:] = [arg for arg in config.args if arg not in contracts]

    from dataguard.core.model import UsageError
    from dataguard.process.launcher import exported_zygote
    from dataguard.pytest_plugin.items import LoaderContracts
    from dataguard.render.escapes import printable

    try:
        plugin = LoaderContracts(config, read_settings(config), [arg.partition("::")[2] for arg in contracts])
    except UsageError as error:
        raise pytest.UsageError(printable(str(error))) from error
    config.pluginmanager.register(plugin, "dataguard-contracts")
    if config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput"):
        zygote = ExitStack()
        zygote.enter_context(exported_zygote())  # each worker of xdist asks for the loaders
        config.add_cleanup(zygote.close)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize the tests that `dataguard.parametrize_with_checks` marked."""
    mark = metafunc.definition.get_closest_marker("dataguard_checks")
    if mark is not None:
        from dataguard.pytest_plugin.fixtures import parametrize

        parametrize(metafunc, mark, toolbox_of(metafunc.config))


@pytest.fixture
def dataguard_lab(request: pytest.FixtureRequest) -> Laboratory:
    """The target: `dataguard_lab.judge("DG101", "train")` returns the result of a check on a loader."""
    return _made(lambda toolbox: toolbox.laboratory(request), request)


@pytest.fixture
def dataguard_report(request: pytest.FixtureRequest) -> Report:
    """The report of a scan, shared by all tests with the same target and settings."""
    return _made(lambda toolbox: toolbox.report(toolbox.settings_of(request)), request)


@pytest.fixture
def dataguard_loader(request: pytest.FixtureRequest) -> Loader:
    """A new loader of the target, built in the test process."""
    return _made(lambda toolbox: toolbox.loader(request), request)


@pytest.fixture
def dataguard_dataset(dataguard_loader: Loader) -> Any:
    """The dataset of `dataguard_loader`."""
    return dataguard_loader.dataset


def toolbox_of(config: pytest.Config) -> Toolbox:
    """The toolbox of this run, created on first use. Raises UsageError for wrong settings."""
    from dataguard.pytest_plugin.fixtures import Toolbox

    toolbox: Toolbox | None = config.pluginmanager.get_plugin("dataguard-toolbox")
    if toolbox is None:
        toolbox = Toolbox(read_settings(config))
        config.pluginmanager.register(toolbox, "dataguard-toolbox")
    return toolbox


def _made(make: Callable[[Toolbox], T], request: pytest.FixtureRequest) -> T:
    from dataguard.core.model import UsageError
    from dataguard.render.escapes import printable

    try:
        return make(toolbox_of(request.config))
    except UsageError as error:
        pytest.fail(printable(str(error)), pytrace=False)


def read_settings(config: pytest.Config) -> Settings:
    """Merge command line, ini keys and settings file, in this order of precedence, with the shared resolver.

    Raises dataguard's UsageError for an unknown name, a value of the wrong shape, or no target in the file.
    """
    from dataguard.core.model import UsageError
    from dataguard.settings.settings import resolve

    given = {option.setting: _value(config, option) for option in OPTIONS}
    file, targets = given.pop("config"), given.pop("targets") or []
    if CONFIGURED in targets:
        configured = resolve(file, start=config.rootpath).targets
        if not configured:
            raise UsageError(f"--dataguard={CONFIGURED}: neither dataguard.toml nor [tool.dataguard] sets `targets`")
        at = targets.index(CONFIGURED)
        targets[at : at + 1] = configured
    return resolve(file, start=config.rootpath, targets=targets or None, hypothesis=_hypothesis(config), **given)


def _hypothesis(config: pytest.Config) -> dict[str, Any] | None:
    """The seed and database of hypothesis' pytest plugin, if active, for the examples that checks draw."""
    if not config.pluginmanager.has_plugin("hypothesispytest"):
        return None
    seed = config.getoption("--hypothesis-seed")
    folder = Path(os.environ.get("HYPOTHESIS_STORAGE_DIRECTORY", ".hypothesis"), "examples").absolute()
    profile = getattr(sys.modules.get("hypothesis"), "settings", None)  # a conftest may have loaded one
    kept = profile is None or profile.default.database is not None
    return {**({"database": str(folder)} if kept else {}), **({} if seed is None else {"seed": seed})}


def _value(config: pytest.Config, option: Option) -> Any:
    typed = config.getoption(option.key)
    if option.kind == "flag":
        return config.getini(option.key) if typed is None else typed
    value = typed or config.getini(option.key) or None
    if value is None or option.kind == "text":
        folder = config.invocation_params.dir if typed else config.rootpath
        return str(Path(folder, value)) if value and option.setting in _FILES else value
    return list(value) if option.kind == "words" else dict(_pair(option, word) for word in value)


def _pair(option: Option, word: str) -> tuple[str, str]:
    from dataguard.core.model import UsageError

    key, equals, value = word.partition("=")
    if not equals:
        raise UsageError(f"--{option.flag}: expected {option.metavar}, got {word!r}")
    return key.strip(), value.strip()


def _is_own(arg: str) -> bool:
    """Whether a command line argument is the id of a dataguard test: `dataguard::DG101-cloned-worker-rng[train]`."""
    path, colons, _ = arg.partition("::")
    return bool(colons) and Path(path).name == "dataguard"
