"""The rows of batches of tokens, in one form: the tokens, and what the labels, masks and positions say of each.

Which leaf has which role is decided in `token_roles`. Special tokens, vocabulary and words come from tokenizers that
dataset, transforms or collate_fn hold. These are read, and never called with text; their libraries are not imported,
because a user's tokenizer has done that. An `excerpt` shows a few tokens of a row as readers see them: in columns, with
mask, label and position below.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dataguard.lab.core.object_graph import Node, reachable
from dataguard.lab.tokens.token_roles import (
    AGREEING_SHARE,
    LAGS,
    KnownIds,
    Leaves,
    content_of,
    group_of,
    has_rows,
    is_for_loss,
    offsets_in,
    roles_of,
    rows_in,
)

IGNORED = -100
"""The ignore index of torch's cross entropy, which rows have wherever a label counts for no loss."""
FEWEST_LABELS = 32
"""The fewest labels by which it is known whether they are shifted: fewer may agree by chance where tokens repeat."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenRow:
    """One row: `tokens` are integers of shape [width], and all else has that shape or is None.

    `inside` is where the mask lets the model see; all of it without a mask. `targets` are the labels of the tokens in
    their own places (a label that is shifted by one is moved back), `labels` as they come, of any length; both are
    `IGNORED` where nothing is learned. `stored` are the labels as the batch has them. `starts` are where later
    documents of a packed row begin. `blocks`: the batch says so to the model, or keeps documents apart; `opens`: its
    mask lets documents see each other. `negatives` are items of any number that a loss contrasts with the next ones.
    `counted` is where a mask of the loss is not 0, if the batch has one that is not the `mask`. `patches` are how many
    patches each image of the batch has, by a grid of (time, height, width). `divided`: the batch holds numbers,
    positions or lengths of the documents of a row, or a mask that is closed between some of its tokens.
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
    negatives: np.ndarray | None = None
    counted: np.ndarray | None = None
    patches: tuple[int, ...] = ()
    divided: bool = False

    @property
    def text(self) -> np.ndarray:
        """The tokens that the model sees."""
        return np.asarray(self.tokens[self.inside])


def rows_of(
    leaves: Leaves, number: int, contract: Mapping[str, Any], roles: Mapping[str, str] | None = None
) -> list[TokenRow]:
    """The rows of one batch, whose roles are known by name if not given.

    [] if its tokens are no integers of one or two dimensions.
    """
    roles = roles_of(leaves, contract) if roles is None else roles
    arrays = {role: leaves[path] for role, path in roles.items() if path in leaves}
    if "padding" in arrays:
        arrays.setdefault("mask", _inverted(arrays["padding"]))
    if "tokens" not in arrays or not has_rows(arrays["tokens"]):
        return []
    tokens = rows_in(arrays["tokens"])
    if not all(row.dtype.kind in "iu" for row in tokens):
        return []
    tokens = [row.astype(np.int64) for row in tokens]
    square = _square(arrays.get("mask"))
    masks, positions = _beside(arrays.get("mask"), tokens), _beside(arrays.get("positions"), tokens)
    every_stored = _labels(arrays.get("labels"), tokens)
    loss_masks = _beside(arrays.get("loss mask"), tokens)
    loss_path, loss_mask = roles.get("loss mask", ""), arrays.get("loss mask")
    is_own_mask = loss_mask is not None and loss_path != roles.get("mask") and is_for_loss(loss_path, loss_mask)
    negatives = _labels(arrays.get("negatives"), tokens)
    extra = {path: array for path, array in leaves.items() if path not in roles.values()}
    beside = {path: array for path, array in extra.items() if group_of(path) == group_of(roles["tokens"])}
    others = [array for array in beside.values() if array.dtype.kind in "iuO"]
    image = any(_is_image(array) for array in extra.values())
    patches = next(map(_patches, filter(_is_grid, extra.values())), ()) if image else ()
    rows = []
    for row, ids in enumerate(tokens):
        inside = masks[row] != 0 if masks is not None else np.ones(ids.shape, bool)
        own_positions = positions[row] if positions is not None else None
        stored = every_stored[row] if every_stored is not None else None
        starts = _starts(own_positions, inside, others if len(tokens) == 1 else [])
        integers = [found[row] for array in others if (found := _beside(array, tokens)) is not None]
        integers += others if len(tokens) == 1 else []
        integers += [masks[row]] if masks is not None else []
        rows.append(
            TokenRow(
                number,
                row,
                ids,
                inside,
                masks is not None,
                _counted(stored, loss_masks[row] if loss_masks is not None else None, ignored_of(contract)),
                stored,
                positions=own_positions,
                starts=starts,
                blocks=any(_marks(array, starts) for array in integers) or _separates(square, row, starts),
                opens=_opens(square, row, starts, masked=masks is not None),
                image=image,
                negatives=negatives[row] if negatives is not None else None,
                counted=loss_masks[row] != 0 if loss_masks is not None and is_own_mask else None,
                patches=patches,
                divided=any(_divides(array, len(ids)) for array in [*integers, *_of_row(others, row, len(tokens))])
                or _is_closed(square, row),
            )
        )
    return rows


def ignored_of(contract: Mapping[str, Any]) -> tuple[int, ...]:
    """The labels that the contract says are ignored."""
    given = contract.get("ignore_index", ())
    return tuple(given) if isinstance(given, Collection) else (given,)


def lag_of(rows: Sequence[TokenRow]) -> int | None:
    """0 if labels are the tokens in their own places, 1 if they are those after, 2 after these; None if unknown.

    In rows of one repeated token both hold, and labels that are not shifted are what models of libraries take.
    """
    pairs = [(row, row.labels) for row in rows if row.labels is not None and row.labels.shape == row.tokens.shape]
    for lag in sorted(LAGS):
        compared = [(row.tokens[lag:], labels, _compared(row, labels, max(lag, 1))) for row, labels in pairs]
        count = sum(int(counts.sum()) for _, _, counts in compared)
        equal = sum(
            int((labels[: len(counts)][counts] == tokens[: len(counts)][counts]).sum())
            for tokens, labels, counts in compared
        )
        if count >= FEWEST_LABELS and equal >= AGREEING_SHARE * count:
            return lag
    return None


def _compared(row: TokenRow, labels: np.ndarray, lag: int) -> np.ndarray:
    """Which labels are compared: not those before another document or padding, which may be the end of their own."""
    counts = np.asarray(labels != IGNORED)
    counts[row.starts - 1] = False
    return np.asarray(counts[: max(len(labels) - lag, 0)] & (row.inside & content_of(row.tokens))[lag:])


def targets_of(row: TokenRow, lag: int | None) -> np.ndarray | None:
    """The label of each token in its place; None if labels are no tokens of the row."""
    if lag is None or row.labels is None or row.labels.shape != row.tokens.shape:
        return None
    targets = np.concatenate([np.full(min(lag, len(row.labels)), IGNORED), row.labels[: len(row.labels) - lag]])
    foreign = row.starts[targets[row.starts] != row.tokens[row.starts]]
    if len(foreign):
        targets = targets.copy()
        targets[foreign] = IGNORED
    return targets


def _inverted(padding: np.ndarray) -> np.ndarray:
    """A mask of what is seen, from one of padding."""
    seen = np.empty(padding.shape, padding.dtype if padding.dtype == object else bool)
    for place, part in enumerate(padding):
        seen[place] = part == 0
    return seen


def _beside(array: np.ndarray | None, tokens: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """The rows of a leaf, if they have the shapes of those of the tokens."""
    rows = rows_in(array) if array is not None and has_rows(array) else []
    alike = len(rows) == len(tokens) and all(row.shape == ids.shape for row, ids in zip(rows, tokens, strict=True))
    return rows if alike else None


def _labels(array: np.ndarray | None, tokens: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """Labels or negatives as they are, a row of any width for each row of tokens."""
    rows = rows_in(array) if array is not None and has_rows(array) else []
    if len(rows) != len(tokens) or not all(row.dtype.kind in "iu" for row in rows):
        return None
    return [row.astype(np.int64) for row in rows]


def _counted(stored: np.ndarray | None, loss_mask: np.ndarray | None, ignored: Sequence[int]) -> np.ndarray | None:
    """The labels of a row, with `IGNORED` for all that count for no loss."""
    if stored is None:
        return None
    labels = np.where((stored < 0) | np.isin(stored, ignored), IGNORED, stored)
    if loss_mask is not None and loss_mask.shape == labels.shape:
        labels = np.where(loss_mask == 0, IGNORED, labels)
    return labels


def _starts(positions: np.ndarray | None, inside: np.ndarray, beside: Sequence[np.ndarray]) -> np.ndarray:
    """Where positions restart among tokens that the model sees, or what offsets beside a single row say."""
    if positions is not None:
        again = (positions[1:] <= positions[:-1]) & (positions[1:] == positions[0]) & inside[1:] & inside[:-1]
        return np.flatnonzero(again) + 1
    offsets = offsets_in(beside, len(inside))
    return np.zeros(0, np.int64) if offsets is None else offsets[1:-1]


def _marks(array: np.ndarray, starts: np.ndarray) -> bool:
    """Whether integers change at every start, as numbers of documents do, or list the starts, as offsets do."""
    flat = array.reshape(-1)
    if not len(starts):
        return False
    listed = len(flat) <= len(starts) + 2 and bool(np.isin(starts, flat).all())
    numbered = len(flat) > int(starts[-1]) and bool((flat[starts] != flat[starts - 1]).all())
    ramps = len(flat) > 1 and int((flat[1:] != flat[:-1]).sum()) > 2 * len(starts) + 1
    return listed or (numbered and not ramps)


def _of_row(arrays: Sequence[np.ndarray], row: int, rows: int) -> list[np.ndarray]:
    """What leaves hold for one row of a batch, whatever their width."""
    return [array[row] for array in arrays if array.dtype != object and array.ndim == 2 and len(array) == rows]


def _divides(array: np.ndarray, width: int) -> bool:
    """Whether integers are lengths of the parts of a row, their numbers, or positions in them."""
    flat = array.reshape(-1).astype(np.int64)
    if len(flat) != width:
        return int((flat > 0).sum()) > 1 and bool((flat >= 0).all()) and int(flat.sum()) == width
    steps = np.diff(flat)
    numbered = bool(np.isin(steps, (0, 1)).all()) and 0 < int((steps == 1).sum()) < MOST_PARTS * width
    restarts = flat[1:][steps != 1]
    return numbered or (0 < len(restarts) < MOST_PARTS * width and bool((restarts == flat[0]).all()))


MOST_PARTS = 0.25
"""The most parts of a row, by token: documents have a few tokens."""


def _is_closed(square: np.ndarray | None, row: int) -> bool:
    """Whether a mask hides tokens from later ones that see others before them."""
    allowed = _allowed(square, row)
    return allowed is not None and bool((np.diff(np.tril(allowed).astype(int), axis=1)[:, :-1] > 0).any())


def _separates(square: np.ndarray | None, row: int, starts: np.ndarray) -> bool:
    allowed = _allowed(square, row)
    return allowed is not None and len(starts) > 0 and not allowed[starts, starts - 1].any()


def _opens(square: np.ndarray | None, row: int, starts: np.ndarray, *, masked: bool) -> bool:
    """Whether a mask lets the first token of every later document see the one before it."""
    if not len(starts):
        return False
    allowed = _allowed(square, row)
    return masked if allowed is None else bool(allowed[starts, starts - 1].all())


def _is_image(array: np.ndarray) -> bool:
    """Whether floats have the axes of images: channels, height and width in rows, or patches of them."""
    return array.dtype.kind == "f" and array.ndim >= 2 and array.size >= 256


def _is_grid(array: np.ndarray) -> bool:
    """Whether rows of three integers may be the time, height and width of images in patches."""
    return array.dtype.kind in "iu" and array.ndim == 2 and array.shape[1] == 3 and bool((array > 0).all())


def _patches(grids: np.ndarray) -> tuple[int, ...]:
    return tuple(grids.astype(np.int64).prod(1).tolist())


_CLASSES = (
    ("transformers.tokenization_utils_base", "PreTrainedTokenizerBase"),
    ("tokenizers", "Tokenizer"),
    ("sentencepiece", "SentencePieceProcessor"),
    ("tiktoken", "Encoding"),
    ("mistral_common.tokens.tokenizers.tekken", "Tekkenizer"),
    ("mistral_common.tokens.tokenizers.sentencepiece", "SentencePieceTokenizer"),
)
"""Those of the last two hold tokenizers of other libraries, whose ids are not theirs."""
_BOS = ("bos_token_id", "bos_id", "bos_index", "bos_idx", "cls_idx")
_EOS = ("eos_token_id", "eos_id", "eot_token", "eos_index", "eos_idx")
_PAD = ("pad_token_id", "pad_id", "pad_index", "pad_idx", "padding_idx")
_MASK = ("mask_token_id", "mask_id", "mask_index", "mask_idx")
_MODELS = "transformers.modeling_utils"
_SIZES = ("n_vocab", "vocab_size", "n_words", "GetPieceSize", "get_vocab_size")


@dataclass(frozen=True, slots=True)
class Chat:
    """What a chat template writes: before a reply, and before the question after it; the `stop` that ends a reply.

    `heads` begin conversations, and stand nowhere else in them.
    """

    reply: tuple[int, ...]
    question: tuple[int, ...]
    stop: int | None = None
    heads: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokens of a loader: ids of start, stop, padding and mask, how many there are, and the special ones.

    `where` is the path of the tokenizer, None for what only the contract says. `declared` are those that it says.
    `chat` is what its chat template writes. `for_models`: the tokenizer makes arguments of models whose library is
    loaded in whole, as by code that has a model.
    """

    bos: int | None = None
    eos: int | None = None
    pad: int | None = None
    mask: int | None = None
    size: int | None = None
    special: frozenset[int] = frozenset()
    where: str | None = None
    for_models: bool = False
    declared: frozenset[str] = field(default_factory=frozenset)
    chat: Chat | None = None

    @property
    def known(self) -> KnownIds | None:
        """Its ids, if any are known."""
        ids = frozenset(token for token in (self.bos, self.eos, self.pad) if token is not None)
        return KnownIds(self.size, ids | self.special) if self.size or ids else None


def tokenizers_in(roots: Mapping[str, Any]) -> list[Node]:
    """The tokenizers that can be reached, nearest first: of libraries, or objects that hold ids of start and stop."""
    classes = _classes()
    nodes = list(reachable(roots, lambda value: issubclass(type(value), classes) or _holds_ids(value)))
    wrapped = [
        Node(f"{node.path}.{name}", value)
        for node in nodes
        for name, value in ({} if issubclass(type(node.value), classes) else _held(node.value)).items()
        if issubclass(type(value), classes) and all(value is not other.value for other in nodes)
    ]
    return nodes + wrapped


def vocabulary_of(nodes: Iterable[Node], contract: Mapping[str, Any]) -> Vocabulary:
    """What tokenizers and contract say; ids that two tokenizers give differently are unknown."""
    read = [(node, _read(node.value)) for node in nodes]
    agreed = {
        name: only(values[name] for _, values in read if values[name] is not None)
        for name in ("bos", "eos", "pad", "mask")
    }
    sizes = [values["size"] for _, values in read if values["size"]]
    return Vocabulary(
        contract.get("bos", agreed["bos"]),
        contract.get("eos", agreed["eos"]),
        contract.get("pad", agreed["pad"]),
        agreed["mask"],
        contract.get("vocab_size", max(sizes, default=None)),
        special=frozenset(number for _, values in read for number in values["special"]),
        where=read[0][0].path if read else None,
        for_models=_MODELS in sys.modules and any(_value(node.value, "model_input_names") for node, _ in read),
        declared=frozenset({"bos", "eos", "pad", "vocab_size"} & set(contract)),
    )


def word_of(nodes: Iterable[Node]) -> Callable[[int], str] | None:
    """A function from an id to its token as text; None without a tokenizer of a library."""
    tokenizers = [node.value for node in nodes if issubclass(type(node.value), _classes())]
    names = ("convert_ids_to_tokens", "id_to_token", "id_to_piece", "decode_single_token_bytes")
    convert: Any = next(
        (method for value in tokenizers[:1] for name in names if (method := getattr(value, name, None))), None
    )
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
    return any(type(_stored(value, name)) is int for name in (*_BOS, *_EOS))


def _stored(value: Any, name: str) -> Any:
    """An attribute of an object or of its class, without running any code of it."""
    return next((held[name] for held in (_held(value), *map(vars, type(value).__mro__)) if name in held), None)


def _held(value: Any) -> dict[str, Any]:
    """The attributes of an object itself, without running any code of it."""
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
    first, last = _ends(_attribute(tokenizer, "post_processor"))
    bos, eos = _first(tokenizer, *_BOS), _first(tokenizer, *_EOS)
    named = _value(tokenizer, "_special_tokens")
    return {
        "bos": first if bos is None else bos,
        "eos": last if eos is None else eos,
        "pad": pad if pad is not None else _first(tokenizer, *_PAD),
        "mask": _first(tokenizer, *_MASK),
        "size": max([largest, *filter(None, sizes)]),
        "special": special
        | set(_value(tokenizer, "all_special_ids") or ())
        | ({number for number in named.values() if isinstance(number, int)} if isinstance(named, dict) else set()),
    }


def _attribute(tokenizer: Any, name: str) -> Any:
    return getattr(tokenizer, name, None) if issubclass(type(tokenizer), _classes()) else None


def _ends(post_processor: Any) -> tuple[int | None, int | None]:
    """The ids that the post-processor of a tokenizer puts before and after a text."""
    try:
        steps = [json.loads(post_processor.__getstate__())]
    except Exception:  # noqa: BLE001 - none, or one of another library
        return None, None
    while any("processors" in step for step in steps):
        steps = [inner for step in steps for inner in step.get("processors", [step])]
    for step in steps:
        if "cls" in step and "sep" in step:
            return _number(step["cls"][1]), _number(step["sep"][1])
        around = [piece.get("SpecialToken", {}).get("id") for piece in step.get("single") or ()]
        ids = [step["special_tokens"][token]["ids"][0] if token else None for token in around]
        if any(number is not None for number in ids):
            return ids[0], ids[-1]
    return None, None


def only(given: Iterable[int | None]) -> int | None:
    """The one value; None if there are several or none."""
    distinct = set(given)
    return distinct.pop() if len(distinct) == 1 else None


def _value(tokenizer: Any, name: str) -> Any:
    """An attribute, or what it returns if it is a method of a library's; None if there is none."""
    if not issubclass(type(tokenizer), _classes()):
        return _stored(tokenizer, name)
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


def _square(mask: np.ndarray | None) -> np.ndarray | None:
    """Which token may see which [rows, width, width], of a mask with an axis of heads or without; else None.

    Some masks are true, or 1, for what is hidden: tokens see those before them, and none after.
    """
    if mask is None or mask.ndim not in (3, 4) or mask.shape[-1] != mask.shape[-2]:
        return None
    square = mask[:, 0] if mask.ndim == 4 else mask
    allowed = np.asarray(square > -1 if square.dtype.kind == "f" and square.min() < 0 else square != 0)
    below = np.diagonal(allowed, axis1=-2, axis2=-1)
    after = np.diagonal(allowed, 1, axis1=-2, axis2=-1)
    return ~allowed if not below.any() and after.all() else allowed


def _allowed(square: np.ndarray | None, row: int) -> np.ndarray | None:
    return None if square is None else np.asarray(square[min(row, len(square) - 1)])
