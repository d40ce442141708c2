"""The pytest front door, run by pytest's own `pytester` on small real loaders.

Where a test is about names only (which tests are collected, in which order, under which settings), the loaders are not
asked for theirs: starting torch some twenty times over would teach nothing more.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import fields
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import psutil
import pytest

from dataguard.checks import CATALOGUE
from dataguard.model import Check, Result, Status
from dataguard.process.session import Session
from dataguard.pytest_plugin.plugin import OPTIONS, read_settings
from dataguard.settings.settings import Settings

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
INSTALLED = any(point.name == "dataguard_loaders" for point in entry_points(group="pytest11"))
LOADED = () if INSTALLED else ("-p", "dataguard.pytest_plugin.plugin")
HEAVY = (
    "torch",
    "numpy",
    "hypothesis",
    "dataguard.pytest_plugin.items",
    "dataguard.settings.settings",
    "dataguard.process.session",
)

LOADERS = """
    import os
    from pathlib import Path

    import torch
    from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

    with Path(__file__).with_name("hosts.log").open("a") as log:
        print(os.getpid(), os.getppid(), file=log)


    class Gaps(Dataset):
        def __len__(self):
            return 13

        def __getitem__(self, index):
            if index > 12:
                raise IndexError(index)
            return torch.full((3,), float("nan") if index == 5 else float(index))


    class Stuck(Gaps):
        def __getitem__(self, index):
            while True:
                Path(__file__).with_name("stuck.log").touch()


    def good():
        return DataLoader(TensorDataset(torch.arange(12.0)), batch_size=4)


    def bad():
        return {"train": DataLoader(Gaps(), batch_size=4, shuffle=True), "val": good()}


    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(100))


    def stream():
        return {"train": DataLoader(Stream(), batch_size=2)}


    def stuck():
        return DataLoader(Stuck(), batch_size=4)


    def needy(folder):
        return good()
"""
OWN_TESTS = """
    def test_sum():
        assert 1 + 1 == 2


    def test_product():
        assert 2 * 2 == 5
"""


@pytest.fixture
def place(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """An empty folder, but for a module of loaders; the process that observes finds dataguard installed or not."""
    pytester.makepyfile(loaders=LOADERS)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("COLUMNS", "160")
    return pytester


@pytest.fixture
def named(place: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """The same, but each target says at once that it has a train and a val loader."""
    monkeypatch.setattr(Session, "loaders", lambda self: ("train", "val"))
    return place


def run(place: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return place.runpytest_inprocess(*LOADED, *arguments)


def ids(place: pytest.Pytester, *arguments: str) -> list[str]:
    """The ids that a collection prints, ours without their common prefix."""
    outcome = run(place, "--collect-only", "-q", *arguments)
    assert outcome.ret in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED), outcome.errlines
    return [line.removeprefix("dataguard::") for line in outcome.outlines if "::" in line]


def hosts(place: pytest.Pytester) -> list[tuple[int, int]]:
    """Process and parent of each process that has imported the loaders."""
    log = place.path / "hosts.log"
    return [(int(pid), int(parent)) for pid, parent in map(str.split, log.read_text().splitlines())]


def assert_nothing_is_left(place: pytest.Pytester) -> None:
    alive = [pid for pid, _ in hosts(place) if psutil.pid_exists(pid)]
    assert not alive


# What runs


@pytest.mark.scan
def test_a_clean_loader_passes_in_an_empty_directory_under_every_strictness(place: pytest.Pytester) -> None:
    strict = ("--strict-markers", "--strict-config", "-W", "error", "-p", "no:cacheprovider")
    outcome = place.runpytest_subprocess(*LOADED, "--dataguard=loaders:good", "-rs", *strict)
    assert outcome.ret == pytest.ExitCode.OK
    counts = outcome.parseoutcomes()
    assert counts["passed"] + counts["skipped"] == len(CATALOGUE)
    assert set(counts) == {"passed", "skipped"}
    outcome.stdout.fnmatch_lines(
        [
            f"dataguard: loaders:good ({len(CATALOGUE)} checks, seed {Settings().seed})",
            "SKIPPED * loaders:good: num_workers=0*",
        ]
    )
    assert_nothing_is_left(place)


@pytest.mark.scan
def test_every_outcome_is_what_pytest_has_for_it(place: pytest.Pytester) -> None:
    place.makeini("[pytest]\nxfail_strict = true")
    outcome = run(
        place,
        "--dataguard=loaders:bad",
        "--dataguard-select=DG101,DG302,DG403,DG501",
        "--dataguard-expect=DG403[train]=the last batch is one by design",
        "--dataguard-expect=DG302=indices wrap around by design",
        "-v",
        "-rfsxX",
        "--durations=3",
        "--junitxml=report.xml",
    )
    assert outcome.ret == pytest.ExitCode.TESTS_FAILED
    outcome.stdout.fnmatch_lines(
        [
            "dataguard::DG101-cloned-worker-rng?train? SKIPPED (num_workers=0*",
            "dataguard::DG302-endless-index?train? XPASS *",
            "dataguard::DG403-singleton-batch?train? XFAIL (the last batch is one by design)*",
            "dataguard::DG501-non-finite-sample?train? FAILED *",
            "dataguard::DG501-non-finite-sample?val? PASSED *",
            "*___ DG501-non-finite-sample?train? ___*",
            "*dataset?5? contains 3 NaN*",
            "*cause*",
            "*fix*",
            "*repro*",
            "*slowest 3 durations*",
            "FAILED dataguard::DG501-non-finite-sample?train? - *dataset?5? contains 3 NaN",
            "SKIPPED ?2? loaders:bad: num_workers=0*",
            "XFAIL dataguard::DG403-singleton-batch?train? - the last batch is one by design",
            "XPASS dataguard::DG302-endless-index?train? - expected to fail (indices wrap around by design)*",
        ]
    )
    outcome.stdout.no_fnmatch_line("*contracts.py*")
    outcome.assert_outcomes(failed=1, passed=1, skipped=3, xfailed=1, xpassed=2)

    cases = {case.get("name"): case for case in ElementTree.parse(place.path / "report.xml").iter("testcase")}
    failure = cases["DG501-non-finite-sample[train]"]
    assert failure.get("classname") == "dataguard"
    assert "contains 3 NaN" in next(failure.iter("failure")).get("message", "")
    properties = {item.get("name"): item.get("value") for item in failure.iter("property")}
    assert properties["exercised samples"] == "13"
    assert_nothing_is_left(place)


@pytest.mark.scan
def test_a_finding_below_fail_on_passes_and_is_told(place: pytest.Pytester) -> None:
    mild = ("--dataguard-select=DG403", "--dataguard-role=train=train", "--dataguard-fail-on=error")
    outcome = place.runpytest_subprocess(*LOADED, "--dataguard=loaders:bad", *mild, "-W", "error")
    assert outcome.ret == pytest.ExitCode.OK
    outcome.stdout.fnmatch_lines(
        ["*= dataguard =*", "dataguard::DG403-singleton-batch?train? - warning: batch 3 of 4 holds a single sample"]
    )


@pytest.mark.scan
def test_what_could_not_be_decided_is_skipped_and_counted(place: pytest.Pytester) -> None:
    outcome = run(place, "--dataguard=loaders:stream", "--dataguard-samples=4", "--dataguard-select=DG403", "-rs")
    assert outcome.ret == pytest.ExitCode.OK
    outcome.assert_outcomes(skipped=1)
    outcome.stdout.fnmatch_lines(
        [
            "1 inconclusive, which is not a pass (-rs shows the reasons)",
            "SKIPPED ?1? loaders:stream: inconclusive: *use --all",
        ]
    )


def test_a_bug_of_dataguard_is_an_error_with_its_internals(
    named: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Session, check: Check, loader: str) -> Result:
        reason = "Traceback (most recent call last):\nKeyError: 'internals'"
        return Result(check.code, check.name, check.severity, loader, Status.BROKEN, reason=reason)

    monkeypatch.setattr(Session, "judge", broken)
    outcome = run(named, "--dataguard=loaders:good", "--dataguard-select=DG501", "-k", "val")
    assert outcome.ret == pytest.ExitCode.TESTS_FAILED
    outcome.assert_outcomes(errors=1, deselected=1)
    outcome.stdout.fnmatch_lines(["*ERROR at setup of DG501-non-finite-sample?val?*", "KeyError: 'internals'"])


def test_a_crash_of_dataguard_is_shown_from_our_own_lines_on(
    named: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(self: Session, check: Check, loader: str) -> Result:
        raise RuntimeError("lost")

    monkeypatch.setattr(Session, "judge", crash)
    outcome = run(named, "--dataguard=loaders:good", "--dataguard-select=DG501", "-k", "val")
    outcome.assert_outcomes(errors=1, deselected=1)
    outcome.stdout.fnmatch_lines(["*items.py:*", "*RuntimeError: lost"])
    outcome.stdout.no_fnmatch_line("*_hookexec*")


@pytest.mark.scan
def test_the_first_failure_stops_the_run_and_the_debugger_does_no_harm(place: pytest.Pytester) -> None:
    arguments = ("--dataguard=loaders:bad", "--dataguard-select=DG403,DG501", "-x", "--pdb")
    outcome = place.run(sys.executable, "-m", "pytest", *LOADED, *arguments, stdin=b"c\n")
    outcome.stdout.fnmatch_lines(["*holds a single sample*", "*entering PDB*", "*stopping after 1 failures*"])
    outcome.assert_outcomes(failed=1)
    assert_nothing_is_left(place)


@pytest.mark.scan
def test_failures_are_run_again_by_last_failed(place: pytest.Pytester) -> None:
    place.makepyfile(test_own=OWN_TESTS)
    arguments = ("--dataguard=loaders:bad", "--dataguard-select=DG301,DG501")
    run(place, *arguments).assert_outcomes(failed=2, passed=4)
    run(place, *arguments, "--lf").assert_outcomes(failed=2, deselected=3)
    failed = "DG501-non-finite-sample[train]"
    assert ids(place, *arguments, "--ff")[:2] == ["test_own.py::test_product", failed]


@pytest.mark.scan
def test_an_interrupt_ends_every_process(place: pytest.Pytester) -> None:
    command = [sys.executable, "-m", "pytest", *LOADED, "--dataguard=loaders:stuck", "--dataguard-select=DG501"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not (place.path / "stuck.log").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    assert_nothing_is_left(place)


@pytest.mark.scan
def test_two_workers_of_xdist_share_the_tests(place: pytest.Pytester) -> None:
    place.makepyfile(test_own=OWN_TESTS)
    arguments = ("--dataguard=loaders:bad", "--dataguard-select=DG301,DG403,DG501", "--dataguard-fail-on=error")
    outcome = place.runpytest_subprocess(*LOADED, *arguments, "-n", "2", "-W", "error", "--strict-markers")
    outcome.assert_outcomes(failed=2, passed=5, skipped=1)
    outcome.stdout.fnmatch_lines(
        [
            f"dataguard: loaders:bad (3 checks, seed {Settings().seed})",
            "*dataset?5? contains 3 NaN*",
            "dataguard::DG403-singleton-batch?train? - warning: *",
            "FAILED dataguard::DG501-non-finite-sample?train? - *dataset?5? contains 3 NaN",
        ]
    )
    parents = {parent for _, parent in hosts(place)}
    assert len(parents) == len(hosts(place)) == 2, "each worker, and not the controller, starts one process"
    assert_nothing_is_left(place)


def test_one_worker_of_xdist_can_keep_all_tests_of_a_target(named: pytest.Pytester) -> None:
    named.makeconftest(
        """
        def pytest_collection_modifyitems(items):
            print({item.name: [mark.args for mark in item.iter_markers("xdist_group")] for item in items})
        """
    )
    outcome = run(named, "--dataguard=loaders:bad", "--dataguard-select=DG301", "--collect-only", "-s")
    outcome.stdout.fnmatch_lines(["{'DG301-overlong-len*train*': *('loaders:bad',)*val*('loaders:bad',)*}"])


@pytest.mark.scan
def test_both_plugins_of_the_name_work_in_one_run(place: pytest.Pytester) -> None:
    place.makefile(".csv", table="id,value\n1,2\n2,2")
    arguments = ("--dataguard=loaders:good", "--dataguard-select=DG501", "--file=table.csv", "--unique=id")
    outcome = place.runpytest_subprocess(*LOADED, *arguments)
    outcome.assert_outcomes(passed=1)
    outcome.stdout.fnmatch_lines(["All specified columns passed the unique check."])

    outcome = place.runpytest_subprocess("-p", "no:dataguard_loaders", "--file=table.csv", "--unique=value")
    outcome.stdout.fnmatch_lines(["Columns with duplicate values: value"])


# What is collected

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


# What switches it on, and with which settings


def test_a_run_that_does_not_ask_imports_nothing(place: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    place.makepyfile(
        f"""
        import sys

        def test_bare():
            assert not set(sys.modules) & set({HEAVY!r})
        """
    )
    place.makepyprojecttoml('[tool.dataguard]\ntargets = ["loaders:bad"]')
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the plugins of others may import what they like
    arguments = ("-p", "dataguard.pytest_plugin.plugin", "--strict-markers", "-m", "not dataguard")
    outcome = place.runpytest_subprocess(*arguments)
    outcome.assert_outcomes(passed=1)
    outcome.stdout.no_fnmatch_line("dataguard:*")


def test_blocked_it_is_gone(place: pytest.Pytester) -> None:
    place.makepyfile(test_own=OWN_TESTS)
    run(place, "-p", "no:dataguard_loaders", "-p", "no:dataguard.pytest_plugin.plugin").assert_outcomes(
        passed=1, failed=1
    )


def test_the_ini_file_may_name_targets_and_single_tests_stay_alone(named: pytest.Pytester) -> None:
    named.makepyfile(test_own=OWN_TESTS)
    named.makeini("[pytest]\ndataguard = loaders:bad\ndataguard_select = DG301")
    own = ["test_own.py::test_sum", "test_own.py::test_product"]
    assert ids(named) == ids(named, "test_own.py") == [*own, "DG301-overlong-len[train]", "DG301-overlong-len[val]"]
    assert ids(named, "test_own.py::test_sum") == ["test_own.py::test_sum"]
    assert ids(named, "dataguard::DG301-overlong-len[val]") == ["DG301-overlong-len[val]"]


def test_config_stands_for_the_targets_of_the_file(named: pytest.Pytester) -> None:
    named.makepyprojecttoml('[tool.dataguard]\ntargets = ["loaders:bad"]\nselect = ["DG301"]')
    assert ids(named, "--dataguard=config") == ["DG301-overlong-len[train]", "DG301-overlong-len[val]"]


VALUES: Sequence[tuple[str, str, str, object]] = [
    ("select", "DG101", "select = ['DG1']", ("DG101",)),
    ("ignore", "DG302,DG301", "ignore = ['DG3']", ("DG302", "DG301")),
    ("samples", "17", "samples = 3", 17),
    ("all", "true", "all = false", True),
    ("budget", "1.5", "budget = 3", 1.5),
    ("timeout", "2.5", "timeout = 3", 2.5),
    ("seed", "7", "seed = 3", 7),
    ("workers", "4", "workers = 3", 4),
    ("start_method", "spawn", "start_method = 'fork'", "spawn"),
    ("ranks", "2", "ranks = 3", 2),
    ("fail_on", "error", "fail_on = 'note'", "error"),
    ("roles", "a=val", "roles = {a = 'train'}", {"a": "val"}),
    ("expect", "DG101[a]=x = y", "expect = {\"DG101[a]\" = 'old'}", {"DG101[a]": "x = y"}),
]
FLAGS = {option.setting: option for option in OPTIONS}


@pytest.mark.parametrize(("setting", "text", "line", "value"), VALUES, ids=[setting for setting, *_ in VALUES])
def test_the_command_line_wins_over_the_ini_file_and_that_over_the_settings_file(
    pytester: pytest.Pytester, setting: str, text: str, line: str, value: object
) -> None:
    option = FLAGS[setting]

    def settings(*arguments: str) -> Settings:
        return read_settings(pytester.parseconfig(*LOADED, "--dataguard=loaders:bad", *arguments))

    pytester.path.joinpath("dataguard.toml").write_text(line)
    from_file = getattr(settings(), setting)
    assert from_file != value
    pytester.makeini(f"[pytest]\n{option.key} = {text}")
    assert getattr(settings(), setting) == value
    pytester.makeini(f"[pytest]\n{option.key} = nonsense=train")
    typed = f"--{option.flag}" if option.kind == "flag" else f"--{option.flag}={text}"
    assert getattr(settings(typed), setting) == value


def test_every_setting_has_an_option() -> None:
    without = {
        "checks": "a set is kept to by a whole project: it belongs into its file",
        "contract": "a table of what only the user knows; it belongs into a file",
        "hypothesis": "hypothesis has options of its own",
        "resume": "a test that was interrupted is run again as a whole",
    }
    reachable = {option.setting for option in OPTIONS} - {"config"}
    assert reachable == {item.name for item in fields(Settings)} - set(without)
    assert {setting for setting, *_ in VALUES} == reachable - {"targets"}


@pytest.mark.usefixtures("ordinary_profile")
def test_the_seed_and_the_database_are_those_of_hypothesis(pytester: pytest.Pytester) -> None:
    def drawn(*arguments: str) -> dict[str, Any]:
        return dict(read_settings(pytester.parseconfig(*LOADED, "--dataguard=a:b", *arguments)).hypothesis)

    database = str(pytester.path / ".hypothesis" / "examples")
    assert drawn() == {"database": database}
    assert drawn("--hypothesis-seed=7") == {"database": database, "seed": "7"}
    assert drawn("-p", "no:hypothesispytest") == {}
    pytester.path.joinpath("dataguard.toml").write_text("hypothesis.seed = 3")
    assert drawn() == {"database": database, "seed": 3}


def test_a_settings_file_is_found_from_where_its_name_was_written(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ndataguard_config = conf/guard.toml")
    conf = pytester.mkdir("conf")
    (conf / "guard.toml").write_text("seed = 5")
    below = pytester.mkdir("below")
    (below / "mine.toml").write_text("seed = 6")
    pytester.chdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(below)
        assert read_settings(pytester.parseconfig(*LOADED, "--dataguard=a:b")).seed == 5
        assert read_settings(pytester.parseconfig(*LOADED, "--dataguard=a:b", "--dataguard-config=mine.toml")).seed == 6


# What is refused, in one line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dataguard-select=DG999"], "ERROR: select: unknown check 'DG999'*"),
        (["--dataguard-samples=many"], "ERROR: *samples: expected an integer of at least 1, got 'many'"),
        (["--dataguard-expect=DG101"], "ERROR: --dataguard-expect: expected CODE=REASON, got 'DG101'"),
        (["--dataguard-expect=DG101="], "ERROR: *DG101: a reason is required*"),
        (["--dataguard-config=none.toml"], "ERROR: *none.toml: no such file"),
        (["--dataguard=config"], "ERROR: --dataguard=config: neither dataguard.toml nor *"),
        (["dataguard::DG101-cloned-worker-rng[test]"], "ERROR: not found: dataguard::DG101-cloned-worker-rng?test? *"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_wrong_options_are_one_usage_error(named: pytest.Pytester, arguments: list[str], message: str) -> None:
    outcome = run(named, "--dataguard=loaders:bad", *arguments)
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR
    outcome.stderr.fnmatch_lines([message])
    assert len([line for line in outcome.errlines if line]) == 1


@pytest.mark.scan
@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("missing.module:make", "ERROR: missing.module:make: no module named 'missing'*"),
        ("loaders:needy", "ERROR: *needy*folder*"),
    ],
)
def test_a_wrong_target_is_one_usage_error(place: pytest.Pytester, target: str, message: str) -> None:
    outcome = run(place, f"--dataguard={target}")
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR
    outcome.stderr.fnmatch_lines([message])
    assert len([line for line in outcome.errlines if line]) == 1
    outcome.assert_outcomes()


@pytest.mark.scan
def test_a_wrong_target_is_one_usage_error_under_xdist(place: pytest.Pytester) -> None:
    outcome = place.runpytest_subprocess(*LOADED, "--dataguard=loaders:godo", "-n", "2")
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR
    outcome.stderr.fnmatch_lines(["ERROR: loaders:godo: loaders has no attribute 'godo'; did you mean 'good'?"])
    assert len([line for line in outcome.errlines if line]) == 1
