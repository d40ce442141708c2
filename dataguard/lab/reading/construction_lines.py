"""Where the user's code constructs its loaders."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dataguard.lab.core.source_location import Place, caller
from dataguard.targets.variants import Loader, constructors


@contextmanager
def construction_lines() -> Iterator[dict[int, Place]]:
    """While it lasts, the user's line that constructs each loader, by the `id` of the loader."""
    lines: dict[int, Place] = {}
    originals = {kind: kind.__init__ for kind in constructors()}
    for kind, original in originals.items():
        setattr(kind, "__init__", _noting(original, lines))  # noqa: B010 - mypy forbids the plain form
    try:
        yield lines
    finally:
        for kind, original in originals.items():
            setattr(kind, "__init__", original)  # noqa: B010 - as above


def _noting(original: Callable[..., None], lines: dict[int, Place]) -> Callable[..., None]:
    @functools.wraps(original)
    def init(self: Loader, *args: Any, **kwargs: Any) -> None:
        if at := caller():
            lines[id(self)] = at
        original(self, *args, **kwargs)

    return init
