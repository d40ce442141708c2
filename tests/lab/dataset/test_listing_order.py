"""Folders in a chosen order: which line of the user's code is named."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from dataguard.lab.dataset.listing_order import listed
from dataguard.lab.reading.fresh_import import Places

PACKAGE = "import os\n\n\ndef listing(folder):\n    return os.listdir(folder)\n"


def test_a_listing_of_the_user_comes_before_those_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site-packages"
    package.mkdir()
    (package / "lists_folders.py").write_text(PACKAGE)
    (package / "another.py").write_text("")
    monkeypatch.syspath_prepend(package)
    places = Places()
    with listed(places, backward=False):
        lists_folders = importlib.import_module("lists_folders")

        own = [sys._getframe().f_lineno + 2, sys._getframe().f_lineno + 1]
        lists_folders.listing(package)
        list(package.iterdir())
    by_line = {place[1]: through for place, through in places.items() if place and place[0] == __file__}
    assert {line: by_line[line] for line in own} == {own[0]: False, own[1]: True}
