"""Find the loaders in what a factory returns, and name them.

A factory may return a loader, dicts, tuples and dataclasses of loaders, a LightningDataModule, a wrapper that holds a
loader and is iterated in its place, or a generator that passes the batches of a loader on (`parts_of`). A pair or
triple is train, val and test. Without any loader, datasets are used, and without any of these, an iterable of batches
or a function that returns one at a time is a stream (`streams_of`), and so is each that a dict holds.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from functools import partial
from inspect import Parameter, getattr_static, isfunction, isgenerator, signature
from types import CodeType, GeneratorType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler

from dataguard.settings.target_spelling import spelled_role
from dataguard.targets.variants import Loader, replaced

_STAGES = ("train", "val", "test", "predict")
_CONTAINERS = frozenset({"builtins", "collections", "array", "numpy", "pandas", "torch"})
"""Packages whose types with `__len__` and `__getitem__` are containers of data, not datasets."""

_OFFERS_LOADER = re.compile(r"(?:get_|make_|build_|create_)?([a-z]+_(?:data_?)?loader)")
"""Names of properties and methods that return a loader, if the word is a role."""
_LONGEST_STEP = 200
"""A step of more characters is shortened: reports repeat the names of loaders."""
_MOST_ENTRIES = 1000
"""A list or dict with more entries contains samples or labels, not loaders."""


class _Attribute(str):
    """A step of a path that the name omits unless it is needed to be unique."""

    __slots__ = ()


_WRAPPER = "_dataguard_wrapper"
"""The attribute of a loader found inside a wrapper that is iterated in its place: the wrapper."""
_ITERATED = "_dataguard_iterated"
"""The attribute of a loader that is read as training reads it: what is iterated in its place."""

GUARDED = "_dataguard_base"
"""The attribute of a guarded loader's class that is the loader's own class."""

Path = tuple[Any, ...]
"""The steps from a product to one of its loaders: an int for a position, an `_Attribute`, or a key as text."""


def is_loader(value: Any) -> bool:
    """Whether it is a DataLoader by type; accelerate's loaders only pretend to be one in `isinstance`."""
    return issubclass(type(value), DataLoader)


def holder_of(loader: Any) -> Any:
    """The wrapper that is iterated in place of this loader, and perhaps of others; None without a wrapper."""
    return vars(loader).get(_WRAPPER)


def wrapper_of(loader: Any) -> str | None:
    """The class name of that wrapper; None without one."""
    wrapper = holder_of(loader)
    return type(wrapper).__name__ if wrapper is not None else None


def through_wrapper(loader: Any) -> Any:
    """The loader, from now on read through its wrapper, as training does, if that holds this loader and no other."""
    wrapper = vars(loader).get(_WRAPPER)
    if wrapper is not None and [inside for _, inside in _loaders_in(wrapper)] == [loader]:
        vars(loader)[_ITERATED] = wrapper
    return loader


def iterated(loader: Any) -> Any:
    """What to iterate to read a loader: itself, or its wrapper, see `through_wrapper`."""
    return vars(loader).get(_ITERATED, loader)


def held_by_training(loader: Any) -> Any:
    """What training holds and iterates: the loader, its wrapper, or the iterable whose batches it yields."""
    stream = getattr(loader, "dataset", None)
    if isinstance(stream, BatchStream) and stream.source is not None:
        return stream.source
    return getattr(loader, "__dict__", {}).get(_ITERATED, loader)


def wrapped_like(loader: Any, variant: Any) -> Any:
    """The variant of a loader, recorded with the same wrapper as the loader, which holds the variant from now on."""
    if _WRAPPER in vars(loader):
        wrapper = vars(variant)[_WRAPPER] = vars(loader)[_WRAPPER]
        vars(wrapper).update({name: variant for name, value in vars(wrapper).items() if value is loader})
    return variant


def unguarded(loader: Any) -> Any:
    """The same loader without a guard, which watches a training and not a scan."""
    original = getattr(type(loader), GUARDED, None)
    if original is not None:
        loader.__class__ = original
    return loader


def is_product(value: Any) -> bool:
    """Whether it is or contains loaders or datasets itself, even if it is callable."""
    if isinstance(value, type):
        return False
    return is_loader(value) or isinstance(value, Dataset) or bool(_hooks(value)) or is_wrapper(value)


def parts_of(product: Any) -> list[tuple[str, Any]]:
    """Every loader (or, without any loader, every dataset) in a product by name; a single one has an empty name.

    A loader may be of a class of the project: see `is_own_loader`.
    """
    parts = list(_walk(product, ()))
    parts = [(path, part) for path, part in parts if is_loader(part) or is_own_loader(part)] or parts
    paths = [path for path, _ in parts]
    if type(product) is tuple:
        paths = _with_splits(paths)
        parts = [(path, part) for path, (_, part) in zip(paths, parts, strict=True)]
    return [(_name(path, paths), part) for path, part in parts]


def _with_splits(paths: list[Path]) -> list[Path]:
    """The paths in a tuple of two or three loaders: train, val and test, in this order, unless names say otherwise."""
    places = sorted({path[0] for path in paths})
    named = any(spelled_role(step) for path in paths for step in path if isinstance(step, str))
    if named or len(places) not in (2, 3):
        return paths
    return [(_STAGES[places.index(path[0])], *path[1:]) for path in paths]


def _name(path: Path, paths: list[Path]) -> str:
    """The steps that are keys, or that distinguish this path from another one."""

    def distinguishes(depth: int) -> bool:
        beside = {other[depth] for other in paths if len(other) > depth and other[:depth] == path[:depth]}
        return len(beside) > 1 or not isinstance(path[depth], int | _Attribute)

    return ".".join(_short(str(step)) for depth, step in enumerate(path) if distinguishes(depth))


def _short(step: str) -> str:
    """The step itself, or the begin of a long one with a hash that keeps it unique."""
    if len(step) <= _LONGEST_STEP:
        return step
    digest = hashlib.blake2b(step.encode(errors="surrogatepass"), digest_size=4).hexdigest()
    return f"{step[: _LONGEST_STEP - 12]}... {digest}"


def _walk(product: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if is_loader(product):
        yield path, product
    elif is_wrapper(product):
        for steps, loader in _loaders_in(product):
            vars(loader)[_WRAPPER] = product
            yield path + steps, loader
    elif isinstance(product, Dataset):
        yield path, product
    elif hooks := _hooks(product):
        for stage, loaders in _called(product, hooks):
            yield from _walk(loaders, (*path, stage))
    elif (entries := _entries(product)) is not None:
        for step, value in entries:
            yield from _walk(value, (*path, step))
    elif isgenerator(product):
        loader = _passed_on_by(product)
        yield from [] if loader is None else [(path, loader)]
    elif _is_map_dataset(product) or is_own_loader(product):
        yield path, product
    else:
        found = list(_attributes_of(product)) or (() if path else _offered_by(product))
        yield from (((*path, *steps), loader) for steps, loader in found)


def _attributes_of(holder: Any) -> Iterator[tuple[Path, Any]]:
    """The loaders in the attributes of a plain object, which are named like the keys of a dict."""
    yield from (((str(steps[0]), *steps[1:]), loader) for steps, loader in _loaders_in(holder))
    for name, value in getattr(holder, "__dict__", {}).items():
        inside = [((name, step), item) for step, item in _items(value)] if _is_collection(value) else [((name,), value)]
        yield from ((steps, item) for steps, item in inside if is_own_loader(item))


def _offered_by(holder: Any) -> Iterator[tuple[Path, Any]]:
    """What properties, and methods without arguments, return whose names are those of loaders: `get_train_loader`."""
    hooks = {f"{stage}_dataloader" for stage in _STAGES}  # those that a class inherits raise
    names = [name for name in dir(type(holder)) if name not in hooks]
    matches = [match for match in map(_OFFERS_LOADER.fullmatch, names) if match and spelled_role(match[1])]
    for match in sorted(matches, key=lambda one: _STAGES.index(spelled_role(one[1]) or "")):
        if isinstance(getattr_static(type(holder), match[0]), property):
            yield from _walk(getattr(holder, match[0]), (match[1],))
        elif callable(make := getattr(holder, match[0])) and _needs_nothing(make):
            yield from _walk(make(), (match[1],))


def _needs_nothing(function: Callable[..., Any]) -> bool:
    """Whether it can be called without arguments."""
    omitted = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return all(one.default is not one.empty or one.kind in omitted for one in signature(function).parameters.values())


def _entries(product: Any) -> list[tuple[Any, Any]] | None:
    """The entries of a collection, by step; None if it is not a collection."""
    if isinstance(product, tuple) and hasattr(product, "_fields"):
        return list(zip(product._fields, product, strict=True))
    if _is_collection(product):
        return list(_items(product))
    if dataclasses.is_dataclass(product) and not isinstance(product, type):
        return [(item.name, getattr(product, item.name)) for item in dataclasses.fields(product)]
    return None


def _is_collection(value: Any) -> bool:
    return isinstance(value, Mapping | list | tuple)


def _items(collection: Any) -> Iterator[tuple[Any, Any]]:
    if len(collection) > _MOST_ENTRIES:
        return
    if isinstance(collection, Mapping):
        for key, value in collection.items():
            yield (key.name.lower() if isinstance(key, Enum) else str(key)), value
    else:
        yield from enumerate(collection)


def _is_map_dataset(value: Any) -> bool:
    """Whether a DataLoader accepts it as a dataset: anything with `__len__` and `__getitem__`, but no text."""
    kind = type(value)
    is_instance = not isinstance(value, type | str | bytes) and not is_container(value)
    return is_instance and hasattr(kind, "__getitem__") and hasattr(kind, "__len__") and not _gathers_loaders(value)


def is_own_loader(value: Any) -> bool:
    """Whether it is a loader of a class that does not derive from torch's: it iterates over a `dataset` that it holds.

    So does a sampler, which yields indices; an iterator is used up by the first epoch.
    """
    if isinstance(value, type | Dataset | Sampler | Iterator | torch.nn.Module) or is_loader(value):
        return False
    if not hasattr(type(value), "__iter__") or is_container(value) or _is_map_dataset(value):
        return False
    return isinstance(dataset := getattr(value, "__dict__", {}).get("dataset"), Dataset) or _is_map_dataset(dataset)


def is_container(value: Any) -> bool:
    """Whether its type is that of a package whose types contain data."""
    return type(value).__module__.partition(".")[0] in _CONTAINERS


def _gathers_loaders(value: Any) -> bool:
    """Whether its items are loaders that are not torch's, like fastai's DataLoaders."""
    collections = (held for held in getattr(value, "__dict__", {}).values() if isinstance(held, list | tuple))
    items = (item for held in collections for item in held[:_MOST_ENTRIES])
    return any(hasattr(type(item), "__iter__") and "dataset" in getattr(item, "__dict__", {}) for item in items)


def is_wrapper(value: Any) -> bool:
    """Whether it wraps a loader and is iterated in its place: timm's PrefetchLoader, webdataset's WebLoader."""
    if isinstance(value, Dataset) and not isinstance(value, IterableDataset):
        return False
    iterated = not isinstance(value, type) and hasattr(type(value), "__iter__") and _entries(value) is None
    return iterated and any(True for _ in _loaders_in(value))


def _loaders_in(holder: Any, depth: int = 3) -> Iterator[tuple[Path, Any]]:
    """Each loader in an object's attributes once: directly, in a list or dict, or inside another wrapper."""
    seen: set[int] = set()
    for name, value in getattr(holder, "__dict__", {}).items():
        inside = [((), value)] if _entries(value) is None else [((key,), item) for key, item in _entries(value) or ()]
        for steps, item in inside:
            loaders = [((), item)] if is_loader(item) else []
            if not loaders and depth and not steps and hasattr(type(item), "__iter__"):
                loaders = list(_loaders_in(item, depth - 1))
            for further, loader in loaders:
                if id(loader) not in seen:
                    seen.add(id(loader))
                    yield (_Attribute(name), *steps, *further), loader


_PASSED_ON: WeakKeyDictionary[GeneratorType[Any, Any, Any], Loader] = WeakKeyDictionary()
"""What `_passed_on_by` has found: it starts the generator, which can be done once."""
_MAKE_BATCHES: set[CodeType] = set()
"""Generators that pass no loader's batches on: they are not started again, as they may take long."""


def _passed_on_by(generator: GeneratorType[Any, Any, Any]) -> Loader | None:
    """The loader whose batches a generator yields as they are, as `while True: yield from loader` does; else None.

    The generator runs until it asks the loader for an iterator, and gets one of two batches, which it must yield. No
    sample is read.
    """
    if generator not in _PASSED_ON and generator.gi_code not in _MAKE_BATCHES:
        asked: list[Loader] = []
        batches = [object(), object()]

        def iterate(loader: Loader) -> Iterator[Any]:
            asked.append(loader)
            return iter(batches)

        passed = False
        with replaced("__iter__", lambda _: iterate), suppress(Exception):  # they are no batches that it can work on
            passed = all(next(generator) is batch for batch in batches)
            generator.close()
        if passed and len(asked) == 1:
            _PASSED_ON[generator] = asked[0]
        else:
            _MAKE_BATCHES.add(generator.gi_code)
    return _PASSED_ON.get(generator)


def _hooks(module: Any) -> dict[str, Callable[[], Any]]:
    """The `*_dataloader` hooks that a LightningDataModule, or a class like it, overrides."""
    hooks = {stage: getattr(module, f"{stage}_dataloader", None) for stage in _STAGES}
    overridden = {stage: hook for stage, hook in hooks.items() if callable(hook) and not _inherited(hook)}
    return {} if isinstance(module, type) else overridden


def _inherited(hook: Callable[..., Any]) -> bool:
    """Whether the hook is that of Lightning's base class; a data module in its own packages overrides it as any."""
    return getattr(hook, "__module__", None) in ("lightning.pytorch.core.hooks", "pytorch_lightning.core.hooks")


def _called(module: Any, hooks: Mapping[str, Callable[[], Any]]) -> Iterator[tuple[str, Any]]:
    """Prepare a data module for each stage as a Trainer would, and yield what the stage's hook returns."""
    phases = {"train": "fit", "val": "fit" if "train" in hooks else "validate"}
    prepare, setup = (getattr(module, name, None) for name in ("prepare_data", "setup"))
    if callable(prepare):
        prepare()
    done = set()
    for stage, hook in hooks.items():
        phase = phases.get(stage, stage)
        if callable(setup) and phase not in done:
            setup(phase)
        done.add(phase)
        yield stage, hook()


class BatchStream(IterableDataset[Any]):
    """The batches of each epoch: what `epoch` returns is iterated. `source` is that if it is the same in all epochs."""

    def __init__(self, epoch: Callable[[], Iterable[Any]], source: Any = None) -> None:
        self._epoch = epoch
        self.source = source

    def __iter__(self) -> Iterator[Any]:
        """Raises TypeError for a loader in place of a batch."""
        for batch in self._epoch():
            if is_loader(batch):
                raise TypeError(f"a {type(batch).__name__} is yielded (did you mean return instead of yield?)")
            yield batch


def streams_of(product: Any, again: Callable[[], Any] | None) -> dict[str, Loader]:
    """Loaders of what is no loader, by name, without workers; a single one has an empty name.

    `again` calls the factory that returned the product. A batch means that the factory returns one at a time; an
    iterator can be read once, so that each epoch gets a new one.
    """
    if _is_batch(product):
        return {} if again is None else {"": _loader(lambda: _endless(again))}
    if isinstance(product, Mapping):
        nested = {
            str(key): streams_of(*_made(value, None if again is None else partial(_entry, again, key)))
            for key, value in product.items()
        }
        return {name: streams[""] for name, streams in nested.items() if "" in streams}
    if isinstance(product, type) or (is_container(product) and not isgenerator(product)):
        return {}
    if isinstance(product, Iterator):
        return {} if again is None else {"": _loader(again)}
    return {"": _loader(lambda: product, product)} if hasattr(type(product), "__iter__") else {}


def _entry(again: Callable[[], Any], key: Any) -> Any:
    return again()[key]


def _made(value: Any, again: Callable[[], Any] | None) -> tuple[Any, Callable[[], Any] | None]:
    """What an entry of a dict makes, and the function that makes it: one without arguments; else the entry itself.

    An iterator is made `again` by the factory that returned the dict.
    """
    if isinstance(value, Iterator):
        return value, again
    if not isfunction(value) or not _needs_nothing(value):
        return value, None
    made = value()
    return (value, None) if is_product(made) else (made, value)


def _is_batch(value: Any, depth: int = 2) -> bool:
    """Whether a value is an array, or a container of some."""
    if isinstance(value, torch.Tensor | np.ndarray):
        return True
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return depth > 0 and any(_is_batch(part, depth - 1) for part in parts)


def _endless(make: Callable[[], Any]) -> Iterator[Any]:
    while True:
        yield make()


def _loader(epoch: Callable[[], Iterable[Any]], source: Any = None) -> Loader:
    return DataLoader(BatchStream(epoch, source), batch_size=None, collate_fn=_unchanged)


def own_loader_of(loader: Loader) -> Any:
    """The project's own loader whose batches this one yields; None if it yields others."""
    source = loader.dataset.source if isinstance(loader.dataset, BatchStream) else None
    return source if is_own_loader(source) else None


def _unchanged(batch: Any) -> Any:
    return batch
