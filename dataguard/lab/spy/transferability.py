"""Whether a batch can be sent to the main process, tried where it was made."""

from __future__ import annotations

import io
from collections.abc import Sequence
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch

from dataguard.incident import Incident
from dataguard.lab.process.exceptions import incident_of


def why_not_sent(batch: Any, indices: Sequence[Any], worker: int) -> Incident | None:
    """Pickle a batch like torch's queues do, discard the result, and return what was raised.

    In a queue it would happen in a feeder thread: the failure is silent, and the main process waits forever.
    """
    try:
        _TransferPickler(io.BytesIO()).dump(batch)
    except Exception as error:  # noqa: BLE001 - the user's own __reduce__ may raise anything
        return incident_of(error, "transfer", None, indices, worker)
    return None


class _TransferPickler(ForkingPickler):
    """Pickles like torch's queues, but leaves tensor contents where they are."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if value.requires_grad and not value.is_leaf:
                raise RuntimeError(
                    "a non-leaf tensor that requires grad cannot be sent to another process: detach() it"
                )
            return torch.Tensor, ()
        return NotImplemented
