"""A first step of the model with one batch, and what happens to it if one leaf of the batch changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dataguard.incident import Incident
from dataguard.lab.batches.collate_inputs import duplicate
from dataguard.lab.core.leaves import iter_leaves
from dataguard.lab.core.loader_facts import LoaderFacts
from dataguard.lab.model.batch_parts import rows_of, targets_of
from dataguard.lab.model.calling import Caller
from dataguard.lab.model.fixed_batch import take
from dataguard.lab.model.tracing import LossCall, Tracer, record
from dataguard.lab.process.exceptions import incident_of
from dataguard.lab.process.flight_recorder import FlightRecorder
from dataguard.lab.rng.global_rng import SEED, seed_global_generators
from dataguard.model import DataguardError, Undecided
from dataguard.process.originals import time
from dataguard.settings.settings import Settings
from dataguard.targets.variants import Loader

MOST_LEAVES = 16
"""How many leaves of a batch are changed."""
CHANGES = 4
"""How often a leaf is changed that has no effect."""
WARM_UP = 3
"""Steps before leaves are changed: layers that begin with zeros ignore their inputs at first."""


@dataclass(frozen=True, slots=True)
class BatchLeaf:
    """A tensor in the batch, and what the step does with it.

    `constant`: it has a single value. `handed`: it reaches the model; `used`: it is an argument of some computation;
    `target`: a loss function gets it as target. `changes`: other values in it change an output, the loss or a gradient;
    None if that was not tried.
    """

    path: str
    dtype: str
    shape: tuple[int, ...]
    constant: bool
    handed: bool
    used: bool
    target: bool
    changes: bool | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """The first step with a batch.

    `samples` is the size of the batch, None if its leaves do not agree; `whole`: the user's code gets the whole batch,
    and not what a convention takes from it. `failed` is where the step raised an exception, and `incident` which.
    `batch_statistics`: the model normalizes by statistics of the batch.
    """

    samples: int | None
    whole: bool
    calls: tuple[LossCall, ...] = ()
    loss: float | None = None
    failed: str | None = None
    incident: Incident | None = None
    leaves: tuple[BatchLeaf, ...] = field(default=())
    batch_statistics: bool = False


class Raised(Exception):
    """The user's model, loss or step raised an exception, the cause, in this `stage`."""

    def __init__(self, stage: str) -> None:
        super().__init__(stage)
        self.stage = stage


def prepared(
    build: Callable[..., Loader], facts: LoaderFacts, settings: Settings, folder: Path, most: int | None = None
) -> tuple[Caller, list[Any], FlightRecorder]:
    """The model with its loss, and the first batches of the loader."""
    recorder = FlightRecorder(folder)
    loader, batches = take(build, facts, recorder, most)
    if not batches:
        raise Undecided("the loader yields no batch")
    recorder.mark(None, "model")
    seed_global_generators(settings.seed)
    with _raising("model"):
        return Caller(settings, loader), batches, recorder


class _raising:
    """What the user's code raises inside this context becomes `Raised`."""

    def __init__(self, stage: str | Callable[[], str]) -> None:
        self._stage = stage

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, _: Any) -> None:
        if isinstance(error, Exception) and not isinstance(error, DataguardError | Raised):
            raise Raised(self._stage if isinstance(self._stage, str) else self._stage()) from error


def loss_of(caller: Caller, batch: Any) -> Tensor:
    """The loss of a copy of the batch, with the same random numbers in each call. Raises Raised."""
    seed_global_generators(SEED)
    with _raising(lambda: caller.stage):
        return caller(duplicate(batch))


def stepped(caller: Caller, batch: Any) -> tuple[Tracer, Tensor]:
    """The loss of a copy of the batch, as above, and what was traced meanwhile. Raises Raised."""
    own = duplicate(batch)
    tracer = Tracer(caller.module, own)
    seed_global_generators(SEED)
    with tracer, _raising(lambda: caller.stage):
        return tracer, caller(own)


def largest_embedding(build: Callable[..., Loader], facts: LoaderFacts, settings: Settings, folder: Path) -> int | None:
    """How many ids the largest embedding of the model takes; None without one, or if the model cannot be made."""
    try:
        module = prepared(build, facts, settings, folder, 1)[0].module
    except Raised:
        return None
    parts = module.modules() if isinstance(module, torch.nn.Module) else ()
    return max((part.num_embeddings for part in parts if isinstance(part, torch.nn.Embedding)), default=None)


def run_trial(
    build: Callable[..., Loader], facts: LoaderFacts, settings: Settings, folder: Path, seconds: float
) -> Trial:
    """Trace a step; then change one leaf at a time, for so many seconds."""
    try:
        caller, batches, recorder = prepared(build, facts, settings, folder)
    except Raised as raised:
        return Trial(None, False, failed=raised.stage, incident=_incident(raised))
    batch = duplicate(batches[0])
    trial, tracer = traced(caller, batch)
    if trial.failed or tracer is None:
        return trial
    found = _Changes(caller, batches[0], recorder).all(trial.leaves, seconds)
    return replace(trial, leaves=tuple(found))


def traced(caller: Caller, batch: Any) -> tuple[Trial, Tracer]:
    """The first step with this very batch, and its tracer."""
    tracer = Tracer(caller.module, batch)
    seed_global_generators(SEED)
    loss: Tensor | None = None
    failed: Raised | None = None
    try:
        with tracer, _raising(lambda: caller.stage):
            loss = caller(batch)
        require_no_gradients(caller)
        if loss.requires_grad:
            with _raising("backward"):
                loss.backward()
    except Raised as raised:
        failed = raised
    calls = tuple(record(call, tracer.values_of) for call in tracer.calls)
    leaves = tuple(_leaves(batch, tracer))
    trial = Trial(rows_of(batch), caller.whole, calls, leaves=leaves, batch_statistics=tracer.batch_statistics)
    if failed is not None:
        within = any(call.error for call in calls)
        stage = "loss" if within else failed.stage
        return replace(trial, failed=stage, incident=_incident(failed)), tracer
    assert loss is not None
    return replace(trial, loss=loss.item()), tracer


def require_no_gradients(caller: Caller) -> None:
    """Raise Undecided if the user's code has computed gradients itself."""
    if any(parameter.grad is not None for parameter in caller.module.parameters()):
        raise Undecided("the step computes gradients itself: let it return the loss, without backward()")


def _incident(raised: Raised) -> Incident:
    assert raised.__cause__ is not None
    return incident_of(raised.__cause__, raised.stage)


def _leaves(batch: Any, tracer: Tracer) -> Iterator[BatchLeaf]:
    for path, leaf in iter_leaves(batch):
        if isinstance(leaf, Tensor) and leaf.numel():
            constant = bool((leaf == leaf.reshape(-1)[0]).all())
            known = tracer.handed, tracer.used, targets_of(tracer, batch)
            dtype = str(leaf.dtype).removeprefix("torch.")
            yield BatchLeaf(path, dtype, tuple(leaf.shape), constant, *(path in each for each in known))


class _Changes:
    """Runs a step after other values were put into one leaf, and compares everything that it computes."""

    def __init__(self, caller: Caller, batch: Any, recorder: FlightRecorder) -> None:
        self._caller = caller
        self._batch = batch
        self._recorder = recorder
        self._parameters = [one for one in caller.module.parameters() if one.requires_grad]
        if self._parameters:
            self._warm_up()
        self._state = {name: value.clone() for name, value in caller.module.state_dict().items()}
        self._usual = self._run(batch)
        self._steady = all(bool(one.isfinite().all()) for one in self._usual) and _same(self._usual, self._run(batch))

    def all(self, leaves: tuple[BatchLeaf, ...], seconds: float) -> Iterator[BatchLeaf]:
        """The leaves, the first of them with what changes if their values do."""
        ends = time.monotonic() + seconds
        for number, leaf in enumerate(leaves):
            tried = self._steady and number < MOST_LEAVES and not leaf.constant and time.monotonic() < ends
            yield replace(leaf, changes=self._changes(leaf.path)) if tried else leaf

    def _warm_up(self) -> None:
        optimizer = torch.optim.Adam(self._parameters, 1e-3)
        for _ in range(WARM_UP):
            optimizer.zero_grad()
            loss = loss_of(self._caller, self._batch)
            if not loss.requires_grad:
                return
            loss.backward()
            optimizer.step()

    def _changes(self, path: str) -> bool:
        for number in range(CHANGES):
            batch = duplicate(self._batch)
            leaf = next(leaf for found, leaf in iter_leaves(batch) if found == path)
            other = _redrawn(leaf, number) if number else _rolled(leaf)
            if bool((other == leaf).all()):
                continue
            leaf.copy_(other)
            try:
                if not _same(self._usual, self._run(batch)):
                    return True
            except Raised:  # these values do not suit the others: they are used
                return True
        return False

    def _run(self, batch: Any) -> list[Tensor]:
        """Everything that a step computes: the loss, what losses get, the model's outputs, and all gradients."""
        self._recorder.mark(None, "model")
        caller = self._caller
        caller.module.load_state_dict(self._state)
        for parameter in self._parameters:
            parameter.grad = None
        tracer, loss = stepped(caller, batch)
        if loss.requires_grad:
            with _raising("backward"):
                loss.backward()
        seen: list[Tensor] = [loss, *(call.output for call in tracer.calls), *tracer.outputs]
        gradients = [parameter.grad.clone() for parameter in self._parameters if parameter.grad is not None]
        return [*(one.detach() for one in seen), *gradients]


def _same(one: list[Tensor], other: list[Tensor]) -> bool:
    return len(one) == len(other) and all(
        a.shape == b.shape and torch.equal(a, b) for a, b in zip(one, other, strict=True)
    )


def _rolled(leaf: Tensor) -> Tensor:
    """Each row is that of another sample."""
    return leaf.roll(1, 0) if leaf.ndim else leaf


def _redrawn(leaf: Tensor, seed: int) -> Tensor:
    """Each value is drawn from all of them, which also changes their sum."""
    drawn = torch.randint(leaf.numel(), (leaf.numel(),), generator=torch.Generator().manual_seed(seed))
    return leaf.reshape(-1)[drawn].reshape(leaf.shape)
