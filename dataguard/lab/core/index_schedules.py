"""Index samplers that replace the user's: which samples an observation requests, and in which order.

Each wraps the loader's index sampler (its batch_sampler, or its sampler without automatic batching), draws indices from
it, and forwards every other attribute to it, so that code that inspects its sampler still finds its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, TypeVar

from dataguard.core.incident import LoaderRaised
from dataguard.lab.core.loader_facts import length_of
from dataguard.lab.core.records import members, rereadable
from dataguard.lab.process.incidents import incident_of
from dataguard.process.originals import time

MOST_BATCHES = 1_000_000
"""Batches of an epoch that are drawn at most."""
MOST_SECONDS = 3.0
"""Seconds in which an epoch is drawn: torch draws a million indices of a range in a quarter of one."""

PATIENCE = 4096
"""The fewest repeated indices in a row after which no new one is expected."""
ENDLESS_FACTOR = 16
"""A sampler that yields so many times its length never ends."""
MOST_DEALT = 10_000
"""Batches per worker that are read repeatedly; a time limit ends this earlier."""


class Schedule:
    """An index sampler that replaces `inner`."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __len__(self) -> int:
        return len(self.inner)

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # not set yet: this object is being unpickled or copied
            raise AttributeError(name)
        return getattr(self.inner, name)


def drawn(sampler: Any, *, as_is: bool = False) -> Iterator[Any]:
    """What an index sampler of the user yields, which may be any object: it is never compared or tested.

    Lists are copied unless they are wanted `as_is`, because a sampler may fill the same one again.
    Raises LoaderRaised if the sampler raises or cannot be iterated.
    """
    try:
        entries = iter(sampler)
    except Exception as error:
        raise LoaderRaised(incident_of(error, "sampler")) from error
    while True:
        try:
            entry = next(entries)
        except StopIteration:
            return
        except Exception as error:
            raise LoaderRaised(incident_of(error, "sampler")) from error
        yield entry if as_is else rereadable(entry)


@dataclass(frozen=True, slots=True)
class PlannedEpoch:
    """The entries of an epoch.

    `ends`: these are all. `late`: drawing them took too long, so that how many there are is unknown.
    """

    entries: list[Any]
    ends: bool
    late: bool = False


def endless_after(samples: int) -> int:
    """How many indices show that a sampler without a length, of a dataset of so many samples, never ends."""
    return ENDLESS_FACTOR * samples + PATIENCE


def epoch_of(sampler: Any, samples: int | None = None) -> PlannedEpoch:
    """An epoch of a sampler; of one that never ends, as many entries as its length says.

    A sampler that has no length is drawn until it yielded several times the `samples` of its dataset.
    """
    length = length_of(sampler)
    most = MOST_BATCHES if length is None else min(MOST_BATCHES, ENDLESS_FACTOR * length + PATIENCE)
    indices = endless_after(samples) if length is None and samples is not None else None
    entries: list[Any] = []
    count, until = 0, time.monotonic() + MOST_SECONDS
    for entry in drawn(sampler):
        entries.append(entry)
        count += 1 if indices is None else size_of(entry)
        if len(entries) >= most or (indices is not None and count >= indices):
            return PlannedEpoch(entries[:length], False)
        if time.monotonic() > until:
            return PlannedEpoch(entries[:length], False, late=length is None or len(entries) < length)
    return PlannedEpoch(entries, True)


S = TypeVar("S", bound=Schedule)


def in_use(made: Iterable[S], loader: Any) -> S | None:
    """The schedule that the loader iterates, by identity: a user's sampler may refuse to be compared."""
    return next((schedule for schedule in made if schedule is loader.batch_sampler or schedule is loader.sampler), None)


class Spread(Schedule):
    """The user's own batches, reduced to about `samples` samples: the first, the last and some evenly between.

    After iterating, `sizes` holds the size of every batch of the epoch, None without automatic batching or if drawing
    them all takes too long. Integer indices of `limit` and above are left out. Epochs after the first have the last
    `later` batches, which may be smaller than others, so that workers prefetch no more. Set `dataset_length` if it is
    known.
    """

    def __init__(self, inner: Any, samples: int, limit: int | None, later: int, *, batched: bool) -> None:
        super().__init__(inner)
        self.later = later
        self.batched = batched
        self.samples = samples
        self.limit = limit
        self.sizes: list[int] | None = None
        self.dataset_length: int | None = None
        self.whole = False
        self._plan: list[Any] | None = None
        self._epochs = 0

    def __iter__(self) -> Iterator[Any]:
        chosen = self._chosen()
        start = -self.later if self._epochs else None
        self._epochs += 1  # here, because torch makes an iterator more than it uses
        yield from chosen[start:]

    def __len__(self) -> int:
        return len(self._chosen())

    def _chosen(self) -> list[Any]:
        if self._plan is None:
            epoch = epoch_of(self.inner, self.dataset_length)
            sizes = [size_of(batch) for batch in epoch.entries] if self.batched else [1]
            self.sizes = sizes if self.batched and not epoch.late else None
            count = max(2, self.samples // (max(sizes, default=1) or 1))
            self.whole = epoch.ends and len(epoch.entries) <= count
            kept = [entry for batch in epoch.entries for entry in existing(batch, self.limit, batched=self.batched)]
            self._plan = evenly(kept, count)
        return self._plan


def size_of(batch: Any) -> int:
    """The number of indices in a batch."""
    try:
        return len(batch)
    except Exception:  # noqa: BLE001 - torch iterates a batch, and never asks for its length
        return len(members(batch))


def existing(entry: Any, limit: int | None, *, batched: bool) -> list[Any]:
    """The batch or single index in a list, without nonexistent integers of `limit` and above; [] if none is left."""
    if limit is None:
        return [entry]
    kept = [index for index in (members(entry) if batched else [entry]) if exists(index, limit)]
    return [kept] if batched and kept else kept


def exists(index: Any, limit: int | None) -> bool:
    """Whether an index is no integer of `limit` or above."""
    return limit is None or not isinstance(index, int) or index < limit


def spread_over(
    build: Callable[..., Any], samples: int, limit: int | None, later: int, **overrides: Any
) -> tuple[Any, Spread | None]:
    """The loader that `build` makes with a `Spread` in place of its order, and that one: None if it does not use it."""
    spreads: list[Spread] = []

    def schedule(inner: Any, batched: bool) -> Spread:
        spreads.append(Spread(inner, samples, limit, later, batched=batched))
        return spreads[-1]

    loader = build(schedule=schedule, **overrides)
    spread = in_use(spreads, loader)
    if spread is not None:
        spread.dataset_length = length_of(loader.dataset)
    return loader, spread


class Dealt(Schedule):
    """The same items repeatedly for each worker, in batches of `size`.

    torch hands batch k to worker k mod the number of workers. Each round starts elsewhere, so that the workers coincide
    at different items. `before_batch` is called in the main process before every batch.
    """

    def __init__(self, inner: Any, dealt: Sequence[Sequence[Any]], size: int, *, batched: bool) -> None:
        super().__init__(inner)
        self.dealt = dealt
        self.size = size if batched else 1
        self.batched = batched
        self.before_batch: Callable[[], None] = lambda: None

    def __iter__(self) -> Iterator[Any]:
        workers = len(self.dealt)
        for number in range(len(self)):
            self.before_batch()
            items, start = self.dealt[number % workers], number // workers * (self.size + 1)
            batch = [items[(start + step) % len(items)] for step in range(self.size)]
            yield batch if self.batched else batch[0]

    def __len__(self) -> int:
        return MOST_DEALT * len(self.dealt) if all(self.dealt) else 0


class Trials(Schedule):
    """Constructed batches: each tests collate_fn on samples of the dataset."""

    def __init__(self, inner: Any, trials: Sequence[Sequence[Any]]) -> None:
        super().__init__(inner)
        self.trials = trials

    def __iter__(self) -> Iterator[list[Any]]:
        return iter([list(trial) for trial in self.trials])

    def __len__(self) -> int:
        return len(self.trials)


def evenly(items: Sequence[Any], count: int) -> list[Any]:
    """At most `count` of the items, the first and the last among them, evenly spaced."""
    if len(items) <= count:
        return list(items)
    step = (len(items) - 1) / (count - 1) if count > 1 else 0
    return [items[round(position * step)] for position in range(count)]


def flat(order: Any, *, batched: bool) -> Iterator[Any]:
    """The indices of an index sampler, one by one."""
    for entry in islice(drawn(order), MOST_BATCHES):
        yield from members(entry) if batched else [entry]


def first_distinct(indices: Iterable[Any], count: int) -> list[Any]:
    """The first `count` distinct indices, repeated if there are too few."""
    return list(islice(cycle(list(islice(unique(indices), count))), count))


def unique(indices: Iterable[Any]) -> Iterator[Any]:
    """Each index once, compared by its repr, or by identity if it has none.

    Stops after many repeated indices in a row, because a sampler may never end.
    """
    seen, repeats = set(), 0
    for index in indices:
        key = index if isinstance(index, int | str) else _repr_of(index)
        repeats = repeats + 1 if key in seen else 0
        if not repeats:
            seen.add(key)
            yield index
        elif repeats > max(PATIENCE, 16 * len(seen)):
            return


def _repr_of(index: Any) -> str | int:
    try:
        return repr(index)
    except Exception:  # noqa: BLE001 - the user's own index may raise anything
        return id(index)
