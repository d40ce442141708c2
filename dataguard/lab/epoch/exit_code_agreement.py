"""How the ranks of a shared scan end it.

They agree on the exit code of the first rank, which alone judged, and on the time to exit.
"""

from __future__ import annotations

import sys

from dataguard.lab.epoch.rank_exchange import store_of, waiting_for
from dataguard.process.originals import os, time
from dataguard.process.torchrun import Team, team_of

_NOTICE = 2.0
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
        store.set("moment", str(time.time() + _NOTICE))
    for _ in waiting_for(store, ["moment"]):
        pass
    return int(store.get("code")), float(store.get("moment"))


def main(code: str) -> None:
    """Print the agreement of this process's team, to which this rank brings its exit code."""
    own = team_of(os.environ)
    assert own is not None
    sys.stdout.write(" ".join(map(str, agree(own, int(code)))))
