"""Batches that no DataLoader makes: iterables, and functions that return one batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
import torch

import dataguard
from dataguard.core.model import UsageError
from dataguard.targets.loading import Target


class Windows:
    """Batches of an object that is iterated anew in each epoch."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        return (torch.full((4, 3), float(number)) for number in range(12))


def one_batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(4, 3), torch.arange(4)


def generated() -> Iterator[dict[str, torch.Tensor]]:
    yield from ({"x": torch.full((4, 3), float(number))} for number in range(12))


def with_nan() -> Iterator[torch.Tensor]:
    yield from (torch.full((4, 3), float("nan") if number == 7 else number) for number in range(12))


def yields_a_loader() -> Iterator[Any]:
    yield torch.utils.data.DataLoader([1, 2])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "source", [one_batch, generated, Windows, Windows()], ids=["batch", "generator", "class", "iterable"]
)
def test_each_epoch_has_batches(source: Any) -> None:
    ((name, loader),) = Target("name", "pkg.mod:name", source).build_all().items()
    assert name == "name"
    first, second = (list(islice(loader, 12)) for _ in range(2))
    assert len(first) == len(second) == 12
    assert all(isinstance(batch, torch.Tensor | tuple | dict) for batch in first + second)


def test_streams_have_the_names_of_their_keys() -> None:
    target = Target("name", "pkg.mod:name", lambda: {"train": Windows(), "val": Windows()})
    assert list(target.build_all()) == ["train", "val"]
    functions = {"train": one_batch, "val": generated}
    for source in (functions, lambda: functions):
        loaders = Target("name", "pkg.mod:name", source).build_all()
        assert [len(list(islice(loader, 12))) for loader in loaders.values()] == [12, 12]
        assert list(loaders) == ["train", "val"]
    for loader in Target("name", "pkg.mod:name", lambda: {"train": generated(), 1: generated()}).build_all().values():
        first, second = (len(list(islice(loader, 12))) for _ in range(2))  # each epoch has a generator of its own
        assert first == second == 12


def loader() -> torch.utils.data.DataLoader[Any]:
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.arange(8.0)), 4)


def endless() -> Iterator[Any]:
    batches = loader()
    while True:
        yield from batches


def cycled(batches: Any) -> Iterator[Any]:
    while True:
        for batch in batches:  # noqa: UP028
            yield batch


def doubled() -> Iterator[Any]:
    for (batch,) in loader():
        yield 2 * batch


def warmed_up() -> Iterator[Any]:
    yield next(iter(loader()))
    yield from loader()


def test_the_loader_whose_batches_a_generator_passes_on_is_scanned() -> None:
    for source in (endless, lambda: cycled(loader()), lambda: {"train": cycled(loader()), "val": endless()}):
        loaders = Target("name", "pkg.mod:name", source).build_all(num_workers=1)
        assert [(len(found), found.num_workers) for found in loaders.values()] == [(2, 1)] * len(loaders)
    for source in (doubled, warmed_up):  # these batches are no loader's, or not only
        assert Target("name", "pkg.mod:name", source).build().batch_size is None


@pytest.mark.scan
def test_a_function_that_returns_one_batch_is_scanned() -> None:
    report = dataguard.check(one_batch, select=["DG001", "DG501", "DG104"])
    assert not report.failed
    assert [result.code for result in report.results if result.status.value == "passed"] == ["DG001", "DG501"]


@pytest.mark.scan
def test_a_defect_of_an_iterable_is_found() -> None:
    assert [result.code for result in dataguard.check(with_nan, select=["DG001", "DG501"]).failed] == ["DG501"]


@pytest.mark.scan
def test_a_factory_that_yields_its_loader_is_told_to_return_it() -> None:
    (failed,) = dataguard.check(yields_a_loader, select=["DG001"]).failed
    assert "did you mean return instead of yield?" in failed.findings[0].message


def test_a_generator_in_hand_can_be_iterated_once() -> None:
    with pytest.raises(UsageError, match="pass a function that makes it"):
        Target("name", "pkg.mod:name", generated()).build_all()
