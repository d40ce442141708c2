"""`dataguard doctor`: the data-loading resources of this machine, and its problems."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from dataguard import __version__
from dataguard.cli.library_versions import MARK
from dataguard.machine.machine import Machine
from dataguard.machine.units import size

SCHEMA = "urn:dataguard:doctor:1"
ENOUGH_SHARED = 256_000_000
"""Bytes of /dev/shm; less is filled by a few batches of images. Docker's default is 64 MiB."""
ENOUGH_FILES = 1024
"""The usual limit of open files per process."""
PATIENCE = 120
"""Seconds that importing the libraries may take, for instance from a slow network drive."""
_APART = ("version", "numpy_works", "start_method")
"""Facts of libraries that are shown elsewhere: first in the row, as a remark, or under the machine."""
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about this machine, a problem if `wrong` and otherwise a note, with advice."""

    wrong: bool
    what: str
    advice: str


@dataclass(frozen=True, slots=True)
class Checkup:
    """The facts of the machine and of the libraries, and the remarks that follow from them."""

    machine: Machine
    libraries: Mapping[str, Mapping[str, Any]]
    distributions: tuple[str, ...] = ()
    threads: Mapping[str, str] | None = None
    driver: bool = False

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """Problems first, then notes."""
        found = [*_of_shared_memory(self.machine), *_of_limits(self.machine), *_of_libraries(self)]
        return tuple(sorted(found, key=lambda remark: not remark.wrong))

    @property
    def healthy(self) -> bool:
        """Whether there are no problems."""
        return not any(remark.wrong for remark in self.remarks)


def check_up() -> Checkup:
    """Examine this machine; a separate process imports the libraries."""
    code, printed = 1, ""
    try:
        command = [sys.executable, "-m", "dataguard.cli.library_versions"]
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=_environment())
        code, printed = outcome.returncode, outcome.stdout
    except subprocess.TimeoutExpired:
        pass
    line = next((line for line in reversed(printed.splitlines()) if line.startswith(MARK)), None)
    lost = {"torch": {"error": f"importing the libraries exited with status {code}, or took more than {PATIENCE} s"}}
    found = json.loads(line.removeprefix(MARK)) if line else {"libraries": lost}
    return Checkup(
        Machine.read(),
        found["libraries"],
        tuple(found.get("distributions", ())),
        {name: os.environ[name] for name in _THREADS if name in os.environ},
        driver=shutil.which("nvidia-smi") is not None or Path("/dev/nvidia0").exists(),
    )


def _environment() -> dict[str, str]:
    """The environment for the process that imports the libraries; it must find this package where this process did."""
    path = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}


def _of_shared_memory(machine: Machine) -> Iterator[Remark]:
    total, free = machine.shm_total, machine.shm_free
    if total is None or free is None:
        if machine.platform.startswith("Linux"):
            yield Remark(True, "/dev/shm is missing: workers send tensors through it", "mount a tmpfs there")
        return
    more = "docker run --shm-size=8g, or an emptyDir with medium: Memory"
    if total < ENOUGH_SHARED:
        yield Remark(True, f"/dev/shm has {size(total)}: a few batches of images fill it", more)
    elif free < ENOUGH_SHARED:
        left = "stop the processes that fill it, and remove what dead processes left in /dev/shm"
        yield Remark(True, f"/dev/shm has {size(free)} free of {size(total)}", left)
    if machine.memory_limit is not None and total > machine.memory_limit:
        what = f"/dev/shm ({size(total)}) exceeds the memory limit ({size(machine.memory_limit)}), which includes it"
        yield Remark(False, what, "a loader with too many batches in flight is killed without an error message")


def _of_limits(machine: Machine) -> Iterator[Remark]:
    free, limit = machine.memory_free, machine.memory_limit
    if free is not None and limit and free < limit / 10:
        yield Remark(True, f"only {size(free)} of the {size(limit)} memory limit are free", "request more memory")
    if limit is not None and machine.memory_total and limit < machine.memory_total:
        what = f"the memory limit is {size(limit)}, the machine has {size(machine.memory_total)}"
        yield Remark(False, what, "software that sizes itself by the machine's memory uses too much")
    if machine.cores_total and machine.usable_cores < machine.cores_total:
        what = f"{machine.usable_cores} cores are usable, but os.cpu_count() returns {machine.cores_total}"
        yield Remark(False, what, "set num_workers and thread counts by the usable cores")
    if machine.open_files is not None and machine.open_files < ENOUGH_FILES:
        what = f"a process may open {machine.open_files} files: each tensor that is sent needs one"
        yield Remark(True, what, f"ulimit -n {machine.open_files_most or 65536}")
    elif machine.open_files == ENOUGH_FILES:
        what = f"a process may open {ENOUGH_FILES} files: uncollated samples need one for each tensor that is sent"
        yield Remark(False, what, f"ulimit -n {machine.open_files_most or 65536} if 'Too many open files' appears")


def _of_libraries(seen: Checkup) -> Iterator[Remark]:
    torch = seen.libraries.get("torch", {})
    for name, facts in seen.libraries.items():
        if "error" in facts:
            yield Remark(True, f"{name} cannot be imported: {facts['error']}", "install compatible builds")
    if not torch:
        yield Remark(True, "torch is not installed", "pip install torch")
    if torch.get("numpy_works") is False:
        what = "torch is incompatible with the installed numpy: `tensor.numpy()` fails"
        yield Remark(True, what, "install the major version of numpy that torch was built for")
    if seen.driver and torch and not torch.get("devices") and "error" not in torch:
        cause = "; ".join(torch.get("warnings", ())) or "this is a CPU-only build" * (not torch.get("cuda"))
        what = f"an NVIDIA driver is installed, but torch sees no device{f': {cause}' if cause else ''}"
        yield Remark(True, what, "install a torch build for this driver, or pass the device into the container")
    if torch.get("sharing_strategy") == "file_system":
        what = "tensors are shared by name (file_system): those of a killed process stay in /dev/shm"
        yield Remark(
            False, what, "torch.multiprocessing.set_sharing_strategy('file_descriptor'), with a higher ulimit -n"
        )
    several = [name for name in seen.distributions if name.startswith("opencv")]
    if len(several) > 1:
        what = f"{' and '.join(several)} are both installed and overwrite each other's cv2"
        yield Remark(False, what, "uninstall all of them, then install one")
    pillow = seen.libraries.get("pillow", {})
    if pillow.get("version") and not pillow.get("libjpeg_turbo"):
        yield Remark(
            False, "Pillow is built without libjpeg-turbo: JPEGs decode slowly", "install Pillow's official wheel"
        )


def as_text(seen: Checkup) -> str:
    """Everything as plain text, problems first."""
    lines = [f"dataguard {__version__} doctor"]
    for title, wrong in (("problems", True), ("notes", False)):
        remarks = [remark for remark in seen.remarks if remark.wrong == wrong]
        lines += ["", title, *(f"  {remark.what}\n    -> {remark.advice}" for remark in remarks)] if remarks else []
    lines += [] if not seen.healthy else ["", "no problems"]
    for title, rows in (("machine", _machine_rows(seen)), ("libraries", _library_rows(seen))):
        lines += ["", title, *(f"  {name:<16} {value}" for name, value in rows.items())]
    return "\n".join(lines) + "\n"


def _machine_rows(seen: Checkup) -> dict[str, str]:
    machine = seen.machine
    quota = f", {machine.cpu_quota:g} by cgroup quota" if machine.cpu_quota else ""
    return {
        "platform": f"{machine.platform}, Python {machine.python}",
        "cores": f"{machine.usable_cores} of {machine.cores_total} ({machine.cores} by affinity{quota})",
        "memory": f"{_shown(machine.memory_total)}, limit {_shown(machine.memory_limit, 'none')}",
        "cgroups": f"version {machine.cgroup}" if machine.cgroup else "none",
        "/dev/shm": f"{_shown(machine.shm_free)} free of {_shown(machine.shm_total)}",
        "open files": f"{machine.open_files or 'unlimited'}, at most {machine.open_files_most or 'unlimited'}",
        "processes": str(machine.processes or "unlimited"),
        "start method": machine.start_method,
        "thread settings": " ".join(f"{name}={value}" for name, value in (seen.threads or {}).items()) or "none",
    }


def _library_rows(seen: Checkup) -> dict[str, str]:
    rows = {}
    for name, facts in seen.libraries.items():
        shown = [
            f"{key.replace('_', ' ')} {_plain(value)}" for key, value in facts.items() if key not in _APART and value
        ]
        shown += ["no accelerator"] if "accelerator" in facts and not facts["accelerator"] else []
        rows[name] = ", ".join([str(facts.get("version", "")), *shown]).strip(", ") or "not installed"
    return rows


def _plain(value: Any) -> str:
    return "yes" if value is True else " + ".join(map(str, value)) if isinstance(value, list) else str(value)


def _shown(count: int | None, otherwise: str = "unknown") -> str:
    return otherwise if count is None else size(count)


def as_json(seen: Checkup) -> str:
    """The same facts as one JSON object."""
    problems, notes = ([asdict(one) for one in seen.remarks if one.wrong == kind] for kind in (True, False))
    machine = {field.name: getattr(seen.machine, field.name) for field in fields(seen.machine)}
    found = {
        "schema": SCHEMA,
        "dataguard": __version__,
        "problems": [{"what": one["what"], "advice": one["advice"]} for one in problems],
        "notes": [{"what": one["what"], "advice": one["advice"]} for one in notes],
        "machine": {**machine, "usable_cores": seen.machine.usable_cores, "thread_settings": seen.threads or {}},
        "libraries": seen.libraries,
    }
    return json.dumps(found, indent=2) + "\n"
