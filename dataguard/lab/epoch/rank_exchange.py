"""Where the ranks of a shared scan meet: what each of them saw, put before all, by collectives on gloo."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, TCPStore

from dataguard.model import Undecided
from dataguard.process.torchrun import Team

PATIENCE = timedelta(minutes=5)
"""How long the ranks may take to form a group once all of them are there."""
_POLL = 0.05


def store_of(team: Team, name: str) -> Any:
    """The part of torchrun's store that belongs to one meeting."""
    store = TCPStore(team.host, team.port, is_master=False, wait_for_workers=False, timeout=PATIENCE)
    return PrefixStore(f"dataguard/{team.run}/{name}", store)


def exchange(team: Team, name: str, own: Any, mark: Callable[[], None]) -> list[Any]:
    """Give all ranks what each of them has to say, by rank; to be called in a process that is thrown away.

    `mark` is called as long as other ranks are waited for. Raises Undecided where this rank has been there before.
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
    """Yield now and then until all keys are there. A rank that never comes ends all others, by torchrun's hand."""
    while not store.check(keys):
        yield
        time.sleep(_POLL)
