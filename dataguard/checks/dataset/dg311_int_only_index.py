"""DG311: a dataset that takes no index but a plain int."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.drift import unsteady
from dataguard.core.model import Coverage, Finding, Judgement, NotTested, Severity

if TYPE_CHECKING:
    from dataguard.lab.dataset.index_semantics import TypedIndex
    from dataguard.lab.lab import Lab


@check("DG311", "int-only-index", Severity.NOTE)
def dg311_int_only_index(lab: Lab) -> Judgement:
    """A numpy integer or 0-d tensor as index raises, or returns another sample than the equal int.

    Symptom: KeyError or TypeError, or silently other samples, once a sampler yields the elements of `torch.randperm(n)`
        or `numpy.random.permutation(n)` unconverted.
    Cause: the index is looked up in a dict or set, where a tensor is never found, or its type is checked.
    Fix: `index = int(index)` at the top of `__getitem__`.
    Links: https://docs.python.org/3/library/operator.html#operator.index
    """
    semantics = lab.dataset.semantics
    if semantics.last.incident:
        raise NotTested(f"the last sample cannot be read: {semantics.last.incident.headline}")
    other = [typed for typed in semantics.typed if typed.incident or set(typed.unlike) - unsteady(lab)]
    wrong = [typed for typed in other if _is_looked_up(typed)]
    note = f"dataset[{other[0].expression}] {_outcome(other[0])}" if other and not wrong else None
    if wrong and lab.dataset.user_defined:
        first = next((typed for typed in wrong if not typed.incident), wrong[0])
        yield Finding(
            message=f"dataset[{first.expression}] {_outcome(first)}",
            evidence={f"dataset[{typed.expression}]": _outcome(typed) for typed in wrong},
            at=first.incident.location if first.incident else lab.dataset.location,
            repro=lab.repro.samples(first.index, first.expression),
        )
    return Coverage({"reads": len(semantics.typed)}, note)


def _is_looked_up(typed: TypedIndex) -> bool:
    """Whether the dataset returns another sample, does not find one, or rejects the type itself.

    What it passes the index to, such as the seed of a generator, may reject a type that no sampler of torch yields.
    """
    incident = typed.incident
    if incident is None or "LookupError" in incident.error_bases:
        return True
    return incident.own_frame is not None and incident.own_frame.code.strip().startswith(("raise ", "assert "))


def _outcome(typed: TypedIndex) -> str:
    return f"raises {typed.incident.headline}" if typed.incident else f"differs from dataset[{typed.index}]"
