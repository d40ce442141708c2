"""What torch's pinning reaches, type by type: measured on torch 2.13 and 2.15."""

from __future__ import annotations

import inspect
from collections import OrderedDict, UserDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data._utils.pin_memory import pin_memory

from dataguard.lab.batches.collate_observations import Pinning, can_pin, try_pinning

Pair = namedtuple("Pair", "x y")
LISTS = "Backwards compatibility" in inspect.getsource(pin_memory)
"""Whether this torch makes a list of a tuple, as 2.4 does, which also gives up on containers that raise."""


@dataclass(unsafe_hash=True)
class Record:
    x: Any


class PinnedRecord(Record):
    def pin_memory(self) -> PinnedRecord:
        return PinnedRecord(self.x.pin_memory())


class Forgetful(Record):
    def pin_memory(self) -> Forgetful:
        self.x.pin_memory()
        return self


class Vanishing(Record):
    def pin_memory(self) -> None:
        self.x = self.x.pin_memory()


class Plain:
    def __init__(self, x: Any) -> None:
        self.x = x


class AttributeDict(dict[str, Any]):
    __getattr__ = dict.get


class TwoMaps(Mapping[str, Any]):
    def __init__(self, one: Any, two: Any) -> None:
        self.both = {"one": one, "two": two}

    def __getitem__(self, key: str) -> Any:
        return self.both[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.both)

    def __len__(self) -> int:
        return 2


class PairTuple(tuple[Any, ...]):
    def __new__(cls, one: Any, two: Any) -> PairTuple:
        return super().__new__(cls, (one, two))


def ones() -> torch.Tensor:
    return torch.ones(2)


# The batch, the type that comes out, the tensors in that, and the paths of those that are not pinned.
REACHED: dict[str, tuple[Callable[[], Any], str, int, tuple[str, ...]]] = {
    "tensor": (ones, "Tensor", 1, ()),
    "list": (lambda: [ones(), [ones()]], "list", 2, ()),
    "tuple": (lambda: (ones(),), "list" if LISTS else "tuple", 1, ()),
    "dict": (lambda: {"a": ones(), "b": {"c": ones()}}, "dict", 2, ()),
    "named tuple": (lambda: Pair(ones(), ones()), "Pair", 2, ()),
    "UserDict": (lambda: UserDict(x=ones()), "UserDict", 1, ()),
    "dataclass": (lambda: Record(ones()), "Record", 1, (".x",)),
    "dataclass that pins": (lambda: PinnedRecord(ones()), "PinnedRecord", 1, ()),
    "plain object": (lambda: Plain(ones()), "Plain", 1, (".x",)),
    "pinned copy dropped": (lambda: Forgetful(ones()), "Forgetful", 1, (".x",)),
    "pin_memory returns None": (lambda: Vanishing(ones()), "NoneType", 0, ()),
    "set": (lambda: {ones()}, "set", 1, ("[0]",)),
    "set of dataclasses": (lambda: {Record(ones())}, "set", 1, ("[0].x",)),
    "deque": (lambda: deque([ones()]), "deque", 1, ()),
    "numpy": (lambda: np.ones(2), "ndarray", 0, ()),
    "SimpleNamespace": (lambda: SimpleNamespace(x=ones()), "SimpleNamespace", 1, (".x",)),
    "PackedSequence": (lambda: pack_sequence([ones()]), "PackedSequence", 1, ()),
    "mapping of two arguments": (lambda: TwoMaps(ones(), ones()), "dict", 2, ()),
    "generator": (lambda: (ones() for _ in range(1)), "generator", 0, ()),
    "list of dataclasses": (lambda: [Record(ones())], "list", 1, ("[0].x",)),
    "dict of objects": (lambda: {"a": Plain(ones())}, "dict", 1, ("['a'].x",)),
    "OrderedDict": (lambda: OrderedDict(x=ones()), "OrderedDict", 1, ()),
    "defaultdict": (lambda: defaultdict(list, x=ones()), "defaultdict", 1, ()),
    "MappingProxy": (lambda: MappingProxyType({"x": ones()}), "mappingproxy", 1, ()),
    "sparse": (lambda: ones().to_sparse(), "Tensor", 1, ()),
    "Parameter": (lambda: torch.nn.Parameter(ones()), "Tensor", 1, ()),
    "no tensors": (lambda: {"names": ["a"], "label": 1}, "dict", 0, ()),
}


@pytest.mark.parametrize("name", REACHED)
def test_what_is_reached(name: str) -> None:
    make, result, tensors, unpinned = REACHED[name]
    found = try_pinning(make())
    assert (found.result, found.tensors, found.unpinned, found.refused) == (result, tensors, unpinned, None)


@pytest.mark.skipif(LISTS, reason="this torch gives up on such containers, and raises nothing")
@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (AttributeDict(x=ones()), "TypeError: 'NoneType' object is not callable"),
        (PairTuple(ones(), ones()), "TypeError: PairTuple.__new__() missing 1 required positional argument: 'two'"),
    ],
    ids=["attribute dict", "tuple of a class of its own"],
)
def test_what_pinning_raises(batch: Any, words: str) -> None:
    assert try_pinning(batch).refused == words


def test_tensors_pin_as_before_afterwards() -> None:
    before = torch.Tensor.pin_memory
    try_pinning(AttributeDict(x=ones()))
    assert torch.Tensor.pin_memory is before


def test_tensors_on_a_device_are_not_to_be_pinned() -> None:
    assert try_pinning([torch.ones(1, device="meta")]) == Pinning(0, 0, (), "list", "list")


@pytest.mark.skipif(not can_pin(), reason="no accelerator")
@pytest.mark.parametrize("name", ["dict", "dataclass", "pinned copy dropped", "sparse"])
def test_memory_that_is_really_pinned(name: str) -> None:
    make, _, tensors, unpinned = REACHED[name]
    found = try_pinning(make(), real=True)
    assert (found.tensors, found.unpinned) == (tensors, unpinned)
