"""Exceptions that are easily mistaken for something else, or that refuse to be handled."""

from __future__ import annotations

import argparse
import resource
import sys
import threading
import warnings
from typing import Any

import numpy as np
from torch.utils.data import DataLoader

from tests.hostile.declared import named, passes
from tests.hostile.healthy import Numbers, healthy, in_collate, in_init, in_main, in_sampler, in_worker, of


def throw(error: Any) -> None:
    raise error


def interrupt() -> None:
    raise KeyboardInterrupt


def goodbye() -> None:
    sys.exit(3)


@named("DG001", "raised KeyboardInterrupt", slow=True)
def interrupt_in_main() -> DataLoader:
    return in_main(interrupt)


@named("DG001", "raised KeyboardInterrupt", slow=True)
def interrupt_in_worker() -> DataLoader:
    return in_worker(interrupt)


@named("DG001", "raised KeyboardInterrupt")
def interrupt_in_sampler() -> DataLoader:
    return in_sampler(interrupt)


@named("DG001", "calling the factory raised KeyboardInterrupt")
def interrupt_in_factory() -> DataLoader:
    interrupt()
    return healthy()


@named("DG002", "SystemExit: 3")
def goodbye_in_main() -> DataLoader:
    return in_main(goodbye)


@named("DG002", "exited with status 3")
def goodbye_in_collate() -> DataLoader:
    return in_collate(goodbye)


@named("DG002", "exited with status 3", slow=True)
def goodbye_in_init() -> DataLoader:
    return in_init(goodbye)


@named("DG001", "calling the factory raised SystemExit: 3")
def goodbye_in_factory() -> DataLoader:
    goodbye()
    return healthy()


@named("DG001", "SystemExit: 2; its last words: ")
def factory_that_parses_the_command_line() -> DataLoader:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.parse_args()
    return healthy()


class Bare(BaseException):
    """Not an Exception."""


@named("DG001", "raised Bare: bare", slow=True)
def base_exception_in_main() -> DataLoader:
    return in_main(lambda: throw(Bare("bare")))


@named("DG001", "raised Bare: bare")
def base_exception_in_worker() -> DataLoader:
    return in_worker(lambda: throw(Bare("bare")))


@named("DG001", "raised GeneratorExit")
def generator_exit_in_worker() -> DataLoader:
    return in_worker(lambda: throw(GeneratorExit()))


@named("DG001", "raised RecursionError")
def recursion_in_worker() -> DataLoader:
    return in_worker(recurse)


def recurse() -> None:
    recurse()


class Unspeakable(Exception):
    """Cannot be pickled, shown, compared, or told apart from nothing."""

    def __init__(self, *_: object) -> None:
        self.lock = threading.Lock()

    def _refuse(self, *_: object) -> Any:
        raise RuntimeError("no words")

    __str__ = __repr__ = __eq__ = __hash__ = __bool__ = __reduce__ = _refuse


@named("DG001", "raised Unspeakable", slow=True)
def unspeakable_in_main() -> DataLoader:
    return in_main(lambda: throw(Unspeakable()))


@named("DG001", "raised Unspeakable")
def unspeakable_in_worker() -> DataLoader:
    return in_worker(lambda: throw(Unspeakable()))


@named("DG001", "raised Unspeakable", slow=True)
def unspeakable_in_collate() -> DataLoader:
    return in_collate(lambda: throw(Unspeakable()))


@named("DG001", "raised Unspeakable")
def unspeakable_in_factory() -> DataLoader:
    throw(Unspeakable())
    return healthy()


class Exiting(Exception):
    """Leaves while it is shown."""

    def __str__(self) -> str:
        sys.exit(4)


@named("DG001", "raised Exiting")
def exception_that_exits_when_shown() -> DataLoader:
    return in_main(lambda: throw(Exiting()))


@named("DG001", "raised ValueError: !!!!!!")
def exception_of_many_words() -> DataLoader:
    return in_worker(lambda: throw(ValueError("!" * 3_000_000)))


@named("DG001", "raised ValueError: \x1b]0;title")
def exception_of_control_characters() -> DataLoader:
    return in_main(lambda: throw(ValueError("\x1b]0;title\x07\x1b[2J\r\udcff<script>\n::error::words")))


@named("DG001", "raised KeyError")
def exception_that_is_its_own_cause() -> DataLoader:
    return in_main(circle)


def circle() -> None:
    first, second = KeyError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    raise first


@named("DG001", "raised UserWarning")
def warnings_as_errors() -> DataLoader:
    warnings.simplefilter("error")
    return in_main(lambda: warnings.warn("this is an error now", stacklevel=2))


@named("DG204", "dataset[5] raises StopIteration", select="DG0,DG204")
def stop_iteration_in_main() -> DataLoader:
    return in_main(lambda: throw(StopIteration()))


@named("DG001", "raised MemoryError", options=("--workers", "1"))
def memory_hog_under_a_limit() -> DataLoader:
    return in_worker(hog)


def hog() -> None:
    limit = 3 << 30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    held = []
    while True:
        held.append(bytearray(1 << 28))


@named("DG001", "Unable to allocate")
def array_of_petabytes() -> DataLoader:
    return in_main(lambda: np.zeros(1 << 50))


class Pickled(Numbers):
    def __reduce__(self) -> Any:
        raise KeyboardInterrupt


@passes()
def dataset_that_interrupts_its_pickling() -> DataLoader:
    return of(Pickled())
