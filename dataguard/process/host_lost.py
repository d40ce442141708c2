"""The loss of the observing process, as an exception and as results of checks. Standard library only."""

from __future__ import annotations

from itertools import takewhile
from shlex import quote

from dataguard.core.incident import OWN
from dataguard.core.model import PREVENTED, Check, DataguardError, Finding, Result, Status, UsageError


class HostLost(DataguardError):
    """The observing process ended or stopped answering; `signal` is what killed it, if so.

    `unwatched`: the reaper that watches it ended as well, which happens only if it is killed. `late`: it did not answer
    in time, and may still run. `final`: it is not started again.
    """

    def __init__(
        self,
        message: str,
        signal: str | None = None,
        *,
        unwatched: bool = False,
        late: bool = False,
        final: bool = False,
    ) -> None:
        super().__init__(message)
        self.signal = signal
        self.unwatched = unwatched
        self.late = late
        self.final = final

    def has_reason_of(self, other: HostLost | None) -> bool:
        """Whether the other loss had the same reason: the same signal, or that the reaper ended as well."""
        return other is not None and (self.signal, self.unwatched) == (other.signal, other.unwatched)


class Refused(HostLost):
    """What arrived is no answer of dataguard, so that nothing that follows can be relied on."""

    def __init__(self, message: str) -> None:
        super().__init__(message, final=True)


class StartFailure(DataguardError):
    """A bug of dataguard before any check of a target ran; `shown_by` is the check whose result shows it."""

    shown_by = ""


class Misused(DataguardError):
    """A target has no loaders: its module cannot be imported, or what it names returns none."""

    def __init__(self, error: UsageError) -> None:
        super().__init__(str(error))
        self.error = error


def before_building(lost: HostLost, spelling: str, when: str, stacks: str) -> UsageError:
    """The error for a process that was lost before it called the factory, with the stacks that an import left."""
    own_frames = _users_part(stacks.strip())
    if own_frames:
        what = "importing its module takes too long" if own_frames.startswith("Timeout") else f"{lost} {when}"
        return UsageError(f"{spelling}: {what}\n{own_frames}")
    cause = _CAUSE_OF_SIGNAL.get(lost.signal or "")
    return UsageError(f"{spelling}: {lost} {when}{f'; {cause}' if cause else ''}")


def _users_part(stacks: str) -> str:
    """The frames of an import that are the user's: from the innermost one to dataguard's."""
    frames = takewhile(lambda line: f'File "{OWN}' not in line, stacks.splitlines())
    return "\n".join(line for line in frames if 'File "<frozen' not in line)


_CAUSE_OF_SIGNAL = {
    "SIGKILL": "memory probably ran out: raise the limit of the container or job, or end other processes",
    **dict.fromkeys(
        ("SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV"),
        "a library is probably broken, or built for other processors: `dataguard doctor` imports each",
    ),
}
"""What usually sends a signal to a process that imports libraries, and what helps."""


def result_of(check: Check, loader: str, lost: Exception, *, building: bool) -> Result:
    """The result of a check during which the observing process was lost, while `building` the loader or afterwards."""
    signal = getattr(lost, "signal", None)
    if signal is None or check.code != _DYING_WORKER:
        reason = str(lost)
        if isinstance(lost, HostLost):
            reason = f"{PREVENTED}{lost}{'' if lost.final else '; it is restarted for the next check'}"
        return without_verdict(check, loader, Status.INCONCLUSIVE, reason)
    finding = Finding(
        f"{lost} while {'calling the factory' if building else 'the loader ran in forks of it'}",
        {"signal": signal, "likely cause": "a limit of memory, or code that kills other processes"},
    )
    return Result(check.code, check.name, check.severity, loader, Status.FAILED, (finding,))


_DYING_WORKER = "DG002"
"""The check that reports a signal which killed the observing process: the processes of the loader are its forks."""


def of_bug(check: Check, loader: str, bug: DataguardError) -> Result:
    """The result of a check that met a bug of dataguard; only the first one that meets a `StartFailure` shows it."""
    if isinstance(bug, StartFailure):
        if bug.shown_by:
            reason = f"dataguard broke before any check ran: see {bug.shown_by}"
            return without_verdict(check, loader, Status.INCONCLUSIVE, reason)
        bug.shown_by = check.id
    return without_verdict(check, loader, Status.BROKEN, str(bug))


def of_misuse(check: Check, loader: str, spelling: str, misuse: Misused) -> Result:
    """The result of a check of a target without loaders: one check fails, and the others did not run."""
    headline, _, rest = str(misuse).removeprefix(f"{spelling}: ").partition("\n")
    if check.code != _CRASHING_LOADER:
        return without_verdict(check, loader, Status.SKIPPED, f"see {_CRASHING_LOADER}: {headline}")
    evidence = {"more": rest.strip()} if rest.strip() else {}
    finding = Finding(headline, evidence, repro=f"dataguard scan {quote(spelling)} --select {_CRASHING_LOADER}")
    return Result(check.code, check.name, check.severity, loader, Status.FAILED, (finding,))


_CRASHING_LOADER = "DG001"


def without_verdict(check: Check, loader: str, status: Status, reason: str) -> Result:
    """The result of a check that reached no verdict."""
    return Result(check.code, check.name, check.severity, loader, status, reason=reason)
