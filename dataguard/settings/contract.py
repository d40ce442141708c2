"""The kinds of values that settings have, and the contract: what only the user knows about the data.

A `Kind` is called with a raw value and its origin, and raises UsageError for an invalid value; its shape is the JSON
schema of values in a settings file. It may accept more than the shape says, such as numbers in quotes. `CONTRACT` lists
the keys of `[tool.dataguard.contract]` with their kinds. Standard library only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dataguard.core.model import Severity, UsageError
from dataguard.settings.files import require_path
from dataguard.settings.target_spelling import parsed, shown_value, suggest
from dataguard.stats.normalization import KNOWN

Shape = Mapping[str, Any]

LARGEST = 1_000_000_000
"""The largest number in a setting without a limit of its own: far above any use, and below what counters hold."""
MOST_SECONDS = 10_000_000
"""The longest time: no scan takes 115 days, and timers overflow at some multiples of it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value."""

    parse: Callable[[Any, str], Any]
    shape: Shape

    def __call__(self, value: Any, where: str) -> Any:
        """The value, parsed."""
        return self.parse(value, where)


def table_of(properties: Mapping[str, Any], *required: str) -> Shape:
    """The shape of a table with these keys."""
    return {"type": "object", "additionalProperties": False, "properties": properties, "required": list(required)}


def _words(value: Any, where: str) -> tuple[str, ...]:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        raise UsageError(f"{where}: expected a list of strings, got {shown_value(value)}")
    return tuple(part.strip() for word in words for part in word.split(",") if part.strip())


def names_in(given: str | Sequence[str]) -> tuple[str, ...]:
    """The names in what a list of them may be written as: a list, or one string with commas."""
    return _words(given, "")


def whole(minimum: int, maximum: int = LARGEST) -> Kind:
    """An integer from `minimum` to `maximum`, which may be written as text."""

    def parse(value: Any, where: str) -> int:
        try:
            number = int(value) if isinstance(value, str) else value
        except ValueError:
            number = None
        if not isinstance(number, int) or isinstance(number, bool) or number < minimum:
            raise UsageError(f"{where}: expected an integer of at least {minimum}, got {shown_value(value)}")
        if number > maximum:
            raise UsageError(f"{where}: expected an integer of at most {maximum}, got {shown_value(value)}")
        return number

    return Kind(parse, {"type": "integer", "minimum": minimum, "maximum": maximum})


def is_number(value: Any) -> bool:
    """Whether a value is a finite number, of an amount that can be computed with."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -_COMPUTED <= value <= _COMPUTED


_COMPUTED = 1e30
"""Larger than any statistic of images, and small enough that its square still fits into float64."""


def is_integer(value: Any) -> bool:
    """Whether a value is an integer that fits into 64 bits, such as a label."""
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{where}: expected true or false, got {shown_value(value)}")
    return value


def parse_seconds(value: Any, where: str) -> float:
    """A positive number of seconds."""
    try:
        number = float(value)
    except OverflowError:  # of an integer
        number = math.inf
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, bool) or not number > 0:
        raise UsageError(f"{where}: expected a positive number of seconds, got {shown_value(value)}")
    if number > MOST_SECONDS:
        raise UsageError(f"{where}: expected at most {MOST_SECONDS} seconds, got {shown_value(value)}")
    return number


def one_of(choices: tuple[str, ...]) -> Kind:
    """One of these words."""

    def parse(value: Any, where: str) -> str:
        if value not in choices:
            hint = suggest(value if isinstance(value, str) else "", choices, "")
            raise UsageError(f"{where}: expected one of {', '.join(choices)}, got {shown_value(value)}{hint}")
        return str(value)

    return Kind(parse, {"enum": list(choices)})


def parse_text(value: Any, where: str) -> str:
    """Text that is not blank."""
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{where}: expected text, got {shown_value(value)}")
    return value


def _path(value: Any, where: str) -> str:
    require_path(text := parse_text(value, where), where)
    return text


def _paths(value: Any, where: str) -> tuple[str, ...]:
    for path in (paths := _words(value, where)):
        require_path(path, where)
    return paths


def parse_spelling(value: Any, where: str) -> str:
    """The name of a Python object, perhaps with arguments: `pkg.mod:make_model(depth=18)`."""
    text = parse_text(value, where)
    try:
        parsed(text)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    return text


def parse_severity(value: Any, where: str) -> Severity:
    """The severity of this name."""
    return Severity(one_of(tuple(severity.value for severity in Severity))(value, where))


def table(value: Any, where: str) -> Mapping[str, Any]:
    """A table."""
    if not isinstance(value, Mapping):
        raise UsageError(f"{where}: expected a table, got {shown_value(value)}")
    return value


def known_keys(value: Any, keys: Collection[str], where: str) -> Mapping[str, Any]:
    """The table; raises UsageError for an unknown key."""
    for key in table(value, where):
        if key not in keys:
            raise UsageError(f"{where}: unknown key {key!r}{suggest(key, keys)}")
    return dict(value)


TEXT = Kind(parse_text, {"type": "string", "minLength": 1})
FLAG = Kind(_flag, {"type": "boolean"})
WORDS = Kind(_words, {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
PATH = Kind(_path, TEXT.shape)
PATHS = Kind(_paths, WORDS.shape)
ABOVE_0 = {"type": "number", "exclusiveMinimum": 0}
SECONDS = Kind(parse_seconds, {**ABOVE_0, "maximum": MOST_SECONDS})
INTEGER = {"type": "integer"}
SPELLING = {"type": "string", "pattern": r"^[\w.-]+:\w[\w.]*(\(.+\))?$"}

TARGET_FORMS = ("index", "one-hot", "soft", "binary", "multilabel", "regression")
"""Target forms: see docs/labels.md."""
VIEWS = ("independent", "shared")
"""Whether equal images of a sample are views that are to differ, or one view that two models share."""
PACKING = ("separate", "joined")
"""What documents of a packed row see of each other: nothing, or those before them."""
LEARNED = ("reply", "all")
"""What of a conversation a language model learns."""
SHIFTED_BY = ("data", "model")
"""What makes each label of a language model the next token."""
BBOX_FORMATS = (
    *("xyxy", "xywh", "cxcywh", "xyxy-normalized", "xywh-normalized", "cxcywh-normalized"),
    *("pascal_voc", "coco", "yolo", "albumentations"),
)
"""Box formats, as named by torchvision and by albumentations."""


_WEIGHTS = re.compile(r"(torchvision:)?\w+_Weights\.\w+|timm:[\w./-]+")
"""Names of weights: `torchvision:ResNet50_Weights.IMAGENET1K_V2` (the prefix is optional), `timm:resnet50.a1_in1k`."""


def _normalization(value: Any, where: str) -> None:
    """The name of known statistics or of weights, or a table of mean and std for red, green and blue."""
    if isinstance(value, str):
        if not _WEIGHTS.fullmatch(value):
            one_of(tuple(KNOWN))(value, where)
        return
    table = known_keys(value, ("mean", "std"), where)
    for key in ("mean", "std"):
        numbers = table.get(key)
        listed = numbers if isinstance(numbers, list | tuple) and all(map(is_number, numbers)) else ()
        if len(listed) not in (1, 3) or (key == "std" and min(listed) <= 0):
            expected = "one number per channel, in RGB order" + (", above 0" if key == "std" else "")
            raise UsageError(f"{where}.{key}: expected {expected}, got {shown_value(numbers)}")
    if len(table["mean"]) != len(table["std"]):
        raise UsageError(f"{where}: mean and std have different lengths")


def _value_range(value: Any, where: str) -> None:
    if not isinstance(value, list | tuple) or len(value) != 2 or not all(map(is_number, value)) or value[0] >= value[1]:
        raise UsageError(f"{where}: expected minimum and maximum, such as [0, 1], got {shown_value(value)}")


def _ignore_index(value: Any, where: str) -> None:
    """A label that the loss ignores, or a list of such labels."""
    given = value if isinstance(value, list | tuple) else [value]
    if not given or not all(map(is_integer, given)):
        raise UsageError(
            f"{where}: expected an integer such as 255 or -1, or a list of integers, got {shown_value(value)}"
        )


def _above_0(expected: str) -> Kind:
    """A positive number, in the unit that `expected` names."""

    def parse(value: Any, where: str) -> None:
        if not is_number(value) or value <= 0:
            raise UsageError(f"{where}: expected {expected}, got {shown_value(value)}")
        if value > LARGEST:
            raise UsageError(f"{where}: expected at most {LARGEST}, got {shown_value(value)}")

    return Kind(parse, {**ABOVE_0, "maximum": LARGEST})


_NUMBERS = {"anyOf": [{"type": "array", "items": {"type": "number"}, "minItems": n, "maxItems": n} for n in (1, 3)]}
_OF_IMAGES = {
    "anyOf": [
        {"enum": sorted(KNOWN)},
        {"type": "string", "pattern": f"^({_WEIGHTS.pattern})$"},
        table_of({"mean": _NUMBERS, "std": _NUMBERS}, "mean", "std"),
    ]
}
SPELLED = Kind(parse_spelling, SPELLING)
CONTRACT: Mapping[str, tuple[Kind, str]] = {
    "key": (Kind(parse_text, SPELLING), "A function of a sample whose result identifies the sample."),
    "repeat": (whole(1), "How often the dataset returns each sample on purpose."),
    "channels": (one_of(("RGB", "BGR")), "The channel order that the model expects."),
    "normalization": (Kind(_normalization, _OF_IMAGES), "The statistics of images: a name, weights, or mean and std."),
    "value_range": (
        Kind(_value_range, {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}),
        "Minimum and maximum of images that are not normalized.",
    ),
    "num_classes": (whole(1), "The number of classes."),
    "ignore_index": (
        Kind(_ignore_index, {"anyOf": [INTEGER, {"type": "array", "items": INTEGER, "minItems": 1}]}),
        "The label, or labels, that mark no class.",
    ),
    "target_form": (one_of(TARGET_FORMS), "The form of labels in a batch."),
    "bbox_format": (one_of(BBOX_FORMATS), "The meaning of the four numbers of a box."),
    "memory_gb": (_above_0("gigabytes of memory, such as 64"), "Memory of the machine that trains, in GB."),
    "step_ms": (_above_0("a positive number of milliseconds"), "Duration of a training step in milliseconds."),
    "deterministic": (FLAG, "Runs with the same seeds must give the same batches."),
    "views": (one_of(VIEWS), "Whether two images of a sample are to differ, or are one view."),
    "reused_batches": (FLAG, "Batches share memory on purpose: each is used before the next one is fetched."),
    "group": (TEXT, "The leaf, attribute or column that names what samples belong together."),
    "target": (TEXT, "The leaf of a sample that is to be predicted: its key, or a path such as [1]."),
    "known_future": (
        WORDS,
        "Columns that are known beforehand, such as holidays.",
    ),
    "aligned": (WORDS, "Leaves of a sample whose values belong together, position by position."),
    "sample_rate": (whole(1), "The sample rate of sound that the model expects, in Hz."),
    "tokens": (TEXT, "The leaf of a batch that holds tokens: its key, or a path such as [0]."),
    "labels": (TEXT, "The leaf with the labels of tokens."),
    "mask": (TEXT, "The leaf that says which tokens the model sees."),
    "bos": (whole(0), "The token that starts a text."),
    "eos": (whole(0), "The token that ends a text."),
    "pad": (whole(0), "The token that fills rows."),
    "vocab_size": (whole(1), "How many tokens the model has embeddings for."),
    "packing": (one_of(PACKING), "Whether documents packed into a row see each other."),
    "same_batches": (whole(1, 8), "How many consecutive ranks, which share a model, read the same batches."),
    "save": (SPELLED, "A function of a loader that returns what a checkpoint holds of it."),
    "load": (SPELLED, "A function that gives that back to a new loader."),
    "learned": (one_of(LEARNED), "Whether a language model learns replies alone, or all tokens."),
    "shifted_by": (one_of(SHIFTED_BY), "What shifts the labels of a language model: the data, or the model."),
}
"""The keys of the contract, each with its kind and its meaning: one that no check reads is not among them."""


def parse_contract(value: Any, where: str) -> Mapping[str, Any]:
    """The contract, with values that each key allows."""
    for key, given in known_keys(value, CONTRACT, where).items():
        CONTRACT[key][0](given, f"{where}.{key}")
    for key, other in (("save", "load"), ("load", "save")):
        if key in value and other not in value:
            raise UsageError(f"{where}.{key}: {where}.{other} is missing; a state is saved and loaded")
    return dict(value)
