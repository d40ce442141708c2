"""What is read of tokenizers that a loader holds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dataguard.lab.tokens.token_observations import NarrowStorage, narrow_storage
from dataguard.lab.tokens.token_rows import rows_of, tokenizers_in, vocabulary_of, word_of


class Own:
    """A tokenizer of the user's, whose methods must not run."""

    def __init__(self, eos: int = 2) -> None:
        self.eos_token_id, self.vocab_size = eos, 50

    def get_vocab(self) -> Any:
        raise AssertionError

    @property
    def pad_token_id(self) -> int:
        raise AssertionError


def test_an_object_that_holds_ids_is_read_and_not_called() -> None:
    nodes = tokenizers_in({"collate_fn": SimpleNamespace(words=Own())})
    found = vocabulary_of(nodes, {})
    assert (found.eos, found.pad, found.size, found.where) == (2, None, 50, "collate_fn.words")


def test_what_two_say_differently_is_unknown_and_the_contract_decides() -> None:
    nodes = tokenizers_in({"dataset": [Own(2), Own(3)]})
    assert vocabulary_of(nodes, {}).eos is None
    declared = vocabulary_of(nodes, {"eos": 7, "vocab_size": 90})
    assert (declared.eos, declared.size) == (7, 90)
    assert declared.declared == {"eos", "vocab_size"}
    assert vocabulary_of([], {}).where is None
    assert word_of([]) is None


def test_tokenizers_of_libraries_give_ids_and_words() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    words = {word: number for number, word in enumerate(["<pad>", "<s>", "</s>", "<unk>", "cat", "dog"])}
    plain = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "<unk>"))
    wrapped = transformers.PreTrainedTokenizerFast(
        tokenizer_object=plain, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
    nodes = tokenizers_in({"collate_fn": SimpleNamespace(tokenizer=wrapped)})
    found = vocabulary_of(nodes, {})
    assert (found.bos, found.eos, found.pad, found.size) == (1, 2, 0, 6)
    assert {0, 1, 2, 3} <= found.special
    word = word_of(nodes)
    assert word is not None
    assert (word(4), word(99)) == ("cat", "99")
    plain.enable_padding(pad_id=3)
    assert vocabulary_of(tokenizers_in({"dataset": [plain]}), {}).pad == 3


def test_narrow_storage_is_confirmed_by_the_tokens() -> None:
    ids = np.arange(4000, dtype=np.uint16)
    loader = SimpleNamespace(dataset=SimpleNamespace(ids=ids))
    rows = rows_of({"input_ids": ids[None, 100:140].astype(np.int64)}, 0, {})
    assert narrow_storage(loader, rows, 100_000) == NarrowStorage("dataset.ids", "uint16", 65_536)
    assert narrow_storage(loader, rows, 60_000) is None
    other = rows_of({"input_ids": ids[None, 140:100:-1].astype(np.int64)}, 0, {})
    assert narrow_storage(loader, other, 100_000) is None
