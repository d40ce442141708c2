"""The line after which a batch is as it is, in code of several styles."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from dataguard.lab.culprit.line_trace import line_of_change, placed
from dataguard.lab.culprit.value_trace import looks_of
from dataguard.lab.reading.followed_batch import follow_batch

MARK = "# here"
TEXTS = [torch.arange(1, 4 + number) for number in range(4)]


def collated(texts: Sequence[Tensor]) -> dict[str, Tensor]:
    tokens = torch.nn.utils.rnn.pad_sequence(list(texts), batch_first=True)
    return {"input_ids": tokens, "labels": tokens.clone()}  # here


def over_several_lines(texts: Sequence[Tensor]) -> dict[str, Tensor]:
    tokens = torch.nn.utils.rnn.pad_sequence(list(texts), batch_first=True)
    return {
        "input_ids": tokens,
        "labels": tokens * 2,  # here
    }


def in_place(texts: Sequence[Tensor]) -> dict[str, Tensor]:
    labels = torch.nn.utils.rnn.pad_sequence(list(texts), batch_first=True)
    tokens = labels + 0
    for row in labels:
        row[-1] = 7  # here
    return {"input_ids": tokens, "labels": labels}


def shared(texts: Sequence[Tensor]) -> dict[str, Tensor]:
    batch = {"input_ids": torch.nn.utils.rnn.pad_sequence(list(texts), batch_first=True)}
    batch["labels"] = batch["input_ids"]  # here
    return batch


def doubled(tokens: Tensor) -> Tensor:
    return tokens * 2  # here


def by_a_helper(texts: Sequence[Tensor]) -> dict[str, Tensor]:
    tokens = torch.nn.utils.rnn.pad_sequence(list(texts), batch_first=True)
    return {"input_ids": tokens, "labels": doubled(tokens)}


@pytest.mark.parametrize("collate", [collated, over_several_lines, in_place, shared, by_a_helper])
def test_the_line_that_makes_a_leaf(collate: Callable[..., Any], tmp_path: Path) -> None:
    loader: DataLoader[Any] = DataLoader(TEXTS, batch_size=4, collate_fn=collate)  # type: ignore[arg-type]
    look = follow_batch(loader, tmp_path, range(4)).line_of_leaf("['labels']", 3)
    assert look is not None
    made = doubled if collate is by_a_helper else collate
    lines, first = inspect.getsourcelines(made)
    assert MARK in lines[look.line - first]
    assert look.function == made.__name__


class Shifted:
    """Samples that their dataset makes."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        tokens = torch.arange(6) + index
        labels = tokens.roll(-1)
        return {"input_ids": tokens, "labels": labels}


def test_the_line_of_the_dataset(tmp_path: Path) -> None:
    history = follow_batch(DataLoader(Shifted(), batch_size=4), tmp_path, range(4))  # type: ignore[arg-type]
    look = history.line_of_leaf("['labels']", 2)
    assert look is not None
    assert (look.name, look.function) == ("labels", "__getitem__")
    returned = history.line_of_sample()
    assert returned is not None
    assert returned.line == look.line + 1


def test_what_a_library_makes_has_no_line_without_the_factory(tmp_path: Path) -> None:
    loader: DataLoader[Any] = DataLoader(TEXTS[:1] * 4, batch_size=4)  # type: ignore[arg-type]
    look = follow_batch(loader, tmp_path, range(4)).line_of_leaf("")
    assert look is None
    assert placed(look, loader, None) is None


def with_start(texts: Sequence[list[int]]) -> dict[str, Tensor]:
    texts = [[9, *text] for text in texts]  # here
    width = max(map(len, texts))
    return {"input_ids": torch.tensor([text + [0] * (width - len(text)) for text in texts])}


def test_tokens_are_followed_while_they_are_lists(tmp_path: Path) -> None:
    texts = [list(range(2, 6 + number)) for number in range(4)]
    loader: DataLoader[Any] = DataLoader(texts, batch_size=4, collate_fn=with_start)  # type: ignore[arg-type]
    look = follow_batch(loader, tmp_path, range(4)).line_of_leaf("['input_ids']", 1, [0, 1])
    assert look is not None
    lines, first = inspect.getsourcelines(with_start)
    assert MARK in lines[look.line - first]


def prepared() -> DataLoader[Any]:
    rows = []
    for number in range(4):
        tokens = list(range(2, 8 + number))
        rows.append({"tokens": tokens, "labels": [*tokens[1:], -100]})  # here
    return DataLoader(rows, batch_size=4, collate_fn=labels_of)  # type: ignore[arg-type]


def labels_of(rows: Sequence[dict[str, list[int]]]) -> dict[str, Tensor]:
    padded = [torch.tensor(row["labels"] + [-100] * (9 - len(row["labels"]))) for row in rows]
    return {"labels": torch.stack(padded)}


def test_the_factory_is_followed_for_what_reading_does_not_make(tmp_path: Path) -> None:
    history = follow_batch(prepared(), tmp_path, range(4))
    look = replace(history, of_factory=lambda: looks_of(prepared)).line_of_leaf("['labels']", 1, [0])
    assert look is not None
    lines, first = inspect.getsourcelines(prepared)
    assert MARK in lines[look.line - first]


def test_a_line_that_writes_and_then_calls_is_not_that_of_the_call() -> None:
    row = torch.ones(3)

    def read() -> tuple[Tensor, Tensor]:
        return row.add_(1), doubled(row)

    place = line_of_change(read, lambda: tuple(row.tolist()))
    assert place is not None
    assert place[2] == "read"
