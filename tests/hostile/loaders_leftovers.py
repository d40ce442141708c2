"""Loaders that leave threads, processes, sockets and shared memory behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from multiprocessing import resource_tracker, shared_memory
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

from tests.hostile.declared import passes
from tests.hostile.healthy import Numbers, after, in_init, in_main, in_worker, of, sleep

kept: list[Any] = []


def daemon() -> None:
    """Leave a process behind that has left our session, closed everything and does not listen."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            os.closerange(0, 256)
            sleep()
        os._exit(0)


def child() -> None:
    subprocess.Popen(["sleep", "1000"], start_new_session=True)


@passes()
def daemon_of_a_worker() -> DataLoader:
    return in_worker(daemon)


@passes()
def daemon_of_the_factory() -> DataLoader:
    return after(daemon)


@passes(slow=True)
def child_of_a_worker() -> DataLoader:
    return in_init(child)


def disguise() -> None:
    """A daemon that calls itself one of the processes that are left to end by themselves."""
    command = [sys.executable, "-c", "import time; time.sleep(1000)", "resource_tracker", "torch_shm_manager"]
    subprocess.Popen(command, start_new_session=True)


@passes()
def child_in_disguise() -> DataLoader:
    return in_main(disguise)


@passes()
def many_children() -> DataLoader:
    def breed() -> None:
        for _ in range(20):
            daemon()

    return in_main(breed)


def multiply() -> None:
    """Leave a process that forks another and ends, again and again."""
    if os.fork() == 0:
        os.setsid()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if os.fork():
                os._exit(0)
            time.sleep(0.002)
        os._exit(0)


@passes()
def child_that_never_stands_still() -> DataLoader:
    return in_main(multiply)


@passes()
def forgotten_fork() -> DataLoader:
    return in_main(os.fork)


@passes(slow=True)
def forgotten_fork_in_worker() -> DataLoader:
    return in_worker(os.fork)


@passes()
def thread_of_the_main_process() -> DataLoader:
    return in_main(lambda: threading.Thread(target=sleep).start())


@passes(slow=True)
def thread_of_the_factory() -> DataLoader:
    return after(lambda: threading.Thread(target=sleep).start())


def share() -> None:
    for untracked in (False, True):
        memory = shared_memory.SharedMemory(create=True, size=4096)
        if untracked:
            resource_tracker.unregister(f"/{memory.name}", "shared_memory")
        kept.append(memory)
    Path(f"/dev/shm/hostile-{os.getpid()}").write_bytes(b"x" * 4096)
    kept.extend([multiprocessing.Lock(), multiprocessing.Queue()])


def share_tensors() -> None:
    torch.multiprocessing.set_sharing_strategy("file_system")
    kept.append(torch.zeros(4096).share_memory_())


@passes()
def shared_memory_of_a_worker() -> DataLoader:
    return in_worker(share)


@passes()
def shared_memory_of_the_factory() -> DataLoader:
    return after(share)


@passes(slow=True)
def shared_tensors_of_a_worker() -> DataLoader:
    return in_worker(share_tensors)


def listen() -> None:
    for address in ("\0hostile", ("127.0.0.1", 0)):
        made = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        made.bind(address)
        made.listen()
        kept.append(made)


@passes(slow=True)
def sockets_of_a_worker() -> DataLoader:
    return in_worker(listen)


@passes()
def sockets_of_the_factory() -> DataLoader:
    return after(listen)


class Nested(Numbers):
    """Reads from a loader of its own, with workers of its own."""

    def __getitem__(self, index: int) -> Any:
        (inner,) = DataLoader(Numbers(), sampler=[range(16)[index]])
        return super().__getitem__(int(inner[1]))


@passes()
def loader_in_a_dataset() -> DataLoader:
    return of(Nested())


@passes()
def manager_of_the_factory() -> DataLoader:
    manager = multiprocessing.Manager()
    kept.append(manager)
    numbers = manager.list(range(16))
    return of(Numbers(lambda: numbers[0]))
