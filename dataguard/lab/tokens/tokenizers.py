"""Tokenizers that dataset, transforms or collate_fn hold: their special tokens, vocabulary and words.

They are read, and never called with text. Their libraries are not imported: a user's tokenizer has done that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dataguard.lab.core.object_graph import Node, reachable

_CLASSES = (
    ("transformers.tokenization_utils_base", "PreTrainedTokenizerBase"),
    ("tokenizers", "Tokenizer"),
    ("sentencepiece", "SentencePieceProcessor"),
    ("tiktoken", "Encoding"),
)
_BOS, _EOS, _PAD = ("bos_token_id", "bos_id"), ("eos_token_id", "eos_id", "eot_token"), ("pad_token_id", "pad_id")
_MODELS = "transformers.modeling_utils"
_SIZES = ("n_vocab", "vocab_size", "n_words", "GetPieceSize", "get_vocab_size")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokens of a loader: ids of start, stop and padding, how many there are, and the special ones.

    `where` is the path of the tokenizer, None for what only the contract says. `declared` are those that it says.
    `for_models`: the tokenizer makes arguments of models whose library is loaded in whole, as by code that has a model.
    """

    bos: int | None = None
    eos: int | None = None
    pad: int | None = None
    size: int | None = None
    special: frozenset[int] = frozenset()
    where: str | None = None
    for_models: bool = False
    declared: frozenset[str] = field(default_factory=frozenset)


def tokenizers_in(roots: Mapping[str, Any]) -> list[Node]:
    """The tokenizers that can be reached, nearest first: of libraries, or objects that hold ids of start and stop."""
    classes = _classes()
    return list(reachable(roots, lambda value: issubclass(type(value), classes) or _holds_ids(value)))


def vocabulary_of(nodes: Iterable[Node], contract: Mapping[str, Any]) -> Vocabulary:
    """What tokenizers and contract say; ids that two tokenizers give differently are unknown."""
    read = [(node, _read(node.value)) for node in nodes]
    agreed = {name: only(one[name] for _, one in read) for name in ("bos", "eos", "pad")}
    sizes = [one["size"] for _, one in read if one["size"]]
    return Vocabulary(
        contract.get("bos", agreed["bos"]),
        contract.get("eos", agreed["eos"]),
        contract.get("pad", agreed["pad"]),
        contract.get("vocab_size", max(sizes, default=None)),
        special=frozenset(number for _, one in read for number in one["special"]),
        where=read[0][0].path if read else None,
        for_models=_MODELS in sys.modules and any(_value(node.value, "model_input_names") for node, _ in read),
        declared=frozenset({"bos", "eos", "pad", "vocab_size"} & set(contract)),
    )


def word_of(nodes: Iterable[Node]) -> Callable[[int], str] | None:
    """A function from an id to its token as text; None without a tokenizer of a library."""
    known = [node.value for node in nodes if issubclass(type(node.value), _classes())]
    names = ("convert_ids_to_tokens", "id_to_token", "id_to_piece", "decode_single_token_bytes")
    convert: Any = next((found for value in known[:1] for name in names if (found := getattr(value, name, None))), None)
    if convert is None:
        return None

    def word(number: int) -> str:
        try:
            text = convert(number)
        except Exception:  # noqa: BLE001 - an id that is none of its tokens
            return str(number)
        text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        return str(number) if text is None else str(text)

    return word


def _classes() -> tuple[type, ...]:
    """The classes of tokenizers of libraries that are imported."""
    modules = [(sys.modules.get(module), name) for module, name in _CLASSES]
    return tuple(kind for module, name in modules if isinstance(kind := getattr(module, name, None), type))


def _holds_ids(value: Any) -> bool:
    held = _held(value)
    return any(type(held.get(name)) is int for name in (*_BOS, *_EOS))


def _held(value: Any) -> dict[str, Any]:
    """The attributes of an object, without running any code of it."""
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return held if type(held) is dict else {}


def _read(tokenizer: Any) -> dict[str, Any]:
    """The special tokens and the size of one tokenizer, by whichever names its library has."""
    padding = _value(tokenizer, "padding")
    pad = padding.get("pad_id") if isinstance(padding, dict) else None
    vocabulary = _value(tokenizer, "get_vocab")
    largest = max(vocabulary.values(), default=-1) + 1 if isinstance(vocabulary, dict) else 0
    sizes = [_number(_value(tokenizer, name)) for name in _SIZES]
    added = _value(tokenizer, "added_tokens_decoder") or _value(tokenizer, "get_added_tokens_decoder")
    special = {key for key, token in added.items() if getattr(token, "special", False)} if added else set()
    return {
        "bos": _first(tokenizer, *_BOS),
        "eos": _first(tokenizer, *_EOS),
        "pad": pad if pad is not None else _first(tokenizer, *_PAD),
        "size": max([largest, *filter(None, sizes)]),
        "special": special | set(_value(tokenizer, "all_special_ids") or ()),
    }


def only(given: Iterable[int | None]) -> int | None:
    """The one value; None if there are several or none."""
    distinct = set(given)
    return distinct.pop() if len(distinct) == 1 else None


def _value(tokenizer: Any, name: str) -> Any:
    """An attribute, or what it returns if it is a method of a library's; None if there is none."""
    if not issubclass(type(tokenizer), _classes()):
        return _held(tokenizer).get(name)
    try:
        value = getattr(tokenizer, name, None)
        return value() if callable(value) else value
    except Exception:  # noqa: BLE001 - a tokenizer may refuse with anything
        return None


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _first(tokenizer: Any, *names: str) -> int | None:
    return next((number for name in names if (number := _number(_value(tokenizer, name))) is not None), None)
