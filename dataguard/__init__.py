"""A correctness test-kit for PyTorch DataLoaders: it runs your loader and shows, with evidence, where it is broken.

The public names are defined here. Importing them needs only the standard library; torch is imported with a loader.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # `typing` would be imported from the working folder by `python -m dataguard`, before its main
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Unpack

    from dataguard import training
    from dataguard.core.model import Finding, Severity, Status
    from dataguard.pytest_plugin.fixtures import parametrize_with_checks, use_target
    from dataguard.report import Report, SampleViews
    from dataguard.settings.options import Options
    from dataguard.settings.settings import Settings
    from dataguard.testing import strategies
    from dataguard.testing.batch_contract import Leaf, assert_contract
    from dataguard.training.guard import guard

__version__ = "0.1.0"
__all__ = [
    "Finding",
    "Leaf",
    "Report",
    "Settings",
    "Severity",
    "Status",
    "__version__",
    "assert_contract",
    "check",
    "guard",
    "parametrize_with_checks",
    "scan",
    "show",
    "strategies",
    "training",
    "use_target",
]

_HOMES = {
    "Finding": "dataguard.core.model",
    "Report": "dataguard.report",
    "Severity": "dataguard.core.model",
    "Status": "dataguard.core.model",
    "Settings": "dataguard.settings.settings",
    "Leaf": "dataguard.testing.batch_contract",
    "assert_contract": "dataguard.testing.batch_contract",
    "guard": "dataguard.training.guard",
    "parametrize_with_checks": "dataguard.pytest_plugin.fixtures",
    "use_target": "dataguard.pytest_plugin.fixtures",
}
_MODULES = {"strategies": "dataguard.testing.strategies", "training": "dataguard.training"}


def scan(*targets: Any, **options: Unpack[Options]) -> Report:
    """Run the selected checks on every loader of `targets` and return the report.

    Each target is a string, `[name=]pkg.mod:attr`, or an object in hand: a DataLoader, a Dataset, a dict of them, or a
    function that returns them. Strings are imported in a new process. Objects are observed in forks of this process, as
    they are now; this process does not read from them. Without a target, those of the settings file are scanned.
    `config` names that file, and `options` are fields of `Settings`: `scan("mypkg.data:make", workers=2)`. With loaders
    in hand, `model`, `loss` and `step` may be objects too.
    Raises UsageError for a target that cannot be loaded and for an unknown option.
    """
    from dataguard.core.model import UsageError
    from dataguard.engine import scan as run
    from dataguard.observer.entry import observe_here
    from dataguard.settings.settings import resolve
    from dataguard.settings.target_spelling import held, is_held

    given: dict[str, Any] = {**options}
    config = given.pop("config", None)
    functions = {name: given.pop(name) for name in ("model", "loss", "step") if given.get(name) is not None}
    with held(targets) as spellings, held([*functions.values()], [*functions]) as named:
        given |= zip(functions, named, strict=True)
        settings = resolve(config, targets=spellings or None, **given)
        if any(map(is_held, named)) and not all(map(is_held, settings.targets)):
            raise UsageError("a model, loss or step in hand needs a loader in hand: give its name, 'pkg.mod:attr'")
        if not settings.targets:
            raise UsageError('nothing to scan: name a target, such as scan("mypkg.data:make_loader")')
        return run(settings.targets, settings, here=observe_here)


def check(loader: Any, **options: Unpack[Options]) -> Report:
    """Scan one target; in a test: `assert not dataguard.check(loader).failed`. See `scan`."""
    return scan(loader, **options)


def show(target: Any, *indices: Any, loader: str | None = None, batch: bool = False, repeat: int = 1) -> SampleViews:
    """Read the samples of a target at these indices (default: 0) in another process, and return what they hold.

    `print(show(loader, 20))` prints shapes, dtypes and ranges; a notebook shows pictures as well. `target` is as for
    `scan`, and `loader` names one of its loaders. With `batch` the samples are collated; each is read `repeat` times.
    Raises UsageError for a target that cannot be loaded; what reading a sample raises is shown.
    """
    from dataguard.core.figures import Wanted
    from dataguard.engine import show as run
    from dataguard.observer.entry import observe_here
    from dataguard.settings.settings import resolve
    from dataguard.settings.target_spelling import held

    with held((target,)) as (spelling,):
        settings = resolve(targets=(spelling,))
        return run(settings.targets[0], Wanted(indices or (0,), batch, repeat), settings, loader, observe_here)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(_MODULES[name])
    raise AttributeError(f"module 'dataguard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
