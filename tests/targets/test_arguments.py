"""Arguments of a factory: as the target spells them, what the factory gets, and what is said when some are missing."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dataguard.cli import main
from dataguard.core.model import UsageError
from dataguard.settings.settings import changed, resolve
from dataguard.settings.target_spelling import parsed, with_args
from dataguard.targets.loading import Target
from tests.support.targets import loader

ARGS: Mapping[str, Any] = {
    "split": "train",
    "size": 224,
    "scale": [0.5, 1],
    "deep": {"a": [None, True, "(,=)"]},
    "text": 'it\'s "quoted", (a=1), é\n',
}


def test_a_spelling_carries_arguments_of_any_json_value() -> None:
    spelling = with_args("shop.data:build", ARGS)
    assert parsed(spelling).args == ARGS
    assert "\n" not in spelling
    assert with_args(spelling, {}) == spelling
    assert parsed(with_args(spelling, {"size": 32})).args == {**ARGS, "size": 32}


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ('shop.data:build(split="train")', "train"),
        ('shop.data:build(cfg="a.yaml", split="val")', "val"),
        ('big=shop.data:build(split="val")', "big"),
        ('shop.data:build(cfg="train.yaml")', "build"),
        ('shop.data:build(split="train", other="val")', "build"),
        ("shop.data:build(train=true)", "build"),
    ],
)
def test_the_argument_that_names_a_split_names_the_target(spelling: str, name: str) -> None:
    assert parsed(spelling).name == name


def test_a_file_below_the_current_directory_is_spelled_by_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "data.py").touch()
    monkeypatch.chdir(tmp_path)
    paths = ["shop/data.py:make", f"big={tmp_path}/shop/data.py::make", './shop/data.py:build(a="x:y")']
    paths += ["shop/other.py:make", "shop.data:make"]
    spelled = (
        "shop.data:make",
        "big=shop.data:make",
        'shop.data:build(a="x:y")',
        "shop/other.py:make",
        "shop.data:make",
    )
    assert resolve(targets=paths).targets == spelled


def test_typed_arguments_are_json_or_text() -> None:
    typed = ["a=3", "b=x.yaml", "c=true", "d=[1, 2]", "e=", 'f="3"', "g=a=b", "h=null", "i= -1.5 "]
    settings = resolve(targets=["shop.data:build(a=1)", "shop.data:other"], args=typed)
    expected = {"a": 3, "b": "x.yaml", "c": True, "d": [1, 2], "e": "", "f": "3", "g": "a=b", "h": None, "i": -1.5}
    assert [parsed(target).args for target in settings.targets] == [expected, expected]


def test_settings_list_strings_and_tables() -> None:
    table = {"factory": "shop.data:build", "args": {"split": "train", "size": 3}}
    settings = resolve(targets=["a:x, b:y", table, {"factory": "shop.data:loaders", "name": "all"}])
    expected = ("a:x", "b:y", 'shop.data:build(split="train", size=3)', "all=shop.data:loaders")
    assert settings.targets == expected
    assert resolve(targets=table).targets == expected[2:3]
    assert changed(settings, targets=["a:x"], args={"k": 1}).targets == ("a:x(k=1)",)


def target(make: Any, **args: Any) -> Target:
    return Target("build", with_args("shop.data:build", args), make, args=args)


def test_the_factory_gets_them_and_observations_still_vary_it() -> None:
    seen: list[tuple[Any, ...]] = []

    def build(split, seed, rank, num_workers=0, size=3):
        seen.append((split, seed, rank, num_workers, size))
        return loader()

    made = target(build, split="train", seed=5, rank=1, size=7)
    made.build(given={"seed": 1})
    made.build(given={"seed": 1, "rank": 3, "world_size": 4}, num_workers=2)
    assert seen == [("train", 5, 1, 0, 7), ("train", 5, 3, 2, 7)]


def test_every_factory_of_a_mapping_gets_them() -> None:
    seen = []

    def build(size):
        seen.append(size)
        return loader()

    target({"train": build, "val": lambda **given: build(**given)}, size=4).build_all()
    assert seen == [4, 4]


def build(cfg, split, *, size, root="data"):
    return loader()


ASKED = """\
shop.data:build needs cfg, split and size: add --arg cfg=... --arg split=... --arg size=..., or save this as \
dataguard_loaders.py, replace each ... and scan dataguard_loaders:loaders

from shop.data import build


def loaders():
    return {
        "train": build(cfg=..., split="train", size=...),
        "val": build(cfg=..., split="val", size=...),
    }
"""
ASKED_FOR_TWO = """\
shop.data:build(cfg="a.yaml") needs split and size: add --arg split=... --arg size=..., or save this as \
dataguard_loaders.py, replace each ... and scan dataguard_loaders:loaders

from shop.data import build


def loaders():
    return {
        "train": build(cfg='a.yaml', split="train", size=...),
        "val": build(cfg='a.yaml', split="val", size=...),
    }
"""


def by_flag(path, train):
    return loader()


@pytest.mark.parametrize(
    ("make", "args", "message"),
    [
        (build, {}, ASKED),
        (build, {"cfg": "a.yaml"}, ASKED_FOR_TWO),
        (build, {"sise": 3}, "shop.data:build(sise=3): the factory has no parameter 'sise'; did you mean 'size'?"),
        (lambda: loader(), {"a": 1}, "shop.data:build(a=1): the factory has no parameter 'a'; it takes no arguments"),
        (loader(), {"a": 1}, "shop.data:build(a=1): a DataLoader takes no arguments; only a factory does"),
    ],
    ids=["all", "others", "misspelled", "none", "loader"],
)
def test_wrong_arguments_are_answered(make: Any, args: Mapping[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        target(make, **args).build_all()
    assert str(error.value).startswith(message)


def test_a_flag_for_training_makes_two_loaders_too() -> None:
    with pytest.raises(UsageError) as error:
        target(by_flag).build_all()
    assert '"train": build(path=..., train=True)' in str(error.value)
    assert '"val": build(path=..., train=False)' in str(error.value)


LOADERS = """
from torch.utils.data import DataLoader, Dataset

class Short(Dataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size + 1

    def __getitem__(self, index):
        if index >= self.size:
            raise IndexError(index)
        return index

def build(size, split):
    return DataLoader(Short(size), shuffle=split == "train")
"""


@pytest.mark.scan
def test_a_finding_is_reproduced_with_the_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shop_with_arguments.py").write_text(LOADERS)
    monkeypatch.chdir(tmp_path)
    typed = ["shop_with_arguments:build", "--arg", "size=5", "--arg", "split=it's val", "--select", "DG301"]
    assert main.main(["scan", *typed, "--format", "json"]) == 1
    (result,) = json.loads(capsys.readouterr().out)["results"]
    command = [sys.executable, "-m", *shlex.split(result["findings"][0]["repro"])]
    outcome = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "IndexError: 5" in outcome.stdout
