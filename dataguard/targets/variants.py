"""Variants of a loader: the same loader with other constructor arguments.

`overridden` patches `DataLoader.__init__` while the user's factory runs, so that subclasses and helper functions keep
working. `Construction.variant` turns what the factory returned into the variant: a loader that was just constructed
already is one; any other is edited in a shallow copy.
"""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, RandomSampler
from torch.utils.data.dataloader import _BaseDataLoaderIter, default_collate, default_convert

Loader = DataLoader[Any]
_NEEDS_WORKERS = {"prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout"}
_ORDER = {"batch_size", "shuffle", "sampler", "batch_sampler", "drop_last"}
_INDEXED = {"shuffle", "sampler", "batch_sampler"}
_NEWER = {"in_order"}  # not every supported torch version has it; overrides are ignored where it is unknown
_ARGUMENTS = {name for name in inspect.signature(DataLoader.__init__).parameters if name not in ("self", "dataset")}


@dataclass(frozen=True, slots=True)
class Construction:
    """What happened while `DataLoader.__init__` was patched: loaders that were made and scheduled, and their slots."""

    overrides: Mapping[str, Any]
    made: list[Loader] = field(default_factory=list)
    scheduled: set[int] = field(default_factory=set)
    places: dict[int, SamplerSlot] = field(default_factory=dict)
    """By the `id` of the loader: where a schedule can come, inside what its class has wrapped around it."""
    absent: list[str] = field(default_factory=list)
    """The names of loaders that are None."""

    def variant(self, loader: Loader) -> Loader:
        """The loader with the overrides applied: itself if it was constructed with them, else a shallow copy."""
        workers = self.overrides.get("num_workers", loader.num_workers)
        made, variant = any(loader is original for original in self.made) and loader.num_workers == workers, loader
        if made:
            _shut_started(loader)
        else:
            variant = copied(loader, self.overrides)
        _postpone_started(variant)
        ordered = "schedule" in self.overrides and not isinstance(loader.dataset, IterableDataset)
        if ordered and id(variant) not in self.scheduled:  # it may have two names
            self.scheduled.update([id(variant)] * made)
            self._reschedule(variant, loader)
        return variant

    def again(self, loader: Loader, overrides: Mapping[str, Any]) -> Loader:
        """A variant, with other overrides, of a loader that `variant` has given."""
        return Construction(overrides, places=self.places).variant(loader)

    def settle(self) -> None:
        """Take back the places that no class has wrapped anything around: they are found where they were left."""
        for loader in self.made:
            slot, sampler_slot = _slot(loader), self.places.get(id(loader))
            if sampler_slot is not None and vars(loader)[slot] is sampler_slot:
                vars(loader)[slot] = self.places.pop(id(loader)).occupant

    def _reschedule(self, variant: Loader, loader: Loader) -> None:
        """Replace the index sampler in place; `DataLoader.__setattr__` forbids it, its `__dict__` does not.

        A subclass may have wrapped its index sampler, so that the one inside is replaced, or put another one there.
        """
        state, slot = vars(variant), _slot(variant)
        sampler_slot = self.places.get(id(loader)) if state[slot] is vars(loader).get(slot) else None
        sampler_slot = sampler_slot if _holds([state[slot]], sampler_slot) else None
        scheduled = self.overrides["schedule"](
            sampler_slot.occupant if sampler_slot is not None else state[slot], slot != "sampler"
        )
        if sampler_slot is None or state[slot] is sampler_slot:
            state[slot] = scheduled
        else:
            sampler_slot.occupant = scheduled


@contextmanager
def overridden(overrides: Mapping[str, Any]) -> Iterator[Construction]:
    """Apply the overrides to every `DataLoader.__init__` that runs inside the context.

    Raises TypeError for an unknown argument (other than `schedule`).
    """
    unknown = set(overrides) - _ARGUMENTS - _NEWER - {"schedule"}
    if unknown:
        raise TypeError(f"not an argument of DataLoader: {', '.join(sorted(unknown))}")
    construction = Construction(overrides)
    try:
        with replaced("__init__", lambda original: _overriding(original, construction)):
            yield construction
    finally:
        if "schedule" not in overrides:
            construction.settle()


@contextmanager
def replaced(method: str, change: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Replace a method of each class in `constructors` by what `change` makes of it, as long as the context lasts."""
    originals = {kind: getattr(kind, method) for kind in constructors()}
    for kind, original in originals.items():
        setattr(kind, method, change(original))
    try:
        yield
    finally:
        for kind, original in originals.items():
            setattr(kind, method, original)


def constructors() -> list[type[Loader]]:
    """The classes to patch; torchdata's StatefulDataLoader does not call `DataLoader.__init__`."""
    stateful = getattr(sys.modules.get("torchdata.stateful_dataloader"), "StatefulDataLoader", None)
    return [DataLoader] if stateful is None else [stateful, DataLoader]


def _overriding(original: Callable[..., None], construction: Construction) -> Callable[..., None]:
    signature = inspect.signature(original)
    overrides = construction.overrides

    @functools.wraps(original)
    def init(self: Loader, *args: Any, **kwargs: Any) -> None:
        try:
            arguments = dict(signature.bind(self, *args, **kwargs).arguments)
        except TypeError:
            original(self, *args, **kwargs)  # raises the error the user would have seen
            raise
        if "dataset" not in arguments:  # another library replaced the constructor
            return original(self, *args, **kwargs)
        original(**_edited(arguments, overrides))
        construction.made.append(self)
        if not isinstance(self.dataset, IterableDataset):
            slot = _slot(self)
            vars(self)[slot] = construction.places[id(self)] = SamplerSlot.around(vars(self)[slot])
        return None

    return init


def _edited(arguments: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The constructor arguments with the overrides applied, and without arguments that conflict with them.

    Overrides that torch does not allow are dropped: an order for a stream, worker options without workers. Conflicts
    among the user's own arguments stay, so that torch raises its usual error.
    """
    stream = isinstance(arguments["dataset"], IterableDataset)
    wanted = {name: value for name, value in overrides.items() if name in _ARGUMENTS}
    wanted = _without(wanted, _INDEXED) if stream else wanted
    kept = dict(arguments)
    own_workers = arguments.get("num_workers", 0)
    if wanted.get("num_workers", own_workers) == 0:
        wanted = _without(wanted, _NEEDS_WORKERS)
        kept = _without(kept, _NEEDS_WORKERS) if own_workers else kept
    if wanted.get("batch_sampler") is not None:
        kept, wanted = _without(kept, _ORDER), _without(wanted, _ORDER - {"batch_sampler"})
    elif wanted.keys() & _ORDER:
        kept = _taken_apart(kept)
        kept = _without(kept, {"shuffle"}) if wanted.get("sampler") is not None else kept
        kept = _without(kept, {"sampler"}) if "shuffle" in wanted else kept
        if (kept | wanted).get("batch_size", 1) is None:
            kept, wanted = _without(kept, {"drop_last"}), _without(wanted, {"drop_last"})
    return kept | wanted


def _without(arguments: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name not in names}


def _taken_apart(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with the `batch_sampler` replaced by its sampler, batch size and drop_last."""
    whole = arguments.get("batch_sampler")
    parts = {name: getattr(whole, name, None) for name in ("sampler", "batch_size", "drop_last")}
    return _without(arguments, {"batch_sampler"}) | {name: value for name, value in parts.items() if value is not None}


def copied(loader: Loader, overrides: Mapping[str, Any]) -> Loader:
    """A shallow copy with the overrides applied, for a loader that the factory did not just construct.

    Either it was made at import time and is shared, or its class never calls `DataLoader.__init__`. The overridden
    attributes are copied from a plain DataLoader that is constructed with the same arguments.
    """
    variant = copy.copy(loader)
    state = vars(variant)
    arguments = _arguments_of(loader)
    touched = {name for name in overrides if name in _ARGUMENTS}
    touched |= _NEEDS_WORKERS if "num_workers" in touched else set()
    if "generator" in touched and _shuffles(loader):
        arguments = _without(arguments, {"sampler"}) | {"shuffle": True}
        touched.add("sampler")
    if touched & _ORDER:
        touched |= _ORDER | {"collate_fn"}
    if touched:
        constructor = next(kind for kind in constructors() if isinstance(loader, kind))
        plain = constructor(**_edited(arguments, overrides))
        state.update({name: value for name, value in vars(plain).items() if name in touched})
        if "multiprocessing_context" in touched:  # a property that each class stores under a different name
            variant.multiprocessing_context = plain.multiprocessing_context
    return variant


def _arguments_of(loader: Loader) -> dict[str, Any]:
    """The arguments to construct a plain DataLoader like this one."""
    arguments = {name: getattr(loader, name) for name in _ARGUMENTS - _ORDER if hasattr(loader, name)}
    arguments["dataset"] = loader.dataset
    collate = arguments["collate_fn"]
    if collate is default_collate or collate is default_convert:  # torch's choice, which depends on batch_size
        del arguments["collate_fn"]
    if loader.num_workers == 0:
        arguments = _without(arguments, _NEEDS_WORKERS - {"timeout"})
    if loader.batch_sampler is not None and loader.batch_size is None:
        return arguments | {"batch_sampler": loader.batch_sampler}
    arguments |= {"batch_size": loader.batch_size, "drop_last": loader.drop_last}
    return arguments if isinstance(loader.dataset, IterableDataset) else arguments | {"sampler": loader.sampler}


def _shuffles(loader: Loader) -> bool:
    """Whether the sampler is that of `shuffle=True`: it draws from the loader's own generator."""
    order: Any = loader.sampler
    whole = type(order) is RandomSampler and not order.replacement and order._num_samples is None
    return whole and order.generator is loader.generator


def _slot(loader: Loader) -> str:
    """The attribute with the index sampler that torch iterates."""
    return "sampler" if loader.batch_sampler is None else "batch_sampler"


def unwrapped(sampler: Any) -> Any:
    """The user's own sampler, where a place for a schedule stands around it."""
    return sampler.occupant if issubclass(type(sampler), SamplerSlot) else sampler


def _holds(wrapper: Any, sampler_slot: object, depth: int = 3) -> bool:
    """Whether a wrapper of index samplers, or a short list of them, holds this place."""
    inner = wrapper[:16] if isinstance(wrapper, (list, tuple)) else getattr(wrapper, "__dict__", {}).values()
    return any(part is sampler_slot or (depth > 0 and _holds(part, sampler_slot, depth - 1)) for part in inner)


class SamplerSlot:
    """A proxy of the user's index sampler, until a schedule replaces the sampler inside.

    A factory may also construct loaders for its own use, such as for a mean of the dataset; those keep their samplers.
    The type of a slot, called, makes another sampler of the user's type: Lightning makes that of a rank so.
    """

    occupant: Any
    _kind: type

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """A sampler of the user's type."""
        return cls._kind(*args, **kwargs)

    @staticmethod
    def around(occupant: Any) -> SamplerSlot:
        """A slot that holds this sampler."""
        slot: SamplerSlot = object.__new__(_slot_type(type(occupant)))  # type: ignore[arg-type]
        slot.occupant = occupant
        return slot

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self.occupant)

    def __reduce__(self) -> tuple[Callable[[Any], SamplerSlot], tuple[Any]]:
        return SamplerSlot.around, (self.occupant,)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.occupant)

    def __len__(self) -> int:
        return len(self.occupant)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "occupant":
            super().__setattr__(name, value)
        else:
            setattr(self.occupant, name, value)

    def __getattr__(self, name: str) -> Any:
        if name == "occupant":  # not set yet: this object is just being unpickled or copied
            raise AttributeError(name)
        return getattr(self.occupant, name)


@functools.cache
def _slot_type(kind: type) -> type[SamplerSlot]:
    """The type of the slots that hold samplers of this type."""
    return type(kind.__name__, (SamplerSlot,), {"_kind": kind})


def _shut_started(loader: Loader) -> None:
    for started in _started(loader).values():
        if hasattr(started, "_shutdown_workers"):
            started._shutdown_workers()


def _postpone_started(loader: Loader) -> None:
    """Postpone the iterators that a subclass starts in its constructor, as YOLO's loaders do.

    Otherwise their workers would miss changes that are made to the loader before its first batch.
    """
    for name in _started(loader):
        vars(loader)[name] = None if name == "_iterator" else _Postponed(loader)
    if "_initial_iter_for_state_dict" in vars(loader):  # StatefulDataLoader would continue with the removed iterator
        vars(loader)["_initial_iter_for_state_dict"] = False


def _started(loader: Loader) -> dict[str, Any]:
    """The iterators that a loader holds: torch's, and those that were postponed for the loader it is a copy of."""
    return {name: value for name, value in vars(loader).items() if isinstance(value, _BaseDataLoaderIter | _Postponed)}


class _Postponed:
    """An iterator over a loader that starts with the request for the first batch."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._iterator: Any = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._iterator is None:
            self._iterator = self._loader._get_iterator()
        return next(self._iterator)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or self.__dict__.get("_iterator") is None:
            raise AttributeError(name)
        return getattr(self._iterator, name)
