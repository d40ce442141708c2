"""What one step computes: which leaves of the batch reach the model and the loss, and what each loss function gets.

A `TorchFunctionMode` sees every function of torch that the user's code calls. The result of a function depends on the
leaves that its arguments depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from dataguard.lab.core.leaves import iter_leaves

LOSSES: Mapping[Any, str] = {
    getattr(functional, name): name
    for name in (
        *("cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits"),
        *("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"),
    )
}
"""The loss functions that are understood."""
SUBTRACTION = "a subtraction"
"""What a loss that the user wrote is called, where it subtracts a target from an output."""
_ACTIVATIONS = ("softmax", "sigmoid", "log_softmax")
_SAME_VALUES = {
    *("view", "reshape", "squeeze", "unsqueeze", "flatten", "transpose", "permute", "contiguous", "__getitem__"),
    *("float", "double", "to", "clone", "movedim", "view_as", "reshape_as", "type_as"),
}
"""Functions whose results hold the values of their argument, if not all."""
_READS = {"tolist", "item", "numpy", "__array__", "__bool__", "__int__", "__float__", "__index__"}
"""Functions that turn tensors into other objects."""
_SOME = 4096
"""How many rows of an output are looked at."""


@dataclass(frozen=True, slots=True)
class Values:
    """A tensor that a loss function got: its form, range, the leaves it depends on, and the activation it is from."""

    shape: tuple[int, ...]
    dtype: str
    low: float | None
    high: float | None
    leaves: tuple[str, ...] = ()
    activation: str | None = None

    def __str__(self) -> str:
        return f"{self.shape} {self.dtype}"


@dataclass(frozen=True, slots=True)
class LossCall:
    """One call of a loss function, as plain data.

    `row_sums` is the range of the sums over classes of an output whose values are in [0, 1]; `log_sums` the largest
    absolute logarithm of the summed exponentials; `target_sums` the range of the sums over classes of a target that
    holds probabilities. `outside` are labels that are neither class indices nor ignored, `ignored` is the share of
    labels that are. `selects`: the loss is weighted, or returned for each value, and so may leave some of them out.
    """

    function: str
    output: Values
    target: Values
    row_sums: tuple[float, float] | None = None
    log_sums: float | None = None
    target_sums: tuple[float, float] | None = None
    outside: tuple[int, ...] = ()
    ignored: float = 0.0
    ignore_index: int | None = None
    selects: bool = False
    error: str | None = None


@dataclass(slots=True)
class LiveCall:
    """The same with its tensors; `value` is what the function returned."""

    function: str
    output: Tensor
    target: Tensor
    options: Mapping[str, Any]
    value: Tensor | None = None
    error: str | None = None


class Tracer(TorchFunctionMode):
    """Follows the leaves of one batch through one step of a model.

    `handed` are the leaves that reach the model's forward, `used` those that reach anything that is computed from more
    than their own values; `outputs` is what the forward returned. `batch_statistics`: some layer normalizes by those of
    the batch.
    """

    def __init__(self, module: nn.Module, batch: Any) -> None:
        super().__init__()
        self.calls: list[LiveCall] = []
        self.handed: set[str] = set()
        self.used: set[str] = set()
        self.outputs: list[Tensor] = []
        self.batch_statistics = False
        self._inside = 0
        self._leaves: dict[int, frozenset[str]] = {}
        self._activations: dict[int, str] = {}
        self._kept: list[Any] = []  # no address is used twice while the step runs
        for path, leaf in iter_leaves(batch):
            place = _place(leaf) if isinstance(leaf, Tensor) else None
            if place is not None:
                self._leaves[place] = self._leaves.get(place, frozenset()) | {path}
        self._hooks = (
            module.register_forward_pre_hook(self._enters, with_kwargs=True),
            module.register_forward_hook(self._leaves_forward),
        )

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        for hook in self._hooks:
            hook.remove()
        self._kept.clear()

    def leaves_of(self, *values: Any) -> frozenset[str]:
        """The leaves that these tensors depend on."""
        known = (self._leaves.get(place) for one in tensors_in(values) if (place := _place(one)) is not None)
        return frozenset().union(*filter(None, known))

    def values_of(self, tensor: Tensor) -> Values:
        """A tensor as plain data."""
        plain = tensor.detach()
        numbers = plain.float() if plain.numel() and not plain.is_complex() else None
        low, high = (None, None) if numbers is None else (float(numbers.min()), float(numbers.max()))
        activation = self._activations.get(_place(tensor) or 0)
        dtype = str(tensor.dtype).removeprefix("torch.")
        return Values(tuple(tensor.shape), dtype, low, high, tuple(sorted(self.leaves_of(tensor))), activation)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        call = self._call_of(func, args, named)
        if call is not None:
            self.calls.append(call)
        try:
            result = func(*args, **named)
        except Exception as error:
            if call is not None:
                call.error = f"{type(error).__name__}: {error}"
            raise
        name = getattr(func, "__name__", "")
        if name == "batch_norm":
            self.batch_statistics |= bool(named.get("training", args[5] if len(args) > 5 else False))
        if name in _READS:
            self.used |= self.leaves_of(args)
        if name == "__get__" or not isinstance(result, Tensor | tuple | list | Mapping):
            return result
        found = self.leaves_of(args, named)
        self.used |= found if name not in _SAME_VALUES else set()
        activation = name if name in _ACTIVATIONS else None
        if name in _SAME_VALUES and args and isinstance(args[0], Tensor):
            activation = self._activations.get(_place(args[0]) or 0)
        for one in tensors_in(result):
            place = _place(one)
            if place is None:
                continue
            self._kept.append(one)
            self._leaves[place] = found  # of an operation in place, the argument itself is among those
            self._activations.pop(place, None)
            if activation is not None:
                self._activations[place] = activation
        if call is not None and isinstance(result, Tensor) and call.function != SUBTRACTION:
            call.value = result.detach()
        return result

    def _call_of(self, func: Any, args: Any, named: Mapping[str, Any]) -> LiveCall | None:
        function = LOSSES.get(func) if getattr(func, "__hash__", None) else None
        values = [*args[:2], *(named[name] for name in ("input", "target") if name in named)]
        if len(values) < 2 or not all(isinstance(one, Tensor) for one in values[:2]):
            return None
        if function is not None:
            options = dict(named)
            if function == "nll_loss" or function == "cross_entropy":
                options.update(zip(("weight", "size_average", "ignore_index"), args[2:5], strict=False))
            return LiveCall(function, values[0], values[1], options)
        if self._inside or getattr(func, "__name__", "") != "sub":
            return None
        output, target = sorted(values[:2], key=lambda one: not one.requires_grad)
        if not output.requires_grad or target.requires_grad or not self.leaves_of(target):
            return None
        return LiveCall(SUBTRACTION, output, target, {}) if is_outer(output.shape, target.shape) else None

    def _enters(self, module: nn.Module, args: Any, named: Any) -> None:
        self._inside += 1
        self.handed |= self.leaves_of(args, named)
        self.used |= self.handed

    def _leaves_forward(self, module: nn.Module, args: Any, result: Any) -> None:
        self._inside -= 1
        self.outputs += tensors_in(result)


def _place(tensor: Tensor) -> int | None:
    """Where the values of a tensor begin; None if it has no memory, or none that could be asked for."""
    try:
        return tensor.data_ptr() or None
    except RuntimeError:  # sparse, or inside torch.func
        return None


def is_outer(one: torch.Size, other: torch.Size) -> bool:
    """Whether shapes of equally many values broadcast to more: (8, 1) and (8,) become (8, 8)."""
    if one.numel() != other.numel() or one == other:
        return False
    try:
        return bool(torch.broadcast_shapes(one, other).numel() > one.numel())
    except RuntimeError:
        return False


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors in arguments or results, in nested containers too."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors_in(item)


def record(call: LiveCall, values_of: Callable[[Tensor], Values]) -> LossCall:
    """A call as plain data."""
    output, target = call.output.detach(), call.target.detach()
    weighted = call.options.get("weight") is not None or call.options.get("reduction", "mean") == "none"
    found: dict[str, Any] = {"selects": weighted}
    axis = 1 if output.ndim > 1 else 0
    by_class = call.function in ("cross_entropy", "nll_loss")
    if by_class and output.is_floating_point() and output.ndim and output.numel():
        rows = output.movedim(axis, -1).reshape(-1, output.shape[axis])[:_SOME].double()
        sums = rows.sum(1)
        inside = bool(((rows >= 0) & (rows <= 1)).all())
        found["row_sums"] = (float(sums.min()), float(sums.max())) if inside else None
        found["log_sums"] = float(rows.logsumexp(1).abs().max())
        same = target.shape == output.shape
        if target.is_floating_point() and same:
            sums = target.movedim(axis, -1).reshape(-1, output.shape[axis]).double().sum(1)
            found["target_sums"] = (float(sums.min()), float(sums.max()))
        elif not target.is_floating_point() and not same:
            ignore = call.options.get("ignore_index")
            found.update(_labels(target, output.shape[axis], -100 if ignore is None else ignore))
    return LossCall(call.function, values_of(output), values_of(target), **found, error=call.error)


def _labels(target: Tensor, classes: int, ignore: int) -> dict[str, Any]:
    kept = target[target != ignore]
    outside = kept[(kept < 0) | (kept >= classes)].unique().tolist()
    share = 1 - kept.numel() / max(target.numel(), 1)
    return {"outside": tuple(outside[:8]), "ignored": share, "ignore_index": ignore}
