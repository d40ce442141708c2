"""Anything that can be called is a factory: what it is given by name, and what is said when it gives no loader."""

from __future__ import annotations

import functools
import itertools
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from dataguard.core.model import UsageError
from dataguard.targets.loading import frames_of
from dataguard.targets.spelling import FACTORY_PARAMETERS
from tests.support.targets import KINDS, Data, Make, Ten, loader, target

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")


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
    return f"pkg.mod:make needs {name}: add --arg {name}=..., or save this as dataguard_loaders.py, "


WRONG: list[tuple[Any, str]] = [
    (needs, needs_message("path")),
    (needs_keyword, needs_message("path")),
    (needs_rank, needs_message("rank")),
    (needs_root, needs_message("root")),
    (Make.plainly, "pkg.mod:make is a method: name a function that creates the object and calls it"),
    (DataLoader, needs_message("dataset")),
    (coroutine, ASYNC),
    (AsyncMake(), ASYNC),
    (functools.partial(coroutine), ASYNC),
    (lambda: None, "returned None (is a return missing?)"),
    (lambda: 3, "returned an int"),
    (lambda: "abc", "returned a str"),
    (lambda: DataLoader, "returned the class DataLoader (is a call missing?)"),
    (lambda: loader, "returned the function loader (is a call missing?)"),
    (lambda: [].append, "returned the function append (is a call missing?)"),
    (dict, "returned an empty dict"),
    (tuple, "returned an empty tuple"),
    (lambda: {"classes": 3}, "returned a dict of int"),
    (lambda: [None, 3], "returned a list of NoneType"),
    (lambda: {"a": {"b": []}}, "returned a dict of dict"),
    (lambda: [torch.nn.ReLU()], "returned a list of torch.nn.modules.activation.ReLU"),
    (lambda: iter(loader()), "returned a _SingleProcessDataLoaderIter"),
    (lambda: torch.nn.Sequential(torch.nn.ReLU()), "returned a Sequential"),
    (lambda: range(3), "returned a range"),
    (lambda: Data(None), "returned a Data"),
    (Empty, "returned an Empty"),
    (lambda: {"train": loader(), "val": [1, 2]}, "pkg.mod:make: 'val' is a list of int"),
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
    expected = message if message.startswith("pkg") else f"pkg.mod:make {message}, {KINDS}"
    assert str(error.value).startswith(expected)


def test_what_the_users_code_raises_passes_through_with_its_own_frames_only() -> None:
    def factory():
        return DataLoader(Ten(), num_workers=-1)

    with pytest.raises(ValueError, match="num_workers") as error:
        target(factory).build()
    frames = [frame for frame in frames_of(error.value) if frame.file != __file__]
    assert {Path(frame.file).name for frame in frames} == {"dataloader.py"}
    assert any(frame.function == "factory" for frame in frames_of(error.value))
