"""Variants keep what the user wrote: every argument of DataLoader, however the loader is made, under every override."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import multiprocessing
import pickle
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    WeightedRandomSampler,
    get_worker_info,
)
from torch.utils.data.dataloader import default_collate, default_convert
from torchdata.stateful_dataloader import StatefulDataLoader

from dataguard.target.loading import Target
from dataguard.target.variants import overridden

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning"),  # torchdata 0.11 on torch 2.15
]

LENGTH = 12
NO_WORKERS: dict[str, Any] = {
    "prefetch_factor": None,
    "persistent_workers": False,
    "timeout": 0,
    "multiprocessing_context": None,
}


class Squares(Dataset):
    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        return index**2


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(LENGTH))


class Endless:
    """An index sampler without an end, as used for training by steps."""

    def __iter__(self):
        return itertools.cycle(range(LENGTH))


class Pairs:
    """A batch sampler that is not torch's."""

    batch_size = 2

    def __init__(self, marker="own"):
        self.marker = marker

    def __iter__(self):
        return iter([[0, 1], [4, 5], [2, 3]])

    def __len__(self):
        return 3


def tuple_collate(samples):
    return tuple(samples)


def greet(worker):
    torch.manual_seed(worker)


SQUARES, STREAM = Squares(), Stream()
GENERATOR = torch.Generator().manual_seed(5)
CONTEXT = multiprocessing.get_context("spawn")


class Explicit(DataLoader):
    def __init__(self, dataset, batch_size=4, shuffle=None, **rest):
        super().__init__(dataset, batch_size, shuffle, **rest)
        self.extra = "explicit"


class Forwarding(DataLoader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.extra = "forwarding"


class Popping(DataLoader):
    """Takes collate_fn out and gives its own, as PyG's loader does."""

    def __init__(self, dataset, follow=None, **kwargs):
        self.users_collate = kwargs.pop("collate_fn", None)
        super().__init__(dataset, collate_fn=self.users_collate or tuple_collate, **kwargs)


def _order(arguments):
    """The five arguments of order by position, then the rest: torch allows the first thirteen to be given so."""
    names = ("batch_size", "shuffle", "sampler", "batch_sampler", "num_workers")
    defaults = {"batch_size": 1, "num_workers": 0}
    positional = [arguments.pop(name, defaults.get(name)) for name in names]
    return positional, arguments


def plainly(arguments):
    return DataLoader(**arguments)


def by_position(arguments):
    positional, rest = _order({**arguments})
    dataset = rest.pop("dataset")
    return DataLoader(dataset, *positional, **rest)


def explicit_subclass(arguments):
    return Explicit(**{"batch_size": 1, **arguments})


def forwarding_subclass(arguments):
    return Forwarding(**arguments)


def popping_subclass(arguments):
    return Popping(**arguments)


def helper(arguments):
    class Local(DataLoader):
        pass

    make = functools.partial(Local, **arguments)
    return make()


def stateful(arguments):
    return StatefulDataLoader(**arguments, snapshot_every_n_steps=3)


MAKERS: list[Callable[[dict[str, Any]], DataLoader]] = [
    plainly,
    by_position,
    explicit_subclass,
    forwarding_subclass,
    popping_subclass,
    helper,
    stateful,
]

# Each argument of DataLoader.__init__ (and what it needs beside it), with a value that is not its default.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "batch_size": {"batch_size": 3},
    "batch_size=None": {"batch_size": None},
    "shuffle": {"shuffle": True},
    "sampler": {"sampler": WeightedRandomSampler([1.0] * LENGTH, 5)},
    "sampler, unbatched": {"sampler": Endless(), "batch_size": None},
    "batch_sampler": {"batch_sampler": Pairs()},
    "torch's batch_sampler": {"batch_sampler": BatchSampler(SequentialSampler(SQUARES), 5, True)},
    "num_workers": {"num_workers": 3},
    "collate_fn": {"collate_fn": tuple_collate},
    "pin_memory": {"pin_memory": True},
    "drop_last": {"drop_last": True, "batch_size": 5},
    "timeout": {"timeout": 33.0, "num_workers": 1},
    "worker_init_fn": {"worker_init_fn": greet, "num_workers": 1},
    "multiprocessing_context": {"multiprocessing_context": CONTEXT, "num_workers": 1},
    "multiprocessing_context by name": {"multiprocessing_context": "forkserver", "num_workers": 1},
    "generator": {"generator": GENERATOR, "shuffle": True},
    "prefetch_factor": {"prefetch_factor": 7, "num_workers": 1},
    "persistent_workers": {"persistent_workers": True, "num_workers": 1},
    "pin_memory_device": {"pin_memory_device": "cuda"},
    "in_order": {"in_order": False, "num_workers": 1},
    "everything": {
        "batch_size": 5,
        "sampler": RandomSampler(SQUARES, generator=GENERATOR),
        "num_workers": 2,
        "collate_fn": tuple_collate,
        "pin_memory": True,
        "drop_last": True,
        "timeout": 12,
        "worker_init_fn": greet,
        "multiprocessing_context": CONTEXT,
        "generator": GENERATOR,
        "prefetch_factor": 3,
        "persistent_workers": True,
        "in_order": False,
    },
    "stream": {"dataset": STREAM, "batch_size": 4, "num_workers": 2, "drop_last": True},
    "stream, unbatched": {"dataset": STREAM, "batch_size": None, "num_workers": 1, "worker_init_fn": greet},
}

OVERRIDES: dict[str, dict[str, Any]] = {
    "none": {},
    "no workers": {"num_workers": 0},
    "more workers": {"num_workers": 4},
    "spawn": {"num_workers": 2, "multiprocessing_context": "spawn"},
    "spawn, workers as they are": {"multiprocessing_context": "spawn"},
    "persistent": {"persistent_workers": True},
    "not persistent": {"persistent_workers": False},
    "in order": {"in_order": True, "num_workers": 1},
    "prefetch": {"prefetch_factor": 1},
    "timeout": {"timeout": 5},
    "init": {"worker_init_fn": None},
    "collate": {"collate_fn": default_convert},
    "pin": {"pin_memory": False},
}


def shown(loader: DataLoader) -> dict[str, Any]:
    """Every attribute of a loader in a comparable form: by identity where it is the user's object."""
    state = {name: value for name, value in vars(loader).items() if not name.endswith("__multiprocessing_context")}
    state["multiprocessing_context"] = loader.multiprocessing_context
    return {name: comparable(value) for name, value in state.items()}


def comparable(value: Any) -> Any:
    if type(value).__name__ in ("SequentialSampler", "RandomSampler", "BatchSampler"):
        held = {name: comparable(one) for name, one in vars(value).items() if name != "data_source"}
        if type(value).__module__.startswith("torchdata"):
            held.pop("generator", None)  # torchdata makes one of its own where none is given
        return type(value), tuple(sorted(held.items(), key=lambda item: item[0]))
    if isinstance(value, multiprocessing.context.BaseContext):
        return value.get_start_method()
    simple = value is None or isinstance(value, int | float | str)
    return value if simple else type(value) if type(value).__module__.startswith("torch.utils.data") else id(value)


def expected(before: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """What a variant should look like, by the rules of torch and nothing of dataguard's."""
    after = {**before, **{name: comparable(value) for name, value in overrides.items()}}
    if after["num_workers"] == 0:
        own = {name: before[name] for name in NO_WORKERS}
        after.update(NO_WORKERS if before["num_workers"] else own)
    elif after["prefetch_factor"] is None:
        after["prefetch_factor"] = 2
    return after


def target(source: Any) -> Target:
    return Target("loader", "tests:loader", source)


def full(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"dataset": SQUARES, **arguments}


CASES = pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=list(ARGUMENTS))
WAYS = pytest.mark.parametrize("make", MAKERS, ids=[maker.__name__ for maker in MAKERS])


@WAYS
@CASES
@pytest.mark.parametrize("way", ["made by a factory", "shared"])
def test_every_argument_survives_every_override(way, make, arguments) -> None:
    for name, overrides in OVERRIDES.items():
        own = make(full(arguments))
        before = shown(own)
        variant = target(own if way == "shared" else lambda: make(full(arguments))).build(**overrides)
        assert shown(variant) == expected(before, overrides), name
        assert shown(own) == before, f"{name} changed the user's own loader"
        assert type(variant).__name__ == type(own).__name__
        assert way == "made by a factory" or variant is not own


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


def test_a_subclass_gets_what_it_keeps_for_itself_from_the_user() -> None:
    variant = target(lambda: Popping(SQUARES, collate_fn=tuple_collate, num_workers=1)).build(num_workers=0)
    assert (variant.users_collate, variant.collate_fn) == (tuple_collate, tuple_collate)  # type: ignore[attr-defined]
    assert target(lambda: Explicit(SQUARES)).build(num_workers=1).batch_size == 4
    assert target(lambda: stateful(full({}))).build(num_workers=1).snapshot_every_n_steps == 3  # type: ignore[attr-defined]


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


class Reversed:
    """A schedule, as far as a loader can tell."""

    def __init__(self, inner, batched):
        self.inner = inner
        self.batched = batched

    def __iter__(self):
        return iter(list(itertools.islice(iter(self.inner), 3))[::-1])

    def __len__(self):
        return len(self.inner)

    def __getattr__(self, name):
        return getattr(self.inner, name)


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


def test_an_early_iterator_of_a_shared_loader_is_left_alone() -> None:
    shared = EagerLoader(SQUARES, 6, num_workers=1)
    variant = target(shared).build(num_workers=0)
    assert [len(batch) for batch in variant] == [6, 6]
    assert [len(batch) for batch in shared] == [6, 6]
    shared.__del__()


def test_a_shared_loader_in_the_middle_of_an_epoch_stays_there() -> None:
    for kind in (DataLoader, StatefulDataLoader):
        shared = kind(SQUARES, batch_size=4, num_workers=1, persistent_workers=True)
        iterator = iter(shared)
        assert next(iterator).tolist() == [0, 1, 4, 9]
        variant = target(shared).build(num_workers=0)
        assert [batch.tolist()[0] for batch in variant] == [0, 16, 64]
        assert [batch.tolist()[0] for batch in iterator] == [16, 64]
        shared._iterator._shutdown_workers()  # type: ignore[union-attr]


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


def test_a_constructor_that_another_library_replaced_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    original = DataLoader.__init__

    def replaced(self, *args, **kwargs):
        original(self, *args, **{"pin_memory": True, **kwargs})

    monkeypatch.setattr(DataLoader, "__init__", replaced)
    variant = target(lambda: DataLoader(SQUARES, 4)).build(num_workers=1, schedule=Reversed)
    assert (variant.num_workers, variant.batch_size, variant.pin_memory) == (1, 4, True)
    assert type(variant.batch_sampler) is Reversed


def test_workers_set_after_construction_are_overridden_too() -> None:
    def factory():
        loader = DataLoader(SQUARES)
        loader.num_workers = 3
        return loader

    assert target(factory).build(num_workers=1).num_workers == 1
    assert target(factory).build().num_workers == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_workers": -1}, "num_workers option should be non-negative"),
        ({"num_workers": 0, "prefetch_factor": 2}, "prefetch_factor option could only be specified"),
        ({"num_workers": 0, "persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
        ({"num_workers": 0, "multiprocessing_context": "fork"}, "multiprocessing_context can only be used with"),
        ({"shuffle": True, "sampler": [1]}, "sampler option is mutually exclusive with shuffle"),
        ({"batch_sampler": Pairs(), "batch_size": 2}, "batch_sampler option is mutually exclusive"),
        ({"batch_size": None, "drop_last": True}, "batch_size=None option disables auto-batching"),
        ({"dataset": STREAM, "shuffle": True}, "expected unspecified shuffle option"),
        ({"dataset": STREAM, "sampler": [1]}, "expected unspecified sampler option"),
    ],
)
def test_arguments_that_torch_refuses_are_refused_in_the_plain_build(arguments, message) -> None:
    with pytest.raises(ValueError, match=message):
        target(lambda: DataLoader(**full(arguments))).build()


@pytest.mark.parametrize("arguments", [{"num_worker": 2}, {}], ids=["unknown argument", "no dataset"])
def test_an_impossible_call_raises_what_torch_raises(arguments) -> None:
    dataset: dict[str, Any] = {"dataset": SQUARES} if arguments else {}
    with pytest.raises(TypeError) as own:
        DataLoader(**dataset, **arguments)
    with pytest.raises(TypeError) as ours:
        target(lambda: DataLoader(**dataset, **arguments)).build(num_workers=2)
    assert str(ours.value) == str(own.value)


def test_a_misspelt_override_is_a_bug_of_ours() -> None:
    with pytest.raises(TypeError, match="not an argument of DataLoader: num_worker, seed"):
        target(lambda: DataLoader(SQUARES)).build(num_worker=2, seed=1)


class Boom(BaseException):
    pass


def _raises():
    DataLoader(SQUARES)
    raise Boom


def test_the_constructor_is_always_put_back() -> None:
    original = DataLoader.__init__
    signature = inspect.signature(DataLoader)
    inside = []

    def factory():
        inside.append((DataLoader.__init__ is not original, inspect.signature(DataLoader) == signature))
        return DataLoader(SQUARES)

    target(factory).build(num_workers=1)
    assert inside == [(True, True)]
    assert DataLoader.__init__ is original
    bad: list[tuple[Any, type[BaseException]]] = [
        (_raises, Boom),
        (lambda: DataLoader(SQUARES, timeout=-1), ValueError),
        (lambda: DataLoader(), TypeError),  # type: ignore[call-arg]
        (lambda: None, Exception),
        (lambda argument: argument, Exception),
    ]
    for source, error in bad:
        with pytest.raises(error):
            target(source).build(num_workers=1, schedule=Reversed)
        assert DataLoader.__init__ is original
    with contextlib.suppress(TypeError), overridden({"x": 1}):
        pass
    assert DataLoader.__init__ is original
    with overridden({"num_workers": 1}), overridden({"num_workers": 2}):
        assert DataLoader(SQUARES).num_workers == 1  # the outer one has the last word
    assert DataLoader.__init__ is original


class Drawing(Squares):
    """Tells from which worker it is read, whether the user's init ran there, and what torch's generator gives."""

    def __getitem__(self, index):
        info = get_worker_info()
        return index, info.id if info else None, vars(self).get("mark"), int(torch.randint(1 << 30, ()))


def mark(worker):
    get_worker_info().dataset.mark = worker + 100  # type: ignore[union-attr]


def _drawing() -> DataLoader:
    seeded = torch.Generator().manual_seed(3)
    return DataLoader(
        Drawing(), 3, shuffle=True, generator=seeded, worker_init_fn=mark, collate_fn=tuple_collate, num_workers=1
    )


@pytest.mark.parametrize(
    ("method", "shared"), [("fork", False), ("fork", True), ("spawn", False), ("forkserver", True)]
)
def test_a_variant_runs_with_the_users_generator_and_init(method, shared) -> None:
    reference = list(itertools.chain.from_iterable(_drawing()))
    source = _drawing() if shared else _drawing
    variant = target(source).build(num_workers=2, multiprocessing_context=method, persistent_workers=True)
    read = list(itertools.chain.from_iterable(variant))
    variant._iterator._shutdown_workers()  # type: ignore[union-attr]
    assert [sample[0] for sample in read] == [sample[0] for sample in reference]
    assert [sample[1:3] for sample in read] == [(w, w + 100) for w in (0, 0, 0, 1, 1, 1) * 2]
    draws = {sample[0]: sample[3] for sample in reference}
    assert all(sample[3] == draws[sample[0]] for sample in read[:3])  # worker 0 has the seed that it had alone


class Case(NamedTuple):
    arguments: dict[str, Any]
    overrides: dict[str, Any]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Arguments that torch accepts, with overrides of any of them."""
    workers = {
        "prefetch_factor": st.integers(1, 4),
        "persistent_workers": st.booleans(),
        "timeout": st.sampled_from([0, 1.5, 60]),
        "multiprocessing_context": st.sampled_from([None, "fork", "spawn", CONTEXT]),
    }
    anyway = {
        "collate_fn": st.sampled_from([tuple_collate, list]),
        "pin_memory": st.booleans(),
        "worker_init_fn": st.sampled_from([None, greet]),
        "generator": st.sampled_from([None, GENERATOR]),
        "in_order": st.booleans(),
    }
    orders: list[dict[str, st.SearchStrategy[Any]]] = [
        {"batch_sampler": st.sampled_from([Pairs(), BatchSampler([3, 1, 2], 2, True)])},
        {"batch_size": st.integers(1, 5), "drop_last": st.booleans(), "shuffle": st.booleans()},
        {"batch_size": st.integers(1, 5), "sampler": st.sampled_from([[3, 1], Endless()])},
        {"batch_size": st.none(), "sampler": st.sampled_from([[3, 1], Endless()])},
    ]
    number = draw(st.integers(0, 3))
    shape = draw(st.sampled_from(orders))
    arguments = draw(st.fixed_dictionaries({}, optional={**anyway, **shape, **(workers if number else {})}))
    possible = {**workers, **anyway, "num_workers": st.integers(0, 3), "schedule": st.just(Reversed)}
    order: dict[str, Any] = draw(
        st.sampled_from(
            [
                {},
                {"batch_size": 2},
                {"sampler": [5, 6]},
                {"batch_sampler": [[7], [8]]},
                {"shuffle": False},
                {"drop_last": True},
                {"batch_size": None},
            ]
        )
    )
    overrides = draw(st.fixed_dictionaries({}, optional=possible))
    return Case({"num_workers": number, **arguments}, {**overrides, **order})


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases(), st.sampled_from(MAKERS), st.booleans())
def test_a_variant_has_what_was_overridden_and_all_else_as_it_was(case, make, shared) -> None:
    arguments, overrides = case
    own = make(full(arguments))
    before = shown(own)
    variant = target(own if shared else lambda: make(full(arguments))).build(**overrides)
    after = shown(variant)
    assert shown(own) == before
    order = {"batch_size", "drop_last", "sampler", "batch_sampler", "collate_fn"}
    workers = overrides.get("num_workers", own.num_workers)
    assert variant.num_workers == workers
    for name in ("pin_memory", "worker_init_fn", "generator", "in_order", "dataset", "_dataset_kind"):
        assert after[name] == comparable(overrides.get(name, getattr(own, name)))
    for name, default in NO_WORKERS.items():
        gone = workers == 0 and own.num_workers > 0
        kept = default if gone else before[name]
        wanted = comparable(overrides.get(name, kept)) if workers else kept
        assert after[name] == (2 if workers and name == "prefetch_factor" and wanted is None else wanted), name
    if not (order | {"shuffle", "schedule", "generator"}) & overrides.keys():
        assert {name: after[name] for name in order} == {name: before[name] for name in order}
    index = variant.batch_sampler if variant.batch_sampler is not None else variant.sampler
    assert (type(index) is Reversed) == ("schedule" in overrides)
    inner: Any = index.inner if "schedule" in overrides else index  # type: ignore[union-attr]
    if "batch_sampler" in overrides:
        assert inner is overrides["batch_sampler"]
    if "batch_size" in overrides:
        assert variant.batch_size == overrides["batch_size"]
        assert (variant.batch_sampler is None) == (overrides["batch_size"] is None)
    if "sampler" in overrides:
        assert variant.sampler is overrides["sampler"] or index is not variant.batch_sampler
        assert getattr(inner, "sampler", inner) is overrides["sampler"]
    if "collate_fn" in overrides:
        assert variant.collate_fn is overrides["collate_fn"]
    elif "collate_fn" in arguments:
        assert variant.collate_fn is arguments["collate_fn"]
    elif make is not popping_subclass:
        assert variant.collate_fn is (default_convert if variant.batch_sampler is None else default_collate)


def test_constructing_a_variant_warns_no_more_than_the_user_is_warned() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for source in (DataLoader(SQUARES), lambda: DataLoader(SQUARES)):
            target(source).build(num_workers=1)


def test_an_argument_that_this_torch_does_not_know_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataguard.target import variants

    monkeypatch.setattr(variants, "_ARGUMENTS", variants._ARGUMENTS - {"in_order"})
    for source in (DataLoader(SQUARES), lambda: DataLoader(SQUARES)):
        assert target(source).build(in_order=False).in_order is True
