"""DG205: len(loader) is not the number of batches that the loader yields."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, Undecided, without_empty
from dataguard.machine.units import counted

if TYPE_CHECKING:
    from dataguard.lab.core.loader_facts import LoaderFacts
    from dataguard.lab.lab import Lab


@check("DG205", "wrong-stream-length", Severity.WARNING)
def dg205_wrong_stream_length(lab: Lab) -> Judgement:
    """len(loader) differs from the number of batches that the loader yields.

    Symptom: learning rate schedules end too early or too late; progress bars stop short of the end or run past it; an
        epoch of `len(loader)` steps misses samples.
    Cause: `__len__` of a stream or sampler does not count what `__iter__` yields, but the samples of all ranks or of
        every worker, or those before a filter; or a wrapper around the loader ends before its last batch. torch does
        not compare the two.
    Fix: make `__len__` return the number of samples that `__iter__` yields on this rank, or remove it.
    Links: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader
    """
    facts = lab.facts
    if facts.batches is None:
        raise NotApplicable("len(loader) is not defined")
    epochs = []
    for where, planned, yielded, ended, samples in _counts(lab):
        epochs.append(yielded)
        if planned is None or planned == yielded or _worker_tails(facts, planned, yielded, samples, ended):
            continue
        if not ended and yielded <= planned:
            raise Undecided(
                f"only {yielded} of {planned} batches of the stream were read: use --all to read it to the end"
            )
        at_least = "" if ended else "at least "
        yield Finding(
            message=f"len(loader) is {planned:,}{where}, but it yields {at_least}{counted(yielded, 'batches')}",
            evidence=without_empty(
                {
                    "fix here": _fix(facts, samples if ended else None),
                    "len(dataset)": facts.length,
                    "samples": samples,
                    "batch_size": facts.batch_size,
                    "drop_last": "yes" if facts.drop_last else None,
                    "workers": facts.num_workers,
                }
            ),
            at=lab.places.length() or facts.made_at,
        )
        return Coverage({"batches": sum(epochs)})
    held = lab.streams.wrapped if facts.holder else None
    if held is not None and held.ended and held.planned not in (None, held.batches):
        yield Finding(
            message=f"len({held.name}) is {held.planned:,}, but it yields {counted(held.batches, 'batches')}",
            evidence=without_empty(
                {
                    "fix here": "yield every batch that is fetched, the last one too"
                    if held.batches < (held.planned or 0)
                    else "return the number of batches that one epoch yields",
                    "len(loader)": facts.batches,
                    "len(dataset)": facts.length,
                }
            ),
            at=lab.streams.wrapper_end(held.batches) or facts.made_at,
        )
    return Coverage({"batches": sum(epochs)})


def _fix(facts: LoaderFacts, samples: int | None) -> str | None:
    """What `__len__` is to return."""
    if samples is None or facts.kind != "stream":
        return "return the number of batches that one epoch yields" if facts.kind != "stream" else None
    return f"return the number of samples that all workers yield in one epoch, {samples:,}, or remove __len__"


def _counts(lab: Lab) -> Iterator[tuple[str, int | None, int, bool, int | None]]:
    """Of the loader, and of each rank: where, the batches planned and yielded, whether it ended, and its samples.

    The number of samples is None where not all were looked at.
    """
    facts = lab.facts
    if facts.kind == "stream":
        observe = partial(lab.streams.stream, facts.num_workers, seeded=False)
        trace = observe() if observe().ended else observe(count=True)
        samples = trace.total if trace.ended else None
        yield "", facts.batches, trace.batches[0] if trace.batches else 0, trace.finished, samples
    else:
        orders = lab.streams.orders
        if facts.own_iter:
            raise NotApplicable("the loader's own __iter__ determines the number of batches")
        if not orders.whole:
            raise NotApplicable("the sampler is infinite: the training loop or the loader ends each epoch")
        yield "", facts.batches, orders.batches[0], True, len(orders.epochs[0])
    if lab.ranks.declared:
        for number, share in enumerate(lab.ranks.shards().ranks):
            samples = share.total if share.ended else None
            yield f" on rank {number}", share.planned, share.batches, share.finished, samples


def _worker_tails(facts: LoaderFacts, planned: int, yielded: int, samples: int | None, ended: bool) -> bool:
    """Whether each worker of a stream has a last batch of its own, which torch's `len` ignores."""
    if facts.kind == "map" or not ended or abs(planned - yielded) >= facts.num_workers:
        return False
    return facts.drop_last or samples is None or planned == -(-samples // (facts.batch_size or 1))
