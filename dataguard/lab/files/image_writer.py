"""Image files like a user's own, with one thing changed: written by hand, so that no library has to be imported.

What stands in a file is read by the decoders that the user's code has imported already.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
import torch

from dataguard.lab.files.image_headers import read_header


def png(pixels: np.ndarray, palette: np.ndarray | None = None) -> bytes:
    """A PNG file of pixels, (height, width) or (height, width, channels), of uint8 or uint16, red first.

    With a palette, (colours, 3) of uint8, pixels are numbers of its colours.
    """
    deep = pixels.reshape(*pixels.shape[:2], -1)
    bits = 8 * deep.dtype.itemsize
    colour = 3 if palette is not None else {1: 0, 2: 4, 3: 2, 4: 6}[deep.shape[2]]
    rows = deep.astype(deep.dtype.newbyteorder(">")).reshape(len(deep), -1)
    lines = b"".join(b"\0" + row.tobytes() for row in rows)
    parts = [(b"IHDR", struct.pack(">IIBBBBB", deep.shape[1], deep.shape[0], bits, colour, 0, 0, 0))]
    parts += [(b"PLTE", palette.astype(np.uint8).tobytes())] if palette is not None else []
    parts += [(b"IDAT", zlib.compress(lines, 1)), (b"IEND", b"")]
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def tiff(pixels: np.ndarray) -> bytes:
    """A TIFF file of pixels, (height, width) or (height, width, channels), of uint8 or uint16, as one strip."""
    deep = pixels.reshape(*pixels.shape[:2], -1)
    height, width, channels = deep.shape
    data = deep.astype(deep.dtype.newbyteorder("<")).tobytes()
    bits = struct.pack(f"<{channels}H", *[8 * deep.dtype.itemsize] * channels)
    numbers = {256: width, 257: height, 258: 0, 259: 1, 262: 2 if channels > 2 else 1, 273: 0, 277: channels}
    numbers |= {278: height, 279: len(data)}
    end = 8 + 2 + 12 * len(numbers) + 4
    numbers |= {258: end, 273: end + len(bits)}
    entries = {tag: struct.pack("<HHII", tag, 4, 1, number) for tag, number in numbers.items()}
    place = bits.ljust(4, b"\0") if len(bits) <= 4 else struct.pack("<I", end)
    entries[258] = struct.pack("<HHI", 258, 3, channels) + place
    return b"II*\0" + struct.pack("<IH", 8, len(entries)) + b"".join(entries.values()) + bytes(4) + bits + data


def like(content: bytes, pixels: np.ndarray) -> bytes:
    """A file of the same format, as far as one can be written here, that holds other pixels."""
    header = read_header(content)
    return tiff(pixels) if header is not None and header.format == "TIFF" else png(pixels)


def decoded(content: bytes) -> np.ndarray | None:
    """The pixels of a file as they are stored, red first, by whichever decoder is imported; None where none can."""
    for module, decode in _DECODERS.items():
        if module in sys.modules:
            try:
                pixels = decode(sys.modules[module], content)
            except Exception:  # noqa: BLE001 - libraries of many versions: another of them may read it
                continue
            if pixels is not None and pixels.dtype in (np.uint8, np.uint16):
                return pixels
    return None


def _by_cv2(cv2: Any, content: bytes) -> np.ndarray | None:
    pixels = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_UNCHANGED)
    if pixels is None or pixels.ndim == 2:
        return _array(pixels)
    turned = {3: [2, 1, 0], 4: [2, 1, 0, 3]}.get(pixels.shape[2])
    return None if turned is None else _array(pixels[..., turned])


def _by_pillow(pillow: Any, content: bytes) -> np.ndarray | None:
    image = pillow.open(BytesIO(content))
    pixels = np.asarray(image)
    if image.mode in ("I", "I;16", "I;16B", "I;16L") and pixels.min() >= 0 and pixels.max() < 65536:
        return pixels.astype(np.uint16)
    header = read_header(content)
    return _array(pixels) if header is not None and header.bits == 8 else None  # Pillow drops half of 16 bits


def _by_tifffile(tifffile: Any, content: bytes) -> np.ndarray | None:
    return _array(tifffile.imread(BytesIO(content)))


def _by_torchvision(image: Any, content: bytes) -> np.ndarray | None:
    pixels = image.decode_image(torch.frombuffer(bytearray(content), dtype=torch.uint8))
    return _array(pixels.permute(1, 2, 0).numpy().squeeze())


def _array(pixels: Any) -> np.ndarray | None:
    return None if pixels is None else np.ascontiguousarray(pixels)


_DECODERS: dict[str, Callable[[Any, bytes], np.ndarray | None]] = {
    "cv2": _by_cv2,
    "tifffile": _by_tifffile,
    "PIL.Image": _by_pillow,
    "torchvision.io.image": _by_torchvision,
}
"""How each library gives pixels as they are stored. Those come first that keep 16 bits of every kind of file."""


def as_rgb(content: bytes) -> np.ndarray | None:
    """The pixels of a file as a library turns them into red, green and blue; None where none that is imported does."""
    try:
        if "PIL.Image" in sys.modules:
            return np.asarray(sys.modules["PIL.Image"].open(BytesIO(content)).convert("RGB"))
        if "cv2" in sys.modules:
            cv2: Any = sys.modules["cv2"]
            return _array(cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)[..., ::-1])
    except Exception:  # noqa: BLE001 - a damaged file, or an old library
        return None
    return None


@dataclass(frozen=True, slots=True)
class Recoloured:
    """Two PNG files of one look: the numbers of colours as they are in a file with a palette, and the other way round.

    `used` is how many of its colours the image has, `colours` are those up to the last one that it has, and `numbers`
    what it holds of them.
    """

    plain: bytes
    turned: bytes
    used: int
    numbers: np.ndarray
    colours: np.ndarray


def recoloured(content: bytes) -> Recoloured | None:
    """A file with a palette in another order; None where Pillow is not imported, as no other decoder tells numbers."""
    pillow = sys.modules.get("PIL.Image")
    image = None if pillow is None else pillow.open(BytesIO(content))
    if image is None or image.mode != "P":
        return None
    palette: np.ndarray = np.array(image.getpalette(), np.uint8).reshape(-1, 3)
    numbers = np.asarray(image)
    colours = np.zeros((256, 3), np.uint8)
    colours[: len(palette)] = palette
    twins = png(numbers, colours), png(255 - numbers, colours[::-1])
    return Recoloured(*twins, len(np.unique(numbers)), numbers, colours[: int(numbers.max()) + 1])
