"""The ranks of a scan of all samples started by torchrun, on one machine or several. Standard library only."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

from dataguard.core.model import DataguardError, UsageError
from dataguard.process.launcher import command

_LAUNCHED = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_LAUNCHER = ("GROUP_", "ROLE_", "TORCHELASTIC_")


@dataclass(frozen=True, slots=True)
class Team:
    """One rank of a scan: its rank, the world size, and the address of torchrun's store, where all ranks meet.

    `run` distinguishes this run from other runs that use the same store.
    """

    rank: int
    world: int
    host: str
    port: int
    run: str
    local: bool
    """Whether all ranks run on this machine."""

    @property
    def leads(self) -> bool:
        """Whether this rank judges and reports."""
        return self.rank == 0

    def agree(self, code: int) -> int:
        """Wait until rank 0 has reported, and return its exit code on every rank at the same time.

        torchrun kills all ranks as soon as one exits with a code other than 0, so all must exit together.
        """
        asked = command("dataguard.lab.epoch.rank_exchange", code)
        answer = subprocess.run(asked, stdout=subprocess.PIPE, text=True, check=False)
        if answer.returncode or not answer.stdout:  # no code is known where SIGCHLD is ignored
            raise DataguardError(f"rank {self.rank} lost the other ranks before they could agree on an exit code")
        agreed, moment = answer.stdout.split()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # in case one rank exits slightly before the others
        time.sleep(max(0.0, float(moment) - time.time()))
        return int(agreed)


def team_of(environ: Mapping[str, str]) -> Team | None:
    """The team of this process if torchrun started it; None for a single process.

    Raises UsageError if WORLD_SIZE is set but torchrun did not start this process.
    """
    world = environ.get("WORLD_SIZE", "1")
    if not world.isdigit() or int(world) < 2:
        return None
    if environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        raise UsageError(
            f"WORLD_SIZE is {world}, but torchrun did not start this process: run "
            "`torchrun --nproc-per-node=N -m dataguard scan TARGET --all`, or unset WORLD_SIZE to scan in one process"
        )
    run = f"{environ.get('TORCHELASTIC_RUN_ID', '')}/{environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    local = environ.get("LOCAL_WORLD_SIZE") == world
    return Team(int(environ["RANK"]), int(world), environ["MASTER_ADDR"], int(environ["MASTER_PORT"]), run, local)


def torchrun_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of an environment that torchrun sets."""
    return {name: value for name, value in environ.items() if name in _LAUNCHED or name.startswith(_LAUNCHER)}


def clear_torchrun_variables(environ: MutableMapping[str, str]) -> None:
    """Remove torchrun's variables from the environment: each rank runs the user's loader like a single process."""
    for name in torchrun_variables(environ):
        del environ[name]


def own_team(*, shared: bool) -> Team | None:
    """The team of this process, if ranks share the scan."""
    return team_of(os.environ) if shared else None
