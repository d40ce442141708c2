"""Whether a batch reaches the main process: a worker pickles it like torch's queues do, and the main process loads it.

So does an exception, by its class. Every batch is pickled, without the contents of its tensors. One of each kind
travels whole: whether it loads is decided by the classes that it consists of.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import replace
from multiprocessing.reduction import ForkingPickler
from types import FunctionType
from typing import Any

import torch

from dataguard.incident import Incident
from dataguard.lab.core.instrument import Process
from dataguard.lab.core.records import Failure
from dataguard.lab.process.exceptions import incident_of, shown_batch

MOST_NAMES = 3
"""Most classes of a batch that are named."""
_PLAIN = ("builtins", "collections", "copyreg", "numpy", "torch", "multiprocessing")
"""Packages whose classes are named only if there are no others."""


class BatchSender:
    """Decides which batches of one worker travel to the main process."""

    def __init__(self, worker: int) -> None:
        self._worker = worker
        self._loaded: dict[int, Any] = {id(torch.Tensor): torch.Tensor}
        self._new: dict[int, Any] = {}

    def why_not_sent(self, batch: Any, indices: Sequence[Any]) -> Incident | None:
        """Pickle a batch like torch's queues do, discard the result, and return what was raised.

        In a queue it would happen in a feeder thread: the failure is silent, and the main process waits forever.
        """
        pickler = _TransferPickler()
        try:
            pickler.dump(batch)
        except Exception as error:  # noqa: BLE001 - the user's own __reduce__ may raise anything
            return incident_of(error, "transfer", None, indices, self._worker)
        finally:
            self._new = {key: part for key, part in pickler.parts.items() if key not in self._loaded}
        return None

    def parcel_of(self, batch: Any, indices: Sequence[Any], *, carry: bool) -> Parcel | None:
        """The batch that was pickled last, as it travels; None if all of its classes have been loaded before."""
        if not self._new:
            return None
        self._loaded.update(self._new)
        content = ForkingPickler.dumps(batch).tobytes()
        return Parcel(self._worker, indices, _names(self._new.values()), content, carry=carry)


def why_not_raised(error: BaseException) -> str | None:
    """Why the main process never hears of an exception: torch's queues pickle its class by name; None if they can."""
    try:
        ForkingPickler.dumps(type(error))
    except Exception as refused:  # noqa: BLE001 - a user-defined metaclass may raise anything
        return f"{type(refused).__name__}: {refused}"
    return None


class Parcel:
    """A batch on its way to the main process, which loads it where torch does, and gives it to the loop if `carry`.

    `classes` are the names of those that have not been loaded before.
    """

    def __init__(self, worker: int, indices: Sequence[Any], classes: str, content: bytes, *, carry: bool) -> None:
        self._parts = worker, shown_batch(indices), classes, content, carry

    def __reduce__(self) -> tuple[Any, ...]:
        return _receive, self._parts


def receive_in(main: Process) -> None:
    """Let parcels that arrive in this process report to it."""
    _mains[:] = [main]


_mains: list[Process] = []


def _receive(worker: int, indices: tuple[str, ...], classes: str, content: bytes, carry: bool) -> Any:
    """Called where torch loads a parcel: load the batch in it, and report what the user's objects raise."""
    recorder, spool = _mains[0].recorder, _mains[0].spool
    recorder.mark(None, "receive", classes=classes)
    try:
        batch = ForkingPickler.loads(content)
    # Nothing is swallowed: SystemExit ends this process, and is distinguished later.
    except BaseException as error:
        incident = replace(incident_of(error, "receive", worker=worker), batch=indices, classes=classes)
        spool.write(Failure(None, 0, incident))
        raise
    finally:
        recorder.mark(None, "iterate")
    return batch if carry else None


class _TransferPickler(ForkingPickler):
    """Pickles like torch's queues, but leaves tensor contents where they are.

    `parts` are the classes of the objects in it, and the classes and functions that it names, by id: user-defined
    metaclasses may not hash.
    """

    def __init__(self) -> None:
        super().__init__(io.BytesIO())
        self.parts: dict[int, Any] = {}

    def reducer_override(self, value: Any) -> Any:
        part = value if isinstance(value, type | FunctionType) else type(value)
        self.parts[id(part)] = part
        if isinstance(value, torch.Tensor):
            if value.requires_grad and not value.is_leaf:
                raise RuntimeError(
                    "a non-leaf tensor that requires grad cannot be sent to another process: detach() it"
                )
            return torch.Tensor, ()
        return NotImplemented


def _names(parts: Iterable[Any]) -> str:
    """The classes among these for the reader, the user's own if there are any."""
    classes = [part for part in parts if isinstance(part, type)]
    own = [cls for cls in classes if cls.__module__.partition(".")[0] not in _PLAIN]
    return ", ".join(cls.__qualname__ for cls in (own or classes)[:MOST_NAMES])
