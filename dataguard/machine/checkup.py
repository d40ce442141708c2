"""What `dataguard doctor` and reports say about a machine and its libraries: versions, facts, and problems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from dataguard.core.model import PACKAGE
from dataguard.machine.machine import Machine
from dataguard.machine.units import size

_PACKAGES = (PACKAGE, "torch", "torchvision", "numpy", "opencv-python", "opencv-python-headless", "pillow")


def environment() -> dict[str, Any]:
    """Versions and machine facts for a report."""
    machine = Machine.read()
    packages = {}
    for package in _PACKAGES:
        try:
            packages[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "python": machine.python,
        "platform": machine.platform,
        "cores": machine.cores,
        "start_method": machine.start_method,
        "shm_free": machine.shm_free,
        "packages": packages,
    }


ENOUGH_SHARED = 256_000_000
"""Bytes of /dev/shm; less is filled by a few batches of images. Docker's default is 64 MiB."""
ENOUGH_FILES = 1024
"""The usual limit of open files per process."""


@dataclass(frozen=True, slots=True)
class MachineNote:
    """Something about this machine, a problem if `wrong` and otherwise a note, with advice."""

    wrong: bool
    what: str
    advice: str


@dataclass(frozen=True, slots=True)
class Checkup:
    """The facts of the machine and of the libraries, and the remarks that follow from them.

    `version` is dataguard's own.
    """

    version: str
    machine: Machine
    libraries: Mapping[str, Mapping[str, Any]]
    distributions: tuple[str, ...] = ()
    threads: Mapping[str, str] | None = None
    driver: bool = False

    @property
    def remarks(self) -> tuple[MachineNote, ...]:
        """Problems first, then notes."""
        remarks = [*_of_shared_memory(self.machine), *_of_limits(self.machine), *_of_libraries(self)]
        return tuple(sorted(remarks, key=lambda remark: not remark.wrong))

    @property
    def healthy(self) -> bool:
        """Whether there are no problems."""
        return not any(remark.wrong for remark in self.remarks)


def _of_shared_memory(machine: Machine) -> Iterator[MachineNote]:
    total, free = machine.shm_total, machine.shm_free
    if total is None or free is None:
        if machine.platform.startswith("Linux"):
            yield MachineNote(True, "/dev/shm is missing: workers send tensors through it", "mount a tmpfs there")
        return
    more = "docker run --shm-size=8g, or an emptyDir with medium: Memory"
    if total < ENOUGH_SHARED:
        yield MachineNote(True, f"/dev/shm has {size(total)}: a few batches of images fill it", more)
    elif free < ENOUGH_SHARED:
        left = "stop the processes that fill it, and remove what dead processes left in /dev/shm"
        yield MachineNote(True, f"/dev/shm has {size(free)} free of {size(total)}", left)
    if machine.memory_limit is not None and total > machine.memory_limit:
        what = f"/dev/shm ({size(total)}) exceeds the memory limit ({size(machine.memory_limit)}), which includes it"
        yield MachineNote(False, what, "a loader with too many batches in flight is killed without an error message")


def _of_limits(machine: Machine) -> Iterator[MachineNote]:
    free, limit = machine.memory_free, machine.memory_limit
    if free is not None and limit and free < limit / 10:
        yield MachineNote(True, f"only {size(free)} of the {size(limit)} memory limit are free", "request more memory")
    if limit is not None and machine.memory_total and limit < machine.memory_total:
        what = f"the memory limit is {size(limit)}, the machine has {size(machine.memory_total)}"
        yield MachineNote(False, what, "software that sizes itself by the machine's memory uses too much")
    if machine.cores_total and machine.usable_cores < machine.cores_total:
        what = f"{machine.usable_cores} cores are usable, but os.cpu_count() returns {machine.cores_total}"
        yield MachineNote(False, what, "set num_workers and thread counts by the usable cores")
    if machine.open_files is not None and machine.open_files < ENOUGH_FILES:
        what = f"a process may open {machine.open_files} files: each tensor that is sent needs one"
        yield MachineNote(True, what, f"ulimit -n {machine.open_files_most or 65536}")
    elif machine.open_files == ENOUGH_FILES:
        what = f"a process may open {ENOUGH_FILES} files: uncollated samples need one for each tensor that is sent"
        yield MachineNote(False, what, f"ulimit -n {machine.open_files_most or 65536} if 'Too many open files' appears")


def _of_libraries(seen: Checkup) -> Iterator[MachineNote]:
    torch = seen.libraries.get("torch", {})
    for name, facts in seen.libraries.items():
        if "error" in facts:
            yield MachineNote(True, f"{name} cannot be imported: {facts['error']}", "install compatible builds")
    if not torch:
        yield MachineNote(True, "torch is not installed", "pip install torch")
    if torch.get("numpy_works") is False:
        what = "torch is incompatible with the installed numpy: `tensor.numpy()` fails"
        yield MachineNote(True, what, "install the major version of numpy that torch was built for")
    if seen.driver and torch and not torch.get("devices") and "error" not in torch:
        cause = "; ".join(torch.get("warnings", ())) or "this is a CPU-only build" * (not torch.get("cuda"))
        what = f"an NVIDIA driver is installed, but torch sees no device{f': {cause}' if cause else ''}"
        yield MachineNote(True, what, "install a torch build for this driver, or pass the device into the container")
    if torch.get("sharing_strategy") == "file_system":
        what = "tensors are shared by name (file_system): those of a killed process stay in /dev/shm"
        yield MachineNote(
            False, what, "torch.multiprocessing.set_sharing_strategy('file_descriptor'), with a higher ulimit -n"
        )
    several = [name for name in seen.distributions if name.startswith("opencv")]
    if len(several) > 1:
        what = f"{' and '.join(several)} are both installed and overwrite each other's cv2"
        yield MachineNote(False, what, "uninstall all of them, then install one")
    pillow = seen.libraries.get("pillow", {})
    if pillow.get("version") and not pillow.get("libjpeg_turbo"):
        yield MachineNote(
            False, "Pillow is built without libjpeg-turbo: JPEGs decode slowly", "install Pillow's official wheel"
        )
