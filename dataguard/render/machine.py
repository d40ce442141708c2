"""The text output of `dataguard doctor`."""

from __future__ import annotations

from typing import Any

from dataguard.machine.checkup import Checkup
from dataguard.machine.units import size
from dataguard.render.escapes import printable

_APART = ("version", "numpy_works", "start_method")
"""Facts of libraries that are shown elsewhere: first in the row, as a remark, or under the machine."""


def render(seen: Checkup, **look: Any) -> str:
    """Return the checkup as plain text, problems first; `look` is ignored."""
    lines = [f"dataguard {seen.version} doctor"]
    for title, wrong in (("problems", True), ("notes", False)):
        remarks = [remark for remark in seen.remarks if remark.wrong == wrong]
        lines += ["", title, *(f"  {remark.what}\n    -> {remark.advice}" for remark in remarks)] if remarks else []
    lines += [] if not seen.healthy else ["", "no problems"]
    for title, rows in (("machine", machine_rows(seen)), ("libraries", library_rows(seen))):
        lines += ["", title, *(f"  {name:<16} {value}" for name, value in rows.items())]
    return printable("\n".join(lines)) + "\n"


def machine_rows(seen: Checkup) -> dict[str, str]:
    """The facts of the machine, by name."""
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


def library_rows(seen: Checkup) -> dict[str, str]:
    """The versions and facts of the libraries, by name."""
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
