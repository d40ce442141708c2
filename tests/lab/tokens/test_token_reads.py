"""What is read of batches of tokens, each of them with one thing that decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dataguard.lab.tokens.token_observations import TokenReads, facts_of
from dataguard.lab.tokens.token_roles import leaves_in
from dataguard.lab.tokens.token_rows import Vocabulary, rows_of

END, LONG = 2, 40
WORDS = Vocabulary(bos=1, eos=END, pad=0, size=100)


def tokens(rows: int = 12, width: int = LONG) -> Tensor:
    numbers = np.random.default_rng(3).integers(8, 98, (rows, width))
    return torch.from_numpy(numbers)


def read(*draws: Any, vocabulary: Vocabulary = WORDS, contract: dict[str, Any] | None = None) -> TokenReads:
    names = {"tokens": "['input_ids']", "labels": "['labels']"}
    rows = [rows_of(leaves_in(batch), 0, contract or {}) for batch in (draws if len(draws) > 1 else draws * 2)]
    return facts_of(rows, names, frozenset(names), vocabulary, None, contract or {})


def padded(ids: Tensor, content: int) -> tuple[Tensor, Tensor]:
    mask = (torch.arange(ids.shape[1]) < content).long().expand_as(ids)
    return ids * mask, mask


@pytest.mark.parametrize(
    ("places", "found"),
    [((0, 1), True), ((0, 1, 20, 21), True), ((0, 1, 20), False), ((0, 1, 2), False), ((0,), False)],
)
def test_a_start_token_is_guessed_where_it_stands_in_twos_only(places: tuple[int, ...], found: bool) -> None:
    ids = tokens()
    ids[:, list(places)] = 5
    seen = read({"input_ids": ids}, vocabulary=Vocabulary(size=100)).starts
    assert (seen is not None) == found
    assert seen is None or (seen.token, seen.rows, seen.twice, seen.guessed) == (5, 12, 12, True)


class TestLabels:
    def test_the_lag_is_that_of_nearly_all_labels(self) -> None:
        ids = tokens()
        following = torch.cat([ids[:, 1:], ids[:, :1]], 1)
        assert read({"input_ids": ids, "labels": ids}).lag == 0
        assert read({"input_ids": ids, "labels": following}).lag == 1
        assert read({"input_ids": ids, "labels": ids % 5}).lag is None
        assert read({"input_ids": ids}).labelled == 0

    def test_a_shift_within_documents_ends_in_a_label_of_their_own(self) -> None:
        ids = tokens()
        places = torch.arange(10).repeat(4).expand_as(ids)
        labels = torch.cat([ids[:, 1:], ids[:, :1]], 1)
        labels[:, 9::10] = END
        seen = read({"input_ids": ids, "position_ids": places, "labels": labels})
        assert seen.lag == 1
        assert seen.packs is not None
        assert (seen.packs.restarts, seen.packs.labelled) == (36, 0)

    @pytest.mark.parametrize("pad", [0, None])
    @pytest.mark.parametrize("at_start", [False, True])
    def test_padding_without_a_mask_is_a_run_of_one_id(self, at_start: bool, pad: int | None) -> None:
        ids = tokens() * (torch.arange(LONG) < 30 + torch.arange(12)[:, None] % 5)
        ids = ids.flip(1) if at_start else ids
        seen = read({"input_ids": ids, "labels": ids}, vocabulary=replace(WORDS, pad=pad)).padding
        assert seen is not None
        assert (seen.rows, seen.labelled, seen.token, seen.masked) == (12, 12, 0, False)
        elsewhere = ids.masked_fill(torch.arange(LONG) == 15, 0)
        assert (read({"input_ids": elsewhere, "labels": ids}, vocabulary=replace(WORDS, pad=None)).padding) is None

    @pytest.mark.parametrize("kept", [True, False])
    def test_without_a_mask_the_end_token_is_what_ends_even_the_widest_row_of_each_batch(self, kept: bool) -> None:
        batches = []
        for number in range(4):
            ids = tokens(width=LONG + number)
            content = torch.arange(LONG + number) < LONG + number - 1 - torch.arange(12)[:, None]
            ids = ids.where(content, END)
            labels = ids.where(content, -100)
            labels[:, -1] = END if kept else -100
            batches.append({"input_ids": ids, "labels": labels})
        rows = [row for number, batch in enumerate(batches) for row in rows_of(leaves_in(batch), number, {})]
        names = {"tokens": "['input_ids']", "labels": "['labels']"}
        seen = facts_of([rows, rows], names, frozenset(names), Vocabulary(), None, {}).stops
        assert seen is not None
        assert (seen.token, seen.cut_off, bool(seen.learned)) == (END, True, kept)

    def test_a_loss_mask_takes_labels_away(self) -> None:
        ids = tokens()
        seen = read({"input_ids": ids, "labels": ids, "loss_mask": torch.arange(LONG).expand_as(ids) < 10})
        assert seen.labelled == 12 * 9

    def test_ignored_labels_are_those_of_the_contract(self) -> None:
        ids, mask = padded(tokens(), 30)
        batch = {"input_ids": ids, "attention_mask": mask, "labels": ids}
        plain, declared = read(batch).padding, read(batch, contract={"ignore_index": 0}).padding
        assert plain is not None
        assert declared is not None
        assert (plain.rows, plain.labelled, plain.token, plain.ignores) == (12, 12, 0, False)
        assert (declared.labelled, declared.ignores) == (0, True)

    def test_padding_of_several_ids_is_none(self) -> None:
        ids, mask = padded(tokens(), 30)
        ids = ids + (1 - mask) * torch.arange(LONG)
        assert read({"input_ids": ids, "attention_mask": mask, "labels": ids}).padding is None

    def test_one_hidden_token_is_no_padding(self) -> None:
        ids, mask = padded(tokens(), LONG - 1)
        assert read({"input_ids": ids, "attention_mask": mask, "labels": ids}).padding is None


class TestStops:
    def test_an_end_in_a_question_is_not_counted(self) -> None:
        ids = tokens()
        ids[:, 5] = END
        labels = ids.clone()
        labels[:, :6] = -100
        stops = read({"input_ids": ids, "labels": labels}).stops
        assert stops is not None
        assert (stops.hidden, stops.learned) == (0, 0)

    def test_an_end_after_a_label_is_counted(self) -> None:
        ids = tokens()
        ids[:, 20] = END
        stops = read({"input_ids": ids, "labels": ids.where(ids != END, -100)}).stops
        assert stops is not None
        assert (stops.hidden, stops.learned, stops.padding) == (12, 0, False)

    def test_the_widest_rows_may_be_cut(self) -> None:
        ids, mask = padded(tokens(), 30)
        stops = read({"input_ids": ids, "attention_mask": mask, "labels": ids.where(mask == 1, -100)}).stops
        assert stops is not None
        assert stops.ended == 0

    def test_nothing_is_known_without_an_end_or_padding(self) -> None:
        ids = tokens()
        assert read({"input_ids": ids, "labels": ids}, vocabulary=Vocabulary()).stops is None

    @pytest.mark.parametrize(("shortest", "multiple", "cut_off"), [(1, 1, True), (0, 1, False), (1, 4, False)])
    def test_even_the_widest_row_ends_in_hidden_padding(self, shortest: int, multiple: int, cut_off: bool) -> None:
        rows = []
        for batch in range(6):
            width = 20 + batch * multiple
            mask = torch.arange(width) < width - shortest - torch.arange(12)[:, None]
            rows += rows_of(leaves_in({"input_ids": tokens()[:, :width] * mask, "attention_mask": mask}), batch, {})
        rows = [replace(row, labels=np.where(row.inside, row.tokens, -100), stored=row.tokens) for row in rows]
        seen = facts_of([rows, rows], {"tokens": ""}, frozenset(), Vocabulary(), None, {}).stops
        assert seen is not None
        assert seen.cut_off == cut_off


class TestEmptyRows:
    def test_the_first_label_of_a_row_is_learned_by_no_model(self) -> None:
        ids = tokens()
        labels = ids.clone()
        labels[3, 1:] = -100
        empty = read({"input_ids": ids, "labels": labels}).empty
        assert empty is not None
        assert (empty.rows, empty.empty, empty.place, empty.random) == (12, 1, (0, 3), False)

    def test_masks_at_random_are_recognized(self) -> None:
        ids = tokens()

        def drawn(seed: int) -> dict[str, Tensor]:
            masked = torch.rand(ids.shape, generator=torch.Generator().manual_seed(seed)) < 0.1
            masked[0] = seed == 1
            return {"input_ids": ids.masked_fill(masked, 99), "labels": ids.where(masked, -100)}

        empty = read(drawn(1), drawn(2)).empty
        assert empty is not None
        assert (empty.rows, empty.empty, empty.random) == (12, 0, True)


class TestTokens:
    def test_a_row_starts_where_its_mask_does(self) -> None:
        ids = tokens()
        ids[:, :12] = 1
        mask = (torch.arange(LONG) >= 10).long().expand_as(ids)
        starts = read({"input_ids": ids, "attention_mask": mask, "labels": ids}).starts
        assert starts is not None
        assert (starts.once, starts.twice, starts.rows) == (12, 12, 12)

    def test_ids_under_the_mask_do_not_count(self) -> None:
        ids, mask = padded(tokens(), 30)
        seen = read({"input_ids": ids + (1 - mask) * 500, "attention_mask": mask}).ids
        assert (seen.beyond, seen.largest < 100) == (0, True)
        assert read({"input_ids": ids + 50, "attention_mask": mask}).ids.distinct > 8

    @pytest.mark.parametrize(("end", "count"), [(34_721, 12), (34_722, None)])
    def test_a_special_token_that_16_bits_wrapped_is_known_by_its_places(self, end: int, count: int | None) -> None:
        ids = tokens()
        ids[:, -1] = end
        large = replace(WORDS, eos=100_257, size=100_258)
        wrapped = read({"input_ids": ids}, vocabulary=large).ids.wrapped
        assert (wrapped and wrapped.count) == count
        ids[0, 3] = 70_000
        assert read({"input_ids": ids}, vocabulary=large).ids.wrapped is None

    def test_the_largest_of_negative_items_is_found_by_its_name(self) -> None:
        batch: dict[str, Any] = {"input_ids": tokens(), "neg_items": tokens(width=9) + 400, "negatives": "none"}
        assert read(batch).ids.negatives == int(batch["neg_items"].max())
        assert read({"input_ids": tokens(), "mean_negation": tokens()}).ids.negatives is None

    def test_an_end_that_other_tokens_follow_than_begin_rows_ends_turns(self) -> None:
        ids = tokens()
        ids[:, 19] = END
        ids[:, 0] = 5
        ended = replace(WORDS, bos=None)
        assert read({"input_ids": ids, "labels": ids}, vocabulary=ended).packs is None
        ids[:, 20] = 5
        packs = read({"input_ids": ids, "labels": ids}, vocabulary=ended).packs
        assert packs is not None
        assert packs.restarts == 12

    def test_documents_are_split_by_offsets_beside_one_row(self) -> None:
        ids = tokens(1)
        offsets = torch.tensor([0, 9, 21, LONG], dtype=torch.int32)
        packs = read({"input_ids": ids, "labels": ids, "cu_seq_lens": offsets}).packs
        assert packs is not None
        assert (packs.restarts, packs.open, packs.labelled, packs.same) == (2, 0, 2, False)

    def test_a_mask_of_floats_is_open_where_it_is_0(self) -> None:
        ids = tokens()
        places = torch.arange(20).repeat(2).expand_as(ids)
        causal = torch.full((LONG, LONG), float("-inf")).triu(1)
        apart = causal.clone()
        apart[20:, :20] = float("-inf")
        for mask, opened in ((causal, 12), (apart, 0)):
            square = mask.expand(12, 1, LONG, LONG)
            packs = read({"input_ids": ids, "position_ids": places, "attention_mask": square}).packs
            assert packs is not None
            assert packs.open == opened

    def test_documents_are_split_by_their_start_or_else_by_their_end(self) -> None:
        ids = tokens()
        ids[:, 19] = END
        batch = {"input_ids": ids, "labels": ids}
        packs = read(batch).packs
        assert packs is not None
        assert (packs.open, packs.by_stop) == (12, True)
        started = read({"input_ids": ids.masked_fill(torch.arange(LONG) == 0, 1), "labels": ids}).packs
        assert started is None
        replies = ids.masked_fill(torch.arange(LONG) % 20 < 8, -100)
        assert read({"input_ids": ids, "labels": replies}).packs is None

    def test_a_placeholder_of_varying_count_is_none(self) -> None:
        ids, mask = padded(tokens(), 39)
        ids[:, 4:20] = 7
        image = torch.rand(12, 3, 16, 16)
        seen = read({"input_ids": ids, "attention_mask": mask, "pixel_values": image}).images
        assert seen is not None
        assert (seen.token, seen.count, seen.rows, seen.cut) == (7, 16, 12, 0)
        ids[::2, 19] = 9
        assert read({"input_ids": ids, "attention_mask": mask, "pixel_values": image}).images is None
        assert read({"input_ids": ids, "attention_mask": mask}).images is None

    def test_text_and_floats_have_no_rows(self) -> None:
        assert rows_of(leaves_in({"input_ids": ["a", "b"]}), 0, {}) == []
        assert rows_of(leaves_in({"input_ids": torch.rand(2, 3)}), 0, {}) == []


def test_a_row_is_shown_in_columns() -> None:
    ids, mask = padded(tokens(), 30)
    padding = read({"input_ids": ids, "attention_mask": mask, "labels": ids}).padding
    assert padding is not None
    lines = str(padding.shown).splitlines()
    assert [line.split()[0] for line in lines] == ["column", "token", "mask", "label", "here"]
    assert lines[2].split()[1:] == ["1"] * 3 + ["0"] * 4
    assert lines[-1].split()[1:] == ["^^"] * 4


@pytest.mark.parametrize(
    ("columns", "shows_padding", "found"),
    [
        (range(2, 14), True, (0, 0, 0)),
        ([*range(2, 14), 35], True, (0, 0, 12)),
        ([*range(2, 14), 35], False, (0, 0, 0)),
        (range(12), False, (0, 12, 0)),
        (range(38), True, (0, 0, 0)),
    ],
)
def test_what_a_mask_hides(columns: Sequence[int], shows_padding: bool, found: tuple[int, int, int]) -> None:
    ids, mask = padded(tokens(), 30)
    ids[:, 0] = 1
    masked = torch.isin(torch.arange(LONG), torch.tensor(list(columns))).expand_as(ids)
    hidden, learned = ids.masked_fill(masked, 4), masked if shows_padding else masked & (mask == 1)
    beside = {} if shows_padding else {"attention_mask": mask}
    masking = read({"input_ids": hidden, "labels": ids.where(learned, torch.tensor(-100)), **beside}).masking
    assert masking is not None
    assert (masking.unrestored, masking.ends, masking.padding) == found


def test_labels_of_the_mask_itself() -> None:
    ids = tokens().index_fill(1, torch.arange(2, 14), 4)
    batch = {"input_ids": ids, "labels": ids.where(ids == 4, torch.tensor(-100))}
    masking = read(batch, vocabulary=replace(WORDS, mask=4)).masking
    assert masking is not None
    assert masking.unrestored == 144
    assert read(batch).masking is None  # A special token may be all that is learned.
