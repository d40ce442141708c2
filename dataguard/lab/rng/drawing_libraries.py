"""Which libraries draw random numbers from the generators of Python, numpy and torch."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Collection, Iterator
from types import FrameType, ModuleType
from typing import Any

from dataguard.incident import is_library

_DRAWS = frozenset(
    {"rand", "randn", "randint", "randperm", "random", "getrandbits", "uniform", "normal", "bernoulli", "multinomial"}
    | {"uniform_", "normal_", "bernoulli_", "random_", "exponential_"}
)
"""The functions that finally draw, all of them written in C."""
_PACKAGE = re.compile(r"[/\\](?:site|dist)-packages[/\\](\w+)")
_ON_BEHALF = ("torch", "numpy", "dataguard")
"""Packages that draw or seed on behalf of their caller."""


@contextlib.contextmanager
def drawing() -> Iterator[set[tuple[str, str]]]:
    """Collect the packages whose own code draws in this thread, each with the owner of the generator."""
    found: set[tuple[str, str]] = set()

    def profile(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and getattr(called, "__name__", "") in _DRAWS:
            package = package_at(frame)
            if package:
                found.add((package, _owner(called)))

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield found
    finally:
        sys.setprofile(before)


def _owner(called: Any) -> str:
    """The module whose generator a function draws from: random, numpy or torch."""
    own = getattr(called, "__self__", None)
    module = own.__name__ if isinstance(own, ModuleType) else (own if isinstance(own, type) else type(own)).__module__
    top = module.partition(".")[0]
    return "torch" if top == "builtins" else top  # torch's own functions belong to no module


SHARED = {
    "random.seed": ("random",),
    "random.setstate": ("random",),
    "numpy.random.seed": ("numpy", "random"),  # draws of numpy are invisible to a profiler; most code draws from both
    "numpy.random.set_state": ("numpy", "random"),
    "torch.manual_seed": ("torch",),
    "torch.set_rng_state": ("torch",),
}
"""The modules whose draws depend on each function that seeds a global generator.

Libraries do not use the generators that the user's code creates.
"""


def depending(drawn: Collection[tuple[str, str]], kinds: Collection[str]) -> tuple[str, ...]:
    """The packages that drew and whose draws depend on seeds of these kinds."""
    owners = {owner for kind in kinds for owner in SHARED.get(kind, ())}
    return tuple(sorted({package for package, owner in drawn if owner in owners}))


@contextlib.contextmanager
def draws_ignored() -> Iterator[None]:
    """Make `drawing` ignore draws inside this block."""
    before = sys.getprofile()
    sys.setprofile(None)
    try:
        yield
    finally:
        sys.setprofile(before)


def package_at(frame: FrameType | None) -> str | None:
    """The package whose code runs in this frame, skipping Python, numpy, torch and dataguard, which draw for a caller.

    None for the user's own code.
    """
    while frame is not None:
        file = frame.f_code.co_filename
        installed = _PACKAGE.search(file)
        if installed is None and not is_library(file):
            return None
        if installed and installed[1] not in _ON_BEHALF:
            return installed[1]
        frame = frame.f_back
    return None
