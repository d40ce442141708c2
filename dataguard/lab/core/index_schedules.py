"""Index samplers that replace the user's: which samples an observation requests, and in which order.

Each wraps the loader's index sampler (its batch_sampler, or its sampler without automatic batching), draws indices from
it, and forwards every other attribute to it, so that code that inspects its sampler still finds its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import cycle, islice
from typing import Any, TypeVar

from dataguard.core.incident import LoaderRaised
from dataguard.lab.core.records import members, rereadable
from dataguard.lab.process.incidents import incident_of

MOST_BATCHES = 1_000_000
"""Batches of an epoch that are drawn at most, which takes about a second."""

PATIENCE = 4096
"""The fewest repeated indices in a row after which no new one is expected."""
ENDLESS = 16
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


def drawn(sampler: Any) -> Iterator[Any]:
    """What an index sampler of the user yields, which may be any object: it is never compared or tested.

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
        yield rereadable(entry)


def epoch_of(sampler: Any) -> tuple[list[Any], bool]:
    """The entries of an epoch, and whether it ends; of a sampler that never does, as many as its length says."""
    try:
        length = len(sampler)
    except Exception:  # noqa: BLE001 - it has none, or the user's code raises
        length = MOST_BATCHES
    most = min(MOST_BATCHES, ENDLESS * length + PATIENCE)
    entries = list(islice(drawn(sampler), most))
    return (entries, True) if len(entries) < most else (entries[:length], False)


S = TypeVar("S", bound=Schedule)


def in_use(made: Iterable[S], loader: Any) -> S | None:
    """The schedule that the loader iterates, by identity: a user's sampler may refuse to be compared."""
    return next((one for one in made if one is loader.batch_sampler or one is loader.sampler), None)


class Spread(Schedule):
    """The user's own batches, reduced to about `samples` samples: the first, the last and some evenly between.

    After iterating, `sizes` holds the size of every batch of the epoch, None without automatic batching. Integer
    indices of `limit` and above are left out. Epochs after the first have `later` batches, so that workers prefetch no
    more.
    """

    def __init__(self, inner: Any, samples: int, limit: int | None, later: int, *, batched: bool) -> None:
        super().__init__(inner)
        self.later = later
        self.batched = batched
        self.samples = samples
        self.limit = limit
        self.sizes: list[int] | None = None
        self.whole = False
        self._plan: list[Any] | None = None
        self._epochs = 0

    def __iter__(self) -> Iterator[Any]:
        chosen = self._chosen()
        most = self.later if self._epochs else None
        self._epochs += 1  # here, because torch makes an iterator more than it uses
        yield from chosen[:most]

    def __len__(self) -> int:
        return len(self._chosen())

    def _chosen(self) -> list[Any]:
        if self._plan is None:
            batches, ends = epoch_of(self.inner)
            self.sizes = [size_of(batch) for batch in batches] if self.batched else None
            largest = max(self.sizes or [1], default=1) or 1
            count = max(2, self.samples // largest)
            self.whole = ends and len(batches) <= count
            kept = [one for batch in batches for one in existing(batch, self.limit, batched=self.batched)]
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
    seen, known = set(), 0
    for index in indices:
        key = index if isinstance(index, int | str) else _repr_of(index)
        known = known + 1 if key in seen else 0
        if not known:
            seen.add(key)
            yield index
        elif known > max(PATIENCE, 16 * len(seen)):
            return


def _repr_of(index: Any) -> str | int:
    try:
        return repr(index)
    except Exception:  # noqa: BLE001 - the user's own index may raise anything
        return id(index)
