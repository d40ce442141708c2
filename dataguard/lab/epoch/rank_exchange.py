"""What the ranks of a shared scan exchange: their results, and how they end.

Results go through gloo collectives. At the end the ranks agree on the exit code of the first rank, which alone judged,
and on the time to exit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, TCPStore

from dataguard.core.model import Undecided
from dataguard.process.originals import os, time
from dataguard.process.torchrun import Team, team_of

PATIENCE = timedelta(minutes=5)
"""How long the ranks may take to form a group once all of them have started."""
_POLL_SECONDS = 0.05
"""Seconds between two questions to torchrun's store, which serves all ranks."""


def exchange(team: Team, name: str, result: Any, mark: Callable[[], None]) -> list[Any]:
    """Send `result` to all ranks, and return those of all, by rank; to be called in a disposable process.

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
    dist.all_gather_object(answers, result)
    dist.barrier()  # nobody leaves while another still reads
    dist.destroy_process_group()
    return answers


def store_of(team: Team, name: str) -> Any:
    """The part of torchrun's store for one exchange."""
    store = TCPStore(team.host, team.port, is_master=False, wait_for_workers=False, timeout=PATIENCE)
    return PrefixStore(f"dataguard/{team.run}/{name}", store)


def waiting_for(store: Any, keys: list[str]) -> Iterator[None]:
    """Yield regularly until all keys are set. If a rank never sets its key, torchrun ends all others."""
    while not store.check(keys):
        yield
        time.sleep(_POLL_SECONDS)


_NOTICE_SECONDS = 2.0
"""Seconds until all ranks exit: enough for each of them to read the time and clean up."""


def agree(team: Team, code: int) -> tuple[int, float]:
    """The exit code of the first rank, and the time (seconds since 1970) at which all ranks exit with it."""
    store = store_of(team, "exit")
    if team.leads:
        store.set("code", str(code))
    for _ in waiting_for(store, ["code"]):
        pass
    store.set(f"rank {team.rank}", "")
    if team.leads:
        for _ in waiting_for(store, [f"rank {rank}" for rank in range(team.world)]):
            pass
        store.set("moment", str(time.time() + _NOTICE_SECONDS))
    for _ in waiting_for(store, ["moment"]):
        pass
    return int(store.get("code")), float(store.get("moment"))


def main(code: str) -> None:
    """Print the agreement of this process's team, to which this rank brings its exit code."""
    team = team_of(os.environ)
    assert team is not None
    sys.stdout.write(" ".join(map(str, agree(team, int(code)))))
