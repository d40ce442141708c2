"""A torch that cannot be imported, and processes that are killed while they import it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import dataguard
from dataguard.cli import main
from dataguard.core.model import UsageError
from dataguard.process import launcher

pytestmark = pytest.mark.scan

SHADOWS = {
    "raise OSError('libtorch.so: cannot open shared object file')": "torch cannot be imported by .*python.*: OSError: "
    "libtorch.so: cannot open shared object file; install it again",
    "import torch.missing": "torch cannot be imported by .*: ModuleNotFoundError: No module named 'torch.missing'",
    "import os; os.kill(os.getpid(), 9)": "the observing process was killed by SIGKILL while it started; memory probab",
    "import os; os.kill(os.getpid(), 4)": "the observing process was killed by SIGILL while it started; a library is p",
}
"""Modules in place of torch, and what is reported of each."""


@pytest.mark.parametrize("shadow", SHADOWS)
def test_the_error_names_the_cause_and_the_way_out(
    shadow: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(shadow)
    monkeypatch.setattr(launcher, "_open", [])  # no zygote, which has torch
    monkeypatch.delenv(launcher.ADDRESS)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}")
    target = "sample_datasets.dg301_overlong_len:good"
    with pytest.raises(UsageError, match=SHADOWS[shadow]):
        dataguard.check(target)
    assert main.main(["scan", target]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(SHADOWS[shadow], error)


def test_a_module_that_runs_out_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hungry_module.py").write_text("import os; os.kill(os.getpid(), 9)")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="was killed by SIGKILL during its import; memory probably ran out"):
        dataguard.check("hungry_module:make")
