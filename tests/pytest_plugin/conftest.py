"""Folders that pytest's own `pytester` runs the plugin in."""

from __future__ import annotations

import pytest

from dataguard.process.session import Session
from tests.support.pytest_runs import LOADERS


@pytest.fixture
def place(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """An empty folder, but for a module of loaders."""
    pytester.makepyfile(loaders=LOADERS)
    monkeypatch.setenv("COLUMNS", "160")
    return pytester


@pytest.fixture
def named(place: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """The same, for tests about names only: each target says that it has a train and a val loader.

    Starting torch some twenty times over would teach nothing more.
    """
    monkeypatch.setattr(Session, "loaders", lambda self, contain: ("train", "val"))
    return place


@pytest.fixture
def bare(place: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """The same, without plugins that are only installed: those of others may import what they like."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return place
