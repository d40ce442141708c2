"""DG517: tokens that are masked at random are meant to be, in evaluation too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dataguard.checks.splits.random_evaluation import unmasked
from tests.support.epochs import sample

SAMPLE = {"x": torch.rand(4), "ids": torch.arange(8), "y": 3}
X, IDS, Y = "['x']", "['ids']", "['y']"


def random_leaves(leaves: Mapping[str, Sequence[int]], masked: Sequence[frozenset[str]]) -> list[str]:
    """The leaves that are random for other reasons; `masked` are those that hold masked tokens, sample by sample."""
    readings = SimpleNamespace(
        items=tuple(range(len(masked))), forward=SimpleNamespace(passes=((sample(SAMPLE),) * len(masked),))
    )
    dataset = SimpleNamespace(readings=readings, masked_tokens=lambda _: tuple(masked))
    lab: Any = SimpleNamespace(dataset=dataset)
    return list(unmasked(lab, {path: list(indices) for path, indices in leaves.items()}))


@pytest.mark.parametrize(
    ("masked", "left"),
    [
        ([frozenset({IDS}), frozenset({IDS})], []),
        ([frozenset({IDS}), frozenset()], []),  # nothing was masked in this one
        ([frozenset(), frozenset()], [IDS]),
        ([frozenset({Y}), frozenset({IDS})], [IDS]),
    ],
)
def test_only_the_choice_of_tokens_is_random(masked: Sequence[frozenset[str]], left: list[str]) -> None:
    assert random_leaves({IDS: [0, 1]}, masked) == left


def test_samples_that_are_random_count() -> None:
    assert random_leaves({IDS: [1]}, [frozenset({Y}), frozenset({IDS})]) == []


@pytest.mark.parametrize("path", [X, Y, "['other']"])
def test_other_leaves_hold_no_tokens(path: str) -> None:
    assert random_leaves({path: [0, 1]}, [frozenset({path}), frozenset({path})]) == [path]
