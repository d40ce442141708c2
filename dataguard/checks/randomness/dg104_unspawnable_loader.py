"""DG104: the loader cannot start its workers under spawn."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.randomness.start_methods import SPAWN, spawn_trial
from dataguard.core.incident import Incident, LoaderHung, LoaderUnspawnable, observed_or_none
from dataguard.core.model import (
    Coverage,
    Finding,
    Judgement,
    Location,
    NotApplicable,
    Severity,
    Undecided,
    without_empty,
)

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.randomness.unpicklable_parts import Culprit, Pickling


@check("DG104", "unspawnable-loader", Severity.ERROR)
def dg104_unspawnable_loader(lab: Lab) -> Judgement:
    """Workers fail under spawn or forkserver, but work under fork: a warning where fork is the platform's default.

    Symptom: "Can't pickle local object", "cannot pickle '_thread.lock' object" or "DataLoader worker exited
        unexpectedly" on macOS, on Windows, or on Linux from Python 3.14 on, with code that worked before.
    Cause: such a worker shares no memory with the main process. It receives the dataset, `collate_fn` and
        `worker_init_fn` through pickle, which cannot handle lambdas, local functions and classes, open files, locks,
        generators and `torch.Generator`; and it imports modules again, without values set in them at run time, and
        without submodules of a package that only other code imports. A script that starts workers as it is imported
        does so in each of them.
    Fix: define functions and classes at module level, and bind arguments with `functools.partial`; open files and
        create locks and generators on first use inside the worker, and drop them in `__getstate__`; pass values set at
        run time as attributes of the dataset; import each submodule where it is used; put what a script does under
        `if __name__ == "__main__":`.
        `multiprocessing_context="fork"` keeps fork on Linux.
    Links: https://docs.pytorch.org/docs/stable/data.html#platform-specific-behaviors
        https://docs.python.org/3/library/multiprocessing.html#the-spawn-and-forkserver-start-methods
    """
    if not lab.facts.num_workers:
        raise NotApplicable("num_workers=0: no worker starts, and nothing is pickled")
    if not lab.facts.spawns:
        trial = spawn_trial(lab)
        if trial.failure:
            yield _finding(lab, trial.failure)
        return Coverage({"samples": trial.items})
    try:
        exercised = lab.epoch.exercised
    except LoaderUnspawnable as failure:
        if isinstance(failure.__cause__, LoaderHung) and failure.incident.worker is None:
            reason = f"{failure.incident.headline} while workers started by {lab.facts.start_method}"
            raise Undecided(f"{reason}, which is slow with many imports: raise --timeout") from failure
        yield _finding(lab, failure.incident)
        return Coverage({})
    return Coverage({unit: count for unit, count in exercised.items() if unit != "batches"})


def _finding(lab: Lab, incident: Incident) -> Finding:
    forked = not lab.facts.spawns
    method = SPAWN if forked else lab.facts.start_method
    started = incident.stage in ("sample", "collate", "transfer", "receive", "raise")
    culprit = None if started else _to_blame(lab, incident)
    raised = re.findall(r"^\w[\w.]*: .*|^\w+(?:Error|Exception)$", incident.output, flags=re.MULTILINE)
    exception = (culprit and culprit.error) or (incident.headline if started else [incident.headline, *raised][-1])
    evidence = {
        "exception": exception,
        "object": culprit.what if culprit else None,
        "path": culprit.path if culprit else None,
        "start method": "spawn" if forked else method,
        "under fork": "the same epoch succeeds",
        "index": incident.index,
    }
    if culprit:
        file, line = culprit.at or (None, None)
        message = f"{culprit.words}: workers cannot start under {method}"
        return Finding(message, without_empty(evidence), Location(file, line, culprit.path), ambiguous=forked)
    missing = _missing_import(lab, exception)
    if _UNGUARDED in incident.output:
        exception = "they import the script, which starts workers itself"
        evidence["exception"] = "RuntimeError: a process is started before the current one has finished its start"
        evidence["fix here"] = "put what the script does under if __name__ == '__main__':"
    if missing:
        evidence["missing import"] = f"import {missing}"
        exception = f"only another module imports {missing}"
    failed = f"{incident.where} fails" if started else "workers fail to start"
    message = f"{failed} under {method}, but not under fork: {exception}"
    return Finding(
        message, without_empty(evidence), incident.location if incident.own_frame else None, ambiguous=forked
    )


_UNGUARDED = "Safe importing of main module"
"""In the message of multiprocessing where a worker imports a script that starts workers as it is imported."""


def _missing_import(lab: Lab, exception: str) -> str | None:
    """The module that the exception misses in its package, if the main process has imported it."""
    names = re.match(r"AttributeError: module '([\w.]+)' has no attribute '(\w+)'", exception)
    if names is None:
        return None
    module = ".".join(names.groups())
    return module if observed_or_none(lambda: lab.randomness.imported(module)) else None


def _to_blame(lab: Lab, incident: Incident) -> Culprit | None:
    """What is not pickled; else a torch.Generator: it is, but its state is gone before the worker can read it."""
    tried = _pickling(lab)
    if tried is None or tried.culprit:
        return tried.culprit if tried else None
    lost = re.search("rebuild_storage|resize file", incident.output)
    return next(iter(tried.generators), None) if lost else None


def _pickling(lab: Lab) -> Pickling | None:
    return observed_or_none(
        lambda: lab.randomness.pickling
    )  # where the user's code ended the attempt, it says nothing of an object
