"""From a target string such as `pkg.mod:make_loaders` to named loaders and new variants of them.

A variant is built the way the user builds it: the factory is called again, while arguments of `DataLoader.__init__` are
overridden. This way subclasses and helper functions keep working.
"""

from __future__ import annotations

import importlib
import inspect
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch.utils.data import DataLoader

from dataguard.core.incident import OWN, Frame, is_library
from dataguard.core.model import UsageError
from dataguard.settings.target_spelling import parsed, script_of, spelled_role, suggest
from dataguard.targets.discovery import (
    is_loader,
    is_own_loader,
    is_product,
    parts_of,
    streams_of,
    unguarded,
    wrapped_like,
)
from dataguard.targets.script import Script, script
from dataguard.targets.spelling import arguments_of, no_module, parameters_of
from dataguard.targets.variants import Construction, Loader, overridden

_KINDS = "a DataLoader, a Dataset, a dict, tuple or dataclass of them, a LightningDataModule, or an iterable of batches"


@dataclass(frozen=True, slots=True)
class Target:
    """Something in the user's code that provides loaders: a factory, a loader, a dataset or a collection of them.

    `args` are passed to the factory; `branch` means that it is one of a mapping of factories, so its name is a prefix
    of its loaders' names.
    """

    name: str
    spelling: str
    source: Any
    branch: bool = False
    args: Mapping[str, Any] = field(default_factory=dict)

    def branches(self) -> tuple[Target, ...]:
        """The factories of a mapping as separate targets, called independently; any other target is its only branch."""
        source = self.source
        if not self.branch and isinstance(source, Mapping) and source and all(map(_is_factory, source.values())):
            return tuple(Target(str(key), self.spelling, made, True, self.args) for key, made in source.items())
        return (self,)

    def build_all(self, given: Mapping[str, Any] | None = None, **overrides: Any) -> dict[str, Loader]:
        """Build a new instance of every loader, by name.

        `given` has values for factory parameters (see `arguments.FACTORY_PARAMETERS`). `overrides` replace arguments of
        `DataLoader.__init__`; the extra key `schedule` is a function that takes the loader's index sampler and whether
        it is the `batch_sampler`, and returns the sampler to use instead.
        Raises UsageError when the source needs unknown arguments or returns no loader; exceptions of the user's code
        pass through.
        """
        if self.branches() != (self,):
            whole = [branch.build_all(given, **overrides) for branch in self.branches()]
            return {name: loader for loaders in whole for name, loader in loaders.items()}
        return self.construct(given, **overrides)[0]

    def construct(
        self, given: Mapping[str, Any] | None = None, **overrides: Any
    ) -> tuple[dict[str, Loader], Construction]:
        """Like `build_all`, for a target of one branch; with what makes further variants of these loaders."""
        with overridden(overrides) as construction:
            product, again = _produce(self, {**(given or {}), **_given_by_overrides(overrides)})
            parts = _parts(self, product, again)
            loaders = {name: _loader_of(part) for name, part in parts.items()}
        if isinstance(product, Mapping):
            construction.absent.extend(str(key) for key in product if product[key] is None and spelled_role(str(key)))
        variants = {id(loader): wrapped_like(loader, construction.variant(loader)) for loader in loaders.values()}
        return {name: variants[id(loader)] for name, loader in loaders.items()}, construction

    def build(self, loader: str | None = None, given: Mapping[str, Any] | None = None, **overrides: Any) -> Loader:
        """Build a new instance of the loader with that name (default: the first); see `build_all`."""
        branches = [branch for branch in self.branches() if loader is None or branch.may_hold(loader)]
        loaders = (branches[0] if branches else self).build_all(given, **overrides)
        if loader is not None and loader not in loaders:
            raise UsageError(f"{self.spelling} has no loader {loader!r}{suggest(loader, loaders)}")
        return loaders[next(iter(loaders)) if loader is None else loader]

    def may_hold(self, loader: str) -> bool:
        """Whether a loader of that name can belong to this target."""
        return not self.branch or loader == self.name or loader.startswith(f"{self.name}.")

    @property
    def runs_once(self) -> bool:
        """Whether the source is a script, which may run for long, and log or save what it does."""
        return isinstance(self.source, Script)

    @property
    def is_made_once(self) -> bool:
        """Whether its loaders are not made again unasked: those of a script, or objects."""
        return self.runs_once or self.is_object

    @property
    def is_object(self) -> bool:
        """Whether its loaders cannot be made again, for another rank: they are objects."""
        return not callable(self.source) or is_product(self.source)

    @property
    def stage(self) -> str:
        """What makes its loaders, as the stage of an incident: `script` or `factory`."""
        return "script" if self.runs_once else "factory"

    def takes(self, *names: str) -> bool:
        """Whether the source is a function that has a parameter with one of these names."""
        return not self.is_made_once and any(parameter.name in names for parameter in parameters_of(self.source))


def load(spelling: str) -> Target:
    """Import the target `[name=]pkg.mod:attr`, or `pkg.mod:attr(name=value)` with JSON values.

    Raises UsageError, with a suggestion, for a malformed target, a module that is missing or fails to import, and a
    missing attribute.
    """
    named = parsed(spelling)
    if script_of(spelling):
        return Target(named.name, spelling, script(spelling))
    source = _imported(named.module, spelling)
    for step in named.attribute.split("."):
        source = _attribute(source, step, spelling)
    return Target(named.name, spelling, source, args=named.args)


def _imported(name: str, spelling: str) -> Any:
    try:
        return importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    # Report whatever the import of the user's module raises: SystemExit of a script, pytest's Skipped.
    except BaseException as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{name}.".startswith(f"{missing}."):
            raise no_module(missing, spelling) from error
        guard = " (put script code under if __name__ == '__main__':)" if isinstance(error, SystemExit) else ""
        raise UsageError(f"{spelling}: importing {name} raised {_error_summary(error)}{guard}") from error


def _attribute(owner: Any, step: str, spelling: str) -> Any:
    name = getattr(owner, "__name__", type(owner).__name__)
    try:
        return getattr(owner, step)
    except AttributeError:
        held = getattr(owner, "__dict__", {})
        names = [attribute for attribute in dir(owner) if not attribute.startswith("_")]
        public = [attribute for attribute in names if not isinstance(held.get(attribute), ModuleType)]
        hint = suggest(step, public, _candidates(owner))
        raise UsageError(f"{spelling}: {name} has no attribute {step!r}{hint}") from None
    # A property or a module's own __getattr__ can raise anything.
    except Exception as error:
        raise UsageError(f"{spelling}: reading {step!r} of {name} raised {_error_summary(error)}") from error


def _candidates(owner: Any) -> str:
    """The names a module defines that could be targets."""
    defined = [name for name, value in vars(owner).items() if _is_candidate(owner, name, value)]
    return f"; it has {', '.join(defined[:5])}{', ...' if defined[5:] else ''}" if defined else ""


def _is_factory(value: Any) -> bool:
    return callable(value) and not isinstance(value, type) and not is_product(value)


def _is_candidate(owner: Any, name: str, value: Any) -> bool:
    is_users = callable(value) and getattr(value, "__module__", None) == getattr(owner, "__name__", "")
    return not name.startswith("_") and (is_users or is_product(value))


def _error_summary(error: BaseException) -> str:
    """The error on one line, with the place in the user's code where it was raised."""
    lines = str(error).strip().splitlines()
    message = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    frames = [frame for frame in frames_of(error) if "importlib" not in frame.file]
    users_frames = [frame for frame in frames if not is_library(frame.file)] or frames
    placed = not users_frames or isinstance(error, SyntaxError)
    return message if placed else f"{message} at {users_frames[-1].file}:{users_frames[-1].line}"


def frames_of(error: BaseException) -> tuple[Frame, ...]:
    """The traceback of an exception as plain data, outermost frame first, without dataguard's own frames."""
    return tuple(
        Frame(entry.filename, entry.lineno or 0, entry.name, entry.line or "")
        for entry in traceback.extract_tb(error.__traceback__)
        if not entry.filename.startswith(OWN)
    )


def _given_by_overrides(overrides: Mapping[str, Any]) -> dict[str, Any]:
    return {"num_workers": overrides["num_workers"]} if "num_workers" in overrides else {}


def _produce(target: Target, given: Mapping[str, Any]) -> tuple[Any, Callable[[], Any] | None]:
    """Call the factory, and return what calls it again; or the source itself and None if it is not a factory."""
    source = target.source
    if is_product(source) or not callable(source) or isinstance(source, torch.nn.Module):
        if target.args:
            raise UsageError(f"{target.spelling}: {_described(source)} takes no arguments; only a factory does")
        return source, None
    again = partial(source, **arguments_of(source, target.spelling, target.args, given))
    product = again()
    if inspect.iscoroutine(product):
        product.close()
        raise UsageError(f"{target.spelling} is a coroutine function; name a plain function that returns a DataLoader")
    return product, again


def _parts(target: Target, product: Any, again: Callable[[], Any] | None) -> dict[str, Any]:
    """Every loader, or else every dataset, or else every stream of batches that the target returned, by name."""
    named = parts_of(product) or list(streams_of(product, again).items())
    if not named:
        if product is None and target.source is None:
            raise UsageError(f"{target.spelling} is None once its module is imported: name a function that returns it")
        verb = "is" if product is target.source else "returned"
        raise UsageError(f"{target.spelling} {verb} {_described(product)}, not {_KINDS}")
    before = f"{target.name}." if target.branch else ""
    parts = {f"{before}{name}" if name else target.name: unguarded(part) for name, part in named}
    if isinstance(product, Mapping):
        _require_loaders(target, product, again)
    if len(parts) < len(named):
        names = [name for name, _ in named]
        double = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"{target.spelling} has two loaders named {double!r}; name them differently")
    return parts


def _require_loaders(target: Target, product: Mapping[Any, Any], again: Callable[[], Any] | None) -> None:
    """Raise UsageError for an entry whose key is the role of a loader, and whose value holds none."""
    for key, value in product.items():
        name = str(key)
        expected = value is None or is_product(value) or not spelled_role(name)  # a data module would be set up again
        if not expected and not parts_of(value) and not streams_of({key: value}, again):
            raise UsageError(f"{target.spelling}: {name!r} is {_described(value)}, not {_KINDS}")


def _described(product: Any) -> str:
    """What was returned instead of a loader, with the likely mistake."""
    kind = type(product).__name__
    if product is None:
        return "None (is a return missing?)"
    if isinstance(product, type):
        return f"the class {product.__name__} (is a call missing?)"
    if inspect.isroutine(product):
        return f"the function {product.__name__} (is a call missing?)"
    if inspect.isgenerator(product):
        return "a generator, which can be iterated once (pass a function that makes it)"
    if callable(getattr(product, "train_dataloader", None)):
        return f"a {kind} that overrides no *_dataloader hook"
    if isinstance(product, Mapping | list | tuple):
        return f"a {kind} of {_first_type(product)}" if product else f"an empty {kind}"
    return f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"


def _first_type(collection: Any) -> str:
    """The type of the first item, with its module: a DataLoader of another library is none of torch's."""
    kind = type(next(iter(collection.values() if isinstance(collection, Mapping) else collection)))
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _loader_of(part: Any) -> Loader:
    """The loader itself; the batches of one that is not torch's; or a loader for a dataset."""
    if is_own_loader(part):
        return streams_of(part, None)[""]
    return part if is_loader(part) else _loader_of_dataset(part)


def _loader_of_dataset(dataset: Any) -> Loader:
    """A loader for a bare dataset that reads one sample at a time, without batching."""
    return DataLoader(dataset, batch_size=None, num_workers=2, shuffle=False, collate_fn=_identity)


def made_for_dataset(loader: Loader) -> bool:
    """Whether dataguard made this loader for a bare dataset."""
    return loader.collate_fn is _identity


def _identity(sample: Any) -> Any:
    return sample
