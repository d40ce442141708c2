"""What samplers yield that get a place to start from: `start_index`, `consumed_samples`, `skip_batches` and the like.

Such an offset is an attribute of a sampler, or an argument of its constructor or of the factory. It is recognised by
its name and by what it does: the first epoch is shorter by so many samples or batches. A name that may have another
meaning, such as `seen`, counts only if the epochs are shuffled and the first one continues as it would have: the start
of a split leaves no rest of an order. So it is with all attributes of a stream, which may skip a header; there the name
may also be that of anything that counts what was read.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from itertools import islice
from types import MappingProxyType
from typing import Any

from torch.utils.data import IterableDataset

from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.loader_facts import attribute, by_type, wrapped_by
from dataguard.lab.core.records import members, plain_index, streamed
from dataguard.lab.culprit.line_trace import QUICK_FACTORY
from dataguard.lab.process.isolation import in_fork
from dataguard.lab.spy.drive import announce_epoch
from dataguard.process.process_tree import undisturbed_seconds
from dataguard.targets.spelling import parameters_of
from dataguard.targets.variants import Loader, unwrapped

MOST_INDICES = 100_000
"""Longer epochs are not drawn: each offset draws them four times."""
FORK_SECONDS = 20.0
"""How long it may take to draw the epochs of one offset."""
SKIPPED_BATCHES = 2
"""How many batches of an epoch an offset skips."""
FEWEST_BATCHES = 4
"""Shorter epochs say little about what an offset means."""
COUNTED_SAMPLES = 5
"""Samples of a stream after which attributes are compared: what counts others, such as files or calls, differs."""
EPOCHS = 2
"""How many epochs are read with each offset, and interrupted."""

_UNITS = "index|idx|iter|iters|iteration|iterations|step|steps|batch|batches|sample|samples|position|pos|from|first|num"
_OF_UNIT = rf"_*(num_)?(start|resume|skip|skipped|consumed)_({_UNITS})"
_NAME = re.compile(rf"{_OF_UNIT}|_*consumed|_*skip|_*(start|resume)_offset")
_RESUMED = re.compile(r"_*(num_)?(resume|consumed)(_\w+)?")
_WORDS = {"advance", "skip", "skips", "skipped", "resume", "resumed", "already", "seen", "consumed", "processed"}
"""Words of names that are offsets if they do what one does."""
_RANGE = re.compile(r"_*(end|stop|last|until)(_\w+)?")
"""With such an attribute beside it, a start is that of a share of the dataset, which no epoch leaves."""

Order = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class OffsetRun:
    """The indices that are drawn with one offset.

    `holder` and `name` are what messages call the sampler and its offset. `skipped` is the number of samples that it
    leaves out. `epochs` are the rest of the first epoch and the whole next one; then the same for a start in the second
    epoch, if a restart can say which one it is.
    """

    holder: str
    name: str
    value: int
    skipped: int
    epochs: tuple[tuple[Order, Order], ...]


@dataclass(frozen=True, slots=True)
class Offsets:
    """The indices of two epochs as the loader draws them, and with each offset; of a stream, digests of samples."""

    epochs: tuple[Order, ...] = ()
    offsets: tuple[OffsetRun, ...] = ()
    of_stream: bool = False


@dataclass(frozen=True, slots=True)
class _Slot:
    """Where an offset is given: `make` makes a loader that has it, and `put` sets it once the epoch is announced.

    `counts`: the stream itself sets it to the number of samples that were read.
    """

    holder: str
    name: str
    make: Callable[[int], Loader]
    put: Callable[[int], None] = lambda _: None
    of_stream: bool = False
    counts: bool = False

    @property
    def is_named(self) -> bool:
        """Whether its name has no other meaning, or what it does: an offset of a stream may be a header, or a split."""
        named = _RESUMED if self.of_stream else _NAME
        return self.counts or named.fullmatch(self.name) is not None


def find_offsets(
    build: Callable[[], Loader], again: Callable[[], Loader] | None, factory: Mapping[str, Callable[[int], Loader]]
) -> Offsets:
    """Draw the indices of the loader in this process, and with each offset that it takes in forks of it.

    `again` calls the factory once more, for the arguments of constructors; `factory` are its own arguments, each with a
    function that calls it. Neither is called if `build` takes long: without a checkpoint, that calls the factory.
    """
    started = undisturbed_seconds()
    loader = build()
    if isinstance(loader.dataset, IterableDataset):
        return _of_stream(loader)
    quick = undisturbed_seconds() - started < QUICK_FACTORY
    slots = list(_attributes(loader)) or list(_arguments(loader, again) if again and quick else ())
    slots += [_Slot("factory", name, make) for name, make in factory.items() if quick]
    if not slots:
        return Offsets()
    plain = in_fork(partial(_draw, loader, (0, 1)), FORK_SECONDS)
    if plain is None or len(plain[0][0]) < FEWEST_BATCHES or None in plain[0][1] or plain[0][1] == ():
        return Offsets()
    batches, whole = plain[0][0], tuple(order for _, order in plain)
    skipped = sum(batches[:SKIPPED_BATCHES])
    runs = (_run(slot, value, skipped, whole) for slot in slots for value in dict.fromkeys((skipped, SKIPPED_BATCHES)))
    return Offsets(whole, tuple(run for run in runs if run is not None))


def _of_stream(loader: Loader) -> Offsets:
    """The same for attributes of a stream, and of those that it wraps: named so, or counting what was read."""
    parts = [part for _, part in wrapped_by(loader.dataset, by_type)]
    counting = in_fork(partial(_counting, loader, parts), FORK_SECONDS) or []
    slots = [
        _Slot(type(part).__name__, name, lambda _: loader, partial(setattr, part, name), True, name in counts)
        for part, counts in zip(parts, counting, strict=False)
        for name, value in getattr(part, "__dict__", {}).items()
        if type(value) is int and value == 0 and (name in counts or _may_be_offset(name, vars(part)))
    ]
    plain = in_fork(partial(_draw, loader, (0, 1)), FORK_SECONDS) if slots else None
    if plain is None or len(plain[0][0]) < FEWEST_BATCHES or not all(order for _, order in plain):
        return Offsets()
    whole, skipped = tuple(order for _, order in plain), sum(plain[0][0][:SKIPPED_BATCHES])
    runs = (_run(slot, skipped, skipped, whole) for slot in slots)
    return Offsets(whole, tuple(run for run in runs if run is not None), of_stream=True)


def _counting(loader: Loader, parts: Sequence[Any]) -> list[frozenset[str]]:
    """The attributes of the parts of a stream that are larger by the number of samples that were read."""
    before = [dict(getattr(part, "__dict__", {})) for part in parts]
    read = sum(1 for _ in islice(streamed(loader.dataset), COUNTED_SAMPLES))
    return [
        frozenset(name for name, value in getattr(part, "__dict__", {}).items() if _grew(held.get(name), value, read))
        for part, held in zip(parts, before, strict=True)
    ]


def _grew(before: Any, after: Any, read: int) -> bool:
    return type(before) is int and type(after) is int and after == before + read


def _run(slot: _Slot, value: int, skipped: int, whole: Sequence[Order]) -> OffsetRun | None:
    """What is drawn with an offset; None if it is none, or counts in another unit."""
    runs = []
    for epoch in range(EPOCHS):
        drawn = in_fork(partial(_from_offset, slot, value, epoch), FORK_SECONDS)
        if drawn is None:  # there is no way to start in this epoch, or the sampler refuses the offset
            break
        rest, following = (order for _, order in drawn)
        if len(rest) != len(whole[epoch]) - skipped or set(rest) - set(whole[epoch]):
            break
        if (slot.of_stream or not slot.is_named) and rest != whole[epoch][skipped:]:
            break
        if not slot.is_named and whole[0] == whole[1]:
            break
        runs.append((rest, following))
    return OffsetRun(slot.holder, slot.name, value, skipped, tuple(runs)) if runs else None


def _from_offset(slot: _Slot, value: int, epoch: int) -> list[tuple[list[int], Order]] | None:
    loader = slot.make(value)
    return _draw(loader, (epoch, epoch + 1), partial(slot.put, value)) if not epoch or _takes_epoch(loader) else None


def _takes_epoch(loader: Loader) -> bool:
    inside = getattr(loader.batch_sampler, "sampler", None)
    holders = (loader, loader.sampler, loader.batch_sampler, inside, loader.dataset)
    return any(callable(attribute(holder, "set_epoch")) for holder in holders)


def _draw(
    loader: Loader, epochs: Sequence[int], begin: Callable[[], None] | None = None
) -> list[tuple[list[int], Order]]:
    """The sizes of batches and the indices of some epochs; of one that is too long, none.

    `begin` is called before the first one is read.
    """
    drawn = []
    for epoch in epochs:
        announce_epoch(loader, epoch)
        if begin is not None and epoch == epochs[0]:
            begin()
        sizes: list[int] = []
        indices: list[Any] = []
        for batch in islice(_batches(loader), MOST_INDICES):
            sizes.append(len(batch))
            indices += batch
        drawn.append((sizes, tuple(indices) if len(indices) < MOST_INDICES else ()))
    return drawn


def _batches(loader: Loader) -> Iterator[Sequence[Any]]:
    """The indices of each batch; of a stream, digests of its samples."""
    if isinstance(loader.dataset, IterableDataset):
        samples = (tuple(leaf.digest for leaf in leaves_of(sample)) for sample in streamed(loader.dataset))
        while batch := list(islice(samples, loader.batch_size or 1)):
            yield batch
    else:
        entries: Any = loader.batch_sampler if loader.batch_sampler is not None else loader.sampler
        yield from ([*map(plain_index, members(entry))] for entry in iter(entries))


def _attributes(loader: Loader) -> Iterator[_Slot]:
    """The offsets that samplers hold as attributes: those that are zero, or None under a name that says of what."""
    for sampler in _samplers(loader):
        state = getattr(sampler, "__dict__", {})
        if any(_RANGE.fullmatch(name) for name in state):
            continue
        for name, value in state.items():
            is_unset = value is None and re.fullmatch(_OF_UNIT, name)
            if is_unset or (type(value) is int and value == 0 and _may_be_offset(name, state)):
                yield _Slot(type(sampler).__name__, name, lambda _: loader, partial(setattr, sampler, name))


def _arguments(loader: Loader, again: Callable[[], Loader]) -> Iterator[_Slot]:
    """The offsets that constructors of samplers take and keep under another name."""
    for sampler in _samplers(loader):
        kind = type(sampler)
        held = getattr(sampler, "__dict__", {})
        if any(map(_RANGE.fullmatch, held)):
            continue
        for name in offset_names(kind.__init__, held):
            if not {name, f"_{name}"} & held.keys():
                yield _Slot(kind.__name__, name, partial(_with_argument, again, kind, name))


def _with_argument(again: Callable[[], Loader], kind: type, name: str, value: int) -> Loader:
    with given(kind, name, value):
        return again()


@contextmanager
def given(kind: Any, name: str, value: int) -> Iterator[None]:
    """Give another value for an argument to each call of the constructor of a class."""
    original = kind.__init__
    signature = inspect.signature(original)

    @wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        arguments = signature.bind(self, *args, **kwargs).arguments
        arguments[name] = value
        bound = inspect.BoundArguments(signature, arguments)
        original(*bound.args, **bound.kwargs)

    kind.__init__ = init
    try:
        yield
    finally:
        kind.__init__ = original


def _samplers(loader: Loader) -> list[Any]:
    """The samplers of a loader, each once."""
    batch_sampler = unwrapped(loader.batch_sampler)
    found = (unwrapped(loader.sampler), batch_sampler, attribute(batch_sampler, "sampler"))
    return list({id(sampler): sampler for sampler in found if sampler is not None}.values())


def offset_names(function: Callable[..., Any], held: Mapping[str, Any] = MappingProxyType({})) -> list[str]:
    """The arguments of a function that may be offsets by their names; `held` are the attributes of what it makes."""
    parameters = {parameter.name: parameter.default for parameter in parameters_of(function)}
    beside = {**held, **parameters}
    if any(map(_RANGE.fullmatch, parameters)):
        return []
    return [name for name in parameters if _may_be_offset(name, beside)]


def _may_be_offset(name: str, held: Mapping[str, Any]) -> bool:
    """Whether a name may be that of an offset: a plain start may also be a rank, if a stride of 1 is beside it."""
    words = set(name.lower().split("_"))
    has_stride = any(type(value) is int and value == 1 for value in held.values())
    return bool(_NAME.fullmatch(name) or words & _WORDS or ("start" in words and not has_stride))
