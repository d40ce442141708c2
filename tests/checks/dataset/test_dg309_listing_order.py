"""DG309: an order of files that decides a split is an error, and one that only moves samples a warning."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dataguard.checks.dataset.dg309_listing_order import _changed_pairs
from dataguard.core.model import Severity, Status
from dataguard.engine import scan
from dataguard.settings.settings import Settings


@pytest.mark.scan
@pytest.mark.parametrize(("name", "severity"), [("shared", Severity.WARNING), ("divided", Severity.ERROR)])
def test_an_order_of_files_is_an_error_where_it_decides_a_split(name: str, severity: Severity) -> None:
    report = scan(f"tests.loaders.listed:{name}", Settings(select=("DG309",)))
    failed = [result for result in report.results if result.status is Status.FAILED]
    assert [(result.loader, result.severity) for result in failed] == [("train", severity), ("val", severity)]


def rebuilt(*files: tuple[str, ...]) -> Any:
    return SimpleNamespace(answers=[SimpleNamespace(index=index) for index in range(len(files))], files=list(files))


@pytest.mark.parametrize(
    ("other", "changed"),
    [
        ([("z/0", "z/9"), ("b/0", "b/1"), ("a/0", "a/2")], 0),  # the index chooses the frame of a clip
        ([("z/0", "z/9"), ("a/0", "a/2"), ("b/0", "b/1")], 2),
        ([("z/0", "z/9"), ("a/0", "b/2"), ("b/0", "a/1")], 2),
    ],
)
def test_a_pair_in_one_folder_changes_only_with_the_names_at_its_index(
    other: list[tuple[str, ...]], changed: int
) -> None:
    forward = rebuilt(("z/0", "z/9"), ("a/0", "a/1"), ("b/0", "b/2"))
    assert len({pair.index for pair in _changed_pairs(forward, rebuilt(*other))}) == changed
