"""Whether the user's model learns one fixed batch, and all observations of batches with a model: `lab.model`.

The batch is overfitted with several optimizers; if none succeeds, again with standardized inputs. How far a loss has
come is measured between what the loss function can reach on these targets at best, and with one prediction for all
samples (`bounds`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from dataguard.core.incident import LoaderFailed
from dataguard.core.model import NotApplicable, NotTested, Undecided
from dataguard.lab.core.leaves import iter_leaves
from dataguard.lab.core.loader_facts import LoaderFacts
from dataguard.lab.model.calling import CLASS_LOSSES, NAME_A_STEP, Caller, LiveCall, ignore_index_of
from dataguard.lab.model.trial import (
    Extent,
    LabelUse,
    Raised,
    Trial,
    are_identical,
    extent_of,
    groups_of,
    label_use,
    largest_embedding,
    loss_of,
    prepared,
    require_no_gradients,
    roles_of,
    rows_of,
    run_trial,
    standardized,
    stepped,
)
from dataguard.lab.process.incidents import FlightRecorder
from dataguard.lab.subject import Subject
from dataguard.process.originals import time
from dataguard.settings.settings import Settings
from dataguard.targets.variants import Loader

T = TypeVar("T")

MOST_SECONDS = 12.0
"""Seconds in which a batch is to be learned, or its leaves changed, at most: a fifth of the default budget."""


class ModelObservations:
    """What the model of the settings does with a batch; each observation is made once, as in `Lab`.

    Raises NotApplicable without a model, and Undecided if the model cannot be called or its process fails.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def trial(self) -> Trial:
        """The first step. Its loss is None if that raised an exception."""
        subject, seconds = self._ready(), self._seconds
        return self._observed(
            "trial", lambda folder: run_trial(subject.build, subject.facts, subject.settings, folder, seconds)
        )

    @property
    def stepped(self) -> Trial:
        """The same, if it has a loss."""
        trial = self.trial
        if trial.failed == "loss" or trial.failed == "backward":
            raise NotApplicable("see DG902: there is no loss")
        self.need_call(trial)
        return trial

    @property
    def learning(self) -> Learning:
        """How one batch is learned."""
        subject, seconds = self._ready(), self._seconds
        return self._observed(
            "learning",
            lambda folder: run_learning(subject.build, subject.facts, subject.settings, folder, seconds),
        )

    @property
    def vocabulary(self) -> int | None:
        """How many ids the largest embedding of the model takes; None without one, or if there is no model to make."""
        subject = self._subject
        if subject.settings.model is None or subject.facts.bare:
            return None
        vocabulary: int | None = self._observed(
            "vocabulary", lambda folder: largest_embedding(subject.build, subject.facts, subject.settings, folder)
        )
        return vocabulary

    def label_use(self, tokens: str, labels: str) -> LabelUse | None:
        """What a step does with the labels in this leaf, of tokens in that one; None if no loss gets them."""
        subject = self._subject
        if subject.settings.model is None or subject.facts.bare:
            return None
        use: LabelUse | None = self._observed(
            f"labels {labels}",
            lambda folder: label_use(subject.build, subject.facts, subject.settings, folder, tokens, labels),
        )
        return use

    def need_call(self, trial: Trial) -> None:
        """Raise Undecided if the model could not be called."""
        if trial.failed in ("model", "step") and trial.incident is not None:
            at = trial.incident.location
            where = f" at {at.file}:{at.line}" if at else ""
            other = "" if trial.failed == "step" else f": if it is called differently, {NAME_A_STEP}"
            raise Undecided(f"the {trial.failed} raised {trial.incident.headline}{where}{other}")

    def repro(self, code: str) -> str:
        """A command that runs one check with the model."""
        settings = self._subject.settings
        named = {"model": settings.model, "loss": settings.loss, "step": settings.step}
        options = "".join(f" --{name} {quote(value)}" for name, value in named.items() if value)
        return self._subject.repro.scan(code, options)

    @property
    def _seconds(self) -> float:
        """The time for one observation: a third of what is left of the budget, within bounds."""
        return max(min(self._subject.cache.left / 3, MOST_SECONDS), 1.0)

    def _ready(self) -> Subject:
        subject = self._subject
        if subject.settings.model is None:
            raise NotTested("no model is named: --model pkg.mod:make_model --loss pkg.mod:loss")
        if subject.facts.bare:
            raise NotTested("the target is a dataset, and a model takes batches: name a DataLoader")
        if subject.facts.role in ("test", "predict"):
            raise NotApplicable(f"the samples of a {subject.facts.role} loader may have no targets")
        return subject

    def _observed(self, key: str, run: Callable[[Path], T]) -> T:
        subject = self._subject
        epoch = subject.epoch
        subject.afford(
            ("model", key), 2 * max((batch.size for batch in epoch.batches), default=1) * epoch.seconds_per_sample
        )
        try:
            return subject.cache.observe(("model", key), run)
        except LoaderFailed as failure:
            raise Undecided(f"not decided: the model failed: {failure.incident.headline}") from failure


Optimizer = tuple[str, Callable[[Any], torch.optim.Optimizer]]

OPTIMIZERS: tuple[Optimizer, ...] = (
    ("Adam, lr 0.001", lambda parameters: torch.optim.Adam(parameters, 1e-3)),
    ("Adam, lr 0.01", lambda parameters: torch.optim.Adam(parameters, 1e-2)),
    ("SGD, lr 0.1", lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9)),
    ("Adam, lr 0.0001", lambda parameters: torch.optim.Adam(parameters, 1e-4)),
    ("SGD, lr 0.001", lambda parameters: torch.optim.SGD(parameters, 1e-3, momentum=0.9)),
)
"""The optimizers, tried in turn until one succeeds: at their usual rates, those first that suit the most models."""
MOST_STEPS = 100
"""Steps of one optimizer at most: a limit of time, as five optimizers may take as many each."""
FEWEST_STEPS = 20
"""An optimizer that takes fewer steps decides nothing: the loss may still rise in the first ones."""
SMALLER_BATCH = 8
"""How many samples of a batch are learned if steps with the whole batch take too long: enough to have several
classes."""
LEARNED_SHARE = 0.5
"""The share of the way from the start, or from the best constant prediction, to the best possible loss: half of it
cannot be reached without the inputs, and most models that learn continue to all of it."""
STUCK_SHARE = 0.25
"""The share of that way below which inputs are standardized: half of `LEARNED_SHARE`, so that a slow model is not
blamed on its inputs."""
_FLAT_GRADIENT = 1e-3
"""The share of its first norm at which the gradient of an unknown loss counts as that of a minimum."""
_DISTINCT_LOSS = 1e-6
"""The least gap between the losses of the best and of a constant prediction if targets differ: above float32
rounding."""
_DISTINCT_SHARE = 0.1
"""The least share of the way from the start that must lie below a constant prediction for the way to begin there."""


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
        learning = _Batch(*prepared(build, facts, settings, folder), seconds).learned()
        if learning.cut and facts.batched and (learning.samples or 0) > SMALLER_BATCH:
            learning = _Batch(*prepared(build, facts, settings, folder, SMALLER_BATCH), seconds).learned()
    except Raised as raised:
        raise Undecided(f"{raised.stage}: {type(raised.__cause__).__name__}: {raised.__cause__}") from raised
    return learning


class _Batch:
    """A batch, a model and a time in which it is to be learned."""

    def __init__(self, caller: Caller, batches: list[Any], recorder: FlightRecorder, seconds: float) -> None:
        self._caller = caller
        self._batches = batches
        self._recorder = recorder
        self._seconds = seconds
        module = caller.module
        self._named = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
        first, loss = stepped(caller, batches[0])
        self._first = first
        self._state = {name: value.clone() for name, value in module.state_dict().items()}
        self._start = loss.item()
        self._graph = loss.requires_grad
        require_no_gradients(caller)
        if self._graph:
            loss.backward()
        self._unreached = tuple(name for name, parameter in self._named.items() if not _has_gradient(parameter))
        self._handed, self._targets = roles_of(first, batches[0], loss)
        scalar_losses = [call for call in first.calls if call.value is not None and call.value.ndim == 0]
        self._main = scalar_losses[0] if len(scalar_losses) == 1 else None

    def learned(self) -> Learning:
        """How this batch is learned."""
        batch = self._batches[0]
        leaves = list(iter_leaves(batch))
        rows = rows_of(batch)
        limits = bounds(self._main, groups_of(batch, self._handed)) if self._main else None
        apart = bounds(self._main) if self._main else None
        learning = Learning(
            rows,
            self._start,
            len(self._named),
            self._graph,
            self._unreached,
            tuple(extent_of(path, leaf) for path, leaf in leaves if path in self._handed),
            tuple(extent_of(path, leaf) for path, leaf in leaves if path in self._targets),
            ignored=any(all_ignored(call) for call in self._first.calls),
            broken_parameter=next(
                (name for name, parameter in self._named.items() if not parameter.isfinite().all()), None
            ),
            identical=are_identical(self._batches, self._handed, self._targets),
            equal_targets=apart is not None and apart[1] - apart[0] < _DISTINCT_LOSS,
            best=limits[0] if limits else None,
            constant=limits[1] if limits else None,
            classes=classes_of(self._main) if self._main else None,
        )
        if not math.isfinite(self._start) or not self._graph or not self._named:
            return learning
        started = time.monotonic()
        if len(self._unreached) < len(self._named):
            attempts, learned = self._attempts(batch, limits, self._seconds / 2)
            cut = attempts[0].steps < FEWEST_STEPS and not learned
            learning = replace(learning, attempts=attempts, learned=learned, cut=cut)
        reached = learning.reached
        stuck = reached is None or _progress(reached.loss, self._start_value, limits) < STUCK_SHARE
        if stuck and not learning.learned and not learning.cut:
            scaled = standardized(batch, self._handed)
            if scaled is not None:
                others, learned = self._attempts(scaled, limits, self._seconds / 2, strict=True)
                learning = replace(learning, scaled=min(others, key=lambda attempt: attempt.loss) if learned else None)
        return replace(learning, seconds=time.monotonic() - started)

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
        for number in range(MOST_STEPS):
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
            if limits is None and value < self._start_value and norm < _FLAT_GRADIENT * first:
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
    if right is not None and right[1] < 1 and right[0] >= right[1] + LEARNED_SHARE * (1 - right[1]):
        return True
    return _progress(value, start, limits) >= LEARNED_SHARE


def _progress(value: float, start: float, limits: tuple[float, float] | None) -> float:
    """The share of the way to the best loss, from the start or, if known, from that of a constant prediction."""
    if limits is None:  # most losses have their best at 0
        return (start - value) / max(abs(start), 1e-12)
    # Why a constant prediction counts as no progress: biases alone reach it, whatever the inputs are. So the way begins
    # there, or at the start if a trained model begins below. Where a constant prediction is about as good as the best
    # one, the way would be too short to measure, and it begins at the start.
    best, constant = limits
    highest = min(start, constant) if constant - best > _DISTINCT_SHARE * (start - best) else start
    return (highest - value) / max(highest - best, 1e-12)


def _has_gradient(parameter: Tensor) -> bool:
    return parameter.grad is not None and bool(parameter.grad.count_nonzero())


def _norm(parameters: Iterator[Tensor] | Sequence[Tensor] | Any) -> float:
    return math.sqrt(
        sum(float(parameter.grad.double().square().sum()) for parameter in parameters if parameter.grad is not None)
    )


_OPTIONS = ("weight", "pos_weight")
"""Options that weight classes: then nothing is known."""


def bounds(call: LiveCall, groups: Tensor | None = None) -> tuple[float, float] | None:
    """The loss of the best predictions, and that of the best constant one; None if it is not known.

    The predictions for samples of one group are the same.
    """
    if any(call.options.get(name) is not None for name in _OPTIONS):
        return None
    find = _KNOWN_BOUNDS.get(call.function)
    averages = find(call, groups) if find else None
    if averages is None or call.options.get("reduction", "mean") == "none":
        return None
    each, constant, count = averages
    scale = count if call.options.get("reduction", "mean") == "sum" else 1
    return each * scale, constant * scale


def classes_of(call: LiveCall) -> int | None:
    """How many classes the output of a cross-entropy has."""
    if call.function not in CLASS_LOSSES or not call.output.ndim:
        return None
    return call.output.shape[1 if call.output.ndim > 1 else 0]


def accuracy(call: LiveCall) -> tuple[float, float] | None:
    """The share of right predictions, and that of the most frequent class; None without class indices."""
    if call.function not in CLASS_LOSSES or call.target.is_floating_point():
        return None
    kept = call.target != ignore_index_of(call)
    if call.output.ndim < 2 or not kept.any():
        return None
    labels = call.target[kept]
    right = float((call.output.argmax(1)[kept] == labels).double().mean())
    return right, float(labels.unique(return_counts=True)[1].max() / labels.numel())


def all_ignored(call: LiveCall) -> bool:
    """Whether every class index is the one that the loss ignores."""
    class_indices = call.function in CLASS_LOSSES and not call.target.is_floating_point()
    return class_indices and bool((call.target == ignore_index_of(call)).all())


Bounds = tuple[float, float, int]
"""The mean loss of the best and of constant predictions, and how many losses there are."""


def _of_classes(call: LiveCall, groups: Tensor | None) -> Bounds | None:
    output, target = call.output.detach(), call.target.detach()
    if output.ndim < 2:
        return None
    classes = output.shape[1]
    if target.is_floating_point():
        if target.shape != output.shape:
            return None
        rows = target.double().movedim(1, -1).reshape(-1, classes)
    else:
        if target.ndim != output.ndim - 1:
            return None
        kept = target != ignore_index_of(call)
        labels = target[kept]
        if not labels.numel() or bool(((labels < 0) | (labels >= classes)).any()):
            return None
        rows = one_hot(labels.long(), classes).double()
        groups = groups[kept] if groups is not None and groups.shape == kept.shape else None
    smoothing = call.options.get("label_smoothing", 0.0)
    rows = (1 - smoothing) * rows + smoothing / classes
    return _entropy(_grouped(rows, groups)), _entropy(rows.mean(0, keepdim=True)), rows.shape[0]


def _of_chances(call: LiveCall, groups: Tensor | None) -> Bounds | None:
    chances = call.target.detach().double()
    if call.output.shape != chances.shape or bool(((chances < 0) | (chances > 1)).any()):
        return None
    best, constant = (
        torch.stack([positive, 1 - positive], -1) for positive in (_grouped(chances, groups), _mean(chances))
    )
    return _entropy(best), _entropy(constant), chances.numel()


def _of_squares(call: LiveCall, groups: Tensor | None) -> Bounds | None:
    targets = call.target.detach().double()
    if call.output.shape != targets.shape:
        return None
    best, constant = (
        float((targets - predictions).square().mean()) for predictions in (_grouped(targets, groups), _mean(targets))
    )
    return best, constant, targets.numel()


def _mean(values: Tensor) -> Tensor:
    """The mean of each column of a table, else of all values."""
    return values.mean(0 if values.ndim == 2 else tuple(range(values.ndim)), keepdim=True)


def _grouped(rows: Tensor, groups: Tensor | None) -> Tensor:
    """The mean of the rows of each group, in place of the rows."""
    if groups is None or not rows.ndim or len(groups) != len(rows):
        return rows
    member = one_hot(groups).double()
    means = (member.T @ rows.reshape(len(rows), -1)) / member.sum(0).clamp(min=1)[:, None]
    return means[groups].reshape(rows.shape)


def _entropy(rows: Tensor) -> float:
    """The mean entropy of distributions along the last axis."""
    return float(-torch.xlogy(rows, rows).sum(-1).mean())


_KNOWN_BOUNDS: dict[str, Callable[[LiveCall, Tensor | None], Bounds | None]] = {
    "cross_entropy": _of_classes,
    "nll_loss": _of_classes,
    "binary_cross_entropy": _of_chances,
    "binary_cross_entropy_with_logits": _of_chances,
    "mse_loss": _of_squares,
}
