"""Real libraries that share samples out among ranks and workers: right ones pass, and wrong ones are told apart."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataguard.core.model import Status
from dataguard.engine import scan
from dataguard.settings.settings import Settings
from tests.loaders import sharded
from tests.support.faces import todays

SELECT = ("DG0", "DG2", "DG404")


@pytest.fixture(autouse=True, scope="module")
def _files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder: Path = tmp_path_factory.mktemp("shards")
    sharded.write(folder)
    os.environ[sharded.FOLDER] = str(folder)
    yield
    del os.environ[sharded.FOLDER]


def statuses(target: str) -> dict[tuple[str, str], Status]:
    """What became of each check on each loader."""
    report = scan(f"tests.loaders.sharded:{target}", Settings(select=SELECT))
    return {(result.loader, result.code): result.status for result in report.results}


@pytest.mark.scan
@pytest.mark.parametrize("library", todays(sharded.RIGHT))
def test_right_loaders_pass(library: str) -> None:
    found = statuses(f"{library}_right")
    assert {status for status in found.values() if status in (Status.FAILED, Status.BROKEN)} == set()
    for loader in sharded.RANKED[library]:
        assert [found[loader, code] for code in ("DG202", "DG203", "DG204")] == [Status.PASSED] * 3


@pytest.mark.scan
@pytest.mark.parametrize(("target", "code"), [("unsharded", "DG202"), ("uneven", "DG203")])
def test_wrong_ones_are_told_by_their_code(target: str, code: str) -> None:
    failed = [key for key, status in statuses(target).items() if status is Status.FAILED]
    assert failed == [(loader, code) for loader in sharded.WRONG[code]]


@pytest.mark.skipif(not importlib.util.find_spec("streaming"), reason="needs the nightly extra")
def test_shards_of_mosaicml_pass() -> None:
    found = statuses("mosaic")
    assert [found["mosaic", code] for code in ("DG201", "DG202", "DG203", "DG204")] == [Status.PASSED] * 4
