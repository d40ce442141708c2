"""The contract: what only the user knows about the data. Standard library only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dataguard.model import UsageError
from dataguard.settings.kinds import (
    ABOVE_0,
    FLAG,
    INTEGER,
    LARGEST,
    SPELLING,
    TEXT,
    Kind,
    is_integer,
    is_number,
    known_keys,
    one_of,
    parse_text,
    table_of,
    whole,
)
from dataguard.settings.suggestions import shown
from dataguard.stats.normalization import KNOWN

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
            raise UsageError(f"{where}.{key}: expected {expected}, got {shown(numbers)}")
    if len(table["mean"]) != len(table["std"]):
        raise UsageError(f"{where}: mean and std have different lengths")


def _value_range(value: Any, where: str) -> None:
    if not isinstance(value, list | tuple) or len(value) != 2 or not all(map(is_number, value)) or value[0] >= value[1]:
        raise UsageError(f"{where}: expected minimum and maximum, such as [0, 1], got {shown(value)}")


def _ignore_index(value: Any, where: str) -> None:
    """A label that the loss ignores, or a list of such labels."""
    given = value if isinstance(value, list | tuple) else [value]
    if not given or not all(map(is_integer, given)):
        raise UsageError(f"{where}: expected an integer such as 255 or -1, or a list of integers, got {shown(value)}")


def _above_0(expected: str) -> Kind:
    """A positive number, in the unit that `expected` names."""

    def parse(value: Any, where: str) -> None:
        if not is_number(value) or value <= 0:
            raise UsageError(f"{where}: expected {expected}, got {shown(value)}")
        if value > LARGEST:
            raise UsageError(f"{where}: expected at most {LARGEST}, got {shown(value)}")

    return Kind(parse, {**ABOVE_0, "maximum": LARGEST})


_NUMBERS = {"anyOf": [{"type": "array", "items": {"type": "number"}, "minItems": n, "maxItems": n} for n in (1, 3)]}
_OF_IMAGES = {
    "anyOf": [
        {"enum": sorted(KNOWN)},
        {"type": "string", "pattern": f"^({_WEIGHTS.pattern})$"},
        table_of({"mean": _NUMBERS, "std": _NUMBERS}, "mean", "std"),
    ]
}
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
    "sample_rate": (whole(1), "The sample rate of sound that the model expects, in Hz."),
    "tokens": (TEXT, "The leaf of a batch that holds tokens: its key, or a path such as [0]."),
    "labels": (TEXT, "The leaf with the labels of tokens."),
    "mask": (TEXT, "The leaf that says which tokens the model sees."),
    "bos": (whole(0), "The token that starts a text."),
    "eos": (whole(0), "The token that ends a text."),
    "pad": (whole(0), "The token that fills rows."),
    "vocab_size": (whole(1), "How many tokens the model has embeddings for."),
    "packing": (one_of(PACKING), "Whether documents packed into a row see each other."),
}
"""The keys of the contract, each with its kind and its meaning: one that no check reads is not among them."""


def parse_contract(value: Any, where: str) -> Mapping[str, Any]:
    """The contract, with values that each key allows."""
    for key, given in known_keys(value, CONTRACT, where).items():
        CONTRACT[key][0](given, f"{where}.{key}")
    return dict(value)
