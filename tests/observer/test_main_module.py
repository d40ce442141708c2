"""Spawned workers do not import the main module of the observing process."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from multiprocessing import spawn
from types import ModuleType

import pytest

from dataguard.observer.host import _hide_main_module


def test_a_spawned_worker_has_no_main_module_to_import(monkeypatch: pytest.MonkeyPatch) -> None:
    main = ModuleType("__main__")
    main.__spec__ = ModuleSpec("dataguard.observer.host", None)
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert spawn.get_preparation_data("worker")["init_main_from_name"] == "dataguard.observer.host"
    _hide_main_module()
    prepared = spawn.get_preparation_data("worker")
    before = set(sys.modules)
    spawn._fixup_main_from_name(prepared["init_main_from_name"])  # type: ignore[attr-defined]
    assert set(sys.modules) == before
