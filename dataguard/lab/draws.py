"""Which libraries draw random numbers, from the generators of Python, numpy and torch."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from dataguard.incident import is_library

_DRAWS = frozenset(
    {"rand", "randn", "randint", "randperm", "random", "getrandbits", "uniform", "normal", "bernoulli", "multinomial"}
    | {"uniform_", "normal_", "bernoulli_", "random_", "exponential_"}
)
"""Names of the functions in which draws end, all of them written in C."""
_PACKAGE = re.compile(r"[/\\](?:site|dist)-packages[/\\](\w+)")
_SERVING = ("torch", "numpy", "dataguard")
"""They draw, or give a seed, for whoever calls them."""


@contextlib.contextmanager
def drawing() -> Iterator[set[str]]:
    """Collect the names of the packages whose own code draws inside, in this thread."""
    found: set[str] = set()

    def profile(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and getattr(called, "__name__", "") in _DRAWS:
            found.update(filter(None, [package_at(frame)]))

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield found
    finally:
        sys.setprofile(before)


def package_at(frame: FrameType | None) -> str | None:
    """The package whose code is at work there: neither Python, numpy, torch nor dataguard, which serve it.

    None where the user's own code is.
    """
    while frame is not None:
        file = frame.f_code.co_filename
        installed = _PACKAGE.search(file)
        if installed is None and not is_library(file):
            return None
        if installed and installed[1] not in _SERVING:
            return installed[1]
        frame = frame.f_back
    return None
