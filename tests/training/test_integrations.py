"""The guard as a callback or handler of training libraries."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from dataguard.training.guard import guard
from tests.support.training_loops import fit_with_lightning
from tests.training.test_frameworks import counts, found, make_loader

pytestmark = [pytest.mark.scan, pytest.mark.filterwarnings("ignore")]  # those of the frameworks

RECORD = {"on_violation": "record", "all_values": True}


@pytest.fixture(autouse=True)
def _none_before() -> None:
    guard.reset()


def test_lightning(tmp_path: Path) -> None:
    from dataguard.integrations.lightning import GuardCallback

    fit_with_lightning(tmp_path, make_loader(shuffle=True), make_loader(), callbacks=[GuardCallback(**RECORD)])
    assert found() == {"train": {"DG501"}, "val": {"DG501"}}
    assert set(counts()) == {
        "train: 15 batches, 3 whole epochs",
        "val: 17 batches, 3 whole epochs",
    }  # 2 of a sanity check


def test_accelerate() -> None:
    import accelerate

    from dataguard.integrations.accelerate import prepare

    accelerator = accelerate.Accelerator(cpu=True)
    _, loader = prepare(accelerator, torch.nn.Linear(4, 4), make_loader(shuffle=True), name="train", **RECORD)
    for _ in range(3):
        for _ in loader:
            pass
    assert found() == {"train": {"DG501"}}
    assert counts() == ["train: 15 batches, 3 whole epochs"]


def test_transformers(tmp_path: Path) -> None:
    import transformers

    from dataguard.integrations.transformers import GuardCallback

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": self.layer(x.nan_to_num()).sum()}

    rows = [{"x": torch.full((1,), float("nan") if number == 5 else float(number))} for number in range(40)]
    arguments = transformers.TrainingArguments(
        str(tmp_path), num_train_epochs=2, per_device_train_batch_size=8, report_to=[], use_cpu=True, save_strategy="no"
    )
    callbacks = [GuardCallback(**RECORD)]
    transformers.Trainer(Model(), arguments, train_dataset=rows, callbacks=callbacks).train()
    assert found() == {"train": {"DG501"}}


def test_ignite() -> None:
    ignite = pytest.importorskip("ignite.engine")
    from dataguard.integrations.ignite import GuardHandler

    trainer = ignite.Engine(lambda engine, batch: None)
    GuardHandler(name="train", **RECORD).attach(trainer)
    trainer.run(make_loader(shuffle=True), max_epochs=3)
    assert found() == {"train": {"DG501"}}
    assert counts() == ["train: 15 batches, 3 whole epochs"]
