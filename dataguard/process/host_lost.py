"""The loss of the observing process, as an exception and as results of checks. Standard library only."""

from __future__ import annotations

from dataguard.model import Check, DataguardError, Finding, Result, Status

_DEATHS = "DG002"
"""The check that reports a signal which killed the observing process: the processes of the loader are its forks."""


class HostLost(DataguardError):
    """The observing process ended or stopped answering; `signal` is what killed it, if so."""

    def __init__(self, message: str, signal: str | None = None) -> None:
        super().__init__(message)
        self.signal = signal


def result_of(check: Check, loader: str, lost: Exception, *, building: bool) -> Result:
    """The result of a check during which the observing process was lost, while `building` the loader or afterwards."""
    signal = getattr(lost, "signal", None)
    if signal is None or check.code != _DEATHS:
        reason = f"{lost}; it is restarted for the next check"
        return without_verdict(check, loader, Status.INCONCLUSIVE, reason)
    finding = Finding(
        f"{lost} while {'calling the factory' if building else 'the loader ran in forks of it'}",
        {"signal": signal, "likely cause": "a limit of memory, or code that kills other processes"},
    )
    return Result(check.code, check.name, check.severity, loader, Status.FAILED, (finding,))


def without_verdict(check: Check, loader: str, status: Status, reason: str) -> Result:
    """The result of a check that reached no verdict."""
    return Result(check.code, check.name, check.severity, loader, status, reason=reason)
