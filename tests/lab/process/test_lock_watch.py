"""Locks that a worker takes are seen, wherever they were created."""

from __future__ import annotations

import gc
import multiprocessing
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from dataguard.lab.process.isolation import isolated
from dataguard.lab.randomness.shared_offsets import LockWatch

LOCK = multiprocessing.get_context("fork").Lock()


class Own(multiprocessing.synchronize.RLock):
    """A lock of the user's own type."""


OWN = Own(ctx=multiprocessing.get_context("fork"))


@pytest.mark.scan
@pytest.mark.parametrize("lock", [LOCK, OWN, None], ids=["module", "own type", "none"])
def test_a_worker_that_takes_a_lock_is_seen(lock: Own | None, tmp_path: Path) -> None:
    def work() -> None:
        if lock is not None:
            with lock:
                pass

    def run() -> bool:
        gc.freeze()  # as the observing process does once the user's modules are imported
        watch = LockWatch()
        worker = multiprocessing.get_context("fork").Process(target=work)
        BaseProcess.start(worker)
        worker.join()
        return watch.taken

    assert isolated(run, tmp_path, timeout=20, allowed=40) is (lock is not None)
