"""DG903 ignored-input: masks, lengths and second inputs that no output depends on.

Each loader has its model: `--model sample_datasets._training:model --step sample_datasets._training:step`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

from sample_datasets._training import CLASSES, Step, numbers, task

LENGTH = 12


def sentence(number: int) -> dict[str, Any]:
    """Tokens of a sentence, padded with zeros, with a mask and a label."""
    length = 4 + number % 9
    tokens = (torch.arange(LENGTH) ** 2 * 7 + number * 29) % 96 + 1
    real = torch.arange(LENGTH) < length
    return {"tokens": tokens * real, "mask": real.long(), "length": length, "label": number % CLASSES}


def sentences() -> list[Any]:
    return [sentence(number) for number in range(32)]


class Reader(nn.Module):
    """The mean of the embeddings of those tokens that the mask selects."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, 8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        selected = self.selected(mask)[..., None]
        mean = (self.embedding(tokens) * selected).sum(1) / selected.sum(1).clamp(min=1)
        result: Tensor = self.head(mean)
        return result

    def selected(self, mask: Tensor) -> Tensor:
        """The weight of each token."""
        return mask.float()


class Careless(Reader):
    """Takes the mask, and uses its shape."""

    def selected(self, mask: Tensor) -> Tensor:
        return torch.ones(mask.shape)


def read(net: Any, batch: Any) -> Tensor:
    return functional.cross_entropy(net(batch["tokens"], batch["mask"]), batch["label"])


def without_length(made: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in made.items() if name != "length"}


def masked() -> list[Any]:
    return [without_length(one) for one in sentences()]


def bad() -> DataLoader[Any]:
    """The model does not use the mask."""
    return task(masked(), Careless, read)


class Comparing(Reader):
    """Compares the mask with a number that it never exceeds."""

    def selected(self, mask: Tensor) -> Tensor:
        return (mask > 1).float() + 1


def bad_comparison() -> DataLoader[Any]:
    """The mask is 0 and 1, and not 0 and 255."""
    return task(masked(), Comparing, read)


def forget(net: Any, batch: Any) -> Tensor:
    return functional.cross_entropy(net(batch["tokens"], torch.ones_like(batch["tokens"])), batch["label"])


def bad_forgotten() -> DataLoader[Any]:
    """The step does not pass the mask on."""
    return task(masked(), Reader, forget)


class Recurrent(nn.Module):
    """Reads all tokens, and takes the last state, whatever the lengths are."""

    def __init__(self, *, packed: bool = False) -> None:
        super().__init__()
        self.packed = packed
        self.embedding = nn.Embedding(100, 8)
        self.cells = nn.GRU(8, 8, batch_first=True)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        values: Any = self.embedding(tokens)
        if self.packed:
            values = nn.utils.rnn.pack_padded_sequence(values, lengths, batch_first=True, enforce_sorted=False)
        result: Tensor = self.head(self.cells(values)[1][0])
        return result


def read_lengths(net: Any, batch: Any) -> Tensor:
    return functional.cross_entropy(net(batch["tokens"], batch["length"]), batch["label"])


def with_length() -> list[Any]:
    return [{name: value for name, value in one.items() if name != "mask"} for one in sentences()]


def bad_lengths() -> DataLoader[Any]:
    """The model takes lengths, and reads padding as well."""
    return task(with_length(), Recurrent, read_lengths)


def views() -> list[Any]:
    return [(numbers(number), numbers(number + 100), number % CLASSES) for number in range(32)]


class Comparer(nn.Module):
    """Compares two views."""

    def __init__(self, *, weight: float = 1.0) -> None:
        super().__init__()
        self.weight = weight
        self.encoder = nn.Linear(6, 8)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        both = torch.cat([self.encoder(one), self.weight * self.encoder(other)], 1)
        result: Tensor = self.head(both)
        return result


def same_twice(net: Any, batch: Any) -> Tensor:
    one, _, label = batch
    return functional.cross_entropy(net(one, one), label)


def compare(net: Any, batch: Any) -> Tensor:
    one, other, label = batch
    return functional.cross_entropy(net(one, other), label)


def bad_views() -> DataLoader[Any]:
    """One view is compared with itself."""
    return task(views(), Comparer, same_twice)


def bad_weight() -> DataLoader[Any]:
    """The second view counts nothing."""
    return task(views(), lambda: Comparer(weight=0.0), compare)


class Attending(Comparer):
    """Weights the second view by a softmax over a single score, which is always 1."""

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        weights = other.mean(1, keepdim=True).softmax(1)
        result: Tensor = self.head(torch.cat([self.encoder(one), weights * self.encoder(one)], 1))
        return result


def bad_attention() -> DataLoader[Any]:
    """The softmax is over the wrong axis."""
    return task(views(), Attending, compare)


def good() -> DataLoader[Any]:
    """The mask selects tokens."""
    return task(masked(), Reader, read)


def good_ones() -> DataLoader[Any]:
    """No sentence is padded: the mask has ones only."""
    made = [{**one, "tokens": one["tokens"] + 1, "mask": torch.ones(LENGTH)} for one in masked()]
    return task(made, Careless, read)


def good_about() -> DataLoader[Any]:
    """Numbers, sizes and file names of samples are for the reader of a log."""
    about = ("id", "image_size", "orig_size")
    made = [
        {**one, "id": number, "path": f"{number}.txt"}
        | {name: torch.tensor([number, number + 1]) for name in about[1:]}
        for number, one in enumerate(masked())
    ]
    return task(made, Reader, read)


def good_lengths() -> DataLoader[Any]:
    """Sequences are packed."""
    return task(with_length(), lambda: Recurrent(packed=True), read_lengths)


class Gated(Comparer):
    """The second view passes a gate that is closed at first, and the last layer begins with zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(8))
        nn.init.zeros_(self.head.weight)

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        hidden = self.encoder(one) + self.gate * self.encoder(other)
        result: Tensor = self.head(torch.cat([hidden, hidden], 1))
        return result


def good_gate() -> DataLoader[Any]:
    """Training opens the gate."""
    return task(views(), Gated, compare)


class Noisy(Comparer):
    """Drops most of what it sees, at random."""

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        return super().forward(functional.dropout(one, 0.9), functional.dropout(other, 0.9))


def good_noise() -> DataLoader[Any]:
    """Outputs differ at random anyway."""
    return task(views(), Noisy, compare)


def match(net: Any, batch: Any) -> Tensor:
    """The loss of an autoencoder, the same in any order of the rows."""
    return functional.mse_loss(net(batch["features"]), batch["features"])


def good_any_order() -> DataLoader[Any]:
    """The loss is the same in any order of the samples, and there is no other output."""
    return task([{"features": numbers(number)} for number in range(32)], lambda: nn.Linear(6, 6), match)


def first_label(step: Step) -> Step:
    return lambda net, batch: step(net, {name: batch[name] for name in ("tokens", "mask", "label")})


def good_other_targets() -> DataLoader[Any]:
    """Coarse labels are for another model."""
    made = [{**one, "coarse_label": torch.tensor([number % 2, number % 3])} for number, one in enumerate(masked())]
    return task(made, Reader, first_label(read))
