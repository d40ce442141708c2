"""DG106 shared-handle: several workers read a file through one offset, because it was opened before the fork."""

from __future__ import annotations

import fcntl
import gzip
import multiprocessing
import os
import sqlite3
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from sample_datasets._parts import PHOTOGRAPHS, Pictures, share

RECORDS = max(PHOTOGRAPHS, key=lambda path: path.stat().st_size)
"""A file of any content, read as records of a fixed size."""
SIZE = 768
COUNT = 24

Read = Callable[[int], bytes]


class Records(Dataset[tuple[Tensor, int]]):
    """Records of one size, each read by a function that is given its number."""

    def __init__(self, read: Read) -> None:
        self.read = read

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        number = range(COUNT)[index]
        data = torch.frombuffer(bytearray(self.read(number)), dtype=torch.uint8)
        return data.reshape(3, 16, 16), number % 4


def loader(read: Read, **settings: Any) -> DataLoader[Any]:
    """A loader of records with two workers, which asks for fork: open files can not be sent to spawned ones (DG104)."""
    forked = {"batch_size": 4, "num_workers": 2, "multiprocessing_context": "fork"}
    return DataLoader(Records(read), **{**forked, **settings})


def temporary(content: bytes = b"") -> IO[bytes]:
    """A file without a name, which is gone when nobody holds it any more."""
    file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - to stay open is what these samples are about  # culprit
    file.write(content)
    return file


class SeekAndRead:
    """Reads records by `seek` and `read` from a file that it holds open."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file

    def __call__(self, number: int) -> bytes:
        self.file.seek(number * SIZE)
        return self.file.read(SIZE)


def bad() -> DataLoader[Any]:
    """The file is opened by the factory, and both workers read it."""
    return loader(SeekAndRead(RECORDS.open("rb", buffering=0)))  # culprit


def bad_buffered() -> DataLoader[Any]:
    """The file has a buffer, of which each worker has a copy of its own."""
    return loader(SeekAndRead(RECORDS.open("rb")))  # culprit


def bad_temporary() -> DataLoader[Any]:
    """The file was written by the factory, and has no name."""
    return loader(SeekAndRead(temporary(RECORDS.read_bytes())))


MODULE_FILE = RECORDS.open("rb", buffering=0)  # culprit


def read_module_file(number: int) -> bytes:
    """Read from the file that this module opened."""
    MODULE_FILE.seek(number * SIZE)
    return MODULE_FILE.read(SIZE)


def bad_module() -> DataLoader[Any]:
    """The file is opened when the module is imported."""
    return loader(read_module_file)


class Zipped:
    """Reads the members of a zip archive that it holds open."""

    def __init__(self) -> None:
        file = temporary()
        content = RECORDS.read_bytes()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for number in range(COUNT):
                archive.writestr(str(number), content[number * SIZE : (number + 1) * SIZE])
        self.archive = zipfile.ZipFile(file)

    def __call__(self, number: int) -> bytes:
        return self.archive.read(str(number))


def bad_zip() -> DataLoader[Any]:
    """Both workers read members of one zip archive."""
    return loader(Zipped())


class Wholly:
    """Reads the whole file for each record."""

    def __init__(self) -> None:
        self.file = RECORDS.open("rb", buffering=0)  # culprit
        self.file.read()

    def __call__(self, number: int) -> bytes:
        self.file.seek(0)
        return self.file.read()[number * SIZE :][:SIZE]


def bad_wholly() -> DataLoader[Any]:
    """Every read ends where it began, at the end of the file."""
    return loader(Wholly())


class Tarred:
    """Reads the members of a tar archive that it holds open."""

    def __init__(self) -> None:
        file = temporary()
        content = RECORDS.read_bytes()
        with tarfile.open(fileobj=file, mode="w") as archive:
            for number in range(COUNT):
                member = tarfile.TarInfo(str(number))
                member.size = SIZE
                archive.addfile(member, BytesIO(content[number * SIZE : (number + 1) * SIZE]))
        file.seek(0)
        self.archive = tarfile.open(fileobj=file)  # noqa: SIM115 - as above
        self.members = self.archive.getmembers()

    def __call__(self, number: int) -> bytes:
        file = self.archive.extractfile(self.members[number])
        assert file is not None
        return file.read()


def bad_tar() -> DataLoader[Any]:
    """Both workers read members of one tar archive."""
    return loader(Tarred())


def bad_three_workers() -> DataLoader[Any]:
    """Three persistent workers read one file, in a shuffled order."""
    read = SeekAndRead(RECORDS.open("rb"))  # culprit
    return loader(read, num_workers=3, persistent_workers=True, shuffle=True)


class Paged:
    """Reads the pages of a TIFF file that it holds open, as microscopes write them."""

    def __init__(self) -> None:
        content = RECORDS.read_bytes()
        pages = [Image.frombytes("L", (16, 48), content[number * SIZE :][:SIZE]) for number in range(COUNT)]
        file = temporary()
        pages[0].save(file, "TIFF", save_all=True, append_images=pages[1:])
        self.pages = Image.open(file)  # culprit

    def __call__(self, number: int) -> bytes:
        self.pages.seek(number)
        return self.pages.tobytes()


def bad_pages() -> DataLoader[Any]:
    """Both workers read pages of one image file."""
    return loader(Paged())


class Headed:
    """Holds a file for each record, and has read its first bytes: what follows lies in a buffer by then."""

    def __init__(self, buffering: int) -> None:
        self.files = [RECORDS.open("rb", buffering=buffering) for _ in range(COUNT)]  # culprit
        self.heads = [file.read(4) for file in self.files]

    def __call__(self, number: int) -> bytes:
        file = self.files[number]
        file.seek(4)
        content = file.read()
        return content[-SIZE - number :][:SIZE].ljust(SIZE, b"\0")


def bad_headed() -> DataLoader[Any]:
    """A worker has its own copy of the buffer, but goes on reading where another one ended in an earlier epoch."""
    return loader(Headed(buffering=-1), persistent_workers=True, shuffle=True)


class LockedInVain(SeekAndRead):
    """Reads under a lock that belongs to the open file, which the workers share: none ever waits."""

    def __init__(self) -> None:
        super().__init__(RECORDS.open("rb", buffering=0))  # culprit

    def __call__(self, number: int) -> bytes:
        fcntl.flock(self.file, fcntl.LOCK_EX)
        try:
            return super().__call__(number)
        finally:
            fcntl.flock(self.file, fcntl.LOCK_UN)


def bad_locked() -> DataLoader[Any]:
    """A lock that a process does not take for itself alone."""
    return loader(LockedInVain())


class OnFirstUse:
    """Opens the file when it is first read, hence in each worker."""

    def __init__(self) -> None:
        self.inner: SeekAndRead | None = None

    def __call__(self, number: int) -> bytes:
        if self.inner is None:
            self.inner = SeekAndRead(RECORDS.open("rb"))
        return self.inner(number)


def good() -> DataLoader[Any]:
    """Each worker opens the file for itself."""
    return loader(OnFirstUse())


class PerProcess(OnFirstUse):
    """Opens the file at once, and again in every other process."""

    def __init__(self) -> None:
        self.inner = SeekAndRead(RECORDS.open("rb"))
        self.process = os.getpid()

    def __call__(self, number: int) -> bytes:
        if self.process != os.getpid():
            self.inner, self.process = None, os.getpid()
        return super().__call__(number)


def good_per_process() -> DataLoader[Any]:
    """The file is open before the fork, but no worker reads that one."""
    return loader(PerProcess())


class AtOffset:
    """Reads without moving the offset, from a file that is shared."""

    def __init__(self) -> None:
        self.file = RECORDS.open("rb")

    def __call__(self, number: int) -> bytes:
        return os.pread(self.file.fileno(), SIZE, number * SIZE)


def good_pread() -> DataLoader[Any]:
    """`os.pread` needs no offset."""
    return loader(AtOffset())


def reopen(worker: int) -> None:
    """Open the file anew in each worker."""
    info = get_worker_info()
    assert info is not None
    info.dataset.read = SeekAndRead(RECORDS.open("rb"))  # type: ignore[attr-defined]


def good_worker_init() -> DataLoader[Any]:
    """`worker_init_fn` opens the file anew."""
    return loader(SeekAndRead(RECORDS.open("rb")), worker_init_fn=reopen)


class Locked(SeekAndRead):
    """Reads under a lock between processes, without a buffer."""

    def __init__(self, lock: AbstractContextManager[bool]) -> None:
        super().__init__(RECORDS.open("rb", buffering=0))
        self.lock = lock

    def __call__(self, number: int) -> bytes:
        with self.lock:
            return super().__call__(number)


def good_locked() -> DataLoader[Any]:
    """Only one worker at a time moves the offset."""
    return loader(Locked(multiprocessing.Lock()))


LOCK = multiprocessing.Lock()


def good_lock_of_module() -> DataLoader[Any]:
    """The lock exists since the import of the module."""
    return loader(Locked(LOCK))


class FileLocked(SeekAndRead):
    """Reads under a lock on the file, which belongs to a process, without a buffer."""

    def __init__(self) -> None:
        super().__init__(temporary(RECORDS.read_bytes()))

    def __call__(self, number: int) -> bytes:
        fcntl.lockf(self.file, fcntl.LOCK_EX)
        try:
            return super().__call__(number)
        finally:
            fcntl.lockf(self.file, fcntl.LOCK_UN)


def good_file_locked() -> DataLoader[Any]:
    """Only the process that holds the file's lock moves the offset."""
    return loader(FileLocked())


def good_one_worker() -> DataLoader[Any]:
    """One worker has the offset to itself."""
    return loader(SeekAndRead(RECORDS.open("rb")), num_workers=1)


def good_main_process() -> DataLoader[Any]:
    """Without workers nothing is shared."""
    return loader(SeekAndRead(RECORDS.open("rb")), num_workers=0, multiprocessing_context=None)


class Mapped:
    """Reads from a file that is mapped into memory."""

    def __init__(self) -> None:
        self.content = np.memmap(RECORDS, mode="r")

    def __call__(self, number: int) -> bytes:
        return self.content[number * SIZE : (number + 1) * SIZE].tobytes()


def good_memmap() -> DataLoader[Any]:
    """A memory map has no offset."""
    return loader(Mapped())


def good_headed() -> DataLoader[Any]:
    """Without a buffer every read goes by the offset that was just set."""
    return loader(Headed(buffering=0))


def good_headed_kept() -> DataLoader[Any]:
    """Workers that live on, in an order that stays the same, read the same files in every epoch."""
    return loader(Headed(buffering=-1), persistent_workers=True)


class FileLockedApart(SeekAndRead):
    """Reads under a lock on a file that each worker opens for itself, without a buffer."""

    def __init__(self) -> None:
        super().__init__(RECORDS.open("rb", buffering=0))

    def __call__(self, number: int) -> bytes:
        with Path(__file__).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return super().__call__(number)


def good_file_locked_apart() -> DataLoader[Any]:
    """A lock on an open file of their own keeps workers apart."""
    return loader(FileLockedApart())


class ManyFiles:
    """Holds a file for each record, as lazily read pictures do."""

    def __init__(self) -> None:
        self.files = [RECORDS.open("rb") for _ in range(COUNT)]

    def __call__(self, number: int) -> bytes:
        self.files[number].seek(number * SIZE)
        return self.files[number].read(SIZE)


def good_many_files() -> DataLoader[Any]:
    """No file is read by two workers."""
    return loader(ManyFiles())


class Database:
    """Reads records from a SQLite file that it holds open; SQLite reads without an offset."""

    def __init__(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "records.sqlite"
            with sqlite3.connect(path) as writing:
                content = RECORDS.read_bytes()
                rows = [(number, content[number * SIZE : (number + 1) * SIZE]) for number in range(COUNT)]
                writing.execute("create table records (number integer primary key, data blob)")
                writing.executemany("insert into records values (?, ?)", rows)
            writing.close()
            self.connection = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)
            self.connection.execute("select count(*) from records").fetchone()  # opened now: it may go

    def __call__(self, number: int) -> bytes:
        data: bytes = self.connection.execute("select data from records where number = ?", (number,)).fetchone()[0]
        return data


def good_sqlite() -> DataLoader[Any]:
    """A database that is only read needs no offset."""
    return loader(Database())


class LoggedPictures(Pictures):
    """Pictures held in memory; each read is written to a log that all workers share."""

    def __init__(self) -> None:
        super().__init__()
        self.log = tempfile.TemporaryFile("w+", buffering=1)  # noqa: SIM115 - as above

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        self.log.write(f"read {index}\n")
        return super().__getitem__(index)


def good_log() -> DataLoader[Any]:
    """The offset of a log moves because it is written to."""
    return DataLoader(LoggedPictures(), batch_size=4, num_workers=2, multiprocessing_context="fork")


class Lines(IterableDataset[Tensor]):
    """Numbers in the lines of a file that is opened when the stream is made; each worker keeps its share."""

    def __init__(self, count: int = 200) -> None:
        self.file = tempfile.NamedTemporaryFile("w+")  # noqa: SIM115 - as above  # culprit
        self.file.writelines(f"{number} {number * 0.618034 % 1:.12f}\n" for number in range(count))
        self.file.flush()

    def lines(self) -> Iterator[str]:
        """All lines of the file, which fit into its buffer: hardly ever does a worker miss any."""
        self.file.seek(0)
        return iter(self.file.readlines())

    def __iter__(self) -> Iterator[Tensor]:
        return share(torch.tensor([float(part) for part in line.split()]) for line in self.lines())


def streamed(stream: IterableDataset[Tensor]) -> DataLoader[Any]:
    """A validation loader of a stream with two forked workers."""
    return DataLoader(stream, batch_size=8, num_workers=2, multiprocessing_context="fork")


def bad_stream() -> DataLoader[Any]:
    """Both workers read through the file of the factory."""
    return streamed(Lines())


class CompressedLines(Lines):
    """Lines of a compressed file that is held open; workers of the second epoch find its offset elsewhere."""

    def __init__(self) -> None:
        super().__init__(30_000)
        self.compressed = tempfile.NamedTemporaryFile(suffix=".gz")  # noqa: SIM115 - as above
        self.compressed.write(gzip.compress(Path(self.file.name).read_bytes()))
        self.compressed.flush()
        self.content = gzip.open(self.compressed.name, "rt")  # noqa: SIM115 - as above  # culprit

    def lines(self) -> Iterator[str]:
        """The first lines of the content."""
        self.content.seek(0)
        return islice(self.content, 200)


def bad_stream_compressed() -> DataLoader[Any]:
    """An error in the header of the file, under which nothing is said of its offset."""
    return streamed(CompressedLines())


class Reopened(Lines):
    """Lines of a file that each worker opens again."""

    def lines(self) -> Iterator[str]:
        """All lines of a file of its own."""
        with Path(self.file.name).open() as file:
            yield from file


def good_stream_reopened() -> DataLoader[Any]:
    """The file that is open since the start is read no more."""
    return streamed(Reopened())


class FileEach(Lines):
    """Two files, one for each worker."""

    def __init__(self) -> None:
        super().__init__()
        self.files = [Path(self.file.name).open() for _ in range(2)]  # noqa: SIM115 - as above

    def lines(self) -> Iterator[str]:
        """All lines of the file of this worker."""
        worker = get_worker_info()
        file = self.files[worker.id if worker else 0]
        file.seek(0)
        return iter(file.readlines())


def good_stream_file_each() -> DataLoader[Any]:
    """No file is read by two workers."""
    return streamed(FileEach())


class LockedLines(Lines):
    """Lines of a file that one worker after the other reads as a whole."""

    lock = multiprocessing.Lock()

    def lines(self) -> Iterator[str]:
        """All lines, read under a lock between processes."""
        with self.lock:
            return super().lines()


def good_stream_locked() -> DataLoader[Any]:
    """Only one worker at a time moves the offset."""
    return streamed(LockedLines())
