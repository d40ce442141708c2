"""Which leaf of a batch holds tokens, and which their labels, masks and positions.

By the usual names or those of the contract (`roles_of`), else by what the leaves hold (`roles_by_content`): integers in
rows of which another leaf of the same shape is a copy, or the next tokens, are tokens with their labels. Integers that
agree with no other leaf are tokens only if they fit a vocabulary that is known, and its special tokens begin, end or
divide rows: class indices, indices of neighbours and columns of tables do not; or if a batch is nothing but rows of ids
that are as unequally frequent as words. Masks are known by where they are 0.

Leaves of tokens have the shape (rows, width), (batch, pairs, width) or (total width,) with offsets beside them, or are
nested tensors.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dataguard.core.leaf_paths import key_of
from dataguard.lab.core.leaves import array_of, iter_leaves
from dataguard.lab.core.records import LeafRecord

Leaves = Mapping[str, np.ndarray]


def leaves_in(batch: Any) -> dict[str, np.ndarray]:
    """The arrays of a batch, and lists of integers, by path."""
    leaves = list(iter_leaves(batch))
    arrays = {path: array_of(leaf) for path, leaf in leaves if _is_array(leaf)}
    listed: dict[str, list[Any]] = {}
    for path, leaf in leaves:
        if (place := _PLACE_IN_LIST.fullmatch(path)) is not None:
            listed.setdefault(place[1], []).append(leaf)
    lists = {path: np.asarray(values) for path, values in listed.items() if all(type(value) is int for value in values)}
    return arrays | lists | {path: _nested_rows(leaf) for path, leaf in leaves if _is_nested(leaf)}


_PLACE_IN_LIST = re.compile(r"(.+)\[\d+\]")


def _is_array(leaf: Any) -> bool:
    flat = isinstance(leaf, list | tuple) and all(isinstance(item, int) for item in leaf)
    plain = isinstance(leaf, torch.Tensor) and not leaf.is_nested and leaf.layout is torch.strided
    return flat or plain or (isinstance(leaf, np.ndarray) and leaf.dtype != object)


def _is_nested(leaf: Any) -> bool:
    """Whether this is a nested tensor whose parts are rows of integers or of truth values."""
    return isinstance(leaf, torch.Tensor) and leaf.is_nested and leaf.dim() == 2 and not leaf.is_floating_point()


def _nested_rows(leaf: torch.Tensor) -> np.ndarray:
    """The rows of a nested tensor, as an array of arrays."""
    parts = leaf.unbind()
    rows = np.empty(len(parts), object)
    for number, part in enumerate(parts):
        rows[number] = array_of(part)
    return rows


MOST_SIDES = 4
"""The most rows of a sample (batch, pairs, width): chosen and rejected answers, and a few more."""


def rows_in(array: np.ndarray) -> list[np.ndarray]:
    """The rows of a leaf: one if it is flat, and those of all pairs one after another."""
    if array.dtype == object:
        return list(array)
    return list(array.reshape(-1, array.shape[-1])) if array.ndim else []


def has_rows(array: np.ndarray) -> bool:
    """Whether a leaf has the shape of rows of tokens."""
    return array.ndim in (1, 2) or (array.ndim == 3 and 2 <= array.shape[1] <= MOST_SIDES)


def offsets_in(arrays: Iterable[np.ndarray], width: int) -> np.ndarray | None:
    """The starts of the parts of a flat row, and its end, if one of these arrays lists them."""
    for array in arrays:
        flat = array.reshape(-1)
        spans = array.dtype.kind in "iu" and len(flat) > 2 and flat[0] == 0 and flat[-1] == width
        if spans and bool((flat[1:] > flat[:-1]).all()):
            return flat.astype(np.int64)
    return None


NAMES: Mapping[str, tuple[str, ...]] = {
    "tokens": ("input_ids",),
    "labels": ("labels", "targets", "target_ids"),
    "mask": ("attention_mask",),
    "positions": ("position_ids", "positions", "input_pos"),
}
"""The usual names of the leaves of each role, the first that a batch has counts."""
_SIDE = re.compile(r"(.*[^a-z0-9]|)input_ids([^a-z0-9].*|)", re.IGNORECASE)
"""The tokens of one side of a pair, such as `chosen_input_ids`; its labels and mask have the same affixes."""
PREFERENCE = re.compile(r"(dis)?prefer(red)?|chosen|reject(ed|s)?|winn(er|ing)|los(er|ing)", re.IGNORECASE)
"""Names of answers one of which is preferred."""
_NEGATIVES = re.compile(r"(.*_)?neg(ative)?s?(_.*)?", re.IGNORECASE)
"""Items that a loss contrasts with the next one: nothing else distinguishes their ids from other integers."""
_LOSS_MASK = re.compile(r"(loss|label|target|completion|response|assistant)s?_?(mask|weight)s?", re.IGNORECASE)


def roles_of(paths: Iterable[str], contract: Mapping[str, Any]) -> dict[str, str]:
    """The path of the leaf of each role: those beside the tokens come first; {} without tokens.

    Of batches of pairs, whose names have affixes, these are the roles of the first side that has labels.
    """
    leaf_paths = list(paths)
    given = {"tokens": contract.get("tokens"), "labels": contract.get("labels"), "mask": contract.get("mask")}
    names = {role: (str(given[role]),) if given.get(role) else usual for role, usual in NAMES.items()}
    tokens = _named(leaf_paths, names["tokens"])
    if tokens is None and not given["tokens"]:
        leaf_paths, names = _side(leaf_paths, names)
        tokens = _named(leaf_paths, names["tokens"])
    if tokens is None:
        return {}
    group = group_of(tokens)
    beside = sorted(leaf_paths, key=lambda path: group_of(path) != group)
    roles = {"tokens": tokens}
    for role in ("labels", "mask", "positions"):
        path = _named(beside, names[role])
        roles |= {role: path} if path is not None and path != tokens else {}
    roles |= _negatives(path for path in beside if path not in roles.values())
    loss_mask = next((path for path in beside if _LOSS_MASK.search(key_of(path))), None)
    return roles | ({"loss mask": loss_mask} if loss_mask is not None and loss_mask not in roles.values() else {})


def _negatives(paths: Iterable[str]) -> dict[str, str]:
    """The leaf of negative items, by its name."""
    path = next((path for path in paths if _NEGATIVES.fullmatch(key_of(path))), None)
    return {} if path is None else {"negatives": path}


def group_of(path: str) -> str:
    """The path of what holds a leaf: `['text']` of `['text']['labels']`."""
    return path[: max(path.rfind("["), path.rfind("."), 0)]


def _side(paths: Sequence[str], names: Mapping[str, tuple[str, ...]]) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """The leaves of one side of a pair, and the names of the roles with its affixes; those of no side are empty."""
    keys = {key_of(path): path for path in paths}
    sides = [match.groups() for key in keys if (match := _SIDE.fullmatch(key))]
    sides.sort(key=lambda side: "prompt" in "".join(side).lower())
    with_labels = [
        (before, after) for before, after in sides if any(before + n + after in keys for n in names["labels"])
    ]
    before, after = (with_labels or sides or [("", "")])[0]
    affixed = {role: tuple(before + name + after for name in usual) for role, usual in names.items()}
    if len(sides) == 1:  # of an encoder and a decoder, only one has tokens: what it predicts has a plain name
        return list(paths), {
            role: (*affixed[role], *(() if role == "tokens" else usual)) for role, usual in names.items()
        }
    return [path for key, path in keys.items() if key.startswith(before) and key.endswith(after)], affixed


def other_side(paths: Sequence[str], roles: Mapping[str, str]) -> dict[str, str]:
    """The roles of the other answers of a batch of pairs, by the affixes of their names; {} without just one.

    Paths of tokens with other names may differ in what says which answer is preferred.
    """
    if word := PREFERENCE.search(roles["tokens"]):
        before, after = roles["tokens"][: word.start()], roles["tokens"][word.end() :]
        middles = {
            path[len(before) : len(path) - len(after)]
            for path in paths
            if path.startswith(before) and path.endswith(after)
        }
        others = [middle for middle in middles if PREFERENCE.fullmatch(middle) and middle != word.group()]
        if len(others) == 1:
            renamed = {role: PREFERENCE.sub(others[0], path, count=1) for role, path in roles.items()}
            return {role: path for role, path in renamed.items() if path in paths and path != roles[role]}
    keys = {key_of(path): path for path in paths}
    sides = {key: match.groups() for key in keys if (match := _SIDE.fullmatch(key)) and "prompt" not in key.lower()}
    own = sides.pop(key_of(roles["tokens"]), None)
    if own is None or len(sides) != 1:
        return {}
    before, after = next(iter(sides.values()))
    inner = {role: key_of(path)[len(own[0]) : len(key_of(path)) - len(own[1])] for role, path in roles.items()}
    return {role: keys[key] for role, name in inner.items() if (key := before + name + after) in keys}


def _named(paths: Sequence[str], names: Sequence[str]) -> str | None:
    """The first path with the first of these names that any has."""
    return next((path for name in names for path in paths if name in (path, key_of(path))), None)


FEWEST_COMPARED, FEWEST_DISTINCT, FEWEST_WIDTH = 64, 8, 8
"""The fewest labels that are compared, different ids among them, and ids in a row: classes are fewer, and agree by
chance where they repeat."""
AGREEING_SHARE = 0.95
"""The share of labels that are a token of their row at one distance; tokens that a collator drops spoil few."""
MANY_COMPARED, FEWEST_LETTERS = 1024, 4
"""Labels of which four different ones suffice, if they are the next tokens: letters of a genome are no more."""
LAGS = (1, 0, 2)
"""How far labels may be shifted: those at 2 are shifted twice."""
MASKED_SHARE = 0.7
"""The least share of masked tokens that have the id of the mask; BERT leaves 0.1 as they are, and replaces 0.1."""
RARE_SHARE = 0.05
"""The largest share of masks whose label says nothing."""
UNEQUAL = 8
"""How much more often than half of all others the most frequent id of a text occurs."""
PLACED_SHARE = 0.5
"""The share of rows that special tokens begin, end or divide. Others may hold these ids by chance."""
BETWEEN_COLUMNS = 5
"""The ratio of variances, 1 for text, from which on columns have values of their own."""
FREQUENT = 4
"""How much more often than the average id a token divides rows: documents are shorter than a vocabulary is large."""
_UINT16 = (1 << 16) - 1
"""The largest id that 16 bits hold: larger ones are wrapped by storage of that type."""
_INTEGERS = re.compile(r"u?int(16|32|64)")
_LOSS_MASK_KEY = re.compile(r"mask|weight|keep|^\d+$", re.IGNORECASE)
"""Keys of leaves that may say which labels count: without a name that says so, 0 and 1 may be classes of tokens."""
_ATTENTION_KEY = re.compile(r"att|pad", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class KnownIds:
    """A vocabulary: how many ids it has, None if that is unknown, and those of its special tokens."""

    size: int | None
    special: frozenset[int]


def may_be_tokens(leaf: LeafRecord, samples: int) -> bool:
    """Whether a leaf has the dtype and shape of tokens, in a batch of so many samples; 1 if it was made as a whole.

    The rows of pairs may stand one after another.
    """
    shape = leaf.shape or ()
    if not _INTEGERS.fullmatch(leaf.dtype or "") or not shape:
        return False
    if leaf.kind == "NestedTensor":
        return True
    if len(shape) == 1:
        return shape[0] >= FEWEST_WIDTH * max(samples, 1)
    rows = len(shape) == 2 or (len(shape) == 3 and 2 <= shape[1] <= MOST_SIDES)
    return rows and shape[-1] >= FEWEST_WIDTH and (samples < 2 or shape[0] in (samples, 2 * samples))


def roles_by_content(
    batches: Sequence[Leaves], known: KnownIds | None, contract: Mapping[str, Any], ignored: Collection[int] = ()
) -> dict[str, str]:
    """The path of the leaf of each role, as `roles_of` returns it; {} if no leaf is known to hold tokens."""
    columns = {path: [batch[path] for batch in batches] for path in _shared(batches)}
    columns = {path: arrays for path, arrays in columns.items() if all(map(has_rows, arrays))}
    sequences = {path: _Sequence.of(arrays) for path, arrays in columns.items() if _are_integers(arrays)}
    candidates = {path: sequence for path, sequence in sequences.items() if sequence.may_be_tokens}
    texts = {path: sequence for path, sequence in candidates.items() if sequence.has_texts(batches)}
    roles = (
        next(_labelled(candidates, sequences, ignored), None)
        or next(_restored(texts, sequences), None)
        or _within(texts, known)
        or (_alone(texts) if len(columns) == len(batches[0]) == 1 else {})
    )
    if not roles:
        return {}
    tokens = candidates[roles["tokens"]]
    beside = {path: arrays for path, arrays in columns.items() if path not in roles.values() and tokens.fits(arrays)}
    if "labels" not in roles:
        labels = next(
            (path for path in beside if path in sequences and tokens.has_labels(sequences[path], known)), None
        )
        roles |= {"labels": labels} if labels is not None else {}
    roles |= _masks({path: arrays for path, arrays in beside.items() if path not in roles.values()}, tokens)
    if "mask" not in roles:  # Models of one's own may see a mask and positions as they like.
        positions = _named(list(beside), NAMES["positions"])
        roles |= {"positions": positions} if positions is not None and positions not in roles.values() else {}
    if "mask" not in roles:
        square = next(
            (path for path in _shared(batches) if tokens.is_seen_in([batch[path] for batch in batches])), None
        )
        roles |= {"mask": square} if square is not None else {}
    roles |= _negatives(
        path for path, arrays in columns.items() if path not in roles.values() and _are_integers(arrays)
    )
    for role in ("labels", "mask"):
        declared = _named(list(batches[0]), [str(contract[role])]) if role in contract else None
        roles |= {role: declared} if declared is not None else {}
    return roles


def _shared(batches: Sequence[Leaves]) -> list[str]:
    """The paths that all batches have."""
    return [path for path in (batches[0] if batches else ()) if all(path in batch for batch in batches)]


def _are_integers(arrays: Sequence[np.ndarray]) -> bool:
    return all(_INTEGERS.fullmatch(part.dtype.name) for array in arrays for part in _parts(array))


def _parts(array: np.ndarray) -> list[np.ndarray]:
    return list(array) if array.dtype == object else [array]


@dataclass(frozen=True, slots=True)
class _Sequence:
    """The rows of one leaf, and where each has its content: without a run of one id at its start or end."""

    arrays: Sequence[np.ndarray]
    rows: Sequence[np.ndarray]
    inside: Sequence[np.ndarray]

    @classmethod
    def of(cls, arrays: Sequence[np.ndarray]) -> _Sequence:
        rows = [row.astype(np.int64) for array in arrays for row in rows_in(array)]
        return cls(arrays, rows, [content_of(row) for row in rows])

    @property
    def may_be_tokens(self) -> bool:
        """Whether there are enough different ids, none negative, in rows that are not sorted."""
        rows = [row for row in self.rows if len(row)]
        if not rows or max(map(len, rows)) < FEWEST_WIDTH or min(int(row.min()) for row in rows) < 0:
            return False
        contents = [row[inside] for row, inside in zip(self.rows, self.inside, strict=True) if inside.any()]
        are_sorted = [bool((np.diff(content) >= 0).all() or (np.diff(content) <= 0).all()) for content in contents]
        distinct = len(np.unique(np.concatenate(contents))) if contents else 0
        return distinct >= FEWEST_LETTERS and 2 * sum(are_sorted) < len(are_sorted)

    @property
    def largest(self) -> int:
        """The largest id."""
        return max(int(row.max()) for row in self.rows if len(row))

    def has_columns(self, special: Collection[int] = ()) -> bool:
        """Whether values depend on their place in the row, as those of a table do: an analysis of variance of ranks.

        Special tokens have places of their own.
        """
        kept = [~np.isin(row, list(special)) & inside for row, inside in zip(self.rows, self.inside, strict=True)]
        every = np.concatenate([row[inside] for row, inside in zip(self.rows, kept, strict=True)])
        places = np.concatenate([np.flatnonzero(inside) for inside in kept])
        ranks = np.unique(every, return_inverse=True)[1].astype(float)
        columns = [ranks[places == place] for place in np.unique(places)]
        columns = [column for column in columns if len(column) > 1 and column.var() > 0]
        if len(columns) < 2:
            return True
        pooled = np.concatenate(columns)
        between = sum(len(column) * (column.mean() - pooled.mean()) ** 2 for column in columns) / (len(columns) - 1)
        return bool(between > BETWEEN_COLUMNS * pooled.var())

    def has_texts(self, batches: Sequence[Leaves]) -> bool:
        """Whether rows are documents of many ids; flat ones only if offsets divide them."""
        return len(np.unique(np.concatenate(self.rows))) >= FEWEST_DISTINCT and all(
            array.ndim > 1 or array.dtype == object or offsets_in(batch.values(), len(array)) is not None
            for array, batch in zip(self.arrays, batches, strict=True)
        )

    def fits(self, arrays: Sequence[np.ndarray]) -> bool:
        """Whether a leaf has the shape of this one in every batch."""
        return all(
            [part.shape for part in _parts(array)] == [part.shape for part in _parts(other)]
            for array, other in zip(arrays, self.arrays, strict=True)
        )

    def is_seen_in(self, arrays: Sequence[np.ndarray]) -> bool:
        """Whether a leaf says of each pair of tokens in a row whether one sees the other."""
        return all(
            array.ndim in (3, 4) and other.ndim == 2 and array.shape[-2:] == (other.shape[1],) * 2
            for array, other in zip(arrays, self.arrays, strict=True)
        )

    def has_labels(self, labels: _Sequence, known: KnownIds | None) -> bool:
        """Whether some integers are negative, as ignored labels are, and all others ids of the vocabulary."""
        every = np.concatenate(labels.rows)
        limit = self.largest + 1 if known is None or known.size is None else known.size
        return bool((every < 0).any() and (every >= 0).any() and every.max() < limit)

    def agrees(self, labels: _Sequence, lag: int, ignored: Collection[int]) -> bool:
        """Whether the labels are the tokens at this distance, nearly all of them."""
        pairs = []
        for row, inside, stored in zip(self.rows, self.inside, labels.rows, strict=True):
            end = max(len(row) - lag, 0)
            counts = inside[:end] & inside[lag:] & (stored[:end] >= 0) & ~np.isin(stored[:end], list(ignored))
            pairs.append((row[lag:][counts], stored[:end][counts]))
        tokens, found = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
        fewest = FEWEST_LETTERS if lag and len(found) >= MANY_COMPARED and _vary(tokens) else FEWEST_DISTINCT
        if len(found) < FEWEST_COMPARED or len(np.unique(found)) < fewest:
            return False
        return bool((tokens == found).mean() >= AGREEING_SHARE)


def _vary(values: np.ndarray) -> bool:
    """Whether values change from each place to the next about as often as they would in any order."""
    shares = np.unique(values, return_counts=True)[1] / max(len(values), 1)
    return bool((values[1:] != values[:-1]).mean() >= 0.5 * (1 - (shares**2).sum()))


def content_of(row: np.ndarray) -> np.ndarray:
    """Where a row has its content: all but a run of one id at its start and one at its end."""
    inside = np.ones(len(row), bool)
    changes = np.flatnonzero(np.diff(row))
    if len(changes):
        inside[: changes[0] + 1] = changes[0] == 0
        inside[changes[-1] + 1 :] = changes[-1] == len(row) - 2
    return inside if len(changes) else ~inside


def _labelled(
    candidates: Mapping[str, _Sequence], sequences: Mapping[str, _Sequence], ignored: Collection[int]
) -> Iterator[dict[str, str]]:
    """Tokens, and labels that are the next tokens, or the tokens themselves."""
    for tokens, sequence in candidates.items():
        others = {path: other for path, other in sequences.items() if path != tokens and sequence.fits(other.arrays)}
        for lag in LAGS:
            for path, labels in others.items():
                if sequence.agrees(labels, lag, ignored):
                    yield {"tokens": tokens, "labels": path}


def _restored(candidates: Mapping[str, _Sequence], sequences: Mapping[str, _Sequence]) -> Iterator[dict[str, str]]:
    """Tokens some of which one id masks, and labels that are what was there; those of others are one value or ids."""
    for tokens, sequence in candidates.items():
        for path, labels in sequences.items():
            if path == tokens or not sequence.fits(labels.arrays):
                continue
            ids, stored = np.concatenate(sequence.rows), np.concatenate(labels.rows)
            fill = Counter(stored.tolist()).most_common(1)[0][0]
            if any(_restores(ids, stored, where) for where in (stored != fill, stored != ids)):
                yield {"tokens": tokens, "labels": path}


def _restores(ids: np.ndarray, stored: np.ndarray, where: np.ndarray) -> bool:
    """Whether most tokens `where` labels are something else are one id, which stands nowhere else."""
    hidden, learned = ids[where], stored[where]
    if len(hidden) < FEWEST_COMPARED or len(np.unique(learned)) < FEWEST_DISTINCT:
        return False
    mask, count = Counter(hidden.tolist()).most_common(1)[0]
    elsewhere = int((ids[~where] == mask).sum())  # The label of a masked item may be the value of all others.
    return bool(count >= max(MASKED_SHARE * len(hidden), elsewhere / RARE_SHARE) and mask not in learned)


def _alone(candidates: Mapping[str, _Sequence]) -> dict[str, str]:
    """The only leaf of a batch, if its ids have frequencies as those of words, and do not depend on the column."""
    for path, leaf in candidates.items():
        counts = np.sort(np.unique(np.concatenate(leaf.rows), return_counts=True)[1])
        unequal = len(counts) >= FEWEST_COMPARED and counts[-1] >= UNEQUAL * counts[len(counts) // 2]
        if unequal and not leaf.has_columns():
            return {"tokens": path}
    return {}


def _within(candidates: Mapping[str, _Sequence], known: KnownIds | None) -> dict[str, str]:
    """The leaf whose ids a vocabulary has, and whose rows its special tokens begin, end or divide, most of all."""
    if known is None:
        return {}
    special = known.special | {token & _UINT16 for token in known.special if (known.size or 0) > _UINT16}  # as stored
    fitting = {
        path: leaf
        for path, leaf in candidates.items()
        if (known.size is None or leaf.largest < known.size) and not leaf.has_columns(special)
    }
    shares = {path: _placed(leaf.rows, special) for path, leaf in fitting.items()}
    best = max(shares, key=lambda path: shares[path], default=None)
    return {"tokens": best} if best is not None and max(shares[best]) >= PLACED_SHARE else {}


def _placed(rows: Sequence[np.ndarray], special: Collection[int]) -> tuple[float, float]:
    """The share of rows that begin or end in a special token, and of those that have one anywhere.

    The latter is 0 if none is `FREQUENT` times as frequent as ids are on average: codes of images have all ids.
    """
    rows = [row for row in rows if len(row)]
    ids, counts = np.unique(np.concatenate(rows), return_counts=True)
    frequent = ids[np.isin(ids, list(special)) & (counts >= FREQUENT * counts.mean())]
    ends = [bool(np.isin(row[[0, -1]], list(special)).any()) for row in rows]
    return float(np.mean(ends)), float(np.mean([bool(np.isin(row, frequent).any()) for row in rows]))


def _masks(beside: Mapping[str, Sequence[np.ndarray]], tokens: _Sequence) -> dict[str, str]:
    """The leaves of 0 and 1 that say which tokens are seen, or which labels count.

    One that hides just the padding may be meant for both, unless another one is for the loss: only its name says that
    it is for attention alone.
    """
    roles: dict[str, str] = {}
    both = None
    for path, arrays in beside.items():
        rows = [row for array in arrays for row in rows_in(array)]
        if not all(bool(np.isin(row, (0, 1)).all()) for row in rows):
            continue
        key = key_of(path)
        if _LOSS_MASK.search(key):
            roles.setdefault("loss mask", path)
        elif _hides_padding([row != 0 for row in rows], tokens):
            roles.setdefault("mask", path)
            both = path if both is None and not _ATTENTION_KEY.search(key) else both
        elif _hides_padding([row == 0 for row in rows], tokens):
            roles.setdefault("padding", path)
        elif _LOSS_MASK_KEY.search(key) and all(bool(row.any()) for row in rows):
            roles.setdefault("loss mask", path)
    return roles if both is None else {"loss mask": both} | roles


def is_for_loss(path: str, array: np.ndarray) -> bool:
    """Whether a mask is one of the loss by its name or type; integers without a name may be kinds of sentences."""
    return _LOSS_MASK.search(key_of(path)) is not None or all(part.dtype.kind in "fb" for part in _parts(array))


def _hides_padding(shown: Sequence[np.ndarray], tokens: _Sequence) -> bool:
    """Whether a mask hides only one id, at the starts or ends of rows, or nothing."""
    hidden = [row[~seen] for row, seen in zip(tokens.rows, shown, strict=True)]
    in_one_piece = all(np.count_nonzero(np.diff(seen)) <= 1 for seen in shown)
    return in_one_piece and len({int(token) for row in hidden for token in np.unique(row)}) <= 1
