"""The guard in training loops of other libraries, as docs/guard.md shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler

from dataguard.training.guard import guard
from tests.support.training_loops import Items, fit_with_lightning

pytestmark = [pytest.mark.scan, pytest.mark.filterwarnings("ignore")]  # those of the frameworks


def number(index: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.full((4,), float("nan") if index == 5 else index / 40), torch.tensor(index % 4)


def make_loader(**options: Any) -> DataLoader:
    return DataLoader(Items(number), batch_size=8, num_workers=2, **options)


def forgotten() -> DistributedSampler:
    return DistributedSampler(Items(number), num_replicas=1, rank=0)


def found() -> dict[str, set[str]]:
    """The violations of each loader, none of which may be a bug of the guard."""
    report = guard.report()
    assert not [result.reason for result in report.results if result.status == "broken"]
    return {
        loader: {result.code for result in report.failed if result.loader == loader}
        for loader in {result.loader for result in report.results}
    }


def counts() -> list[str]:
    return [note.partition(";")[0] for note in guard.report().notes]


def test_lightning(tmp_path: Path) -> None:
    train = guard(
        make_loader(shuffle=True, persistent_workers=True), name="train", on_violation="record", all_values=True
    )
    val = guard(make_loader(), name="val", on_violation="record", all_values=True)
    fit_with_lightning(tmp_path, train, val, use_distributed_sampler=False)
    assert found() == {"train": {"DG501"}, "val": {"DG501"}}
    assert counts()[0] == "train: 15 batches, 3 whole epochs"


def test_accelerate() -> None:
    import accelerate

    accelerator = accelerate.Accelerator(cpu=True)
    model = torch.nn.Linear(4, 4)
    model, loader = accelerator.prepare(model, make_loader(shuffle=True))
    loader = guard(loader, name="train", on_violation="record", all_values=True)
    for _ in range(3):
        for inputs, _ in loader:
            model(inputs)
    assert found() == {"train": {"DG501"}}
    assert counts() == ["train: 15 batches, 3 whole epochs"]
    assert len(loader) == 5


def test_a_loader_that_accelerate_made_again_is_reported() -> None:
    import accelerate

    loader = guard(make_loader(shuffle=True), name="train")
    for _ in accelerate.Accelerator(cpu=True).prepare(loader):
        pass
    assert "never iterated" in guard.report().notes[0]


def test_the_trainer_of_transformers(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    import transformers

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            logits = self.layer(x.nan_to_num())
            return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}

    class Guarded(transformers.Trainer):
        def get_train_dataloader(self) -> Any:
            return guard(super().get_train_dataloader(), name="train", on_violation="record", all_values=True)

    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        use_cpu=True,
        num_train_epochs=3,
        per_device_train_batch_size=8,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        remove_unused_columns=False,
    )
    data = Items(lambda index: dict(zip(("x", "labels"), number(index), strict=True)))
    Guarded(Model(), arguments, train_dataset=data).train()
    assert found() == {"train": {"DG501"}}
    assert counts() == ["train: 15 batches, 3 whole epochs"]
