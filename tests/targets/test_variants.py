"""Variants keep what the user wrote: every argument of DataLoader, however the loader is made, under every override."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import warnings
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    SequentialSampler,
    get_worker_info,
)
from torch.utils.data.dataloader import default_convert

from dataguard.targets.variants import overridden
from tests.support.loader_makers import (
    ARGUMENTS,
    NO_WORKERS,
    SQUARES,
    STREAM,
    UNORDERED,
    WAYS,
    Explicit,
    Pairs,
    Popping,
    Reversed,
    Squares,
    comparable,
    full,
    shown,
    stateful,
    target,
    tuple_collate,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning"),  # torchdata 0.11 on torch 2.15
]

OVERRIDES: dict[str, dict[str, Any]] = {
    "none": {},
    "no workers": {"num_workers": 0},
    "more workers": {"num_workers": 4},
    "spawn": {"num_workers": 2, "multiprocessing_context": "spawn"},
    "spawn, workers as they are": {"multiprocessing_context": "spawn"},
    "persistent": {"persistent_workers": True},
    "not persistent": {"persistent_workers": False},
    "in order": {**dict.fromkeys(UNORDERED, True), "num_workers": 1},
    "prefetch": {"prefetch_factor": 1},
    "timeout": {"timeout": 5},
    "init": {"worker_init_fn": None},
    "collate": {"collate_fn": default_convert},
    "pin": {"pin_memory": False},
}


def expected(before: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """What a variant should look like, by the rules of torch and nothing of dataguard's."""
    after = {**before, **{name: comparable(value) for name, value in overrides.items()}}
    if after["num_workers"] == 0:
        own = {name: before[name] for name in NO_WORKERS}
        after.update(NO_WORKERS if before["num_workers"] else own)
    elif after["prefetch_factor"] is None:
        after["prefetch_factor"] = 2
    return after


CASES = pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=list(ARGUMENTS))


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


def test_a_subclass_gets_what_it_keeps_for_itself_from_the_user() -> None:
    variant = target(lambda: Popping(SQUARES, collate_fn=tuple_collate, num_workers=1)).build(num_workers=0)
    assert (variant.users_collate, variant.collate_fn) == (tuple_collate, tuple_collate)  # type: ignore[attr-defined]
    assert target(lambda: Explicit(SQUARES)).build(num_workers=1).batch_size == 4
    assert target(lambda: stateful(full({}))).build(num_workers=1).snapshot_every_n_steps == 3  # type: ignore[attr-defined]


class OwnOrder(DataLoader):
    """Puts a batch sampler of its own in place of torch's, as if it were given none."""

    def __init__(self, order: object, **arguments: Any) -> None:
        super().__init__(SQUARES, **arguments)
        vars(self)["batch_sampler"] = order or Twice([self.batch_sampler])


class Twice(list):
    """Batches of the samplers in it, one after the other, twice."""

    def __iter__(self):
        return (batch for one in 2 * list(super().__iter__()) for batch in one)


def test_a_subclass_that_puts_a_sampler_of_its_own_in_place_is_scheduled() -> None:
    given = BatchSampler(SequentialSampler(SQUARES), 4, drop_last=False)
    for order in (given, BatchSampler(SequentialSampler(SQUARES), 3, drop_last=False)):
        variant = target(lambda order=order: OwnOrder(order, batch_sampler=given)).build(schedule=Reversed)
        assert type(variant.batch_sampler) is Reversed
        assert [len(batch) for batch in variant][-1] == len(next(iter(order)))
    wrapped = target(lambda: OwnOrder(None, batch_sampler=given)).build(schedule=Reversed)
    assert type(wrapped.batch_sampler) is Twice


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


@pytest.mark.scan
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


def test_constructing_a_variant_warns_no_more_than_the_user_is_warned() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for source in (DataLoader(SQUARES), lambda: DataLoader(SQUARES)):
            target(source).build(num_workers=1)


def test_an_argument_that_this_torch_does_not_know_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataguard.targets import variants

    monkeypatch.setattr(variants, "_ARGUMENTS", variants._ARGUMENTS - {"in_order"})
    for source in (DataLoader(SQUARES), lambda: DataLoader(SQUARES)):
        assert getattr(target(source).build(in_order=False), "in_order", True) is True
