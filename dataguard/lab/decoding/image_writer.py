"""Writes image files like the user's, with one change: without any library, so that none has to be imported."""

from __future__ import annotations

import struct
import sys
import zlib
from dataclasses import dataclass
from io import BytesIO

import numpy as np

from dataguard.lab.decoding.image_headers import read_header


def png(pixels: np.ndarray, palette: np.ndarray | None = None) -> bytes:
    """A PNG file of pixels, (height, width) or (height, width, channels), of uint8 or uint16, red first.

    With a palette, (colours, 3) of uint8, pixels are palette indices.
    """
    planes = pixels.reshape(*pixels.shape[:2], -1)
    bits = 8 * planes.dtype.itemsize
    colour = 3 if palette is not None else {1: 0, 2: 4, 3: 2, 4: 6}[planes.shape[2]]
    rows = planes.astype(planes.dtype.newbyteorder(">")).reshape(len(planes), -1)
    lines = b"".join(b"\0" + row.tobytes() for row in rows)
    parts = [(b"IHDR", struct.pack(">IIBBBBB", planes.shape[1], planes.shape[0], bits, colour, 0, 0, 0))]
    parts += [(b"PLTE", palette.astype(np.uint8).tobytes())] if palette is not None else []
    parts += [(b"IDAT", zlib.compress(lines, 1)), (b"IEND", b"")]
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def tiff(pixels: np.ndarray) -> bytes:
    """A TIFF file of pixels, (height, width) or (height, width, channels), of uint8 or uint16, as one strip."""
    planes = pixels.reshape(*pixels.shape[:2], -1)
    height, width, channels = planes.shape
    data = planes.astype(planes.dtype.newbyteorder("<")).tobytes()
    bits = struct.pack(f"<{channels}H", *[8 * planes.dtype.itemsize] * channels)
    numbers = {256: width, 257: height, 258: 0, 259: 1, 262: 2 if channels > 2 else 1, 273: 0, 277: channels}
    numbers |= {278: height, 279: len(data)}
    end = 8 + 2 + 12 * len(numbers) + 4
    numbers |= {258: end, 273: end + len(bits)}
    entries = {tag: struct.pack("<HHII", tag, 4, 1, number) for tag, number in numbers.items()}
    value = bits.ljust(4, b"\0") if len(bits) <= 4 else struct.pack("<I", end)
    entries[258] = struct.pack("<HHI", 258, 3, channels) + value
    return b"II*\0" + struct.pack("<IH", 8, len(entries)) + b"".join(entries.values()) + bytes(4) + bits + data


def in_format_of(content: bytes, pixels: np.ndarray) -> bytes:
    """A file with other pixels in the same format, if it is PNG or TIFF; otherwise in PNG."""
    header = read_header(content)
    return tiff(pixels) if header is not None and header.format == "TIFF" else png(pixels)


@dataclass(frozen=True, slots=True)
class ReorderedPalette:
    """Two PNG files that look the same: one with the original palette, and one with the palette reversed.

    `indices` are the palette indices of the pixels, `used` is how many different ones there are, and `colours` the
    palette up to the largest one.
    """

    original: bytes
    reversed: bytes
    used: int
    indices: np.ndarray
    colours: np.ndarray


def reordered_palette(content: bytes) -> ReorderedPalette | None:
    """A file with its palette reversed; None if Pillow is not imported: no other decoder returns palette indices."""
    pillow = sys.modules.get("PIL.Image")
    image = None if pillow is None else pillow.open(BytesIO(content))
    if image is None or image.mode != "P":
        return None
    palette: np.ndarray = np.array(image.getpalette(), np.uint8).reshape(-1, 3)
    indices = np.asarray(image)
    colours = np.zeros((256, 3), np.uint8)
    colours[: len(palette)] = palette
    files = png(indices, colours), png(255 - indices, colours[::-1])
    return ReorderedPalette(*files, len(np.unique(indices)), indices, colours[: int(indices.max()) + 1])
