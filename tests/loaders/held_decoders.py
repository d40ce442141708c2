"""Loaders whose datasets hold a decoder by reference, each in another way, with one of three bugs.

Each function of `HOLDERS` gets a decoder (`cv2.imread`, or `PIL.Image.open`) and returns a function that reads a path
with it. The bugs are those of `swapped`, `unscaled` and `sideways`.
"""

from __future__ import annotations

import asyncio
import collections
import contextvars
import enum
import functools
import itertools
import operator
import types
import typing
import weakref
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import albumentations
import cv2
import numpy as np
import torch
from cv2 import imread
from PIL import Image
from PIL.Image import open as open_image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import datasets, transforms

from sample_datasets._parts import PHOTOGRAPHS
from sample_datasets.dg505_swapped_channels import MEAN, STD
from sample_datasets.dg508_ignored_orientation import CAMERA
from tests.support.faces import EVERY_FACE, TENTH, in_tenth

Read = Callable[[str], Any]

IMPORTED: dict[str, Any] = {"cv2": imread, "PIL": open_image}
"""A table of the module, filled when it is imported."""


def _imported(decoder: Read) -> Any:
    return IMPORTED["cv2" if decoder is cv2.imread else "PIL"]


def by_default(path: str, bgr: Read = cv2.imread, pil: Read = Image.open, *, colour: bool = False) -> Any:
    return (bgr if colour else pil)(path)


def by_keyword_default(path: str, *, bgr: Read = cv2.imread, pil: Read = Image.open, colour: bool = False) -> Any:
    return (bgr if colour else pil)(path)


class OnTheClass:
    bgr = cv2.imread
    pil = staticmethod(Image.open)
    both: typing.ClassVar = {"bgr": cv2.imread, "pil": Image.open}


class Slotted:
    __slots__ = ("read",)

    def __init__(self, read: Read) -> None:
        self.read = read


class Callee:
    def __init__(self, read: Read) -> None:
        functools.update_wrapper(self, read)
        self.read = read

    def __call__(self, path: str) -> Any:
        return self.read(path)


class Kind(enum.Enum):
    BGR = functools.partial(cv2.imread)
    PIL = functools.partial(Image.open)


@dataclass
class Options:
    bgr: Read = cv2.imread
    pil: Read = field(default_factory=lambda: Image.open)


class Pair(typing.NamedTuple):
    bgr: Read = cv2.imread
    pil: Read = Image.open


class Property:
    def __init__(self, decoder: Read) -> None:
        self._decoder = decoder

    @property
    def read(self) -> Read:
        return self._decoder


class Getting:
    def __init__(self, decoder: Read) -> None:
        self._table = {"read": decoder}

    def __getattr__(self, name: str) -> Any:
        return self.__dict__["_table"][name]


class Partial:
    def __init__(self, read: Read) -> None:
        self.decoder = read

    def call(self, read: Read, path: str) -> Any:
        return read(path)

    bgr = functools.partialmethod(call, cv2.imread)
    pil = functools.partialmethod(call, Image.open)


def wrapped(read: Read) -> Read:
    @functools.wraps(read)
    def call(path: str) -> Any:
        return read(path)

    return call


def closed_over(read: Read) -> Read:
    return lambda path: read(path)


def twice_closed_over(read: Read) -> Read:
    def outer() -> Read:
        def inner(path: str) -> Any:
            return read(path)

        return inner

    return outer()


def generated(read: Read) -> Read:
    def running() -> Generator[Any, str, None]:
        value: Any = ""
        while True:
            value = read((yield value))

    generator: Any = running()
    next(generator)
    return typing.cast(Read, generator.send)


def dispatched(read: Read) -> Read:
    table = functools.singledispatch(lambda path: None)
    table.register(str, lambda path: read(path))
    return table


def in_a_context(read: Read) -> Read:
    variable = contextvars.ContextVar("variable", default=read)
    return lambda path: variable.get()(path)


def in_a_thread(read: Read) -> Read:
    def run(path: str) -> Any:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(read, path).result()

    return run


def awaited(read: Read) -> Read:
    async def run(path: str) -> Any:
        return read(path)

    return lambda path: asyncio.run(run(path))


def executed(read: Read) -> Read:
    space: dict[str, Any] = {}
    exec("from cv2 import imread as bgr\nfrom PIL.Image import open as pil", space)  # as plugins of a configuration
    return typing.cast(Read, space["bgr" if read is cv2.imread else "pil"])


def weak(reference: Any) -> Read:
    return lambda path: reference()(path)


def _one(bgr: Any, pil: Any) -> Callable[[Read], Read]:
    return lambda read: bgr if read is cv2.imread else pil


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "module": _one(lambda path: cv2.imread(path), lambda path: Image.open(path)),
    "from_import": _one(lambda path: imread(path), lambda path: open_image(path)),
    "attribute": lambda read: read,
    "class_attribute": _one(OnTheClass.bgr, OnTheClass.pil),
    "class_table": _one(OnTheClass.both["bgr"], OnTheClass.both["pil"]),
    "instance": lambda read: types.SimpleNamespace(read=read).read,
    "partial": lambda read: functools.partial(read),
    "partial_of_partial": lambda read: functools.partial(functools.partial(functools.partial(read))),
    "partial_keyword": lambda read: functools.partial(lambda path, read: read(path), read=read),
    "partialmethod": lambda read: Partial(read).bgr if read is cv2.imread else Partial(read).pil,
    "closure": closed_over,
    "nested_closure": twice_closed_over,
    "default": lambda read: functools.partial(by_default, colour=read is cv2.imread),
    "keyword_default": lambda read: functools.partial(by_keyword_default, colour=read is cv2.imread),
    "lambda_default": lambda read: lambda path, decode=read: decode(path),
    "module_table": _imported,
    "dict": lambda read: {"read": read}["read"],
    "list": lambda read: [None, read][1],
    "tuple": lambda read: (0, read)[1],
    "deque": lambda read: collections.deque([read])[0],
    "chain_map": lambda read: collections.ChainMap({}, {"read": read})["read"],
    "frozenset": lambda read: next(iter(frozenset([read]))),
    "default_dict": lambda read: collections.defaultdict[str, Any](lambda: read)["any"],
    "slots": lambda read: Slotted(read).read,
    "dataclass": lambda read: Options().bgr if read is cv2.imread else Options().pil,
    "named_tuple": lambda read: Pair()[read is not cv2.imread],
    "enum": lambda read: (Kind.BGR if read is cv2.imread else Kind.PIL).value,
    "property": lambda read: Property(read).read,
    "getattr": lambda read: Getting(read).read,
    "by_name": _one(operator.attrgetter("imread")(cv2), getattr(Image, "open")),  # noqa: B009 - the spelling in question
    "wraps": wrapped,
    "callable_object": Callee,
    "lru_cache": lambda read: functools.lru_cache(maxsize=2)(read),
    "cached_closure": lambda read: functools.lru_cache(maxsize=2)(closed_over(read)),
    "singledispatch": dispatched,
    "generator": generated,
    "context": in_a_context,
    "thread": in_a_thread,
    "coroutine": awaited,
    "map": lambda read: lambda path: next(map(read, [path])),
    "starmap": lambda read: lambda path: next(itertools.starmap(read, [(path,)])),
    "reduce": lambda read: lambda path: functools.reduce(lambda _, step: step(path), [read], None),
    "weak": lambda read: weak(weakref.ref(read)),
    "method_type": lambda read: lambda path: types.MethodType(read, path)(),
    "executed": executed,
    "t_lambda": lambda read: transforms.Lambda(read),
    "compose": lambda read: transforms.Compose([read, transforms.Lambda(lambda image: image)]),
    "albumentations": lambda read: _albumentations(read),
}


def _albumentations(read: Read) -> Read:
    def apply(image: np.ndarray, **_: Any) -> Any:
        return np.asarray(read(PHOTOGRAPHS_BY_NUMBER[int(image[0, 0, 0])]))

    pipeline = albumentations.Lambda(image=apply, name="read")

    def run(path: str) -> Any:
        number = PHOTOGRAPHS_BY_NUMBER.index(path)
        return pipeline(image=np.full((1, 1, 3), number, np.uint8))["image"]

    return run


PHOTOGRAPHS_BY_NUMBER = [str(path) for path in [*PHOTOGRAPHS, *CAMERA]]


class Held(Dataset):
    """Images that `read` decodes and `finish` makes tensors of."""

    def __init__(self, paths: list[Path], read: Read, finish: Callable[[Any], Tensor]) -> None:
        self.paths = paths
        self.read = read
        self.finish = finish

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Tensor:
        return self.finish(self.read(str(self.paths[index])))


def _tensor(image: np.ndarray, scale: float) -> Tensor:
    resized = cv2.resize(image, (48, 48), interpolation=cv2.INTER_AREA)
    return torch.from_numpy(resized).permute(2, 0, 1).float() / scale


def _normalized(image: Any) -> Tensor:
    tensor: Tensor = transforms.Normalize(MEAN, STD)(_tensor(image, 255))
    return tensor


def _unscaled(image: Any) -> Tensor:
    tensor: Tensor = transforms.Normalize(MEAN, STD)(_tensor(cv2.cvtColor(image, cv2.COLOR_BGR2RGB), 1))
    return tensor


def _sideways(image: Any) -> Tensor:
    image = image if isinstance(image, Image.Image) else Image.fromarray(image)
    tensor: Tensor = transforms.Compose([transforms.Resize((32, 32)), transforms.ToTensor()])(image.convert("RGB"))
    return tensor


def _all(
    paths: list[Path], decoder: Read, finish: Callable[[Any], Tensor], holders: Iterable[str] = HOLDERS
) -> dict[str, DataLoader[Any]]:
    return {name: DataLoader(Held(paths, HOLDERS[name](decoder), finish), batch_size=4) for name in holders} | {
        "image_folder": DataLoader(_folder(paths, decoder, finish), batch_size=4)
    }


def of_the_tenth() -> list[str]:
    """The ways to hold a decoder that are tried with every bug; all are tried with one of them."""
    return [name for name in HOLDERS if EVERY_FACE or in_tenth(f"held_decoders:{name}", int(TENTH or 0))]


def _folder(paths: list[Path], decoder: Read, finish: Callable[[Any], Tensor]) -> Dataset:
    folder: Dataset = datasets.DatasetFolder(
        str(paths[0].parents[1]), loader=decoder, extensions=(paths[0].suffix,), transform=finish
    )
    return folder


def swapped() -> dict[str, DataLoader[Any]]:
    """DG505: the channels of OpenCV under ImageNet's statistics."""
    return _all(PHOTOGRAPHS, cv2.imread, _normalized)


def unscaled() -> dict[str, DataLoader[Any]]:
    """DG506: not divided by 255."""
    return _all(PHOTOGRAPHS, cv2.imread, _unscaled, of_the_tenth())


def sideways() -> dict[str, DataLoader[Any]]:
    """DG508: the orientation that cameras note is ignored."""
    return _all(CAMERA, Image.open, _sideways, of_the_tenth())
