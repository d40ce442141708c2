"""A function run in a fork: what it returns, how it ends, where it hangs, and what is left of it."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import inspect
import mmap
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import popen_fork
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest
import torch
from torch.utils.data import DataLoader

from dataguard.core.incident import LoaderDied, LoaderHung, LoaderRaised
from dataguard.core.model import DataguardError, Undecided
from dataguard.lab.core.observation_cache import ObservationCache
from dataguard.lab.process import incidents, isolation
from dataguard.lab.process.answers import ObservationBug
from dataguard.lab.process.incidents import SLOTS, FlightRecorder
from dataguard.lab.process.isolation import OutOfTime, isolated
from dataguard.process import originals, shm_cleanup
from dataguard.process.process_tree import adopt_orphans, descendants, end_descendants, how_it_ended
from dataguard.process.shm_cleanup import SharedTensors
from dataguard.settings.settings import Settings
from tests.support.offspring import left_over

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


@pytest.fixture(autouse=True, scope="module")
def _nothing_escapes() -> None:
    torch.set_num_threads(1)  # as in the host: a fork hangs otherwise
    adopt_orphans()


def run(function: Callable[[], Any], folder: Path, timeout: float = 5.0, allowed: float = 60.0) -> Any:
    return isolated(function, folder, timeout=timeout, allowed=allowed)


def spin(seconds: float, clock: Callable[[], float] = time.monotonic) -> str:
    """Compute until so many seconds have passed by a clock."""
    end = clock() + seconds
    while clock() < end:
        pass
    return "answer"


def line_of(function: Callable[..., Any], text: str) -> int:
    """The number of the line of the function that contains the text."""
    source, start = inspect.getsourcelines(function)
    return start + next(number for number, line in enumerate(source) if text in line)


REFUSAL = BlockingIOError(11, "Resource temporarily unavailable")
REFUSED = r"ran out of resources .*: BlockingIOError: .*temporarily unavailable"


def test_a_machine_without_another_process_leaves_it_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(originals.os, "fork", mock.Mock(side_effect=REFUSAL))
    with pytest.raises(Undecided, match=REFUSED):
        run(lambda: None, tmp_path)
    with pytest.raises(Undecided, match=REFUSED):
        isolation.fork_and_replace(lambda: None, lambda _: True, tmp_path, timeout=5)


def test_what_is_nested_too_deeply_is_no_lack_of_resources(tmp_path: Path) -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(Undecided, match=r"nested too deeply to be examined, .*: RecursionError in \w*deepcopy"):
        run(partial(copy.deepcopy, nested), tmp_path)
    while nested:  # freed level by level
        (nested,) = nested


@pytest.mark.scan
def test_a_worker_that_cannot_be_started_leaves_it_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(popen_fork.Popen, "_launch", mock.Mock(side_effect=REFUSAL))
    with pytest.raises(Undecided, match=REFUSED):
        run(partial(list, DataLoader([1, 2], num_workers=1)), tmp_path)  # type: ignore[arg-type]


@pytest.mark.scan
class TestEndings:
    def test_what_it_returns_comes_back(self, tmp_path: Path) -> None:
        assert run(lambda: ("answer", os.getppid()), tmp_path) == ("answer", os.getpid())

    def test_a_large_answer_comes_back_whole(self, tmp_path: Path) -> None:
        assert len(run(lambda: b"x" * (64 << 20), tmp_path)) == 64 << 20

    def test_nothing_that_it_changes_reaches_this_process(self, tmp_path: Path) -> None:
        changed: list[int] = []
        before = Path.cwd()

        def change() -> None:
            changed.append(1)
            os.chdir("/")
            os.environ.clear()

        run(change, tmp_path)
        assert (changed, Path.cwd(), "PATH" in os.environ) == ([], before, True)

    def test_an_outcome_of_dataguard_passes_through(self, tmp_path: Path) -> None:
        def give_up() -> None:
            raise Undecided("too little data")

        with pytest.raises(Undecided, match="too little data"):
            run(give_up, tmp_path)

    def test_what_the_users_code_raises_past_every_gate_is_the_users(self, tmp_path: Path) -> None:
        def fail() -> None:
            raise ValueError("in the user's own line")

        with pytest.raises(LoaderRaised) as raised:
            run(fail, tmp_path)
        assert raised.value.incident.message == "ValueError: in the user's own line"
        assert raised.value.incident.own_frame is not None
        assert raised.value.incident.own_frame.line == line_of(fail, "raise")

    def test_what_our_own_code_raises_is_a_bug_of_ours(self, tmp_path: Path) -> None:
        with pytest.raises(ObservationBug, match="TypeError"):
            run(lambda: how_it_ended("no status"), tmp_path)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("end", "name", "code", "words"),
        [
            (lambda: os.kill(os.getpid(), signal.SIGKILL), "SIGKILL", None, "was killed by SIGKILL"),
            (lambda: ctypes.string_at(0), "SIGSEGV", None, "was killed by SIGSEGV"),
            (os.abort, "SIGABRT", None, "was killed by SIGABRT"),
            (lambda: os._exit(7), None, 7, "exited with status 7"),
            (lambda: os._exit(0), None, 0, "exited with status 0"),
        ],
    )
    def test_an_end_without_an_answer_is_named(
        self, tmp_path: Path, end: Callable[[], Any], name: str | None, code: int | None, words: str
    ) -> None:
        def work() -> None:
            FlightRecorder(tmp_path).mark(None, "sample", 17)
            os.write(1, b"last words\n")
            end()

        with pytest.raises(LoaderDied) as died:
            run(work, tmp_path)
        incident = died.value.incident
        assert (incident.signal, incident.exit_code, incident.message) == (name, code, f"the main process {words}")
        assert (incident.stage, incident.index, incident.output) == ("sample", "17", "last words")

    def test_a_crash_leaves_the_line_it_happened_on(self, tmp_path: Path) -> None:
        def crash() -> None:
            ctypes.string_at(0)

        with pytest.raises(LoaderDied) as died:
            run(crash, tmp_path)
        location = died.value.incident.location
        assert location is not None
        assert (location.file, location.line) == (__file__, line_of(crash, "string_at"))

    def test_closing_every_descriptor_does_not_lose_the_answer(self, tmp_path: Path) -> None:
        def close_all() -> str:
            os.closerange(0, 4096)
            return "answer"

        assert run(close_all, tmp_path) == "answer"

    def test_a_fork_that_forgets_to_end_answers_for_nobody(self, tmp_path: Path) -> None:
        def work() -> str:
            if os.fork() == 0:
                return "the child's answer"
            time.sleep(0.3)
            return "answer"

        assert run(work, tmp_path) == "answer"

    def test_a_thread_that_goes_on_does_not_hold_it_up(self, tmp_path: Path) -> None:
        def work() -> str:
            threading.Thread(target=time.sleep, args=(100,)).start()
            return "answer"

        assert run(work, tmp_path) == "answer"

    def test_masses_of_output_do_not_fill_the_disk(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(isolation, "_MOST_OUTPUT", 1_000_000)

        def babble() -> None:
            for _ in range(100):
                os.write(1, b"x" * 100_000)
                time.sleep(0.02)
            time.sleep(0.1)
            os.write(1, b"\nlast words\n")

        run(babble, tmp_path)
        assert (tmp_path / "output").stat().st_size < 9_000_000
        assert incidents.end_of_output(tmp_path, lines=1) == "last words"


@pytest.mark.scan
class TestDeadlines:
    def test_a_hang_shows_the_line_of_the_process_and_of_its_worker(self, tmp_path: Path) -> None:
        def work_for_ever() -> None:
            incidents.register_stack_dumps(tmp_path)
            FlightRecorder(tmp_path).mark(1, "sample", 5)
            time.sleep(1000)

        def wait_for_it() -> None:
            worker = multiprocessing.get_context("fork").Process(target=work_for_ever)
            worker.start()
            worker.join()

        with pytest.raises(LoaderHung) as hung:
            run(wait_for_it, tmp_path, timeout=2)
        incident = hung.value.incident
        assert (incident.worker, incident.stage, incident.index) == (1, "sample", "5")
        assert incident.own_frame is not None
        assert incident.own_frame.line == line_of(work_for_ever, "time.sleep")
        worker, main = incident.stacks.split("\n\n")
        assert worker.startswith("worker 1 (pid ")
        assert f'"{__file__}", line {line_of(work_for_ever, "time.sleep")} in work_for_ever' in worker
        assert main.startswith("main process (pid ")
        assert f'"{__file__}", line {line_of(wait_for_it, "worker.join")} in wait_for_it' in main

    def test_progress_keeps_it_alive(self, tmp_path: Path) -> None:
        def work() -> str:
            recorder = FlightRecorder(tmp_path)
            for index in range(6):
                recorder.mark(None, "sample", index)
                time.sleep(0.4)
            return "answer"

        assert run(work, tmp_path, timeout=2) == "answer"

    def test_work_without_progress_gets_more_time_but_not_for_ever(self, tmp_path: Path) -> None:
        assert run(lambda: spin(1.0), tmp_path, timeout=0.5) == "answer"
        with pytest.raises(LoaderHung):
            run(lambda: spin(60.0), tmp_path, timeout=0.5)

    @pytest.mark.scan
    @pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs processes that share one core")
    def test_the_time_for_which_others_have_the_core_does_not_count(self, tmp_path: Path) -> None:
        def work() -> str:
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
            others = [os.fork() for _ in range(2)]
            if 0 in others:
                spin(30.0)
            try:
                return spin(0.7, time.process_time)
            finally:
                for pid in others:
                    os.kill(pid, signal.SIGKILL)

        assert run(work, tmp_path, timeout=0.4) == "answer"

    def test_the_budget_cuts_it_short_once_there_is_something(self, tmp_path: Path) -> None:
        def work() -> None:
            recorder = FlightRecorder(tmp_path)
            for index in range(1000):
                recorder.mark(None, "sample", index)
                time.sleep(0.05)

        with pytest.raises(OutOfTime):
            run(work, tmp_path, allowed=0.5)

    def test_a_stopped_process_hangs(self, tmp_path: Path) -> None:
        with pytest.raises(LoaderHung):
            run(lambda: os.kill(os.getpid(), signal.SIGSTOP), tmp_path, timeout=0.5)


@pytest.mark.scan
class TestLeavingNothing:
    @pytest.fixture(autouse=True)
    def _all_gone(self) -> Iterator[None]:
        before = descendants()
        yield
        assert left_over(before) == []

    def test_a_daemon_that_left_its_session_is_ended(self, tmp_path: Path) -> None:
        def work() -> int:
            reading, writing = os.pipe()
            if os.fork() == 0:
                os.setsid()
                if (daemon := os.fork()) == 0:
                    signal.signal(signal.SIGTERM, signal.SIG_IGN)
                    time.sleep(1000)
                os.write(writing, str(daemon).encode())
                os._exit(0)
            return int(os.read(reading, 32))

        daemon = run(work, tmp_path)
        assert not psutil.pid_exists(daemon)

    def test_what_ran_before_is_spared(self, tmp_path: Path) -> None:
        with subprocess.Popen(["sleep", "1000"]) as bystander:
            run(lambda: subprocess.Popen(["sleep", "1000"]).pid, tmp_path)
            assert bystander.poll() is None
            bystander.kill()

    def test_processes_that_fork_on_and_on_are_ended(self) -> None:
        forking = "import os, time\nwhile True:\n    if os.fork() == 0: time.sleep(1000)\n    time.sleep(0.01)"
        with subprocess.Popen([sys.executable, "-c", forking]) as process:
            time.sleep(0.3)
            spared = [one for one in descendants() if process.pid not in {one.pid, *(up.pid for up in one.parents())}]
            ended = end_descendants(spare=spared)
            assert process.pid in ended
            assert len(ended) > 3

    @pytest.mark.parametrize("evidence", ["open", "mapped", "reported", "none"])
    def test_a_shared_tensor_is_removed_if_it_is_known_to_be_ours(self, tmp_path: Path, evidence: str) -> None:
        """torch names it after the process, as it does in containers that share the memory but not the PIDs."""

        def work() -> None:
            with (shm_cleanup.SHARED_MEMORY / f"torch_{os.getpid()}{rest}").open("a+b") as shared:
                shared.write(bytes(64))
                shared.flush()
                memory = mmap.mmap(shared.fileno(), 64) if evidence == "mapped" else None
                if evidence != "open":
                    shared.close()
                if evidence == "reported":
                    message = f"unable to allocate shared memory(shm) for file </{Path(shared.name).name}>"
                    os.write(2, message.encode())  # as the thread of a queue does
                if evidence == "none":
                    os._exit(1)
                time.sleep(1000 if memory or evidence == "open" else 0)

        rest = f"_{os.getpid()}_{evidence}"  # the tests that run beside have names of their own
        folder = tmp_path / "observation"
        folder.mkdir()
        with contextlib.suppress(DataguardError):
            run(work, folder, timeout=0.3)
        left = {name for name in shm_cleanup.names() if name.endswith(rest)}
        listed = shm_cleanup.left_in(tmp_path)
        for name in left:
            (shm_cleanup.SHARED_MEMORY / name).unlink()
        assert len(left) == (evidence == "none")
        assert listed == sorted(left)

    def test_names_of_others_are_left_alone(self, tmp_path: Path) -> None:
        """Not even those that are named after our processes, if they were there before."""
        tensors = SharedTensors()
        foreign = shm_cleanup.SHARED_MEMORY / f"torch_{os.getpid()}_1_test"
        foreign.write_bytes(b"x")
        try:
            run(lambda: None, tmp_path)
            SharedTensors().remove([os.getpid()], tmp_path, tmp_path)
            assert shm_cleanup.left_in(tmp_path) == []
            tensors.remove([os.getpid()], tmp_path, tmp_path)
            assert shm_cleanup.left_in(tmp_path) == [foreign.name]
            assert foreign.exists()
        finally:
            foreign.unlink()


class TestFlightRecorder:
    @pytest.mark.scan
    def test_marks_of_every_process_are_there_after_it_is_gone(self, tmp_path: Path) -> None:
        recorder = FlightRecorder(tmp_path)
        recorder.mark(None, "iterate")
        if (pid := os.fork()) == 0:
            FlightRecorder(tmp_path).mark(3, "collate", (1, 2))
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(pid, 0)
        main, worker = recorder.last()
        assert (main.worker, main.pid, main.stage, main.index) == (None, os.getpid(), "iterate", None)
        assert (worker.worker, worker.pid, worker.stage, worker.index) == (3, pid, "collate", "(1, 2)")

    def test_progress_grows_with_every_mark(self, tmp_path: Path) -> None:
        recorder = FlightRecorder(tmp_path)
        seen = [recorder.progress()]
        for worker in (None, 0, 0, 400):
            recorder.mark(worker, "sample", worker)
            seen.append(recorder.progress())
        assert seen == sorted(set(seen))

    def test_more_workers_than_slots_share_the_last(self, tmp_path: Path) -> None:
        recorder = FlightRecorder(tmp_path)
        recorder.mark(SLOTS + 10, "sample", 1)
        assert [mark.worker for mark in recorder.last()] == [SLOTS - 2]

    def test_an_index_that_cannot_be_shown_is_named_by_its_type(self, tmp_path: Path) -> None:
        class Shy:
            def __repr__(self) -> str:
                raise RuntimeError("no")

        recorder = FlightRecorder(tmp_path)
        recorder.mark(None, "sample", Shy())
        recorder.mark(0, "sample", "\udcff" * 100)
        assert [mark.index for mark in recorder.last()] == ["Shy", repr("\udcff" * 100)[:80]]


class TestLogOfCreations:
    @pytest.mark.scan
    def test_it_lists_what_python_code_creates_and_nothing_that_it_reads(self, tmp_path: Path) -> None:
        mine, theirs = f"dataguard-test-{os.getpid()}", f"dataguard-theirs-{os.getpid()}"
        (shm_cleanup.SHARED_MEMORY / theirs).write_bytes(b"x")
        before = shm_cleanup.names() - {theirs}  # as if it had come up meanwhile

        def work() -> None:
            from multiprocessing import resource_tracker, shared_memory

            shm_cleanup.log_creations(tmp_path / "log")
            (shm_cleanup.SHARED_MEMORY / theirs).read_bytes()
            (shm_cleanup.SHARED_MEMORY / mine).write_bytes(b"x")
            memory = shared_memory.SharedMemory(create=True, size=64, name=f"{mine}-memory")
            resource_tracker.unregister(f"/{memory.name}", "shared_memory")
            os._exit(0)

        with pytest.raises(LoaderDied):
            run(work, tmp_path)
        assert {mine, f"{mine}-memory", theirs} <= shm_cleanup.names()
        shm_cleanup.remove_created(tmp_path / "log", before)
        assert not {mine, f"{mine}-memory"} & shm_cleanup.names()
        assert theirs in shm_cleanup.names()
        (shm_cleanup.SHARED_MEMORY / theirs).unlink()


@pytest.mark.scan
def test_what_is_cut_short_and_leaves_nothing_is_open(tmp_path: Path) -> None:
    def read(folder: Path) -> None:
        recorder = FlightRecorder(folder)
        for index in range(1000):
            recorder.mark(None, "sample", index)
            time.sleep(0.05)

    cache = ObservationCache(Settings(budget=1), tmp_path)
    with pytest.raises(Undecided, match="the budget of 1 s ran out"):
        cache.observe("nothing", read)
