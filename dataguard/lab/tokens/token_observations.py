"""Batches of tokens, read in several draws: `lab.tokens`.

Besides the facts of rows (`token_facts`), labels are compared with the tokens at and after their positions
(`find_shift`), and the arrays that tokens are read from with the size of the vocabulary (`narrow_storage`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from dataguard.core.model import NotApplicable
from dataguard.lab.core.index_schedules import Spread, in_use
from dataguard.lab.core.object_graph import reachable
from dataguard.lab.core.records import key_of
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.spy.drive import announce_epoch
from dataguard.lab.subject import Subject
from dataguard.lab.tokens.token_facts import (
    EmptyRows,
    Ids,
    ImageTokens,
    Packs,
    PaddingLabels,
    Starts,
    Stops,
    empty_rows,
    ids,
    image_tokens,
    packs,
    padding_labels,
    starts,
    stops,
)
from dataguard.lab.tokens.token_rows import (
    IGNORED,
    TokenRow,
    Vocabulary,
    group_of,
    lag_of,
    roles_of,
    rows_of,
    targets_of,
    tokenizers_in,
    vocabulary_of,
    word_of,
)
from dataguard.targets.variants import Loader

TOKEN_DRAWS = 2
"""How often the same batches are read: labels may be drawn at random, and then differ between two draws."""
MOST_SAMPLES, FEW_SAMPLES = 128, 32
"""How many samples are read in each draw; few of them if samples are slow: more show rarer rows, and take longer."""
MOST_TOKENS = 1 << 20
"""After so many tokens a draw ends: a limit of memory, as all rows are kept."""


@dataclass(frozen=True, slots=True)
class TokenReads:
    """What batches of tokens hold. `names` are the paths of their leaves by role.

    `rows`, `tokens` that the model sees and `labelled` ones count the first draw. `lag` is how far labels are shifted;
    None if they are no tokens of their rows. `model_keys`: the batch has just arguments of models that shift labels.
    """

    names: Mapping[str, str]
    rows: int
    tokens: int
    labelled: int
    lag: int | None
    model_keys: bool
    vocabulary: Vocabulary
    padding: PaddingLabels | None
    stops: Stops | None
    empty: EmptyRows | None
    starts: Starts | None
    packs: Packs | None
    images: ImageTokens | None
    ids: Ids
    narrow: NarrowStorage | None
    shift: LabelShift | None

    @property
    def exercised(self) -> dict[str, int]:
        """How much was read."""
        counts = {"rows": self.rows, "tokens": self.tokens, "labelled tokens": self.labelled}
        return counts if "labels" in self.names else {name: counts[name] for name in ("rows", "tokens")}


class Tokens:
    """The tokens in the batches of a loader; the observation is made once, as in `Lab`."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def read(self) -> TokenReads:
        """Rows of real batches. Raises NotApplicable if no batch has tokens."""
        subject = self._subject
        epoch = subject.epoch
        batches = [batch for batch in epoch.batches if batch.incident is None]
        contract = subject.settings.contract
        paths = [leaf.path for leaf in batches[0].leaves] if batches else []
        names = roles_of(paths, contract)
        if not names:
            raise NotApplicable("no batch has the key input_ids: name your tokens in the contract")
        cost = epoch.seconds_per_sample
        samples = subject.affordable_reads(MOST_SAMPLES, FEW_SAMPLES, TOKEN_DRAWS)
        collated = samples // max(batches[0].size, 1) * max(batch.collate_seconds for batch in batches)
        subject.afford("tokens", TOKEN_DRAWS * (samples * cost + collated))
        limit, group = epoch.limit, group_of(names["tokens"])
        keys = frozenset(key_of(path) for path in paths if group_of(path) == group)
        reads: TokenReads | None = subject.observe(
            "tokens", lambda _: read_tokens(subject.build, contract, names, keys, samples, limit)
        )
        if reads is None:
            raise NotApplicable("the tokens of a batch are no integers in rows")
        return reads


def read_tokens(
    build: Callable[..., Loader],
    contract: Mapping[str, Any],
    names: Mapping[str, str],
    keys: frozenset[str],
    samples: int,
    limit: int | None,
) -> TokenReads | None:
    """Read the same batches repeatedly, without workers; None if their tokens have no rows."""
    spreads: list[Spread] = []

    def schedule(inner: Any, batched: bool) -> Spread:
        spreads.append(Spread(inner, samples, limit, samples, batched=batched))
        return spreads[-1]

    loader = build(schedule=schedule, num_workers=0)
    most = None if in_use(spreads, loader) else max(2, -(-samples // (loader.batch_size or 1)))
    draws = [_draw(loader, number, contract, most, samples) for number in range(TOKEN_DRAWS)]
    rows = draws[0]
    if not rows:
        return None
    nodes = tokenizers_in({"dataset": loader.dataset, "collate_fn": loader.collate_fn, "sampler": loader.sampler})
    return facts_of(draws, names, keys, vocabulary_of(nodes, contract), word_of(nodes), contract, loader)


def facts_of(
    draws: list[list[TokenRow]],
    names: Mapping[str, str],
    keys: frozenset[str],
    vocabulary: Vocabulary,
    word: Callable[[int], str] | None,
    contract: Mapping[str, Any],
    loader: Any = None,
) -> TokenReads:
    """What the rows of some draws hold."""
    lag = lag_of([row for rows in draws for row in rows])
    draws = [[replace(row, targets=targets_of(row, lag)) for row in rows] for rows in draws]
    rows = draws[0]
    used = [row.targets[1:] if row.targets is not None else row.labels for row in rows]
    stop = vocabulary.eos if contract.get("packing") == "separate" else None
    model_keys = is_for_causal_model(keys, for_models=vocabulary.for_models)
    return TokenReads(
        names,
        len(rows),
        sum(int(row.inside.sum()) for row in rows),
        sum(int((labels != IGNORED).sum()) for labels in used if labels is not None),
        lag,
        model_keys,
        vocabulary,
        padding_labels(rows, vocabulary, word, for_models=model_keys),
        stops(rows, vocabulary, word),
        empty_rows(draws, word),
        starts(rows, vocabulary, word),
        packs(rows, stop, word),
        image_tokens(rows, word),
        ids(rows, vocabulary.size, word),
        narrow_storage(loader, rows, vocabulary.size) if loader is not None else None,
        find_shift(rows),
    )


def _draw(loader: Loader, number: int, contract: Mapping[str, Any], most: int | None, samples: int) -> list[TokenRow]:
    """The rows of one epoch, or of its first batches."""
    announce_epoch(loader, number)
    rows: list[TokenRow] = []
    with gate("iterate"):
        for batch_number, batch in enumerate(islice(loader, most)):
            rows += rows_of(batch, batch_number, contract)
            if len(rows) >= samples or sum(row.tokens.size for row in rows) > MOST_TOKENS:
                break
    return rows


MOST_ENTRIES = 1 << 26
"""The first so many entries of an array are searched for tokens of a batch: a limit of time, of 128 MiB from a disk."""
_ID_LIMITS = {"uint16": 1 << 16, "int16": 1 << 15}
"""How many ids an array of each dtype can hold."""
_WINDOW_TOKENS, _SEARCHED_ROWS = 8, 4
"""The tokens in a row that are searched, of so many rows: text of thousands of words repeats eight of them by chance in
no four places."""


@dataclass(frozen=True, slots=True)
class NarrowStorage:
    """An array that tokens are read from: its path, dtype, and how many different ids that holds."""

    where: str
    dtype: str
    ids: int


def narrow_storage(loader: Any, rows: Sequence[TokenRow], size: int | None) -> NarrowStorage | None:
    """The array of the dataset that holds the tokens of rows, if it has too few bits for a vocabulary of this size."""
    if size is None or size <= min(_ID_LIMITS.values()):
        return None
    long = [row.tokens for row in rows if len(row.tokens) >= 2 * _WINDOW_TOKENS]
    windows = [tokens[len(tokens) // 2 :][:_WINDOW_TOKENS] for tokens in long[:_SEARCHED_ROWS]]
    for node in reachable({"dataset": loader.dataset}, _is_narrow):
        limit = _ID_LIMITS[node.value.dtype.name]
        if size > limit and windows and all(_holds(node.value, window) for window in windows):
            return NarrowStorage(node.path, node.value.dtype.name, limit)
    return None


def _is_narrow(value: Any) -> bool:
    return issubclass(type(value), np.ndarray) and value.ndim == 1 and value.dtype.name in _ID_LIMITS


def _holds(array: np.ndarray, window: np.ndarray) -> bool:
    part = np.asarray(array[:MOST_ENTRIES])
    starts = np.flatnonzero(part[: len(part) - len(window) + 1] == window[0])
    for offset in range(1, len(window)):
        starts = starts[part[starts + offset] == window[offset]]
    return len(starts) > 0


MARKS = frozenset({"attention_mask", "position_ids"})
"""Keys that tell the batch of a model of transformers from one of tokens and labels alone."""
CAUSAL = MARKS | {"input_ids", "labels", "token_type_ids", "inputs_embeds", "num_items_in_batch", "logits_to_keep"}
"""The arguments of such models that shift labels; others take a mask for the loss, or tokens of a decoder."""


@dataclass(frozen=True, slots=True)
class LabelShift:
    """How many labels of batches were compared, and how many are the token `after` theirs, or the one `at` theirs.

    `tokens` counts the different ones among them.
    """

    compared: int
    after: int
    at: int
    tokens: int


def find_shift(rows: Sequence[TokenRow]) -> LabelShift | None:
    """Compare the labels of rows with their tokens; padding, and what counts for no loss, is left out."""
    pairs = [(row, row.labels) for row in rows if row.labels is not None and row.labels.shape == row.tokens.shape]
    if not pairs:
        return None
    labelled, after, at = [], 0, 0
    for row, labels in pairs:
        counts = (labels[:-1] != IGNORED) & row.inside[1:] & row.inside[:-1]
        kept = labels[:-1][counts]
        labelled.append(kept)
        after += int((kept == row.tokens[1:][counts]).sum())
        at += int((kept == row.tokens[:-1][counts]).sum())
    every = np.concatenate(labelled)
    return LabelShift(len(every), after, at, len(np.unique(every)))


def is_for_causal_model(keys: Collection[str], *, for_models: bool) -> bool:
    """Whether a batch has just the arguments of models that shift labels.

    Without a mask or positions they are, if they are made `for_models` of a library that the user's code has loaded.
    """
    return {"input_ids", "labels"} <= set(keys) <= CAUSAL and (bool(MARKS & set(keys)) or for_models)
