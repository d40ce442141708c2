"""What the spy is asked to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dataguard.lab.core.process_usage import Gauging
from dataguard.lab.rng.frozen_rng import Free
from dataguard.lab.spy.sample_ledger import Depth


@dataclass(frozen=True, slots=True)
class Plan:
    """What the spy does in one observation.

    `pins` gives, for each fetch of an epoch, the seed to which the global generators are set before it, or None to
    leave them alone; past its end nothing is pinned. `pin_each` is a seed for every single sample. `carry` lets the
    real batches travel to the main process; otherwise None travels in their place. `keep_going` swallows what
    collate_fn raises, because the next batch is a trial of its own. `census` lists the numbers of fetches after which
    the generators in the worker are looked for. `reseed` names libraries whose generator gets a seed of its own in each
    worker. `length` is the number of fetches of a worker in an epoch, for loaders that never end theirs. `perturb` is
    the path of a generator that is moved on after the first fetch, at the seat (worker, epoch) `perturb_at` or at all.
    `burns` makes the spy take note of seeds that are given in a fetch: for each fetch of an epoch, how many numbers a
    generator skips right after it was seeded with a constant, or with `burn_always` with whatever. `first_seeds` does
    so from `worker_init_fn` to the end of a first fetch. `announce` tells sampler and dataset which epoch begins.
    `still` gives, for each epoch, the seeds that every generator gets before its fetches, held ones included, but for
    the one that is `free`: see `Stillness`. `key` spells a function of a sample by whose result alone it is recognised.
    After `most` samples in an epoch, a process only passes batches on. With `keep`, records are sieved: see `Sieve`.
    `seats` are a rank and the number of ranks whose workers a stream takes for those of one loader. `ledger` has every
    sample taken down, to that depth. `appraise` has numbers written down for so many samples of the first epoch: see
    `Appraiser`. With `gauge`, no sample is looked at: instead, what the process holds is read after so many samples,
    and so many; libraries then use so many `threads`, as many as they like with 0. With `pass_over`, samples of a
    map-style dataset that cannot be read are noted and left out of their batch. With `prints`, the prints of all
    samples are written down.
    """

    folder: Path
    pins: Sequence[int | None] = ()
    pin_each: int | None = None
    carry: bool = False
    keep_going: bool = False
    census: Sequence[int] = ()
    length: int | None = None
    perturb: str | None = None
    reseed: Sequence[str] = ()
    burns: Sequence[int] = ()
    burn_always: bool = False
    announce: bool = True
    still: Sequence[Sequence[int]] = ()
    perturb_at: tuple[int, int] | None = None
    first_seeds: bool = False
    free: Free | None = None
    key: str | None = None
    most: int | None = None
    keep: int | None = None
    seats: tuple[int, int] | None = None
    ledger: Depth | None = None
    appraise: int = 0
    gauge: Gauging | None = None
    threads: int | None = None
    pass_over: bool = False
    prints: bool = False

    def pin(self, fetch: int) -> int | None:
        """The seed for this fetch (counted from 0 in each epoch and worker), if any."""
        return self.pins[fetch] if fetch < len(self.pins) else None

    def moves(self, worker: int | None, epoch: int, fetch: int) -> bool:
        """Whether a generator is moved on before this fetch."""
        return bool(self.perturb) and fetch == 1 and self.perturb_at in (None, (worker, epoch))
