"""Which tests are collected, in which order, and how they are chosen."""

from __future__ import annotations

import pytest

from dataguard.checks import CATALOGUE
from tests.support.pytest_runs import OWN_TESTS, ids, run

pytest_plugins = ["pytester"]

EVERY = [f"{check.id}[{loader}]" for loader in ("train", "val") for check in CATALOGUE]


def test_one_test_for_each_check_and_loader_in_a_stable_order(named: pytest.Pytester) -> None:
    assert ids(named, "--dataguard=loaders:bad") == EVERY


@pytest.mark.parametrize(
    ("arguments", "chosen"),
    [
        (["-k", "DG101"], ["DG101-cloned-worker-rng[train]", "DG101-cloned-worker-rng[val]"]),
        (["-k", "cloned-worker-rng and val"], ["DG101-cloned-worker-rng[val]"]),
        (["-k", "[train]"], EVERY[: len(CATALOGUE)]),
        (["-m", "dataguard"], EVERY),
        (["-m", "not dataguard"], ["test_own.py::test_sum", "test_own.py::test_product"]),
        (["--deselect", "dataguard"], ["test_own.py::test_sum", "test_own.py::test_product"]),
        (["--dataguard-select", "DG301,DG302", "--dataguard-ignore", "DG302", "-m", "dataguard", "-k", "val"],
         ["DG301-overlong-len[val]"]),
        (["dataguard::DG101-cloned-worker-rng[train]"], ["DG101-cloned-worker-rng[train]"]),
        (["dataguard::DG101-cloned-worker-rng"], ["DG101-cloned-worker-rng[train]", "DG101-cloned-worker-rng[val]"]),
        (["test_own.py::test_sum", "dataguard::DG101-cloned-worker-rng[val]"],
         ["test_own.py::test_sum", "DG101-cloned-worker-rng[val]"]),
        (["test_own.py"], ["test_own.py::test_sum", "test_own.py::test_product", *EVERY]),
    ],
    ids=" ".join,
)  # fmt: skip
def test_tests_are_chosen_as_any_other(named: pytest.Pytester, arguments: list[str], chosen: list[str]) -> None:
    named.makepyfile(test_own=OWN_TESTS)
    assert ids(named, "--strict-markers", "--dataguard=loaders:bad", *arguments) == chosen


def test_loaders_of_one_name_are_told_apart_by_their_target(named: pytest.Pytester) -> None:
    named.makepyfile(other="")
    targets = ("--dataguard=loaders:good", "--dataguard=b=loaders:bad", "--dataguard=other:good")
    assert ids(named, *targets, "--dataguard-select=DG101", "-k", "val") == [
        "DG101-cloned-worker-rng[loaders:good.val]",
        "DG101-cloned-worker-rng[b.val]",
        "DG101-cloned-worker-rng[other:good.val]",
    ]


def test_setup_plan_looks_at_nothing(named: pytest.Pytester) -> None:
    run(named, "--dataguard=loaders:bad", "--setup-plan").assert_outcomes()
    assert not (named.path / "hosts.log").exists()
