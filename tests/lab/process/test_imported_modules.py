"""Modules are read once, whenever they are imported; the user's own are looked at each time."""

from __future__ import annotations

import base64
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dataguard.lab.process.fork_safety import own_files, references, remember

ENCODED = base64.b64encode
Make = Callable[[str, str], Any]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Writes a module into a folder, imports it, and forgets it after the test."""
    before = set(sys.modules)

    def made(place: str, source: str) -> Any:
        path = tmp_path / f"{place}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
        monkeypatch.syspath_prepend(str(path.parent))
        importlib.invalidate_caches()
        return importlib.import_module(path.stem)

    yield made
    for name in set(sys.modules) - before:
        del sys.modules[name]


def names(of: object) -> list[tuple[str, str]]:
    return [(space["__name__"], name) for space, name in references({id(of): of})]


def test_the_users_modules_have_their_files(make: Make) -> None:
    assert own_files()[__name__] == __file__
    assert "pytest" not in own_files()
    own = make("mine_one", "")
    assert own_files()["mine_one"] == own.__file__
    del sys.modules["mine_one"]
    assert "mine_one" not in own_files()
    make("mine_one", "")
    assert "mine_one" in own_files()


def test_a_function_is_found_under_every_name(make: Make) -> None:
    own = make("mine_two", "from base64 import b64encode as encode")
    make("site-packages/theirs_two", "from base64 import b64encode")
    assert {(__name__, "ENCODED"), ("mine_two", "encode"), ("theirs_two", "b64encode")} <= set(names(ENCODED))
    assert "base64" not in dict(names(ENCODED))  # the standard library
    own.later = ENCODED
    assert ("mine_two", "later") in names(ENCODED)


def test_a_name_that_is_bound_to_something_else_is_no_reference(make: Make) -> None:
    theirs = make("site-packages/theirs_three", "from base64 import b64encode")
    remember()
    theirs.b64encode = base64.b64decode
    assert ("theirs_three", "b64encode") not in names(ENCODED)


def test_a_module_that_imports_itself_when_it_is_used_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lazy(ModuleType):
        def __getattr__(self, name: str) -> object:
            raise ImportError(f"asked for {name}")

    monkeypatch.setitem(sys.modules, "lazy_module_of_a_test", Lazy("lazy_module_of_a_test"))
    assert "lazy_module_of_a_test" not in own_files()


def test_what_is_no_module_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = object()
    monkeypatch.setitem(sys.modules, "no_module_of_a_test", module)
    assert names(ENCODED)
