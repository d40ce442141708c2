"""DG901 unlearnable-batch: batches that no model can learn by heart, and losses that only look as if.

Each loader has its model: `--model sample_datasets._training:model --step sample_datasets._training:step`.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

from sample_datasets._training import CLASSES, classify, labelled, net, numbers, pairs, task

START = 1_700_000_000
"""A moment, in seconds since 1970."""


def bad() -> DataLoader[Any]:
    """Times in seconds are rounded to the same float32."""
    moments = [(torch.tensor([START + number, START + 2 * number], dtype=torch.float32)) for number in range(32)]
    return task([(moment, number % CLASSES) for number, moment in enumerate(moments)], lambda: net(2), classify)


def bag() -> nn.Module:
    """A classifier of words in any order."""
    return nn.Sequential(nn.EmbeddingBag(50, 8), nn.Linear(8, CLASSES))


def bad_unknown_words() -> DataLoader[Any]:
    """No word is in the vocabulary, whose spelling differs."""
    return task([(torch.ones(12, dtype=torch.int64), number % CLASSES) for number in range(32)], bag, classify)


def bad_ignored() -> DataLoader[Any]:
    """Every label is the one that the loss ignores."""
    return task([(numbers(number), -100) for number in range(32)], net, classify)


def saturating() -> nn.Module:
    """A network with sigmoids."""
    return nn.Sequential(nn.Linear(6, 16), nn.Sigmoid(), nn.Linear(16, CLASSES))


def bad_large() -> DataLoader[Any]:
    """Amounts of money are not scaled: all sigmoids are at their ends."""
    rows = [(1e9 + 1e5 * numbers(number), number % CLASSES) for number in range(32)]
    return task(rows, saturating, classify)


def bad_small() -> DataLoader[Any]:
    """Values were divided by 255 for each of four transforms."""
    return task([(row / 255**4, label) for row, label in labelled()], net, classify)


def chosen(model: nn.Module, batch: Any) -> Tensor:
    """The distance between the predicted and the true class, which has no gradient."""
    inputs, targets = batch
    return functional.l1_loss(model(inputs).argmax(1).float(), targets.float())


def bad_detached() -> DataLoader[Any]:
    """The step compares classes and not scores."""
    return task(labelled(), net, chosen)


def bad_logarithm() -> DataLoader[Any]:
    """The logarithm of a count of 0 is not finite."""
    counted = [(numbers(number), torch.tensor([float(number % CLASSES)]).log()) for number in range(32)]
    return task(counted, lambda: net(6, 1), pairs(functional.mse_loss), size=16)


def masked(model: nn.Module, batch: Any) -> Tensor:
    """The mean loss of what the mask selects."""
    inputs, targets, mask = batch
    each = functional.cross_entropy(model(inputs), targets, reduction="none")
    mean: Tensor = (each * mask).sum() / mask.sum()
    return mean


def bad_mask() -> DataLoader[Any]:
    """The mask, inverted by mistake, selects nothing."""
    return task([(row, label, 0.0) for row, label in labelled()], net, masked)


def bad_without_gradient() -> DataLoader[Any]:
    """Sums of large positive values are cut off by the last layer."""

    def dead() -> nn.Module:
        last = nn.Linear(16, CLASSES)
        nn.init.constant_(last.bias, 5.0)
        return nn.Sequential(nn.Linear(6, 16), nn.Hardtanh(), last, nn.Hardtanh(-1e-3, 1e-3))

    return task(labelled(), dead, classify)


def good() -> DataLoader[Any]:
    """Every row can be told from the others."""
    return task(labelled(), net, classify)


def good_frozen() -> DataLoader[Any]:
    """Only the head of the network is trained."""

    def frozen() -> nn.Module:
        backbone = nn.Sequential(nn.Linear(6, 64), nn.ReLU()).requires_grad_(False)
        return nn.Sequential(backbone, nn.Linear(64, CLASSES))

    return task(labelled(), frozen, classify)


def good_smoothed() -> DataLoader[Any]:
    """With label smoothing, the loss never gets near 0."""
    return task(labelled(), net, pairs(nn.CrossEntropyLoss(label_smoothing=0.4)))


def good_contradictions() -> DataLoader[Any]:
    """A quarter of the rows occurs twice, with two labels."""
    rows = labelled(12)
    return task([*rows, *((row, (label + 1) % CLASSES) for row, label in rows[:4])], net, classify, size=16)


def noisy() -> nn.Module:
    """A network with dropout and batch normalization."""
    return nn.Sequential(nn.Linear(6, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, CLASSES))


def good_noisy() -> DataLoader[Any]:
    """Noise in training mode."""
    return task(labelled(), noisy, classify)


def with_penalty(model: nn.Module, batch: Any) -> Tensor:
    """A loss with a large constant and a penalty for weights."""
    inputs, targets = batch
    squares = torch.stack([parameter.square().sum() for parameter in model.parameters()]).sum()
    return functional.cross_entropy(model(inputs), targets) + 100 + 1e-3 * squares


def good_penalty() -> DataLoader[Any]:
    """The loss ends at 100."""
    return task(labelled(), net, with_penalty)


def good_one_class() -> DataLoader[Any]:
    """All labels of the batch are equal."""
    return task([(numbers(number), 2) for number in range(32)], net, classify)


def good_mixed() -> DataLoader[Any]:
    """Pairs of rows are mixed, and so are their labels."""
    one_hot = torch.eye(CLASSES)
    rows = [
        (numbers(number) * 0.7 + numbers(number + 1) * 0.3, 0.7 * one_hot[number % 4] + 0.3 * one_hot[(number + 1) % 4])
        for number in range(32)
    ]
    return task(rows, net, classify)


def contrast(model: nn.Module, batch: Any) -> Tensor:
    """Two views of a sample are nearer to each other than to other samples."""
    one, other = (functional.normalize(model(view), dim=1) for view in batch)
    return functional.cross_entropy(one @ other.T / 0.5, torch.arange(len(one)))


def good_contrastive() -> DataLoader[Any]:
    """A contrastive loss, whose lowest value is not 0, without any label."""
    return task([(numbers(number), numbers(number) + 0.1) for number in range(32)], lambda: net(6, 8), contrast)


def restore(model: nn.Module, batch: Tensor) -> Tensor:
    """The error of an autoencoder."""
    return functional.mse_loss(model(batch), batch)


def good_autoencoder() -> DataLoader[Any]:
    """Inputs are the targets."""
    return task([numbers(number) for number in range(32)], lambda: net(6, 6), restore)


def parts(model: nn.Module, batch: Any) -> dict[str, Tensor]:
    """Two losses, as detectors return them."""
    inputs, targets = batch
    scores = model(inputs)
    return {"classes": functional.cross_entropy(scores, targets), "size": 0.1 * scores.square().mean()}


def good_sum() -> DataLoader[Any]:
    """The loss is a sum of several."""
    return task(labelled(), net, parts)


def good_teacher() -> DataLoader[Any]:
    """A pretrained network that has learned the batch already."""

    def pretrained() -> nn.Module:
        made = net()
        optimizer = torch.optim.Adam(made.parameters(), 0.05)
        rows, labels = torch.stack([row for row, _ in labelled()]), torch.arange(32) % CLASSES
        with torch.enable_grad():
            for _ in range(150):
                optimizer.zero_grad()
                functional.cross_entropy(made(rows), labels).backward()
                optimizer.step()
        return copy.deepcopy(made)

    return task(labelled(), pretrained, classify)
