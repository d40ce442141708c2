"""The exchange of results between the ranks of a shared scan, with gloo collectives."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, TCPStore

from dataguard.model import Undecided
from dataguard.process.originals import os, time
from dataguard.process.torchrun import Team

PATIENCE = timedelta(minutes=5)
"""How long the ranks may take to form a group once all of them have started."""
_POLL = 0.05


def store_of(team: Team, name: str) -> Any:
    """The part of torchrun's store for one exchange."""
    store = TCPStore(team.host, team.port, is_master=False, wait_for_workers=False, timeout=PATIENCE)
    return PrefixStore(f"dataguard/{team.run}/{name}", store)


def exchange(team: Team, name: str, own: Any, mark: Callable[[], None]) -> list[Any]:
    """Send `own` to all ranks, and return those of all, by rank; to be called in a disposable process.

    `mark` is called while this waits for other ranks. Raises Undecided if this rank has already taken part.
    """
    store = store_of(team, name)
    if store.add(f"rank {team.rank}", 1) > 1:
        raise Undecided("the observing process was restarted, and the other ranks continued without it")
    for _ in waiting_for(store, [f"rank {rank}" for rank in range(team.world)]):
        mark()
    if team.local:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    dist.init_process_group("gloo", store=store, timeout=PATIENCE, world_size=team.world, rank=team.rank)
    answers: list[Any] = [None] * team.world
    dist.all_gather_object(answers, own)
    dist.barrier()  # nobody leaves while another still reads
    dist.destroy_process_group()
    return answers


def waiting_for(store: Any, keys: list[str]) -> Iterator[None]:
    """Yield regularly until all keys are set. If a rank never sets its key, torchrun ends all others."""
    while not store.check(keys):
        yield
        time.sleep(_POLL)
