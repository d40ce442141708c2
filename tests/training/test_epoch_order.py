"""DG206 live: samplers that repeat their order, and loaders whose order is the same for a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    Sampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torchdata.stateful_dataloader import StatefulDataLoader

from dataguard.training.epoch_order import PREFIX_BATCHES, Order, shuffler_of
from dataguard.training.guard import guard
from tests.support.training_loops import Items, codes, pair, train

pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")  # torchdata calls it

DATA = Items(pair)
LONG = Items(pair, count=PREFIX_BATCHES + 36)


def ranked(dataset: Items = DATA, **options: Any) -> DistributedSampler:
    return DistributedSampler(dataset, num_replicas=2, rank=1, **options)


class Reseeded(Sampler):
    """Shuffles, by the epoch that nobody sets."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        yield from np.random.default_rng(self.epoch).permutation(40)

    def __len__(self) -> int:
        return 40


class Regenerated(DataLoader):
    """Seeds the generator of its order again in every epoch."""

    def __iter__(self) -> Any:
        self.sampler.generator.manual_seed(0)  # type: ignore[attr-defined]
        return super().__iter__()


@pytest.mark.parametrize(
    "make",
    [
        lambda: DataLoader(DATA, batch_size=4, sampler=ranked()),
        lambda: StatefulDataLoader(DATA, batch_size=4, sampler=ranked()),
        lambda: DataLoader(DATA, batch_sampler=BatchSampler(ranked(), 4, False)),
        lambda: DataLoader(DATA, batch_size=None, sampler=ranked()),
        lambda: DataLoader(DATA, batch_size=4, sampler=Reseeded()),
        lambda: Regenerated(DATA, batch_size=4, shuffle=True, generator=torch.Generator()),
    ],
    ids=["distributed", "stateful", "batch sampler", "samples", "own sampler", "generator"],
)
def test_a_repeated_order(make: Callable[[], Any]) -> None:
    assert codes(make(), epochs=2) == {"DG206"}


@pytest.mark.scan
@pytest.mark.parametrize("persistent", [False, True])
def test_workers_do_not_hide_it(persistent: bool) -> None:
    loader = DataLoader(DATA, batch_size=4, sampler=ranked(), num_workers=2, persistent_workers=persistent)
    assert codes(loader, epochs=3) == {"DG206"}


def test_a_long_epoch_is_judged_before_its_end() -> None:
    loader = guard(DataLoader(LONG, sampler=DistributedSampler(LONG, 1, 0)), on_violation="record")
    train(loader)
    for number, _ in enumerate(loader):
        assert (len(guard.report().failed) == 1) == (number + 1 >= PREFIX_BATCHES)
    (result,) = guard.report().failed
    assert result.findings[0].message == "DistributedSampler draws the same order in epochs 0 and 1"
    assert result.findings[0].evidence["fix here"] == "call sampler.set_epoch(epoch) before each epoch"


def test_epochs_that_always_end_early_are_judged_at_the_third() -> None:
    loader = guard(DataLoader(LONG, sampler=DistributedSampler(LONG, 1, 0)), on_violation="record")
    for count in (0, 0, 1):
        for _ in zip(range(PREFIX_BATCHES + 2), loader, strict=False):
            pass
        assert len(guard.report().failed) == count


def set_epochs(loader: Any) -> None:
    for epoch in range(3):
        loader.sampler.set_epoch(epoch)
        train(loader)


def evaluated(loader: Any) -> None:
    with torch.no_grad():
        train(loader, 3)


def peeked(loader: Any) -> None:
    next(iter(loader))
    train(loader)


def resumed(loader: Any) -> None:
    state = None
    for number, _ in enumerate(loader):
        if number == 0:
            state = loader.state_dict()
    loader.load_state_dict(state)
    train(loader)


def thrice(loader: Any) -> None:
    train(loader, 3)


HEALTHY: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "shuffled": (lambda: DataLoader(DATA, batch_size=4, shuffle=True), thrice),
    "sequential": (lambda: DataLoader(DATA, batch_size=4), thrice),
    "set_epoch": (lambda: DataLoader(DATA, batch_size=4, sampler=ranked()), set_epochs),
    "evaluation": (lambda: DataLoader(DATA, batch_size=4, sampler=ranked(shuffle=False)), thrice),
    "no gradients": (lambda: DataLoader(DATA, batch_size=4, sampler=ranked()), evaluated),
    "a fixed list": (lambda: DataLoader(DATA, batch_size=4, sampler=list(range(40))[::-1]), thrice),
    "a subset": (lambda: DataLoader(DATA, batch_size=4, sampler=SubsetRandomSampler(range(20))), thrice),
    "with weights": (lambda: DataLoader(DATA, batch_size=4, sampler=WeightedRandomSampler([1.0] * 40, 40)), thrice),
    "few samples": (lambda: DataLoader(Items(pair, 8), sampler=ranked(Items(pair, 8))), thrice),
    "a look at the first batch": (lambda: DataLoader(DATA, batch_size=4, sampler=ranked()), peeked),
    "resumed": (lambda: StatefulDataLoader(DATA, batch_size=4, sampler=ranked()), resumed),
}


@pytest.mark.parametrize(("make", "loop"), HEALTHY.values(), ids=HEALTHY)
def test_healthy_loaders_are_silent(make: Callable[[], Any], loop: Callable[[Any], None]) -> None:
    loader = guard(make(), on_violation="record")
    loop(loader)
    assert guard.report().failed == ()
    assert not [result.reason for result in guard.report().results if result.status == "broken"]


def test_an_epoch_that_is_started_again_is_no_repeat() -> None:
    loader = guard(DataLoader(LONG, sampler=DistributedSampler(LONG, 1, 0)), on_violation="record")
    for epoch, batches in (
        (0, PREFIX_BATCHES + 2),
        (0, len(LONG) + 1),
        (1, len(LONG) + 1),
    ):  # a search for a learning rate
        loader.sampler.set_epoch(epoch)  # type: ignore[attr-defined]
        for _ in zip(range(batches), loader, strict=False):
            pass
    assert guard.report().failed == ()


def test_a_loader_of_another_role_may_repeat_itself() -> None:
    assert codes(DataLoader(DATA, batch_size=4, sampler=ranked()), epochs=2, role="val") == set()


def test_the_name_of_a_loader_is_its_role() -> None:
    assert codes(DataLoader(DATA, batch_size=4, sampler=ranked()), epochs=2, name="val_loader") == set()


def order_of(*entries: Any) -> Order:
    order = Order()
    for entry in entries:
        order.add(entry)
    return order


def test_custom_objects_as_indices_are_not_compared() -> None:
    entries = [[object() for _ in range(20)]]
    assert not order_of(*entries).repeats(order_of(*entries), prefix=False)


def test_strings_tuples_and_tensors_are_compared() -> None:
    keys = [[f"key{number * 7 % 20}" for number in range(20)]]
    pairs = [[(number * 7 % 20, 1) for number in range(20)]]
    tensors = [torch.randperm(20)]
    for entries in (keys, pairs, tensors):
        assert order_of(*entries).repeats(order_of(*entries), prefix=False)
    assert not order_of(*keys).repeats(order_of(*pairs), prefix=False)


@pytest.mark.parametrize(
    ("sampler", "name", "takes_epoch"),
    [
        (ranked(), "DistributedSampler", True),
        (Reseeded(), "Reseeded", True),
        (SubsetRandomSampler([1]), "SubsetRandomSampler", False),
    ],
)
def test_samplers_that_shuffle(sampler: Any, name: str, takes_epoch: bool) -> None:
    assert shuffler_of(DataLoader(DATA, sampler=sampler)) == (name, takes_epoch)
    assert shuffler_of(DataLoader(DATA, batch_sampler=BatchSampler(sampler, 4, False))) == (name, takes_epoch)


def test_samplers_that_do_not() -> None:
    assert shuffler_of(DataLoader(DATA)) is None
    assert shuffler_of(DataLoader(DATA, sampler=[3, 1])) is None
    assert shuffler_of(DataLoader(DATA, sampler=ranked(shuffle=False))) is None
