"""How a batch reaches the user's model and loss, and what one step computes from it.

`Caller` calls a step function of the user, or follows one of the usual conventions. `Tracer` finds which leaves of the
batch reach the model and the loss, and what each loss function gets: a `TorchFunctionMode` sees every function of torch
that the user's code calls, and the result of a function depends on the leaves that its arguments depend on.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from dataguard.core.model import Undecided, UsageError
from dataguard.lab.core.leaves import iter_leaves
from dataguard.settings.settings import Settings
from dataguard.targets.loading import load
from dataguard.targets.spelling import parameters_of
from dataguard.targets.variants import Loader

T = TypeVar("T")

TARGETS = ("labels", "label", "targets", "target", "y", "masks", "mask")
"""Names of the target in a batch that has names, the most certain one first."""
INPUTS = ("image", "images", "pixel_values", "input", "inputs", "x", "input_ids", "features")
"""Names of the input, for a model whose parameters have other names."""
NAME_A_STEP = "name a function step(model, batch) that returns the loss, --step pkg.mod:step"
"""The way out where no convention fits."""
_WHOLE = ("batch", "data", "sample")
"""Names of a parameter that takes a whole batch."""
_OUTPUTS = ("logits", "out")
"""Names of the output proper, where a model returns several."""


class Caller:
    """A model in training mode, and what calls it with a batch; call it to get the loss of a batch.

    `stage` is what ran last: model, loss or step. `whole`: the user's code gets the whole batch.
    """

    def __init__(self, settings: Settings, loader: Loader) -> None:
        self.module = _model(settings.model or "", loader).to("cpu").train()
        self._loss = None if settings.loss is None else _loss(settings.loss)
        self._step = None if settings.step is None else _function(settings.step)
        self.whole = self._step is not None or self._trains_itself
        self.stage = "model"

    @property
    def _trains_itself(self) -> bool:
        """Whether it is a LightningModule, or another model with such a method."""
        return self._loss is None and callable(getattr(self.module, "training_step", None))

    def __call__(self, batch: Any) -> Tensor:
        """The loss, a scalar. Raises Undecided if no convention fits, and what the user's code raises."""
        self.stage = "model"
        if self._step is not None:
            self.stage = "step"
            return _loss_in(self._step(self.module, batch), "step()")
        if self._trains_itself:
            self.stage = "step"
            return _loss_in(self.module.training_step(batch, 0), "training_step()")  # type: ignore[operator]
        if _is_detection(batch):
            return _loss_in(self.module(list(batch[0]), list(batch[1])), "the model")
        args, named, target = self._arguments(batch)
        result = self.module(*args, **named)
        if self._loss is None:
            return _loss_in(result, "the model")
        self.stage = "loss"
        made = self._loss(_output_in(result), target)
        return made.mean() if isinstance(made, Tensor) and made.numel() > 1 else _loss_in(made, "the loss function")

    def _arguments(self, batch: Any) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
        """What the model is called with, and the target, which the model gets as well if it computes the loss."""
        if isinstance(batch, Mapping):
            return self._of_names(batch)
        if isinstance(batch, Tensor):
            if self._loss is None:
                return (batch,), {}, None
            raise _unclear("the batch is a single tensor, without a target for the loss")
        if isinstance(batch, Sequence):
            return self._of_parts(batch)
        target = next((getattr(batch, name) for name in TARGETS if getattr(batch, name, None) is not None), None)
        required, names, _ = self._parameters
        if required and all(hasattr(batch, name) for name in required):
            return (), {name: getattr(batch, name) for name in names if hasattr(batch, name)}, target
        self.whole = True
        return (batch,), {}, target

    def _of_parts(self, batch: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
        parts, target = (batch, None) if self._loss is None else (batch[:-1], batch[-1])
        required, names, _ = self._parameters
        if len(parts) == 1 and isinstance(parts[0], Mapping):
            named = {key: value for key, value in parts[0].items() if key in names}
            return ((), named, target) if named else ((parts[0],), {}, target)
        if len(parts) == 1 and isinstance(parts[0], list | tuple) and len(required) == len(parts[0]) > 1:
            return tuple(parts[0]), {}, target
        if not parts or not len(required) <= len(parts) <= max(len(names), 1):
            shown = f"{len(parts)} inputs" if self._loss else f"{len(parts)} parts"
            raise _unclear(f"a batch has {shown}, and the model takes {', '.join(names) or 'nothing'}")
        return tuple(parts), {}, target

    def _of_names(self, batch: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
        required, names, various = self._parameters
        key = next((name for name in TARGETS if name in batch and (self._loss or name in names)), None)
        if self._loss is not None and key is None:
            raise _unclear(f"no key of the batch is called {', '.join(TARGETS[:5])}")
        target = None if key is None else batch[key]
        inputs = {name: value for name, value in batch.items() if self._loss is None or name != key}
        named = {name: value for name, value in inputs.items() if name in names}
        if named and all(name in named for name in required):
            return (), named, target
        if len(required) == 1 and required[0] in _WHOLE:
            self.whole = True
            return (batch,), {}, target
        if various and not required:
            return (), inputs, target
        candidates = [name for name in INPUTS if name in inputs] or (list(inputs) if len(inputs) == 1 else [])
        if len(required) == 1 and candidates:
            return (inputs[candidates[0]],), {}, target
        raise _unclear(f"a batch has {', '.join(map(str, batch))}, and the model takes {', '.join(names) or 'nothing'}")

    @functools.cached_property
    def _parameters(self) -> tuple[list[str], list[str], bool]:
        """The required parameters of the model, all of them, and whether it takes any others by name."""
        parameters = list(inspect.signature(self.module.forward).parameters.values())
        kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        named = [parameter for parameter in parameters if parameter.kind in kinds]
        required = [parameter.name for parameter in named if parameter.default is parameter.empty]
        others = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        return required, [parameter.name for parameter in named], others


def _unclear(why: str) -> Undecided:
    return Undecided(f"{why}: {NAME_A_STEP}")


def _model(spelling: str, loader: Loader) -> nn.Module:
    """The model; a function or class is called, with the loader if it has a parameter of that name."""
    target = load(spelling)
    made = target.source
    if not isinstance(made, nn.Module):
        takes = any(parameter.name == "loader" for parameter in parameters_of(made)) if callable(made) else False
        made = made(**target.args, **({"loader": loader} if takes else {})) if callable(made) else made
    made = getattr(made, "_orig_mod", made)  # compiling takes longer than all steps here
    if not isinstance(made, nn.Module):
        raise UsageError(f"--model {spelling}: expected a torch.nn.Module, got {type(made).__name__}")
    return made


def _loss(spelling: str) -> Callable[[Any, Any], Any]:
    """The loss as a function of output and target; a class, or a function without parameters, is called first."""
    target = load(spelling)
    source = target.source
    if isinstance(source, type) or (not isinstance(source, nn.Module) and _takes_nothing(source)):
        source = source(**target.args)
    elif target.args:
        source = functools.partial(source, **target.args)
    made: Callable[[Any, Any], Any] = _called(source, f"--loss {spelling}: expected a function of output and target")
    return made


def _takes_nothing(source: Any) -> bool:
    return inspect.isfunction(source) and not inspect.signature(source).parameters


def _function(spelling: str) -> Callable[[nn.Module, Any], Any]:
    source: Callable[[nn.Module, Any], Any] = load(spelling).source
    return _called(source, f"--step {spelling}: expected a function of model and batch")


def _called(source: T, otherwise: str) -> T:
    if not callable(source):
        raise UsageError(f"{otherwise}, got {type(source).__name__}")
    return source


def _is_detection(batch: Any) -> bool:
    """Whether it is a list of images with a list of target dictionaries, as torchvision's detectors take them."""
    if not isinstance(batch, list | tuple) or len(batch) != 2:
        return False
    images, targets = batch
    listed = isinstance(targets, list | tuple) and len(targets) == len(images) > 0
    return listed and all(isinstance(target, Mapping) for target in targets)


def is_target(path: str, batch: Any) -> bool:
    """Whether a leaf is part of what the batch itself calls its target; a model may get it as well."""
    if _is_detection(batch):
        return path.startswith("[1]")
    named = [name for name in TARGETS[:5] if isinstance(batch, Mapping) and name in batch]
    return any(path.startswith(f"[{name!r}]") for name in named)


def _output_in(result: Any) -> Any:
    """What the loss function gets of what the model returned."""
    for name in _OUTPUTS:
        if isinstance(result, Mapping) and name in result:
            return result[name]
        if not isinstance(result, Tensor) and hasattr(result, name):
            return getattr(result, name)
    return result


def _loss_in(result: Any, source: str) -> Tensor:
    """The loss in what was returned: a scalar, what is called loss, or the sum of a dictionary of scalars."""
    if isinstance(result, Mapping):
        result = result["loss"] if "loss" in result else [*result.values()]
        scalars = isinstance(result, list) and result and all(_is_scalar(value) for value in result)
        result = sum(result) if scalars else result
    elif isinstance(result, list | tuple):
        scalars = [value for value in result if _is_scalar(value)]
        result = scalars[0] if len(scalars) == 1 else result
    elif getattr(result, "loss", None) is not None:
        result = result.loss
    if isinstance(result, Tensor) and result.numel() == 1:
        return result.reshape(())
    shown = f"a tensor of shape {tuple(result.shape)}" if isinstance(result, Tensor) else type(result).__name__
    why = "name a loss function, --loss pkg.mod:loss, or" if source == "the model" else "name"
    raise Undecided(
        f"{source} returns {shown}, not a loss: {why} a function step(model, batch) that returns the loss, "
        "--step pkg.mod:step"
    )


def _is_scalar(value: Any) -> bool:
    return isinstance(value, Tensor) and value.numel() == 1 and value.is_floating_point()


LOSSES: Mapping[Any, str] = {
    getattr(functional, name): name
    for name in (
        *("cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits"),
        *("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"),
    )
}
"""The loss functions that are understood."""
CLASS_LOSSES = ("cross_entropy", "nll_loss")
"""Those of them that take class indices."""
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
_MOST_ROWS = 4096
"""How many rows of an output are looked at: dense outputs have one for each pixel, and the range of so many says
enough."""


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
            address = _address(leaf) if isinstance(leaf, Tensor) else None
            if address is not None:
                self._leaves[address] = self._leaves.get(address, frozenset()) | {path}
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
        leaf_sets = (
            self._leaves.get(address) for tensor in tensors_in(values) if (address := _address(tensor)) is not None
        )
        return frozenset().union(*filter(None, leaf_sets))

    def values_of(self, tensor: Tensor) -> Values:
        """A tensor as plain data."""
        plain = tensor.detach()
        numbers = plain.float() if plain.numel() and not plain.is_complex() else None
        low, high = (None, None) if numbers is None else (float(numbers.min()), float(numbers.max()))
        activation = self._activations.get(_address(tensor) or 0)
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
        leaves = self.leaves_of(args, named)
        self.used |= leaves if name not in _SAME_VALUES else set()
        activation = name if name in _ACTIVATIONS else None
        if name in _SAME_VALUES and args and isinstance(args[0], Tensor):
            activation = self._activations.get(_address(args[0]) or 0)
        for tensor in tensors_in(result):
            address = _address(tensor)
            if address is None:
                continue
            self._kept.append(tensor)
            self._leaves[address] = leaves  # of an operation in place, the argument itself is among those
            self._activations.pop(address, None)
            if activation is not None:
                self._activations[address] = activation
        if call is not None and isinstance(result, Tensor) and call.function != SUBTRACTION:
            call.value = result.detach()
        return result

    def _call_of(self, func: Any, args: Any, named: Mapping[str, Any]) -> LiveCall | None:
        function = LOSSES.get(func) if getattr(func, "__hash__", None) else None
        values = [*args[:2], *(named[name] for name in ("input", "target") if name in named)]
        if len(values) < 2 or not all(isinstance(value, Tensor) for value in values[:2]):
            return None
        if function is not None:
            options = dict(named)
            if function in CLASS_LOSSES:
                options.update(zip(("weight", "size_average", "ignore_index"), args[2:5], strict=False))
            return LiveCall(function, values[0], values[1], options)
        if self._inside or getattr(func, "__name__", "") != "sub":
            return None
        output, target = sorted(values[:2], key=lambda tensor: not tensor.requires_grad)
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


def _address(tensor: Tensor) -> int | None:
    """Where the values of a tensor begin; None if it has no memory, or none that could be asked for."""
    try:
        return tensor.data_ptr() or None
    except RuntimeError:  # sparse, or inside torch.func
        return None


def is_outer(shape: torch.Size, other: torch.Size) -> bool:
    """Whether shapes of equally many values broadcast to more: (8, 1) and (8,) become (8, 8)."""
    if shape.numel() != other.numel() or shape == other:
        return False
    try:
        return bool(torch.broadcast_shapes(shape, other).numel() > shape.numel())
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


def ignore_index_of(call: LiveCall) -> int:
    """The class index that a loss function ignores; -100 is the default of torch."""
    given = call.options.get("ignore_index")
    return -100 if given is None else int(given)


def record(call: LiveCall, values_of: Callable[[Tensor], Values]) -> LossCall:
    """A call as plain data."""
    output, target = call.output.detach(), call.target.detach()
    weighted = call.options.get("weight") is not None or call.options.get("reduction", "mean") == "none"
    details: dict[str, Any] = {"selects": weighted}
    axis = 1 if output.ndim > 1 else 0
    if call.function in CLASS_LOSSES and output.is_floating_point() and output.ndim and output.numel():
        rows = output.movedim(axis, -1).reshape(-1, output.shape[axis])[:_MOST_ROWS].double()
        sums = rows.sum(1)
        inside = bool(((rows >= 0) & (rows <= 1)).all())
        details["row_sums"] = (float(sums.min()), float(sums.max())) if inside else None
        details["log_sums"] = float(rows.logsumexp(1).abs().max())
        same = target.shape == output.shape
        if target.is_floating_point() and same:
            sums = target.movedim(axis, -1).reshape(-1, output.shape[axis]).double().sum(1)
            details["target_sums"] = (float(sums.min()), float(sums.max()))
        elif not target.is_floating_point() and not same:
            details.update(_labels(target, output.shape[axis], ignore_index_of(call)))
    return LossCall(call.function, values_of(output), values_of(target), **details, error=call.error)


def _labels(target: Tensor, classes: int, ignore: int) -> dict[str, Any]:
    kept = target[target != ignore]
    outside = kept[(kept < 0) | (kept >= classes)].unique().tolist()
    share = 1 - kept.numel() / max(target.numel(), 1)
    return {"outside": tuple(outside[:8]), "ignored": share, "ignore_index": ignore}
