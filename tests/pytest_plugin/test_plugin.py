"""What comes of tests that the plugin runs: outcomes, reports, interrupts, and other plugins beside it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from xml.etree import ElementTree

import psutil
import pytest

from dataguard.checks import CATALOGUE
from dataguard.core.model import PREVENTED, Check, Result, Status
from dataguard.process.launcher import ADDRESS
from dataguard.process.process_tree import adopt_orphans
from dataguard.process.session import Session
from dataguard.settings.settings import Settings
from tests.support.pytest_runs import LOADED, OWN_TESTS, PLUGIN, hosts, ids, run

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True, scope="module")
def _orphans_are_kept() -> Iterator[None]:
    """Keep orphans that have ended, as process 1 of many a container does: nobody waits for them."""
    adopt_orphans()
    yield
    adopt_orphans(False)


def assert_nothing_is_left(place: pytest.Pytester) -> None:
    deadline = time.monotonic() + 20  # one that observed is killed with the process above it, a moment later
    while left := [psutil.Process(pid) for pid, _ in hosts(place) if psutil.pid_exists(pid)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


@pytest.mark.scan
def test_a_clean_loader_passes_in_an_empty_directory_under_every_strictness(bare: pytest.Pytester) -> None:
    strict = ("--strict-markers", "--strict-config", "-W", "error", "-p", "no:cacheprovider")
    outcome = bare.runpytest_inprocess(*PLUGIN, "--dataguard=loaders:good", "-rs", *strict)
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
    assert_nothing_is_left(bare)


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
def test_a_finding_below_fail_on_passes_and_is_told(bare: pytest.Pytester) -> None:
    ambiguous = ("--dataguard-select=DG403", "--dataguard-role=train=train", "--dataguard-fail-on=error")
    outcome = bare.runpytest_inprocess(*PLUGIN, "--dataguard=loaders:bad", *ambiguous, "-W", "error")
    assert outcome.ret == pytest.ExitCode.OK
    outcome.stdout.fnmatch_lines(
        ["*= dataguard =*", "dataguard::DG403-singleton-batch?train? - warning: batch 3 of 4 holds a single sample"]
    )


@pytest.mark.scan
def test_what_could_not_be_decided_is_skipped_and_counted(place: pytest.Pytester) -> None:
    short = ("--dataguard=loaders:stream", "--dataguard-samples=4", "-rs")
    outcome = run(place, *short, "--dataguard-select=DG403,DG301,DG501")
    assert outcome.ret == pytest.ExitCode.OK
    outcome.assert_outcomes(skipped=2, passed=1)
    outcome.stdout.fnmatch_lines(
        [
            "1 inconclusive, which is not a pass (-rs shows the reasons)",
            "SKIPPED ?1? loaders:stream: inconclusive: *use --all",
        ]
    )
    outcome = run(place, *short, "--dataguard-select=DG403", "--dataguard-fail-on-undecided")
    assert outcome.ret == pytest.ExitCode.TESTS_FAILED
    outcome.assert_outcomes(failed=1)


@pytest.mark.scan
def test_names_are_safe_to_print_and_to_paste(place: pytest.Pytester) -> None:
    outcome = run(place, "--dataguard=loaders:named", "--dataguard-select=DG501", "-v", "-rA")
    outcome.assert_outcomes(failed=1)
    text = outcome.stdout.str()
    assert "dataguard::DG501-non-finite-sample[\\x1b[2J$(touch pwned)\\n::error::x]" in text
    assert "\x1b[2J" not in text
    assert not [line for line in text.splitlines() if line.lstrip().startswith("::")]
    (repro,) = {line.partition("repro  ")[2] for line in outcome.outlines if line.startswith("  repro")}
    pasted = place.run("bash", "-c", repro.replace("dataguard show", f"{sys.executable} -m dataguard show"))
    assert "3 NaN" in pasted.stdout.str(), pasted.stderr.str()
    assert not (place.path / "pwned").exists()


@pytest.mark.scan
@pytest.mark.parametrize("distributed", [False, True])
def test_a_run_in_which_nothing_could_be_decided_fails(distributed: bool, bare: pytest.Pytester) -> None:
    bare.makepyfile(test_own=OWN_TESTS.partition("def test_product")[0])
    short = ("--dataguard=loaders:stream", "--dataguard-samples=4", "--dataguard-select=DG403,DG301")
    if distributed:
        outcome = bare.runpytest_subprocess(*PLUGIN, "-p", "xdist", "-n", "2", "--dist", "loadscope", "-v", *short)
        assert len(observers(outcome)) == 2
        assert len(set(observers(outcome))) == 1
    else:
        outcome = bare.runpytest_inprocess(*PLUGIN, *short)
    assert outcome.ret == pytest.ExitCode.TESTS_FAILED
    outcome.assert_outcomes(skipped=2, passed=1)
    outcome.stdout.fnmatch_lines(["1 inconclusive, no check reached a verdict: the run fails (-rs shows the reasons)"])


@pytest.mark.scan
@pytest.mark.parametrize("many", [False, True])
def test_a_run_of_which_the_machine_prevented_most_fails(
    many: bool, bare: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judged(_: Session, check: Check, loader: str) -> Result:
        lacks = check.code in (("DG301", "DG302") if many else ("DG301",))
        status, reason = (Status.INCONCLUSIVE, f"{PREVENTED}no space") if lacks else (Status.PASSED, None)
        return Result(check.code, check.name, check.severity, loader, status, reason=reason)

    monkeypatch.setattr(Session, "judge", judged)
    monkeypatch.setattr(Session, "plan", lambda *_: None)
    outcome = bare.runpytest_inprocess(*PLUGIN, "--dataguard=loaders:stream", "--dataguard-select=DG301,DG302,DG303")
    assert outcome.ret == (pytest.ExitCode.TESTS_FAILED if many else pytest.ExitCode.OK)
    why = "most checks were prevented: the run fails" if many else "which is not a pass"
    outcome.stdout.fnmatch_lines([f"* inconclusive, {why} (-rs shows the reasons)"])


def observers(outcome: pytest.RunResult) -> list[str]:
    """The worker of xdist that ran each of the checks."""
    return re.findall(r"^\[(gw\d)\] .* dataguard::", outcome.stdout.str(), re.MULTILINE)


@pytest.mark.scan
def test_a_loader_that_does_not_run_fails_whatever_is_selected(place: pytest.Pytester) -> None:
    outcome = run(place, "--dataguard=loaders:raising", "--dataguard-select=DG501,DG408,DG301")
    assert outcome.ret == pytest.ExitCode.TESTS_FAILED
    outcome.assert_outcomes(failed=1, passed=2)
    outcome.stdout.fnmatch_lines(["*error DG001-crashing-loader*", "*collating a batch*raised AttributeError*"])


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
def test_two_workers_of_xdist_share_the_tests(bare: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ADDRESS)
    bare.makepyfile(test_own=OWN_TESTS)
    arguments = ("--dataguard=loaders:bad", "--dataguard-select=DG301,DG403,DG501", "--dataguard-fail-on=error")
    outcome = bare.runpytest_subprocess(
        *PLUGIN, "-p", "xdist", *arguments, "-n", "2", "-W", "error", "--strict-markers"
    )
    outcome.assert_outcomes(failed=2, passed=5, skipped=1)
    outcome.stdout.fnmatch_lines(
        [
            f"dataguard: loaders:bad (3 checks, seed {Settings().seed})",
            "*dataset?5? contains 3 NaN*",
            "dataguard::DG403-singleton-batch?train? - warning: *",
            "FAILED dataguard::DG501-non-finite-sample?train? - *dataset?5? contains 3 NaN",
        ]
    )
    own = {pid for pid, _ in hosts(bare)}
    starters = [starter for _, starter in hosts(bare) if starter not in own]  # observations may import them again
    assert len(starters) == 2, "each worker, and not the controller, has the loaders built"
    assert len(set(starters)) == 1, "one process imports torch for both"
    assert_nothing_is_left(bare)


@pytest.mark.scan
def test_one_worker_of_xdist_runs_all_checks(bare: pytest.Pytester) -> None:
    bare.makepyfile(test_own=OWN_TESTS, test_other=OWN_TESTS)
    targets = ("--dataguard=loaders:good", "--dataguard=loaders:bad", "--dataguard-select=DG301,DG302,DG501")
    outcome = bare.runpytest_subprocess(*PLUGIN, "-p", "xdist", "-n", "2", "--dist", "loadfile", "-v", *targets)
    outcome.assert_outcomes(passed=10, failed=3)
    workers = observers(outcome)
    assert (len(workers), len(set(workers))) == (9, 1)
    assert re.search(r"^\[gw\d\] .* test_own\.py::test_sum", outcome.stdout.str(), re.MULTILINE)


@pytest.mark.scan
def test_a_failure_is_at_its_line_and_a_skip_at_its_target(place: pytest.Pytester) -> None:
    select = ("--dataguard=loaders:bad", "--dataguard-select=DG403,DG501", "--junitxml=report.xml")
    outcome = run(place, "--tb=line", *select)
    outcome.assert_outcomes(failed=2, passed=1, skipped=1)
    lines = re.findall(r"^\S+/loaders\.py:(\d+): (.+)$", outcome.stdout.str(), re.MULTILINE)
    messages = ["batch 3 of 4 holds a single sample", "sample of dataset[5] contains 3 NaN"]
    assert [message for _, message in lines] == messages
    source = (place.path / "loaders.py").read_text(encoding="utf-8").splitlines()
    assert all(
        words in source[int(number) - 1] for words, (number, _) in zip(("DataLoader(", "nan"), lines, strict=True)
    )
    cases = ElementTree.parse(place.path / "report.xml")
    (skipped,) = cases.iter("skipped")
    assert skipped.text == "loaders:bad: the role is val: a batch of one sample is harmless in evaluation"
    assert [failure.get("message") for failure in cases.iter("failure")] == messages


@pytest.mark.scan
def test_both_plugins_of_the_name_work_in_one_run(place: pytest.Pytester) -> None:
    place.makefile(".csv", table="id,value\n1,2\n2,2")
    arguments = ("--dataguard=loaders:good", "--dataguard-select=DG501", "--file=table.csv", "--unique=id")
    outcome = run(place, *arguments)
    outcome.assert_outcomes(passed=1)
    outcome.stdout.fnmatch_lines(["All specified columns passed the unique check."])

    outcome = place.runpytest_subprocess("-p", "no:dataguard_loaders", "--file=table.csv", "--unique=value")
    outcome.stdout.fnmatch_lines(["Columns with duplicate values: value"])


@pytest.mark.scan
def test_a_bug_of_ours_in_one_target_is_one_error(place: pytest.Pytester) -> None:
    place.makepyfile(
        breaking_ours="import sys; sys.modules['dataguard.observer.host']._labs = None; from loaders import good"
    )
    targets = ("--dataguard=loaders:good", "--dataguard=broken=breaking_ours:good")
    outcome = run(place, *targets, "--dataguard-select=DG301,DG501", "-rs")
    outcome.assert_outcomes(passed=2, errors=1, skipped=1)
    text = outcome.stdout.str()
    assert text.count("TypeError: 'NoneType' object is not callable") == 1
    assert "inconclusive: dataguard broke before any check ran: see DG301-overlong-len" in text
