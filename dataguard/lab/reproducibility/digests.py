"""The digests of a loader's dataset and first batches, stage by stage, for a fingerprint."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

from dataguard.fingerprint import Part
from dataguard.lab.core.index_schedules import evenly
from dataguard.lab.core.loader_facts import length_of
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.reproducibility.seeded_run import Digests, Run
from dataguard.targets.variants import Loader

SAMPLES = 16
"""Samples of the dataset that are read by index."""


def dataset_parts(build: Callable[..., Loader], folder: Path) -> tuple[Part, ...]:
    """Some samples of a map-style dataset, evenly spaced, each read with the same seeds."""
    loader = build(num_workers=0)
    reader = Reader(loader, folder)
    length = length_of(loader.dataset) or 0
    answers = (reader.ask(index) for index in evenly(range(length), SAMPLES))
    found = [Part("dataset", f"sample {one.index}", _hex(one.digests)) for one in answers if not one.incident]
    return (Part("dataset", "length", {"": str(length)}), *found)


def run_parts(run: Run) -> Iterator[Part]:
    """The order of indices of each epoch, then of each batch its samples and what collate_fn made of them."""
    for epoch, order in enumerate(run.orders):
        yield Part("order of indices", f"epoch {epoch}", {"": _digest_of(order)})
    for batch in run.batches:
        where = f"batch {batch.number} of epoch {batch.epoch}"
        for position, sample in enumerate(batch.samples):
            yield Part("samples", f"row {position} of {where}", _hex(sample))
        yield Part("collate_fn", where, _hex(batch.leaves))


def _digest_of(order: object) -> str:
    return hashlib.blake2b(repr(order).encode(), digest_size=8).hexdigest()


def _hex(digests: Digests) -> dict[str, str]:
    return {path: digest.hex() for path, digest in digests.items()}
