"""The last meeting of the ranks of a shared scan, `python -m dataguard.lab.epoch.exit_code_agreement CODE`.

They agree on the exit code of the first, which alone has judged, and on when to leave.
"""

from __future__ import annotations

import os
import sys
import time

from dataguard.lab.epoch.rank_exchange import store_of, waiting_for
from dataguard.process.torchrun import Team, team_of

_NOTICE = 2.0
"""Seconds until all ranks leave: enough for each of them to hear of it and to clean up."""


def agree(team: Team, code: int) -> tuple[int, float]:
    """The exit code of the first rank, and the moment (seconds since 1970) at which all ranks leave with it."""
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


if __name__ == "__main__":
    own = team_of(os.environ)
    assert own is not None
    sys.stdout.write(" ".join(map(str, agree(own, int(sys.argv[1])))))
