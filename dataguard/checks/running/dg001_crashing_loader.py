"""DG001: the loader raises."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.incident import Incident, LoaderRaised
from dataguard.core.model import Coverage, Finding, Judgement, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

_ABSOLUTE = re.compile(r"['\"](/|[A-Za-z]:\\)")
"""A path in a message that begins at the root."""
REPRO_READS = 5000
"""How often a sample that rarely raises is read by the repro line: an exception in one of a thousand reads occurs then
with a probability of 99 %."""

_MISSING = "the dataset refers to a file that does not exist"
_NOT_THERE = "this file does not exist; a relative path starts at the folder where the command runs"
_NO_CUDA = re.compile(r"NVIDIA driver|[Nn]o CUDA GPUs|CUDA-capable device|compiled with CUDA|re-initialize CUDA")
"""What torch says where it cannot use CUDA: without a device, in a build without CUDA, and in a forked process."""
_CHOOSE_DEVICE = 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'
_CPU_SAMPLES = "return tensors of the CPU, and move the batch in the training loop: batch.to(device, non_blocking=True)"
_PROVIDE = "mount or download what is missing, or change the path"
_MOST_CALLERS = 40
"""Frames of a traceback that are kept: a recursion has a thousand."""
_LOADED = "pickle makes the object without __init__: it has no attributes until __setstate__ has run"
_COUNTED = "reset what counts in `__iter__` of the sampler or in `set_epoch`, or let samples follow their index"
_UNSET = ("AttributeError", "RecursionError")
_KNOWN = (
    (
        r"[Ii]mg should be Tensor|does not support PIL|tensor image",
        "Normalize runs before ToTensor: put ToTensor first",
    ),
    (r"mutually exclusive with shuffle", "shuffle=True excludes a sampler, which sets the order itself"),
    (
        r"[Cc]an't pickle|cannot pickle|\b[Pp]ickling|local object",
        "this start method pickles the object to send it to workers (see DG104)",
    ),
    (r"contains itself", "default_collate enters every container: leave out what refers back, or pass a collate_fn"),
    (r"batch must contain tensors", "default_collate accepts tensors, arrays, numbers, strings and containers of them"),
    (r"cannot identify image|truncated|broken data stream", "the file is corrupt or not an image"),
    (r"No such file|FileNotFoundError", _MISSING),
    (r"mode I;16|mode F|unrecognized data stream contents", "this transform does not support the mode of the image"),
    (
        r"SystemExit: .*error: ",
        "a script takes the arguments after it (dataguard run); a factory can call parse_args with a list of them",
    ),
    (
        r"worker\(s\) exited unexpectedly",
        "a worker exited early; under spawn, a script without `if __name__ == '__main__'` causes this",
    ),
)


@check("DG001", "crashing-loader", Severity.ERROR)
def dg001_crashing_loader(lab: Lab) -> Judgement:
    """The factory, the dataset, `collate_fn` or the iteration raises an exception, or unpickling a batch does.

    Symptom: training stops with an exception, at once or hours later at the sample that triggers it.
    Cause: an exception in your code or in a library that it calls; the evidence names the line, the index and the
        worker, and the rate of one that only some reads meet.
    Fix: run the repro line to see the exception alone. Correct the reported line; provide a file that is missing; drop
        the sample if only that one raises. If a batch cannot be unpickled, let its `__getattr__` raise AttributeError
        for what is not set yet, and test the class with `pickle.loads(pickle.dumps(batch))`.
    Links: https://docs.pytorch.org/docs/stable/data.html
    """
    for failure in lab.failures():
        if not isinstance(failure, LoaderRaised):
            raise failure
        if not failure.incident.out_of_shared_memory:
            yield _finding(lab, failure.incident)
        return Coverage({})
    epoch = lab.epoch
    refused = [batch.incident for batch in epoch.batches if batch.incident and batch.incident.stage == "collate"]
    if refused and not refused[0].out_of_shared_memory and all(batch.refuses_each for batch in epoch.batches):
        yield _finding(lab, refused[0])
    elif counted := epoch.read_limit:
        after = f"after {counted.reads} reads in one process, whatever the index: the dataset counts its reads"
        if counted.resets:  # the training may call one of them before each epoch
            called = " or ".join(f"{name}()" for name in counted.resets)
            return Coverage(epoch.exercised, f"reading raises {counted.incident.headline} {after}; {called} resets it")
        yield _finding(lab, counted.incident, rate=None, after=after)
    elif occasional := lab.dataset.occasional_failure:
        yield _finding(lab, occasional.incident, f"{occasional.failures:,} of {occasional.reads:,} reads")
    return Coverage(epoch.exercised)


def _finding(lab: Lab, incident: Incident, rate: str | None = None, after: str | None = None) -> Finding:
    """`after`: so many reads, of any samples, so that no index is to blame."""
    incident = replace(incident, index=None) if after else incident
    hint = next((hint for pattern, hint in _KNOWN if re.search(pattern, incident.message)), None)
    if incident.stage == "receive" and incident.own_frame and incident.error_type in _UNSET:
        hint = _LOADED
    repair = None
    if hint == _MISSING and incident.stage != "sample":  # such as a model's checkpoint, or an argument of a script
        hint = None if _ABSOLUTE.search(incident.message) else _NOT_THERE
        repair = _PROVIDE
    if _NO_CUDA.search(incident.message):
        repair = _CHOOSE_DEVICE if incident.stage in ("import", "factory", "script") else _CPU_SAMPLES
    callers = incident.own_frames[:-1][-_MOST_CALLERS:]
    evidence = {
        "exception": incident.message,
        "called from": "\n".join(f"{frame.file}:{frame.line} in {frame.function}" for frame in callers) or None,
        "index": incident.index,
        "worker": incident.worker,
        "batch": list(incident.batch) or None,
        "raised in": rate,
        "hint": _COUNTED if after else hint,
        "fix here": repair,
    }
    return Finding(
        message=", ".join(
            filter(None, [f"{incident.where} raised {incident.headline}", after or (rate and f"in {rate}")])
        ),
        evidence=without_empty(evidence),
        at=incident.location,
        repro=lab.repro.incident(incident, times=REPRO_READS if rate else 1),
        sample=incident.sample,
    )
