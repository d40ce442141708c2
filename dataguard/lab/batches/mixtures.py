"""How much of a sample collate_fn mixes into each row of a batch, and how much of it the targets say.

A batch holds one sample whose input is all ones, and copies of another one whose input is all zeros: the mean of a row
is the share of the first.

Also which generators are drawn from when samples are read, and which leaves of a batch depend on those that collate_fn
draws from.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dataguard.core.model import Undecided
from dataguard.lab.batches.collate_trials import CollateInputs, Refused, duplicate
from dataguard.lab.core.leaves import array_of, iter_leaves, leaves_of
from dataguard.lab.core.records import GeneratorState, Index, Numbers
from dataguard.lab.labels.declared_labels import masked_tokens
from dataguard.lab.reading.epoch_trace import EpochTrace
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rng.rng_discovery import generator_states
from dataguard.targets.variants import Loader

BATCH_ROWS = 8
"""The rows of a batch, and the samples of a stream among which two have different labels."""
MIXED_BATCHES = 32
"""How many batches are mixed: each draws its own share."""
ROUNDING = 1e-3
"""Differences below this are those of rounding."""
MOST_UNEVEN = 1e-2
"""By how much the sum of soft targets in half precision may differ from 1."""
LEAST_MIXED = 0.02
"""The least share of either sample in a row that counts as mixed."""
LEAST_UNSMOOTHED = 0.1
"""The least difference between the weights of both classes where one sample is alone."""
FEWEST_INPUT_VALUES = 16
"""The fewest values of an input."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """The share of a sample in each mixed row and its weight in the targets, of those that agree best.

    `pixel` is the share that rounding the edges of a box by a pixel may change; `leaves` are the input, and the first
    leaf of the targets.
    """

    targets: str
    rows: tuple[tuple[float, float], ...]
    pixel: float
    leaves: tuple[str, str] = ("", "")

    @property
    def error(self) -> float:
        """The median difference between share and weight in the worse half of the rows."""
        differences = sorted(abs(share - weight) for share, weight in self.rows)
        return statistics.median(differences[len(differences) // 2 :]) if differences else 0.0

    @property
    def worst(self) -> tuple[float, float]:
        """The share and the weight that differ most."""
        return max(self.rows, key=lambda row: abs(row[0] - row[1]))


def contrasted(epoch: EpochTrace) -> tuple[Index, Index] | None:
    """The indices of two samples with different labels, if batches have targets that may be mixed.

    They are None for a stream.
    """
    batches = [summary.numbers for summary in epoch.value_summaries if summary.position is None]
    if not may_be_mixed(batches):
        return None
    indices_by_label: dict[str, dict[tuple[float, ...], Index]] = defaultdict(dict)
    for sample in epoch.value_summaries:
        for leaf in sample.numbers if sample.position is not None else ():
            if leaf.whole and len(leaf.shape) < 2:
                indices_by_label[leaf.path].setdefault(leaf.values, sample.index)
    differing = [tuple(indices.values())[:2] for indices in indices_by_label.values() if len(indices) > 1]
    return (differing[0][0], differing[0][1]) if differing else None


def _soft_targets(batches: Sequence[Sequence[Numbers]]) -> set[str]:
    """The paths of weights of classes, that sum to 1 in each row of each batch, and are not all 0 or 1."""
    tables = [leaf for numbers in batches for leaf in numbers if leaf.is_float and leaf.rows]
    uneven = {leaf.path for leaf in tables if leaf.low < 0 or any(abs(row.sum - 1) > MOST_UNEVEN for row in leaf.rows)}
    return {leaf.path for leaf in tables if not leaf.whole} - uneven


def may_be_mixed(batches: Sequence[Sequence[Numbers]]) -> bool:
    """Whether batches have targets that may be mixed: weights of classes, or two labels and a weight."""
    return any(map(_has_weight, batches)) or bool(_soft_targets(batches))


def _has_weight(numbers: Sequence[Numbers]) -> bool:
    """Whether a batch has two leaves of integers, and a fraction, or one for each row, that may be their weight."""
    classes = [leaf for leaf in numbers if leaf.whole and not leaf.is_float and len(leaf.shape) == 1]
    sizes = {1, *(leaf.size for leaf in classes)}
    fractions = (leaf for leaf in numbers if len(leaf.shape) < 2 and not leaf.whole)
    return len(classes) > 1 and any(leaf.size in sizes and 0 <= leaf.low <= leaf.high <= 1 for leaf in fractions)


def find_mixture(loader: Loader, folder: Path, indices: Sequence[Index]) -> Mixture | None:
    """Mix constant samples repeatedly; None if nothing is mixed, or if collate_fn does more than that to its inputs."""
    inputs = CollateInputs(loader, folder, indices, frozen=False)
    inputs.fill(len(indices))
    try:
        return _observe_mixture(inputs)
    except Refused as refused:
        raise Undecided(f"collate_fn refuses a batch of {BATCH_ROWS}: {refused.__cause__}") from refused


def _observe_mixture(inputs: CollateInputs) -> Mixture | None:
    first_sample, path = inputs.samples[0], _input_of(inputs.samples[0])
    other = next((sample for sample in inputs.samples if _classes(first_sample, sample)), None)
    if other is None or path is None:
        return None
    classes = _classes(first_sample, other)
    ones, zeros = _constant(first_sample, path, largest=True), _constant(other, path, largest=False)
    low, high, again = (
        _arrays(inputs, [sample] * BATCH_ROWS) for sample in (zeros, _constant(other, path, largest=True), zeros)
    )
    even = [name for name in low if name in high and _is_even(low[name], high[name], again.get(name))]
    shares: dict[str, list[float]] = defaultdict(list)
    weights_of_targets: dict[tuple[str, tuple[int, int]], list[tuple[float, float]]] = defaultdict(list)
    for draw in range(MIXED_BATCHES):
        mixed = _arrays(inputs, [ones if row == draw % BATCH_ROWS else zeros for row in range(BATCH_ROWS)])
        for name in even:
            part = (mixed[name] - low[name]) / (high[name] - low[name])
            shares[name] += part.reshape(BATCH_ROWS, -1).mean(1).tolist()
        for target, rows in _target_weights(mixed, classes):
            weights_of_targets[target] += rows
    pixel = {name: 2 / min(low[name].shape[-2:]) if low[name].ndim > 2 else 0.0 for name in even}
    mixtures = [
        replace(mixture, leaves=(name, target.removeprefix("batch").partition(" and ")[0]))
        for name in even
        for (target, _), rows in weights_of_targets.items()
        if len(rows) == len(shares[name]) and (mixture := _mixture(target, shares[name], rows, pixel[name]))
    ]
    return min(mixtures, key=lambda mixture: mixture.error, default=None)


def _arrays(inputs: CollateInputs, samples: Sequence[Any]) -> dict[str, np.ndarray]:
    """The numbers in a batch of copies of these samples."""
    batch = inputs.collate_these([duplicate(sample) for sample in samples])
    held = (torch.Tensor, np.ndarray, float)
    return {name: array_of(leaf).astype(np.float64) for name, leaf in iter_leaves(batch) if isinstance(leaf, held)}


def _is_even(low: np.ndarray, high: np.ndarray, again: np.ndarray | None) -> bool:
    """Whether a leaf has an input in each row, that is the same however often, and all of it follows the input."""
    if again is None or not low.shape == high.shape == again.shape or low.ndim < 2 or len(low) != BATCH_ROWS:
        return False
    span = high - low
    return bool((span > ROUNDING).all() and np.abs(again - low).max() < ROUNDING * span.max())


def _input_of(sample: Any) -> str | None:
    """The path of the largest array of a sample whose values can be replaced."""
    arrays = {path: leaf for path, leaf in iter_leaves(sample) if isinstance(leaf, torch.Tensor | np.ndarray)}
    inputs = {
        path: leaf for path, leaf in arrays.items() if _range_of(leaf) and math.prod(leaf.shape) >= FEWEST_INPUT_VALUES
    }
    return max(inputs, key=lambda path: math.prod(inputs[path].shape), default=None)


def _range_of(leaf: Any) -> float:
    """The largest value that an input of this type has: 1 of floats, 255 of bytes."""
    name = str(leaf.dtype)
    return 1.0 if "float" in name else 255.0 if "uint8" in name else 0.0


def _constant(sample: Any, path: str, *, largest: bool) -> Any:
    """A copy of a sample whose input has one value."""
    made = duplicate(sample)
    leaf = next(leaf for step, leaf in iter_leaves(made) if step == path)
    leaf[...] = _range_of(leaf) if largest else 0.0
    return made


def _classes(first_sample: Any, other: Any) -> set[tuple[int, int]]:
    """The classes of two samples, by each of their leaves that may be a label: an index, or a row of weights."""
    both = [dict(iter_leaves(sample)) for sample in (first_sample, other)]
    pairs = {(_class_of(leaf), _class_of(both[1].get(path))) for path, leaf in both[0].items()}
    return {(first, second) for first, second in pairs if None not in (first, second) and first != second}  # type: ignore[misc]


def _class_of(leaf: Any) -> int | None:
    if not isinstance(leaf, int | torch.Tensor | np.ndarray | np.generic):
        return None
    array = array_of(leaf)
    if not array.ndim:
        return int(array) if array.dtype.kind in "iu" else None
    return int(array.argmax()) if array.ndim == 1 and array.max() == array.sum() > 0 == array.min() else None


def _target_weights(
    arrays: Mapping[str, np.ndarray], classes: set[tuple[int, int]]
) -> Iterator[tuple[tuple[str, tuple[int, int]], list[tuple[float, float]]]]:
    """The weights of both classes in each row of targets, by the targets' name and the classes.

    Targets are soft, or two labels and the weight of either.
    """
    labels = {
        name: array for name, array in arrays.items() if array.shape == (BATCH_ROWS,) and (array == array.round()).all()
    }
    weights = {
        name: np.broadcast_to(array.reshape(-1), BATCH_ROWS)
        for name, array in arrays.items()
        if array.size in (1, BATCH_ROWS) and array.min() >= 0 and array.max() <= 1
    }
    for pair in classes:
        for name, array in arrays.items():
            if array.ndim == 2 and len(array) == BATCH_ROWS and max(pair) < array.shape[1]:
                yield (f"batch{name}", pair), [(float(row[pair[0]]), float(row[pair[1]])) for row in array]
        for (first_name, first), (second_name, second) in permutations(labels.items(), 2):
            for name, weight in weights.items():
                shares = [
                    tuple(float(part * (a == of) + (1 - part) * (b == of)) for of in pair)
                    for a, b, part in zip(first, second, weight, strict=True)
                ]
                yield (f"batch{first_name} and batch{second_name}, weighted by batch{name}", pair), shares  # type: ignore[misc]


def _mixture(
    targets: str, shares: Sequence[float], rows: Sequence[tuple[float, float]], pixel: float
) -> Mixture | None:
    """The rows that are mixed; label smoothing is taken off the targets, as rows show it that hold one sample only."""
    pure = [row for share, row in zip(shares, rows, strict=True) if abs(share) < ROUNDING]
    if not pure:
        return None
    off, on = (statistics.median(row[column] for row in pure) for column in (0, 1))
    if on - off < LEAST_UNSMOOTHED:
        return None
    pairs = [(share, (row[0] - off) / (on - off)) for share, row in zip(shares, rows, strict=True)]
    mixed = [pair for pair in pairs if any(LEAST_MIXED < share < 1 - LEAST_MIXED for share in pair)]
    soft = any(LEAST_MIXED < weight < 1 - LEAST_MIXED for _, weight in mixed)
    return Mixture(targets, tuple(mixed), pixel) if soft else None


DRAWING_READS = 8
"""Samples that are read to see which generators advance; an augmentation may not apply to each."""


def find_drawn_generators(loader: Loader, folder: Path, indices: Sequence[Index]) -> tuple[GeneratorState, ...]:
    """The generators whose state changed after reading some samples, in their earlier state."""
    reader = Reader(loader, folder)
    reader.read(indices[0])  # creates generators that are made lazily
    roots = {"dataset": loader.dataset}
    before = {state.path: state for _, state in generator_states(roots)}
    for index in indices:
        reader.read_as_is(index)
    after = [state for _, state in generator_states(roots)]
    return tuple(state for state in after if state.path in before and before[state.path].state != state.state)


def find_masked_tokens(loader: Loader, folder: Path, indices: Sequence[Index]) -> tuple[frozenset[str], ...]:
    """For each sample, the leaves that differ between two random states only in which tokens are masked."""
    reader = Reader(loader, folder)
    return tuple(masked_tokens(reader.read(index, 0), reader.read(index, 1)) for index in indices)


@dataclass(frozen=True, slots=True)
class RandomLeaves:
    """The leaves of a batch that depend on the RNG inside collate_fn, for unchanged samples.

    Those that differ only in which tokens are `masked` are listed apart from all `others`.
    """

    others: tuple[str, ...] = ()
    masked: tuple[str, ...] = ()


def find_random_leaves(loader: Loader, folder: Path, indices: Sequence[Index]) -> RandomLeaves:
    """Collate the same samples under equal and different random states."""
    inputs = CollateInputs(loader, folder, indices)
    inputs.fill(len(inputs.indices))
    order = range(len(inputs.samples))
    try:
        batches = [inputs.collate(order, seed) for seed in (0, 0, 1)]
    except Refused as refused:
        raise Undecided(f"collate_fn accepts a whole batch, but no part of it: {refused.__cause__}") from refused
    first, again, other = map(leaves_of, batches)
    masked = masked_tokens(batches[0], batches[2])
    steady = {leaf.path: leaf.digest for leaf in first if leaf in again}
    changed = [leaf.path for leaf in other if steady.get(leaf.path, leaf.digest) != leaf.digest]
    return RandomLeaves(
        tuple(path for path in changed if path not in masked), tuple(path for path in changed if path in masked)
    )
