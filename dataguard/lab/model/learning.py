"""Overfit one fixed batch with several optimizers; if none succeeds, again with standardized inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dataguard.lab.core.leaves import iter_leaves
from dataguard.lab.core.loader_facts import LoaderFacts
from dataguard.lab.model.batch_parts import Extent, are_identical, extent_of, groups_of, roles_of, rows_of, standardized
from dataguard.lab.model.calling import Caller
from dataguard.lab.model.loss_bounds import accuracy, all_ignored, bounds, classes_of
from dataguard.lab.model.tracing import LiveCall
from dataguard.lab.model.trial import Raised, loss_of, prepared, require_no_gradients, stepped
from dataguard.lab.process.flight_recorder import FlightRecorder
from dataguard.model import Undecided
from dataguard.process.originals import time
from dataguard.settings.settings import Settings
from dataguard.targets.variants import Loader

Optimizer = tuple[str, Callable[[Any], torch.optim.Optimizer]]

OPTIMIZERS: tuple[Optimizer, ...] = (
    ("Adam, lr 0.001", lambda parameters: torch.optim.Adam(parameters, 1e-3)),
    ("Adam, lr 0.01", lambda parameters: torch.optim.Adam(parameters, 1e-2)),
    ("SGD, lr 0.1", lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9)),
    ("Adam, lr 0.0001", lambda parameters: torch.optim.Adam(parameters, 1e-4)),
    ("SGD, lr 0.001", lambda parameters: torch.optim.SGD(parameters, 1e-3, momentum=0.9)),
)
"""The optimizers, tried in turn until one succeeds."""
STEPS = 100
"""Steps of one optimizer at most."""
FEWEST_STEPS = 20
"""An optimizer that takes fewer steps decides nothing."""
SMALLER = 8
"""How many samples of a batch are learned if steps with the whole batch take too long."""
LEARNED = 0.5
"""The share of the way from the start, or from the best constant prediction, to the best possible loss."""
STUCK = 0.25
"""The share of that way below which inputs are standardized."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one optimizer reached; `loss` is the lowest loss."""

    optimizer: str
    steps: int
    loss: float


@dataclass(frozen=True, slots=True)
class Learning:
    """How a model learns one batch.

    `start` is the loss before the first step. `best` and `constant` are the losses of the best predictions and of the
    best prediction that is the same for all samples, if known; `classes` is set for a cross-entropy. `unreached` are
    trainable parameters without a gradient, of `parameters`. `identical`: the inputs of all samples are identical, and
    their targets differ. `scaled` is the best attempt with standardized inputs, if none succeeded with those of the
    loader. `cut`: too few steps fit into the time.
    """

    samples: int | None
    start: float
    parameters: int
    graph: bool
    unreached: tuple[str, ...]
    inputs: tuple[Extent, ...]
    targets: tuple[Extent, ...]
    ignored: bool = False
    broken_parameter: str | None = None
    identical: bool = False
    equal_targets: bool = False
    best: float | None = None
    constant: float | None = None
    classes: int | None = None
    attempts: tuple[Attempt, ...] = ()
    learned: bool = False
    scaled: Attempt | None = None
    cut: bool = False
    seconds: float = 0.0

    @property
    def reached(self) -> Attempt | None:
        """The attempt with the lowest loss."""
        return min(self.attempts, key=lambda attempt: attempt.loss, default=None)


def run_learning(
    build: Callable[..., Loader], facts: LoaderFacts, settings: Settings, folder: Path, seconds: float
) -> Learning:
    """Learn the first batch, or a few samples of it if the steps take too long for so many seconds."""
    try:
        found = _Batch(*prepared(build, facts, settings, folder), seconds).learned()
        if found.cut and facts.batched and (found.samples or 0) > SMALLER:
            found = _Batch(*prepared(build, facts, settings, folder, SMALLER), seconds).learned()
    except Raised as raised:
        raise Undecided(f"{raised.stage}: {type(raised.__cause__).__name__}: {raised.__cause__}") from raised
    return found


class _Batch:
    """A batch, a model and a time in which it is to be learned."""

    def __init__(self, caller: Caller, batches: list[Any], recorder: FlightRecorder, seconds: float) -> None:
        self._caller = caller
        self._batches = batches
        self._recorder = recorder
        self._seconds = seconds
        module = caller.module
        self._named = {name: one for name, one in module.named_parameters() if one.requires_grad}
        first, loss = stepped(caller, batches[0])
        self._first = first
        self._state = {name: value.clone() for name, value in module.state_dict().items()}
        self._start = loss.item()
        self._graph = loss.requires_grad
        require_no_gradients(caller)
        if self._graph:
            loss.backward()
        self._unreached = tuple(name for name, one in self._named.items() if not _has_gradient(one))
        self._handed, self._targets = roles_of(first, batches[0], loss)
        known = [call for call in first.calls if call.value is not None and call.value.ndim == 0]
        self._main = known[0] if len(known) == 1 else None

    def learned(self) -> Learning:
        """How this batch is learned."""
        batch = self._batches[0]
        leaves = list(iter_leaves(batch))
        rows = rows_of(batch)
        limits = bounds(self._main, groups_of(batch, self._handed)) if self._main else None
        apart = bounds(self._main) if self._main else None
        found = Learning(
            rows,
            self._start,
            len(self._named),
            self._graph,
            self._unreached,
            tuple(extent_of(path, leaf) for path, leaf in leaves if path in self._handed),
            tuple(extent_of(path, leaf) for path, leaf in leaves if path in self._targets),
            ignored=any(all_ignored(call) for call in self._first.calls),
            broken_parameter=next((name for name, one in self._named.items() if not one.isfinite().all()), None),
            identical=are_identical(self._batches, self._handed, self._targets),
            equal_targets=apart is not None and apart[1] - apart[0] < 1e-6,
            best=limits[0] if limits else None,
            constant=limits[1] if limits else None,
            classes=classes_of(self._main) if self._main else None,
        )
        if not math.isfinite(self._start) or not self._graph or not self._named:
            return found
        started = time.monotonic()
        if len(self._unreached) < len(self._named):
            attempts, learned = self._attempts(batch, limits, self._seconds / 2)
            cut = attempts[0].steps < FEWEST_STEPS and not learned
            found = replace(found, attempts=attempts, learned=learned, cut=cut)
        reached = found.reached
        stuck = reached is None or _progress(reached.loss, self._start_value, limits) < STUCK
        if stuck and not found.learned and not found.cut:
            scaled = standardized(batch, self._handed)
            if scaled is not None:
                others, learned = self._attempts(scaled, limits, self._seconds / 2, strict=True)
                found = replace(found, scaled=min(others, key=lambda one: one.loss) if learned else None)
        return replace(found, seconds=time.monotonic() - started)

    def _attempts(
        self, batch: Any, limits: tuple[float, float] | None, seconds: float, *, strict: bool = False
    ) -> tuple[tuple[Attempt, ...], bool]:
        """Train from the start with one optimizer after the other, until one learns the batch.

        `strict`: right predictions are not enough, the loss must fall.
        """
        made: list[Attempt] = []
        ends = time.monotonic() + seconds
        for name, optimizer in OPTIMIZERS:
            self._caller.module.load_state_dict(self._state)
            made_by = optimizer([*self._named.values()])
            attempt, learned = self._train(name, made_by, batch, limits, ends, strict=strict)
            made.append(attempt)
            if learned or time.monotonic() > ends:
                return tuple(made), learned
        return tuple(made), False

    def _train(
        self,
        name: str,
        optimizer: torch.optim.Optimizer,
        batch: Any,
        limits: tuple[float, float] | None,
        ends: float,
        *,
        strict: bool,
    ) -> tuple[Attempt, bool]:
        lowest, steps, first = math.inf, 0, 0.0
        for number in range(STEPS):
            if number and time.monotonic() > ends:
                break
            self._recorder.mark(None, "model")
            optimizer.zero_grad()
            call, loss = self._watched(batch)
            value = (loss if call is None or call.value is None else call.value).item()
            if not math.isfinite(value) or not loss.requires_grad:
                break
            lowest = min(lowest, value)
            if _is_learned(lowest, self._start_value, limits, None if strict else call):
                return Attempt(name, steps, lowest), True
            loss.backward()
            norm = _norm(self._named.values())
            first = first or norm
            if limits is None and value < self._start_value and norm < 1e-3 * first:
                return Attempt(name, steps, lowest), True  # a minimum, whatever the loss is there
            optimizer.step()
            steps += 1
        return Attempt(name, steps, lowest), False

    @property
    def _start_value(self) -> float:
        value = self._main.value if self._main else None
        return self._start if value is None else float(value)

    def _watched(self, batch: Any) -> tuple[LiveCall | None, Tensor]:
        """A step; with what the loss function got, if the loss is that of a single known function."""
        if self._main is None:
            return None, loss_of(self._caller, batch)
        tracer, loss = stepped(self._caller, batch)
        return tracer.calls[0] if len(tracer.calls) == 1 else None, loss


def _is_learned(value: float, start: float, limits: tuple[float, float] | None, call: LiveCall | None) -> bool:
    """Whether a loss is far enough below the start and, if known, below that of a constant prediction."""
    right = accuracy(call) if call else None
    if right is not None and right[1] < 1 and right[0] >= right[1] + LEARNED * (1 - right[1]):
        return True
    return _progress(value, start, limits) >= LEARNED


def _progress(value: float, start: float, limits: tuple[float, float] | None) -> float:
    """The share of the way to the best loss, from the start or, if known, from that of a constant prediction."""
    if limits is None:
        return (start - value) / max(abs(start), 1e-12)
    best, constant = limits
    highest = min(start, constant) if constant - best > 0.1 * (start - best) else start
    return (highest - value) / max(highest - best, 1e-12)


def _has_gradient(parameter: Tensor) -> bool:
    return parameter.grad is not None and bool(parameter.grad.count_nonzero())


def _norm(parameters: Iterator[Tensor] | Sequence[Tensor] | Any) -> float:
    return math.sqrt(sum(float(one.grad.double().square().sum()) for one in parameters if one.grad is not None))
