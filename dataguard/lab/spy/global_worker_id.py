"""Where a worker of a stream sits among those of all ranks that share a scan."""

from __future__ import annotations

from torch.utils.data import get_worker_info


def take_seat(worker: int, rank: int, world: int) -> int:
    """Let `get_worker_info` speak of the workers of all `world` ranks as if one loader had them; returns the number.

    Its seed stays the one that torch gave to this worker. The object refuses to be assigned to.
    """
    info = get_worker_info()
    assert info is not None
    seat = rank * info.num_workers + worker
    seats = world * info.num_workers
    for name, value in (("id", seat), ("num_workers", seats)):
        object.__setattr__(info, name, value)
    return seat
