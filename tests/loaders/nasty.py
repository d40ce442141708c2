"""Loaders that raise, die, hang, fork, print and mutate. Copied into an empty project and scanned from there."""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

Loaders = dict[str, DataLoader]
BIG = 1 << 20


def segfault() -> None:
    ctypes.string_at(0)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def leave() -> None:
    os._exit(7)


def say_goodbye() -> None:
    sys.exit(3)


def parse() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.parse_args()


def interrupt() -> None:
    raise KeyboardInterrupt


def sleep() -> None:
    time.sleep(1000)


class Numbers(Dataset):
    def __init__(self, act: Callable[[], Any] | None = None, at: int = 5) -> None:
        self.act = act
        self.at = at

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> Any:
        number = range(16)[index]
        if self.act is not None and number == self.at:
            self.act()
        return torch.full((3,), float(number)), number


class Stream(IterableDataset):
    def __init__(self, act: Callable[[], Any]) -> None:
        self.act = act

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        yield from (torch.full((3,), float(number)) for number in range(info.id if info else 0, 8, 2))
        self.act()


class Acting:
    """A collate_fn, worker_init_fn or sampler that does something first."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self.act = act

    def __call__(self, given: Any) -> Any:
        self.act()
        return given

    def __len__(self) -> int:
        return 16

    def __iter__(self) -> Iterator[int]:
        yield from range(4)
        self.act()


def everywhere(act: Callable[[], Any]) -> Loaders:
    name = act.__name__
    return {
        f"{name}_main": DataLoader(Numbers(act), batch_size=4),
        f"{name}_worker": DataLoader(Numbers(act), batch_size=4, num_workers=2),
        f"{name}_collate": DataLoader(Numbers(), batch_size=4, num_workers=2, collate_fn=Acting(act)),
        f"{name}_init": DataLoader(Numbers(), batch_size=4, num_workers=2, worker_init_fn=Acting(act)),
        f"{name}_sampler": DataLoader(Numbers(), batch_size=4, num_workers=2, sampler=Acting(act)),
        f"{name}_stream": DataLoader(Stream(act), batch_size=4, num_workers=2),
    }


def healthy() -> DataLoader:
    return DataLoader(Numbers(), batch_size=4, num_workers=2)


def deaths() -> Loaders:
    return {**everywhere(segfault), "healthy": healthy()}


def hangs() -> Loaders:
    slept = everywhere(sleep)
    return {**{name: slept[name] for name in ("sleep_main", "sleep_worker")}, "healthy": healthy()}


def daemon() -> None:
    """Leave a process behind that has left our session, closed everything and does not listen."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            os.closerange(0, 256)
            time.sleep(1000)
        os._exit(0)


def child() -> None:
    subprocess.Popen(["sleep", "1000"], start_new_session=True)


def thread() -> None:
    threading.Thread(target=sleep).start()


def babble() -> None:
    for number in range(200):
        sys.stdout.write("{" * 10_000 + f"{number}\n")
        sys.stderr.write("}" * 10_000)
    os.write(1, b"{" * BIG)


def leave_shared_memory() -> None:
    from multiprocessing import resource_tracker

    for untracked in (False, True):
        memory = shared_memory.SharedMemory(create=True, size=4096)
        if untracked:
            resource_tracker.unregister(f"/{memory.name}", "shared_memory")
        kept.append(memory)
    Path(f"/dev/shm/nasty-{os.getpid()}").write_bytes(b"x" * 4096)


kept: list[Any] = []


def leave_shared_tensors() -> None:
    torch.multiprocessing.set_sharing_strategy("file_system")
    kept.append(torch.zeros(4096).share_memory_())


def change_everything() -> None:
    os.chdir("/")
    os.environ.clear()
    sys.path.clear()
    vars(sys).update(stdout=None, stderr=None)
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        signal.signal(number, signal.SIG_IGN)


def close_output() -> None:
    os.closerange(1, 3)


def after(act: Callable[[], Any]) -> Callable[[], DataLoader]:
    """A factory that does something before it makes a healthy loader."""

    def make() -> DataLoader:
        act()
        return healthy()

    return make


def segfault_factory() -> DataLoader:
    return after(segfault)()


def slow_hang() -> DataLoader:
    """Everything at once, for those who interrupt the scan."""
    daemon()
    child()
    leave_shared_memory()
    leave_shared_tensors()
    return DataLoader(Numbers(sleep), batch_size=4, num_workers=2)


class Served(Numbers):
    """Asks a process that the module started at import."""

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(service["numbers"][index])


service: Any = {}


def start_service() -> None:
    manager = multiprocessing.get_context("fork").Manager()
    kept.append(manager)
    service["numbers"] = manager.list(range(16))


def served() -> DataLoader:
    return DataLoader(Served(), batch_size=4, num_workers=2)


AT_IMPORT = {
    "service": start_service,
    "segfault": segfault,
    "kill": kill,
    "leave": leave,
    "goodbye": say_goodbye,
    "parse": parse,
    "interrupt": interrupt,
    "sleep": sleep,
    "thread": thread,
    "daemon": daemon,
    "child": child,
    "babble": babble,
    "close_output": close_output,
    "change": change_everything,
    "shared": leave_shared_memory,
    "tensors": leave_shared_tensors,
}
if wish := os.environ.get("NASTY_IMPORT"):
    for wanted in wish.split(","):
        AT_IMPORT[wanted]()
