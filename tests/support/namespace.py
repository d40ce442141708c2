"""A /dev/shm of one's own: a small tmpfs in a mount namespace, where the kernel permits one."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dataguard.process.launcher import ADDRESS

MIB = 1 << 20


@dataclass(frozen=True)
class SharedMemory:
    """`enter` is what to put in front of a command so that it sees this /dev/shm; `path` leads there from outside."""

    enter: tuple[str, ...]
    path: Path

    def command(self, folder: Path, *words: str) -> list[str]:
        """The command, to be run in this folder, with processes of its own: no others see the same."""
        return [*self.enter, "env", f"{ADDRESS}=", "sh", "-c", 'cd "$0" && exec "$@"', str(folder), *words]

    def names(self) -> set[str]:
        return {path.name for path in self.path.iterdir()}


class NotPermittedError(Exception):
    """The kernel or the container forbids a mount namespace; the message is what it said."""


@contextlib.contextmanager
def own_shared_memory(size: int) -> Iterator[SharedMemory]:
    """Raises NotPermittedError where that cannot be had."""
    root = os.geteuid() == 0
    script = f"mount -t tmpfs -o size={size} tmpfs /dev/shm && echo ready && exec sleep 1000"
    try:
        holder = subprocess.Popen(
            ["unshare", "-m" if root else "-rm", "sh", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    except FileNotFoundError as error:
        raise NotPermittedError("there is no `unshare`") from error
    assert holder.stdout is not None
    try:
        said = holder.stdout.readline().strip()
        if said != "ready":
            raise NotPermittedError(said or "unshare failed")
        flags: Sequence[str] = ("-m",) if root else ("-U", "-m", "--preserve-credentials")
        yield SharedMemory(("nsenter", "-t", str(holder.pid), *flags), Path(f"/proc/{holder.pid}/root/dev/shm"))
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


@contextlib.contextmanager
def own_or_common_shared_memory() -> Iterator[SharedMemory]:
    """A large /dev/shm of one's own where permitted, else the machine's, in which others leave their own names."""
    try:
        with own_shared_memory(256 * MIB) as own:
            yield own
    except NotPermittedError:
        yield SharedMemory((), Path("/dev/shm"))
