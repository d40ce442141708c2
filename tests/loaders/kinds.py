"""Folders that hold image files of every kind there is, as they come together from many places."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.utils.data import DataLoader

from sample_datasets import _files as files
from sample_datasets.dg505_swapped_channels import NORMALIZED

_PASSES = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))
"""The first row and column of each of Adam7's passes, and the steps to the next ones."""
KINDS = ("baseline", "progressive", "cmyk", "grey", "palette", "alpha", "interlaced", "webp", "tiff", "damaged")


def interlaced(pixels: np.ndarray) -> bytes:
    """A PNG file with the rows of Adam7, which Pillow does not write."""
    height, width, _ = pixels.shape
    rows = (row for top, left, down, right in _PASSES for row in pixels[top::down, left::right])
    data = b"".join(b"\0" + row.tobytes() for row in rows if row.size)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 1)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(data)) + _chunk(b"IEND", b"")


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def _saved(image: Image.Image, form: str, **options: Any) -> bytes:
    file = BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def _content(kind: str, image: Image.Image) -> bytes:
    """A photograph as a file of a kind."""
    if kind == "interlaced":
        return interlaced(np.asarray(image))
    if kind == "damaged":  # its last rows are missing
        return _saved(image, "JPEG", quality=95)[:-200]
    mode = {"cmyk": "CMYK", "grey": "L", "palette": "P", "alpha": "RGBA"}.get(kind, "RGB")
    form = {"palette": "PNG", "alpha": "PNG", "webp": "WEBP", "tiff": "TIFF"}.get(kind, "JPEG")
    return _saved(image.convert(mode), form, **({"progressive": True} if kind == "progressive" else {}))


def _turned(orientation: int) -> bytes:
    """A photograph as a camera writes it that was held in one of eight ways."""
    exif = Image.Exif()
    exif[274] = orientation
    return _saved(files.photograph(orientation), "JPEG", exif=exif)


def _path(name: str, content: bytes) -> Path:
    """A file with this content, written once: each call of the factory comes here, and others may be reading it."""
    path = files.FOLDER / "kinds" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.stat().st_size != len(content):
        path.write_bytes(content)
    return path


def gathered() -> list[Path]:
    """Two files of each kind, and one of each orientation."""
    every = [
        _path(f"{kind}{number}", _content(kind, files.photograph(3 * place + number)))
        for place, kind in enumerate(KINDS)
        for number in range(2)
    ]
    return [*every, *(_path(f"turned{orientation}", _turned(orientation)) for orientation in range(1, 9))]


def deep() -> list[Path]:
    """Scans of 16 bits, as PNG and TIFF."""
    scans = [np.asarray(files.photograph(number).convert("L")).astype(np.uint16) * 257 for number in range(8)]
    return [
        files.written(f"kinds/{number}.{'png' if number % 2 else 'tiff'}", scan) for number, scan in enumerate(scans)
    ]


def _loader(paths: Sequence[Path], load: Callable[[Path], Tensor]) -> DataLoader[Any]:
    return files.loader(paths, load, shuffle=True)


def _by_pillow(path: Path) -> Any:
    with Image.open(path) as image:
        return NORMALIZED(ImageOps.exif_transpose(image).convert("RGB").resize((48, 48)))


def _by_opencv(path: Path) -> Any:
    image = cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)
    return NORMALIZED(cv2.resize(image, (48, 48)))


def _as_stored(path: Path) -> Tensor:
    with Image.open(path) as image:
        return torch.from_numpy(np.asarray(image).copy()).float() / 255


def _scan(path: Path) -> Tensor:
    return torch.from_numpy(np.asarray(cv2.imread(str(path), cv2.IMREAD_UNCHANGED), np.float32) / 65535)


loaders = {
    "pillow": lambda: _loader([path for path in gathered() if "damaged" not in path.name], _by_pillow),
    "opencv": lambda: _loader(gathered(), _by_opencv),
    "stored": lambda: DataLoader(
        files.Images([path for path in gathered() if "damaged" not in path.name], _as_stored), batch_size=1
    ),
    "deep": lambda: _loader(deep(), _scan),
}
