"""What counts as a row that depends on its neighbours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from dataguard.lab.batches.collate_trials import CollateInputs
from dataguard.lab.batches.neighbours import NeighbourEffect, find_neighbour_effects

ROWS = [(torch.arange(12.0) * (number + 2)) ** 1.5 % 7 * (number + 1) for number in range(4)]
SEQUENCES = [(torch.arange(3 + 2 * number) * 5 + number) % 17 + 1 for number in range(4)]


def effects(samples: list[Tensor], collate: Callable[[list[Tensor]], Any], folder: Path) -> tuple[NeighbourEffect, ...]:
    loader: DataLoader[Any] = DataLoader(samples, batch_size=4, collate_fn=collate)  # type: ignore[arg-type]
    inputs = CollateInputs(loader, folder, range(4))
    inputs.fill(4)
    return find_neighbour_effects(inputs)


def softmax_of_batch(rows: list[Tensor]) -> Tensor:
    whole = torch.stack(rows)
    return (whole - whole.mean()) / (whole.std() + 1)


def distances(rows: list[Tensor]) -> Any:
    whole = torch.stack(rows)
    return {"x": whole, "distances": torch.cdist(whole, whole)}


def noisy(rows: list[Tensor]) -> Tensor:
    return torch.stack(rows) * torch.rand(())


def refusing_one(rows: list[Tensor]) -> Tensor:
    if len(rows) < 2:
        raise ValueError("too few")
    return torch.stack([row[: min(map(len, rows))] for row in rows])


@pytest.mark.parametrize(
    ("samples", "collate", "leaves"),
    [
        (ROWS, torch.stack, []),
        (ROWS, softmax_of_batch, [""]),
        (ROWS, lambda rows: torch.stack(rows) / torch.stack(rows).amax(), [""]),
        (ROWS, lambda rows: torch.stack([row / row.amax() for row in rows]), []),
        (ROWS, lambda rows: torch.stack(rows) + torch.stack(rows).flip(0), []),
        (ROWS, lambda rows: {"x": torch.stack(rows), "other": torch.stack(rows).roll(1, 0)}, []),
        (ROWS, distances, []),
        (ROWS, noisy, []),
        (ROWS, lambda rows: torch.stack(rows) - torch.stack(rows).mean(0), [""]),
        (ROWS, lambda rows: list(torch.stack(rows) / torch.stack(rows).amax()), ["[*]"]),
        (ROWS, lambda rows: torch.stack(rows)[:, :6] - torch.stack(rows)[:, :6].amin(), []),
        (SEQUENCES, pad_sequence, []),
        (SEQUENCES, lambda rows: pad_sequence(rows, batch_first=True), []),
        (SEQUENCES, lambda rows: pad_sequence(rows, batch_first=True)[:, : len(rows[0])], [""]),
        (SEQUENCES, lambda rows: torch.stack([row[: min(map(len, rows))] for row in rows]), [""]),
        (SEQUENCES, refusing_one, [""]),
        (SEQUENCES, lambda rows: torch.stack([row[:3] for row in rows]), []),
        (SEQUENCES, lambda rows: torch.cat(rows), []),
        (SEQUENCES, lambda rows: sorted(rows, key=len), []),
    ],
)
def test_a_row_may_only_be_padded(samples: list[Tensor], collate: Any, leaves: list[str], tmp_path: Path) -> None:
    assert [effect.leaf for effect in effects(samples, collate, tmp_path)] == leaves


def test_an_effect_says_what_is_left_of_a_row(tmp_path: Path) -> None:
    (effect,) = effects(SEQUENCES, refusing_one, tmp_path)
    assert (effect.sample, effect.neighbours, effect.cut) == (3, (0,), (3, 9))
