"""What switches the plugin on, and with which settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import pytest

from dataguard.pytest_plugin.plugin import OPTIONS, read_settings
from dataguard.settings.settings import Settings
from tests.support.pytest_runs import LOADED, OWN_TESTS, PLUGIN, ids, run

pytest_plugins = ["pytester"]

HEAVY = (
    "torch",
    "numpy",
    "hypothesis",
    "dataguard.pytest_plugin.items",
    "dataguard.settings.settings",
    "dataguard.process.session",
)


def test_a_run_that_does_not_ask_imports_nothing(bare: pytest.Pytester) -> None:
    bare.makepyfile(
        f"""
        import sys

        def test_bare():
            assert not set(sys.modules) & set({HEAVY!r})
        """
    )
    bare.makepyprojecttoml('[tool.dataguard]\ntargets = ["loaders:bad"]')
    outcome = bare.runpytest_subprocess(*PLUGIN, "--strict-markers", "-m", "not dataguard")
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
    ("import_timeout", "2.5", "import_timeout = 3", 2.5),
    ("seed", "7", "seed = 3", 7),
    ("workers", "4", "workers = 3", 4),
    ("start_method", "spawn", "start_method = 'fork'", "spawn"),
    ("ranks", "2", "ranks = 3", 2),
    ("model", "a:net", "model = 'b:net'", "a:net"),
    ("loss", "a:loss", "model = 'a:net'\nloss = 'b:loss'", "a:loss"),
    ("step", "a:step", "model = 'a:net'\nstep = 'b:step'", "a:step"),
    ("fail_on", "error", "fail_on = 'note'", "error"),
    ("fail_on_undecided", "true", "fail-on-undecided = false", True),
    ("baseline", "/known.json", "baseline = 'old.json'", "/known.json"),
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
        "pythonpath": "pytest has an ini key of this name",
        "checks": "a set is kept to by a whole project: it belongs into its file",
        "contract": "a table of what only the user knows; it belongs into a file",
        "overrides": "tables of settings, one for a target; they belong into a file",
        "hypothesis": "hypothesis has options of its own",
        "pictures": "pytest draws no report",
    }
    reachable = {option.setting for option in OPTIONS} - {"config", "args"}
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
        ("loaders:need", "ERROR: loaders:need: loaders has no attribute 'need'; did you mean 'needy'?"),
    ],
)
def test_a_wrong_target_is_one_usage_error(place: pytest.Pytester, target: str, message: str) -> None:
    outcome = run(place, f"--dataguard={target}")
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR
    outcome.stderr.fnmatch_lines([message])
    assert len([line for line in outcome.errlines if line]) == 1
    outcome.assert_outcomes()


@pytest.mark.scan
def test_a_factory_that_needs_more_is_one_usage_error_with_a_file(place: pytest.Pytester) -> None:
    outcome = run(place, "--dataguard=loaders:needy")
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR
    outcome.stderr.fnmatch_lines(["ERROR: loaders:needy needs folder: *", "def loaders():"])
    outcome.assert_outcomes()


@pytest.mark.scan
def test_a_wrong_target_is_one_usage_error_under_xdist(bare: pytest.Pytester) -> None:
    outcome = bare.runpytest_subprocess(*PLUGIN, "-p", "xdist", "--dataguard=loaders:godo", "-n", "2")
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR
    outcome.stderr.fnmatch_lines(["ERROR: loaders:godo: loaders has no attribute 'godo'; did you mean 'good'?"])
    assert len([line for line in outcome.errlines if line]) == 1


def test_arguments_reach_every_factory(pytester: pytest.Pytester) -> None:
    def settings(*arguments: str) -> Settings:
        return read_settings(pytester.parseconfig(*LOADED, *arguments))

    pytester.makeini("[pytest]\ndataguard_arg = split=train")
    assert settings("--dataguard=a:x").targets == ('a:x(split="train")',)
    assert settings("--dataguard=a:x", "--dataguard-arg=size=3").targets == ("a:x(size=3)",)
