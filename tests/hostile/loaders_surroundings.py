"""Loaders that change the process that they run in: streams, folder, environment, signals, limits, functions."""

from __future__ import annotations

import builtins
import faulthandler
import fcntl
import gc
import json
import multiprocessing
import os
import pickle
import random
import resource
import signal
import sys
import tempfile
import termios
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from tests.hostile.declared import hangs, named, passes
from tests.hostile.healthy import Numbers, after, healthy, in_main, in_worker, of


def nothing(*_: Any, **__: Any) -> Any:
    return None


def broken(*_: Any, **__: Any) -> Any:
    raise RuntimeError("out of order")


def noise() -> None:
    for number in (1, 2):
        os.write(number, os.urandom(1 << 16) + b"\x1b[2J\x1b]0;title\x07\x1bc\x0e")
    sys.stdout.write("{" * 10_000)
    sys.stderr.write("}" * 10_000)


@passes()
def binary_noise_in_worker() -> DataLoader:
    return in_worker(noise)


@passes(slow=True)
def binary_noise_in_factory() -> DataLoader:
    return after(noise)


@passes()
def closed_streams_in_worker() -> DataLoader:
    return in_worker(lambda: os.closerange(0, 3))


@passes(slow=True)
def closed_streams_in_factory() -> DataLoader:
    return after(lambda: os.closerange(0, 3))


@passes()
def closed_descriptors_in_main() -> DataLoader:
    return in_main(lambda: os.closerange(0, 1024))


@passes()
def closed_descriptors_in_factory() -> DataLoader:
    return after(lambda: os.closerange(0, 1024))


@passes()
def no_streams() -> DataLoader:
    return after(lambda: vars(sys).update(stdin=None, stdout=None, stderr=None))


def meddle() -> None:
    """Write to the terminal, and change its settings."""
    for path in ("/dev/tty", f"/proc/{os.getppid()}/fd/1", f"/proc/{os.getppid()}/fd/0"):
        try:
            terminal = os.open(path, os.O_RDWR | os.O_NOCTTY)
            settings = termios.tcgetattr(terminal)
            settings[3] &= ~(termios.ECHO | termios.ICANON)
            termios.tcsetattr(terminal, termios.TCSANOW, settings)
            fcntl.ioctl(terminal, termios.TIOCSTI, b"x")
        except (OSError, termios.error):
            continue


@passes()
def terminal_changed() -> DataLoader:
    return in_main(meddle)


def move() -> None:
    os.chdir("/")
    os.environ.clear()
    os.umask(0o777)
    sys.path.clear()
    sys.argv.clear()


@passes(slow=True)
def other_folder_in_worker() -> DataLoader:
    return in_worker(move)


@passes()
def other_folder_in_factory() -> DataLoader:
    return after(move)


def vanish() -> None:
    """Stand in a folder that does not exist any more."""
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    Path(folder).rmdir()


@passes()
def folder_that_is_gone() -> DataLoader:
    return after(vanish)


def ignore() -> None:
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)


@passes(slow=True)
def signals_ignored_in_worker() -> DataLoader:
    return in_worker(ignore)


@passes()
def signals_ignored_in_factory() -> DataLoader:
    return after(ignore)


@passes()
def signals_blocked() -> DataLoader:
    return after(lambda: signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()))


@named("DG001", "raised TimeoutError: too late")
def alarm_in_factory() -> DataLoader:
    def late(*_: object) -> None:
        raise TimeoutError("too late")

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
    return after(lambda: time.sleep(9))


@passes(slow=True)
def start_method_changed() -> DataLoader:
    return after(lambda: multiprocessing.set_start_method("spawn", force=True))


@passes(options=("--workers", "0"))
def few_descriptors() -> DataLoader:
    return after(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24)))


@passes(options=("--workers", "0"))
def no_more_processes() -> DataLoader:
    return after(lambda: resource.setrlimit(resource.RLIMIT_NPROC, (0, 0)))


@passes()
def no_core_and_no_stack() -> DataLoader:
    return after(lambda: resource.setrlimit(resource.RLIMIT_STACK, (1 << 16, 1 << 16)))


def other_root() -> DataLoader:
    os.chroot(tempfile.mkdtemp(prefix="root"))
    return of(Numbers(), num_workers=0)


def other_user() -> DataLoader:
    os.seteuid(65534)
    return healthy()


def small_files() -> DataLoader:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, 1 << 12))
    return healthy()


PREVENTING = {
    "other_root": "the user's code changes the root folder, with os.chroot",
    "other_user": "the user's code changes the user, with os.setuid or os.seteuid",
    "small_files": "the user's code changes the limit of file sizes, RLIMIT_FSIZE",
}
"""Factories after which nothing can be observed, and why."""


@named("DG001", "File too large", select="DG0")
def no_large_files() -> DataLoader:
    return in_main(write_more_than_allowed)


def write_more_than_allowed() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, 1 << 12))
    with tempfile.TemporaryFile() as file:
        file.write(bytes(1 << 16))


@passes()
def seeding_patched() -> DataLoader:
    random.seed = np.random.seed = torch.manual_seed = nothing
    return healthy()


@named("DG001", "raised RuntimeError: out of order")
def fork_patched() -> DataLoader:
    os.fork = broken
    return healthy()


@passes(slow=True)
def clock_patched() -> DataLoader:
    time.time = time.monotonic = time.perf_counter = lambda: 0.0
    return healthy()


@passes()
def clock_patched_in_main() -> DataLoader:
    def stop() -> None:
        time.time = time.monotonic = time.perf_counter = lambda: 0.0

    return in_main(stop)


def replace_functions() -> None:
    """Replace functions on which observing depends, but torch does not."""
    os.getpid = lambda: 42
    time.time = time.monotonic = time.perf_counter = time.process_time = lambda: 0.0
    pickle.dumps = signal.setitimer = os.rename = os.replace = broken


@passes()
def functions_replaced_in_factory() -> DataLoader:
    return after(replace_functions)


@passes()
def functions_replaced_in_worker() -> DataLoader:
    return in_worker(replace_functions)


@passes()
def functions_replaced_in_main() -> DataLoader:
    return in_main(replace_functions)


@passes()
def writing_patched() -> DataLoader:
    return in_main(patch_writing)


def patch_writing() -> None:
    pickle.dumps = json.dumps = builtins.open = builtins.print = broken


@passes()
def exits_patched() -> DataLoader:
    sys.exit = os.abort = nothing
    return healthy()


@passes()
def interpreter_changed() -> DataLoader:
    def change() -> None:
        sys.setrecursionlimit(80)
        sys.settrace(nothing)
        sys.setswitchinterval(1e-6)
        sys.excepthook = sys.unraisablehook = broken
        gc.disable()
        faulthandler.disable()

    return in_main(change)


@passes()
def modules_removed() -> DataLoader:
    def remove() -> None:
        for name in [name for name in sys.modules if name.startswith(("json", "pickle", "traceback", "pathlib"))]:
            del sys.modules[name]

    return in_main(remove)


@passes(makes="torchinductor*", slow=True)
def torch_changed() -> DataLoader:
    torch.set_default_dtype(torch.float64)
    torch.use_deterministic_algorithms(True)
    torch.set_grad_enabled(False)
    return of(Numbers())


@hangs("")
def descriptors_of_the_pipe_taken() -> DataLoader:
    return in_worker(take)


def take() -> None:
    os.closerange(3, 256)
    time.sleep(1000)
