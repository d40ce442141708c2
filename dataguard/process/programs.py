"""Commands that start our own processes. Standard library only.

`python -m` and `python -c` import from the working folder first: a `queue.py` there would replace the module that our
processes need, and would be executed even where no target is loaded from that folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = str(Path(__file__).parents[2])
"""The folder that this package is imported from."""
_BOOT = """
import sys
if sys.path[:1] == [""]:  # the working folder; with PYTHONSAFEPATH or -P, Python puts none there
    del sys.path[0]
from importlib import import_module, util
from importlib.machinery import PathFinder
root, module, *arguments = sys.argv[1:]
spec = PathFinder.find_spec("dataguard", [root])
package = sys.modules["dataguard"] = util.module_from_spec(spec)
spec.loader.exec_module(package)
if root not in sys.path:  # spawned workers look for it there
    sys.path.append(root)
import_module(module).main(*arguments)
"""
"""Calls `main` of a module of this dataguard, even where the process can import another one, or none."""


def command(module: str, *arguments: object) -> list[str]:
    """The command that calls `main` of a module of ours with these arguments, as strings, in a new process.

    Spawned workers of such a process have no main module to import.
    """
    return [sys.executable, "-c", _BOOT, ROOT, module, *map(str, arguments)]
