"""The guard as a callback or handler of training libraries."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from dataguard.training.guard import guard
from tests.support.training_loops import Items, fit_with_lightning, pair
from tests.training.test_frameworks import counts, found, make_loader

pytestmark = [pytest.mark.scan, pytest.mark.filterwarnings("ignore")]  # those of the frameworks

RECORD = {"on_violation": "record", "all_values": True}


@pytest.fixture(autouse=True)
def _none_before() -> None:
    guard.reset()


def four(index: int) -> tuple[torch.Tensor, int]:
    """An input of four numbers, and its class."""
    return torch.full((4,), float(index)), index % 4


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


def resumed() -> tuple[str, list[str]]:
    """The outcome of DG209 for the loader that was made last, with its findings."""
    result = [result for result in guard.report().results if result.code == "DG209"][-1]
    return result.status.value, [finding.message for finding in result.findings]


@pytest.mark.parametrize("way", ["skips", "restores", "starts over"])
def test_accelerate_resumes(tmp_path: Path, way: str) -> None:
    import accelerate

    from dataguard.integrations.accelerate import prepare, skip_first_batches

    options = {"name": "train", "role": "train", "resume": tmp_path / "run", "on_violation": "record"}
    configuration = accelerate.DataLoaderConfiguration(
        use_stateful_dataloader=way == "restores", use_seedable_sampler=True
    )

    def run(*, is_second: bool) -> None:
        guard.reset()
        accelerate.utils.set_seed(0)
        accelerator = accelerate.Accelerator(cpu=True, dataloader_config=configuration)
        layer = torch.nn.Linear(3, 1)
        parts = layer, torch.optim.SGD(layer.parameters(), 0.1), DataLoader(Items(pair), 8, shuffle=True)
        model, optimizer, loader = prepare(accelerator, *parts, **options)
        if is_second:
            accelerator.load_state(tmp_path / "state")
        for number, (inputs, _) in enumerate(
            skip_first_batches(loader, 3, **options) if is_second and way == "skips" else loader
        ):
            accelerator.backward(model(inputs).mean())
            optimizer.step()
            if number == 2 and not is_second:
                accelerator.save_state(tmp_path / "state")
                return

    run(is_second=False)
    run(is_second=True)
    results = [result for result in guard.report().results if result.code == "DG209"]
    status, messages = results[-1].status.value, [finding.message for finding in results[-1].findings]
    saved = "a checkpoint was saved after 3 batches of epoch 0, and the resumed run"
    expected = ("failed", [f"{saved} starts over"]) if way == "starts over" else ("passed", [])
    assert (status, messages) == expected, results[-1].reason


@pytest.mark.parametrize("ignores", [False, True])
def test_transformers_resumes(tmp_path: Path, ignores: bool) -> None:
    import transformers

    from dataguard.integrations.transformers import GuardCallback

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": self.layer(x).sum()}

    class Stopping(transformers.TrainerCallback):
        def on_save(self, args: object, state: object, control: transformers.TrainerControl, **_: object) -> None:
            control.should_training_stop = True

    def run(*callbacks: transformers.TrainerCallback, resumes: bool) -> None:
        guard.reset()
        arguments = transformers.TrainingArguments(
            str(tmp_path / "out"),
            num_train_epochs=2,
            per_device_train_batch_size=8,
            report_to=[],
            use_cpu=True,
            save_steps=7,
            ignore_data_skip=ignores,
        )
        rows = [{"x": torch.full((1,), float(number))} for number in range(40)]
        watching = GuardCallback(resume=tmp_path / "run", on_violation="record")
        trainer = transformers.Trainer(Model(), arguments, train_dataset=rows, callbacks=[watching, *callbacks])
        trainer.train(resume_from_checkpoint=resumes)

    class Raising(transformers.TrainerCallback):
        def on_step_end(self, *_: object, **__: object) -> None:
            raise ZeroDivisionError

    run(Stopping(), resumes=False)
    skip = transformers.trainer.skip_first_batches
    with pytest.raises(ZeroDivisionError):
        run(Raising(), resumes=True)
    assert transformers.trainer.skip_first_batches is skip
    run(resumes=True)
    status, messages = resumed()
    assert status == ("failed" if ignores else "passed"), messages
    assert "after 2 batches of epoch 1, and the resumed run starts over" in "".join(messages) or not ignores


@pytest.mark.parametrize("restores", [False, True])
def test_lightning_resumes(tmp_path: Path, restores: bool) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader")
    from lightning.pytorch.callbacks import ModelCheckpoint

    from dataguard.integrations.lightning import GuardCallback

    kind = stateful.StatefulDataLoader if restores else DataLoader

    def run(**options: object) -> None:
        guard.reset()
        watching = GuardCallback(resume=tmp_path / "run", on_violation="record")
        saving = ModelCheckpoint(tmp_path, "state", every_n_train_steps=7, save_top_k=-1)
        settings = {"callbacks": [watching, saving], "enable_checkpointing": True, **options}
        fit_with_lightning(tmp_path, kind(Items(four), 8), None, **settings)

    run(max_steps=7)
    run(ckpt_path=tmp_path / "state.ckpt")
    status, messages = resumed()
    assert status == ("passed" if restores else "failed"), messages
    assert "after 2 batches of epoch 1, and the resumed run starts over" in "".join(messages) or restores


def test_ignite() -> None:
    ignite = pytest.importorskip("ignite.engine")
    from dataguard.integrations.ignite import GuardHandler

    trainer = ignite.Engine(lambda engine, batch: None)
    GuardHandler(name="train", **RECORD).attach(trainer)
    trainer.run(make_loader(shuffle=True), max_epochs=3)
    assert found() == {"train": {"DG501"}}
    assert counts() == ["train: 15 batches, 3 whole epochs"]
