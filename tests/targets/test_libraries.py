"""Data modules and loaders of other libraries are targets like any other."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any

import pytest
from torch.utils.data import DataLoader

from dataguard.core.model import UsageError
from tests.support.targets import KINDS, Ten, loader, names, target

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")


class DataModule:
    """Made like a LightningDataModule; records in which order it was asked."""

    def __init__(self):
        self.asked: list[str] = []
        self.stage = ""

    def prepare_data(self):
        self.asked.append("prepare")

    def setup(self, stage):
        self.asked.append(stage)
        self.stage = stage

    def train_dataloader(self):
        assert self.stage == "fit"
        return loader(batch_size=2)

    def val_dataloader(self):
        return [loader(), loader()]

    def test_dataloader(self):
        assert self.stage == "test"
        return {"clean": loader(), "noisy": loader()}

    def predict_dataloader(self):
        return None


class Validating:
    """Has neither training data nor a need to be set up."""

    def val_dataloader(self):
        return [loader()]


def test_a_data_module_is_prepared_as_by_its_trainer() -> None:
    module = DataModule()
    assert names(module) == names(lambda: module) == names(DataModule) == STAGED
    assert module.asked == ["prepare", "fit", "test", "predict"] * 2
    assert target(module).build("train", num_workers=3).num_workers == 3
    assert names(Validating()) == ["val"]


STAGED = ["train", "val.0", "val.1", "test.clean", "test.noisy"]


@pytest.fixture(params=["lightning.pytorch", "pytorch_lightning"])
def lightning(request: pytest.FixtureRequest) -> Any:
    return importlib.import_module(request.param)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_lightning_data_modules(lightning: Any) -> None:
    class Own(lightning.LightningDataModule):
        def setup(self, stage):
            self.data = Ten()

        def train_dataloader(self):
            return DataLoader(self.data, batch_size=2)

        def val_dataloader(self):
            return [DataLoader(self.data), DataLoader(self.data)]

    class Child(Own):
        def test_dataloader(self):
            return DataLoader(self.data, batch_size=3)

    class Root(Own):
        def __init__(self, root, num_workers=0):
            super().__init__()
            self.save_hyperparameters()

    assert names(Own) == names(Own()) == names(lambda: Own()) == ["train", "val.0", "val.1"]
    assert names(Child) == ["train", "val.0", "val.1", "test"]
    built = target(Own()).build_all(num_workers=2, persistent_workers=True)
    assert {(one.num_workers, one.persistent_workers) for one in built.values()} == {(2, True)}
    demo = importlib.import_module(f"{lightning.__name__}.demos.boring_classes").BoringDataModule
    assert names(demo) == ["train", "val", "test", "predict"]
    easy = lightning.LightningDataModule.from_datasets(Ten(), val_dataset=[Ten(), Ten()], batch_size=4)
    assert names(easy) == ["train", "val.0", "val.1"]
    assert target(easy).build("val.1", drop_last=True).drop_last is True
    with pytest.raises(UsageError) as error:
        names(Root)
    assert str(error.value).startswith(
        "pkg.mod:make needs root: add --arg root=..., or save this as dataguard_loaders.py"
    )
    with pytest.raises(UsageError) as error:
        names(lightning.LightningDataModule())
    described = "is a LightningDataModule that overrides no *_dataloader hook"
    assert str(error.value) == f"pkg.mod:make {described}, {KINDS}"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_lightning_combined_loaders() -> None:
    combined = importlib.import_module("lightning.pytorch.utilities.combined_loader").CombinedLoader
    assert names(lambda: combined({"a": loader(), "b": loader()})) == ["a", "b"]
    assert names(lambda: {"train": combined([loader(), loader()])}) == ["train.0", "train.1"]


def test_a_data_module_needs_no_lightning() -> None:
    names = "[m for m in sys.modules if 'lightning' in m.lower()]"
    code = f"import sys; from dataguard.targets.loading import load; print({names})"
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert outcome.stdout == "[]\n"


@pytest.mark.scan
def test_web_loaders() -> None:
    webdataset = importlib.import_module("webdataset")

    def make():
        stream = webdataset.DataPipeline(lambda: iter(range(12)))
        return webdataset.WebLoader(stream, batch_size=None, num_workers=1).shuffle(10).batched(4)

    for source in (make, make()):
        built = target(source).build(num_workers=2)
        assert type(built) is DataLoader
        assert (built.num_workers, built.batch_size) == (2, None)
        assert sorted(built) == sorted([*range(12)] * 2)
    stream = webdataset.DataPipeline(lambda: iter(range(12)))
    assert target(stream).build().dataset is stream


@pytest.mark.scan
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_hugging_face_datasets() -> None:
    datasets = importlib.import_module("datasets")
    table = datasets.Dataset.from_dict({"x": list(range(4))})
    stream = table.to_iterable_dataset(num_shards=2)
    assert [row["x"] for row in target(table).build(num_workers=0)] == [0, 1, 2, 3]
    assert sorted(row["x"] for row in target(lambda: stream).build()) == [0, 1, 2, 3]
    assert names(datasets.DatasetDict(train=table, test=table)) == ["train", "test"]
    assert names(datasets.IterableDatasetDict(train=stream)) == ["train"]
    assert names(lambda: (DataLoader(table), table)) == ["make"]
