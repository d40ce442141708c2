"""Image files like a user's own, with one thing changed: written by hand, so that no library has to be imported."""

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
