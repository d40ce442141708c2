"""The headers of image files: size, pixel mode, bit depth and orientation. Standard library only.

No pixels are decoded. A file is anything that can be sliced like bytes, such as a memory map.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from mmap import mmap

Content = bytes | mmap

RGB, GREY, PALETTE, CMYK, ALPHA, GREY_ALPHA = "RGB", "grey", "palette", "CMYK", "RGB with alpha", "grey with alpha"
ORIENTATION = 274
"""The TIFF tag, also used by EXIF, for the rotation and flip to apply before display."""
_WIDTH, _HEIGHT, _BITS, _PHOTOMETRIC, _SAMPLES, _EXIF, _FORMAT = 256, 257, 258, 262, 277, 0x8769, 339
_EXIF_WIDTH, _EXIF_HEIGHT = 0xA002, 0xA003
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
    place, order = header.at
    changed = content[:place] + struct.pack(f"{order}H", orientation) + content[place + 2 :]
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
    place = 2
    while True:
        while content[place] == 0xFF:
            place += 1
        marker = content[place]
        (length,) = struct.unpack(">H", content[place + 1 : place + 3])
        start = place + 3
        if marker == 0xE1 and content[start : start + 6] == b"Exif\0\0" and exif is None:
            exif = _Tags(content, start + 6)
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            bits, height, width, channels = struct.unpack(">BHHB", content[start : start + 6])
            pixels = {1: GREY, 3: RGB, 4: CMYK}[channels]
            return _oriented(Header("JPEG", width, height, pixels, bits), exif)
        if marker == 0xDA:
            return None
        place += 1 + length


def _chunks(content: Content) -> Iterator[tuple[bytes, int, int]]:
    """The kind of each chunk of a PNG file before its pixels, with the offset and length of its data."""
    place, kind = 8, b""
    while kind not in (b"IDAT", b"IEND"):
        length, kind = struct.unpack(">I4s", content[place : place + 8])
        yield kind, place + 8, length
        place += 12 + length


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
    width, height = (int.from_bytes(content[place : place + 3], "little") + 1 for place in (24, 27))
    place, exif = 12, None
    while place + 8 <= len(content) and exif is None:
        name, length = struct.unpack("<4sI", content[place : place + 8])
        if name == b"EXIF":
            start = place + 8 + 6 * (content[place + 8 : place + 14] == b"Exif\0\0")
            exif = _Tags(content, start)
        place += 8 + length + length % 2
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
        self.places: dict[int, tuple[int, int]] = {}
        self._take(self._number(start + 4, 4))
        if _EXIF in self.places:
            self._take(self.get(_EXIF))

    def get(self, tag: int, otherwise: int | None = None) -> int:
        """The first number of a tag. Raises KeyError if it has none."""
        if tag not in self.places:
            if otherwise is None:
                raise KeyError(tag)
            return otherwise
        return self._number(*self.places[tag])

    def _take(self, offset: int) -> None:
        place = self._start + offset
        for entry in range(place + 2, place + 2 + 12 * min(self._number(place, 2), 512), 12):
            tag, kind, count = struct.unpack(f"{self.order}HHI", self._content[entry : entry + 8])
            size = _SIZES.get(kind, 4)
            where = entry + 8 if size * count <= 4 else self._start + self._number(entry + 8, 4)
            self.places.setdefault(tag, (where, min(size, 4)))

    def _number(self, place: int, size: int) -> int:
        (number,) = struct.unpack(f"{self.order}{_KINDS[size]}", self._content[place : place + size])
        return int(number)


_KINDS: Mapping[int, str] = {1: "B", 2: "H", 4: "I"}


def _oriented(header: Header, tags: _Tags | None) -> Header:
    """A header with the orientation of the EXIF data."""
    if tags is None or ORIENTATION not in tags.places:
        return header
    orientation = tags.get(ORIENTATION)
    before = tags.get(_EXIF_WIDTH, 0), tags.get(_EXIF_HEIGHT, 0)
    stale = orientation >= 5 and header.width != header.height and before == header.size[::-1]
    at = tags.places[ORIENTATION][0], tags.order
    return Header(header.format, *header.size, header.pixels, header.bits, orientation, stale, at)
