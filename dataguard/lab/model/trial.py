"""A first step of the model with one batch, and what happens to it if one leaf of the batch changes.

Batches are the first ones of the loader, as it yields them or with fewer samples each. Their leaves are inputs or
targets by what the step does with them. `stepped` and `loss_of` run a step with the same random numbers each time, so
that two results differ only if their batches do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dataguard.core.incident import Incident
from dataguard.core.model import DataguardError, Undecided
from dataguard.lab.batches.collate_trials import duplicate
from dataguard.lab.core.index_schedules import Schedule, drawn
from dataguard.lab.core.leaves import iter_leaves
from dataguard.lab.core.loader_facts import LoaderFacts
from dataguard.lab.model.calling import CLASS_LOSSES, Caller, LossCall, Tracer, ignore_index_of, is_target, record
from dataguard.lab.process.incidents import FlightRecorder, incident_of
from dataguard.lab.reading.epoch_trace import first_batches
from dataguard.lab.rng.rng_discovery import SEED, seed_global_generators
from dataguard.process.originals import time
from dataguard.settings.settings import Settings
from dataguard.targets.variants import Loader

MOST_LEAVES = 16
"""How many leaves of a batch are changed: a limit of time."""
MOST_CHANGES = 4
"""How often a leaf is changed that has no effect: once by the rows of other samples, then by values in another
order."""
WARM_UP_STEPS = 3
"""Steps before leaves are changed: layers that begin with zeros ignore their inputs at first, and two of them in a row
take two steps."""


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
    leaves = _Changes(caller, batches[0], recorder).all(trial.leaves, seconds)
    return replace(trial, leaves=tuple(leaves))


def _incident(raised: Raised) -> Incident:
    assert raised.__cause__ is not None
    return incident_of(raised.__cause__, raised.stage)


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


def _leaves(batch: Any, tracer: Tracer) -> Iterator[BatchLeaf]:
    for path, leaf in iter_leaves(batch):
        if isinstance(leaf, Tensor) and leaf.numel():
            constant = bool((leaf == leaf.reshape(-1)[0]).all())
            path_sets = tracer.handed, tracer.used, targets_of(tracer, batch)
            dtype = str(leaf.dtype).removeprefix("torch.")
            yield BatchLeaf(path, dtype, tuple(leaf.shape), constant, *(path in paths for paths in path_sets))


class _Changes:
    """Runs a step after other values were put into one leaf, and compares everything that it computes."""

    def __init__(self, caller: Caller, batch: Any, recorder: FlightRecorder) -> None:
        self._caller = caller
        self._batch = batch
        self._recorder = recorder
        self._parameters = [parameter for parameter in caller.module.parameters() if parameter.requires_grad]
        if self._parameters:
            self._warm_up()
        self._state = {name: value.clone() for name, value in caller.module.state_dict().items()}
        self._usual = self._run(batch)
        self._steady = all(bool(value.isfinite().all()) for value in self._usual) and _same(
            self._usual, self._run(batch)
        )

    def all(self, leaves: tuple[BatchLeaf, ...], seconds: float) -> Iterator[BatchLeaf]:
        """The leaves, the first of them with what changes if their values do."""
        ends = time.monotonic() + seconds
        for number, leaf in enumerate(leaves):
            tried = self._steady and number < MOST_LEAVES and not leaf.constant and time.monotonic() < ends
            yield replace(leaf, changes=self._changes(leaf.path)) if tried else leaf

    def _warm_up(self) -> None:
        optimizer = torch.optim.Adam(self._parameters, 1e-3)
        for _ in range(WARM_UP_STEPS):
            optimizer.zero_grad()
            loss = loss_of(self._caller, self._batch)
            if not loss.requires_grad:
                return
            loss.backward()
            optimizer.step()

    def _changes(self, path: str) -> bool:
        for number in range(MOST_CHANGES):
            batch = duplicate(self._batch)
            leaf = next(leaf for leaf_path, leaf in iter_leaves(batch) if leaf_path == path)
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
        return [*(tensor.detach() for tensor in seen), *gradients]


def _same(tensors: list[Tensor], others: list[Tensor]) -> bool:
    return len(tensors) == len(others) and all(
        a.shape == b.shape and torch.equal(a, b) for a, b in zip(tensors, others, strict=True)
    )


def _rolled(leaf: Tensor) -> Tensor:
    """Each row is that of another sample."""
    return leaf.roll(1, 0) if leaf.ndim else leaf


def _redrawn(leaf: Tensor, seed: int) -> Tensor:
    """Each value is drawn from all of them, which also changes their sum."""
    drawn = torch.randint(leaf.numel(), (leaf.numel(),), generator=torch.Generator().manual_seed(seed))
    return leaf.reshape(-1)[drawn].reshape(leaf.shape)


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


def loss_of(caller: Caller, batch: Any) -> Tensor:
    """The loss of a copy of the batch, with the same random numbers in each call. Raises Raised."""
    seed_global_generators(SEED)
    with _raising(lambda: caller.stage):
        return caller(duplicate(batch))


def stepped(caller: Caller, batch: Any) -> tuple[Tracer, Tensor]:
    """The loss of a copy of the batch, as above, and what was traced meanwhile. Raises Raised."""
    batch_copy = duplicate(batch)
    tracer = Tracer(caller.module, batch_copy)
    seed_global_generators(SEED)
    with tracer, _raising(lambda: caller.stage):
        return tracer, caller(batch_copy)


class _raising:
    """What the user's code raises inside this context becomes `Raised`."""

    def __init__(self, stage: str | Callable[[], str]) -> None:
        self._stage = stage

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, _: Any) -> None:
        if isinstance(error, Exception) and not isinstance(error, DataguardError | Raised):
            raise Raised(self._stage if isinstance(self._stage, str) else self._stage()) from error


def largest_embedding(build: Callable[..., Loader], facts: LoaderFacts, settings: Settings, folder: Path) -> int | None:
    """How many ids the largest embedding of the model takes; None without one, or if the model cannot be made."""
    try:
        module = prepared(build, facts, settings, folder, 1)[0].module
    except Raised:
        return None
    parts = module.modules() if isinstance(module, torch.nn.Module) else ()
    return max((part.num_embeddings for part in parts if isinstance(part, torch.nn.Embedding)), default=None)


@dataclass(frozen=True, slots=True)
class LabelUse:
    """What a step does with labels in rows: its loss gets those `shift` places on, 0 or 1.

    `causal`: outputs do not depend on the last token of a row, except its own.
    """

    shift: int
    causal: bool


def label_use(
    build: Callable[..., Loader], facts: LoaderFacts, settings: Settings, folder: Path, tokens: str, labels: str
) -> LabelUse | None:
    """How a step uses the labels of tokens; None if no loss gets them, or if the step raises."""
    try:
        caller, batches, _ = prepared(build, facts, settings, folder, LEAST_SAMPLES)
        tracer = stepped(caller, batches[0])[0]
        leaves = dict(iter_leaves(batches[0]))
        found = next(
            (
                (number, shift)
                for number, call in enumerate(tracer.calls)
                if call.function in CLASS_LOSSES and not call.target.is_floating_point()
                if (shift := _shift_in(call.target, leaves[labels], ignore_index_of(call))) is not None
            ),
            None,
        )
        if found is None:
            return None
        number, shift = found
        other = duplicate(batches[0])
        last = dict(iter_leaves(other))[tokens][..., -1]
        last.copy_(last.roll(1, 0))
        before, after = (calls[number].output for calls in (tracer.calls, stepped(caller, other)[0].calls))
    except Raised:
        return None
    width = leaves[labels].shape[-1]
    rows = [
        output.detach().reshape(len(leaves[labels]), -1, output.shape[-1])[:, : width - 1] for output in (before, after)
    ]
    return LabelUse(shift, bool(torch.equal(*rows)))


LEAST_SAMPLES = 4
"""So many rows have different last tokens, unless all end in the same."""


def _shift_in(target: Tensor, labels: Any, ignored: int) -> int | None:
    """How far labels were moved to be the target of a loss, whose last ones may be ignored instead; None if not."""
    if not isinstance(labels, Tensor) or labels.is_nested or labels.ndim != 2 or target.numel() % len(labels):
        return None
    rows = target.reshape(len(labels), -1)
    if rows.shape == labels.shape and bool((rows == labels).all()):
        return 0
    rest = rows[:, labels.shape[1] - 1 :]
    kept = rows[:, : labels.shape[1] - 1]
    moved = kept.shape == labels[:, 1:].shape and bool((kept == labels[:, 1:]).all())
    return 1 if moved and bool((rest == ignored).all()) else None


BATCHES_TAKEN = 2
"""How many batches are read: one to learn, and one to compare."""


class FirstBatches(Schedule):
    """The first batches of an epoch, each with at most `most` samples."""

    def __init__(self, inner: Any, most: int | None, *, batched: bool) -> None:
        super().__init__(inner)
        self.most = most if batched else None

    def __iter__(self) -> Iterator[Any]:
        for entry in islice(drawn(self.inner), BATCHES_TAKEN):
            yield entry if self.most is None else list(entry)[: self.most]

    def __len__(self) -> int:
        return min(len(self.inner), BATCHES_TAKEN)


def take(
    build: Callable[..., Loader], facts: LoaderFacts, recorder: FlightRecorder, most: int | None = None
) -> tuple[Loader, list[Any]]:
    """The loader and its first batches; with `most`, each has at most so many samples.

    Workers that would be spawned are not started, which takes longer than the rest.
    """
    changed: dict[str, Any] = {"num_workers": 0} if facts.spawns else {}
    if facts.kind == "map":
        changed["schedule"] = lambda inner, batched: FirstBatches(inner, most, batched=batched)
    elif facts.batched and most is not None:
        changed["batch_size"] = most
    loader = build(reuse=True, **changed)
    return loader, first_batches(loader, BATCHES_TAKEN, recorder)


FEWEST_ROWS = 4
"""The fewest rows that may be called identical: fewer may be copies by chance, as of an oversampled class."""
FLAT_DEVIATION = 1e-9
"""A column whose standard deviation is below this share of its largest value is constant: float64 leaves 1e-16 of
one."""

EXTREME_VALUE = 30.0
"""Values above this, or standard deviations below its inverse, may be too large or too small for a model: standardized
inputs stay within 10, and bytes that were not divided reach 255."""

Paths = frozenset[str]


@dataclass(frozen=True, slots=True)
class Extent:
    """A leaf of the batch: its range, and how many values are not finite."""

    path: str
    dtype: str
    low: float | None
    high: float | None
    broken: int


def targets_of(tracer: Tracer, batch: Any) -> Paths:
    """The leaves that are targets: those that only a loss gets, and those with the name or place of targets."""
    only_targets = (tracer.leaves_of(call.target) - tracer.leaves_of(call.output) for call in tracer.calls)
    placed = (path for path, _ in iter_leaves(batch) if is_target(path, batch))
    return frozenset(placed).union(*only_targets)


def roles_of(tracer: Tracer, batch: Any, loss: Tensor) -> tuple[Paths, Paths]:
    """The leaves that are inputs of the model, and those that are targets of the loss."""
    targets = targets_of(tracer, batch)
    # A step may call parts of the model, and never the model itself.
    handed = frozenset(tracer.handed or (tracer.used if targets else ())) - targets
    return handed, targets or tracer.leaves_of(loss) - handed


def rows_of(batch: Any) -> int | None:
    """The number of samples: the length of a list of images, else the first dimension that most leaves have."""
    if isinstance(batch, list | tuple) and batch and isinstance(batch[0], list | tuple):
        return len(batch[0])
    tensors = [leaf for _, leaf in iter_leaves(batch) if isinstance(leaf, Tensor) and leaf.ndim]
    sizes = Counter(len(leaf) for leaf in tensors).most_common(1)
    return sizes[0][0] if sizes and (sizes[0][1] > 1 or len(tensors) == 1) else None


def groups_of(batch: Any, handed: Paths) -> Tensor | None:
    """A number for each sample, the same for samples with identical inputs; None if some input has other rows."""
    rows = rows_of(batch)
    inputs = [leaf for path, leaf in iter_leaves(batch) if path in handed and isinstance(leaf, Tensor)]
    if not rows or not inputs or any(not leaf.ndim or len(leaf) != rows for leaf in inputs):
        return None
    each = [leaf.reshape(rows, -1).unique(dim=0, return_inverse=True)[1] for leaf in inputs]
    numbers: Tensor = torch.stack(each, 1).unique(dim=0, return_inverse=True)[1]
    return numbers


def are_identical(batches: Sequence[Any], handed: Paths, targets: Paths) -> bool:
    """Whether each batch has one input for all of its samples, with several targets."""
    for batch in batches:
        leaves = {path: leaf for path, leaf in iter_leaves(batch) if isinstance(leaf, Tensor)}
        count = rows_of(batch)
        both = [[leaves[path] for path in paths if path in leaves] for paths in (handed, targets)]
        inputs, outputs = both
        if (
            count is None
            or count < FEWEST_ROWS
            or any(not leaf.ndim or len(leaf) != count for leaf in inputs + outputs)
        ):
            return False
        if not inputs or not all(map(_is_repeated, inputs)) or all(map(_is_repeated, outputs)):
            return False
    return True


def _is_repeated(leaf: Tensor) -> bool:
    return bool((leaf == leaf[:1]).all())


def standardized(batch: Any, handed: Paths) -> Any:
    """The batch with inputs of mean 0 and standard deviation 1; None if that changes no scale much."""
    copy = duplicate(batch)
    rescaled = False
    for path, leaf in iter_leaves(copy):
        if path in handed and isinstance(leaf, Tensor) and leaf.is_floating_point() and leaf.numel() > 1:
            axes = [axis for axis in range(leaf.ndim) if axis != 1 or leaf.ndim == 3]  # each column or channel
            plain = leaf.double()
            centred, spread = plain - plain.mean(axes, keepdim=True), plain.std(axes, keepdim=True, correction=0)
            flat = spread <= FLAT_DEVIATION * plain.abs().amax(axes, keepdim=True)
            leaf.copy_(torch.where(flat, 0.0, centred / spread.where(~flat, 1.0)))
            varied = spread[~flat]
            rescaled = rescaled or bool(plain.abs().max() > EXTREME_VALUE or (varied < 1 / EXTREME_VALUE).any())
    return copy if rescaled else None


def extent_of(path: str, leaf: Any) -> Extent:
    """What a leaf holds."""
    if not isinstance(leaf, Tensor) or leaf.is_complex() or not leaf.numel():
        return Extent(path, type(leaf).__name__, None, None, 0)
    plain = leaf.double()
    finite = plain[plain.isfinite()]
    low, high = (float(finite.min()), float(finite.max())) if finite.numel() else (None, None)
    return Extent(path, str(leaf.dtype).removeprefix("torch."), low, high, leaf.numel() - finite.numel())
