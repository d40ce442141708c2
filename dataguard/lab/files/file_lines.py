"""What the content of a file becomes, line by line of the user's code, for findings about image and sound files.

A sample is read twice under one random state, each time with other content in its file, and followed line by line: what
differs holds that content.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dataguard.lab.core.leaves import array_of, is_pillow
from dataguard.lab.culprit.line_trace import MOST_SECONDS, LineTrace, Look, Measure, Traced, content_of, numbered
from dataguard.lab.files.file_survey import MediaFile, SwappedFileReader

_STORED = frozenset({"1", "L", "LA", "P", "PA", "RGBA", "RGBX", "CMYK", "I;16", "I;16B", "I", "F"})
"""Modes in which Pillow has an image before it is converted to RGB."""


@dataclass(frozen=True, slots=True)
class FileStep(Traced):
    """What a variable holds of a file after a line: its Pillow mode or dtype, shape, largest value and size of values.

    `measured` is what else was asked about its values.
    """

    kind: str
    shape: tuple[int, ...]
    most: float
    span: float
    measured: Any

    @property
    def is_float(self) -> bool:
        """Whether it holds floats."""
        return self.kind.startswith("float")

    @property
    def is_stored(self) -> bool:
        """Whether it is an image of Pillow that is not converted yet."""
        return self.kind in _STORED


class _FileTrace(LineTrace):
    """Follows arrays and images of any mode; a row of bytes is a file that is not decoded yet."""

    def _state_of(self, value: Any) -> Any:
        array, digest = array_of(value), content_of(value)
        if digest is None or not array.ndim or (array.ndim == 1 and array.dtype == np.uint8):
            return None
        kind = value.mode if is_pillow(value) else str(array.dtype)
        size = float(np.abs(array.astype(np.float64)).max())
        return digest, (kind, array.shape, float(array.max()), size, self._measure(array))


def steps_of_file(
    reader: SwappedFileReader[Any, Any],
    file: MediaFile[Any],
    content: bytes,
    given: bytes,
    other: bytes,
    measure: Measure = lambda _: None,
) -> tuple[FileStep, ...]:
    """The lines after which something holds what is `given` in place of a file, unlike with `other` content."""

    def trace(roots: Mapping[str, Any]) -> LineTrace:
        return _FileTrace(measure, roots, MOST_SECONDS)

    own, others = (numbered(reader.followed(file, content, one, trace)) for one in (given, other))
    held = [look for key, look in own.items() if key in others and others[key].state != look.state]
    return tuple(map(_step, held))


def _step(look: Look) -> FileStep:
    state: Any = look.state
    return FileStep(look.file, look.line, look.function, look.name, look.exact, *state[1])
