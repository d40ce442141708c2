"""From a spelling such as `pkg.mod:attr` to the object of that name, or to one sentence with the way out."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataguard.core.model import UsageError
from dataguard.settings.settings import Settings
from dataguard.targets.loading import load
from dataguard.targets.spelling import require_findable

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty project as the current directory, importable as with pytest; what it adds to sys.modules is removed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    known = set(sys.modules)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "data.py").write_text(GOOD)
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


GOOD = """
from torch.utils.data import DataLoader, Dataset
import os.path

class Loaders:
    @classmethod
    def make(cls):
        return DataLoader(range(10))

def make_train():
    return DataLoader(range(10))

def make_val():
    return DataLoader(range(10))

shared = DataLoader(range(10))
number = 3

class Lazy:
    @property
    def loader(self):
        raise RuntimeError("no data")

lazy = Lazy()
_private = make_train
"""


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("shop.data:make_train", "make_train"),
        ("shop.data:shared", "shared"),
        ("shop.data:Loaders.make", "make"),
        ("train=shop.data:make_train", "train"),
        ("my-name.1=shop.data:make_train", "my-name.1"),
        ("shop.data:_private", "_private"),
        ("train-model:make", "make"),
        ("01_data:make", "make"),
        ("données:faire", "faire"),
    ],
)
def test_a_spelling_is_imported(project: Path, spelling: str, name: str) -> None:
    for file in ("train-model", "01_data", "données"):
        (project / f"{file}.py").write_text(GOOD + "\nmake = faire = make_train\n")
    loaded = load(spelling)
    assert (loaded.name, loaded.spelling) == (name, spelling)
    assert list(loaded.build_all()) == [name]


SPELLINGS = {
    "": "",
    "shop": "",
    "shop.data.make_train": "shop.data:make_train",
    "shop/data.py:make_train": "shop.data:make_train",
    "./shop/data.py:make_train": "shop.data:make_train",
    "{cwd}/shop/data.py:make_train": "shop.data:make_train",
    "shop\\data.py:make_train": "shop.data:make_train",
    "shop/data:make_train": "shop.data:make_train",
    "shop/data.py": "shop.data:factory",
    "shop/data.py::make_train": "shop.data:make_train",
    "src/shop/data.py:make_train": "shop.data:make_train",
    "./src/shop.py": "shop:factory",
    "src.py:make": "src:make",
    "./:make": "",
    "shop/__init__.py:make": "shop:make",
    "shop.data::make_train": "shop.data:make_train",
    "shop.data:make_train()": "shop.data:make_train",
    "shop.data:make_train(3, 'x')": "shop.data:make_train",
    "train=shop/data.py:make_train": "train=shop.data:make_train",
    "train=shop.data.make_train": "train=shop.data:make_train",
    "shop.data:": "shop.data:factory",
    ":make": "",
    ".data:make": "",
    "..data:make": "",
    "../data.py:make": "",
    "shop..data:make": "",
    "shop.data:make.": "",
    "shop.data:1": "",
    "my train=shop.data:make": "",
    "shop data:make": "",
    "=shop.data:make": "",
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_wrong_spelling_is_put_right(project: Path, spelling: str) -> None:
    guess = SPELLINGS[spelling]
    spelling = spelling.format(cwd=project)
    with pytest.raises(UsageError) as error:
        load(spelling)
    hint = f" (did you mean {guess}?)" if guess else ""
    assert str(error.value) == f"{spelling!r} is not a target{hint}; write pkg.mod:factory"


def test_a_file_outside_of_the_current_directory_is_named(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    del project
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "data.py").write_text("make = None\n")
    with pytest.raises(UsageError, match=re.escape(f"outside of the current directory: run dataguard in {folder})")):
        load(f"{folder}/data.py:make")


WHERE = "in the current directory or the installed packages"
MODULES = {
    "typo": "retrun 1\n",
    "raises": "import os\n\ndef f():\n    raise ValueError('no\\nsuch data')\n\nf()\n",
    "needs": "import no_such_library\n",
    "fromless": "from os import no_such_name\n",
    "leaves": "import sys\nsys.exit(2)\n",
    "parses": "import argparse\np = argparse.ArgumentParser()\np.add_argument('x')\np.parse_args([])\n",
    "silent": "raise RuntimeError\n",
    "skips": "import pytest\npytest.skip('not here', allow_module_level=True)\n",
}
IMPORTS = [
    ("shp.data:make", f"no module named 'shp' {WHERE}; did you mean 'shop'?"),
    ("nowhere_at_all:make", f"no module named 'nowhere_at_all' {WHERE}"),
    ("shop.dat:make", f"no module named 'shop.dat' {WHERE}; did you mean 'shop.data'?"),
    ("shop.data.inner:make", f"no module named 'shop.data.inner' {WHERE}"),
    ("typo:make", "importing typo raised SyntaxError: invalid syntax (typo.py, line 1)"),
    ("raises:make", "importing raises raised ValueError: no at {cwd}/raises.py:4"),
    ("needs:make", "importing needs raised ModuleNotFoundError: No module named 'no_such_library' at {cwd}/needs.py:1"),
    ("leaves:make", "importing leaves raised SystemExit: 2 at {cwd}/leaves.py:2{guard}"),
    ("silent:make", "importing silent raised RuntimeError at {cwd}/silent.py:1"),
    ("shop.data:make", "shop.data has no attribute 'make'; did you mean 'make_val'?"),
    ("shop.data:mke_train", "shop.data has no attribute 'mke_train'; did you mean 'make_train'?"),
    ("shop.data:xyz", "shop.data has no attribute 'xyz'; it has Loaders, make_train, make_val, shared, Lazy"),
    ("shop.data:Loaders.mak", "Loaders has no attribute 'mak'; did you mean 'make'?"),
    ("shop.data:lazy.loader", "reading 'loader' of Lazy raised RuntimeError: no data at {cwd}/shop/data.py:22"),
    ("shop:xyz", "shop has no attribute 'xyz'"),
]


@pytest.mark.parametrize(("spelling", "message"), IMPORTS, ids=[spelling for spelling, _ in IMPORTS])
def test_a_target_that_cannot_be_imported_says_why(project: Path, spelling: str, message: str) -> None:
    for name, text in MODULES.items():
        (project / f"{name}.py").write_text(text)
    with pytest.raises(UsageError) as error:
        load(spelling)
    guard = " (put script code under if __name__ == '__main__':)"
    assert str(error.value) == f"{spelling}: {message.format(cwd=project, guard=guard)}"


@pytest.mark.parametrize(
    ("folder", "project_file", "way"),
    [
        ("src", "pyproject.toml", "run `pip install -e .`, or set"),
        ("src", "", "set"),
        ("code", "", "set"),
        ("a/python", "", "set"),
    ],
)
@pytest.mark.parametrize("module", ["imgcls/data.py", "imgcls.py"])
def test_a_module_in_another_folder_is_found_there(
    project: Path, folder: str, project_file: str, way: str, module: str
) -> None:
    for place in (folder, ".venv/lib", "env/lib"):
        (project / place / module).parent.mkdir(parents=True)
        (project / place / module).write_text(GOOD)
    (project / "env" / "pyvenv.cfg").touch()
    if project_file:
        (project / project_file).touch()
    with pytest.raises(UsageError) as error:
        require_findable(["imgcls:make"], [str(project)])
    assert str(error.value) == (
        f"imgcls:make: 'imgcls' cannot be imported, but is in {folder}/: {way} "
        f'pythonpath = ["{folder}"] under [tool.dataguard] in pyproject.toml'
    )
    require_findable(["imgcls:make"], Settings(pythonpath=(folder,)).import_path)


@pytest.mark.parametrize("module", ["parses", "skips", "fromless"])
def test_a_module_that_ends_the_import_says_so_in_one_line(project: Path, module: str) -> None:
    (project / f"{module}.py").write_text(MODULES[module])
    with pytest.raises(UsageError, match=rf"\A{module}:make: importing {module} raised [^\n]*\Z"):
        load(f"{module}:make")
