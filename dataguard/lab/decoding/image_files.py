"""Image files: their headers, their pixels, and copies with one change.

A header has size, pixel mode, bit depth and orientation, and is read without decoding pixels; a file is anything that
can be sliced like bytes, such as a memory map. Pixels are read with the libraries that the user's code has imported.
Files are written without any library, so that none has to be imported.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from mmap import mmap
from typing import Any

import numpy as np
import torch

Content = bytes | mmap

RGB, GREY, PALETTE, CMYK, ALPHA, GREY_ALPHA = "RGB", "grey", "palette", "CMYK", "RGB with alpha", "grey with alpha"
ORIENTATION = 274
"""The TIFF tag, also used by EXIF, for the rotation and flip to apply before display."""
_WIDTH, _HEIGHT, _BITS, _PHOTOMETRIC, _SAMPLES, _EXIF, _FORMAT = 256, 257, 258, 262, 277, 0x8769, 339
"""Other TIFF tags, by the TIFF 6.0 specification."""
_EXIF_WIDTH, _EXIF_HEIGHT = 0xA002, 0xA003
"""Tags of the EXIF directory, by the Exif specification."""
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 7: 1, 9: 4, 10: 8}
"""Bytes per value of each TIFF type."""


@dataclass(frozen=True, slots=True)
class Header:
    """A file's format, its size as stored, its pixel mode, bits per channel and EXIF orientation (1 to 8).

    `stale` means that the EXIF data give the size before the image was rotated: the orientation is a leftover. `at` is
    the offset of the orientation in the file and its byte order, "<" or ">".
    """

    format: str
    width: int
    height: int
    pixels: str
    bits: int = 8
    orientation: int = 1
    stale: bool = False
    at: tuple[int, str] | None = None

    @property
    def rotated(self) -> bool:
        """Whether it must be rotated or flipped for display."""
        return 2 <= self.orientation <= 8 and not self.stale

    @property
    def size(self) -> tuple[int, int]:
        """Width and height as stored."""
        return self.width, self.height


def read_header(content: Content) -> Header | None:
    """The header of an image file; None if the format is unknown or the file damaged."""
    start = bytes(content[:12])
    try:
        if start[:2] == b"\xff\xd8":
            return _jpeg(content)
        if start[:8] == b"\x89PNG\r\n\x1a\n":
            return _png(content)
        if start[:4] in (b"II*\0", b"MM\0*"):
            return _tiff(content)
        if start[:4] == b"RIFF" and start[8:] == b"WEBP":
            return _webp(content)
        if start[:4] == b"GIF8":
            width, height = struct.unpack("<HH", content[6:10])
            return Header("GIF", width, height, PALETTE)
        return _bmp(content) if start[:2] == b"BM" else None
    except (struct.error, IndexError, KeyError, ValueError):
        return None


def with_orientation(content: bytes, orientation: int) -> bytes | None:
    """The same file with another EXIF orientation; None if it has none and is not a JPEG, which can be given one."""
    header = read_header(content)
    if header is None:
        return None
    if header.at is None:
        return _with_exif(content, orientation) if header.format == "JPEG" else None
    offset, order = header.at
    changed = content[:offset] + struct.pack(f"{order}H", orientation) + content[offset + 2 :]
    return _signed(changed) if header.format == "PNG" else changed


def _with_exif(content: bytes, orientation: int) -> bytes:
    tags = struct.pack(">2sHIHHHIHHI", b"MM", 42, 8, 1, ORIENTATION, 3, 1, orientation, 0, 0)
    exif = b"Exif\0\0" + tags
    return content[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + content[2:]


def _signed(content: bytes) -> bytes:
    """A PNG file with the checksum of its EXIF chunk updated."""
    for kind, start, length in _chunks(content):
        if kind == b"eXIf":
            checksum = struct.pack(">I", zlib.crc32(content[start - 4 : start + length]))
            return content[: start + length] + checksum + content[start + length + 4 :]
    return content


def _jpeg(content: Content) -> Header | None:
    exif: _Tags | None = None
    offset = 2
    while True:
        while content[offset] == 0xFF:
            offset += 1
        marker = content[offset]
        (length,) = struct.unpack(">H", content[offset + 1 : offset + 3])
        start = offset + 3
        if marker == 0xE1 and content[start : start + 6] == b"Exif\0\0" and exif is None:
            exif = _Tags(content, start + 6)
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            bits, height, width, channels = struct.unpack(">BHHB", content[start : start + 6])
            pixels = {1: GREY, 3: RGB, 4: CMYK}[channels]
            return _oriented(Header("JPEG", width, height, pixels, bits), exif)
        if marker == 0xDA:
            return None
        offset += 1 + length


def _chunks(content: Content) -> Iterator[tuple[bytes, int, int]]:
    """The kind of each chunk of a PNG file before its pixels, with the offset and length of its data."""
    offset, kind = 8, b""
    while kind not in (b"IDAT", b"IEND"):
        length, kind = struct.unpack(">I4s", content[offset : offset + 8])
        yield kind, offset + 8, length
        offset += 12 + length


def _png(content: Content) -> Header | None:
    width, height, bits, colour = struct.unpack(">IIBB", content[16:26])
    pixels = {0: GREY, 2: RGB, 3: PALETTE, 4: GREY_ALPHA, 6: ALPHA}[colour]
    exif = next((_Tags(content, start) for kind, start, _ in _chunks(content) if kind == b"eXIf"), None)
    return _oriented(Header("PNG", width, height, pixels, 8 if bits < 8 else bits), exif)


def _tiff(content: Content) -> Header | None:
    tags = _Tags(content, 0)
    samples = tags.get(_SAMPLES, 1)
    photometric = tags.get(_PHOTOMETRIC, 1)
    plain = {0: GREY, 1: GREY, 2: RGB, 3: PALETTE, 5: CMYK, 6: RGB}.get(photometric, "other")
    pixels = {(GREY, 2): GREY_ALPHA, (RGB, 4): ALPHA}.get((plain, samples), plain)
    bits = tags.get(_BITS, 1) if tags.get(_FORMAT, 1) == 1 else 0  # not unsigned integers
    width, height = tags.get(_WIDTH), tags.get(_HEIGHT)
    return _oriented(Header("TIFF", width, height, pixels, 8 if 0 < bits < 8 else bits), tags)


def _webp(content: Content) -> Header | None:
    kind = content[12:16]
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", content[26:30])
        return Header("WebP", width & 0x3FFF, height & 0x3FFF, RGB)
    if kind == b"VP8L":
        (packed,) = struct.unpack("<I", content[21:25])
        pixels = ALPHA if packed >> 28 & 1 else RGB
        return Header("WebP", (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1, pixels)
    width, height = (int.from_bytes(content[offset : offset + 3], "little") + 1 for offset in (24, 27))
    offset, exif = 12, None
    while offset + 8 <= len(content) and exif is None:
        name, length = struct.unpack("<4sI", content[offset : offset + 8])
        if name == b"EXIF":
            start = offset + 8 + 6 * (content[offset + 8 : offset + 14] == b"Exif\0\0")
            exif = _Tags(content, start)
        offset += 8 + length + length % 2
    return _oriented(Header("WebP", width, height, ALPHA if content[20] & 0x10 else RGB), exif)


def _bmp(content: Content) -> Header | None:
    width, height, _, bits = struct.unpack("<iiHH", content[18:30])
    return Header("BMP", width, abs(height), {24: RGB, 32: RGB}.get(bits, PALETTE))


class _Tags:
    """The numeric tags of the first directory of a TIFF structure at some offset in a file."""

    def __init__(self, content: Content, start: int) -> None:
        self._content = content
        self._start = start
        self.order = {b"II": "<", b"MM": ">"}[bytes(content[start : start + 2])]
        self.offsets: dict[int, tuple[int, int]] = {}
        self._take(self._number(start + 4, 4))
        if _EXIF in self.offsets:
            self._take(self.get(_EXIF))

    def get(self, tag: int, otherwise: int | None = None) -> int:
        """The first number of a tag. Raises KeyError if it has none."""
        if tag not in self.offsets:
            if otherwise is None:
                raise KeyError(tag)
            return otherwise
        return self._number(*self.offsets[tag])

    def _take(self, offset: int) -> None:
        directory = self._start + offset
        for entry in range(directory + 2, directory + 2 + 12 * min(self._number(directory, 2), 512), 12):
            tag, kind, count = struct.unpack(f"{self.order}HHI", self._content[entry : entry + 8])
            size = _SIZES.get(kind, 4)
            where = entry + 8 if size * count <= 4 else self._start + self._number(entry + 8, 4)
            self.offsets.setdefault(tag, (where, min(size, 4)))

    def _number(self, offset: int, size: int) -> int:
        (number,) = struct.unpack(f"{self.order}{_KINDS[size]}", self._content[offset : offset + size])
        return int(number)


_KINDS: Mapping[int, str] = {1: "B", 2: "H", 4: "I"}


def _oriented(header: Header, tags: _Tags | None) -> Header:
    """A header with the orientation of the EXIF data."""
    if tags is None or ORIENTATION not in tags.offsets:
        return header
    orientation = tags.get(ORIENTATION)
    before = tags.get(_EXIF_WIDTH, 0), tags.get(_EXIF_HEIGHT, 0)
    stale = orientation >= 5 and header.width != header.height and before == header.size[::-1]
    at = tags.offsets[ORIENTATION][0], tags.order
    return Header(header.format, *header.size, header.pixels, header.bits, orientation, stale, at)


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
