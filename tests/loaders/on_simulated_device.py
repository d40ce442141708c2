"""The samples of checks that need an accelerator, on a machine whose accelerator is simulated."""

from __future__ import annotations

from typing import Any

from sample_datasets import dg405_unpinnable_batch, dg408_device_tensor_in_worker, dg802_unoverlapped_copy
from tests.support.simulated_device import KIND

MODULES = dg405_unpinnable_batch, dg408_device_tensor_in_worker, dg802_unoverlapped_copy
dg408_device_tensor_in_worker.DEVICE = KIND


def loaders() -> dict[str, Any]:
    """Every face, as `DG802.bad`."""
    return {
        f"{module.__name__.rpartition('.')[2][:5].upper()}.{name}": make()
        for module in MODULES
        for name, make in vars(module).items()
        if name.partition("_")[0] in ("bad", "good")
    }
