"""The walker over samples and batches: every structure that people put into them."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, UserDict, defaultdict, deque, namedtuple
from datetime import datetime
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn.utils.rnn import pack_sequence

from dataguard.lab.core.leaves import iter_leaves, leaves_of

Pair = namedtuple("Pair", "image label")


@dataclasses.dataclass
class Record:
    image: Any
    label: Any = None


@attrs.define
class Slotted:
    image: Any
    label: Any = None


class Plain:
    def __init__(self, image: Any) -> None:
        self.image = image


class Colour(Enum):
    RED = 1


def image() -> torch.Tensor:
    return torch.arange(6.0).reshape(2, 3)


STRUCTURES: dict[str, tuple[Any, list[str]]] = {
    "tensor": (image(), [""]),
    "pair": ((image(), 1), ["[0]", "[1]"]),
    "dict": ({"image": image(), "meta": {"id": "a", 3: None}}, ["['image']", "['meta']['id']", "['meta'][3]"]),
    "ordered dict": (OrderedDict(image=image()), ["['image']"]),
    "default dict": (defaultdict(list, image=image()), ["['image']"]),
    "user dict": (UserDict(image=image()), ["['image']"]),
    "named tuple": (Pair(image(), 1), [".image", ".label"]),
    "dataclass": (Record(image()), [".image", ".label"]),
    "attrs": (Slotted(image(), 2), [".image", ".label"]),
    "object": (Plain(image()), [".image"]),
    "namespace": (SimpleNamespace(image=image()), [".image"]),
    "nested lists": ([[image(), [1]], "a"], ["[0][0]", "[0][1][0]", "[1]"]),
    "queue": (deque([image(), 1]), ["[0]", "[1]"]),
    "keys without a repr": ({object(): 1, object(): [2]}, ["[<object 0>]", "[<object 1>][0]"]),
    "token numbers": ({"ids": list(range(40))}, ["['ids']"]),
    "array": (np.zeros((2, 2), dtype=np.float32), [""]),
    "array of objects": (np.array([image().numpy(), None], dtype=object), ["[0]", "[1]"]),
    "structured array": (np.zeros(3, dtype=[("x", "f4"), ("y", "i8")]), ["['x']", "['y']"]),
    "picture": (Image.new("RGB", (4, 3)), [""]),
    "sparse": (image().to_sparse(), [""]),
    "nested tensor": (torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged), [""]),
    "packed": (
        pack_sequence([torch.ones(2)]),
        [".data", ".batch_sizes", ".sorted_indices", ".unsorted_indices"],
    ),
    "no content": (torch.empty(2, 3, device="meta"), [""]),
    "none": (None, [""]),
    "set": ({"a", "b"}, [""]),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_every_structure_is_entered(name: str) -> None:
    value, paths = STRUCTURES[name]
    leaves = leaves_of(value)
    assert [leaf.path for leaf in leaves] == paths
    assert leaves == leaves_of(value)
    assert all(leaf.digest for leaf in leaves)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (Path("a"), Path("b")),
        (datetime(2024, 1, 1), datetime(2024, 1, 2)),
        (range(3), range(4)),
        ({1, 2}, {1, 3}),
        (1, True),
        (1, 1.0),
        (np.float32(1), np.float64(1)),
        (torch.ones(2, 3), torch.ones(3, 2)),
        (image().to_sparse(), (image() + 1).to_sparse()),
        ([1] * 30, [2] * 30),
        (Image.new("L", (2, 2), 1), Image.new("L", (2, 2), 2)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_different_contents_have_different_digests(one: Any, two: Any) -> None:
    assert leaves_of(one)[0].digest != leaves_of(two)[0].digest


def test_a_value_is_a_leaf_and_no_object() -> None:
    assert [leaf.path for leaf in leaves_of({"path": Path("a"), "colour": Colour.RED})] == ["['path']", "['colour']"]


def test_an_object_that_holds_itself_ends() -> None:
    record = Record(image())
    record.label = [record]
    assert [leaf.path for leaf in leaves_of(record)] == [".image", ".label[0]"]


def test_types_that_are_to_stay_whole_are_not_entered() -> None:
    assert [path for path, _ in iter_leaves({"pair": Pair(1, 2)}, atomic=(Pair,))] == ["['pair']"]


def test_a_device_other_than_the_cpu_is_recorded() -> None:
    assert [leaf.device for leaf in leaves_of((torch.ones(1), torch.ones(1, device="meta")))] == [None, "meta"]
