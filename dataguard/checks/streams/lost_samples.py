"""Whether samples that one process yields are missing from what several yield together. Standard library only."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, repeat, starmap
from typing import TYPE_CHECKING, Any

from dataguard.checks.streams.sources import not_ended, read_from
from dataguard.core.incident import observed_or_none
from dataguard.core.model import Location, NotApplicable, Undecided
from dataguard.stats.coincidence import CERTAIN

if TYPE_CHECKING:
    from dataguard.lab.core.loader_facts import LoaderFacts
    from dataguard.lab.lab import Lab
    from dataguard.lab.ranks.shares import Shards
    from dataguard.lab.streams.own_loaders import OwnReads
    from dataguard.lab.streams.stream_trace import Identity, StreamTrace


NO_RANK = "are read by no rank"
UNREAD = "of the dataset are never read in an epoch"
CUT = "are cut off before each shuffle, so that no epoch has them"
NO_BATCH = "are in no batch of an epoch, and all are if a batch is one sample"


@dataclass(frozen=True, slots=True)
class Loss:
    """Samples of one process that several do not yield together, in the fewer of two epochs.

    `same` means that it is always the same ones, and `first` names the first of them. Where samples could not be
    recognised, they are `counted`. `reshuffled`: they are the same although each epoch has another order. Ranks lose
    among these what the workers of one process `alone` lose.
    """

    samples: int
    of: int
    same: bool = False
    first: str | None = None
    counted: bool = False
    reshuffled: bool = False
    alone: int = 0


class NotEnded(Undecided):
    """A stream was not read to its end."""


def streamed_losses(lab: Lab, exercised: dict[str, int]) -> Iterator[tuple[Loss, str]]:
    """What the workers of one process lose, and then what ranks do."""
    try:
        yield from _streamed_losses(lab, exercised)
    except NotEnded as reason:
        raise not_ended(lab, str(reason)) from None


def _streamed_losses(lab: Lab, exercised: dict[str, int]) -> Iterator[tuple[Loss, str]]:
    shares, workers, ranks = lab.streams.shares, lab.facts.num_workers, lab.ranks.declared
    own = lab.streams.own_reads if lab.facts.own else None
    if own:
        yield own_loss(own), UNREAD
        exercised |= {"samples": own.length}
    if not workers and not ranks:
        if own:
            return
        raise NotApplicable("a single process reads everything")
    if workers:
        loss = find_loss(partial(shares, workers), partial(shares, 0), partial(lab.streams.has_fixed_counts, workers))
        exercised |= {"samples": loss.of, "workers": workers}
        yield loss, "are yielded by no worker"
    alone = loss.samples if workers else 0
    if ranks:
        lab.ranks.need_single()
        exercised |= {"ranks": lab.ranks.world}
        handed_out = lab.ranks.hand_out
        loss = dealt_loss(lab.ranks.shards()) if handed_out else find_loss(lab.ranks.stream, partial(shares, 0))
        exercised |= {"samples": loss.of}
        if loss.samples and not handed_out:
            require_loss(find_loss(partial(lab.ranks.stream, same_seed=True), partial(shares, 0)))
        yield replace(loss, alone=min(alone, loss.samples)), NO_RANK


def own_loss(own: OwnReads) -> Loss:
    """What a loader of the project's own class leaves out of its dataset, although its length says that it does not.

    A rest that fills no batch may be dropped, and so may any samples where the loader draws with replacement, or ends
    each epoch early on purpose, as a smaller length or a missing end says.
    """
    if not own.whole:
        raise Undecided("reading all of the dataset twice takes too long")
    lost = min(own.unread, key=len)
    same = len({*own.unread}) == 1
    ends_early = lost == tuple(range(own.length - len(lost), own.length))
    claims_all = not ends_early if own.batches is None else own.batches * own.size > own.length - own.size
    found = claims_all and not own.repeats and len(lost) >= own.size and (same or own.batches is not None)
    return Loss(len(lost) if found else 0, own.length, same=same, first=f"index {lost[0]}" if lost and same else None)


def dealt_losses(lab: Lab, exercised: dict[str, int]) -> Iterator[tuple[Loss, str]]:
    """What torch's weighted sampler can never draw, and what the samplers of all ranks omit in both of two epochs."""
    exercised |= lab.epoch.exercised
    total, spare = lab.facts.length or 0, lab.facts.unweighted
    yield Loss(spare, total, same=True, first=f"index {total - spare}"), f"have no weight in {lab.facts.sampler}"
    if lab.ranks.declared:
        lab.ranks.need_single()
        loss = dealt_loss(lab.ranks.shards())
        exercised |= {"indices": loss.of, "ranks": lab.ranks.world}
        if loss.samples:
            require_loss(dealt_loss(lab.ranks.shards(same_seed=True)))
            loss = in_every_order(lab, loss)
        yield loss, NO_RANK
    else:
        yield cut_loss(lab), CUT
        yield rest_loss(lab), NO_BATCH


def dealt_loss(shards: Shards) -> Loss:
    """What the samplers of all ranks leave out of what one process reads."""
    single, combined = shards.alone.counts, shards.combined
    if shards.same_dataset and max(single.values(), default=0) == 1:
        missing = sorted(single - combined, key=str)
        others = combined.keys() - single.keys()
        if missing and others:
            raise NotApplicable(
                f"ranks read {len(others)} samples that one process does not have: each draws a split of its own"
            )
        first = f"index {missing[0]}{shards.within}" if missing else None
        return Loss(len(missing), shards.alone.total, first=first)
    return Loss(max(0, single.total() - combined.total()), single.total())


def cut_loss(lab: Lab) -> Loss:
    """What a sampler of the user's cuts off the end of the dataset before it shuffles, to end with whole batches."""
    facts = lab.facts
    total, size = facts.length or 0, facts.batch_size or 1
    tail = range(total - total % size, total)
    if not tail or total > MOST_INDICES or facts.mixes_samples:
        return Loss(0, total)
    orders = observed_or_none(lambda: lab.streams.orders)
    if orders is None or not orders.whole or len({*orders.epochs}) < len(orders.epochs):
        return Loss(0, total)
    lost = [frozenset(range(total)).difference(epoch) for epoch in orders.epochs]
    is_cut = all(indices == {*tail} for indices in lost)
    return Loss(len(tail) if is_cut else 0, total, same=True, first=f"index {tail[0]}", reshuffled=True)


def rest_loss(lab: Lab) -> Loss:
    """What a batch sampler of the user's drops of each of its groups, because it fills no batch.

    Others may be dropped in each epoch, if they are few or `drop_last` says so.
    """
    facts = lab.facts
    total = facts.length or 0
    orders = observed_or_none(lambda: lab.streams.orders) if facts.batch_sampler_at else None
    if orders is None or not orders.whole or total > MOST_INDICES or not orders.batches[0]:
        return Loss(0, total)
    size, rest = divmod(len(orders.epochs[0]), orders.batches[0])
    lost = [frozenset(range(total)).difference(epoch) for epoch in orders.epochs]
    fewest, same = min(map(len, lost)), len({*lost}) == 1
    if rest or size < 2 or not fewest or not (same or fewest >= MOST_DROPPED * total):
        return Loss(0, total)
    alone = observed_or_none(lambda: lab.streams.left_alone(size))
    on_purpose = alone is None or alone.indices or (alone.drop_last and not (same and len({*orders.epochs}) > 1))
    first = f"index {min(lost[0])}" if same else None
    return Loss(0 if on_purpose else fewest, total, same=same, first=first, reshuffled=True)


MOST_INDICES = 1 << 20
"""An epoch of more indices takes long to draw several times."""


def require_loss(seeded: Loss) -> None:
    """Raise Undecided when ranks lose nothing under one seed for all of them: a training script may well set it."""
    if not seeded.samples:
        raise Undecided(
            "ranks cover all samples only if their global RNGs have the same seed: seed the shuffle explicitly"
        )


def in_every_order(lab: Lab, loss: Loss) -> Loss:
    """The loss of map-style ranks, `reshuffled` if several epochs in other orders lose the same indices."""
    if loss.of > MOST_INDICES or not excused(loss, lab.facts, lab.ranks.world):
        return loss
    unread = observed_or_none(lambda: lab.ranks.unread(LOST_EPOCHS))
    if unread is None or not lost_in_all(*unread, loss.of):
        return loss
    lost = unread[0][0]
    return Loss(len(lost), loss.of, same=True, first=f"index {min(lost, key=str)}", reshuffled=True)


LOST_EPOCHS = 10
"""Epochs in which the same indices must be lost: more exclude coincidence in smaller datasets, and take longer."""


def lost_in_all(lost: Sequence[frozenset[Any]], orders: int, of: int) -> bool:
    """Whether all epochs lose the same indices in so many orders, beyond what chance could do."""
    count = len(lost[0]) if lost else 0
    same = count > 0 and len(set(lost)) == 1
    return same and (orders - 1) * math.log10(math.comb(of, count)) > -CERTAIN


def excused(loss: Loss, facts: LoaderFacts, ranks: int) -> bool:
    """Whether no more are lost than it takes to end with whole batches, or with as many on each of `ranks` ranks.

    Each worker of a stream has a last batch to drop. If others are dropped in each epoch, that harms little, unless it
    makes epochs shorter by `MOST_DROPPED` or more, and by whole batches. Samples that can only be counted may be made
    of others, such as packed sequences, of which each worker drops a last one. An epoch without any samples is reported
    by DG404.
    """
    if loss.samples == loss.of:
        return True
    if 2 * loss.samples >= loss.of or loss.reshuffled:
        return False
    size = facts.batch_size or 1
    ends = 1 if loss.same or loss.samples >= MOST_DROPPED * loss.of else max(facts.num_workers, 1)
    dropped = ranks * ends * (size - 1) if facts.drop_last else 0
    packed = ranks * facts.num_workers if loss.counted else 0
    return loss.samples <= max(dropped, packed, ranks * size - 1 if ranks > 1 else 0)


MOST_DROPPED = 0.1
"""The share of an epoch that workers may drop with their last batches, others in each epoch. Chosen: a tenth, which is
what eight workers that each drop half a batch lose of 40 batches."""


def lost_at(lab: Lab, loss: Loss, outcome: str) -> Location | None:
    """Where samples are lost: the argument that drops them, or what selects those that remain."""
    facts, places = lab.facts, lab.places
    ranks = lab.ranks.world if outcome == NO_RANK else 1
    if facts.drop_last and loss.samples <= ranks * max(facts.num_workers, 1) * ((facts.batch_size or 1) - 1):
        return places.setting("drop_last")
    shards = lab.ranks.shards() if outcome == NO_RANK else None
    if shards is not None and shards.own_datasets:
        return places.split
    if shards is not None and facts.kind == "map" and max(shards.combined.values(), default=0) > 1:
        apart = observed_or_none(lambda: lab.ranks.seeded_apart)  # what some ranks lack, others have twice
        if apart is not None:
            return apart
    if outcome == NO_BATCH:
        return places.dropped_rest or places.selection(first=True) or places.sampler
    if outcome == UNREAD:
        own = lab.streams.own_reads
        return Location(*own.at) if own and own.at else lab.dataset.location
    if facts.kind == "stream" and places.left_over:
        return places.left_over
    chosen = None if facts.unweighted else places.selection(first=loss.reshuffled, ranks=ranks)
    if chosen or facts.kind == "stream":
        return chosen or lab.dataset.location
    return places.share if outcome == NO_RANK else places.sampler


def find_loss(
    several: Callable[..., StreamTrace],
    single_process: Callable[..., StreamTrace],
    is_fixed: Callable[[], bool] = lambda: False,
) -> Loss:
    """What several processes lose of what one yields; both are called with `seeded` and `twice`.

    A loss has to show in two epochs. Where samples are random, `is_fixed` says whether their number is not. Raises
    Undecided when the streams were not read to their end, and their samples cannot be recognised.
    """
    shared, single = several(seeded=False), single_process(seeded=False)
    if not (shared.ended and single.ended):
        return _loss_before_the_end(several, single_process)
    read = None if recognised(shared, single) else read_from(several, single_process, single)
    if shared.total >= single.total and not _missing(*(read or (shared, single))):
        return Loss(0, single.total)
    epochs = list(_epochs(several, single_process))
    if not all(first.ended and second.ended for first, second in epochs):
        raise Undecided("one of two epochs ends, the other does not")
    loss = _loss_of(epochs)
    if loss.samples > CHANCE_FACTOR * math.sqrt(loss.of) and all(map(_repeats, *epochs)):
        return replace(loss, same=True)
    random = loss.samples and (_varies(single_process(seeded=False, twice=True)) or any(starmap(_drawn, epochs)))
    if random and not is_fixed():
        raise Undecided("the samples of an epoch and their number are random, so two runs may differ")
    return loss


CHANCE_FACTOR = 9
"""How many times the square root of the samples are lost by more than where streams are mixed: odds of 1e-9."""


def _loss_of(epochs: list[tuple[StreamTrace, StreamTrace]]) -> Loss:
    """What is lost in the better of the epochs, each of which was seen from several processes, and from one."""
    if all(starmap(recognised, epochs)):
        return _named([_missing(shared, single) for shared, single in epochs], epochs[0][1])
    fewer = min(single.total - shared.total for shared, single in epochs)
    return Loss(max(0, fewer), epochs[0][1].total, counted=True)


def _named(lost: list[Counter[Identity]], single: StreamTrace) -> Loss:
    """The loss with the first sample that is lost in every epoch."""
    always = lost[0] & lost[1]
    missing = min(counts.total() for counts in lost)
    return Loss(single.scaled(missing), single.total, always.total() == missing, single.first_of(always))


def _epochs(several: Callable[..., StreamTrace], single_process: Callable[..., StreamTrace]) -> Iterator[Any]:
    """What several processes and one yield in two epochs: as it is, or its sources, or seeded, as is recognised."""
    shared, single = several(seeded=False, twice=True), single_process(seeded=False, twice=True)
    if not recognised(shared, single):
        read = read_from(several, single_process, single, twice=True)
        if read is None or not recognised(*read):
            read = several(seeded=True, twice=True), single_process(seeded=True, twice=True)
        shared, single = read
    yield from ((shared, single), (shared.second, single.second))


def recognised(shared: StreamTrace, single: StreamTrace) -> bool:
    """Whether all that several processes yield are samples that one process yields."""
    return shared.counts.keys() <= single.counts.keys()


def _missing(shared: StreamTrace, single: StreamTrace) -> Counter[Identity]:
    return single.counts - shared.counts if recognised(shared, single) else Counter()


def _varies(single: StreamTrace) -> bool:
    return single.counts.total() != single.second.counts.total()


def _drawn(shared: StreamTrace, single: StreamTrace) -> bool:
    """Whether most samples are recognised, yet several processes also yield some that one process does not.

    So it is where streams are mixed by chance, until the first of them has no more.
    """
    common = (shared.counts & single.counts).total()
    return not recognised(shared, single) and common >= FEWEST_KNOWN * shared.counts.total()


FEWEST_KNOWN = 0.6
"""The share of the samples of several processes that has to be recognised, if the others are new by chance. Chosen:
most of them, so that what is missing is not what is new."""


def _repeats(first: StreamTrace, second: StreamTrace) -> bool:
    """Whether two epochs have the same samples, so that nothing in them is random."""
    return first.counts == second.counts


def _loss_before_the_end(several: Callable[..., StreamTrace], single_process: Callable[..., StreamTrace]) -> Loss:
    """The same for streams that were not read to their end: no worker may omit what all workers have passed.

    Their samples have to come in one order, without shuffling, and to be samples of one process: what each worker
    assembles from its own share, such as packed sequences, is found nowhere else.
    """
    for shared, single in _by_each_means(several, single_process):
        order = list(chain.from_iterable(single.by_worker))
        places = {identity: position for position, identity in reversed(list(enumerate(order)))}
        yielded = shared.by_rank_worker or shared.by_worker
        passed = [[places[identity] for identity in ids if identity in places] for ids in yielded]
        read_positions = {position for worker in passed for position in worker}
        whole = all(map(_recognised_throughout, yielded, repeat(places)))
        ordered = all(worker == sorted(worker) for worker in passed)
        horizon = min((worker[-1] for worker in passed if worker), default=0)
        if len(places) == len(order) and whole and ordered and horizon >= FEWEST_PASSED:
            lost = [position for position in range(horizon) if position not in read_positions]
            first = single.shown(lost[0], order[lost[0]]) if lost else None
            return Loss(len(lost), horizon, bool(lost), first)
    raise NotEnded(f"the stream has more than {shared.total} samples: raise --samples or use --all")


def _by_each_means(
    several: Callable[..., StreamTrace], single_process: Callable[..., StreamTrace]
) -> Iterator[tuple[StreamTrace, StreamTrace]]:
    """What several processes and one yield, by the means that may identify it: content, sources, and seeded content."""
    shared, single = several(seeded=False), single_process(seeded=False)
    yield shared, single
    read = read_from(several, single_process, single)
    if read is not None:
        yield read
    yield several(seeded=True), single_process(seeded=True)


FEWEST_PASSED = 16
"""Samples of an endless stream that every worker has to pass, before one of them counts as missing: it may only be
late."""


def _recognised_throughout(ids: Sequence[Identity], places: Mapping[Identity, int]) -> bool:
    """Whether all that a worker yields is known, up to the last sample that is."""
    recognisable = [identity in places for identity in ids]
    return all(recognisable[: recognisable.count(True)])
