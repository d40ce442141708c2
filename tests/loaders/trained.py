"""Models, losses and steps for batches of many forms, as users have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

CLASSES, WIDTH = 3, 5


def numbers(index: int) -> Tensor:
    return torch.randn(WIDTH, generator=torch.Generator().manual_seed(index))


class Rows(nn.Module):
    """Takes rows of numbers."""

    def __init__(self, outputs: int = CLASSES) -> None:
        super().__init__()
        self.head = nn.Linear(WIDTH, outputs)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.head(x)
        return made


SHARED = Rows()


def for_classes(loader: DataLoader[Any]) -> nn.Module:
    """As many outputs as the dataset has labels."""
    dataset: Any = loader.dataset
    return Rows(len({label for _, label in dataset}))


def half(output: Tensor, target: Tensor) -> Tensor:
    """A loss for each sample."""
    return 0.5 * functional.cross_entropy(output, target, reduction="none")


def make_loss() -> nn.Module:
    return nn.CrossEntropyLoss()


def listed(samples: Sequence[Any], **options: Any) -> DataLoader[Any]:
    return DataLoader(samples, batch_size=4, **options)  # type: ignore[arg-type]


def pairs() -> DataLoader[Any]:
    return listed([(numbers(index), index % CLASSES) for index in range(12)])


def named() -> DataLoader[Any]:
    return listed([{"image": numbers(index), "label": index % CLASSES, "id": f"{index}"} for index in range(12)])


def triples() -> DataLoader[Any]:
    return listed([(numbers(index), numbers(index + 50), index % CLASSES) for index in range(12)])


def nested() -> DataLoader[Any]:
    return listed([({"a": numbers(index), "b": numbers(index)}, index % CLASSES) for index in range(12)])


def alone() -> DataLoader[Any]:
    return listed([numbers(index) for index in range(12)])


class Two(nn.Module):
    """Takes two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        made: Tensor = self.head(a + b)
        return made


def tokens() -> DataLoader[Any]:
    return listed(
        [
            {
                "input_ids": torch.arange(6) + index,
                "attention_mask": torch.ones(6, dtype=torch.int64),
                "labels": torch.arange(6) + index,
                "overflow": index,
            }
            for index in range(12)
        ]
    )


class Output(NamedTuple):
    """What a model of transformers returns."""

    loss: Tensor | None
    logits: Tensor


class Language(nn.Module):
    """Computes its loss itself if it gets labels."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32, 32)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None) -> Output:
        logits = self.embedding(input_ids)
        loss = None
        if labels is not None:
            loss = functional.cross_entropy(logits[:, :-1].reshape(-1, 32), labels[:, 1:].reshape(-1))
        return Output(loss, logits)


def by_token(output: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(output.transpose(1, 2), target)


class Characters(nn.Module):
    """Returns logits and loss, as nanoGPT does."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32, 32)

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        logits = self.embedding(idx)
        loss = None if targets is None else functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return logits, loss


def chunks() -> DataLoader[Any]:
    return listed([(torch.arange(6) + index, torch.arange(6) + index + 1) for index in range(12)])


def scenes() -> DataLoader[Any]:
    boxes = torch.tensor([[1.0, 1, 4, 4]])
    made = [(torch.rand(3, 8, 8), {"boxes": boxes + index, "labels": torch.tensor([1])}) for index in range(12)]
    return listed(made, collate_fn=lambda samples: tuple(zip(*samples, strict=True)))


class Detector(nn.Module):
    """Returns a dictionary of losses in training, as torchvision's detectors do."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 4)

    def forward(self, images: list[Tensor], targets: list[dict[str, Tensor]]) -> dict[str, Tensor]:
        found = self.head(torch.stack([image.mean((1, 2)) for image in images]))
        known = torch.cat([target["boxes"] for target in targets])
        return {"loss_box": functional.l1_loss(found, known), "loss_size": found.square().mean()}


class Segmenter(nn.Module):
    """Returns a dictionary of outputs, as torchvision's segmentation models do."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(3, CLASSES, 1)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"out": self.head(x), "aux": self.head(x)}


def masks() -> DataLoader[Any]:
    return listed([{"image": torch.rand(3, 4, 4), "mask": torch.ones(4, 4).long()} for _ in range(12)])


class OfBatches(Rows):
    """Takes a batch of names as it is."""

    def forward(self, data: Any) -> Tensor:
        return super().forward(data["image"])


class Trainer(Rows):
    """Computes its loss as a LightningModule does."""

    def training_step(self, batch: Any, number: int) -> dict[str, Tensor]:
        rows, labels = batch
        return {"loss": functional.cross_entropy(self.head(rows), labels)}


def step(model: nn.Module, batch: Any) -> Tensor:
    return functional.cross_entropy(model(batch["image"] * 2), batch["label"])


def own_backward(model: nn.Module, batch: Any) -> Tensor:
    loss = functional.cross_entropy(model(batch[0]), batch[1])
    loss.backward()
    return loss.detach()


class Refusing(Rows):
    """Needs longer rows."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x[:, :2])


def slow(output: Tensor, target: Tensor) -> Tensor:
    torch.rand(3_000_000).sort()
    return functional.cross_entropy(output, target)


NO_MODEL = {"layers": 3}
