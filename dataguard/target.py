"""From a spelling such as `pkg.mod:make_loaders` to named loaders, and to fresh variants of each.

A variant is built the way the user builds: the factory is called again, with arguments of `DataLoader.__init__`
replaced while it constructs. Subclasses and helper functions stay themselves that way.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import inspect
import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch.utils.data import DataLoader, Dataset

from dataguard.model import Frame, UsageError
from dataguard.variants import Loader, copied, overridden

FACTORY_PARAMETERS = ("rank", "world_size", "seed", "epoch", "num_workers", "root")
"""Parameters of a factory that are given by name when its signature has them."""

_STAGES = ("train", "val", "test", "predict")
_SPELLING = re.compile(r"(?:(?P<name>[\w.-]+)=)?(?P<module>[\w.]+):(?P<attribute>[\w.]+)")


@dataclass(frozen=True, slots=True)
class Target:
    """Something in the user's code that yields loaders: a factory, a loader, a dataset or a collection of them."""

    name: str
    spelling: str
    source: Any

    def build_all(self, given: Mapping[str, Any] | None = None, **overrides: Any) -> dict[str, Loader]:
        """Build every loader afresh, by name.

        `given` holds values for factory parameters (see `FACTORY_PARAMETERS`). `overrides` replace arguments of
        `DataLoader.__init__`; the extra key `schedule` is a function from the loader's index sampler, and whether that
        yields batches (it is the `batch_sampler`, not the `sampler`), to the one to use instead.
        Raises UsageError when the source needs unknown arguments or yields no loader; what the user's own
        code raises passes through.
        """
        with overridden(overrides) as seen:
            parts = _parts(self, _produce(self, {**(given or {}), **_also_given(overrides)}))
            loaders = {
                name: part if isinstance(part, DataLoader) else _loader_of_dataset(part) for name, part in parts.items()
            }
            return {
                name: loader if any(loader is one for one in seen) else copied(loader, overrides)
                for name, loader in loaders.items()
            }

    def build(self, loader: str | None = None, given: Mapping[str, Any] | None = None, **overrides: Any) -> Loader:
        """Build the loader of that name (default: the first) afresh; see `build_all`."""
        loaders = self.build_all(given, **overrides)
        return loaders[next(iter(loaders)) if loader is None else loader]


def load(spelling: str) -> Target:
    """Import what `[name=]pkg.mod:attr` spells.

    Raises UsageError, with the way out, for a malformed spelling, a module that is missing or does not import, and
    a missing attribute.
    """
    match = _SPELLING.fullmatch(spelling)
    if not match:
        raise UsageError(f"{spelling!r} is not a target{_repaired(spelling)}; write pkg.mod:factory")
    module = _imported(match["module"], spelling)
    source: Any = module
    for step in match["attribute"].split("."):
        if not hasattr(source, step):
            owner = getattr(source, "__name__", type(source).__name__)
            raise UsageError(f"{spelling}: {owner} has no attribute {step!r}{_close(step, dir(source))}")
        source = getattr(source, step)
    return Target(match["name"] or match["attribute"].rpartition(".")[2], spelling, source)


def _repaired(spelling: str) -> str:
    path, _, attribute = spelling.rpartition(":")
    if path.endswith(".py"):
        module = path[:-3].strip("./").replace("/", ".").replace("\\", ".")
        return f" (did you mean {module}:{attribute}?)"
    if ":" not in spelling and "." in spelling:
        return f" (did you mean {':'.join(spelling.rsplit('.', 1))}?)"
    return ""


def _imported(name: str, spelling: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            missing = f"no module named {error.name!r}"
            raise UsageError(
                f"{spelling}: {missing}; it is looked for in the current directory and the installed packages"
            ) from error
        raise UsageError(f"{spelling}: {_blame(error)}") from error
    # Whatever importing the user's module raises, SystemExit of an unguarded script included, is the user's to see.
    except (Exception, SystemExit) as error:
        raise UsageError(f"{spelling}: importing {name} raised {_blame(error)}") from error


def _blame(error: BaseException) -> str:
    frames = [frame for frame in frames_of(error) if "importlib" not in frame.file and frame.file != __file__]
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error}"
    place = f" at {frames[-1].file}:{frames[-1].line}" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


def frames_of(error: BaseException) -> tuple[Frame, ...]:
    """The stack on which an exception was raised, outermost frame first, as plain data."""
    return tuple(
        Frame(entry.filename, entry.lineno or 0, entry.name, entry.line or "")
        for entry in traceback.extract_tb(error.__traceback__)
    )


def _close(word: str, known: list[str]) -> str:
    public = [name for name in known if not name.startswith("_")]
    close = difflib.get_close_matches(word, public, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def _also_given(overrides: Mapping[str, Any]) -> dict[str, Any]:
    return {"num_workers": overrides["num_workers"]} if "num_workers" in overrides else {}


def _produce(target: Target, given: Mapping[str, Any]) -> Any:
    """Call the factory, or take what is there when the target is no factory."""
    source = target.source
    if _is_part(source) or _is_data_module(source) or not callable(source) or _is_wrapper(source):
        return source
    if inspect.iscoroutinefunction(source):
        raise UsageError(f"{target.spelling} is a coroutine function; name a plain function that returns a DataLoader")
    return source(**_arguments(target, given))


def _arguments(target: Target, given: Mapping[str, Any]) -> dict[str, Any]:
    try:
        parameters = inspect.signature(target.source).parameters.values()
    except (TypeError, ValueError):  # built-in callables have no signature; they are called without arguments
        return {}
    values = {"rank": 0, "world_size": 1, "epoch": 0, **given}
    arguments = {}
    for parameter in parameters:
        named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        required = parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
        if named and parameter.name in FACTORY_PARAMETERS and parameter.name in values:
            arguments[parameter.name] = values[parameter.name]
        elif named and required and parameter.name == "num_workers":
            arguments[parameter.name] = 2
        elif required and parameter.kind is not parameter.VAR_POSITIONAL:
            raise UsageError(
                f"{target.spelling} needs an argument {parameter.name!r}; write a function without arguments that "
                f"calls it, and name that one (given by name when accepted: {', '.join(FACTORY_PARAMETERS[:-1])})"
            )
    return arguments


def _is_part(value: Any) -> bool:
    return isinstance(value, DataLoader) or (isinstance(value, Dataset) and not isinstance(value, type))


def _is_map_dataset(value: Any) -> bool:
    """Any object with integer length and indexing can stand behind a DataLoader, `torch.utils.data.Dataset` or not."""
    plain = isinstance(value, type | str | bytes | Mapping | list | tuple)
    return not plain and hasattr(type(value), "__getitem__") and hasattr(type(value), "__len__")


def _is_data_module(value: Any) -> bool:
    return not isinstance(value, type) and callable(getattr(value, "train_dataloader", None))


def _is_wrapper(value: Any) -> bool:
    return not isinstance(value, type) and hasattr(type(value), "__iter__") and bool(_inner_loaders(value))


def _inner_loaders(value: Any) -> list[Loader]:
    """The DataLoaders that a loader-like object holds in its attributes, one level of lists deep."""
    held = list(getattr(value, "__dict__", {}).values())
    held += [item for one in held if isinstance(one, list | tuple) for item in one]
    return [one for one in held if isinstance(one, DataLoader)]


def _parts(target: Target, product: Any) -> dict[str, Any]:
    """Every loader (or, without any loader, every dataset) in what the target produced, by name."""
    found = dict(_walk(product, ""))
    if any(isinstance(part, DataLoader) for part in found.values()):
        found = {name: part for name, part in found.items() if isinstance(part, DataLoader)}
    if not found:
        hint = "; it is a class: name a factory" if isinstance(product, type) else ""
        what = f"is a {type(product).__name__}" if product is target.source else f"returned {_described(product)}"
        raise UsageError(
            f"{target.spelling} {what}, not a DataLoader, a Dataset, a dict, tuple or dataclass of them, "
            f"or a LightningDataModule{hint}"
        )
    return {name or target.name: part for name, part in found.items()}


def _described(product: Any) -> str:
    return "None (is a return missing?)" if product is None else f"a {type(product).__name__}"


def _walk(product: Any, name: str) -> Iterator[tuple[str, Any]]:
    def below(step: Any) -> str:
        return f"{name}.{step}" if name else str(step)

    if _is_part(product):
        yield name, product
    elif _is_data_module(product):
        for stage, loaders in _data_module_loaders(product):
            yield from _walk(loaders, below(stage))
    elif isinstance(product, Mapping):
        for key, value in product.items():
            yield from _walk(value, below(key))
    elif isinstance(product, tuple) and hasattr(product, "_fields"):
        for field in product._fields:
            yield from _walk(getattr(product, field), below(field))
    elif isinstance(product, list | tuple):
        loaders = [item for item in product if _is_part(item)]
        for position, value in enumerate(product):
            yield from _walk(value, name if len(loaders) == 1 else below(position))
    elif dataclasses.is_dataclass(product) and not isinstance(product, type):
        for item in dataclasses.fields(product):
            yield from _walk(getattr(product, item.name), below(item.name))
    elif _is_wrapper(product):
        inner = _inner_loaders(product)
        for position, loader in enumerate(inner):
            yield (name if len(inner) == 1 else below(position)), loader
    elif _is_map_dataset(product):
        yield name, product


def _data_module_loaders(module: Any) -> Iterator[tuple[str, Any]]:
    """Prepare a LightningDataModule as its Trainer would, and yield what its own `*_dataloader` hooks return."""
    hooks = {stage: getattr(module, f"{stage}_dataloader", None) for stage in _STAGES}
    own = {stage: hook for stage, hook in hooks.items() if callable(hook) and not _inherited_from_lightning(hook)}
    for prepare, stages in (("prepare_data", ((),)), ("setup", (("fit",), ("test",), ("predict",)))):
        for arguments in stages:
            wanted = not arguments or arguments[0] == "fit" or arguments[0] in own
            if wanted and callable(getattr(module, prepare, None)):
                getattr(module, prepare)(*arguments)
    for stage, hook in own.items():
        yield stage, hook()


def _inherited_from_lightning(hook: Callable[..., Any]) -> bool:
    return (getattr(hook, "__module__", "") or "").partition(".")[0] in ("lightning", "pytorch_lightning")


def _loader_of_dataset(dataset: Any) -> Loader:
    """A loader that reads a bare dataset as it is, one sample at a time: no batching that the user did not ask for."""
    return DataLoader(dataset, batch_size=None, num_workers=2, shuffle=False, collate_fn=_as_it_is)


def _as_it_is(sample: Any) -> Any:
    return sample
