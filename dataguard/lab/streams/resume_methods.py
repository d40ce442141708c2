"""How a loader is resumed: by the `state_dict` of the loader or its parts, or by two functions of the user."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dataguard.core.incident import is_library
from dataguard.core.model import NotApplicable
from dataguard.lab.core.loader_facts import attribute
from dataguard.lab.reading.epoch_trace import gate
from dataguard.targets.discovery import held_by_training, iterated, wrapper_of
from dataguard.targets.loading import load
from dataguard.targets.variants import Loader, unwrapped

LOADER = "loader"
ITERABLE = "iterable"
"""An object of another class, whose batches the loader yields."""
PARTS = ("sampler", "batch_sampler", "batch_sampler.sampler", "dataset")
"""Where a state can be beside the loader itself, as paths of attributes."""
NONE = "the loader, its samplers and its dataset have no state_dict and load_state_dict"


@dataclass(frozen=True, slots=True)
class Method:
    """How a loader is resumed: by the states of these parts, or by the functions `save` and `load` of the contract."""

    parts: tuple[str, ...] = ()
    save: str | None = None
    load: str | None = None

    @property
    def of_parts(self) -> bool:
        """Whether the state is that of samplers or a dataset, which know nothing of what the loader has prefetched."""
        return bool(self.parts) and self.parts != (LOADER,)

    def saved(self, loader: Any, epoch: int, batches: int, batch: Any) -> Any:
        """What a checkpoint would hold after so many batches of an epoch, the last of which is `batch`."""
        with gate("iterate"):
            held = held_by_training(loader)
            if self.save is not None:
                return _called(load(self.save).source, held, epoch=epoch, batches=batches, batch=batch)
            if self.parts == (LOADER,):
                return held.state_dict()
            return {part: holder.state_dict() for part, holder in _held(loader, self.parts)}

    def restored(self, loader: Any, state: Any) -> Any:
        """Give the state to a new loader; the one to iterate until the end of the epoch, which is the same mostly."""
        held = held_by_training(loader)
        if self.load is not None:
            given = _called(load(self.load).source, held, state)
            return iterated(loader) if given is None or given is held else given
        if self.parts == (LOADER,):
            held.load_state_dict(state)
            return iterated(loader)
        for part, holder in _held(loader, self.parts):
            holder.load_state_dict(state[part])
        return loader


OF_LOADER = Method((LOADER,))


def _called(function: Callable[..., Any], *given: Any, **offered: Any) -> Any:
    """Call a function of the user with what it takes by name of what is offered."""
    parameters = inspect.signature(function).parameters.values()
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    names = {parameter.name for parameter in parameters}
    return function(*given, **{name: value for name, value in offered.items() if takes_all or name in names})


def _held(loader: Loader, parts: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """The parts of the loader, without those that are another one under a second path."""
    seen: set[int] = set()
    for part in parts:
        holder: Any = held_by_training(loader) if part == ITERABLE else loader
        for name in part.split(".") if part != ITERABLE else ():
            holder = unwrapped(attribute(holder, name))
        if holder is not None and id(holder) not in seen:
            seen.add(id(holder))
            yield part, holder


def find_method(loader: Loader, contract: Mapping[str, Any]) -> Method:
    """How this loader is resumed.

    The functions of the contract come first, then the state of the loader, then those of its parts. A stream of a
    library says nothing of how it is resumed where workers read copies of it: its users need a loader for that. Raises
    NotApplicable if there is no state.
    """
    wrapper = wrapper_of(loader)
    outer = held_by_training(loader)
    if loader.num_workers and outer is not iterated(loader):
        raise NotApplicable("it yields the batches of an object that has no workers")
    if wrapper and outer is loader:
        raise NotApplicable(f"training iterates a {wrapper} instead, which reads several loaders")
    if "save" in contract:
        return Method(save=contract.get("save"), load=contract.get("load"))
    if _is_stateful(outer) and (not wrapper or _has_state(outer)):
        return OF_LOADER if outer is iterated(loader) else Method((ITERABLE,))
    if wrapper:
        raise NotApplicable(f"training iterates a {wrapper} instead, which has no state")
    found = [(part, holder) for part, holder in _held(loader, PARTS) if _is_stateful(holder)]
    own = [(part, holder) for part, holder in found if not loader.num_workers or _is_own(holder)]
    if found and not own:
        name = type(found[0][1]).__name__
        raise NotApplicable(f"the state of the {name} stays in the workers: torchdata's StatefulDataLoader saves it")
    if not own:
        raise NotApplicable(NONE)
    return Method(tuple(part for part, _ in own))


def _is_stateful(holder: Any) -> bool:
    """Whether it has a state that can be taken without arguments and given back."""
    methods = [attribute(holder, name) for name in ("state_dict", "load_state_dict")]
    if not all(map(callable, methods)):
        return False
    try:
        parameters = inspect.signature(methods[0]).parameters.values()
    except (TypeError, ValueError):  # a method of an extension
        return True
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return all(one.default is not one.empty or one.kind in optional for one in parameters)


def _has_state(wrapper: Any) -> bool:
    """Whether it gives a state now: accelerate's has the methods also around a loader that lacks them."""
    try:
        wrapper.state_dict()
    except AttributeError:
        return False
    return True


def _is_own(holder: Any) -> bool:
    """Whether the user wrote its `state_dict`."""
    code = getattr(inspect.unwrap(getattr(type(holder), "state_dict", lambda: None)), "__code__", None)
    return code is not None and not is_library(code.co_filename)
