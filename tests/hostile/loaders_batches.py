"""Batches that a worker can pickle and the main process cannot load, and exceptions; with what plain torch does."""

from __future__ import annotations

import collections
import os
import pickle
import signal
import sys
import tempfile
import types
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader, default_collate, get_worker_info

from tests.hostile.healthy import Numbers, in_worker, of, sleep
from tests.hostile.loaders_exceptions import throw


class Delegates:
    """Forwards attributes to its data, and has none yet while it is loaded."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __getattr__(self, name: str) -> Any:
        return getattr(self.data, name)


class Reduced:
    """`__reduce__` forgets the argument."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __reduce__(self) -> Any:
        return Reduced, ()


class Renewed:
    """`__getnewargs__` gives more than `__new__` takes."""

    def __new__(cls, data: Any = None) -> Renewed:
        return super().__new__(cls)

    def __init__(self, data: Any) -> None:
        self.data = data

    def __getnewargs__(self) -> Any:
        return self.data, self.data


class CheckedError(Exception):
    """Its constructor takes two arguments, of which it passes on one."""

    def __init__(self, file: str, line: int) -> None:
        super().__init__(f"{file}:{line}")


class Row(NamedTuple):
    x: Any
    y: Any


class Shifted(Row):
    """A named tuple whose `__new__` takes less than its fields."""

    def __new__(cls, x: Any) -> Shifted:
        return super().__new__(cls, x, x)


class Counted(list):
    """A list that counts its items in an attribute that it does not have while it is loaded."""

    def __init__(self, items: Any) -> None:
        self.items = 0
        for item in items:
            self.append(item)

    def append(self, item: Any) -> None:
        self.items += 1
        super().append(item)

    def extend(self, items: Any) -> None:
        for item in items:
            self.append(item)


class Logged(dict):
    """A dict that logs its changes in an attribute that it does not have while it is loaded."""

    def __init__(self, **items: Any) -> None:
        self.log: list[str] = []
        for key, item in items.items():
            self[key] = item

    def __setitem__(self, key: str, item: Any) -> None:
        self.log.append(key)
        super().__setitem__(key, item)


class Fixed:
    """Attributes that cannot be set again, not even when they are loaded."""

    __slots__ = ("data",)

    def __init__(self, data: Any) -> None:
        object.__setattr__(self, "data", data)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name} is read-only")


class Node:
    """Its hash needs its name, which it gets after the set that contains it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.near = {self}

    def __hash__(self) -> int:
        return hash(self.name)


class State:
    """What it does with its state when it is loaded."""

    act: Callable[[], Any] = staticmethod(lambda: None)

    def __init__(self, data: Any) -> None:
        self.data = data

    def __getstate__(self) -> Any:
        return {"data": self.data}

    def __setstate__(self, state: Any) -> None:
        self.act()
        self.__dict__.update(state)


def state(name: str, act: Callable[[], Any]) -> Any:
    """A class of this name that does so."""
    cls = type(name, (State,), {"act": staticmethod(act), "__module__": __name__})
    setattr(sys.modules[__name__], name, cls)
    return cls


Raises = state("Raises", lambda: throw(ValueError("an old version")))
Elsewhere = state("Elsewhere", lambda: get_worker_info().id)  # type: ignore[union-attr]
Sleeps = state("Sleeps", sleep)
Exits = state("Exits", lambda: os._exit(3))
Leaves = state("Leaves", lambda: sys.exit(3))
Killed = state("Killed", lambda: os.kill(os.getpid(), signal.SIGKILL))
Crashes = state("Crashes", lambda: os.kill(os.getpid(), signal.SIGSEGV))


class Scaled(torch.Tensor):
    """A tensor that demands a scale of its state."""

    def __setstate__(self, state: Any) -> None:
        self.scale = state["scale"]


def scaled(x: Any) -> Any:
    made = x.as_subclass(Scaled)
    made.shown = "attributes make it travel with a state"
    return made


def registered_in_worker(x: Any) -> Any:
    """A class that a worker makes when it first needs it; the main process never does."""
    if "Lazy" not in globals():
        globals()["Lazy"] = collections.namedtuple("Lazy", ["x"])
    return globals()["Lazy"](x)


def imported_in_worker(x: Any) -> Any:
    """A class of a module that exists in the worker alone."""
    module = sys.modules.setdefault("plugin_of_worker", types.ModuleType("plugin_of_worker"))
    if not hasattr(module, "Item"):
        module.Item = type("Item", (), {"__module__": "plugin_of_worker"})  # type: ignore[attr-defined]
    return module.Item()


class Opened:
    """A file that is opened again when it is loaded."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.file = Path(path).open()  # noqa: SIM115 - stays open

    def __getstate__(self) -> Any:
        return {"path": self.path}

    def __setstate__(self, state: Any) -> None:
        self.__init__(state["path"])  # type: ignore[misc]


def opened_for_a_moment(x: Any) -> Any:
    """A file that is gone as soon as the batch is made."""
    with tempfile.NamedTemporaryFile() as file:
        return Opened(file.name)


class Refers:
    """`__reduce_ex__` calls a function that raises."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        return pickle.loads, (b"no pickle",)


class Guarded(Delegates):
    """As it should be: special names are not forwarded."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "data":
            raise AttributeError(name)
        return getattr(self.data, name)


class Slots:
    __slots__ = ("data",)

    def __init__(self, data: Any) -> None:
        self.data = data


@dataclass(frozen=True, slots=True)
class Frozen:
    x: Any


class Looks:
    """Looks at its tensor when it is loaded."""

    def __init__(self, x: Any) -> None:
        self.x = x
        self.total = float(x.sum())

    def __setstate__(self, state: Any) -> None:
        assert state["x"].shape == (4, 3)
        assert float(state["x"].sum()) == state["total"]
        self.__dict__.update(state)


class Named(torch.Tensor):
    """A tensor with a name."""


def named_tensor(x: Any) -> Any:
    made = x.as_subclass(Named)
    made.name_of_it = "x"
    return made


class Pins:
    """Pins its own memory."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def pin_memory(self) -> Pins:
        self.x = self.x.pin_memory()
        return self


def many(x: Any) -> Any:
    """All that travels well."""
    return {
        "sparse": x.to_sparse(),
        "view": x.T[1:, ::2],
        "leaf": x.clone().requires_grad_(),
        "parameter": torch.nn.Parameter(x.clone()),
        "packed": torch.nn.utils.rnn.pack_sequence([x[0], x[1]]),
        "empty": x[:0],
        "iterator": iter([x, x]),
        "storage": x.untyped_storage(),
        "complex": torch.complex(x, x).conj(),
        "row": Row(x, x),
        "array": x.numpy(),
        "class": Frozen,
    }


def healthy_objects(x: Any) -> Any:
    return [many(x), *(make(x) for make in (Guarded, Slots, Frozen, Looks, named_tensor, Pins)), Opened(__file__)]


class Adds:
    """A collate_fn that adds something to the batch."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self.make = make

    def __call__(self, samples: Any) -> Any:
        x, y = default_collate(samples)
        return {"x": x, "y": y, "more": self.make(x)}


class Passing(DataLoader):
    """Passes batches on, which must be real for it."""

    def __iter__(self) -> Any:
        for batch in super().__iter__():
            assert batch["x"].shape == (4, 3)
            yield batch


class TwoPartError(Exception):
    def __init__(self, file: str, line: int) -> None:
        super().__init__(file, line)


class MessageError(Exception):
    message = "a class attribute, and no parameter"


class UnknownKeyError(KeyError):
    def __init__(self, key: str) -> None:
        if len(key) > 10:
            throw(RuntimeError("no such key"))
        super().__init__(key)


class SleepingError(Exception):
    def __init__(self, text: str) -> None:
        if len(text) > 10:
            sleep()


class ExitingError(Exception):
    def __init__(self, text: str) -> None:
        if len(text) > 10:
            os._exit(3)


def local() -> None:
    class LocalError(Exception): ...

    raise LocalError


def local_in_worker() -> None:
    """The class is found in the worker alone."""
    globals()["WorkerError"] = type("WorkerError", (Exception,), {"__module__": __name__})
    throw(globals()["WorkerError"]("no"))


def adding(make: Callable[[Any], Any], **settings: Any) -> Callable[[], DataLoader]:
    return partial(of, Numbers(), collate_fn=Adds(make), **settings)


def raising(make: Callable[[], Any]) -> Callable[[], DataLoader]:
    return partial(in_worker, make)


RAISED, HUNG, DIED = "DG001", "DG003", "DG002"
LOADING = "while unpickling a batch in the main process"
CASES: dict[str, tuple[str | None, str, Callable[[], DataLoader]]] = {
    "delegates": (RAISED, "RecursionError", adding(Delegates)),
    "reduced": (RAISED, "TypeError", adding(Reduced)),
    "renewed": (RAISED, "TypeError", adding(Renewed)),
    "checked": (RAISED, "TypeError", adding(lambda x: CheckedError("a.txt", 3))),
    "shifted": (RAISED, "TypeError", adding(Shifted)),
    "counted": (RAISED, "AttributeError", adding(lambda x: Counted([1, 2]))),
    "logged": (RAISED, "AttributeError", adding(lambda x: Logged(x=1))),
    "fixed": (RAISED, "AttributeError: data is read-only", adding(Fixed)),
    "node": (RAISED, "AttributeError", adding(lambda x: Node("a"))),
    "raises": (RAISED, "ValueError: an old version", adding(Raises)),
    "elsewhere": (RAISED, "AttributeError", adding(Elsewhere)),
    "scaled": (RAISED, "KeyError: 'scale'", adding(scaled)),
    "registered": (RAISED, "class Lazy", adding(registered_in_worker)),
    "imported": (RAISED, "ModuleNotFoundError", adding(imported_in_worker)),
    "removed": (RAISED, "FileNotFoundError", adding(opened_for_a_moment)),
    "refers": (RAISED, "UnpicklingError", adding(lambda x: Refers())),
    "subclass": (RAISED, "class Delegates", lambda: Passing(Numbers(), 4, num_workers=2, collate_fn=Adds(Delegates))),
    "sleeps": (HUNG, LOADING, adding(Sleeps)),
    "exits": (DIED, f"exited with status 3 {LOADING}", adding(Exits)),
    "leaves": (DIED, f"SystemExit: 3 {LOADING}", adding(Leaves)),
    "killed": (DIED, f"SIGKILL {LOADING}", adding(Killed)),
    "crashes": (DIED, f"SIGSEGV {LOADING}", adding(Crashes)),
    "error of two parts": (RAISED, "TwoPartError", raising(partial(throw, TwoPartError("a", 1)))),
    "error with a message": (RAISED, "MessageError: no", raising(partial(throw, MessageError("no")))),
    "error without its key": (RAISED, "UnknownKeyError", raising(partial(throw, UnknownKeyError("no")))),
    "error of the worker": (RAISED, "WorkerError", raising(local_in_worker)),
    "error that sleeps": (HUNG, "while iterating", raising(partial(throw, SleepingError("no")))),
    "error of a function": (HUNG, "an exception cannot be sent", raising(local)),
    "error that exits": (DIED, "exited with status 3", raising(partial(throw, ExitingError("no")))),
    "healthy": (None, "", adding(healthy_objects)),
    "healthy and pinned": (None, "", adding(healthy_objects, pin_memory=True)),
    "healthy and passed on": (None, "", lambda: Passing(Numbers(), 4, num_workers=2, collate_fn=Adds(healthy_objects))),
}


make_spawned = adding(Delegates, multiprocessing_context="spawn")


def make_loaders() -> dict[str, DataLoader]:
    return {name: make() for name, (_, _, make) in CASES.items()}
