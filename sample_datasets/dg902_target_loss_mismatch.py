"""DG902 target-loss-mismatch: targets that a loss refuses, or takes for something else.

Each loader has its model: `--model sample_datasets._training:model --step sample_datasets._training:step`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

from sample_datasets._training import CLASSES, Task, classify, labelled, net, numbers, pairs, task


def prices() -> list[Any]:
    """Rows of numbers with a number to predict."""
    return [(numbers(number), numbers(number).sum()) for number in range(32)]


def price() -> nn.Module:
    """A network with one output."""
    return net(6, 1)


def bad() -> DataLoader[Any]:
    """Outputs of shape (8, 1) are compared with targets of shape (8,)."""
    return task(prices(), price, by_hand)


def by_hand(model: nn.Module, batch: Any) -> Tensor:
    """The mean square of differences."""
    inputs, targets = batch
    differences: Tensor = model(inputs) - targets
    return differences.square().mean()


def bad_broadcast() -> DataLoader[Any]:
    """The same in a loss of torch, which warns of it once."""
    return task(prices(), price, pairs(functional.smooth_l1_loss))


def followed(last: nn.Module, outputs: int = CLASSES) -> nn.Module:
    """A network whose outputs go through another layer."""
    return nn.Sequential(net(6, outputs), last)


def bad_softmax() -> DataLoader[Any]:
    """The model ends with a softmax, and the cross-entropy has its own."""
    return task(labelled(), lambda: followed(nn.Softmax(1)), classify)


def flags() -> list[Any]:
    """Rows of numbers with the answers to three questions."""
    return [(row, (row[:3] > 0).float()) for row, _ in labelled()]


def bad_sigmoid() -> DataLoader[Any]:
    """The model ends with a sigmoid, and the loss has its own."""
    loss = pairs(functional.binary_cross_entropy_with_logits)
    return task(flags(), lambda: followed(nn.Sigmoid(), 3), loss)


def bad_logits() -> DataLoader[Any]:
    """The loss expects logarithms of probabilities."""
    return task(labelled(), net, pairs(functional.nll_loss))


def bad_from_one() -> DataLoader[Any]:
    """Labels count from 1."""
    return task([(row, label + 1) for row, label in labelled()], net, classify)


def bad_one_hot() -> DataLoader[Any]:
    """One-hot targets are integers."""
    return task([(row, torch.eye(CLASSES).long()[label]) for row, label in labelled()], net, classify)


def bad_several() -> DataLoader[Any]:
    """Several classes of a sample are given to a loss for one class."""
    both = torch.eye(CLASSES) + torch.eye(CLASSES).roll(1, 0)
    return task([(row, both[label]) for row, label in labelled()], net, classify)


def bad_mask() -> DataLoader[Any]:
    """Masks hold 0 and 255."""
    loss = pairs(functional.binary_cross_entropy_with_logits)
    return task([(row, 255.0 * (row > 0)) for row, _ in labelled()], lambda: net(6, 6), loss)


def bad_void() -> DataLoader[Any]:
    """255 marks what has no class, and the loss does not know."""
    return task([(row, 255 if label == 3 else label) for row, label in labelled()], net, classify)


def bad_floats() -> DataLoader[Any]:
    """Class indices are floats."""
    return task([(row, float(label)) for row, label in labelled()], net, pairs(cross_entropy_of_floats))


def cross_entropy_of_floats(output: Tensor, target: Tensor) -> Tensor:
    """Called with targets as they are in a table."""
    return functional.cross_entropy(output, target.float())


class Named(Task):
    """A task whose dataset knows its classes."""

    classes = ("ant", "bee", "cat", "dog")


def bad_few_outputs() -> DataLoader[Any]:
    """The network has three outputs; the fourth class is rare, and absent from most batches."""
    rows = [(row, label % 3) for row, label in labelled(64)]
    return DataLoader(Named(rows, lambda: net(6, 3), classify), batch_size=8, shuffle=True)


def good() -> DataLoader[Any]:
    """Outputs and targets have the same shape."""
    return task(prices(), lambda: followed(nn.Flatten(0), 1), by_hand)


def good_classes() -> DataLoader[Any]:
    """Logits and class indices; a model may have more outputs than classes."""
    return DataLoader(Named(labelled(), lambda: net(6, 10), classify), batch_size=8, shuffle=True)


def good_logarithms() -> DataLoader[Any]:
    """Logarithms of probabilities."""
    return task(labelled(), lambda: followed(nn.LogSoftmax(1)), pairs(functional.nll_loss))


def good_twice() -> DataLoader[Any]:
    """A second logarithm of a softmax changes nothing."""
    return task(labelled(), lambda: followed(nn.LogSoftmax(1)), classify)


def good_probabilities() -> DataLoader[Any]:
    """A loss for probabilities after a sigmoid."""
    return task(flags(), lambda: followed(nn.Sigmoid(), 3), pairs(functional.binary_cross_entropy))


def good_soft() -> DataLoader[Any]:
    """Targets are probabilities of classes."""
    rows = [(row, row[:CLASSES].softmax(0)) for row, _ in labelled()]
    return task(rows, net, pairs(nn.CrossEntropyLoss(label_smoothing=0.1)))


def good_ignored() -> DataLoader[Any]:
    """Most tokens have no label."""
    rows = [(torch.arange(12) + number, torch.where(torch.arange(12) > 8, number % 4, -100)) for number in range(32)]
    return task(rows, lambda: nn.Sequential(nn.Embedding(64, 16), nn.Linear(16, CLASSES)), by_token)


def by_token(model: nn.Module, batch: Any) -> Tensor:
    """The loss of each token that has a label."""
    tokens, labels = batch
    return functional.cross_entropy(model(tokens).transpose(1, 2), labels)


def ranked(model: nn.Module, batch: Any) -> Tensor:
    """Each score is compared with each other score, on purpose."""
    inputs, targets = batch
    scores = model(inputs).squeeze(1)
    margins = (scores[:, None] - scores) * (targets[:, None] - targets).sign()
    return functional.softplus(-margins).mean()


def good_ranking() -> DataLoader[Any]:
    """Differences of all pairs are meant."""
    return task(prices(), price, ranked)


def attended(model: nn.Module, batch: Any) -> Tensor:
    """A softmax inside of the model, whose results are weights and no classes."""
    inputs, targets = batch
    scores, values = model(inputs).chunk(2, 1)
    return functional.mse_loss((scores.softmax(1) * values).sum(1), targets)


def good_attention() -> DataLoader[Any]:
    """Weights are the result of a softmax."""
    return task(prices(), lambda: net(6, 2 * CLASSES), attended)
