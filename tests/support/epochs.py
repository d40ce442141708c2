"""Labs of samples that a test writes down: an epoch in one process, as the instruments record it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from torch.utils.data import default_collate

from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.records import BatchRecord, SampleRecord, ValueSummary
from dataguard.lab.spy.recording import numbers_of
from dataguard.lab.subject import Repro


def sample(value: Any, index: int = 0, batch: int = 0, position: int = 0) -> SampleRecord:
    """The record of one sample."""
    return SampleRecord(None, 0, batch, position, index, str(index), 0.0, leaves_of(value))


def epoch(samples: Sequence[Any], size: int = 8, collate: Callable[[list[Any]], Any] = default_collate) -> Any:
    """An epoch of these samples in batches of this size."""
    records, batches, summaries = [], [], []
    for number in range(0, len(samples), size):
        given = list(samples[number : number + size])
        place = number // size
        for position, one in enumerate(given):
            records.append(sample(one, number + position, place, position))
            summaries.append(ValueSummary(None, place, position, number + position, tuple(numbers_of(one))))
        batch = collate(given)
        summaries.append(ValueSummary(None, place, None, None, tuple(numbers_of(batch, rows=True))))
        indices = tuple(range(number, number + len(given)))
        batches.append(BatchRecord(None, 0, place, len(given), indices, 0.0, 0.0, leaves_of(batch), 0))
    return SimpleNamespace(
        samples=records,
        batches=batches,
        value_summaries=summaries,
        read=len(records),
        exercised={"samples": len(records)},
    )


def lab(
    samples: Sequence[Any],
    contract: Mapping[str, Any] | None = None,
    *,
    size: int = 8,
    collate: Callable[[list[Any]], Any] = default_collate,
    **dataset: Any,
) -> Any:
    """A lab of a map-style loader with these samples; `dataset` is what was observed of the dataset."""
    return SimpleNamespace(
        epoch=epoch(samples, size, collate),
        settings=SimpleNamespace(contract=contract or {}),
        facts=SimpleNamespace(kind="map", batched=True, collate="default_collate"),
        dataset=SimpleNamespace(
            **{"location": None, "class_names": (), "numberings": (), "table": lambda _: None, **dataset}
        ),
        places=SimpleNamespace(value=lambda *_: None, departure=lambda *_: None, dataset=None),
        batches=SimpleNamespace(lines=SimpleNamespace(of_row=lambda *_: None)),
        repro=Repro("pkg:make", "make"),
    )
