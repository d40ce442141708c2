"""Every command and every block of code in the documents runs, in a small project that has what they name.

A block that cannot run here is marked with `<!-- not run: reason -->`, and one that another test runs with
`<!-- run by: module -->`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from dataguard.checks import CATALOGUE
from dataguard.cli import main
from dataguard.settings.settings import chosen, resolve
from tests.pages.snippets import SETTINGS, Block, blocks
from tests.support.faces import todays

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[1]
PROJECT = Path(__file__).parent / "pages" / "project"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SNIPPETS = {document.relative_to(ROOT).as_posix(): blocks(document) for document in DOCUMENTS}
RUN = {
    name: found
    for name, found in SNIPPETS.items()
    if any(block.kind == "python" or block.commands() for block in found)
}


def repeated() -> Iterator[tuple[str, int]]:
    """The blocks whose commands all stand in other blocks, last those of the reference: they need not run again."""
    seen: set[tuple[str, ...]] = set()
    for name, found in sorted(RUN.items(), key=lambda document: document[0] == "docs/cli.md"):
        for number, block in enumerate(found):
            commands = {tuple(words) for words in block.commands()}
            if commands <= seen and not block.shown:
                yield name, number
            seen |= commands


REPEATED = set(repeated())
MEASURING = ("bench", "doctor")
"""Commands that measure this machine, which takes time: their own tests run them, here their options are read."""


@pytest.mark.parametrize("name", [name for name, found in SNIPPETS.items() if any(b.kind == "toml" for b in found)])
def test_settings_in_a_document_are_valid(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("src", "packages/speech/src", "packages/vision/src"):
        (tmp_path / folder).mkdir(parents=True)
    for block in SNIPPETS[name]:
        if block.kind == "toml":
            (tmp_path / "pyproject.toml").write_text(block.code, encoding="utf-8")
            assert "[tool.dataguard" in block.code
            chosen(CATALOGUE, resolve())


@pytest.mark.scan
@pytest.mark.filterwarnings("ignore")  # those of the libraries
@pytest.mark.parametrize("name", dict.fromkeys(["README.md", *todays(RUN)]))
def test_what_a_document_shows_runs(
    name: str, pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = pytester.path
    monkeypatch.setenv("COLUMNS", "100")  # xdist sets the width of its own terminal
    shutil.copytree(PROJECT, folder, dirs_exist_ok=True)
    monkeypatch.syspath_prepend(folder)
    (folder / "src").mkdir()
    (folder / "pyproject.toml").write_text(f'{SETTINGS}targets = ["mypkg.data:make_loaders"]\n', encoding="utf-8")
    photographs(folder / "photos")
    variables = Variables()
    for number, block in enumerate(RUN[name]):
        if block.file:
            (folder / block.file).parent.mkdir(exist_ok=True)
            (folder / block.file).write_text(block.code, encoding="utf-8")
        elif block.kind == "python":
            exec(compile(block.code, name, "exec"), {}, variables)
        elif block.kind == "diff":
            block.applied(folder)
        elif block.kind == "toml" and block.code.startswith("[tool.dataguard]\n"):
            code = block.code.replace("[tool.dataguard]\n", SETTINGS, 1)
            (folder / "pyproject.toml").write_text(code, encoding="utf-8")
        elif (name, number) not in REPEATED:
            for words in block.commands():
                execute(block, words, pytester, capsys)


def photographs(folder: Path) -> None:
    """A folder of images by split and class."""
    for split in ("train", "val"):
        for label in ("daisy", "rose"):
            (folder / split / label).mkdir(parents=True)
            for number in range(16):
                image = Image.effect_noise((40, 40), 20 + number).convert("RGB")
                image.save(folder / split / label / f"{number}.png")


def execute(block: Block, words: list[str], pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    """Run one command, and compare what it prints with what the document shows."""
    if words[0] == "pytest":
        assert pytester.runpytest_inprocess(*words[1:], "-p", "no:cacheprovider").ret == 0
        return
    if words[1] in MEASURING:
        main.dataguard.commands[words[1]].make_context(words[1], words[2:])
        return
    code = main.main(block.quick(words))
    printed = capsys.readouterr()
    assert code == 0 or (code == 1 and (words[1] == "fingerprint" or "failed" in block.shown)), f"{words}: {printed}"
    assert block.missing_from(printed.out) == []


class Variables(dict[str, Any]):
    """What a document assumes to exist: a loader, a model. Made when a block asks for it."""

    def __missing__(self, name: str) -> Any:
        data, models = import_module("mypkg.data"), import_module("mypkg.models")
        known = {
            "train_loader": lambda: data.build_loader("train"),
            "val_loader": lambda: data.build_loader("val"),
            "net": models.make_model,
            "epochs": lambda: 2,
            "seed": lambda: 0,
            "rank": lambda: 0,
            "F": lambda: torch.nn.functional,
            "torch": lambda: torch,
            "DataLoader": lambda: DataLoader,
        }
        if name not in known:
            raise KeyError(name)
        return self.setdefault(name, known[name]())
