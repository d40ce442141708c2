"""Every sample of a loader once, in its own workers: what is kept of it, and how several ranks share it."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataguard.incident import EmptyEpoch, Incident, LoaderFailed
from dataguard.lab.blackbox import BlackBox
from dataguard.lab.drive import Ride, drive
from dataguard.lab.numbers import Appraisal
from dataguard.lab.passes import EpochTrace, why_nothing
from dataguard.lab.plan import Plan
from dataguard.lab.records import BatchRecord, SampleRecord, Stop, plain_index, read_spools
from dataguard.lab.schedules import Schedule, existing
from dataguard.lab.sieve import Sieve
from dataguard.model import Undecided
from dataguard.team import Team

if TYPE_CHECKING:
    from dataguard.lab import Lab


@dataclass(frozen=True, slots=True)
class Turns:
    """How a rank takes turns with others: each gets a batch for every one of its workers, and then the next rank does.

    torch hands batch k to worker k modulo their number, so that a batch meets the worker that it would meet in one
    process.
    """

    rank: int = 0
    world: int = 1
    workers: int = 1

    def takes(self, number: int) -> bool:
        """Whether batch `number` of the epoch is for this rank."""
        return number // self.workers % self.world == self.rank

    def place(self, fetch: int, worker: int) -> int:
        """The number of the batch that a worker of this rank fetches after so many others."""
        return (fetch * self.world + self.rank) * self.workers + worker


class Everything(Schedule):
    """The user's own batches, all of them, of which this rank gets those that are its turn.

    `sizes` holds the number of samples of every batch of the epoch so far, those of other ranks as well, None without
    automatic batching; `digest` that of all indices; `whole` tells that it came to its end. Integer indices of `limit`
    and above are left out.
    """

    def __init__(self, inner: Any, limit: int | None, turns: Turns, *, batched: bool) -> None:
        super().__init__(inner)
        self.limit = limit
        self.turns = turns
        self.batched = batched
        self.sizes: array[int] | None = array("L") if batched else None
        self.digest = hashlib.blake2b(digest_size=16)
        self.whole = False

    def __iter__(self) -> Iterator[Any]:
        for number, batch in enumerate(self.inner):
            if self.sizes is not None:
                self.sizes.append(len(batch))
            self.digest.update(repr(plain_index(batch) if not self.batched else [*map(plain_index, batch)]).encode())
            kept = existing(batch, self.limit, batched=self.batched)
            if self.turns.takes(number) and kept != []:
                yield kept
        self.whole = True


@dataclass(frozen=True, slots=True)
class Driven:
    """What the main process of a portion tells of it.

    `sizes` are those of all batches of the epoch as the sampler plans it, those of other ranks as well, and `plan` is a
    digest of all its indices; both are None where it does not plan batches. `whole` tells that it came to its end.
    """

    ride: Ride
    turns: Turns
    sizes: array[int] | None
    plan: bytes | None
    whole: bool


@dataclass(frozen=True, slots=True)
class Portion:
    """What one process read of a whole epoch: the records that were kept, and how many samples there were."""

    driven: Driven
    samples: tuple[SampleRecord, ...]
    batches: tuple[BatchRecord, ...]
    stops: tuple[Incident, ...]
    read: int
    appraisals: tuple[Appraisal, ...] = ()


def run_portion(lab: Lab, folder: Path, limit: int | None, keep: int, team: Team | None) -> Driven:
    """Iterate one epoch, or this rank's part of it, without indices of `limit` and above.

    Ranks take turns with the batches of a map-style dataset. The workers of a stream, of which there is one at least,
    are told that they are some of as many as all ranks have together, as a stream shards by that; and as nobody knows
    whether it has an end, the budget has the last word.
    """
    stream = lab.facts.kind == "stream"
    rank, world = (team.rank, team.world) if team else (0, 1)
    seated = world > 1 and stream
    turns = Turns(rank, world, max(lab.facts.num_workers, 1))
    planned: list[Everything] = []

    def schedule(inner: Any, batched: bool) -> Everything:
        planned.append(Everything(inner, limit, turns, batched=batched))
        return planned[-1]

    asked: dict[str, Any] = {"num_workers": turns.workers} if seated else {}
    loader = lab.build(schedule=schedule, **asked)
    own = next((one for one in planned if one in (loader.batch_sampler, loader.sampler)), None)
    plan = Plan(folder, keep_going=True, keep=keep, appraise=keep, seats=(rank, world) if seated else None)
    ride = drive(loader, plan, seconds=lab.settings.budget if stream else math.inf)[0]
    if own is None:
        return Driven(ride, turns, None, None, ride.ended)
    return Driven(ride, turns, own.sizes, own.digest.digest(), ride.ended and own.whole)


def read_portion(folder: Path, driven: Driven | None) -> Portion:
    """Put together what the processes of one portion left behind."""
    assert driven is not None  # nothing cuts a whole epoch short
    records = list(read_spools(folder))
    stops = tuple(record.incident for record in records if isinstance(record, Stop))
    samples = tuple(record for record in records if isinstance(record, SampleRecord))
    batches = tuple(record for record in records if isinstance(record, BatchRecord))
    read = BlackBox(folder / "blackbox").counted()
    if not read and not driven.ride.batches:
        raise EmptyEpoch(stops)
    if not read:
        raise Undecided(why_nothing(driven.ride))
    appraisals = tuple(record for record in records if isinstance(record, Appraisal))
    return Portion(driven, samples, batches, stops, read, appraisals)


def put_together(portions: Sequence[Portion | Exception], limit: int | None, keep: int) -> EpochTrace:
    """One epoch of what all ranks read, in the order in which one process would have read it.

    Raises what kept a rank from reading its part. A rank may be left without a batch where there are few.
    """
    failed = [portion for portion in portions if isinstance(portion, LoaderFailed)]
    others = [one for one in portions if isinstance(one, Exception) and not isinstance(one, EmptyEpoch)]
    read = [portion for portion in portions if isinstance(portion, Portion)]
    for outcome in (*failed, *others, *(() if read else portions)):
        assert isinstance(outcome, Exception)
        raise outcome
    if len({portion.driven.plan for portion in read}) > 1:
        raise Undecided("the sampler draws another order on each rank: seed it by the factory's `seed`, or torch's own")
    sieve = Sieve(keep)
    samples = tuple(record for record in _in_order(read, lambda one: one.samples) if sieve.keeps(record))
    batches = tuple(record for record in _in_order(read, lambda one: one.batches) if sieve.keeps(record))
    sizes = read[0].driven.sizes
    rides = [portion.driven.ride for portion in read]
    ride = Ride(
        sum(ride.batches for ride in rides),
        all(ride.ended for ride in rides),
        max(ride.seconds for ride in rides),
        max(ride.start_seconds for ride in rides),
    )
    return EpochTrace(
        samples,
        batches,
        None if sizes is None else tuple(sizes),
        all(portion.driven.whole for portion in read),
        ride,
        limit,
        tuple(stop for portion in read for stop in portion.stops),
        sum(portion.read for portion in read),
        tuple(one for portion in read for one in _placed(portion)),
    )


def _in_order(portions: Sequence[Portion], kept: Callable[[Portion], Sequence[Any]]) -> Iterator[Any]:
    """The records of all portions by their place in the whole epoch, and numbered by it."""
    placed = [
        (portion.driven.turns.place(record.batch, record.worker or 0), getattr(record, "position", 0), record)
        for portion in portions
        for record in kept(portion)
    ]
    for place, _, record in sorted(placed, key=lambda entry: entry[:2]):
        yield replace(record, batch=place)


def _placed(portion: Portion) -> Iterator[Appraisal]:
    """The appraisals of a portion, by the number of their batch in the whole epoch."""
    turns = portion.driven.turns
    yield from (replace(one, batch=turns.place(one.batch, one.worker or 0)) for one in portion.appraisals)


def marker(folder: Path) -> Callable[[], None]:
    """What a process calls to show that it is waiting, and does not hang."""
    box = BlackBox(folder / "blackbox")
    return lambda: box.mark(None, "meeting")
