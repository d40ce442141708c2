"""Batches of tokens, read in several draws: `lab.tokens`.

Besides the facts of rows (`token_facts` and `token_contents`), labels are compared with the tokens at and after their
positions (`find_shift`), and the arrays that tokens are read from with the size of the vocabulary (`narrow_storage`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any

import numpy as np
from torch.utils.data import IterableDataset

from dataguard.core.incident import observed_or_none
from dataguard.core.leaf_paths import key_of
from dataguard.core.model import NotApplicable, NotTested, Undecided
from dataguard.lab.core.index_schedules import spread_over
from dataguard.lab.core.object_graph import reachable
from dataguard.lab.core.records import Index, members, plain_index
from dataguard.lab.culprit.line_trace import Look, Traced, placed
from dataguard.lab.culprit.value_trace import BatchHistory, line_of_array
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.followed_batch import follow_batch
from dataguard.lab.spy.drive import announce_epoch
from dataguard.lab.subject import Subject
from dataguard.lab.tokens.answer_pairs import SIDES, AnswerPairs, Pair, answer_pairs, pairs_in
from dataguard.lab.tokens.conversations import LearnedTurns, chat_of, ignores_within, learned_turns
from dataguard.lab.tokens.loss_masks import with_implied_labels
from dataguard.lab.tokens.masked_tokens import Masking, masking
from dataguard.lab.tokens.token_contents import (
    Ids,
    ImageTokens,
    Packs,
    Starts,
    ids,
    image_tokens,
    packs,
    starts,
)
from dataguard.lab.tokens.token_facts import (
    EmptyRows,
    PaddingLabels,
    ReplyEnd,
    Spot,
    Stops,
    empty_rows,
    padding_labels,
    reply_end,
    spot_in,
    stops,
    without_padding,
)
from dataguard.lab.tokens.token_roles import (
    Leaves,
    content_of,
    group_of,
    leaves_in,
    may_be_tokens,
    other_side,
    roles_by_content,
    roles_of,
)
from dataguard.lab.tokens.token_rows import (
    IGNORED,
    TokenRow,
    Vocabulary,
    ignored_of,
    lag_of,
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
NO_TOKENS = "no batch has the key input_ids, or integers that are known as tokens: name your tokens in the contract"


@dataclass(frozen=True, slots=True)
class TokenReads:
    """What batches of tokens hold. `names` are the paths of their leaves by role.

    `rows`, `tokens` that the model sees and `labelled` ones count the first draw; `batches` are the indices of its
    batches, unless it is a stream. `lag` is how far labels are shifted;
    None if they are no tokens of their rows. `model_keys`: the batch has just arguments of models that shift labels.
    `ignores_within`: tokens between others have no label, as prompts have none. `by_content`: names and contract do not
    say which leaf holds the tokens. `implied`: the labels are the tokens where a mask of the loss is 1.
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
    turns: LearnedTurns | None = None
    pairs: AnswerPairs | None = None
    masking: Masking | None = None
    ignores_within: bool = False
    implied: bool = False
    reply_end: ReplyEnd | None = None
    by_content: bool = False
    batches: tuple[tuple[Index, ...], ...] = ()

    @property
    def unlearned(self) -> str:
        """What marks a token in the leaf of labels that is not learned."""
        return "0" if self.implied else str(IGNORED)

    @property
    def note(self) -> str | None:
        """Which leaf was taken for what, if neither names nor the contract say so."""
        taken = ", ".join(f"batch{path} as {role}" for role, path in self.names.items())
        return f"taken by content: {taken}; the contract can name others" if self.by_content else None

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
        leaves = batches[0].leaves if batches else ()
        paths = [leaf.path for leaf in leaves]
        names = roles_of(paths, contract)
        if not names and not any(may_be_tokens(leaf, batches[0].size) for leaf in leaves):
            raise NotApplicable(NO_TOKENS)
        cost = epoch.seconds_per_sample
        samples = subject.affordable_reads(MOST_SAMPLES, FEW_SAMPLES, TOKEN_DRAWS)
        if not names and not subject.reads_take_little(TOKEN_DRAWS * samples):
            raise NotTested("reading batches to find out which leaf holds tokens takes long: name it in the contract")
        collated = [batch.collate_seconds for batch in batches]  # the first may import: nested tensors take seconds
        collating = max(collated) + TOKEN_DRAWS * samples / max(batches[0].size, 1) * median(collated)
        subject.afford("tokens", TOKEN_DRAWS * samples * cost + collating)
        limit, group = epoch.limit, group_of(names["tokens"]) if names else None
        keys = frozenset(key_of(path) for path in paths if group_of(path) == group)

        def read(vocabulary: Vocabulary | None) -> TokenReads | None:
            return subject.observe(
                ("tokens", vocabulary),
                lambda _: read_tokens(subject.build, contract, names, keys, samples, limit, vocabulary),
            )

        reads = read(None)
        if reads is None or (reads.vocabulary.where is None and reads.vocabulary.size is None):
            borrowed = self._vocabulary_of_others()
            reads = read(borrowed) if borrowed is not None else reads
        if reads is None:
            raise NotApplicable("the tokens of a batch are no integers in rows" if names else NO_TOKENS)
        return reads

    def line(self, spot: Spot | None, names: Mapping[str, str] | None = None) -> Traced | None:
        """The line of the user's code after which a row is as this spot shows it; `names` are of other leaves."""
        if spot is None:
            return None
        read = self.read
        path = (names or read.names)[spot.role]
        late = read.lag or 0 if spot.role == "labels" else 0
        places = None if spot.places is None else [place - late for place in spot.places]
        return self._line(spot, lambda history: history.line_of_leaf(path, spot.row, places), path)

    def line_of_tokens(self, place: tuple[int, int]) -> Traced | None:
        """The line that cuts the tokens of this row of a batch, or else makes them."""
        spot, path = Spot("tokens", *place), self.read.names["tokens"]
        return self._line(
            spot, lambda history: history.line_of_cut(path, spot.row) or history.line_of_leaf(path, spot.row)
        )

    def line_of_empty(self, place: tuple[int, int]) -> Traced | None:
        """The line after which a row has no label: that which cuts its tokens, if they are cut."""
        spot, names = Spot("labels", *place), self.read.names

        def find(history: BatchHistory) -> Look | None:
            cut = history.line_of_cut(names["tokens"], spot.row)
            return cut or history.line_of_leaf(names["labels"], spot.row, places=())

        return self._line(spot, find)

    def line_of_storage(self, where: str, dtype: str) -> Traced | None:
        """The line of the factory after which an array is stored in this dtype."""
        subject = self._subject
        again = subject.quick_rebuild
        if again is None:
            raise Undecided("the factory takes too long to be followed line by line")
        return subject.observe(("storage", where), lambda _: placed(line_of_array(again, where, dtype), None, None))

    def _line(self, spot: Spot, find: Callable[[BatchHistory], Look | None], path: str = "") -> Traced | None:
        read, subject = self.read, self._subject
        size = max((batch.size for batch in subject.epoch.batches), default=1)
        indices = read.batches[spot.batch] if read.batches else (None,) * size
        skip = 0 if read.batches else spot.batch * size
        follow = partial(follow_batch, skip=skip)
        return subject.line_in_batch(("tokens", spot, path), indices, find, follow, num_workers=0)

    def _vocabulary_of_others(self) -> Vocabulary | None:
        """The vocabulary of a tokenizer that another loader of the target holds: an evaluation decodes what it gets."""
        contract = self._subject.settings.contract
        for sibling in self._subject.siblings.values():
            if sibling is self._subject:
                continue
            held = partial(_held_vocabulary, sibling.build, contract)
            vocabulary: Vocabulary | None = observed_or_none(partial(sibling.observe, "vocabulary", held))
            if vocabulary is not None and vocabulary.where is not None:
                return replace(vocabulary, where=f"{vocabulary.where} of the loader {sibling.facts.name}")
        return None


def _held_vocabulary(build: Callable[..., Loader], contract: Mapping[str, Any], _: Path) -> Vocabulary:
    """The vocabulary of the tokenizers that a loader holds."""
    return vocabulary_of(tokenizers_in(roots_of(build(num_workers=0))), contract)


def roots_of(loader: Any) -> dict[str, Any]:
    """The parts of a loader that may hold tokenizers."""
    return {"dataset": loader.dataset, "collate_fn": loader.collate_fn, "sampler": loader.sampler}


def read_tokens(
    build: Callable[..., Loader],
    contract: Mapping[str, Any],
    names: Mapping[str, str],
    keys: frozenset[str],
    samples: int,
    limit: int | None,
    borrowed: Vocabulary | None = None,
) -> TokenReads | None:
    """Read the same batches repeatedly, without workers; None if their tokens have no rows.

    If their leaves have no `names`, those are used that the first `FEW_SAMPLES` samples show. The vocabulary is that of
    tokenizers that the loader holds, or a `borrowed` one.
    """
    loader, spread = spread_over(build, samples, limit, samples, num_workers=0)
    roots = roots_of(loader)
    most = None if spread else max(2, -(-samples // (loader.batch_size or 1)))
    roles, others = dict(names), dict[str, str]()

    def decide(first: Sequence[Leaves]) -> Mapping[str, str]:
        if not roles:
            known = (borrowed or vocabulary_of(tokenizers_in(roots), contract)).known
            roles.update(roles_by_content(first, known, contract, ignored_of(contract)))
        others.update(other_side(list(first[0]), roles) if roles and first else {})
        return roles

    pairs: dict[str, list[Pair]] = {}
    draws = [_draw(loader, number, contract, decide, most, samples, pairs) for number in range(TOKEN_DRAWS)]
    rows = draws[0]
    if not rows:
        return None
    nodes = tokenizers_in(roots)
    vocabulary = borrowed or vocabulary_of(nodes, contract)
    largest = max(int(row.tokens.max(initial=0)) for row in rows)
    if (borrowed or not names) and vocabulary.size is not None and largest >= vocabulary.size:
        nodes = []  # A tokenizer for something else.
        vocabulary = vocabulary_of(nodes, contract)
    vocabulary = replace(vocabulary, chat=chat_of(nodes))
    word = word_of(nodes)
    reads = facts_of(draws, roles, keys, vocabulary, word, contract, loader, pairs)
    padding = _worse_padding(reads, [other for _, other in pairs.get(SIDES, ())], others, word) if others else None
    reads = replace(reads, padding=padding) if padding is not None else reads
    count = 1 + max(row.batch for row in rows)
    plan = islice(spread, count) if spread and not isinstance(loader.dataset, IterableDataset) else ()
    batches = tuple(tuple(map(plain_index, members(batch))) for batch in plan)
    return replace(reads, by_content=not names, batches=batches)


def _worse_padding(
    reads: TokenReads, rows: Sequence[TokenRow], names: Mapping[str, str], word: Callable[[int], str] | None
) -> PaddingLabels | None:
    """The labels of the padding of the other answers of pairs, if all of it has some and that of the first has not."""
    first, own = reads.padding, [replace(row, targets=targets_of(row, reads.lag)) for row in rows]
    found = padding_labels(own, reads.vocabulary, word, for_models=reads.model_keys)
    if found is None or found.labelled < found.rows or (first is not None and first.labelled == first.rows):
        return None
    return replace(found, names=names)


def facts_of(
    draws: list[list[TokenRow]],
    names: Mapping[str, str],
    keys: frozenset[str],
    vocabulary: Vocabulary,
    word: Callable[[int], str] | None,
    contract: Mapping[str, Any],
    loader: Any = None,
    pairs: Mapping[str, Sequence[Pair]] = MappingProxyType({}),
) -> TokenReads:
    """What the rows of some draws hold."""
    implied = with_implied_labels(draws) if "labels" not in names else None
    if implied is not None:
        draws, names = implied, {**names, "labels": names["loss mask"]}
    masked = masking(draws, vocabulary, word)
    # Labels of masks say neither which tokens are learned, nor which rows of two draws are the same.
    restores_none = masked is not None and masked.unrestored > 0
    lag = None if restores_none else lag_of([row for rows in draws for row in rows])
    draws = [[replace(row, targets=targets_of(row, lag)) for row in rows] for rows in draws]
    rows = draws[0]
    used = [row.targets[1:] if row.targets is not None else row.labels for row in rows]
    ignores = any(row.stored is not None and bool((row.stored == IGNORED).any()) for row in rows)
    model_keys = is_for_causal_model(keys, for_models=vocabulary.for_models, ignores=ignores)
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
        None if restores_none else empty_rows(draws, word),
        starts(rows, vocabulary, word),
        packs(rows, vocabulary, word),
        image_tokens(without_padding(rows, vocabulary.pad), word),
        ids(rows, vocabulary, word),
        narrow_storage(loader, rows, vocabulary.size) if loader is not None else None,
        find_shift(rows) if implied is None else None,
        learned_turns(rows, vocabulary.chat, word),
        answer_pairs(pairs, names["tokens"], lag, vocabulary.pad, word),
        masked,
        any(ignores_within(row) for row in rows if row.targets is not None),
        implied=implied is not None,
        reply_end=reply_end(rows, vocabulary, word),
    )


def _draw(
    loader: Loader,
    number: int,
    contract: Mapping[str, Any],
    decide: Callable[[Sequence[Leaves]], Mapping[str, str]],
    most: int | None,
    samples: int,
    pairs: dict[str, list[Pair]],
) -> list[TokenRow]:
    """The rows of one epoch, or of its first batches, some of which `decide` the roles of leaves.

    The pairs of answers of the first epoch are added to `pairs`.
    """
    announce_epoch(loader, number)
    rows: list[TokenRow] = []
    with gate("iterate"):
        batches = map(leaves_in, islice(loader, most))
        # Copied, because a collate_fn may fill the same memory again.
        first = [
            {path: array.copy() for path, array in leaves.items()}
            for leaves in islice(batches, max(1, FEW_SAMPLES // (loader.batch_size or 1)))
        ]
        roles = decide(first)
        for batch_number, leaves in enumerate(chain(first, batches) if roles else ()):
            in_batch = rows_of(leaves, batch_number, contract, roles)
            rows += in_batch
            if not number and in_batch:
                for kind, found in pairs_in(leaves, batch_number, contract, roles, in_batch, loader.batch_size).items():
                    pairs.setdefault(kind, []).extend(found)
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
_DOCUMENT_TOKENS = 1 << 14
"""Arrays of so many tokens may be single documents, one for each row: the tokens of all rows are searched in them."""


@dataclass(frozen=True, slots=True)
class NarrowStorage:
    """An array that tokens are read from: its path, dtype, and how many different ids that holds."""

    where: str
    dtype: str
    ids: int


def narrow_storage(loader: Any, rows: Sequence[TokenRow], size: int | None) -> NarrowStorage | None:
    """The array of the dataset that holds the tokens of rows, if it has too few bits for a vocabulary of this size.

    An array of a single document holds those of one row, others hold all that are searched.
    """
    if size is None or size <= min(_ID_LIMITS.values()):
        return None
    long = [row.tokens for row in rows if len(row.tokens) >= 2 * _WINDOW_TOKENS]
    windows = [tokens[len(tokens) // 2 :][:_WINDOW_TOKENS] for tokens in long]
    windows = [window for window in windows if len(np.unique(window)) > _WINDOW_TOKENS // 2]
    for node in reachable({"dataset": loader.dataset}, _is_narrow):
        array = node.value
        limit = _ID_LIMITS[array.dtype.name]
        if size <= limit or not windows:
            continue
        if (
            any(_holds(array, window) for window in windows)
            if len(array) <= _DOCUMENT_TOKENS
            else all(_holds(array, window) for window in windows[:_SEARCHED_ROWS])
        ):
            return NarrowStorage(node.path, array.dtype.name, limit)
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
_OTHER_MODALITY = re.compile(
    r"pixel_|images?($|_)|videos?($|_)|audios?($|_)|input_features$|feature_attention|mm_token"
)
"""Arguments of such models that see images or hear sounds."""


@dataclass(frozen=True, slots=True)
class LabelShift:
    """How many labels of batches were compared, and how many are the token `after` theirs, or the one `at` theirs.

    `beyond`: the token two after theirs. `tokens` counts the different ones among them; `spot` is the first row, with
    the tokens after its labels.
    """

    compared: int
    after: int
    at: int
    tokens: int
    beyond: int = 0
    spot: Spot | None = field(default=None, compare=False)


def find_shift(rows: Sequence[TokenRow]) -> LabelShift | None:
    """Compare the labels of rows with their tokens; padding, and what counts for no loss, is left out."""
    pairs = [(row, row.labels) for row in rows if row.labels is not None and row.labels.shape == row.tokens.shape]
    if not pairs:
        return None
    labelled, after, at, beyond = [], 0, 0, 0
    for row, labels in pairs:
        counts = _counting(row, labels)
        kept = labels[:-1][counts]
        labelled.append(kept)
        after += int((kept == row.tokens[1:][counts]).sum())
        at += int((kept == row.tokens[:-1][counts]).sum())
        beyond += int((kept[: int(counts[:-1].sum())] == row.tokens[2:][counts[:-1]]).sum())
    every = np.concatenate(labelled)
    row, labels = pairs[0]
    spot = spot_in("labels", row, 1 + np.flatnonzero(_counting(row, labels)))
    return LabelShift(len(every), after, at, len(np.unique(every)), beyond, spot)


def _counting(row: TokenRow, labels: np.ndarray) -> np.ndarray:
    """Which labels, but for the last, have a token that is seen and one after it, neither of them padding."""
    seen = row.inside & content_of(row.tokens)
    return np.asarray((labels[:-1] != IGNORED) & seen[1:] & seen[:-1])


def is_for_causal_model(keys: Collection[str], *, for_models: bool, ignores: bool = False) -> bool:
    """Whether a batch has just the arguments of models that shift labels.

    Without a mask or positions they are, if they are made `for_models` of a library that the user's code has loaded.
    The batch may hold images and sounds, too, if some label is ignored (`ignores`), as these models do.
    """
    text = {key for key in keys if not (ignores and _OTHER_MODALITY.match(key))}
    return {"input_ids", "labels"} <= text <= CAUSAL and (bool(MARKS & text) or for_models)
