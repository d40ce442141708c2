"""Reads image files with the libraries that the user's code has imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any

import numpy as np
import torch

from dataguard.lab.decoding.image_headers import read_header

Readers = Mapping[str, Callable[..., Any]]
"""A reader for each library, by module and in order of preference, called with the module and what to read."""


def decoded(content: bytes) -> np.ndarray | None:
    """The pixels of a file as stored, red first; None if no imported library can read it."""
    return _by_the_first(_AS_STORED, content)


def as_rgb(content: bytes) -> np.ndarray | None:
    """The pixels of a file as a library converts them to RGB; None if no imported library can read it."""
    return _by_the_first(_AS_RGB, content)


def small_grey(path: str, side: int) -> np.ndarray | None:
    """An image file as grey levels of `side` by `side` pixels; None if no imported library can read it."""
    return _by_the_first(_AS_GREY, path, side)


def _by_the_first(readers: Readers, *given: Any) -> np.ndarray | None:
    for module, read in readers.items():
        if module in sys.modules:
            try:
                pixels = read(sys.modules[module], *given)
            except Exception:  # noqa: BLE001 - a damaged file or an old library: try the next one
                continue
            if pixels is not None and pixels.dtype in (np.uint8, np.uint16):
                return np.ascontiguousarray(pixels)
    return None


def _stored_by_cv2(cv2: Any, content: bytes) -> Any:
    pixels = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_UNCHANGED)
    if pixels is None or pixels.ndim == 2:
        return pixels
    order = {3: [2, 1, 0], 4: [2, 1, 0, 3]}.get(pixels.shape[2])
    return None if order is None else pixels[..., order]


def _stored_by_tifffile(tifffile: Any, content: bytes) -> Any:
    return tifffile.imread(BytesIO(content))


def _stored_by_pillow(pillow: Any, content: bytes) -> Any:
    image = pillow.open(BytesIO(content))
    pixels = np.asarray(image)
    if image.mode in ("I", "I;16", "I;16B", "I;16L") and pixels.min() >= 0 and pixels.max() < 65536:
        return pixels.astype(np.uint16)
    header = read_header(content)
    return pixels if header is not None and header.bits == 8 else None  # Pillow reduces 16 bits to 8


def _stored_by_torchvision(image: Any, content: bytes) -> Any:
    pixels = image.decode_image(torch.frombuffer(bytearray(content), dtype=torch.uint8))
    return pixels.permute(1, 2, 0).numpy().squeeze()


def _rgb_by_pillow(pillow: Any, content: bytes) -> Any:
    return np.asarray(pillow.open(BytesIO(content)).convert("RGB"))


def _rgb_by_cv2(cv2: Any, content: bytes) -> Any:
    return cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]


def _grey_by_pillow(pillow: Any, path: str, side: int) -> Any:
    with pillow.open(path) as image:
        image.draft("L", (4 * side, 4 * side))  # a JPEG is decoded at an eighth of its size
        return np.asarray(image.convert("L").resize((side, side), pillow.Resampling.BILINEAR))


def _grey_by_cv2(cv2: Any, path: str, side: int) -> Any:
    return cv2.resize(cv2.imread(path, cv2.IMREAD_GRAYSCALE), (side, side), interpolation=cv2.INTER_AREA)


_AS_STORED: Readers = {
    "cv2": _stored_by_cv2,
    "tifffile": _stored_by_tifffile,
    "PIL.Image": _stored_by_pillow,
    "torchvision.io.image": _stored_by_torchvision,
}
"""Those that keep 16 bits of every format are first."""
_AS_RGB: Readers = {"PIL.Image": _rgb_by_pillow, "cv2": _rgb_by_cv2}
_AS_GREY: Readers = {"PIL.Image": _grey_by_pillow, "cv2": _grey_by_cv2}
