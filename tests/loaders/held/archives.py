"""Archives, compressed files, and files inside of packages."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import importlib.resources
import io
import linecache
import lzma
import sys
import tarfile
import zipfile
import zipimport
from pathlib import Path
from typing import IO, Any

from tests.loaders.held.files import sought
from tests.loaders.held.kinds import BYTES, SIZE, VALUES, kind, stored, text


def _zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for index in range(SIZE):
            archive.writestr(str(index), str(VALUES[index]))
        archive.writestr("whole", BYTES)
        archive.writestr("held_module.py", f"VALUES = {VALUES}\n")


def _tarred(path: Path) -> None:
    with tarfile.open(path, "w") as archive:
        for index in range(SIZE):
            member = tarfile.TarInfo(str(index))
            member.size = len(str(VALUES[index]))
            archive.addfile(member, io.BytesIO(str(VALUES[index]).encode()))


def _compressed(module: Any) -> IO[bytes]:
    path = stored(f"data.{module.__name__}", lambda path: path.write_bytes(module.compress(BYTES)))
    file: IO[bytes] = module.open(path)
    return file


@kind(workers=0)
def compressed_files():
    return list(map(_compressed, (gzip, bz2, lzma))), _agreed


def _agreed(files: list[IO[bytes]], index: int) -> int:
    (found,) = {sought(file, index) for file in files}
    return found


@kind(workers=0)
def zip_file():
    return zipfile.ZipFile(stored("data.zip", _zipped)), lambda archive, index: archive.read(str(index))


@kind(workers=0)
def zip_member():
    archive = zipfile.ZipFile(stored("data.zip", _zipped))
    return (archive, archive.open("whole")), lambda held, index: sought(held[1], index)


@kind(workers=0)
def tar_file():
    archive = tarfile.open(stored("data.tar", _tarred))  # noqa: SIM115 - held
    return archive, lambda archive, index: archive.extractfile(str(index)).read()


@kind(workers=0)
def tar_listed_lazily():
    """Finds members by reading on."""
    archive = tarfile.open(stored("data.tar", _tarred))  # noqa: SIM115 - held
    archive.next()
    return archive, lambda archive, index: archive.extractfile(archive.getmember(str(index))).read()


@kind()
def resource_as_file():
    stack = contextlib.ExitStack()
    sys.path.insert(0, str(stored("data.zip", _zipped)))
    found = importlib.resources.files("tests.loaders.held") / "kinds.py"
    path = stack.enter_context(importlib.resources.as_file(found))
    return (stack, path), lambda held, index: VALUES[index] if "VALUES" in held[1].read_text() else 0


@kind()
def resource_in_zip():
    """A resource that is unpacked to a temporary file, which the stack removes when it is closed."""
    stack = contextlib.ExitStack()
    root = zipfile.Path(stored("data.zip", _zipped))
    path = stack.enter_context(importlib.resources.as_file(root / "whole"))
    return (stack, path), lambda held, index: held[1].read_bytes()[index]


@kind()
def zip_import():
    module = zipimport.zipimporter(str(stored("data.zip", _zipped))).load_module("held_module")
    return module.__dict__["VALUES"], lambda held, index: held[index]


@kind()
def cached_lines():
    path = str(text())
    linecache.getlines(path)
    return path, lambda path, index: linecache.getline(path, index + 1)
