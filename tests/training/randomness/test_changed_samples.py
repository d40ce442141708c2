"""DG307 live: samples that grow or fade as the dataset changes its stored data, and what only looks so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from dataguard.training.guard import guard
from tests.support.training_loops import Items, codes, train

EPOCHS = 6


def stored(change: Callable[[Tensor], Any], **attributes: Any) -> Items:
    """Samples of stored images, after `change` has worked on each."""
    images = torch.rand(40, 3, 4, 4, generator=torch.Generator().manual_seed(0))

    def item(index: int) -> tuple[Tensor, int]:
        image = images[index]
        changed = change(image)
        return (image if changed is None else changed).clone(), index % 4

    return Items(item, **attributes)


def normalized(image: Tensor) -> None:
    image.sub_(0.5).div_(0.25)


def scaled(image: Tensor) -> None:
    image.div_(255)


def jittered(image: Tensor) -> Tensor:
    return image * torch.empty(()).uniform_(0.05, 20)


def found(dataset: Items, epochs: int = EPOCHS, **settings: Any) -> bool:
    return "DG307" in codes(DataLoader(dataset, batch_size=8, shuffle=True, **settings), epochs)


@pytest.mark.parametrize("change", [normalized, scaled])
def test_stored_data_that_change_are_found(change: Callable[[Tensor], Any]) -> None:
    assert found(stored(change))


@pytest.mark.scan
def test_workers_that_stay_keep_what_they_change() -> None:
    assert found(stored(normalized), num_workers=1, persistent_workers=True)
    assert not found(stored(normalized), num_workers=2)  # new workers start over with the stored data


@pytest.mark.parametrize(
    "change",
    [
        jittered,
        lambda image: (image - 0.5) / 0.25,
        lambda image: image + 100 * torch.randn(3, 4, 4),
        lambda image: image.mul_(1.01),
        lambda image: torch.full_like(image, float(torch.rand(()))),
    ],
    ids=["contrast", "normalized anew", "noise", "slowly", "one colour"],
)
def test_what_varies_or_stays_is_not(change: Callable[[Tensor], Any]) -> None:
    assert not found(stored(change))


def test_fewer_epochs_decide_nothing() -> None:
    dataset = stored(normalized)
    assert not found(dataset, 3)
    assert not found(stored(normalized, set_epoch=lambda epoch: None))


def test_the_finding_has_the_deviation_and_the_fix() -> None:
    loader = DataLoader(stored(normalized), batch_size=8, shuffle=True)
    train(guard(loader, on_violation="record"), EPOCHS)
    (result,) = [one for one in guard.report(loader).failed if one.code == "DG307"]
    (finding,) = result.findings
    assert finding.message == "batch[0] grows from epoch to epoch: reading a sample changes the stored data"
    assert next(iter(finding.evidence)) == "fix here"
    assert any("after 4 epochs" in str(value) for value in finding.evidence.values())
