"""DDP ranks: processes of one gloo group on this machine, in the environment that torchrun sets.

Each is a fork of the observing process, so that a rank costs little more than the user's factory.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch.distributed as dist

from dataguard.core.incident import LoaderDied
from dataguard.core.model import Undecided
from dataguard.lab.process.answers import answer_in, has_answered
from dataguard.lab.process.incidents import FlightRecorder, death_of
from dataguard.lab.process.isolation import run_child
from dataguard.lab.reading.rank_queries import forget_ranks
from dataguard.process.originals import os, signal, time
from dataguard.process.process_tree import wait_for_children

ATTEMPTS = 3
"""How often ranks try to form their group: gloo sometimes loses a connection before the user's code runs."""
PATIENCE = timedelta(seconds=120)
"""Timeout of collectives in the user's code; the deadline of the observation comes first."""
GROUP = "group"
"""The file through which the ranks form their group."""
_POLL = 0.01
"""Seconds between two looks at the ranks, short beside the second or more that they take to start."""
_LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"


class NoGroup(Undecided):
    """The ranks could not form their group."""


@dataclass(frozen=True, slots=True)
class Rank:
    """One process of a group: its rank, the size of the group, and the folder for its files."""

    number: int
    world: int
    folder: Path

    @property
    def arguments(self) -> dict[str, int]:
        """The arguments of the factory."""
        return {"rank": self.number, "world_size": self.world}


def rank_folder(folder: Path, number: int) -> Path:
    """The folder for the spools of a rank."""
    return folder / f"rank{number}"


def run_ranks(world: int, folder: Path, work: Callable[[Rank], Any], *, joined: bool = True) -> list[Any]:
    """Call `work` in each of `world` processes that form a group, and return what each returned, by rank.

    Unless they have `joined` it before, the group forms when the user's code asks for one.
    The first `DataguardError` that any of them raises is raised here; a process that ends without a result raises
    `LoaderDied`. This process, a fork that runs nothing of the user's itself, waits for them.
    """
    wait_for_children()
    for _ in range(ATTEMPTS - 1):
        with contextlib.suppress(NoGroup):
            return _run_group(world, folder, work, joined)
        for number in range(world):
            shutil.rmtree(rank_folder(folder, number))
        (folder / GROUP).unlink(missing_ok=True)
    return _run_group(world, folder, work, joined)


def _run_group(world: int, folder: Path, work: Callable[[Rank], Any], joined: bool) -> list[Any]:
    ranks = [Rank(number, world, rank_folder(folder, number)) for number in range(world)]
    port, parent = _free_port(), os.getpid()
    pids: dict[int, int] = {}
    for rank in ranks:
        rank.folder.mkdir()
        pid = os.fork()
        if pid == 0:
            run_child(partial(_work, rank, folder, port, work, joined), rank.folder, parent)
        pids[pid] = rank.number
    try:
        return _await(pids, ranks, FlightRecorder(folder))
    except NoGroup:
        for pid in pids:  # the other ranks wait for this one
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        raise


def _await(pids: dict[int, int], ranks: list[Rank], recorder: FlightRecorder) -> list[Any]:
    """The answers of all ranks, by rank; progress of any of them counts as progress here.

    The first failure ends the wait, because the other ranks may wait for that one forever.
    """
    recorders = [FlightRecorder(rank.folder) for rank in ranks]
    answers: dict[int, Any] = {}
    moved = -1
    while len(answers) < len(ranks):
        if (progress := sum(rank_recorder.progress() for rank_recorder in recorders)) != moved:
            moved = progress
            recorder.mark(None, "iterate")
        for pid in [pid for pid, number in pids.items() if number not in answers]:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                number = pids[pid]
                folder = ranks[number].folder
                if not has_answered(folder):
                    raise LoaderDied(death_of(pid, os.waitstatus_to_exitcode(status), recorders[number], folder))
                answers[number] = answer_in(folder)
        time.sleep(_POLL)
    return [answers[rank.number] for rank in ranks]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _work(rank: Rank, folder: Path, port: int, work: Callable[[Rank], Any], joined: bool) -> Any:
    """Set the environment as torchrun does, join the group, and work.

    The group forms through a file; the port is for anything that the user's code starts.
    """
    FlightRecorder(rank.folder).mark(None, "factory")
    number, world = str(rank.number), str(rank.world)
    os.environ.update(
        RANK=number,
        LOCAL_RANK=number,
        ROLE_RANK=number,
        GROUP_RANK="0",
        WORLD_SIZE=world,
        LOCAL_WORLD_SIZE=world,
        ROLE_WORLD_SIZE=world,
        GROUP_WORLD_SIZE="1",
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        TORCHELASTIC_RUN_ID="none",  # torchrun's default, by which libraries know that they need to start no ranks
        TORCHELASTIC_RESTART_COUNT="0",
        TORCHELASTIC_MAX_RESTARTS="0",
    )
    os.environ.setdefault("GLOO_SOCKET_IFNAME", _LOOPBACK)
    if dist.is_initialized() and dist.get_backend() == "fake":  # that of the script whose process this is a fork of
        dist.destroy_process_group()
    join = _joining(dist.init_process_group, rank, (folder / GROUP).as_uri())
    for module in (dist, dist.distributed_c10d):
        setattr(module, "init_process_group", join)  # noqa: B010 - mypy forbids the plain form
    if joined:
        join()
    forget_ranks()
    return work(rank)


def _joining(original: Callable[..., None], rank: Rank, file: str) -> Callable[..., None]:
    """In place of `init_process_group`: join the group unless it exists, whatever backend the user's code requests."""

    def join(*_: Any, **__: Any) -> None:
        if dist.is_initialized():
            return
        try:
            original("gloo", file, PATIENCE, world_size=rank.world, rank=rank.number)
        except RuntimeError as error:
            raise NoGroup(f"the ranks could not form a process group: {str(error).splitlines()[0]}") from error

    return join
