"""The observing process: single-threaded, forks for each observation.

It imports the user's module, once, and answers questions over a socket. The factory is called in a fork, which takes
the place of this process where it can: see `lab.reading.checkpoint`. Each observation is a fork of that.
`torch.set_num_threads(1)` comes before the user's module, because a fork hangs in its first parallel operation when its
parent ran one with more threads (measured on torch 2.15).
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import mmap
import multiprocessing
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from dataguard.core.incident import LoaderFailed
from dataguard.core.model import NotApplicable, Undecided, UsageError
from dataguard.lab.process import fork_safety, isolation
from dataguard.machine.checkup import environment
from dataguard.machine.machine import Machine
from dataguard.process import shm_cleanup
from dataguard.process.cheap_forks import infrequent_gc, prepare_to_fork
from dataguard.process.launcher import ROOT
from dataguard.process.messages import Answers
from dataguard.process.originals import os, signal
from dataguard.process.process_tree import adopt_orphans, die_with_parent, handle_children_as_user, wait_for_children
from dataguard.process.progress import PROGRESS
from dataguard.process.reaper import CREATIONS, LOG, STACKS
from dataguard.process.torchrun import clear_torchrun_variables, own_team
from dataguard.settings.settings import Settings
from dataguard.settings.target_spelling import is_held, parsed, shown_target

with infrequent_gc():
    import torch

    from dataguard.checks import CATALOGUE
    from dataguard.lab.epoch.full_epoch import ScanJob
    from dataguard.lab.lab import Lab
    from dataguard.lab.process.accelerators import lost, shown_kind
    from dataguard.lab.process.incidents import last_words
    from dataguard.lab.process.side_by_side import ConcurrencySlots, counted
    from dataguard.lab.reading.checkpoint import Survey, survey
    from dataguard.lab.subject import remember_start
    from dataguard.observer.judge import judged, read_epoch
    from dataguard.targets import loading as targets
    from dataguard.targets.loading import Target

MOST_AT_ONCE = 4
"""Observations that run side by side at most; each has workers of its own."""
_OWN = str(Path(ROOT, "dataguard", "__init__.py"))
MANY_LOADERS = 8
"""Loaders from which on forks are so many that it pays to make them cheap once more, after the user's modules."""
AMPLE_SHARED_MEMORY = 1 << 30
"""Bytes of free shared memory from which on observations run side by side."""


def main(descriptor: int, parent: int, *, forked: bool) -> None:
    """Serve one session until the reporting process closes the socket.

    `forked` says that this is a fork of a process which had imported all that is needed.
    """
    die_with_parent(parent)
    adopt_orphans()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # by which the reaper ends this process
    torch.set_num_threads(1)
    # The user's module may query CUDA when it is imported; that must not initialize CUDA here, or no fork could use it.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    with Answers(descriptor) as pipe:
        os.register_at_fork(after_in_child=lambda: None if isolation.replacing[0] else pipe.close())
        try:
            spelling, settings, folder, path = pipe.recv()
            team = own_team(shared=settings.all)
            if team is not None:
                clear_torchrun_variables(os.environ)
            remember_start()
            sys.path[:] = dict.fromkeys(filter(None, [*path, *sys.path]))
            if not is_held(spelling):
                sys.argv[:] = [f"{parsed(spelling).module.rpartition('.')[2]}.py"]  # not ours, for one that parses it
                spec = PathFinder.find_spec("dataguard")
                if spec is None or spec.origin != _OWN:  # spawned workers would find the user's own
                    sys.path.insert(0, ROOT)
            config: dict[str, Any] = multiprocessing.current_process()._config  # type: ignore[attr-defined]
            config["tempdir"] = str(folder)  # sockets
            daemonic = bool(config.pop("daemon", False))  # inherited: this process may have children
            shm_cleanup.log_creations(folder / CREATIONS)
            importer = _Importer(folder / STACKS, settings.import_timeout)
            pipe.send(("importing", None))
            with importer.watched():
                target = targets.load(spelling)
            pipe.send(("building", None))
            if not forked:  # the memory of a fork would be shared
                prepare_to_fork()
            job = ScanJob(team, lambda news: pipe.send((PROGRESS, news)))
            surveys = _surveys(target, settings, folder, importer)
            adopt_orphans()
            fork_safety.remember()
            labs = _labs(surveys, settings, folder, job)
            if len(labs) >= MANY_LOADERS:
                prepare_to_fork()
            pipe.send(("ready", (tuple(labs), environment(), tuple(_notes(surveys, daemonic=daemonic)))))
            checks = {check.code: check for check in CATALOGUE}
            while True:
                question, asked = pipe.recv()
                if question in _OBSERVED:
                    wanted, loader = asked
                    pipe.send(_answered(question, partial(_OBSERVED[question], labs[loader], wanted)))
                else:
                    # The severity of a check depends on the check set.
                    chosen = [(replace(checks[code], severity=severity), loader) for code, severity, loader in asked]
                    with counted():
                        for result in judged(chosen, labs):
                            pipe.send(("result", result))
        except (UsageError, Undecided) as error:
            words = last_words(folder, LOG) if isinstance(error.__cause__, SystemExit) else ""
            pipe.send(("usage", str(error) + words))
        except (EOFError, ConnectionError):  # the reporting process is done
            pass
        except Exception:  # noqa: BLE001 - a bug of ours, which the reporting process shows
            pipe.send(("broken", traceback.format_exc()))
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # what the user's code has registered runs to its end


_OBSERVED: Mapping[str, Callable[[Lab, Any], Any]] = {
    "bench": lambda lab, options: lab.throughput.bench(options),
    "fingerprint": lambda lab, batches: lab.reproducibility.fingerprint(batches),
    "show": lambda lab, samples: lab.pictures.views(samples),
}
"""What other commands than `scan` ask of a loader."""


class _Importer:
    """Imports modules, and ends this process if an import takes more than `seconds`.

    The stacks are written to a file then, or if the process crashes.
    """

    def __init__(self, stacks: Path, seconds: float) -> None:
        self._stacks = stacks
        self._seconds = seconds

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the imports of the user's code inside the context."""
        handle_children_as_user()
        with infrequent_gc(), self._stacks.open("w", encoding="utf-8") as file:
            faulthandler.enable(file)
            with contextlib.suppress(RuntimeError):  # no thread can be started: then nothing ends a slow import
                faulthandler.dump_traceback_later(self._seconds, exit=True, file=file)
            try:
                yield
            finally:
                faulthandler.cancel_dump_traceback_later()
                faulthandler.disable()
                wait_for_children()

    def once(self, module: str) -> None:
        """Import a module unless it is already imported."""
        if module not in sys.modules:
            with self.watched():
                importlib.import_module(module)

    def late(self, loaders: int) -> None:
        """Import what is imported on first use, which would otherwise happen in every fork, or for each loader."""
        self.once("numpy.ma")  # by numpy's median
        if loaders > 1:
            self.once("dataguard.lab.batches.settings_strategy")  # hypothesis
        _TORCHVISION_USED[0] |= "torchvision" in sys.modules
        pillow: Any = sys.modules.get("PIL.Image")
        if pillow is not None:
            pillow.preinit()


_TORCHVISION_USED = mmap.mmap(-1, 1)
"""Shared with the process that this one is forked from: not zero if a target of the run imports torchvision."""


def import_torchvision_if_used() -> None:
    """Import it once for all targets to come, since that takes longer than many scans (1.4 s, torchvision 0.29)."""
    if _TORCHVISION_USED[0]:
        with contextlib.suppress(Exception):
            importlib.import_module("torchvision")


Surveys = list[tuple[Target, Survey | LoaderFailed]]
"""The branches of a target, each with what building its loaders showed."""


def _surveys(target: Target, settings: Settings, folder: Path, importer: _Importer) -> Surveys:
    """Build the loaders of each branch once.

    What a factory imports is imported here as well, unless this is the process of the checkpoint already.
    """
    branches = target.branches()
    surveys: Surveys = []
    for branch in branches:
        try:
            surveyed = survey(branch, settings, folder, alone=len(branches) == 1)
        except LoaderFailed as failure:
            surveys.append((branch, failure))
            continue
        surveys.append((branch, surveyed))
        for module in surveyed.modules:
            with contextlib.suppress(Exception, SystemExit):  # it may only exist for the factory's while
                importer.once(module)
    importer.late(sum(len(surveyed.facts) for _, surveyed in surveys if not isinstance(surveyed, LoaderFailed)))
    return surveys


def _labs(surveys: Surveys, settings: Settings, folder: Path, job: ScanJob) -> dict[str, Lab]:
    """A lab for each loader; a factory that fails has one loader of its branch's name.

    The ranks of a team read their parts of each at once, in the same order everywhere.
    """
    machine = Machine.read()
    exclusive = job.team or any(not isinstance(surveyed, LoaderFailed) and surveyed.alone for _, surveyed in surveys)
    turns = ConcurrencySlots(1 if exclusive else _most_at_once(machine))
    labs: dict[str, Lab] = {}
    for branch, surveyed in surveys:
        checkpoint = None if isinstance(surveyed, LoaderFailed) else surveyed.checkpoint
        facts = {branch.name: surveyed} if isinstance(surveyed, LoaderFailed) else surveyed.facts
        for name, loader_facts in facts.items():
            labs[name] = Lab(branch, loader_facts, settings, machine, folder, job, checkpoint, turns)
    for lab in labs.values():
        lab.siblings = labs
    for lab in labs.values() if job.team else ():
        read_epoch(lab)
    return labs


def _most_at_once(machine: Machine) -> int:
    """How many observations run side by side; little shared memory is left to one."""
    roomy = machine.shm_free is None or machine.shm_free >= AMPLE_SHARED_MEMORY
    return min(machine.usable_cores, MOST_AT_ONCE) if roomy else 1


def _notes(surveys: Surveys, *, daemonic: bool) -> Iterator[str]:
    """How the loaders were built, for the reader of the report."""
    loaders = [facts for _, seen in surveys if not isinstance(seen, LoaderFailed) for facts in seen.facts.values()]
    if daemonic and any(facts.num_workers for facts in loaders):
        yield (
            "this process is a daemonic one, which may have no children: here the loader raises an AssertionError as "
            "it starts its workers; it was observed in a process that may"
        )
    if kind := lost():
        used = f"this process uses {shown_kind(kind)}, which its forks cannot"
        yield f"{used}: the loader was observed without pin_memory"
    for branch, surveyed in surveys:
        yield from getattr(branch.source, "notes", ()) if branch.runs_once else ()
        if isinstance(surveyed, LoaderFailed):
            continue
        for name in surveyed.absent:
            yield f"{shown_target(branch.spelling)}: {name} is None, and is not scanned"
        if not surveyed.reason:
            continue
        if surveyed.checkpoint is not None:
            lack = f"{surveyed.reason}, which forks do not inherit"
            yield f"{branch.spelling}: its loaders were observed in forks of it, but {lack}"
        else:
            yield (
                f"{shown_target(branch.spelling)}: each observation calls the factory again "
                f"({surveyed.seconds:.2g} s), because {surveyed.reason}: a fork of the process would not have that"
            )


def _answered(question: str, observe: Callable[[], Any]) -> tuple[str, Any]:
    """What is observed of a loader, or why it could not be."""
    try:
        return question, observe()
    except LoaderFailed as failure:
        first, *rest = failure.incident.message.strip().splitlines()
        # The message of an exception in a worker contains its traceback; the last line is the original message.
        return "failed", rest[-1].strip() if rest and "Caught" in first else failure.incident.headline
    except (NotApplicable, Undecided, UsageError) as why:
        return "failed", str(why)
