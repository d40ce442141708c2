"""The rows of batches of tokens, in one form: the tokens, and what the labels, masks and positions say of each.

Which leaf has which role is known by usual names, or by those of the contract (`roles_of`). Special tokens, vocabulary
and words come from tokenizers that dataset, transforms or collate_fn hold. These are read, and never called with text;
their libraries are not imported, because a user's tokenizer has done that. An `excerpt` shows a few tokens of a row as
readers see them: in columns, with mask, label and position below.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.leaves import array_of, iter_leaves
from dataguard.lab.core.object_graph import Node, reachable
from dataguard.lab.core.records import key_of

IGNORED = -100
"""The ignore index of torch's cross entropy, which rows have wherever a label counts for no loss."""
FEWEST_LABELS = 32
"""The fewest labels by which it is known whether they are shifted: fewer may agree by chance where tokens repeat."""
AGREEING_SHARE = 0.95
"""The share of labels that are a token of their row at one distance; tokens that a collator drops spoil few."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenRow:
    """One row: `tokens` are integers of shape [width], and all else has that shape or is None.

    `inside` is where the mask lets the model see; all of it without a mask. `targets` are the labels of the tokens in
    their own places (a label that is shifted by one is moved back), `labels` as they come, of any length; both are
    `IGNORED` where nothing is learned. `stored` are the labels as the batch has them. `starts` are where later
    documents of a packed row begin. `blocks`: the batch says so to the model, or keeps documents apart; `opens`: its
    mask lets documents see each other.
    """

    batch: int
    row: int
    tokens: np.ndarray
    inside: np.ndarray
    masked: bool
    labels: np.ndarray | None = None
    stored: np.ndarray | None = None
    targets: np.ndarray | None = None
    positions: np.ndarray | None = None
    starts: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    blocks: bool = False
    opens: bool = False
    image: bool = False

    @property
    def text(self) -> np.ndarray:
        """The tokens that the model sees."""
        return np.asarray(self.tokens[self.inside])


def rows_of(batch: Any, number: int, contract: Mapping[str, Any]) -> list[TokenRow]:
    """The rows of one batch; [] if its tokens are no integers of one or two dimensions."""
    leaves = {path: array_of(leaf) for path, leaf in iter_leaves(batch) if _is_array(leaf)}
    roles = roles_of(leaves, contract)
    found = {role: _rowed(leaves[path]) for role, path in roles.items()}
    tokens = found.get("tokens")
    if tokens is None or tokens.ndim != 2 or tokens.dtype.kind not in "iu":
        return []
    tokens = tokens.astype(np.int64)
    alike = {role: array for role, array in found.items() if array.shape == tokens.shape}
    mask, positions = alike.get("mask"), alike.get("positions")
    inside = mask != 0 if mask is not None else np.ones(tokens.shape, bool)
    stored, labels = _labels(found, len(tokens), ignored_of(contract))
    extra = {path: array for path, array in leaves.items() if path not in roles.values()}
    beside = {path: array for path, array in extra.items() if group_of(path) == group_of(roles["tokens"])}
    image = any(_is_image(array) for array in extra.values())
    rows = []
    for row, ids in enumerate(tokens):
        own_positions = positions[row] if positions is not None else None
        starts = _starts(own_positions, inside[row], beside if len(tokens) == 1 else {})
        others = [array for array in beside.values() if array.dtype.kind in "iu"]
        known = [array[row] for array in others if array.shape == tokens.shape] + [
            array for array in others if len(tokens) == 1
        ]
        known += [mask[row]] if mask is not None else []
        rows.append(
            TokenRow(
                number,
                row,
                ids,
                inside[row],
                mask is not None,
                labels[row] if labels is not None else None,
                stored[row] if stored is not None else None,
                positions=own_positions,
                starts=starts,
                blocks=any(_marks(array, starts) for array in known) or _separates(found.get("mask"), row, starts),
                opens=_opens(found.get("mask"), row, starts, tokens.shape[1]),
                image=image,
            )
        )
    return rows


def ignored_of(contract: Mapping[str, Any]) -> tuple[int, ...]:
    """The labels that the contract says are ignored."""
    given = contract.get("ignore_index", ())
    return tuple(given) if isinstance(given, Collection) else (given,)


def lag_of(rows: Sequence[TokenRow]) -> int | None:
    """0 if labels are the tokens in their own places, 1 if they are the tokens after; None if neither, or if unknown.

    In rows of one repeated token both hold, and labels that are not shifted are what models of libraries take.
    """
    pairs = [(row, row.labels) for row in rows if row.labels is not None and row.labels.shape == row.tokens.shape]
    compared = [(row.tokens, labels[:-1], _compared(row, labels)) for row, labels in pairs]
    count = sum(int(counts.sum()) for _, _, counts in compared)
    for lag in (0, 1):
        equal = sum(
            int((labels[counts] == tokens[lag : len(labels) + lag][counts]).sum())
            for tokens, labels, counts in compared
        )
        if count >= FEWEST_LABELS and equal >= AGREEING_SHARE * count:
            return lag
    return None


def _compared(row: TokenRow, labels: np.ndarray) -> np.ndarray:
    """Which labels are compared: not those before another document, which may be the end of their own."""
    counts = np.asarray(labels[:-1] != IGNORED)
    counts[row.starts - 1] = False
    return counts


def targets_of(row: TokenRow, lag: int | None) -> np.ndarray | None:
    """The label of each token in its place; None if labels are no tokens of the row."""
    if lag is None or row.labels is None or row.labels.shape != row.tokens.shape:
        return None
    targets = row.labels if lag == 0 else np.concatenate([[IGNORED], row.labels[:-1]])
    foreign = row.starts[targets[row.starts] != row.tokens[row.starts]]
    if len(foreign):
        targets = targets.copy()
        targets[foreign] = IGNORED
    return targets


def _is_array(leaf: Any) -> bool:
    flat = isinstance(leaf, list | tuple) and all(isinstance(item, int) for item in leaf)
    plain = isinstance(leaf, torch.Tensor) and not leaf.is_nested and leaf.layout is torch.strided
    return flat or plain or (isinstance(leaf, np.ndarray) and leaf.dtype != object)


def _rowed(array: np.ndarray) -> np.ndarray:
    return array[None] if array.ndim == 1 else array


def _labels(
    found: Mapping[str, np.ndarray], rows: int, ignored: Sequence[int]
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The labels as they are, and with `IGNORED` for all that count for no loss."""
    stored, loss_mask = found.get("labels"), found.get("loss mask")
    if stored is None or stored.ndim != 2 or stored.dtype.kind not in "iu" or len(stored) != rows:
        return None, None
    stored = stored.astype(np.int64)
    labels = np.where((stored < 0) | np.isin(stored, ignored), IGNORED, stored)
    if loss_mask is not None and loss_mask.shape == labels.shape:
        labels = np.where(loss_mask == 0, IGNORED, labels)
    return stored, labels


def _starts(positions: np.ndarray | None, inside: np.ndarray, beside: Mapping[str, np.ndarray]) -> np.ndarray:
    """Where positions restart among tokens that the model sees, or what offsets beside a single row say."""
    if positions is not None:
        again = (positions[1:] <= positions[:-1]) & (positions[1:] == positions[0]) & inside[1:] & inside[:-1]
        return np.flatnonzero(again) + 1
    for array in beside.values():
        flat = array.reshape(-1)
        spans = array.dtype.kind in "iu" and len(flat) > 2 and flat[0] == 0 and flat[-1] == len(inside)
        if spans and bool((flat[1:] > flat[:-1]).all()):
            return flat[1:-1].astype(np.int64)
    return np.zeros(0, np.int64)


def _marks(array: np.ndarray, starts: np.ndarray) -> bool:
    """Whether integers change at every start, as numbers of documents do, or list the starts, as offsets do."""
    flat = array.reshape(-1)
    if not len(starts):
        return False
    listed = len(flat) <= len(starts) + 2 and bool(np.isin(starts, flat).all())
    numbered = len(flat) > int(starts[-1]) and bool((flat[starts] != flat[starts - 1]).all())
    ramps = len(flat) > 1 and int((flat[1:] != flat[:-1]).sum()) > 2 * len(starts) + 1
    return listed or (numbered and not ramps)


def _allowed(mask: np.ndarray | None, row: int) -> np.ndarray | None:
    """Which token may see which, of a mask [rows, width, width], with an axis of heads or without; else None."""
    if mask is None or mask.ndim not in (3, 4) or mask.shape[-1] != mask.shape[-2]:
        return None
    square = mask[min(row, len(mask) - 1)]
    square = square[0] if square.ndim == 3 else square
    return np.asarray(square > -1 if square.dtype.kind == "f" and square.min() < 0 else square != 0)


def _separates(mask: np.ndarray | None, row: int, starts: np.ndarray) -> bool:
    allowed = _allowed(mask, row)
    return allowed is not None and len(starts) > 0 and not allowed[starts, starts - 1].any()


def _opens(mask: np.ndarray | None, row: int, starts: np.ndarray, width: int) -> bool:
    """Whether a mask lets the first token of every later document see the one before it."""
    if mask is None or not len(starts):
        return False
    allowed = _allowed(mask, row)
    if allowed is not None:
        return bool(allowed[starts, starts - 1].all())
    return mask.ndim == 2 and mask.shape[1] == width


def _is_image(array: np.ndarray) -> bool:
    """Whether floats have the axes of images: channels, height and width in rows, or patches of them."""
    return array.dtype.kind == "f" and array.ndim >= 2 and array.size >= 256


NAMES: Mapping[str, tuple[str, ...]] = {
    "tokens": ("input_ids",),
    "labels": ("labels", "targets", "target_ids"),
    "mask": ("attention_mask",),
    "positions": ("position_ids", "positions", "input_pos"),
}
"""The usual names of the leaves of each role, the first that a batch has counts."""
_SIDE = re.compile(r"(.*[^a-z0-9]|)input_ids([^a-z0-9].*|)", re.IGNORECASE)
"""The tokens of one side of a pair, such as `chosen_input_ids`; its labels and mask have the same affixes."""
_LOSS_MASK = re.compile(r"(loss|label|target|completion|response|assistant)s?_?(mask|weight)s?", re.IGNORECASE)


def roles_of(paths: Iterable[str], contract: Mapping[str, Any]) -> dict[str, str]:
    """The path of the leaf of each role: those beside the tokens come first; {} without tokens.

    Of batches of pairs, whose names have affixes, these are the roles of the first side that has labels.
    """
    known = list(paths)
    given = {"tokens": contract.get("tokens"), "labels": contract.get("labels"), "mask": contract.get("mask")}
    names = {role: (str(given[role]),) if given.get(role) else usual for role, usual in NAMES.items()}
    tokens = _named(known, names["tokens"])
    if tokens is None and not given["tokens"]:
        known, names = _side(known, names)
        tokens = _named(known, names["tokens"])
    if tokens is None:
        return {}
    group = group_of(tokens)
    beside = sorted(known, key=lambda path: group_of(path) != group)
    roles = {"tokens": tokens}
    for role in ("labels", "mask", "positions"):
        path = _named(beside, names[role])
        roles |= {role: path} if path is not None and path != tokens else {}
    loss_mask = next((path for path in beside if _LOSS_MASK.search(key_of(path))), None)
    return roles | ({"loss mask": loss_mask} if loss_mask is not None and loss_mask not in roles.values() else {})


def group_of(path: str) -> str:
    """The path of what holds a leaf: `['text']` of `['text']['labels']`."""
    return path[: max(path.rfind("["), path.rfind("."), 0)]


def _side(paths: Sequence[str], names: Mapping[str, tuple[str, ...]]) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """The leaves of one side of a pair, and the names of the roles with its affixes; those of no side are empty."""
    keys = {key_of(path): path for path in paths}
    sides = [match.groups() for key in keys if (match := _SIDE.fullmatch(key))]
    with_labels = [
        (before, after) for before, after in sides if any(before + n + after in keys for n in names["labels"])
    ]
    before, after = (with_labels or sides or [("", "")])[0]
    own = [path for key, path in keys.items() if key.startswith(before) and key.endswith(after)]
    return own, {role: tuple(before + name + after for name in usual) for role, usual in names.items()}


def _named(paths: Sequence[str], names: Sequence[str]) -> str | None:
    """The first path with the first of these names that any has."""
    return next((path for name in names for path in paths if name in (path, key_of(path))), None)


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


EXCERPT_COLUMNS = 7
"""How many tokens are shown: as many as fit on a line of a terminal."""
_MOST_CHARACTERS = 10
"""The most characters of a token that are shown, for the same reason."""

Word = Callable[[int], str] | None


def excerpt(row: TokenRow, marked: Collection[int], word: Word) -> str:
    """The tokens around the first marked ones, as lines of columns; those that are marked are underlined."""
    first = min(marked, default=0)
    start = max(0, min(first - EXCERPT_COLUMNS // 2, len(row.tokens) - EXCERPT_COLUMNS))
    columns = range(start, min(start + EXCERPT_COLUMNS, len(row.tokens)))
    lines: list[tuple[str, list[str]]] = [("column", [str(column) for column in columns])]
    lines.append(("token", [_shown(int(row.tokens[column]), word) for column in columns]))
    if word is not None:
        lines.append(("id", [str(int(row.tokens[column])) for column in columns]))
    if row.masked:
        lines.append(("mask", [str(int(row.inside[column])) for column in columns]))
    if row.positions is not None:
        lines.append(("position", [str(int(row.positions[column])) for column in columns]))
    if row.stored is not None and row.stored.shape == row.tokens.shape:
        kept = row.labels if row.labels is not None else row.stored
        lines.append(("label", [_label(int(row.stored[column]), int(kept[column]), word) for column in columns]))
    cells = [cells for _, cells in lines]
    widths = [max(len(line[number]) for line in cells) for number in range(len(columns))]
    lines.append(("here", ["^" * width * (column in marked) for column, width in zip(columns, widths, strict=True)]))
    return "\n".join(
        f"{name:<8}  " + "  ".join(f"{cell:>{width}}" for cell, width in zip(values, widths, strict=True)).rstrip()
        for name, values in lines
    )


def labels_excerpt(labels: np.ndarray, word: Word) -> str:
    """The end of a row of labels that has other places than the tokens."""
    start = max(0, len(labels) - EXCERPT_COLUMNS)
    return "label  " + "  ".join(_shown(int(label), word) for label in labels[start:])


def named(token: int, word: Word) -> str:
    """A token in a sentence: its text, if that is known, and its id."""
    return str(token) if word is None else f"{_shown(token, word)} ({token})"


def _label(stored: int, kept: int, word: Word) -> str:
    return str(stored) if stored < 0 else f"({_shown(stored, word)})" if kept < 0 else _shown(stored, word)


def _shown(number: int, word: Word) -> str:
    text = str(number) if word is None or number < 0 else word(number)
    text = text.replace("\n", "\\n").replace("\t", "\\t").replace(" ", "·")
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 1]}…"
