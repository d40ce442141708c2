"""Modules of the standard library as they were before the user's code, which may replace their functions.

What observes runs in processes of the user's code, so it takes `os`, `time` and others from here. A test may freeze the
clocks before dataguard is imported: the clocks here ask the kernel. Standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os as os
    import pickle as pickle
    import signal as signal
    import time as time
else:
    from importlib import import_module
    from types import ModuleType

    def _copied(name):
        copy = ModuleType(name)
        vars(copy).update(vars(import_module(name)))
        return copy

    os, pickle, signal, time = map(_copied, ("os", "pickle", "signal", "time"))
    if hasattr(time, "clock_gettime"):
        _asked, _steady = time.clock_gettime, time.CLOCK_MONOTONIC

        def _monotonic():
            return _asked(_steady)

        time.monotonic = time.perf_counter = _monotonic

__all__ = ["os", "pickle", "signal", "time"]
