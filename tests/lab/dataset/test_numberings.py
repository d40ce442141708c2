"""Tables that number names are found under any name, and the integers that come from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from dataguard.lab.dataset.numberings import find_numbered_leaves, find_numberings
from dataguard.lab.reading.sample_reader import Reader

VOICES = {"anna": 0, "bert": 1, "carl": 2}
LETTERS = {"<pad>": 0, "a": 1, "b": 2, "c": 3}


class Speech(Dataset[Any]):
    """A voice by its number, a text, a row that a table finds, and a table whose numbers no sample shows."""

    def __init__(self) -> None:
        self.voices = dict(VOICES)
        self.rows = {f"clip{number}": number for number in range(8)}
        self.sound = torch.rand(8, 4)
        self.sizes = {"width": 3, "height": 4, "depth": 9}

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[Tensor, int, str]:
        voice = self.voices[list(VOICES)[index % 3]]
        return self.sound[self.rows[f"clip{index}"]], voice, "abc"[index % 3] * (index + 1)


class Collate:
    """Texts become padded letters."""

    def __init__(self) -> None:
        self.letters = dict(LETTERS)

    def __call__(self, samples: list[tuple[Tensor, int, str]]) -> dict[str, Tensor]:
        sound, voices, texts = zip(*samples, strict=True)
        rows = [torch.tensor([self.letters[letter] for letter in text]) for text in texts]
        padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        return {
            "sound": torch.stack(sound),
            "voice": torch.tensor(voices),
            "text": padded,
            "size": torch.tensor([3, 4]),
        }


@pytest.mark.parametrize(
    ("where", "leaves"),
    [
        ("dataset.voices", ("batch['voice']",)),
        ("collate_fn.letters", ("batch['text']",)),
        ("dataset.rows", ()),
        ("dataset.nothing", ()),
    ],
)
def test_integers_that_follow_a_table(tmp_path: Path, where: str, leaves: tuple[str, ...]) -> None:
    loader = DataLoader(Speech(), batch_size=2, collate_fn=Collate())
    found = {table.where: table.numbers for table in find_numberings(loader)}
    assert {name for name in found if "<" not in name} == {"dataset.voices", "dataset.rows", "collate_fn.letters"}
    assert find_numbered_leaves(Reader(loader, tmp_path), where, [0, 2, 4, 7]) == leaves
    assert {table.where: table.numbers for table in find_numberings(loader)} == found
