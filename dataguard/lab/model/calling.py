"""How a batch reaches the user's model and loss: by a step function of the user, or by one of the usual conventions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from torch import Tensor, nn

from dataguard.model import Undecided, UsageError
from dataguard.settings.settings import Settings
from dataguard.targets.arguments import parameters_of
from dataguard.targets.loading import load
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
        known = [name for name in INPUTS if name in inputs] or (list(inputs) if len(inputs) == 1 else [])
        if len(required) == 1 and known:
            return (inputs[known[0]],), {}, target
        raise _unclear(f"a batch has {', '.join(map(str, batch))}, and the model takes {', '.join(names) or 'nothing'}")

    @functools.cached_property
    def _parameters(self) -> tuple[list[str], list[str], bool]:
        """The required parameters of the model, all of them, and whether it takes any others by name."""
        found = list(inspect.signature(self.module.forward).parameters.values())
        named = [one for one in found if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
        required = [one.name for one in named if one.default is one.empty]
        return required, [one.name for one in named], any(one.kind is one.VAR_KEYWORD for one in found)


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
    return listed and all(isinstance(one, Mapping) for one in targets)


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


def _loss_in(result: Any, who: str) -> Tensor:
    """The loss in what was returned: a scalar, what is called loss, or the sum of a dictionary of scalars."""
    if isinstance(result, Mapping):
        result = result["loss"] if "loss" in result else [*result.values()]
        scalars = isinstance(result, list) and result and all(_is_scalar(one) for one in result)
        result = sum(result) if scalars else result
    elif isinstance(result, list | tuple):
        scalars = [one for one in result if _is_scalar(one)]
        result = scalars[0] if len(scalars) == 1 else result
    elif getattr(result, "loss", None) is not None:
        result = result.loss
    if isinstance(result, Tensor) and result.numel() == 1:
        return result.reshape(())
    shown = f"a tensor of shape {tuple(result.shape)}" if isinstance(result, Tensor) else type(result).__name__
    why = "name a loss function, --loss pkg.mod:loss, or" if who == "the model" else "name"
    raise Undecided(
        f"{who} returns {shown}, not a loss: {why} a function step(model, batch) that returns the loss, "
        "--step pkg.mod:step"
    )


def _is_scalar(value: Any) -> bool:
    return isinstance(value, Tensor) and value.numel() == 1 and value.is_floating_point()
