"""Facts of this machine for data loading, and what is wrong with it: `dataguard doctor`."""

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
"""Bytes of /dev/shm below which a few batches of images fill it; Docker gives 64 MiB."""
ENOUGH_FILES = 1024
"""Open files that a process is allowed nearly everywhere."""
PATIENCE = 120
"""Seconds that importing the libraries may take, from a slow network drive."""
_APART = ("version", "numpy_works", "start_method")
"""What libraries say that is told elsewhere: in front, as a remark, or of the machine."""
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about this machine: `wrong`, or else worth knowing, and what can be done."""

    wrong: bool
    what: str
    advice: str


@dataclass(frozen=True, slots=True)
class Checkup:
    """All that was seen: the machine, what the libraries say of themselves, and what follows."""

    machine: Machine
    libraries: Mapping[str, Mapping[str, Any]]
    distributions: tuple[str, ...] = ()
    threads: Mapping[str, str] | None = None
    driver: bool = False

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What is wrong first, then what is worth knowing."""
        found = [*_of_shared_memory(self.machine), *_of_limits(self.machine), *_of_libraries(self)]
        return tuple(sorted(found, key=lambda remark: not remark.wrong))

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong."""
        return not any(remark.wrong for remark in self.remarks)


def check_up() -> Checkup:
    """Look at this machine; the libraries are imported by a process of its own."""
    code, said = 1, ""
    try:
        command = [sys.executable, "-m", "dataguard.cli.library_versions"]
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=_environment())
        code, said = outcome.returncode, outcome.stdout
    except subprocess.TimeoutExpired:
        pass
    line = next((line for line in reversed(said.splitlines()) if line.startswith(MARK)), None)
    lost = {"torch": {"error": f"importing the libraries ended with status {code}, or took over {PATIENCE} s"}}
    found = json.loads(line.removeprefix(MARK)) if line else {"libraries": lost}
    return Checkup(
        Machine.read(),
        found["libraries"],
        tuple(found.get("distributions", ())),
        {name: os.environ[name] for name in _THREADS if name in os.environ},
        driver=shutil.which("nvidia-smi") is not None or Path("/dev/nvidia0").exists(),
    )


def _environment() -> dict[str, str]:
    """The environment of the program that asks libraries, which finds this package wherever it was found here."""
    path = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}


def _of_shared_memory(machine: Machine) -> Iterator[Remark]:
    total, free = machine.shm_total, machine.shm_free
    if total is None or free is None:
        if machine.platform.startswith("Linux"):
            yield Remark(True, "there is no /dev/shm, through which workers send tensors", "mount a tmpfs there")
        return
    more = "docker run --shm-size=8g, or an emptyDir of medium Memory"
    if total < ENOUGH_SHARED:
        yield Remark(True, f"/dev/shm holds {size(total)}: a few batches of images fill it", more)
    elif free < ENOUGH_SHARED:
        left = "end what fills it, and remove what dead processes left in /dev/shm"
        yield Remark(True, f"/dev/shm has {size(free)} free, of {size(total)}", left)
    if machine.memory_limit is not None and total > machine.memory_limit:
        what = f"/dev/shm ({size(total)}) counts to the limit of memory ({size(machine.memory_limit)}), and is larger"
        yield Remark(False, what, "a loader with too many batches in flight is killed, with no error")


def _of_limits(machine: Machine) -> Iterator[Remark]:
    free, limit = machine.memory_free, machine.memory_limit
    if free is not None and limit and free < limit / 10:
        yield Remark(
            True, f"{size(free)} of memory are free of the {size(limit)} that are allowed", "ask for more memory"
        )
    if limit is not None and machine.memory_total and limit < machine.memory_total:
        what = f"{size(limit)} of memory are allowed, though {size(machine.memory_total)} are built in"
        yield Remark(False, what, "what plans by the size of the machine plans too much")
    if machine.cores_total and machine.usable_cores < machine.cores_total:
        what = f"{machine.usable_cores} cores can be used, and os.cpu_count() says {machine.cores_total}"
        yield Remark(False, what, "set num_workers and thread counts by the cores that can be used")
    if machine.open_files is not None and machine.open_files < ENOUGH_FILES:
        what = f"a process may open {machine.open_files} files: each tensor that is sent takes one"
        yield Remark(True, what, f"ulimit -n {machine.open_files_most or 65536}")
    elif machine.open_files == ENOUGH_FILES:
        what = f"a process may open {ENOUGH_FILES} files: samples that are sent uncollated take one for each tensor"
        yield Remark(False, what, f"ulimit -n {machine.open_files_most or 65536} where 'Too many open files' appears")


def _of_libraries(seen: Checkup) -> Iterator[Remark]:
    torch = seen.libraries.get("torch", {})
    for name, facts in seen.libraries.items():
        if "error" in facts:
            yield Remark(True, f"{name} cannot be imported: {facts['error']}", "install builds that belong together")
    if not torch:
        yield Remark(True, "torch is not installed", "pip install torch")
    if torch.get("numpy_works") is False:
        what = "torch cannot use the installed numpy: `tensor.numpy()` fails"
        yield Remark(True, what, "install a numpy of the major version that torch was built for")
    if seen.driver and torch and not torch.get("devices") and "error" not in torch:
        said = "; ".join(torch.get("warnings", ())) or "this build is for the CPU" * (not torch.get("cuda"))
        what = f"there is an NVIDIA driver, and torch sees no device{f': {said}' if said else ''}"
        yield Remark(True, what, "install a build of torch for this driver, or pass the device into the container")
    if torch.get("sharing_strategy") == "file_system":
        what = "tensors are shared by name (file_system): what a killed process sent stays in /dev/shm"
        yield Remark(
            False, what, "torch.multiprocessing.set_sharing_strategy('file_descriptor'), with a higher ulimit -n"
        )
    several = [name for name in seen.distributions if name.startswith("opencv")]
    if len(several) > 1:
        what = f"{' and '.join(several)} are both installed, and overwrite each other's cv2"
        yield Remark(False, what, "uninstall all of them, then install one")
    pillow = seen.libraries.get("pillow", {})
    if pillow.get("version") and not pillow.get("libjpeg_turbo"):
        yield Remark(False, "Pillow is built without libjpeg-turbo: JPEGs decode slowly", "install Pillow's own wheel")


def as_text(seen: Checkup) -> str:
    """Everything on plain lines, to be pasted where somebody helps; what is wrong comes first."""
    lines = [f"dataguard {__version__} doctor"]
    for title, wrong in (("wrong", True), ("worth knowing", False)):
        remarks = [remark for remark in seen.remarks if remark.wrong == wrong]
        lines += ["", title, *(f"  {remark.what}\n    -> {remark.advice}" for remark in remarks)] if remarks else []
    lines += [] if not seen.healthy else ["", "nothing is wrong"]
    for title, rows in (("machine", _machine_rows(seen)), ("libraries", _library_rows(seen))):
        lines += ["", title, *(f"  {name:<16} {value}" for name, value in rows.items())]
    return "\n".join(lines) + "\n"


def _machine_rows(seen: Checkup) -> dict[str, str]:
    machine = seen.machine
    quota = f", {machine.cpu_quota:g} by control group" if machine.cpu_quota else ""
    return {
        "platform": f"{machine.platform}, Python {machine.python}",
        "cores": f"{machine.usable_cores} of {machine.cores_total} ({machine.cores} by affinity{quota})",
        "memory": f"{_shown(machine.memory_total)}, allowed {_shown(machine.memory_limit, 'all of it')}",
        "control groups": f"version {machine.cgroup}" if machine.cgroup else "none",
        "/dev/shm": f"{_shown(machine.shm_free)} free of {_shown(machine.shm_total)}",
        "open files": f"{machine.open_files or 'unlimited'}, at most {machine.open_files_most or 'unlimited'}",
        "processes": str(machine.processes or "unlimited"),
        "workers start by": machine.start_method,
        "thread settings": " ".join(f"{name}={value}" for name, value in (seen.threads or {}).items()) or "none",
    }


def _library_rows(seen: Checkup) -> dict[str, str]:
    rows = {}
    for name, facts in seen.libraries.items():
        said = [
            f"{key.replace('_', ' ')} {_plain(value)}" for key, value in facts.items() if key not in _APART and value
        ]
        said += ["no accelerator"] if "accelerator" in facts and not facts["accelerator"] else []
        rows[name] = ", ".join([str(facts.get("version", "")), *said]).strip(", ") or "not installed"
    return rows


def _plain(value: Any) -> str:
    return "yes" if value is True else " + ".join(map(str, value)) if isinstance(value, list) else str(value)


def _shown(count: int | None, otherwise: str = "unknown") -> str:
    return otherwise if count is None else size(count)


def as_json(seen: Checkup) -> str:
    """The same as one JSON object."""
    wrong, knowing = ([asdict(one) for one in seen.remarks if one.wrong == kind] for kind in (True, False))
    machine = {field.name: getattr(seen.machine, field.name) for field in fields(seen.machine)}
    found = {
        "schema": SCHEMA,
        "dataguard": __version__,
        "wrong": [{"what": one["what"], "advice": one["advice"]} for one in wrong],
        "worth_knowing": [{"what": one["what"], "advice": one["advice"]} for one in knowing],
        "machine": {**machine, "usable_cores": seen.machine.usable_cores, "thread_settings": seen.threads or {}},
        "libraries": seen.libraries,
    }
    return json.dumps(found, indent=2) + "\n"
