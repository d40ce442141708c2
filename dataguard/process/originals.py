"""Modules of the standard library as they were before the user's code, which may replace their functions.

What observes runs in processes of the user's code, so it takes `os`, `time` and others from here. A test may replace
some before dataguard is imported: functions in C are taken from the modules that define them, and the clocks here ask
the kernel. Standard library only.
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
    from os import name
    from types import ModuleType

    def _copied(name, defining=""):
        copy, namespace = ModuleType(name), vars(import_module(name))
        first = vars(import_module(defining)) if defining else {}
        vars(copy).update(
            namespace, **{key: value for key, value in first.items() if key in namespace and callable(value)}
        )
        return copy

    os = _copied("os", "posix" if name == "posix" else "nt")
    pickle, signal, time = _copied("pickle", "_pickle"), _copied("signal"), _copied("time")
    if hasattr(time, "clock_gettime"):
        _asked, _steady = time.clock_gettime, time.CLOCK_MONOTONIC

        def _monotonic():
            return _asked(_steady)

        time.monotonic = time.perf_counter = _monotonic

__all__ = ["os", "pickle", "signal", "time"]
