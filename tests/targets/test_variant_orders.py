"""Another order of indices takes the place of the user's, in a loader that is made and in one that is shared."""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    get_worker_info,
)
from torch.utils.data.dataloader import default_convert
from torchdata.stateful_dataloader import StatefulDataLoader

from tests.support.loader_makers import (
    GENERATOR,
    LENGTH,
    SQUARES,
    STREAM,
    WAYS,
    Endless,
    Pairs,
    Reversed,
    Squares,
    by_position,
    forwarding_subclass,
    full,
    plainly,
    shown,
    stateful,
    target,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning"),  # torchdata 0.11 on torch 2.15
]


@WAYS
@pytest.mark.parametrize("way", ["made by a factory", "shared"])
@pytest.mark.parametrize("shuffled", ["by shuffle", "by sampler", "not"])
def test_another_generator_shuffles_only_what_the_old_one_did(way, make, shuffled) -> None:
    new, own_generator = torch.Generator(), torch.Generator()
    orders: dict[str, dict[str, Any]] = {
        "by shuffle": {"shuffle": True},
        "by sampler": {"sampler": RandomSampler(SQUARES, generator=own_generator)},
        "not": {},
    }
    arguments = full({**orders[shuffled], "generator": GENERATOR})
    variant: Any = target(make(arguments) if way == "shared" else lambda: make(arguments)).build(generator=new)
    assert variant.generator is new
    assert variant.batch_sampler.sampler is variant.sampler
    kept_by_stateful = way == "shared" and make is stateful  # its own kind of RandomSampler cannot be told apart
    wanted = {"by shuffle": GENERATOR if kept_by_stateful else new, "by sampler": own_generator, "not": None}
    assert getattr(variant.sampler, "generator", None) is wanted[shuffled]


# What takes the place of the user's order, and what the variant reads then.
ORDERS: list[tuple[dict[str, Any], dict[str, Any], list[Any]]] = [
    ({"batch_size": 5}, {"sampler": [3, 1]}, [[9, 1]]),
    ({"shuffle": True, "batch_size": 2}, {"sampler": [3, 1]}, [[9, 1]]),
    ({"batch_size": None}, {"sampler": [3, 1]}, [9, 1]),
    ({"batch_sampler": Pairs()}, {"sampler": [3, 1]}, [[9, 1]]),
    ({"batch_size": 5, "drop_last": True}, {"batch_sampler": [[3], [1, 2]]}, [[9], [1, 4]]),
    ({"shuffle": True}, {"batch_sampler": [[3], [1, 2]]}, [[9], [1, 4]]),
    ({"batch_size": None}, {"batch_sampler": [[3], [1, 2]]}, [[9], [1, 4]]),
    ({"batch_sampler": Pairs()}, {"batch_sampler": [[3], [1, 2]]}, [[9], [1, 4]]),
    ({"sampler": [3, 1, 2]}, {"batch_size": 2}, [[9, 1], [4]]),
    ({"sampler": [3, 1, 2]}, {"batch_size": None}, [9, 1, 4]),
    ({"sampler": [3, 1, 2], "batch_size": 2, "drop_last": True}, {"batch_size": None}, [9, 1, 4]),
    ({"batch_sampler": BatchSampler([3, 1, 2], 2, True)}, {"batch_size": 1}, [[9], [1], [4]]),
    ({"batch_sampler": BatchSampler([3, 1, 2], 2, False)}, {"drop_last": True}, [[9, 1]]),
    ({"batch_sampler": BatchSampler([3, 1, 2], 2, True)}, {"batch_sampler": None}, [[9, 1]]),
    ({"batch_size": None, "sampler": [3]}, {"drop_last": True}, [9]),
    ({"sampler": [3, 1], "batch_size": LENGTH}, {"shuffle": False}, [[i**2 for i in range(LENGTH)]]),
    ({"shuffle": True, "batch_size": LENGTH}, {"shuffle": False}, [[i**2 for i in range(LENGTH)]]),
    ({"dataset": STREAM, "batch_size": 6}, {"sampler": [3], "num_workers": 0}, [[*range(6)], [*range(6, 12)]]),
    ({"dataset": STREAM, "batch_size": 6}, {"batch_sampler": [[3]]}, [[*range(6)], [*range(6, 12)]]),
    ({"dataset": STREAM, "batch_size": 5}, {"shuffle": True, "drop_last": True}, [[*range(5)], [*range(5, 10)]]),
    ({"dataset": STREAM, "batch_size": 6}, {"batch_size": None}, [*range(LENGTH)]),
]


@pytest.mark.parametrize("make", [plainly, by_position, forwarding_subclass, stateful])
@pytest.mark.parametrize("way", ["made by a factory", "shared"])
@pytest.mark.parametrize(("arguments", "overrides", "read"), ORDERS)
def test_another_order_takes_the_place_of_the_users(make, way, arguments, overrides, read) -> None:
    own = make(full(arguments))
    variant = target(own if way == "shared" else lambda: make(full(arguments))).build(**overrides)
    assert [batch.tolist() if isinstance(batch, torch.Tensor) else batch for batch in variant] == read


SCHEDULED: list[tuple[dict[str, Any], list[Any]]] = [
    ({"batch_size": 4}, [[64, 81, 100, 121], [16, 25, 36, 49], [0, 1, 4, 9]]),
    ({"batch_size": None}, [4, 1, 0]),
    ({"batch_sampler": Pairs()}, [[4, 9], [16, 25], [0, 1]]),
    ({"batch_size": 2, "sampler": Endless()}, [[16, 25], [4, 9], [0, 1]]),
    ({"batch_size": None, "sampler": Endless()}, [4, 1, 0]),
]


@WAYS
@pytest.mark.parametrize("way", ["made by a factory", "shared"])
@pytest.mark.parametrize(("arguments", "read"), SCHEDULED)
def test_a_schedule_takes_the_place_of_the_index_sampler(make, way, arguments, read) -> None:
    arguments = full({"collate_fn": list if arguments.get("batch_size", 1) else default_convert, **arguments})
    own = make(arguments)
    before = shown(own)
    variant = target(own if way == "shared" else lambda: make(arguments)).build(schedule=Reversed)
    slot = "sampler" if variant.batch_sampler is None else "batch_sampler"
    schedule: Any = getattr(variant, slot)
    assert type(schedule) is Reversed
    assert type(schedule.inner).__name__ == type(getattr(own, slot)).__name__
    assert schedule.batched is (slot == "batch_sampler")
    others = {name: value for name, value in shown(variant).items() if name != slot}
    assert others == {name: value for name, value in before.items() if name != slot}
    assert list(variant) == read
    assert shown(own) == before


def test_a_stream_has_no_schedule() -> None:
    for source in (DataLoader(STREAM, batch_size=6), lambda: DataLoader(STREAM, batch_size=6)):
        variant = target(source).build(schedule=Reversed)
        assert [batch.tolist() for batch in variant] == [[*range(6)], [*range(6, 12)]]


def test_the_same_loader_under_two_names_is_scheduled_once() -> None:
    shared = DataLoader(SQUARES, batch_size=4)
    for source in ({"val": shared, "test": shared}, lambda: dict.fromkeys(("val", "test"), DataLoader(SQUARES))):
        loaders = target(source).build_all(schedule=Reversed)
        assert loaders["val"] is loaders["test"]
        assert not isinstance(loaders["val"].batch_sampler.inner, Reversed)  # type: ignore[union-attr]


def test_loaders_that_a_factory_makes_for_itself_keep_their_order() -> None:
    own_sums = []

    def factory():
        statistics = DataLoader(SQUARES, batch_size=5)
        own_sums.append(sum(int(batch.sum()) for batch in statistics))
        held = DataLoader(SQUARES, batch_size=LENGTH)
        loader = DataLoader(SQUARES, batch_size=4)
        loader.held = held
        own_sums.append(len(held.batch_sampler))  # type: ignore[arg-type]
        assert type(held.batch_sampler) is not BatchSampler
        assert isinstance(held.batch_sampler, BatchSampler)
        assert held.batch_sampler.drop_last is False
        return loader

    variant = target(factory).build(schedule=Reversed)
    assert own_sums == [sum(i**2 for i in range(LENGTH)), 1]
    assert type(variant.batch_sampler) is Reversed
    held = variant.held  # type: ignore[attr-defined]
    assert next(iter(held)).tolist() == [i**2 for i in range(LENGTH)]
    assert list(pickle.loads(pickle.dumps(held.batch_sampler))) == [list(range(LENGTH))]


class Repeating:
    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        while True:
            yield from iter(self.sampler)


class EagerLoader(DataLoader):
    """Starts its workers while it is constructed and keeps them for ever, as YOLO's InfiniteDataLoader does."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        object.__setattr__(self, "batch_sampler", Repeating(self.batch_sampler))
        self.iterator: Any = super().__iter__()

    def __len__(self):
        return len(self.batch_sampler.sampler)  # type: ignore[union-attr]

    def __iter__(self):
        for _ in range(len(self)):
            yield next(self.iterator)

    def __del__(self):
        with contextlib.suppress(AttributeError):
            if hasattr(self.iterator, "_workers"):
                self.iterator._shutdown_workers()


class Init:
    """Not the user's: set after the loader was built, as the spy is."""

    def __call__(self, worker):
        get_worker_info().dataset.__dict__["seen"] = True  # type: ignore[union-attr]


class Telling(Squares):
    def __getitem__(self, index):
        return "watched" if "seen" in vars(self) else index


@pytest.mark.scan
@pytest.mark.parametrize("own_workers", [0, 1, 2])
@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_that_starts_early_is_started_late(own_workers, workers) -> None:
    def factory():
        return EagerLoader(Telling(), 4, num_workers=own_workers, collate_fn=list)

    before = multiprocessing.active_children()
    variant = target(factory).build(num_workers=workers, schedule=Reversed)
    assert multiprocessing.active_children() == before
    assert isinstance(variant.batch_sampler, Repeating)
    variant.worker_init_fn = Init()
    batches = list(variant)
    watched = [["watched"] * 4] * 3
    assert batches == (watched if workers else [[8, 9, 10, 11], [4, 5, 6, 7], [0, 1, 2, 3]])
    assert len(list(variant)) == 3
    variant.__del__()  # type: ignore[attr-defined]


@pytest.mark.scan
def test_an_early_iterator_of_a_shared_loader_is_left_alone() -> None:
    shared = EagerLoader(SQUARES, 6, num_workers=1)
    variant = target(shared).build(num_workers=0)
    assert [len(batch) for batch in variant] == [6, 6]
    assert [len(batch) for batch in shared] == [6, 6]
    shared.__del__()


@pytest.mark.scan
def test_a_shared_loader_in_the_middle_of_an_epoch_stays_there() -> None:
    for kind in (DataLoader, StatefulDataLoader):
        shared = kind(SQUARES, batch_size=4, num_workers=1, persistent_workers=True)
        iterator = iter(shared)
        assert next(iterator).tolist() == [0, 1, 4, 9]
        variant = target(shared).build(num_workers=0)
        assert [batch.tolist()[0] for batch in variant] == [0, 16, 64]
        assert [batch.tolist()[0] for batch in iterator] == [16, 64]
        shared._iterator._shutdown_workers()  # type: ignore[union-attr]


@pytest.mark.scan
def test_a_stateful_loader_whose_state_was_asked_for_starts_anew() -> None:
    def factory():
        made = StatefulDataLoader(SQUARES, batch_size=4, num_workers=1)
        made.state_dict()
        return made

    shared = factory()
    for source in (factory, shared):
        variant = target(source).build(num_workers=0)
        assert [batch.tolist()[0] for batch in variant] == [0, 16, 64]
    assert [batch.tolist()[0] for batch in shared] == [0, 16, 64]
