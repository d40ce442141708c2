"""Hypothesis strategies for your own tests: indices and samples of a dataset, batches of a loader, loader settings.

Hypothesis draws the indices, so its seed, database and settings apply, and a failing example shrinks to the smallest
indices and the fewest samples. The global RNGs of python, numpy and torch are set to a fixed state before a sample is
read or a batch is made, and restored afterwards, so a failing example is reproducible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument
from hypothesis.strategies import SearchStrategy
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from dataguard.lab.batches.settings_strategy import loader_settings
from dataguard.lab.core.records import streamed
from dataguard.lab.rng.rng_discovery import SEED, seeded

__all__ = ["batches", "indices", "loader_settings", "samples"]

STREAM_SAMPLES = 64
"""Samples of a stream are drawn from this many first ones."""
LARGEST_BATCH = 8
"""The maximum batch size without a loader."""


def indices(dataset: Dataset[Any]) -> SearchStrategy[int]:
    """Indices from 0 to `len(dataset) - 1`, often the first and last ones; they shrink towards 0.

    Raises InvalidArgument for a dataset that is a stream, is empty, or has no length.
    """
    if isinstance(dataset, IterableDataset):
        raise InvalidArgument(
            f"{type(dataset).__name__} is an iterable-style dataset without indices: use samples() instead"
        )
    length = _length(dataset)
    if length < 1:
        raise InvalidArgument(f"{type(dataset).__name__} is empty: it has no indices")
    return st.integers(0, length - 1)


def samples(dataset: Dataset[Any]) -> SearchStrategy[Any]:
    """Samples as returned by `dataset[index]`; for a stream, samples among the first 64.

    Each sample is read again. A failing example shows its index. Raises InvalidArgument as `indices` does, except for
    streams.
    """
    return _places(dataset).map(_Reader(dataset).read)


def batches(
    source: DataLoader[Any] | Dataset[Any],
    collate_fn: Callable[[list[Any]], Any] | None = None,
    *,
    min_size: int | None = None,
    max_size: int | None = None,
) -> SearchStrategy[Any]:
    """Batches of any samples in any order, collated by `collate_fn` in this process.

    `source` is a loader, whose `collate_fn` and `batch_size` are used, or a dataset, with default_collate and batches
    of up to 8 samples. A batch has `min_size` to `max_size` distinct samples; the default minimum is 1, or a full batch
    if the loader has `drop_last`. A failing example shows its indices. Raises InvalidArgument for impossible sizes, and
    as `samples` does.
    """
    loader = source if isinstance(source, DataLoader) else None
    dataset: Dataset[Any] = loader.dataset if loader is not None else source  # type: ignore[assignment]
    collate = collate_fn or (loader.collate_fn if loader is not None else default_collate)
    full = _batch_size(loader)
    places = _places(dataset)
    there = _length(dataset) if not isinstance(dataset, IterableDataset) else STREAM_SAMPLES
    most = min(full if max_size is None else max_size, there)
    least = (most if loader is not None and loader.drop_last else 1) if min_size is None else min_size
    if not 1 <= least <= most:
        raise InvalidArgument(f"no batch has at least {least} and at most {most} of {there} samples")
    return _different(places, least, most, crowded=2 * most > there).map(_Reader(dataset, collate).batch)


def _different(places: SearchStrategy[int], least: int, most: int, *, crowded: bool) -> SearchStrategy[list[int]]:
    """Lists of distinct places. `unique=True` shrinks badly, so it is only used when there are few places."""
    if crowded:
        return st.lists(places, min_size=least, max_size=most, unique=True)
    drawn = st.lists(places, min_size=least, max_size=most).map(lambda chosen: list(dict.fromkeys(chosen)))
    return drawn.filter(lambda chosen: len(chosen) >= least)


class _Reader:
    """Reads samples and makes batches, with the global RNGs in a fixed state."""

    def __init__(self, dataset: Dataset[Any], collate: Callable[[list[Any]], Any] = default_collate) -> None:
        self.dataset = dataset
        self.collate = collate

    def read(self, index: int) -> Any:
        note(f"sample {index} of the stream" if self._streams else f"dataset[{index}]")
        return self._samples([index])[0]

    def batch(self, places: Sequence[int]) -> Any:
        note(f"samples {list(places)} of the {'stream' if self._streams else 'dataset'}")
        samples = self._samples(places)
        with seeded(SEED):
            return self.collate(samples)

    @property
    def _streams(self) -> bool:
        return isinstance(self.dataset, IterableDataset)

    def _samples(self, places: Sequence[int]) -> list[Any]:
        if isinstance(self.dataset, IterableDataset):
            with seeded(SEED):
                samples = list(islice(streamed(self.dataset), max(places) + 1))
            return [samples[index] for index in places]
        samples = []
        for index in places:
            with seeded(SEED):
                samples.append(self.dataset[index])
        return samples


def _places(dataset: Dataset[Any]) -> SearchStrategy[int]:
    """Indices, or positions among the first samples of a stream."""
    if not isinstance(dataset, IterableDataset):
        return indices(dataset)

    def available() -> SearchStrategy[int]:
        with seeded(SEED):
            count = sum(1 for _ in islice(streamed(dataset), STREAM_SAMPLES))
        if not count:
            raise InvalidArgument(f"{type(dataset).__name__} is a stream that yields nothing")
        return st.integers(0, count - 1)

    return st.deferred(available)


def _length(dataset: Any) -> int:
    try:
        return len(dataset)
    except TypeError as error:
        raise InvalidArgument(f"{type(dataset).__name__} has no length, so its indices are unknown") from error


def _batch_size(loader: DataLoader[Any] | None) -> int:
    if loader is None:
        return LARGEST_BATCH
    if loader.batch_sampler is None:
        raise InvalidArgument("automatic batching is off (batch_size=None): there are no batches to draw")
    return loader.batch_size or getattr(loader.batch_sampler, "batch_size", None) or LARGEST_BATCH
