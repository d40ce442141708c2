"""Batches of tokens, read in several draws; see `Lab.tokens`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from dataguard.lab.core.index_schedules import Spread, in_use
from dataguard.lab.core.records import key_of
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.spy.drive import announce_epoch
from dataguard.lab.subject import Subject
from dataguard.lab.tokens.label_facts import EmptyRows, PaddingLabels, Stops, empty_rows, padding_labels, stops
from dataguard.lab.tokens.label_shift import LabelShift, find_shift, is_for_causal_model
from dataguard.lab.tokens.narrow_storage import NarrowStorage, narrow_storage
from dataguard.lab.tokens.roles import group_of, roles_of
from dataguard.lab.tokens.token_facts import Ids, ImageTokens, Packs, Starts, ids, image_tokens, packs, starts
from dataguard.lab.tokens.token_rows import IGNORED, TokenRow, lag_of, rows_of, targets_of
from dataguard.lab.tokens.tokenizers import Vocabulary, tokenizers_in, vocabulary_of, word_of
from dataguard.model import NotApplicable
from dataguard.targets.variants import Loader

DRAWS = 2
"""How often the same batches are read: labels may be drawn at random."""
ROWS, FEW = 128, 32
"""How many samples are read in each draw; few of them if samples are slow."""
TOKENS = 1 << 20
"""After so many tokens a draw ends."""


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
        samples = subject.sparing(ROWS, FEW, DRAWS)
        collated = samples // max(batches[0].size, 1) * max(batch.collate_seconds for batch in batches)
        subject.afford("tokens", DRAWS * (samples * cost + collated))
        limit, group = epoch.limit, group_of(names["tokens"])
        keys = frozenset(key_of(path) for path in paths if group_of(path) == group)
        reads: TokenReads | None = subject.vary(
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
    draws = [_draw(loader, number, contract, most, samples) for number in range(DRAWS)]
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
            if len(rows) >= samples or sum(row.tokens.size for row in rows) > TOKENS:
                break
    return rows
