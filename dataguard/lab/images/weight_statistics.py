"""The normalization statistics of pretrained weights, as timm and torchvision report them.

A library is imported if the user names it, in a disposable process. Nothing is downloaded.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from dataguard.model import Undecided
from dataguard.settings.suggestions import suggest
from dataguard.stats.normalization import Statistics

Preset = tuple[tuple[float, ...], tuple[float, ...]]
"""Mean and standard deviation."""


def statistics_of(name: str) -> Statistics:
    """The statistics of `timm:MODEL`, or of torchvision weights, with or without the prefix `torchvision:`.

    Raises Undecided if the library is not installed, or does not know the name.
    """
    library, colon, weights = name.partition(":")
    library, weights = (library, weights) if colon else ("torchvision", name)
    if library not in _LIBRARIES:
        raise Undecided(f"contract.normalization: unknown library {library}, expected {' or '.join(_LIBRARIES)}")
    try:
        mean, std = _LIBRARIES[library](weights)
    except ImportError as error:
        raise Undecided(
            f"contract.normalization: {name} cannot be looked up, {library} is not installed: {error}"
        ) from error
    except (ValueError, AttributeError, KeyError, TypeError, RuntimeError, LookupError) as error:
        raise Undecided(f"contract.normalization: {library} has no statistics for {weights}: {error}") from error
    return Statistics(name, mean, std)


def _of_torchvision(weights: str) -> Preset:
    preset = importlib.import_module("torchvision.models").get_weight(weights).transforms()
    return tuple(preset.mean), tuple(preset.std)


def _of_timm(model: str) -> Preset:
    models: Any = importlib.import_module("timm.models")
    if not models.is_model(model):
        raise LookupError(f"no such model{suggest(model, models.list_models(), '')}")
    preset = models.get_pretrained_cfg(model)
    if preset is None:
        raise LookupError("the model has no weights with this name")
    return tuple(preset.mean), tuple(preset.std)


_LIBRARIES: Mapping[str, Callable[[str], Preset]] = {"torchvision": _of_torchvision, "timm": _of_timm}
