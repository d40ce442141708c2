"""The imported modules: which are the user's, and which refer to a function by a name. Standard library only.

Reading a name writes a reference count: in a fork, reading all modules copies 20 to 90 MB (torch 2.15). So each module
of a library is read once, and before the forks if `remember` is called there.
"""

from __future__ import annotations

import itertools
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from dataguard.incident import is_library

_UNRELATED = {
    *("numpy", "scipy", "sympy", "mpmath", "torch", "torchgen", "triton", "cuda"),
    *("dataguard", "dill", "hypothesis", "psutil", "tqdm", "typing_extensions"),
}
"""Packages that refer to no function of another package that is replaced, wherever they are installed. With the
standard library, they define most names in a process."""
_SKIPPED = _UNRELATED | sys.stdlib_module_names
_MODELS = ("torchvision.models", "torchvision.ops")

_read = False
_own: dict[str, str] = {}
"""The source files of the user's modules that were read, by module name."""
_places: defaultdict[int, list[tuple[str, str]]] = defaultdict(list)
"""The modules and names that refer to each callable, by its `id`, in the libraries that were read."""


def remember() -> None:
    """Read the modules that were imported since the last call."""
    global _read
    for name in _unread():
        space = namespace(name)
        file = space.get("__file__")
        if isinstance(file, str) and not is_library(file):
            _own[name] = file
        elif _is_related(name):
            for key, value in list(space.items()):
                if callable(value):
                    _places[id(value)].append((name, key))
    sys.modules[__name__] = sys.modules.pop(__name__)  # what is imported from now on comes after it
    _read = True


def own_files() -> dict[str, str]:
    """The source file of each module of the user's, by module name."""
    remember()
    return {name: file for name, file in _own.items() if namespace(name).get("__file__") == file}


def references(wanted: Mapping[int, object]) -> Iterator[tuple[dict[str, Any], str]]:
    """The namespaces and names that refer to an object with one of these ids, except those of unrelated packages."""
    remember()
    for identity in wanted:
        for module, name in _places.get(identity, ()):
            space = namespace(module)
            if id(space.get(name)) == identity:
                yield space, name
    for module in _own:
        if _package(module) in _UNRELATED:
            continue
        space = namespace(module)
        for name, value in list(space.items()):
            if id(value) in wanted:
                yield space, name


def namespace(name: str) -> dict[str, Any]:
    """The namespace of an imported module, empty if it is none: reading an attribute would import a lazy one."""
    module = sys.modules.get(name)
    return module.__dict__ if isinstance(module, ModuleType) else {}


def _unread() -> list[str]:
    """The modules that were imported, or imported again, since the last call of `remember`."""
    if not _read:
        return list(sys.modules)
    return list(itertools.takewhile(lambda name: name != __name__, reversed(sys.modules)))


def _is_related(name: str) -> bool:
    return _package(name) not in _SKIPPED and not name.startswith(_MODELS)


def _package(name: str) -> str:
    return name.partition(".")[0]
