"""Whether a batch can be sent to the main process, tried where it was made."""

from __future__ import annotations

import io
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch


def try_to_send(batch: Any) -> None:
    """Pickle a batch like torch's queues do, and throw the result away; raises what they would.

    There it would happen in a feeder thread: the failure is silent, and the main process waits for ever.
    """
    _TransferPickler(io.BytesIO()).dump(batch)


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
