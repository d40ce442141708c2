"""Loaders are found in whatever a factory hands out, and get the names that stand there."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple

import numpy
import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler

from dataguard.core.model import Status, UsageError
from dataguard.engine import scan
from dataguard.settings.settings import Settings
from tests.support.targets import Data, Gathered, Plain, Stream, Ten, loader, names, target

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")


class Pair(NamedTuple):
    train: Any
    val: Any


class Split(str, Enum):
    TRAIN = "train"
    VAL = "val"


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


class Own:
    """A loader that derives from no other, which iterates over its dataset."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return 5

    def __iter__(self):
        return (torch.stack([torch.tensor(self.dataset[place + step]) for step in (0, 1)]) for place in range(0, 10, 2))


class Offers:
    """Makes a loader where a property, or a method without arguments, is read; others need more."""

    @property
    def train_loader(self) -> Any:
        return loader()

    def get_val_dataloader(self, shuffle: bool = False) -> Any:
        return loader()

    def test_loader(self, split: str) -> Any:
        raise AssertionError(split)

    def reset_loader(self) -> Any:
        raise AssertionError


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
    "pair": (lambda: (loader(), loader()), ["train", "val"]),
    "triple": (lambda: (loader(), loader(), loader()), ["train", "val", "test"]),
    "four": (lambda: (loader(), loader(), loader(), loader()), ["0", "1", "2", "3"]),
    "pair of named": (
        lambda: ({"train": loader(), "val": loader()}, {"train": loader(), "val": loader()}),
        ["0.train", "0.val", "1.train", "1.val"],
    ),
    "list": (lambda: [loader(), loader(), loader()], ["0", "1", "2"]),
    "tuple of one": (lambda: (loader(),), ["make"]),
    "loader and number": (lambda: (loader(), 10), ["make"]),
    "train, val, number": (lambda: (loader(), 10, loader()), ["train", "val"]),
    "number, train, val": (lambda: (10, loader(), loader()), ["train", "val"]),
    "loader and none": (lambda: (loader(), None), ["make"]),
    "loader and vocabulary": (lambda: (loader(), Vocabulary()), ["make"]),
    "vocabulary and loader": (lambda: (Vocabulary(), loader()), ["make"]),
    "loader and dataset": (lambda: (Ten(), loader()), ["make"]),
    "loader and wrapper": (lambda: (loader(), Prefetch(loader())), ["train", "val"]),
    "loader and list": (lambda: (loader(), [loader(), loader()]), ["train", "val.0", "val.1"]),
    "loader and list of one": (lambda: (loader(), [loader()]), ["train", "val"]),
    "loader and dict": (lambda: (loader(), {"a": loader(), "b": loader()}), ["train", "val.a", "val.b"]),
    "dict in tuple": (lambda: ({"train": loader(), "val": loader()}, 10), ["train", "val"]),
    "datasets in tuple": (lambda: (Ten(), Plain()), ["train", "val"]),
    "dataset and tensors": (lambda: (Ten(), torch.zeros(3), numpy.zeros(3), range(3), "abc"), ["make"]),
    "dataset and text": (lambda: {"data": Ten(), "split": Split.TRAIN}, ["data"]),
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
    "own loader": (lambda: Own(Ten()), ["make"]),
    "own loader beside others": (lambda: {"source": loader(), "target": Own(Plain())}, ["source", "target"]),
    "own loader in a pair": (lambda: (loader(), Own(Ten())), ["train", "val"]),
    "own loader and datasets": (lambda: {"train": Own(Ten()), "data": Ten()}, ["train"]),
    "own loaders of an object": (
        lambda: types.SimpleNamespace(train=Own(Ten()), rest=[Own(Ten()), Own(Ten())]),
        ["train", "rest.0", "rest.1"],
    ),
    "own loader and loader of an object": (
        lambda: types.SimpleNamespace(val=Own(Ten()), train=loader()),
        ["train", "val"],
    ),
    "own loaders that an object gathers": (Gathered, ["loaders.0", "loaders.1"]),
    "properties and methods": (Offers, ["train_loader", "val_dataloader"]),
    "loader beside what offers others": (lambda: (loader(), Offers()), ["make"]),
    "loader and sampler": (lambda: (loader(), DistributedSampler(Ten(), 2, 0)), ["make"]),
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
    assert str(error.value) == "pkg.mod:make has two loaders named 'a.b'; name them differently"


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


@pytest.mark.scan
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


@pytest.mark.scan
@pytest.mark.parametrize("kind", [Ten, Plain, Stream])
def test_a_bare_dataset_is_read_as_it_is(kind: type) -> None:
    bare: Any = target(kind).build()
    assert sorted(set(bare)) == list(range(10))
    assert (bare.batch_size, bare.num_workers, bare.collate_fn("sample")) == (None, 2, "sample")
