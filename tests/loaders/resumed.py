"""A training that is stopped and started again: `python -m tests.loaders.resumed CASE FOLDER STOP`.

It saves a checkpoint after three batches of its second epoch and goes on until it is stopped. Started again, it goes on
from the checkpoint in the way that the case names.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Sampler, TensorDataset

from dataguard.training.guard import _result, guard
from dataguard.training.violations import watched
from dataguard.training.watch import WATCHES

SAMPLES, BATCH, EPOCHS, SAVED = 40, 4, 4, (1, 3)


class Resumable(Sampler[int]):
    """A shuffling sampler that leaves out the first samples; `is_once`: of the next epoch only."""

    def __init__(self, *, is_once: bool = True, seed: int = 0) -> None:
        self.is_once, self.seed = is_once, seed
        self.epoch = self.start = 0

    def set_epoch(self, epoch: int) -> None:
        """Tell the epoch, from which the order follows."""
        self.epoch = epoch

    def __len__(self) -> int:
        return SAMPLES

    def __iter__(self) -> Iterator[int]:
        order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(self.seed + self.epoch)).tolist()
        start = self.start
        if self.is_once:
            self.start = 0
        yield from order[start:]


def loader_of(case: str, *, is_resumed: bool) -> DataLoader[Any]:
    """The loader of a case, whose samples are augmented."""
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(SAMPLES, 3), torch.arange(SAMPLES) % 2)

    def noisy(samples: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
        inputs, labels = zip(*samples, strict=True)
        return torch.stack(inputs) + torch.rand(BATCH, 3), torch.stack(labels)

    if case.startswith("stateful"):
        from torchdata.stateful_dataloader import StatefulDataLoader

        stateful: DataLoader[Any] = StatefulDataLoader(
            data, batch_size=BATCH, shuffle=True, num_workers=2 if case.endswith("2") else 0
        )
        return stateful
    other = 100 if case == "another-order" and is_resumed else 0
    sampler = Resumable(is_once=case != "stays", seed=other)
    return DataLoader(data, batch_size=BATCH, sampler=sampler, collate_fn=noisy)


def train(case: str, folder: str, stop: int) -> list[str]:
    """Train until so many batches have been learned in this process; what the guard found."""
    checkpoint = Path(folder) / "run1.pt"
    saved = torch.load(checkpoint) if checkpoint.exists() else None
    loader: Any = loader_of(case, is_resumed=saved is not None)
    guard(loader, resume=Path(folder) / "run1", on_violation="record", role="train")
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    first, skipped = saved["position"] if saved else (0, 0)
    if saved and case.startswith("stateful"):
        loader.load_state_dict(saved["loader"])
        skipped = 0
    elif saved and case in ("goes-on", "stays", "another-order"):
        loader.sampler.start, skipped = BATCH * skipped, 0
    elif saved and case == "ahead":
        loader.sampler.start, skipped = BATCH * (skipped + 1), 0
    elif saved and case == "starts-over":
        skipped = 0
    learned, state = 0, None
    for epoch in range(first, EPOCHS):
        if hasattr(loader.sampler, "set_epoch"):
            loader.sampler.set_epoch(epoch)
        for number, (inputs, labels) in enumerate(loader, 1):
            if epoch == first and number <= skipped:
                continue
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
            learned += 1
            if saved is None and (epoch, number) == SAVED:
                if case.startswith("stateful"):
                    state = loader.state_dict()
                else:
                    guard.checkpoint()
                torch.save({"position": SAVED, "loader": state}, checkpoint)
            if learned == stop:
                return findings()
    return findings()


def findings() -> list[str]:
    """What the guard found about the restart: messages, or else the verdict."""
    result = _result(WATCHES[0], watched()["DG209"])  # without the environment, which takes long to describe
    return [finding.message for finding in result.findings] or [result.status.value]


if __name__ == "__main__":
    sys.stdout.write(f"{train(sys.argv[1], sys.argv[2], int(sys.argv[3]))}\n")
    sys.stdout.flush()
    os._exit(1)  # as a process that is killed
