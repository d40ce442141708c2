"""Where a report was made: versions, and facts of the machine."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from dataguard.about import PACKAGE
from dataguard.machine.machine import Machine

_PACKAGES = (PACKAGE, "torch", "torchvision", "numpy", "opencv-python", "opencv-python-headless", "pillow")


def environment() -> dict[str, Any]:
    """Versions and machine facts for a report."""
    machine = Machine.read()
    packages = {}
    for package in _PACKAGES:
        try:
            packages[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "python": machine.python,
        "platform": machine.platform,
        "cores": machine.cores,
        "start_method": machine.start_method,
        "shm_free": machine.shm_free,
        "packages": packages,
    }
