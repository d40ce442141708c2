"""The toolbox: the test file of its page runs, and what is wrong is said in a line."""

from __future__ import annotations

import re
from collections import OrderedDict, namedtuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import dataguard
from dataguard import Leaf, assert_contract, check
from dataguard.core.model import Status, UsageError
from dataguard.targets.spelling import spelling_of
from sample_datasets import dg301_overlong_len
from tests.support.pytest_runs import PLUGIN

pytest_plugins = ["pytester"]
PAGE = (Path(__file__).parents[2] / "docs" / "toolbox.md").read_text(encoding="utf-8")
LOADED = ("-p", "no:cacheprovider", "--strict-markers", "-q")

Pair = namedtuple("Pair", "image label")
IMAGE, LABEL = torch.zeros(4, 3, 8, 8), torch.arange(4)


def example() -> str:
    code, *_ = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    return str(code)


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run pytest in this process, which has torch imported."""
    return pytester.runpytest_inprocess(*LOADED, *arguments)


@pytest.mark.scan
def test_the_test_file_of_the_page_runs(bare: pytest.Pytester) -> None:
    bare.makepyfile(test_data=example())
    outcomes = run(bare, *PLUGIN, "-W", "error", "-rA").parseoutcomes()
    assert not outcomes.get("failed")
    assert not outcomes.get("errors")
    assert outcomes["xfailed"] == 1, "the expected finding"
    assert outcomes["passed"] > 10


@pytest.mark.scan
def test_a_loader_that_does_not_run_is_no_skip(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_data="""
        import dataguard

        def make():
            raise ValueError("no data here")

        @dataguard.parametrize_with_checks(make, select=["DG301", "DG501"])
        def test_loader(check):
            check()

        @dataguard.parametrize_with_checks(make, select=["DG301"], expect={"DG301[mak]": "why"})
        def test_misspelled(check):
            check()
        """
    )
    outcome = run(pytester, "-k", "test_loader")
    assert (
        "expect.DG301[mak]: no loader named 'mak'; did you mean 'make'?" in outcome.stderr.str() + outcome.stdout.str()
    )
    source = pytester.path / "test_data.py"
    source.write_text(source.read_text().replace("[mak]", "[make]"))
    outcome = run(pytester, "-k", "test_loader")
    outcome.assert_outcomes(failed=2, deselected=1)
    outcome.stdout.fnmatch_lines(["the loader does not run, see DG001: *no data here*"])


@pytest.mark.scan
def test_checks_as_parameters_have_ids_and_fail_with_the_finding(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_data="""
        import dataguard

        @dataguard.parametrize_with_checks("sample_datasets.dg301_overlong_len:bad", select=["DG301", "DG302"])
        def test_loader(check):
            check()

        unspawnable = "sample_datasets.dg104_unspawnable_loader:bad"

        @dataguard.parametrize_with_checks(unspawnable, select=["DG104", "DG105"], fail_on="error")
        def test_as_a_scan_does(check):
            check()
        """
    )
    outcome = run(pytester, "-rA")
    outcome.assert_outcomes(passed=2, failed=1, skipped=1)  # a warning, and what it prevents
    outcome.stdout.fnmatch_lines(["*len(dataset) is 17, but index 16 raises*"])
    outcome.stdout.fnmatch_lines(["FAILED test_data.py::test_loader[[]DG301-overlong-len-bad]*"])


USES = """
    import pytest

    def test_loader(dataguard_loader):
        assert len(dataguard_loader.dataset) == 17

    def test_report(dataguard_report):
        assert [result.code for result in dataguard_report.results] == ["DG301"]
"""


@pytest.mark.scan
def test_fixtures_are_of_the_target_of_the_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_data=USES)
    pytester.makepyprojecttoml(
        '[tool.dataguard]\ntargets = ["sample_datasets.dg301_overlong_len:bad"]\nselect = ["DG301"]'
    )
    run(pytester).assert_outcomes(passed=2)


def test_fixtures_without_a_target_say_what_is_missing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_data=USES)
    outcome = run(pytester)
    outcome.assert_outcomes(errors=2)
    outcome.stdout.fnmatch_lines(["*dataguard_loader needs a target: give --dataguard=pkg.mod:attr*"])


@pytest.mark.scan
@pytest.mark.parametrize(
    ("marked", "words"),
    [
        ("def test_it(dataguard_loader): pass", "loaders train, val: choose one with *"),
        (
            "def test_it(dataguard_lab): dataguard_lab.judge('DG301', 'trian')",
            "*has no loader 'trian'; did you mean 'train'?*",
        ),
        ("def test_it(dataguard_lab): dataguard_lab.judge('DG3')", "*matches * checks: name one"),
    ],
)
def test_a_wrong_choice_is_told(pytester: pytest.Pytester, marked: str, words: str) -> None:
    pytester.makepyfile(test_data=f"import dataguard\n@dataguard.use_target('tests.loaders.factories:pair')\n{marked}")
    run(pytester).stdout.fnmatch_lines([f"*{words}*"])


def test_a_test_that_takes_no_check_is_told(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_data="""
        import dataguard

        @dataguard.parametrize_with_checks("sample_datasets.dg301_overlong_len:bad")
        def test_loader(): pass
        """
    )
    run(pytester).stdout.fnmatch_lines(["*test_loader needs an argument named check*"])


@pytest.mark.scan
def test_a_factory_is_checked_by_itself_or_by_its_spelling() -> None:
    for factory in (dg301_overlong_len.bad, "sample_datasets.dg301_overlong_len:bad"):
        (result,) = check(factory, select=["DG301"]).results
        assert result.status is Status.FAILED


def test_a_factory_that_cannot_be_found_by_name_is_an_error() -> None:
    def inside() -> None: ...

    for factory, words in (
        (inside, "move it to the top level"),
        (lambda: None, "top level"),
        (3, "of type int has no name"),
    ):
        with pytest.raises(UsageError, match=words):
            spelling_of(factory)


@pytest.mark.parametrize(
    "batch",
    [
        (IMAGE, LABEL),
        [IMAGE, LABEL],
        {"image": IMAGE, "label": LABEL},
        OrderedDict(image=IMAGE, label=LABEL),
        Pair(IMAGE, LABEL),
        Pair(label=LABEL, image=IMAGE),
        SimpleNamespace(image=IMAGE, label=LABEL),
        (IMAGE.numpy(), LABEL.tolist()),
    ],
    ids=lambda batch: type(batch).__name__,
)
def test_parts_are_found_however_a_batch_holds_them(batch: Any) -> None:
    assert_contract([batch], image=(None, 3, 8, 8), label=Leaf(dtype="int64", between=(0, 3)))


@pytest.mark.parametrize(
    ("value", "leaf", "words"),
    [
        (IMAGE, Leaf(shape=(None, 8, 8, 3)), "has shape (4, 3, 8, 8), expected (any, 8, 8, 3)"),
        (IMAGE, Leaf(shape=(4,)), "has shape (4, 3, 8, 8), expected (4,)"),
        (IMAGE.double(), Leaf(dtype=torch.float32), "is float64, expected float32"),
        (255 + IMAGE, Leaf(between=(0, 1)), "has values from 255 to 255, expected 0 to 1"),
        (IMAGE / 0, Leaf(), "has 768 non-finite values"),
        (IMAGE[0, 0, 0] / 0, Leaf(between=(0, 1), one_of=[0]), "has 8 non-finite values\n"),
        (LABEL, Leaf(one_of=[1, 2, 3]), "has values not in one_of: 0"),
        ("cat", Leaf(), "is a str, not numeric"),
    ],
)
def test_what_is_not_as_agreed_is_told_in_numbers(value: Any, leaf: Leaf, words: str) -> None:
    with pytest.raises(AssertionError) as refused:
        assert_contract([{"part": value}], part=leaf)
    assert f"batch 0: part {words}" in f"{refused.value}\n"
    assert "nan" not in str(refused.value)


def test_a_part_that_is_not_there_and_a_loader_without_a_batch_are_told() -> None:
    with pytest.raises(AssertionError, match="batch 0: mask is not in the batch, a dict"):
        assert_contract([{"image": IMAGE}], mask=Leaf())
    with pytest.raises(AssertionError, match="yields no batch"):
        assert_contract([], image=Leaf())
    with pytest.raises(ValueError, match="name the parts"):
        assert_contract([IMAGE])


def test_the_page_names_all_that_is_public() -> None:
    for name in ("parametrize_with_checks", "use_target", "check", "assert_contract"):
        assert name in dataguard.__all__
        assert re.search(rf"`@?dataguard\.{name}\(", PAGE)
