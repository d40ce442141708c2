"""What is read of tokenizers that a loader holds."""

from __future__ import annotations

from io import BytesIO
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dataguard.lab.tokens.conversations import chat_of
from dataguard.lab.tokens.token_observations import NarrowStorage, narrow_storage
from dataguard.lab.tokens.token_roles import leaves_in
from dataguard.lab.tokens.token_rows import Chat, rows_of, tokenizers_in, vocabulary_of, word_of


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


def test_a_post_processor_says_what_begins_and_ends_texts() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    plain = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<s>": 1, "</s>": 2, "cat": 3}, "cat"))
    processors = tokenizers.processors
    template = processors.TemplateProcessing("<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    pair = processors.Sequence([processors.ByteLevel(), processors.BertProcessing(("</s>", 2), ("<s>", 1))])
    for processor in (template, pair):
        plain.post_processor = processor
        found = vocabulary_of(tokenizers_in({"dataset": [plain]}), {})
        assert (found.bos, found.eos) == (1, 2)


def test_an_encoding_of_tiktoken_is_found_inside_an_object_of_the_users() -> None:
    tiktoken = pytest.importorskip("tiktoken")
    ranks = {bytes([byte]): byte for byte in range(256)}
    encoding = tiktoken.Encoding("own", pat_str=r".", mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 256})
    nodes = tokenizers_in({"dataset": SimpleNamespace(words=SimpleNamespace(enc=encoding, bos_token_id=256))})
    found = vocabulary_of(nodes, {})
    assert (found.bos, found.eos, found.size, found.where) == (256, 256, 257, "dataset.words")
    assert 256 in found.special


def test_a_model_of_sentencepiece_gives_ids_and_words() -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    written = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(f"the cat sat on mat {number}" for number in range(200)),
        model_writer=written,
        vocab_size=40,
        minloglevel=2,
    )
    nodes = tokenizers_in({"dataset": [sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())]})
    found, word = vocabulary_of(nodes, {}), word_of(nodes)
    assert (found.bos, found.eos, found.pad, found.size) == (1, 2, None, 40)
    assert word is not None
    assert word(1) == "<s>"


def test_the_template_of_transformers_says_what_stands_around_messages() -> None:
    tokenizers, transformers = pytest.importorskip("tokenizers"), pytest.importorskip("transformers")
    names = ["<pad>", "<|start|>", "<|end|>", "user", "assistant", "system", "<unk>"]
    plain = tokenizers.Tokenizer(tokenizers.models.WordLevel({name: id for id, name in enumerate(names)}, "<unk>"))
    plain.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>", eos_token="<|end|>")
    wrapped.chat_template = (
        "{% for message in messages %}<|start|> {{ message.role }} {{ message.content }} <|end|> {% endfor %}"
    )
    assert chat_of(tokenizers_in({"dataset": [wrapped]})) == Chat((2, 1, 4), (2, 1, 3), 2, ((1, 5),))
    wrapped.chat_template = None
    assert chat_of(tokenizers_in({"dataset": [wrapped]})) is None


def test_narrow_storage_is_confirmed_by_the_tokens() -> None:
    ids = np.arange(4000, dtype=np.uint16)
    loader = SimpleNamespace(dataset=SimpleNamespace(ids=ids))
    rows = rows_of(leaves_in({"input_ids": ids[None, 100:140].astype(np.int64)}), 0, {})
    assert narrow_storage(loader, rows, 100_000) == NarrowStorage("dataset.ids", "uint16", 65_536)
    assert narrow_storage(loader, rows, 60_000) is None
    other = rows_of(leaves_in({"input_ids": ids[None, 140:100:-1].astype(np.int64)}), 0, {})
    assert narrow_storage(loader, other, 100_000) is None
    documents = SimpleNamespace(dataset=SimpleNamespace(rows=[ids[start : start + 40] for start in range(0, 400, 40)]))
    assert narrow_storage(documents, rows, 100_000) == NarrowStorage("dataset.rows[3]", "uint16", 65_536)
