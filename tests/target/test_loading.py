"""From what the user wrote behind `pkg.mod:attr` to named loaders, or to one sentence with the way out."""

from __future__ import annotations

import collections
import dataclasses
import functools
import importlib
import itertools
import subprocess
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from dataguard.engine import scan
from dataguard.model import Status, UsageError
from dataguard.settings.settings import Settings
from dataguard.target.loading import FACTORY_PARAMETERS, Target, frames_of, load

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")

KINDS = "not a DataLoader, a Dataset, a dict, tuple or dataclass of them, or a LightningDataModule"
GIVEN = "given by name when accepted: rank, world_size, seed, epoch, num_workers"


class Ten(Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, index):
        return index


class Plain:
    """No torch Dataset, but one to a DataLoader."""

    def __len__(self):
        return 10

    def __getitem__(self, index):
        return index


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(10))


class Foreign:
    """A loader that torch knows nothing of."""

    def __init__(self):
        self.dataset = Ten()

    def __iter__(self):
        return iter(range(10))


class Gathered(Plain):
    """As fastai gathers its loaders: by length and index it could be a dataset."""

    def __init__(self):
        self.loaders = [Foreign(), Foreign()]


def loader(**arguments: Any) -> DataLoader:
    return DataLoader(Ten(), **{"batch_size": 5, **arguments})


def target(source: Any) -> Target:
    return Target("make", "pkg.mod:make", source)


def names(source: Any) -> list[str]:
    return list(target(source).build_all())


class Pair(NamedTuple):
    train: Any
    val: Any


@dataclasses.dataclass
class Data:
    train: Any
    val: Any = None
    classes: int = 10


class Split(Enum):
    TRAIN = 1
    VAL = 2


class Prefetch:
    """Iterated in place of the loader that it holds, as timm's PrefetchLoader is."""

    def __init__(self, *held):
        self.mean = torch.zeros(3)
        self.loader = held[0] if len(held) == 1 else list(held)

    def __iter__(self):
        return iter(self.loader)


class Combined:
    """Holds each loader twice, in a structure and flattened, as Lightning's CombinedLoader does."""

    def __init__(self, loaders: Any) -> None:
        self._iterables = loaders
        self._flattened = list(loaders.values() if isinstance(loaders, Mapping) else loaders)

    def __iter__(self):
        return self


class Adapter:
    """Passes for the DataLoader that it holds, as accelerate's prepared loaders do."""

    def __init__(self, held):
        self.base_dataloader = held

    def __getattr__(self, name):
        if name == "base_dataloader":
            raise AttributeError
        return getattr(self.base_dataloader, name)

    @property  # type: ignore[misc]
    def __class__(self):
        return self.base_dataloader.__class__

    def __iter__(self):
        return iter(self.base_dataloader)


class Vocabulary(Plain):
    """Has a length and an index, and is still no dataset when a loader stands beside it."""


# What a factory hands out, and the names of the loaders in it.
PRODUCTS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "loader": (loader, ["make"]),
    "dataset": (Ten, ["make"]),
    "plain dataset": (Plain, ["make"]),
    "stream": (Stream, ["make"]),
    "dict": (lambda: {"train": loader(), "val": loader()}, ["train", "val"]),
    "dict of one": (lambda: {"train": loader()}, ["train"]),
    "dict of datasets": (lambda: {"train": Ten(), "val": Plain()}, ["train", "val"]),
    "dict with other things": (lambda: {"train": loader(), "classes": ["a", "b"], "data": Ten()}, ["train"]),
    "dict by number": (lambda: {0: loader(), 1: loader()}, ["0", "1"]),
    "dict by enum": (lambda: {Split.TRAIN: loader(), Split.VAL: loader()}, ["train", "val"]),
    "ordered dict": (lambda: collections.OrderedDict(b=loader(), a=loader()), ["b", "a"]),
    "mapping": (lambda: types.MappingProxyType({"train": loader()}), ["train"]),
    "tuple": (lambda: (loader(), loader()), ["0", "1"]),
    "list": (lambda: [loader(), loader(), loader()], ["0", "1", "2"]),
    "tuple of one": (lambda: (loader(),), ["make"]),
    "loader and number": (lambda: (loader(), 10), ["make"]),
    "train, val, number": (lambda: (loader(), loader(), 10), ["0", "1"]),
    "number, train, val": (lambda: (10, loader(), loader()), ["1", "2"]),
    "loader and none": (lambda: (loader(), None), ["make"]),
    "loader and vocabulary": (lambda: (loader(), Vocabulary()), ["make"]),
    "vocabulary and loader": (lambda: (Vocabulary(), loader()), ["make"]),
    "loader and dataset": (lambda: (Ten(), loader()), ["make"]),
    "loader and wrapper": (lambda: (loader(), Prefetch(loader())), ["0", "1"]),
    "loader and list": (lambda: (loader(), [loader(), loader()]), ["0", "1.0", "1.1"]),
    "loader and list of one": (lambda: (loader(), [loader()]), ["0", "1"]),
    "loader and dict": (lambda: (loader(), {"a": loader(), "b": loader()}), ["0", "1.a", "1.b"]),
    "dict in tuple": (lambda: ({"train": loader(), "val": loader()}, 10), ["train", "val"]),
    "datasets in tuple": (lambda: (Ten(), Plain()), ["0", "1"]),
    "dataset and tensors": (lambda: (Ten(), torch.zeros(3), numpy.zeros(3), range(3), "abc"), ["make"]),
    "dataset and module": (lambda: (Ten(), torch.nn.Sequential(torch.nn.ReLU())), ["make"]),
    "namedtuple": (lambda: Pair(loader(), loader()), ["train", "val"]),
    "namedtuple of one": (lambda: Pair(loader(), None), ["train"]),
    "dataclass": (lambda: Data(loader(), loader()), ["train", "val"]),
    "dataclass of one": (lambda: Data(loader()), ["train"]),
    "dataclass of lists": (lambda: Data(loader(), [loader(), loader()]), ["train", "val.0", "val.1"]),
    "nested dict": (lambda: {"en": {"train": loader()}, "de": {"train": loader()}}, ["en.train", "de.train"]),
    "namespace": (lambda: types.SimpleNamespace(train=loader(), val=[loader(), loader()]), ["train", "val.0", "val.1"]),
    "wrapper": (lambda: Prefetch(loader()), ["make"]),
    "wrapper of two": (lambda: Prefetch(loader(), loader()), ["0", "1"]),
    "wrapper of wrapper": (lambda: Prefetch(Prefetch(loader())), ["make"]),
    "dict of wrappers": (lambda: {"train": Prefetch(loader()), "val": Prefetch(loader())}, ["train", "val"]),
    "combined list": (lambda: Combined([loader(), loader()]), ["0", "1"]),
    "combined list of one": (lambda: Combined([loader()]), ["make"]),
    "combined dict": (lambda: Combined({"a": loader(), "b": loader()}), ["a", "b"]),
    "adapter": (lambda: Adapter(loader()), ["make"]),
    "dict of adapters": (lambda: {"train": Adapter(loader())}, ["train"]),
    "many samples beside a loader": (lambda: (loader(), [object()] * 100_000, {i: i for i in range(10_000)}), ["make"]),
}


@pytest.mark.parametrize(("make", "expected"), PRODUCTS.values(), ids=list(PRODUCTS))
@pytest.mark.parametrize("way", ["factory", "shared"])
def test_loaders_are_found_and_named(make: Callable[[], Any], expected: list[str], way: str) -> None:
    source = make() if way == "shared" else make
    loaders = target(source).build_all(num_workers=3)
    assert list(loaders) == expected
    assert {type(one) for one in loaders.values()} == {DataLoader}
    assert {one.num_workers for one in loaders.values()} == {3}
    assert len({id(one) for one in loaders.values()}) == len(expected)


def test_two_loaders_of_one_name_are_told_apart_by_nobody() -> None:
    with pytest.raises(UsageError) as error:
        names(lambda: {"a.b": loader(), "a": {"b": loader(), "c": loader()}})
    assert str(error.value) == "pkg.mod:make gives two loaders the name 'a.b'; name them differently"


def test_of_a_dict_of_factories_each_is_called_on_its_own() -> None:
    called: list[str] = []

    def making(name: str, product: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: called.append(name) or product()  # type: ignore[func-returns-value]

    both = target({"fit": making("fit", loader), "check": making("check", lambda: {"a": loader(), "b": loader()})})
    assert list(both.build_all()) == ["fit", "check.a", "check.b"]
    called.clear()
    assert both.build("check.b", batch_size=3).batch_size == 3
    assert both.build().batch_size == 5
    assert called == ["check", "fit"]
    with pytest.raises(UsageError, match=r"known: fit, check\.a, check\.b"):
        both.build("other")


def test_a_factory_that_fails_leaves_those_beside_it_alone() -> None:
    report = scan("tests.loaders.factories:some", Settings(select=("DG001", "DG301")))
    failed = {(result.loader, result.code) for result in report.results if result.status is Status.FAILED}
    assert failed == {("raises", "DG001")}
    assert {result.loader for result in report.results if result.status is Status.PASSED} == {"works"}


def test_a_loader_is_built_by_its_name() -> None:
    pair = target(lambda: {"train": loader(batch_size=2), "val": loader(batch_size=5)})
    assert (pair.build().batch_size, pair.build("val").batch_size) == (2, 5)
    with pytest.raises(UsageError) as error:
        pair.build("test")
    assert str(error.value) == "pkg.mod:make has no loader 'test'; known: train, val"


@pytest.mark.parametrize("kind", [Ten, Plain, Stream])
def test_a_bare_dataset_is_read_as_it_is(kind: type) -> None:
    bare: Any = target(kind).build()
    assert sorted(set(bare)) == list(range(10))
    assert (bare.batch_size, bare.num_workers, bare.collate_fn("sample")) == (None, 2, "sample")


class Make:
    """Factories as methods and as instances."""

    def __init__(self, batch_size: int = 5) -> None:
        self.batch_size = batch_size

    def __call__(self) -> DataLoader:
        return loader(batch_size=self.batch_size)

    def plainly(self) -> DataLoader:
        return self()

    @classmethod
    def by_class(cls) -> DataLoader:
        return cls(2)()

    @staticmethod
    def statically() -> DataLoader:
        return loader(batch_size=2)

    @functools.cached_property
    def held(self) -> DataLoader:
        return self()


class OwnLoader(DataLoader):
    def __init__(self, batch_size=2):
        super().__init__(Ten(), batch_size=batch_size)


@functools.lru_cache
def cached() -> DataLoader:
    return loader(batch_size=2)


@pytest.mark.parametrize(
    "source",
    [
        Make.by_class,
        Make.statically,
        Make(2),
        Make(2).plainly,
        Make(2).held,
        OwnLoader,
        cached,
        functools.partial(loader, batch_size=2),
        functools.partial(OwnLoader, 2),
        lambda *args, **kwargs: loader(batch_size=2, **kwargs),
    ],
    ids=itertools.count(),
)
def test_anything_that_can_be_called_is_a_factory(source: Any) -> None:
    built = target(source).build(num_workers=4)
    assert (built.batch_size, built.num_workers) == (2, 4)


def recorder(parameters: str) -> tuple[Callable[..., Any], dict[str, Any]]:
    """A factory with these parameters, and what it was last called with."""
    seen: dict[str, Any] = {}
    scope = {"seen": seen, "loader": loader}
    exec(f"def make({parameters}):\n    seen.update(locals())\n    return loader()", scope)
    made: Any = scope["make"]
    return made, seen


ALL = {"rank": 1, "world_size": 4, "seed": 9, "epoch": 2, "num_workers": 3, "root": "/data"}


@pytest.mark.parametrize("name", FACTORY_PARAMETERS)
@pytest.mark.parametrize(
    "form", ["{}", "{}=None", "{}='default'", "*, {}", "*, {}=None", "{}: 'NotImported' = 5, *args"]
)
def test_a_parameter_is_given_by_name(name: str, form: str) -> None:
    make, seen = recorder(form.format(name))
    target(make).build(given=ALL)
    assert seen[name] == ALL[name]


def test_parameters_are_given_together_and_in_any_order() -> None:
    make, seen = recorder("num_workers, epoch=7, *, seed, root='x', world_size=2, rank, **rest")
    target(make).build(given=ALL)
    assert seen == {**ALL, "rest": {}}


@pytest.mark.parametrize(
    ("parameters", "given", "expected"),
    [
        ("rank, world_size, seed, epoch, num_workers", {}, (0, 1, 0, 0, 2)),
        ("rank=None, world_size=None, epoch=None", {}, (0, 1, 0)),
        ("seed=7, num_workers=5, root='data'", {}, (7, 5, "data")),
        ("seed=7", {"seed": 3}, (3,)),
        ("num_workers, batch_size=8", {"num_workers": 6}, (6, 8)),
        ("rank=5, /", {"rank": 1}, (5,)),
        ("*rank", {"rank": 1}, ((),)),
        ("**seed", {"seed": 1}, ({},)),
        ("ranks=3, my_seed=4", {"rank": 1, "seed": 2}, (3, 4)),
    ],
)
def test_what_is_not_given_keeps_its_default(parameters: str, given: dict[str, Any], expected: tuple[Any, ...]) -> None:
    make, seen = recorder(parameters)
    target(make).build(given=given)
    assert tuple(seen.values()) == expected


def test_an_override_of_the_workers_reaches_the_factory_too() -> None:
    make, seen = recorder("num_workers=5")
    assert target(make).build(num_workers=1).num_workers == 1
    assert seen["num_workers"] == 1


def test_what_a_partial_has_bound_is_only_replaced_on_purpose() -> None:
    make, seen = recorder("rank, world_size, epoch, root, size")
    bound = functools.partial(make, rank=3, world_size=8, root="/mine", size=1)
    target(bound).build()
    assert seen == {"rank": 3, "world_size": 8, "epoch": 0, "root": "/mine", "size": 1}
    target(bound).build(given={"rank": 1, "world_size": 2})
    assert seen == {"rank": 1, "world_size": 2, "epoch": 0, "root": "/mine", "size": 1}


def test_a_class_gets_its_parameters_too() -> None:
    class Seeded(Make):
        def __init__(self, seed, rank=None):
            self.made = loader(batch_size=seed + 1)
            self.rank = rank

    assert target(Seeded).build(given={"seed": 3}).batch_size == 4
    assert target(functools.partial(Seeded, rank=2)).build(given={"seed": 1}).batch_size == 2


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
    easy = lightning.LightningDataModule.from_datasets(Ten(), val_dataset=[Ten(), Ten()], batch_size=4)
    assert names(easy) == ["train", "val.0", "val.1"]
    assert target(easy).build("val.1", in_order=False).in_order is False
    with pytest.raises(UsageError) as error:
        names(Root)
    assert str(error.value).startswith("pkg.mod:make needs an argument 'root'; write a function without arguments")
    with pytest.raises(UsageError) as error:
        names(lightning.LightningDataModule())
    described = "is a LightningDataModule without a *_dataloader hook of its own"
    assert str(error.value) == f"pkg.mod:make {described}, {KINDS}"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_lightning_combined_loaders() -> None:
    combined = importlib.import_module("lightning.pytorch.utilities.combined_loader").CombinedLoader
    assert names(lambda: combined({"a": loader(), "b": loader()})) == ["a", "b"]
    assert names(lambda: {"train": combined([loader(), loader()])}) == ["train.0", "train.1"]


def test_a_data_module_needs_no_lightning() -> None:
    names = "[m for m in sys.modules if 'lightning' in m.lower()]"
    code = f"import sys; from dataguard.target.loading import load; print({names})"
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert outcome.stdout == "[]\n"


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


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty project as the current directory, importable as with pytest; what it adds to sys.modules is removed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    known = set(sys.modules)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "data.py").write_text(GOOD)
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


GOOD = """
from torch.utils.data import DataLoader, Dataset
import os.path

class Loaders:
    @classmethod
    def make(cls):
        return DataLoader(range(10))

def make_train():
    return DataLoader(range(10))

def make_val():
    return DataLoader(range(10))

shared = DataLoader(range(10))
number = 3

class Lazy:
    @property
    def loader(self):
        raise RuntimeError("no data")

lazy = Lazy()
_private = make_train
"""


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("shop.data:make_train", "make_train"),
        ("shop.data:shared", "shared"),
        ("shop.data:Loaders.make", "make"),
        ("train=shop.data:make_train", "train"),
        ("my-name.1=shop.data:make_train", "my-name.1"),
        ("shop.data:_private", "_private"),
        ("train-model:make", "make"),
        ("01_data:make", "make"),
        ("données:faire", "faire"),
    ],
)
def test_a_spelling_is_imported(project: Path, spelling: str, name: str) -> None:
    for file in ("train-model", "01_data", "données"):
        (project / f"{file}.py").write_text(GOOD + "\nmake = faire = make_train\n")
    loaded = load(spelling)
    assert (loaded.name, loaded.spelling) == (name, spelling)
    assert list(loaded.build_all()) == [name]


SPELLINGS = {
    "": "",
    "shop": "",
    "shop.data.make_train": "shop.data:make_train",
    "shop/data.py:make_train": "shop.data:make_train",
    "./shop/data.py:make_train": "shop.data:make_train",
    "{cwd}/shop/data.py:make_train": "shop.data:make_train",
    "shop\\data.py:make_train": "shop.data:make_train",
    "shop/data:make_train": "shop.data:make_train",
    "shop/data.py": "shop.data:factory",
    "shop/data.py::make_train": "shop.data:make_train",
    "shop/__init__.py:make": "shop:make",
    "shop.data::make_train": "shop.data:make_train",
    "shop.data:make_train()": "shop.data:make_train",
    "shop.data:make_train(3, 'x')": "shop.data:make_train",
    "train=shop/data.py:make_train": "train=shop.data:make_train",
    "train=shop.data.make_train": "train=shop.data:make_train",
    "shop.data:": "shop.data:factory",
    ":make": "",
    ".data:make": "",
    "..data:make": "",
    "../data.py:make": "",
    "shop..data:make": "",
    "shop.data:make.": "",
    "shop.data:1": "",
    "my train=shop.data:make": "",
    "shop data:make": "",
    "=shop.data:make": "",
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_wrong_spelling_is_put_right(project: Path, spelling: str) -> None:
    guess = SPELLINGS[spelling]
    spelling = spelling.format(cwd=project)
    with pytest.raises(UsageError) as error:
        load(spelling)
    hint = f" (did you mean {guess}?)" if guess else ""
    assert str(error.value) == f"{spelling!r} is not a target{hint}; write pkg.mod:factory"


WHERE = "it is looked for in the current directory and the installed packages"
MODULES = {
    "typo": "retrun 1\n",
    "raises": "import os\n\ndef f():\n    raise ValueError('no\\nsuch data')\n\nf()\n",
    "needs": "import no_such_library\n",
    "fromless": "from os import no_such_name\n",
    "leaves": "import sys\nsys.exit(2)\n",
    "parses": "import argparse\np = argparse.ArgumentParser()\np.add_argument('x')\np.parse_args([])\n",
    "silent": "raise RuntimeError\n",
    "skips": "import pytest\npytest.skip('not here', allow_module_level=True)\n",
}
IMPORTS = [
    ("shp.data:make", f"no module named 'shp'; {WHERE}; did you mean 'shop'?"),
    ("nowhere_at_all:make", f"no module named 'nowhere_at_all'; {WHERE}"),
    ("shop.dat:make", f"no module named 'shop.dat'; {WHERE}; did you mean 'shop.data'?"),
    ("shop.data.inner:make", f"no module named 'shop.data.inner'; {WHERE}"),
    ("typo:make", "importing typo raised SyntaxError: invalid syntax (typo.py, line 1)"),
    ("raises:make", "importing raises raised ValueError: no at {cwd}/raises.py:4"),
    ("needs:make", "importing needs raised ModuleNotFoundError: No module named 'no_such_library' at {cwd}/needs.py:1"),
    ("leaves:make", "importing leaves raised SystemExit: 2 at {cwd}/leaves.py:2{guard}"),
    ("silent:make", "importing silent raised RuntimeError at {cwd}/silent.py:1"),
    ("shop.data:make", "shop.data has no attribute 'make'; did you mean 'make_val'?"),
    ("shop.data:mke_train", "shop.data has no attribute 'mke_train'; did you mean 'make_train'?"),
    ("shop.data:xyz", "shop.data has no attribute 'xyz'; it has Loaders, make_train, make_val, shared, Lazy"),
    ("shop.data:Loaders.mak", "Loaders has no attribute 'mak'; did you mean 'make'?"),
    ("shop.data:lazy.loader", "reading 'loader' of Lazy raised RuntimeError: no data at {cwd}/shop/data.py:22"),
    ("shop:xyz", "shop has no attribute 'xyz'"),
]


@pytest.mark.parametrize(("spelling", "message"), IMPORTS, ids=[spelling for spelling, _ in IMPORTS])
def test_a_target_that_cannot_be_imported_says_why(project: Path, spelling: str, message: str) -> None:
    for name, text in MODULES.items():
        (project / f"{name}.py").write_text(text)
    with pytest.raises(UsageError) as error:
        load(spelling)
    guard = " (put what a script does below if __name__ == '__main__':)"
    assert str(error.value) == f"{spelling}: {message.format(cwd=project, guard=guard)}"


@pytest.mark.parametrize("module", ["parses", "skips", "fromless"])
def test_a_module_that_ends_the_import_says_so_in_one_line(project: Path, module: str) -> None:
    (project / f"{module}.py").write_text(MODULES[module])
    with pytest.raises(UsageError, match=rf"\A{module}:make: importing {module} raised [^\n]*\Z"):
        load(f"{module}:make")


async def coroutine() -> DataLoader:
    return loader()


class AsyncMake:
    async def __call__(self) -> DataLoader:
        return loader()


def generator() -> Iterator[DataLoader]:
    yield loader()


def needs(path: str) -> DataLoader:
    return loader()


def needs_keyword(*, path: str) -> DataLoader:
    return loader()


def needs_rank(rank: int, /) -> DataLoader:
    return loader()


def needs_root(root: str) -> DataLoader:
    return loader()


class Empty:
    pass


class Elephant:
    pass


ASYNC = "pkg.mod:make is a coroutine function; name a plain function that returns a DataLoader"


def needs_message(name: str) -> str:
    way = "write a function without arguments that calls it, and name that one"
    return f"pkg.mod:make needs an argument {name!r}; {way} ({GIVEN})"


WRONG: list[tuple[Any, str]] = [
    (needs, needs_message("path")),
    (needs_keyword, needs_message("path")),
    (needs_rank, needs_message("rank")),
    (needs_root, needs_message("root")),
    (Make.plainly, needs_message("self")),
    (DataLoader, needs_message("dataset")),
    (coroutine, ASYNC),
    (AsyncMake(), ASYNC),
    (functools.partial(coroutine), ASYNC),
    (lambda: None, "returned None (is a return missing?)"),
    (lambda: 3, "returned an int"),
    (lambda: "abc", "returned a str"),
    (generator, "returned a generator (did you mean return in place of yield?)"),
    (lambda: DataLoader, "returned the class DataLoader (is a call missing?)"),
    (lambda: loader, "returned the function loader (is a call missing?)"),
    (lambda: [].append, "returned the function append (is a call missing?)"),
    (dict, "returned an empty dict"),
    (tuple, "returned an empty tuple"),
    (lambda: {"classes": 3}, "returned a dict without a loader in it"),
    (lambda: [None, 3], "returned a list without a loader in it"),
    (lambda: {"a": {"b": []}}, "returned a dict without a loader in it"),
    (lambda: iter(loader()), "returned a _SingleProcessDataLoaderIter"),
    (lambda: torch.zeros(3), "returned a Tensor"),
    (lambda: numpy.zeros(3), "returned a ndarray"),
    (lambda: torch.nn.Sequential(torch.nn.ReLU()), "returned a Sequential"),
    (lambda: range(3), "returned a range"),
    (lambda: Data(None), "returned a Data"),
    (Empty, "returned an Empty"),
    (Foreign, "returned a Foreign"),
    (Gathered, "returned a Gathered"),
    (Elephant(), "is an Elephant"),
    (3, "is an int"),
    ({}, "is an empty dict"),
    (types, "is a module"),
    (torch.zeros(3), "is a Tensor"),
]


@pytest.mark.parametrize(("source", "message"), WRONG, ids=itertools.count())
def test_a_source_of_no_loader_is_told_so(source: Any, message: str) -> None:
    with pytest.raises(UsageError) as error:
        target(source).build_all()
    assert str(error.value) == message if message.startswith("pkg") else f"pkg.mod:make {message}, {KINDS}"


def test_what_the_users_code_raises_passes_through_with_its_own_frames_only() -> None:
    def factory():
        return DataLoader(Ten(), num_workers=-1)

    with pytest.raises(ValueError, match="num_workers") as error:
        target(factory).build()
    frames = [frame for frame in frames_of(error.value) if frame.file != __file__]
    assert {Path(frame.file).name for frame in frames} == {"dataloader.py"}
    assert any(frame.function == "factory" for frame in frames_of(error.value))


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        ("shop/data.py:make_train", "'shop/data.py:make_train' is not a target (did you mean shop.data:make_train?)"),
        ("shop.dta:make_train", f"shop.dta:make_train: no module named 'shop.dta'; {WHERE}; did you mean 'shop.data'?"),
        ("shop.data:number", f"shop.data:number is an int, {KINDS}"),
        ("shop.data:Lazy", f"shop.data:Lazy returned a Lazy, {KINDS}"),
    ],
)
def test_the_command_line_ends_with_one_error_and_code_2(project: Path, spelling: str, message: str) -> None:
    command = [sys.executable, "-m", "dataguard", "scan", spelling]
    outcome = subprocess.run(command, capture_output=True, text=True, cwd=project, timeout=120)
    assert (outcome.returncode, outcome.stdout) == (2, "")
    line, *rest = outcome.stderr.splitlines()
    assert rest == []
    assert line.startswith(f"dataguard: error: {message}")
