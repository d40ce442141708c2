"""Open files, descriptors and locks."""

from __future__ import annotations

import fcntl
import io
import mmap
import os
import select
import tempfile
from pathlib import Path
from typing import IO, Any

from tests.loaders.held.kinds import BYTES, SIZE, VALUES, binary, folder, kind, text, value


def sought(file: IO[bytes], index: int) -> int:
    file.seek(index)
    return file.read(1)[0]


def at(file: Any, index: int) -> int:
    descriptor = file if isinstance(file, int) else file.fileno()
    return os.pread(descriptor, 1, index)[0]


@kind(workers=0)
def text_file():
    return text().open(), lambda file, index: (file.seek(4 * index), file.read(3))[1]


@kind(workers=0)
def buffered_file():
    return binary().open("rb"), sought


@kind(workers=0)
def raw_file():
    file = binary().open("rb", buffering=0)
    file.read(5)
    return file, sought


@kind(workers=0)
def relative_seek():
    """Reads from where it stands, so that each offset has to be its own."""
    file = binary().open("rb", buffering=0)
    file.seek(7)
    return file, lambda file, index: (file.seek(index - file.tell(), os.SEEK_CUR), file.read(1)[0])[1]


@kind()
def descriptor():
    return os.open(binary(), os.O_RDONLY), at


@kind(workers=0)
def duplicated_descriptor():
    """Two descriptors with one offset: one moves it, the other reads."""
    file = binary().open("rb", buffering=0)
    return (file, os.dup(file.fileno())), lambda held, index: (held[0].seek(index), os.read(held[1], 1)[0])[1]


@kind()
def no_follow():
    return os.open(binary(), os.O_RDONLY | os.O_NOFOLLOW | os.O_NOCTTY | os.O_NOATIME), at


@kind()
def appended_log():
    return (folder() / "log").open("a"), lambda file, index: (file.write(f"{index}\n"), file.flush(), value(index))[2]


@kind()
def written_log():
    return (folder() / "log2").open("w"), lambda file, index: (file.write(f"{index}\n"), file.flush(), value(index))[2]


@kind(workers=0)
def read_write():
    file = binary().open("r+b", buffering=0)

    def read(file: Any, index: int) -> int:
        found = sought(file, index)
        file.seek(index)
        file.write(bytes([found]))
        return found

    return file, read


class Cached:
    """Caches samples behind each other in a file, at places that it remembers."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.at: dict[int, int] = {}

    def read(self, index: int) -> int:
        if index not in self.at:
            self.at[index] = self.file.seek(0, os.SEEK_END)
            self.file.write(bytes([value(index)]) * 4096)
        self.file.seek(self.at[index])
        (found,) = set(self.file.read(4096))
        return int(found)


@kind(workers=0)
def cache_file():
    return Cached((folder() / "cached").open("w+b", buffering=0)), Cached.read


@kind(workers=0)
def cache_without_name():
    return Cached(tempfile.TemporaryFile(buffering=0)), Cached.read


def filled(file: Any) -> Any:
    file.write(BYTES)
    file.flush()
    return file


@kind()
def temporary_file():
    return filled(tempfile.TemporaryFile()), at


@kind()
def named_temporary_file():
    return filled(tempfile.NamedTemporaryFile(prefix="held-")), at


@kind()
def named_temporary_file_by_name():
    return filled(tempfile.NamedTemporaryFile(prefix="held-")), lambda file, index: Path(file.name).read_bytes()[index]


@kind(workers=0)
def spooled_on_disk():
    return filled(tempfile.SpooledTemporaryFile(max_size=4)), sought


@kind()
def spooled_in_memory():
    return filled(tempfile.SpooledTemporaryFile()), sought


@kind()
def made_descriptor():
    number, path = tempfile.mkstemp()
    os.write(number, BYTES)
    Path(path).unlink()
    return number, at


@kind()
def temporary_folder():
    made = tempfile.TemporaryDirectory(prefix="held-")
    Path(made.name, "data").write_bytes(BYTES)
    return made, lambda made, index: Path(made.name, "data").read_bytes()[index]


@kind(workers=0)
def unlinked_file():
    path = folder() / f"unlinked{os.getpid()}"
    path.write_bytes(BYTES)
    file = path.open("rb")
    path.unlink()
    return file, sought


@kind()
def memory_file():
    number = os.memfd_create("held")
    os.write(number, BYTES)
    return number, at


@kind()
def bytes_in_memory():
    return io.BytesIO(BYTES), sought


@kind()
def named_folder():
    binary()
    return os.open(folder(), os.O_PATH), _inside


@kind()
def opened_folder():
    binary()
    return os.open(folder(), os.O_RDONLY), _inside


def _inside(number: int, index: int) -> int:
    opened = os.open("data.bin", os.O_RDONLY, dir_fd=number)
    found = at(opened, index)
    os.close(opened)
    return found


@kind(workers=0)
def listed_folder():
    """Lists on, where the factory has stopped listing."""
    made = folder() / "listed"
    made.mkdir(exist_ok=True)
    for one in range(2000):
        (made / f"{one:0200}").touch()
    names = os.scandir(made)
    first = [next(names).name for _ in range(3)]
    found: list[str] = []

    def read(names: Any, index: int) -> int:
        if not found:
            found.extend([*first, *(entry.name for entry in names)])
            assert len(found) == 2000, len(found)
        return value(index)

    return names, read


@kind(workers=0, anew="sockets or pipes")
def pipe():
    return os.pipe(), lambda ends, index: (os.write(ends[1], BYTES[index : index + 1]), os.read(ends[0], 1)[0])[1]


@kind(workers=0, anew="sockets or pipes")
def named_pipe():
    path = folder() / f"fifo{os.getpid()}"
    os.mkfifo(path)
    number = os.open(path, os.O_RDWR)
    path.unlink()
    return number, lambda number, index: (os.write(number, BYTES[index : index + 1]), os.read(number, 1)[0])[1]


@kind(workers=0, anew="sockets or pipes")
def event_descriptor():
    return os.eventfd(0), _notified


def _notified(number: int, index: int) -> int:
    os.eventfd_write(number, value(index))
    return os.eventfd_read(number)


@kind(workers=0, anew="sockets or pipes")
def polled():
    ends, poll = os.pipe(), select.epoll()
    poll.register(ends[0], select.EPOLLIN)

    def read(held: Any, index: int) -> int:
        (reading, writing), poll = held
        os.write(writing, BYTES[index : index + 1])
        ((ready, _),) = poll.poll(1)
        assert ready == reading
        return os.read(ready, 1)[0]

    return (ends, poll), read


@kind()
def flocked():
    file = (folder() / "lock").open("w")
    fcntl.flock(file, fcntl.LOCK_EX)
    binary()

    def read(file: Any, index: int) -> int:
        fcntl.flock(file, fcntl.LOCK_EX)
        return binary().read_bytes()[index]

    return file, read


@kind(workers=0)
def flocked_shared():
    """Is read through the locked descriptor, and the lock becomes an exclusive one for a moment."""
    file = binary().open("rb", buffering=0)
    fcntl.flock(file, fcntl.LOCK_SH)

    def read(file: Any, index: int) -> int:
        fcntl.flock(file, fcntl.LOCK_EX)
        found = sought(file, index)
        fcntl.flock(file, fcntl.LOCK_SH)
        return found

    return file, read


@kind(workers=0, anew="lock")
def locked_by_process():
    file = (folder() / "lock2").open("w")
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return file, lambda file, index: (fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB), value(index))[1]


@kind()
def mapped():
    with binary().open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), lambda held, index: held[index]


@kind(anew="shared memory")
def mapped_for_writing():
    path = folder() / "written"
    path.write_bytes(BYTES)
    with path.open("r+b") as file:
        held = mmap.mmap(file.fileno(), 0)

    def read(held: Any, index: int) -> int:
        held[index] = value(index)
        return int(held[index])

    return held, read


@kind()
def mapped_copy():
    with binary().open("rb") as file:
        held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)

    def read(held: Any, index: int) -> int:
        held[SIZE - 1 - index] = VALUES[SIZE - 1 - index]
        return int(held[index])

    return held, read


@kind(anew="shared memory")
def mapped_memory():
    held = mmap.mmap(-1, SIZE)
    held[:] = BYTES
    return held, lambda held, index: held[index]
