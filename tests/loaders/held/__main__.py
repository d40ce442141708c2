"""Read two epochs of each kind in plain torch, each in a fork; print why it fails, and whether it can be pickled."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import sys
import tempfile
from pathlib import Path

import torch

from tests.loaders.held import known, loader
from tests.loaders.held.kinds import VALUES

DEADLINE = 60
"""Seconds for one kind."""


def seen(name: str) -> tuple[str, bool]:
    """Why a kind fails, if it does, and whether its dataset can be pickled."""
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder, "said")
        pid = os.fork()
        if pid == 0:
            os.setsid()
            signal.alarm(DEADLINE)
            why, pickled = "", False
            try:
                made = loader(name)
                for _ in range(2):
                    read = sum(int(batch[:, 0].sum()) for batch, _ in made)
                    why = why or ("" if read == sum(VALUES) else f"read {read}")
                with contextlib.suppress(Exception):  # each type has its own
                    pickled = bool(pickle.dumps(made.dataset))
            except BaseException as error:  # noqa: BLE001 - it is what is asked for
                why = repr(error)
            said.write_text(json.dumps((why, pickled)))
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with contextlib.suppress(ProcessLookupError):  # nothing that it has started is left
            os.killpg(pid, signal.SIGKILL)
        return json.loads(said.read_text()) if status == 0 else (f"ended with {status}", False)


if __name__ == "__main__":
    torch.set_num_threads(1)
    known()
    json.dump({name: seen(name) for name in sys.argv[1:]}, sys.stdout)
