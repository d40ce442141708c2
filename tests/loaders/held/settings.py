"""What a factory sets for its whole process; the dataset checks that it is still set while reading."""

from __future__ import annotations

import decimal
import faulthandler
import gc
import locale
import os
import resource
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.loaders.held.kinds import binary, folder, kind, value


def _if(holds: Callable[[], bool]) -> tuple[None, Callable[[Any, int], int]]:
    return None, lambda _, index: value(index) * bool(holds())


@kind()
def decimal_context():
    decimal.getcontext().prec = 7
    return _if(lambda: decimal.getcontext().prec == 7)


@kind()
def own_locale():
    locale.setlocale(locale.LC_NUMERIC, "C.UTF-8")
    return _if(lambda: locale.setlocale(locale.LC_NUMERIC) == "C.UTF-8")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@kind()
def file_mask():
    os.umask(0o027)
    return _if(lambda: _umask() == 0o027)


@kind()
def working_folder():
    binary()
    os.chdir(folder())
    return None, lambda _, index: Path("data.bin").read_bytes()[index]


@kind()
def environment_variable():
    os.environ["HELD_SET"] = "1"
    return _if(lambda: os.environ["HELD_SET"] == "1")


@kind(anew="signal handler")
def signal_handler():
    signal.signal(signal.SIGUSR1, _handle)
    return _if(lambda: signal.getsignal(signal.SIGUSR1) is _handle)


def _handle(*_: object) -> None:
    pass


@kind(workers=0, anew="timer")
def interval_timer():
    signal.setitimer(signal.ITIMER_VIRTUAL, 3600)
    return _if(lambda: signal.getitimer(signal.ITIMER_VIRTUAL)[0] > 0)


@kind()
def temporary_root():
    root = folder() / "root"
    root.mkdir(exist_ok=True)
    tempfile.tempdir = str(root)
    return _if(lambda: tempfile.gettempdir() == str(root))


@kind()
def warning_filter():
    warnings.filterwarnings("ignore", message="held")
    return None, lambda _, index: (warnings.warn("held", stacklevel=1), value(index))[1]


@kind()
def recursion_limit():
    sys.setrecursionlimit(4321)
    return _if(lambda: sys.getrecursionlimit() == 4321)


@kind()
def resource_limit():
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (777, most))
    return _if(lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 777)


@kind(workers=0)
def torch_threads():
    torch.set_num_threads(1)
    return _if(lambda: torch.get_num_threads() == 1)


@kind()
def default_dtype():
    torch.set_default_dtype(torch.float64)
    return _if(lambda: torch.get_default_dtype() is torch.float64)


@kind()
def deterministic_algorithms():
    torch.use_deterministic_algorithms(True)
    return _if(torch.are_deterministic_algorithms_enabled)


@kind(needs="cv2")
def opencv_threads():
    import cv2

    cv2.setNumThreads(0)
    return _if(lambda: cv2.getNumThreads() <= 1)


@kind()
def fault_handler():
    faulthandler.enable()
    return _if(faulthandler.is_enabled)


_COLLECTED: list[int] = []


def _note(phase: str, _: dict[str, int]) -> None:
    _COLLECTED.append(len(phase))


@kind()
def collector_callback():
    gc.callbacks.append(_note)
    return _if(lambda: _note in gc.callbacks)


@kind()
def disabled_collector():
    gc.disable()
    return _if(lambda: not gc.isenabled())


@kind()
def import_path():
    sys.path.append(str(folder()))
    return _if(lambda: str(folder()) in sys.path)


@kind()
def no_gradients():
    torch.set_grad_enabled(False)
    return _if(lambda: not torch.is_grad_enabled())
