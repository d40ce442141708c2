"""The shape of the repository: who imports whom, how long a file may be, and one stem for everything about a check."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

from dataguard.checks import CATALOGUE
from dataguard.model import Check

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "dataguard"
CHECKS = PACKAGE / "checks"
IMPORTS = (ast.Import, ast.ImportFrom)

CHECK_LINES = 100
"""A check fits one screen, its documentation included."""
MODULE_LINES = 300
"""Any other module fits two screens and a half; a longer one holds two subjects."""
MODULES = 15
"""A folder of more modules holds two subjects."""


def test_files_are_short() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in PACKAGE.rglob("*.py")}
    checks = set(CHECKS.rglob("dg*.py"))
    allowed = {path: CHECK_LINES if path in checks else MODULE_LINES for path in lengths}
    too_long = {str(path.relative_to(ROOT)): n for path, n in lengths.items() if n > allowed[path]}
    assert too_long == {}


def test_folders_are_small() -> None:
    modules = [path.parent for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"]
    assert {str(folder): modules.count(folder) for folder in set(modules) if modules.count(folder) > MODULES} == {}


def test_no_imports_form_a_circle() -> None:
    """Imports for type checkers count as well: who needs the types of another needs to know it."""
    graph = grimp.build_graph("dataguard", exclude_type_checking_imports=False, cache_dir=None)
    TopologicalSorter({module: graph.find_modules_directly_imported_by(module) for module in graph.modules}).prepare()


@pytest.mark.parametrize("check", CATALOGUE, ids=lambda check: check.code)
def test_a_check_imports_no_other(check: Check) -> None:
    (path,) = CHECKS.rglob(f"{check.stem}.py")
    imports = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, IMPORTS)]
    names = [name for node in imports for name in [getattr(node, "module", None), *(one.name for one in node.names)]]
    assert [name for name in names if name and re.search(r"\bdg\d{3}_", name)] == []


@pytest.mark.parametrize(
    ("folder", "suffix"),
    [("dataguard/checks", ".py"), ("sample_datasets", ".py"), ("docs/checks", ".md")],
    ids=["module", "sample", "page"],
)
def test_every_check_owns_one_file_of_its_stem(folder: str, suffix: str) -> None:
    assert {path.stem for path in (ROOT / folder).rglob(f"dg*{suffix}")} == {check.stem for check in CATALOGUE}


def test_the_catalogue_is_ordered_and_free_of_twins() -> None:
    codes = [check.code for check in CATALOGUE]
    assert codes == sorted(set(codes))
    assert len({check.name for check in CATALOGUE}) == len(CATALOGUE)
