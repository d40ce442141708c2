"""The command line over an engine that is told what to answer: options, outputs, messages and exit codes."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from click.testing import CliRunner

import dataguard
from dataguard.cli import console, main
from dataguard.core.model import ISSUES, Finding, Interrupted, Status, UsageError
from dataguard.report import Report
from dataguard.settings.settings import Settings
from tests.support.sample_reports import CATALOGUE, clean, empty, full, result, stub_engine

ROOT = Path(__file__).parents[2]
TARGET = "mypkg.data:make"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _empty_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs one command line against an engine that returns, or raises, `answer`."""

    def run(*arguments: str, answer: Report | BaseException | None = None) -> tuple[int, str, str]:
        def scan(targets: Sequence[str], settings: Settings, listen: object) -> Report:
            if isinstance(answer, BaseException):
                raise answer
            return answer or clean()

        stub_engine(monkeypatch, scan)
        code = main.main(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def failing(code: str) -> Report:
    return replace(empty(), results=(result(code, "train", Status.FAILED, Finding("x")),))


class TestExitCodes:
    def test_clean_is_0(self, run: Run) -> None:
        code, out, err = run("scan", TARGET)
        assert code == 0
        assert "✓ no findings" in out
        assert err == ""

    @pytest.mark.parametrize(
        ("failed", "options", "expected"),
        [
            ("DG101", (), 1),
            ("DG406", (), 1),
            ("DG803", (), 0),
            ("DG803", ("--fail-on", "note"), 1),
            ("DG406", ("--fail-on", "error"), 0),
            ("DG101", ("--fail-on", "error"), 1),
        ],
    )
    def test_findings_are_1_from_a_severity_on(
        self, failed: str, options: tuple[str, ...], expected: int, run: Run
    ) -> None:
        assert run("scan", TARGET, *options, answer=failing(failed))[0] == expected

    @pytest.mark.parametrize(
        ("statuses", "options", "expected"),
        [
            ((Status.INCONCLUSIVE,), (), 1),
            ((Status.INCONCLUSIVE,), ("--exit-zero",), 0),
            ((Status.INCONCLUSIVE, Status.SKIPPED), (), 1),
            ((Status.INCONCLUSIVE, Status.PASSED), (), 0),
            ((Status.INCONCLUSIVE, Status.EXPECTED), (), 0),
            ((Status.INCONCLUSIVE, Status.PASSED), ("--fail-on-undecided",), 1),
            ((Status.PASSED,), ("--fail-on-undecided",), 0),
            ((Status.SKIPPED,), (), 0),
            ((), (), 1),
            ((Status.FAILED,), ("--exit-zero",), 0),
            ((Status.BROKEN,), ("--exit-zero",), 3),
        ],
    )
    def test_a_scan_without_a_verdict_is_no_pass(
        self, statuses: tuple[Status, ...], options: tuple[str, ...], expected: int, run: Run
    ) -> None:
        results = tuple(result("DG101", "train", status, Finding("x")) for status in statuses)
        assert run("scan", TARGET, *options, answer=replace(empty(), results=results))[0] == expected

    def test_an_error_of_usage_is_2_and_one_message(self, run: Run) -> None:
        code, out, err = run("scan", TARGET, answer=UsageError("mypkg has no attribute 'make'"))
        assert (code, out, err) == (2, "", "dataguard: error: mypkg has no attribute 'make'\n")

    def test_a_broken_check_is_3_and_reported(self, run: Run) -> None:
        code, out, _ = run("scan", TARGET, answer=full())
        assert code == 3
        assert "a bug in dataguard, not in your code" in out

    def test_a_bug_of_ours_is_3_with_a_traceback_and_a_plea(self, run: Run) -> None:
        code, out, err = run("scan", TARGET, answer=RuntimeError("impossible"))
        assert (code, out) == (3, "")
        assert err.startswith("dataguard: bug: Traceback")
        assert "RuntimeError: impossible" in err
        assert f"Please report it at {ISSUES} " in err

    @pytest.mark.parametrize("stop", [KeyboardInterrupt(), Interrupted(empty(), 67)])
    def test_ctrl_c_before_any_result_is_130_and_one_line(self, run: Run, stop: KeyboardInterrupt) -> None:
        code, out, err = run("scan", TARGET, answer=stop)
        assert (code, out, err.strip()) == (130, "", "dataguard: interrupted, no report")

    def test_ctrl_c_reports_what_was_judged_before(self, run: Run) -> None:
        code, out, err = run("scan", TARGET, "--format", "json", answer=Interrupted(full(), 67))
        results = json.loads(out)["results"]
        assert (code, err.strip()) == (130, f"dataguard: interrupted, {len(results)} of 67 checks ran")


class TestUsage:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("scan",), "no target: name one, such as `dataguard scan mypkg.data:make_loader`"),
            (("scan", TARGET, "--sampels", "3"), "--sampels"),
            (("scan", TARGET, "--samples", "few"), "samples: expected an integer of at least 1, got 'few'"),
            (("scan", TARGET, "--budget", "-1"), "budget: expected a positive number of seconds"),
            (("scan", TARGET, "--start-method", "forc"), "did you mean 'fork'?"),
            (("scan", TARGET, "--fail-on", "warn"), "did you mean 'warning'?"),
            (("scan", TARGET, "--expect", "DG101"), "--expect DG101: expected CODE=REASON, such as"),
            (("scan", TARGET, "--role", "train"), "--role train: expected LOADER=ROLE"),
            (("scan", TARGET, "--role", "=train"), "expected LOADER=ROLE"),
            (("scan", TARGET, "--role", "a=training"), "did you mean 'train'?"),
            (("scan", TARGET, "--config", "none.toml"), "none.toml: no such file"),
            (("scan", TARGET, "--format", "xml"), "xml"),
            (("scan", TARGET, "--format", "text", "--format", "json"), "give one output per format"),
            (("scan", TARGET, "--output", "a", "--format", "text", "--output", "a", "--format", "json"), "the same"),
            (("scan", TARGET, "--output", "none/a.txt"), "--output none/a.txt: no such folder: none"),
            (("scan", TARGET, "--output", "."), "--output .: is a folder"),
            (("explain",), "Missing argument"),
            (("explain", "DG999"), "unknown check 'DG999'"),
            (("explain", "clone-worker-rng"), "did you mean 'cloned-worker-rng'?"),
            (("explain", "qqqqqqqqq"), "`dataguard list` shows all checks"),
            (("scna",), "no command 'scna'; did you mean 'scan'?"),
            (("check",), "`dataguard.check(loader)`"),
        ],
    )
    def test_what_is_wrong_is_said_before_anything_runs(
        self, arguments: tuple[str, ...], message: str, run: Run
    ) -> None:
        code, out, err = run(*arguments, answer=AssertionError("it ran"))
        assert (code, out) == (2, "")
        assert err.startswith("dataguard: error: ")
        assert message in err
        assert "Traceback" not in err

    def test_an_output_that_cannot_be_written_is_told_before_the_scan(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # A superuser may write anywhere, so the question is answered for the test.
        monkeypatch.setattr(os, "access", lambda path, mode: False)
        code, _, err = run("scan", TARGET, "--output", "a.txt", answer=AssertionError("it ran"))
        assert (code, err) == (2, "dataguard: error: --output a.txt: is not writable\n")

    def test_a_report_that_cannot_be_written_goes_to_stderr(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        def full_disk(*arguments: Any, **options: Any) -> NoReturn:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(console, "write_text", full_disk)
        outputs = ("--output", "a.txt", "--format", "text", "--output", "-", "--format", "json")
        code, out, err = run("scan", TARGET, *outputs)
        report, _, message = err.rpartition("\ndataguard: ")
        assert (code, message) == (2, "error: --output a.txt: No space left on device; the report is above\n")
        assert "✓ no findings" in report
        assert json.loads(out)["results"]

    @pytest.mark.parametrize(("into", "code", "message"), [("/dev/full", 2, "No space left on device"), ("", 0, "")])
    def test_a_stdout_that_takes_nothing(
        self, into: str, code: int, message: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PYTHONUNBUFFERED", "")  # what stdout did not take is written again at exit
        command = [sys.executable, "-c", PROGRAM, "scan", "a:x"]
        with Path(into or os.devnull).open("w") as file:
            reader, writer = os.pipe()
            os.close(reader)  # as `| head` leaves it
            with os.fdopen(writer, "w") as pipe:
                out = file if into else pipe
                outcome = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, cwd=ROOT, timeout=60)
        assert outcome.returncode == code
        assert message in outcome.stderr
        assert ("✓ no findings" in outcome.stderr) == bool(into)
        assert "Traceback" not in outcome.stderr

    @pytest.mark.parametrize("streams", [">&-", "2>&-", "2>/dev/full", ">/dev/full 2>&-", "<&- >&- 2>&-"])
    @pytest.mark.parametrize(("form", "code"), [("text", 0), ("nonsense", 2)])
    def test_streams_that_the_shell_closed(
        self, streams: str, form: str, code: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PYTHONUNBUFFERED", "")
        command = [sys.executable, "-c", PROGRAM, "scan", "a:x", "--format", form]
        outcome = subprocess.run(["sh", "-c", f'"$0" "$@" {streams}', *command], cwd=ROOT, timeout=60)
        assert outcome.returncode == (2 if ">/dev/full" in streams.split() else code)

    def test_nothing_at_all_shows_the_help(self, run: Run) -> None:
        code, out, _ = run()
        assert code == 2
        assert out.startswith("Usage: dataguard")

    @pytest.mark.parametrize(
        "arguments", [("--help",), ("-h",), ("scan", "-h"), ("list", "-h"), ("explain", "-h"), ("bench", "-h")]
    )
    def test_help_is_help(self, arguments: tuple[str, ...], run: Run) -> None:
        code, out, err = run(*arguments)
        assert (code, err) == (0, "")
        assert out.startswith("Usage: dataguard")

    def test_help_states_the_real_defaults(self) -> None:
        text = " ".join(CliRunner().invoke(main.dataguard, ["scan", "--help"]).output.split())
        defaults = Settings()
        for default in (defaults.samples, f"{defaults.budget:g}", f"{defaults.timeout:g}", defaults.fail_on.value):
            assert f"[default: {default}]" in text

    def test_version(self, run: Run) -> None:
        assert run("--version") == (0, f"dataguard {dataguard.__version__}\n", "")
        pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        assert re.findall(r'^version = "(.*)"$', pyproject, re.MULTILINE) in ([], [dataguard.__version__])


class TestTargets:
    def test_the_command_line_goes_before_the_file(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        Path("dataguard.toml").write_text('targets = ["from:file"]\n')
        seen: list[tuple[str, ...]] = []

        def scan(targets: Sequence[str], settings: Settings, listen: object) -> Report:
            seen.append(tuple(targets))
            return clean()

        stub_engine(monkeypatch, scan)
        main.main(["scan"])
        main.main(["scan", "a:x", "b=c:y"])
        assert seen == [("from:file",), ("a:x", "b=c:y")]

    def test_config_names_the_file(self, run: Run) -> None:
        Path("other.toml").write_text('targets = ["from:file"]\nfail-on = "note"\n')
        assert run("scan", "--config", "other.toml", answer=failing("DG803"))[0] == 1


class TestOutputs:
    def test_json_on_stdout_is_one_object(self, run: Run) -> None:
        code, out, err = run("scan", TARGET, "--format", "json", answer=full())
        assert (code, err) == (3, "")
        assert json.loads(out)["target"] == "mypkg.data:make_loaders"

    def test_each_format_goes_to_its_output(self, run: Run) -> None:
        files = ("--format", "json", "--output", "r.json", "--format", "text", "--output", "-")
        code, out, err = run("scan", TARGET, *files)
        assert (code, err) == (0, "")
        assert "✓ no findings" in out
        assert json.loads(Path("r.json").read_text(encoding="utf-8"))["results"]

    @pytest.mark.parametrize(("output", "start"), [("r.json", "{"), ("R.JSON", "{"), ("r.txt", "d"), ("report", "d")])
    def test_the_suffix_of_a_file_is_its_format(self, output: str, start: str, run: Run) -> None:
        assert run("scan", TARGET, "--output", output)[0] == 0
        assert Path(output).read_text(encoding="utf-8").startswith(start)

    def test_outputs_beyond_the_formats_follow_from_their_suffix(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", "step_summary_1")
        outputs = ("-", "r.sarif", "step_summary_1", "r.xml")
        code, out, err = run("scan", TARGET, "--format", "github", *(f"--output={output}" for output in outputs))
        assert (code, err, out.partition("\n")[0]) == (0, "", "::group::dataguard")
        starts = [Path(output).read_text(encoding="utf-8")[:5] for output in outputs[1:]]
        assert starts == ['{\n  "', "## da", "<?xml"]

    @pytest.mark.parametrize("name", ["report", "settings"])
    def test_schemas_are_printed(self, name: str, run: Run) -> None:
        code, out, _ = run("schema", name)
        assert (code, json.loads(out)["$id"]) == (0, f"urn:dataguard:{name}:1")

    def test_statistics_count_what_each_check_found(self, run: Run) -> None:
        out = run("scan", TARGET, "--statistics", answer=full())[1]
        assert "     7  ✗ DG401-ragged-collate  train\n" in out
        assert "cause" not in out

    def test_when_nothing_is_shown_a_line_tells_what_came_of_it(self, run: Run) -> None:
        code, out, err = run("scan", TARGET, "--output", "r.txt")
        assert (code, out, err) == (0, "", "dataguard: 2 passed; written to r.txt\n")
        assert "no findings" in Path("r.txt").read_text(encoding="utf-8")
        assert run("scan", TARGET, "--output", "r.txt", "-q")[2] == ""

    def test_quiet_and_verbose(self, run: Run) -> None:
        assert "expected (1)" not in run("scan", TARGET, "-q", answer=full())[1]
        assert "passed (3)" in run("scan", TARGET, "-v", answer=full())[1]

    def test_a_pipe_gets_no_colour_and_columns_counts(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        out = run("scan", TARGET, answer=full())[1]
        assert "\x1b" not in out
        assert "━" * 100 in out
        monkeypatch.setenv("COLUMNS", "60")
        assert "━" * 61 not in run("scan", TARGET, answer=full())[1]

    def test_force_color_and_no_color_are_heard(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        assert "\x1b[" in run("scan", TARGET, answer=full())[1]
        monkeypatch.setenv("NO_COLOR", "1")
        assert "\x1b" not in run("scan", TARGET, answer=full())[1]

    @pytest.mark.parametrize("form", ["text", "json"])
    @pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
    def test_any_encoding_of_stdout_will_do(self, form: str, encoding: str, run: Run) -> None:
        program = (
            "import sys, pytest; from tests.support.sample_reports import *; from dataguard.cli.main import main\n"
            "stub_engine(pytest.MonkeyPatch(), lambda *_: full())\n"
            f"sys.exit(main(['scan', 'a:b', '--format', '{form}']))"
        )
        outcome = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": encoding},
            capture_output=True,
            check=False,
        )
        assert (outcome.returncode, outcome.stderr) == (3, b"")
        text = outcome.stdout.decode(encoding)
        assert text.isascii() == (encoding != "utf-8")
        if form == "json":
            assert json.loads(text)["results"][0]["findings"][0]["evidence"]["output"] == "loading …\nloading …"


class TestListAndExplain:
    def test_list_names_every_check(self, run: Run) -> None:
        code, out, _ = run("list")
        assert code == 0
        assert [line.split()[:3] for line in out.splitlines()] == [
            [check.code, check.name, check.severity.value] for check in CATALOGUE
        ]

    @pytest.mark.parametrize(
        "word", ["DG101", "dg101", "cloned-worker-rng", "Cloned-Worker-RNG", "DG101-cloned-worker-rng"]
    )
    def test_explain_takes_codes_and_names(self, word: str, run: Run) -> None:
        code, out, _ = run("explain", word)
        assert code == 0
        assert out.startswith("# DG101 · cloned-worker-rng\n")
        for section in ("## Symptom", "## Cause", "## Fix", "## Links"):
            assert section in out

    def test_explain_lists_the_checks_of_a_prefix(self, run: Run) -> None:
        lines = run("explain", "dg4")[1].splitlines()
        assert [line.split()[0] for line in lines] == ["DG401", "DG406"]

    def test_explain_searches_names_and_summaries(self, run: Run) -> None:
        lines = run("explain", "cloned")[1].splitlines()
        assert [line.split()[0] for line in lines if line.startswith("DG")] == ["DG101"]

    def test_explain_takes_several(self, run: Run) -> None:
        out = run("explain", "DG101", "ragged-collate")[1]
        assert [line for line in out.splitlines() if line.startswith("# ")] == [
            "# DG101 · cloned-worker-rng",
            "# DG401 · ragged-collate",
        ]


PROGRAM = """
import sys, time, pytest
from tests.support.sample_reports import *
from dataguard.cli.main import main
from dataguard.process.progress import CheckProgress, ReadingProgress, Unreadable

def scan(targets, settings, listen):
    if listen:
        running = ("DG101-cloned-worker-rng", "train")
        listen(CheckProgress(0, 67, None, running))
        amiss = Unreadable(0, 3, 7, "7", "OSError: truncated", "OSError", "images/7.jpg", None)
        listen(ReadingProgress("train", 30, 100, (amiss,)))
        listen(CheckProgress(1, 67, full().results[1], running))
    if "slow" in targets[0]:
        sys.stdout.write("ready" + chr(10)); sys.stdout.flush()
        time.sleep(60)
    return clean()

stub_engine(pytest.MonkeyPatch(), scan)
sys.exit(main())
"""


class TestProcesses:
    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", PROGRAM, *arguments]
        return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}, **options)

    def test_ctrl_c_ends_with_one_line_and_130(self) -> None:
        process = self.start("scan", "slow:x", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert (process.returncode, err.strip()) == (130, b"dataguard: interrupted, no report")

    def test_progress_is_for_terminals_only(self) -> None:
        ours, theirs = pty.openpty()
        process = self.start("scan", "a:x", "--format", "json", stdout=subprocess.PIPE, stderr=theirs)
        os.close(theirs)
        out, _ = process.communicate(timeout=30)
        shown = os.read(ours, 65536)
        os.close(ours)
        assert re.search(rb"check 2 of 67  \d+ s  DG101-cloned-worker-rng on train", shown)
        assert b"1 failed" in shown
        (finding,) = full().results[1].findings
        assert f"{full().results[1].code} on train: {finding.message[:20]}".encode() in shown
        assert b"30/100" in shown
        assert b"unreadable: train: index 7: images/7.jpg: OSError: truncated" in shown
        assert json.loads(out)["results"]

        process = self.start("scan", "a:x", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.communicate(timeout=30)[1] == b""

    @pytest.mark.parametrize("arguments", [("--version",), ("scan", "--help")])
    def test_python_m_dataguard_is_the_command(self, arguments: tuple[str, ...]) -> None:
        outcome = subprocess.run(
            [sys.executable, "-m", "dataguard", *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert outcome.stdout.startswith(("dataguard ", "Usage: dataguard "))


class TestPython:
    def test_scan_resolves_like_the_command_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        Path("dataguard.toml").write_text('targets = ["from:file"]\nsamples = 5\n')
        seen: list[tuple[tuple[str, ...], int, int | None]] = []

        def scan(targets: Sequence[str], settings: Settings, here: object) -> Report:
            seen.append((tuple(targets), settings.samples, settings.workers))
            return clean()

        stub_engine(monkeypatch, scan)
        assert dataguard.scan().count(Status.PASSED) == 2
        dataguard.scan("a:x", "b:y", workers=2)
        assert seen == [(("from:file",), 5, None), (("a:x", "b:y"), 5, 2)]

    def test_what_cannot_be_scanned_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stub_engine(monkeypatch, lambda *_: clean())
        with pytest.raises(UsageError, match="name a target"):
            dataguard.scan()
        with pytest.raises(UsageError, match="did you mean 'samples'"):
            dataguard.scan("a:x", sample=3)  # type: ignore[call-arg]

    def test_public_names_are_the_real_ones(self) -> None:
        assert dataguard.Report is Report
        assert dataguard.Settings is Settings
        assert {name for name in dataguard.__all__ if not hasattr(dataguard, name)} == set()
        assert set(dataguard.__all__) <= set(dir(dataguard))
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            _ = dataguard.nothing
