"""Variants of drawn loaders under drawn overrides."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils.data import (
    BatchSampler,
)
from torch.utils.data.dataloader import default_collate, default_convert

from tests.support.loader_makers import (
    CONTEXT,
    GENERATOR,
    MAKERS,
    NO_WORKERS,
    UNORDERED,
    Endless,
    Pairs,
    Reversed,
    comparable,
    full,
    greet,
    popping_subclass,
    shown,
    target,
    tuple_collate,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning"),  # torchdata 0.11 on torch 2.15
]


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
        **{name: st.booleans() for name in UNORDERED},
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
    for name in ("pin_memory", "worker_init_fn", "generator", *UNORDERED, "dataset", "_dataset_kind"):
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
