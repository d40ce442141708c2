"""Wrong inputs: each is answered in a line or two that name it and say what to do, and the exit code is 2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import click
import pytest

from dataguard import baseline, engine
from dataguard.checks import CATALOGUE
from dataguard.cli import main
from dataguard.cli.scan import scan
from dataguard.core.model import Report, UsageError
from dataguard.settings.contract import CONTRACT
from dataguard.settings.parsers import PARSERS
from dataguard.settings.settings import Settings, changed, chosen
from dataguard.targets.spelling import require_findable

DATA = """
import sys
from torch import nn
from torch.utils.data import DataLoader

def make():
    return DataLoader(range(3))

def build(cfg, split, size=3):
    return DataLoader(range(size))

def forgot():
    make()

async def later():
    return make()

def net():
    return nn.Linear(1, 1)

class Loaders:
    def make(self):
        return make()

class Empty:
    pass

loader = make()
number = 3
"""
FILES = {
    "shop/__init__.py": "",
    "shop/data.py": DATA,
    "shop/made.py": "from shop.data import make\n\nloader = make()\n",
    "src/inner/__init__.py": "",
    "raises.py": "def f():\n    raise ValueError('no data')\nf()\n",
    "parses.py": "import argparse\np = argparse.ArgumentParser()\n"
    "p.add_argument('--data', required=True)\np.parse_args()\n",
    "needs.py": "import no_such_library\n",
    "typo.py": "retrun 1\n",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a package, a package under src, and modules that cannot be imported."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answered(arguments: str, expected: str, capsys: pytest.CaptureFixture[str], lines: int = 2) -> None:
    """Check the answer to a command line; `expected` has parts that it contains, in order, between ` ... `."""
    code = main.main(arguments.split("|"))
    out, err = capsys.readouterr()
    assert (code, out) == (2, ""), err
    assert err.startswith("dataguard: error: ")
    assert "Traceback" not in err
    assert len(err.splitlines()) <= lines, err
    rest = err
    for part in expected.split(" ... "):
        assert part in rest, err
        rest = rest.partition(part)[2]


OPTIONS = [
    ("scan", "no target: name one, such as `dataguard scan"),
    ("scan|shop", "shop is a package: name what makes its loaders, such as shop.data:"),
    ("scan|shop.data", "shop.data is a module: name what makes its loaders, such as shop.data:make"),
    ("scan|shop.made", "shop.made is a module: name what makes its loaders, such as shop.made:loader"),
    ("scan|shop.data.make", "'shop.data.make' ... did you mean shop.data:make?"),
    ("scan|shop/data.py", "'shop/data.py' ... did you mean shop.data:factory?"),
    ("scan|data.py:make", "'data.py:make' ... did you mean data:make?"),
    ("scan|src/inner/data.py:make", "did you mean inner.data:make?"),
    ("scan|shop.data:make()", "'shop.data:make()' ... did you mean shop.data:make?"),
    ("scan|shop.data:build(split=train)", "'shop.data:build(split=train)' ... (split=\"train\"), with JSON values"),
    ("scan|./:make", "'./:make' is not a target ... write pkg.mod:factory"),
    ("scan|shp.data:make", "shp.data:make: no module named 'shp' ... did you mean 'shop'?"),
    ("scan|inner.data:make", "'inner' cannot be imported, but is in src/ ... pythonpath = [\"src\"]"),
    ("scan|shop.data:build|--arg|split", "--arg split: expected NAME=VALUE"),
    ("scan|shop.data:build|--arg|1x=3", "--arg 1x=3: expected NAME=VALUE"),
    ("scan|shop.data:build|--arg|deep=True", "--arg deep=True: write true"),
    ("scan|shop.data:build|--arg|a=1|--arg|a=2", "--arg a=2: a is given twice"),
    ("scan|shop.data:build|--arg|a=[1,2", "--arg a=[1,2: the value is not valid JSON"),
    ("scan|shop.data:make|--samples|many", "samples: expected an integer of at least 1, got 'many'"),
    ("scan|shop.data:make|--samples|0", "samples: expected an integer of at least 1, got '0'"),
    ("scan|shop.data:make|--budget|-1", "budget: expected a positive number of seconds, got '-1'"),
    ("scan|shop.data:make|--timeout|nan", "timeout: expected a positive number of seconds, got 'nan'"),
    ("scan|shop.data:make|--seed|-1", "seed: expected an integer of at least 0, got '-1'"),
    ("scan|shop.data:make|--workers|two", "workers: expected an integer of at least 0, got 'two'"),
    ("scan|shop.data:make|--start-method|forks", "start_method: ... 'forks' ... did you mean 'fork'?"),
    ("scan|shop.data:make|--ranks|0", "ranks: expected an integer of at least 1, got '0'"),
    ("scan|shop.data:make|--role|train", "--role train: expected LOADER=ROLE"),
    ("scan|shop.data:make|--role|make=trian", "roles.make: ... 'trian' ... did you mean 'train'?"),
    ("scan|shop.data:make|--expect|DG101", "--expect DG101: expected CODE=REASON, such as 'DG101="),
    ("scan|shop.data:make|--expect|DG999=x", "expect: unknown check 'DG999'"),
    ("scan|shop.data:make|--select|DG999", "select: unknown check 'DG999'; `dataguard list` shows"),
    ("scan|shop.data:make|--select|cloned-worker-rgn", "'cloned-worker-rgn'; did you mean 'cloned-worker-rng'?"),
    ("scan|shop.data:make|--ignore|speed", "ignore: unknown check 'speed'"),
    ("scan|shop.data:make|--fail-on|warn", "fail_on: ... 'warn'; did you mean 'warning'?"),
    ("scan|shop.data:make|--format|jsn", "jsn ... json"),
    ("scan|shop.data:make|--output|no/report.json", "--output no/report.json: no such folder: no"),
    ("scan|shop.data:make|--output|shop", "--output shop: is a folder"),
    ("scan|shop.data:make|--config|no.toml", "--config no.toml: no such file"),
    ("scan|shop.data:make|--sample|3", "--sample ... --samples"),
    ("scna|shop.data:make", "no command 'scna'; did you mean 'scan'?"),
    ("explain|DG999", "unknown check 'DG999'"),
    ("bench", "bench measures one target; name it"),
    ("bench|shop.data:make|--workers|a", "--workers a: expected integers separated by commas"),
    ("bench|shop.data:make|--workers|9999", "--workers 9999: at most 256 workers"),
    ("bench|shop.data:make|--step-ms|0", "--step-ms 0: expected a positive number of milliseconds"),
    ("bench|shop.data:make|--step|step", "--step step: expected pkg.mod:function"),
    ("run|trian.py", "trian.py: no such script"),
    ("scan|shop.data:make|--output|x.foo", "no format of `dataguard scan` has this suffix; add --format"),
    ("scan|shop.data:make|--select|DG1O1", "unknown check 'DG1O1'; did you mean 'DG101'?"),
    ("run|--arg|a=1|raises.py", "--arg: the arguments of a script follow it"),
]


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(("arguments", "expected"), OPTIONS, ids=[arguments for arguments, _ in OPTIONS])
def test_a_wrong_option_is_answered(arguments: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    answered(arguments, expected, capsys)


SETTINGS = [
    ("sampels = 3", "dataguard.toml: unknown setting 'sampels'; did you mean 'samples'?"),
    ("samples = 'all'", "dataguard.toml: samples: expected an integer of at least 1, got 'all'"),
    ("targets = 3", "targets: expected a list of targets, got 3"),
    ("targets = [3]", "targets: expected strings or tables {factory = ..., args = ...}, got 3"),
    ('targets = [{ factry = "shop.data:make" }]', "targets: unknown key 'factry'; did you mean 'factory'?"),
    ("targets = [{ args = { a = 1 } }]", "targets: a table needs a factory, such as"),
    ('targets = [{ factory = "shop.data:build", args = "train" }]', "args of shop.data:build: expected a table"),
    ('targets = [{ factory = "shop.data:build", args = { "a-b" = 1 } }]', "'a-b' is not the name of a parameter"),
    (
        'targets = [{ factory = "shop.data:build", args = { day = 2026-01-01 } }]',
        "day is of type date ... write a function without arguments",
    ),
    ('pythonpath = ["scr"]', "pythonpath: no such folder: scr"),
    ("[contract]\nchanels = 'RGB'", "contract: unknown key 'chanels'; did you mean 'channels'?"),
    ("[expect]\nDG401 = ''", "expect.DG401: a reason is required, such as"),
    ("[roles]\nholdout = 'valid'", "roles.holdout: ... did you mean 'val'?"),
    ("checks = '1999.1'", "checks: unknown check set '1999.1'"),
    ("samples = ", "dataguard.toml: "),
]


@pytest.mark.parametrize(("text", "expected"), SETTINGS, ids=[text.partition("\n")[0] for text, _ in SETTINGS])
def test_a_wrong_setting_is_answered(
    project: Path, text: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "dataguard.toml").write_text(text)
    answered("scan" if "targets" in text else "scan|shop.data:make", expected, capsys)


TARGETS = [
    ("scan|shop.dta:make", "no module named 'shop.dta' ... did you mean 'shop.data'?", 1),
    ("scan|shop.data:mak", "shop.data has no attribute 'mak'; did you mean 'make'?", 1),
    ("scan|shop.data:sis", "shop.data has no attribute 'sis'; it has make, build", 1),
    ("scan|shop.data:xyz", "shop.data has no attribute 'xyz'; it has make, build", 1),
    ("scan|shop.data:build", "shop.data:build needs cfg and split: add --arg cfg=... --arg split=...", 12),
    ("scan|shop.data:build|--arg|split=train", "needs cfg: add --arg cfg=... ... def loaders():", 10),
    ("scan|shop.data:build|--arg|spilt=train", "no parameter 'spilt'; did you mean 'split'?", 1),
    ("scan|shop.data:loader|--arg|a=1", "a DataLoader takes no arguments; only a factory does", 1),
    ("scan|shop.data:make|--arg|a=1", "no parameter 'a'; it takes no arguments by name", 1),
    ("scan|shop.data:Loaders.make", "is a method: name a function that creates the object", 1),
    ("scan|shop.data:Loaders", "shop.data:Loaders returned a Loaders, not a DataLoader", 1),
    ("scan|shop.data:forgot", "shop.data:forgot returned None (is a return missing?)", 1),
    ("scan|shop.data:later", "is a coroutine function; name a plain function", 1),
    ("scan|shop.data:net", "shop.data:net returned a", 1),
    ("scan|shop.data:number", "shop.data:number is an int, not a DataLoader", 1),
    ("scan|raises:make", "importing raises raised ValueError: no data at ", 1),
    ("scan|parses:make", "raised SystemExit: 2 ... parses.py: error: the following arguments are required: --data", 1),
    ("scan|needs:make", "No module named 'no_such_library' at ", 1),
    ("scan|typo:make", "importing typo raised SyntaxError: invalid syntax (typo.py, line 1)", 1),
    ("bench|shop.data:make|--loader|maek", "--loader maek: no such loader ... did you mean 'make'?", 1),
]


@pytest.mark.scan
@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(("arguments", "expected", "lines"), TARGETS, ids=[arguments for arguments, *_ in TARGETS])
def test_a_wrong_target_is_answered(
    arguments: str, expected: str, lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    answered(arguments, expected, capsys, lines)


HUGE = "9" * 30
WORDS = ["0", "-1", "1e10", "1e308", "nan", "inf", HUGE, "9" * 5000, "", "\n", "a\0b", "/", "x" * 100_000, "\ud800"]
"""Values on a command line."""
VALUES = [
    *("0", "-1", "1e10", "1e308", "nan", "inf", HUGE, f"0x{'f' * 5000}", '""', '"\\n"', '"a\\u0000b"', '"/"'),
    *(
        f'"{"x" * 100_000}"',
        "[]",
        '["a\\u0000b"]',
        "[1e308, 1e309]",
        f"[{HUGE}]",
        "{}",
        "{ a = 1 }",
        "true",
        "2026-01-01",
    ),
    *("{ mean = [1e308], std = [1e308] }", f"{{ mean = [0x{'f' * 5000}], std = [1] }}", "[-1e308, 1e308]"),
]
"""Values in a settings file."""
KEYS = [*PARSERS, *(f"contract.{key}" for key in CONTRACT), "hypothesis.seed", "hypothesis.database", "roles.a"]
GIVEN = [option for option in scan.params if isinstance(option, click.Option) and not option.is_flag]


@pytest.fixture
def accepted(project: Path, monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings with which a scan would start. It ends before a process is started, with an empty report."""
    seen: list[Settings] = []

    def begun(targets: Sequence[str], settings: Settings, *_: Any) -> Report:
        seen.append(settings)
        require_findable((*targets, *settings.functions), settings.import_path)
        chosen(CATALOGUE, settings)
        baseline.read(settings.baseline)
        return Report(tuple(targets), (), {}, settings.as_mapping())

    monkeypatch.setattr(engine, "scan", begun)
    return seen


def assert_no_bug(arguments: Sequence[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main.main(arguments)
    out, err = capsys.readouterr()
    assert code in (1, 2), (words, err)
    assert "Traceback" not in err
    assert len(err) < 1_200, words
    assert len(err.splitlines()) <= 2, (words, err)
    assert code == 2 or not out.startswith("{") or json.loads(out)


@pytest.mark.usefixtures("accepted")
@pytest.mark.parametrize("option", [option.opts[-1] for option in GIVEN])
def test_no_value_of_an_option_is_a_bug(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    for word in WORDS:
        assert_no_bug(["scan", "shop.data:make", option, word], f"{option} {word:.40}", capsys)


@pytest.mark.usefixtures("accepted")
@pytest.mark.parametrize("key", KEYS)
def test_no_value_of_a_setting_is_a_bug(project: Path, key: str, capsys: pytest.CaptureFixture[str]) -> None:
    for value in VALUES:
        (project / "dataguard.toml").write_text(f"{key} = {value}\n")
        target = [] if key == "targets" else ["shop.data:make"]
        assert_no_bug(["scan", *target, "--format", "json"], f"{key} = {value:.40}", capsys)


NUMBERS = {"samples": 1_000_000_000, "budget": 10_000_000, "timeout": 10_000_000, "seed": 2**32 - 1, "workers": 256}


@pytest.mark.parametrize(("key", "largest"), NUMBERS.items())
def test_numbers_have_limits(key: str, largest: int) -> None:
    assert getattr(changed(Settings(), **{key: largest}), key) == largest
    for number in (largest + 1, 10**400, str(largest + 1)):
        with pytest.raises(UsageError, match=f"{key}: expected .*at most {largest}"):
            changed(Settings(), **{key: number})


@pytest.mark.scan
def test_the_largest_numbers_work(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "dataguard.toml").write_text("ranks = 1000000000\n[contract]\nmemory_gb = 1e9\nstep_ms = 1e9\n")
    numbers = chain.from_iterable((f"--{key}", str(largest)) for key, largest in NUMBERS.items() if key != "workers")
    code = main.main(["scan", "shop.data:make", "--select", "DG0,DG101,DG203,DG401,DG601,DG604,DG9", *numbers])
    assert code == 0, capsys.readouterr()


@pytest.mark.parametrize("arguments", [["scan", "shop.data:make"], ["init"], ["show", "shop.data:make"]])
def test_a_deleted_folder_is_answered(
    project: Path, arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "gone").mkdir()
    monkeypatch.chdir(project / "gone")
    (project / "gone").rmdir()
    assert main.main(arguments) == 2
    assert "the current directory cannot be used (No such file or directory)" in capsys.readouterr().err


@pytest.mark.scan
def test_the_module_runs_in_a_deleted_folder(tmp_path: Path) -> None:
    def leave() -> None:
        os.chdir(tmp_path)
        tmp_path.rmdir()

    called = [sys.executable, "-m", "dataguard", "scan", "shop.data:make"]
    root = str(Path(main.__file__).parents[2])
    ended = subprocess.run(
        called, preexec_fn=leave, env={**os.environ, "PYTHONPATH": root}, stderr=subprocess.PIPE, text=True, check=False
    )
    assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1), ended.stderr
    assert "the current directory cannot be used" in ended.stderr
