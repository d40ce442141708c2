"""Parsers for the values of settings. Standard library only.

Each parser takes a raw value and its origin, and raises UsageError for an invalid value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from dataguard.model import Severity, UsageError
from dataguard.settings.suggestions import suggest
from dataguard.settings.target_spelling import as_targets, parsed
from dataguard.stats.normalization import KNOWN

ROLES = ("train", "val", "test", "predict")
EVALUATION = ("val", "test", "predict")
"""The roles without training."""
EVERY_METHOD = "all"
"""Check the loader with its own start method, and report what changes under the others."""
START_METHODS = ("fork", "spawn", "forkserver", EVERY_METHOD)
TARGET_FORMS = ("index", "one-hot", "soft", "binary", "multilabel", "regression")
"""Target forms: see docs/labels.md."""
VIEWS = ("independent", "shared")
"""Whether equal images of a sample are views that are to differ, or one view that two models share."""
PACKING = ("separate", "joined")
"""What documents of a packed row see of each other: nothing, or those before them."""
BBOX_FORMATS = (
    *("xyxy", "xywh", "cxcywh", "xyxy-normalized", "xywh-normalized", "cxcywh-normalized"),
    *("pascal_voc", "coco", "yolo", "albumentations"),
)
"""Box formats, as named by torchvision and by albumentations."""


def _words(value: Any, where: str) -> tuple[str, ...]:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        raise UsageError(f"{where}: expected a list of strings, got {value!r}")
    return tuple(part.strip() for word in words for part in word.split(",") if part.strip())


def _whole(minimum: int) -> Callable[[Any, str], int]:
    def parse(value: Any, where: str) -> int:
        try:
            number = int(value) if isinstance(value, str) else value
        except ValueError:
            number = None
        if not isinstance(number, int) or isinstance(number, bool) or number < minimum:
            raise UsageError(f"{where}: expected an integer of at least {minimum}, got {value!r}")
        return number

    return parse


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{where}: expected true or false, got {value!r}")
    return value


def _seconds(value: Any, where: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, bool) or not 0 < number < math.inf:
        raise UsageError(f"{where}: expected a positive number of seconds, got {value!r}")
    return number


def _one_of(choices: tuple[str, ...]) -> Callable[[Any, str], str]:
    def parse(value: Any, where: str) -> str:
        if value not in choices:
            raise UsageError(
                f"{where}: expected one of {', '.join(choices)}, got {value!r}{suggest(str(value), choices)}"
            )
        return str(value)

    return parse


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{where}: expected text, got {value!r}")
    return value


def _spelling(value: Any, where: str) -> str:
    """The name of a Python object, perhaps with arguments: `pkg.mod:make_model(depth=18)`."""
    text = _text(value, where)
    try:
        parsed(text)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    return text


def _severity(value: Any, where: str) -> Severity:
    return Severity(_one_of(tuple(severity.value for severity in Severity))(value, where))


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UsageError(f"{where}: expected a table, got {value!r}")
    return value


def _known_keys(value: Any, known: Collection[str], where: str) -> Mapping[str, Any]:
    """The table; raises UsageError for an unknown key."""
    for key in _table(value, where):
        if key not in known:
            raise UsageError(f"{where}: unknown key {key!r}{suggest(key, known)}")
    return dict(value)


def _reasons(value: Any, where: str) -> Mapping[str, str]:
    for code, reason in _table(value, where).items():
        if not isinstance(reason, str) or not reason.strip():
            raise UsageError(f'{where}.{code}: a reason is required, such as {code} = "depth maps are not RGB"')
    return dict(value)


def _roles(value: Any, where: str) -> Mapping[str, str]:
    return {loader: _one_of(ROLES)(role, f"{where}.{loader}") for loader, role in _table(value, where).items()}


_WEIGHTS = re.compile(r"(torchvision:)?\w+_Weights\.\w+|timm:[\w./-]+")
"""Names of weights: `torchvision:ResNet50_Weights.IMAGENET1K_V2` (the prefix is optional), `timm:resnet50.a1_in1k`."""


def _normalization(value: Any, where: str) -> None:
    """The name of known statistics or of weights, or a table of mean and std for red, green and blue."""
    if isinstance(value, str):
        if not _WEIGHTS.fullmatch(value):
            _one_of(tuple(KNOWN))(value, where)
        return
    table = _known_keys(value, ("mean", "std"), where)
    for key in ("mean", "std"):
        numbers = table.get(key)
        listed = numbers if isinstance(numbers, list | tuple) and all(map(_is_number, numbers)) else ()
        if len(listed) not in (1, 3) or (key == "std" and min(listed) <= 0):
            expected = "one number per channel, in RGB order" + (", above 0" if key == "std" else "")
            raise UsageError(f"{where}.{key}: expected {expected}, got {numbers!r}")
    if len(table["mean"]) != len(table["std"]):
        raise UsageError(f"{where}: mean and std have different lengths")


def _value_range(value: Any, where: str) -> None:
    if (
        not isinstance(value, list | tuple)
        or len(value) != 2
        or not all(map(_is_number, value))
        or value[0] >= value[1]
    ):
        raise UsageError(f"{where}: expected minimum and maximum, such as [0, 1], got {value!r}")


def _ignore_index(value: Any, where: str) -> None:
    """A label that the loss ignores, or a list of such labels."""
    given = value if isinstance(value, list | tuple) else [value]
    if not given or not all(isinstance(one, int) and not isinstance(one, bool) for one in given):
        raise UsageError(f"{where}: expected an integer such as 255 or -1, or a list of integers, got {value!r}")


def _gigabytes(value: Any, where: str) -> None:
    if not _is_number(value) or value <= 0:
        raise UsageError(f"{where}: expected gigabytes of memory, such as 64, got {value!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _milliseconds(value: Any, where: str) -> None:
    if not _is_number(value) or value <= 0:
        raise UsageError(f"{where}: expected a positive number of milliseconds, got {value!r}")


CONTRACT: Mapping[str, Callable[[Any, str], Any]] = {
    "key": _text,
    "repeat": _whole(1),
    "channels": _one_of(("RGB", "BGR")),
    "normalization": _normalization,
    "value_range": _value_range,
    "num_classes": _whole(1),
    "ignore_index": _ignore_index,
    "target_form": _one_of(TARGET_FORMS),
    "bbox_format": _one_of(BBOX_FORMATS),
    "memory_gb": _gigabytes,
    "step_ms": _milliseconds,
    "deterministic": _flag,
    "views": _one_of(VIEWS),
    "reused_batches": _flag,
    "group": _text,
    "tokens": _text,
    "labels": _text,
    "mask": _text,
    "bos": _whole(0),
    "eos": _whole(0),
    "pad": _whole(0),
    "vocab_size": _whole(1),
    "packing": _one_of(PACKING),
}
"""The keys of the contract, each with its parser: one that no check reads is not among them."""


def _contract(value: Any, where: str) -> Mapping[str, Any]:
    for key, given in _known_keys(value, CONTRACT, where).items():
        CONTRACT[key](given, f"{where}.{key}")
    return dict(value)


def _seed(value: Any, where: str) -> int | str:
    """An integer or a string, as hypothesis accepts them."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise UsageError(f"{where}: expected an integer, got {value!r}")
    return value


_DRAWING: Mapping[str, Callable[[Any, str], Any]] = {"seed": _seed, "database": _text}


def _drawing(value: Any, where: str) -> Mapping[str, Any]:
    return {key: _DRAWING[key](given, f"{where}.{key}") for key, given in _known_keys(value, _DRAWING, where).items()}


PARSERS: Mapping[str, Callable[[Any, str], Any]] = {
    "targets": as_targets,
    "pythonpath": _words,
    "select": _words,
    "ignore": _words,
    "samples": _whole(1),
    "all": _flag,
    "pictures": _flag,
    "budget": _seconds,
    "timeout": _seconds,
    "seed": _whole(0),
    "workers": _whole(0),
    "start_method": _one_of(START_METHODS),
    "ranks": _whole(1),
    "model": _spelling,
    "loss": _spelling,
    "step": _spelling,
    "checks": _text,
    "fail_on": _severity,
    "fail_on_undecided": _flag,
    "expect": _reasons,
    "baseline": _text,
    "roles": _roles,
    "contract": _contract,
    "hypothesis": _drawing,
}
"""The parser of each setting."""
