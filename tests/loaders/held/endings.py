"""What runs at the end: finalizers, exit handlers and destructors. Each writes a line when it runs."""

from __future__ import annotations

import atexit
import os
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.loaders.held.kinds import BYTES, Held, folder, kind, value


def note(name: str, what: str) -> None:
    """Write a line for a call of a factory, or for its end."""
    with (folder() / f"{name}.calls").open("a") as file:
        file.write(f"{what}\n")


class Noting(Held):
    def __init__(self, name: str) -> None:
        super().__init__(None, lambda _, index: value(index))
        self.name = name
        note(name, "made")


@kind()
def finalizer():
    held = Noting("finalizer")
    weakref.finalize(held, note, "finalizer", "ended")
    return held


@kind()
def exit_handler():
    atexit.register(note, "exit_handler", "ended")
    return Noting("exit_handler")


class Deleting(Noting):
    def __del__(self) -> None:
        if os.getpid() == self.owner:
            note(self.name, "ended")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.owner = os.getpid()


@kind()
def destructor():
    return Deleting("destructor")


def _beside_thread(make: Callable[[], Any]) -> Any:
    """Leave a thread, so that the factory is called in each observation."""
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    return make()


@kind(anew="threads")
def finalizer_anew():
    def make() -> Any:
        held = Noting("finalizer_anew")
        weakref.finalize(held, note, "finalizer_anew", "ended")
        return held

    return _beside_thread(make)


@kind(anew="threads")
def exit_handler_anew():
    atexit.register(note, "exit_handler_anew", "ended")
    return _beside_thread(lambda: Noting("exit_handler_anew"))


@kind(anew="threads")
def temporary_folder_anew():
    made = tempfile.TemporaryDirectory(prefix="held-")
    Path(made.name, "data").write_bytes(BYTES)
    return _beside_thread(lambda: (made, lambda made, index: Path(made.name, "data").read_bytes()[index]))


@kind(workers=0)
def replaced_folder():
    """Makes a temporary folder anew for each round of samples, which frees the one of the factory."""

    class Rounds:
        def __init__(self) -> None:
            self.make()

        def make(self) -> None:
            self.folder = tempfile.TemporaryDirectory(prefix="held-")
            Path(self.folder.name, "data").write_bytes(BYTES)

        def read(self, index: int) -> int:
            found = Path(self.folder.name, "data").read_bytes()[index]
            if index == 0:
                self.make()
            return found

    return Rounds(), lambda rounds, index: rounds.read(index)


@kind(workers=0)
def file_in_circle():
    """A temporary file that only the collector frees."""
    held = Held(tempfile.NamedTemporaryFile(prefix="held-"), lambda _, index: value(index))  # noqa: SIM115 - held
    held.held.circle = held
    return held
