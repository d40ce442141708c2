"""Padding whose lengths a batch contains, and padding without lengths."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, default_collate

from dataguard.lab.batches.collate_observations import observe_collate
from dataguard.lab.batches.collate_trials import REREAD
from dataguard.lab.batches.padding import Padding

LENGTHS = (4, 7, 5, 6, 4, 9)
Samples = list[Tensor]


def wave(number: int) -> Tensor:
    """Measurements around zero."""
    return torch.sin(torch.arange(LENGTHS[number]) * 0.7 + number)[:, None].expand(-1, 2).contiguous()


def words(number: int) -> Tensor:
    """Whole numbers from 1 on."""
    return torch.arange(LENGTHS[number]) + 1 + number


def packed(number: int) -> dict[str, Tensor]:
    """Words with separators between them, and a mask that leaves these out."""
    ids = words(number)
    ids[1 : (1, 5, 2, 4, 1, 7)[number]] = 0
    return {"ids": ids, "attention_mask": (ids != 0).long()}


def picture(number: int) -> tuple[Tensor, Tensor]:
    """An image, and a mask whose border is of no class."""
    mask = torch.full((4, LENGTHS[number]), number)
    mask[0] = 255
    return torch.sin(torch.arange(4.0 * LENGTHS[number])).reshape(1, 4, -1), mask


def filled(images: Samples, value: float) -> Tensor:
    """Images in the corners of as large ones as the widest."""
    return torch.stack([pad(image, (0, max(LENGTHS) - image.shape[-1]), value=value) for image in images])


def padding(tmp_path: Path, make: Callable[[int], Any], collate: Callable[[Any], Any]) -> Padding:
    samples = [make(number) for number in range(len(LENGTHS))]
    loader: DataLoader[Any] = DataLoader(samples, batch_size=6, collate_fn=collate)  # type: ignore[arg-type]
    observed = observe_collate(lambda: loader, tmp_path, tuple(range(len(LENGTHS))), REREAD, ascending=True)
    assert observed is not None
    return observed.padding


def padded(samples: Samples, value: float = 0.0) -> Tensor:
    return pad_sequence(samples, batch_first=True, padding_value=value)


def lengths(samples: Samples) -> Tensor:
    return torch.tensor([len(sample) for sample in samples])


def mask(samples: Samples) -> Tensor:
    return torch.arange(max(LENGTHS))[None] < lengths(samples)[:, None]


TOLD: dict[str, tuple[Callable[[int], Any], Callable[[Any], Any]]] = {
    "lengths": (wave, lambda samples: (padded(samples), lengths(samples))),
    "lengths as a list": (wave, lambda samples: (padded(samples), lengths(samples).tolist())),
    "lengths of windows": (wave, lambda samples: (padded(samples), lengths(samples) // 2 + 1)),
    "seconds": (wave, lambda samples: (padded(samples), lengths(samples) / 16_000)),
    "shares of the longest": (wave, lambda samples: (padded(samples), lengths(samples) / 9)),
    "how much is missing": (wave, lambda samples: (padded(samples), 9 - lengths(samples))),
    "offsets": (wave, lambda samples: (padded(samples), torch.tensor([0, *lengths(samples).cumsum(0)]))),
    "mask": (wave, lambda samples: (padded(samples), mask(samples))),
    "inverted mask": (wave, lambda samples: (padded(samples), ~mask(samples))),
    "mask of floats": (wave, lambda samples: {"x": padded(samples), "mask": mask(samples).float()[:, None]}),
    "additive mask": (wave, lambda samples: (padded(samples), torch.where(mask(samples), 0.0, -torch.inf))),
    "mask of pairs": (wave, lambda samples: (padded(samples), mask(samples)[:, None] & mask(samples)[:, :, None])),
    "mask of the samples": (
        packed,
        lambda samples: {key: padded([sample[key] for sample in samples]) for key in ("ids", "attention_mask")},
    ),
    "sizes": (wave, lambda samples: (padded(samples), [torch.tensor(sample.shape) for sample in samples])),
    "the samples themselves": (wave, lambda samples: (padded(samples), samples)),
    "other padding with lengths": (
        wave,
        lambda samples: (padded(samples), padded([(one[:, 0] > 0).long() for one in samples], -100)),
    ),
    "pixels of no class": (
        picture,
        lambda pairs: (filled([one for one, _ in pairs], 0.0), filled([two for _, two in pairs], 255)),
    ),
    "a number that is no word": (words, padded),
    "a number beyond the data": (wave, lambda samples: padded(samples, -5.0)),
    "not a number": (wave, lambda samples: padded(samples, torch.nan)),
}


@pytest.mark.parametrize("name", TOLD)
def test_lengths_are_in_the_batch(tmp_path: Path, name: str) -> None:
    found = padding(tmp_path, *TOLD[name])
    assert found.padded
    assert all(one.lengths_from or one.distinct for one in found.padded)


UNTOLD: dict[str, tuple[Callable[[int], Any], Callable[[Any], Any]]] = {
    "zeros": (wave, padded),
    "time first": (wave, lambda samples: pad_sequence(samples)),
    "zeros before": (wave, lambda samples: padded([sample.flip(0) for sample in samples]).flip(1)),
    "to a fixed length": (wave, lambda samples: padded([*samples, torch.zeros(16, 2)])[: len(samples)]),
    "beside labels": (wave, lambda samples: (padded(samples), torch.tensor([0, 1, 0, 1, 0, 1])[: len(samples)])),
    "beside numbers": (wave, lambda samples: (padded(samples), torch.arange(len(samples)))),
    "beside a constant mask": (wave, lambda samples: (padded(samples), torch.ones(len(samples), 9))),
    "a number that is a word": (words, lambda samples: padded(samples, 7)),
}


@pytest.mark.parametrize("name", UNTOLD)
def test_lengths_are_not_in_the_batch(tmp_path: Path, name: str) -> None:
    found = padding(tmp_path, *UNTOLD[name])
    assert [one for one in found.padded if not one.lengths_from and not one.distinct]


def test_what_only_collate_makes_is_looked_at_as_well(tmp_path: Path) -> None:
    def spell(samples: list[str]) -> Tensor:
        return padded([torch.tensor([ord(letter) - 97 for letter in sample]) for sample in samples])

    found = padding(tmp_path, lambda number: "abcabcabcabc"[: LENGTHS[number]], spell)
    assert [(one.leaf, one.lengths_from, one.distinct, one.lengths) for one in found.padded] == [
        ("", None, False, LENGTHS)
    ]


@pytest.mark.parametrize(
    "collate",
    [
        lambda samples: torch.stack([sample[:4] for sample in samples]),
        lambda samples: torch.cat(samples),
        lambda samples: samples,
        lambda samples: torch.stack([sample.mean(0) for sample in samples]),
    ],
    ids=["cut off", "in a row", "listed", "averaged"],
)
def test_nothing_is_padded(tmp_path: Path, collate: Callable[[Samples], Any]) -> None:
    assert padding(tmp_path, wave, collate).padded == ()


def test_two_samples_tell_their_lengths_only_in_full(tmp_path: Path) -> None:
    samples = [wave(0), wave(1)]

    def judged(other: list[int]) -> bool:
        loader: DataLoader[Any] = DataLoader(
            samples,  # type: ignore[arg-type]
            batch_size=2,
            collate_fn=lambda some: (padded(some), torch.tensor(other[: len(some)])),
        )
        observed = observe_collate(lambda: loader, tmp_path, (0, 1), REREAD, ascending=True)
        assert observed is not None
        return all(one.lengths_from for one in observed.padding.padded)

    assert judged([4, 7])
    assert not judged([0, 1])


SENTENCES = [[11, 12, 13, 14, 15, 16][: 6 - number] + [2] * (2 + number) for number in range(4)]
"""Sentences of several lengths, padded with token 2."""


def masked(rows: list[list[int]], *, attended: list[list[int]] | None = None) -> Callable[[int], Any]:
    """Samples of tokens that are padded already, beside an attention mask, of ones unless it is given."""

    def sample(number: int) -> dict[str, Tensor]:
        tokens = torch.tensor(rows[number % len(rows)])
        mask = torch.tensor(attended[number % len(rows)]) if attended else torch.ones_like(tokens)
        return {"input_ids": tokens, "attention_mask": mask}

    return sample


def test_a_mask_of_ones_beside_rows_that_a_dataset_padded(tmp_path: Path) -> None:
    found = padding(tmp_path, masked(SENTENCES), default_collate)
    assert [(one.leaf, one.fill, one.full_mask, one.lengths) for one in found.padded] == [
        ("['input_ids']", "2", "['attention_mask']", (6, 5, 4, 3, 6, 5))
    ]


@pytest.mark.parametrize(
    "make",
    [
        masked(SENTENCES, attended=[[int(token != 2) for token in row] for row in SENTENCES]),
        masked([[0] * (6 - number) + [1] * (2 + number) for number in range(4)]),
        masked(
            [[7, 3, 5, 2, 6, 4, 8, 9], [7, 3, 2, 4, 8, 5, 6, 2], [4, 2, 6, 5, 3, 8, 2, 2], [3, 9, 2, 8, 2, 2, 2, 2]]
        ),
        masked([[11, 12, 13, 14, 15, 16, number + 3, 2] for number in range(4)]),
    ],
    ids=["of padding", "kinds of tokens", "a token that is a word", "rows that are full"],
)
def test_a_mask_of_ones_is_right_elsewhere(tmp_path: Path, make: Callable[[int], Any]) -> None:
    assert padding(tmp_path, make, default_collate).padded == ()
