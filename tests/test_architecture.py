"""The shape of the repository: who imports whom, one stem for everything about a check, and the page that says so."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

from dataguard.checks import CATALOGUE
from dataguard.core.model import Check
from tests.pages.catalogue import catalogue

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "dataguard"
CHECKS = PACKAGE / "checks"
IMPORTS = (ast.Import, ast.ImportFrom)

MODULE_LINES = 600
"""A module holds one subject, whole, and is read in one go; a longer one holds two subjects."""


def test_a_module_is_read_in_one_go() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in PACKAGE.rglob("*.py")}
    assert {str(path.relative_to(ROOT)): n for path, n in lengths.items() if n > MODULE_LINES} == {}


def test_every_name_on_the_page_of_the_architecture_exists() -> None:
    """Names of functions, classes and attributes are defined or used in the package, whichever module they are in."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    words = re.findall(r"`([^`\n]+)`", page)
    paths = {word for word in words if "/" in word or word.endswith((".toml", ".md"))}
    names = {word for word in words if re.fullmatch(r"_?[A-Za-z]\w*(\.\w+)*", word)} - paths
    assert len(names) > 30
    assert {path for path in paths if not (ROOT / path).exists()} == set()
    known = {name for path in PACKAGE.rglob("*.py") for name in names_in(path)}
    assert {name for name in names if not set(name.split(".")) <= known} == set()


def names_in(path: Path) -> Iterator[str]:
    """What a module defines or refers to."""
    yield from path.relative_to(ROOT).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id


def test_no_imports_form_a_circle() -> None:
    """Imports for type checkers count as well: who needs the types of another needs to know it."""
    graph = grimp.build_graph("dataguard", exclude_type_checking_imports=False, cache_dir=None)
    edges = {
        name: graph.find_modules_directly_imported_by(name) | by_name(name, graph.modules) for name in graph.modules
    }
    TopologicalSorter(edges).prepare()


def by_name(module: str, modules: set[str]) -> set[str]:
    """The modules of this package that a module may import at run time: the names in it, if it imports by name."""
    path = ROOT / Path(*module.split("."))
    tree = ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8"))
    called = {ast.unparse(node.func).rpartition(".")[2] for node in ast.walk(tree) if isinstance(node, ast.Call)}
    if not called & {"import_module", "__import__"}:
        return set()
    words = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    bases = ["", *(word for word in words if word.startswith("dataguard.") and word.endswith("."))]
    named = {f"{base}{word}".partition(":")[0].rstrip(".") for base in bases for word in words}
    return named & modules - {module, "dataguard"}


def test_imports_by_name_are_seen() -> None:
    modules = {"dataguard.render.text", "dataguard.render.ci.sarif", "dataguard.training.guard", "dataguard.core.model"}
    assert by_name("dataguard.render.formats", modules) == {"dataguard.render.text", "dataguard.render.ci.sarif"}
    assert "dataguard.training.guard" in by_name("dataguard", modules)
    assert by_name("dataguard.engine", modules) == set()


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


def test_the_catalogue_lists_every_module_of_a_check() -> None:
    """A stale one is renewed with `python -m tests.pages`."""
    assert (CHECKS / "__init__.py").read_text(encoding="utf-8") == catalogue()


def test_the_catalogue_is_ordered_and_free_of_twins() -> None:
    codes = [check.code for check in CATALOGUE]
    assert codes == sorted(set(codes))
    assert len({check.name for check in CATALOGUE}) == len(CATALOGUE)
