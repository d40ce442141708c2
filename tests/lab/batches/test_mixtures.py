"""The share of a sample in mixed rows, and its weight in the targets, of collate functions that others wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, default_collate

from dataguard.core.model import Undecided
from dataguard.lab.batches.mixtures import Mixture, contrasted, find_mixture
from dataguard.lab.core.records import Numbers, Row, ValueSummary


class Samples(Dataset[Any]):
    """Two samples of other classes, as `made` gives them."""

    def __init__(self, made: Callable[[int], Any]) -> None:
        self.made = made

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Any:
        return self.made(index)


def picture(index: int) -> Any:
    return torch.rand(3, 16, 16), index


def vector(index: int) -> Any:
    return torch.rand(24), torch.eye(3)[index]


def found(made: Callable[[int], Any], collate: Callable[[Any], Any], folder: Path) -> Mixture | None:
    loader: DataLoader[Any] = DataLoader(Samples(made), batch_size=2, collate_fn=collate)
    return find_mixture(loader, folder, (0, 1))


def mixed(share: float, told: float) -> Callable[[Any], Any]:
    """MixUp of inputs by one share, and of soft targets by another."""

    def collate(samples: Any) -> Any:
        x, y = default_collate(samples)
        y = y if y.ndim == 2 else torch.nn.functional.one_hot(y, 5).float()
        return x.lerp(x.flip(0), 1 - share), y.lerp(y.flip(0), 1 - told)

    return collate


@pytest.mark.parametrize("made", [picture, vector])
@pytest.mark.parametrize(("share", "told"), [(0.7, 0.7), (0.7, 0.6), (0.3, 0.7)])
def test_the_difference_is_measured(made: Callable[[int], Any], share: float, told: float, tmp_path: Path) -> None:
    mixture = found(made, mixed(share, told), tmp_path)
    assert mixture is not None
    assert mixture.error == pytest.approx(abs(share - told), abs=1e-4)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("mode", ["batch", "elem", "pair"])
def test_timm_gives_the_right_weights(mode: str, smoothing: float, tmp_path: Path) -> None:
    mixup = pytest.importorskip("timm.data.mixup")
    collate = mixup.FastCollateMixup(0.8, 1.0, mode=mode, label_smoothing=smoothing, num_classes=4)
    mixture = found(lambda index: (np.zeros((3, 32, 32), np.uint8), index), collate, tmp_path)
    assert mixture is not None
    assert mixture.error < 0.005


@pytest.mark.parametrize("mistaken", [False, True])
def test_each_row_may_have_a_weight_of_its_own(mistaken: bool, tmp_path: Path) -> None:
    def collate(samples: Any) -> Any:
        x, y = default_collate(samples)
        share = torch.rand(len(x))
        both = share.view(-1, *[1] * (x.ndim - 1))
        return x * both + x.flip(0) * (1 - both), y, y.flip(0), share.flip(0) if mistaken else share

    mixture = found(picture, collate, tmp_path)
    assert mixture is not None
    assert (mixture.error > 0.1) is mistaken


def erased(samples: Any) -> Any:
    """MixUp, and a part of each image that becomes noise."""
    x, y = mixed(0.7, 0.7)(samples)
    x[:, :, :4] = torch.rand(())
    return x, y


def test_inputs_that_are_changed_in_other_ways_are_left_alone(tmp_path: Path) -> None:
    assert found(picture, erased, tmp_path) is None
    assert found(picture, default_collate, tmp_path) is None
    assert found(lambda _: picture(0), mixed(0.7, 0.5), tmp_path) is None, "both have one label"


def test_a_refused_batch_is_undecided(tmp_path: Path) -> None:
    def refusing(samples: Any) -> Any:
        raise ValueError(f"{len(samples)} samples")

    with pytest.raises(Undecided, match="refuses a batch of 8: 8 samples"):
        found(picture, refusing, tmp_path)


def targets(*sums: float, whole: bool = False) -> Numbers:
    """A table of soft targets, with rows of these sums."""
    rows = tuple(Row(each, 0.7, each - 0.7, 0.0) for each in sums)
    return Numbers("[1]", "float32", (len(sums), 3), 0.0, 0.7, whole, rows=rows)


@pytest.mark.parametrize(
    ("batch", "chosen"),
    [
        ([targets(1.0, 1.001)], (4, 6)),
        ([targets(1.0, 1.3)], None),
        ([targets(1.0, 1.0, whole=True)], None),
        ([Numbers("[1]", "int64", (8,), 0, 4, True), Numbers("[2]", "int64", (8,), 0, 4, True)], None),
        (
            [
                Numbers("[1]", "int64", (8,), 0, 4, True),
                Numbers("[2]", "int64", (8,), 0, 4, True),
                Numbers("[3]", "float64", (), 0.3, 0.3, False),
            ],
            (4, 6),
        ),
    ],
)
def test_two_samples_are_chosen_if_targets_may_be_mixed(batch: list[Numbers], chosen: Any) -> None:
    labels = {4: 2, 5: 2, 6: 0, 7: 1}
    summaries = [ValueSummary(None, 0, None, None, tuple(batch))]
    for place, (index, label) in enumerate(labels.items()):
        number = Numbers("[1]", "int64", (), label, label, True, values=(float(label),))
        summaries.append(ValueSummary(None, 0, place, index, (number,)))
    assert contrasted(SimpleNamespace(value_summaries=summaries)) == chosen  # type: ignore[arg-type]
