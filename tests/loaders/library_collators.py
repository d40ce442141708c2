"""Loaders with the collators of transformers, used as their documentation says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch.utils.data import DataLoader

from tests.loaders.token_stacks import Items, words


def _tokenizer(side: str) -> Any:
    """A tokenizer of words, which begins and ends texts."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = {"pad": "<pad>", "cls": "<s>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"}
    ids = {token: number for number, token in enumerate(special.values())}
    tokens = Tokenizer(models.WordLevel(ids | {f"w{number}": number for number in range(8, 900)}, "<unk>"))
    tokens.pre_tokenizer = pre_tokenizers.Whitespace()
    tokens.post_processor = processors.TemplateProcessing(
        "<s> $A </s>", "<s> $A </s> $B </s>", [("<s>", 1), ("</s>", 2)]
    )
    named = {f"{name}_token": token for name, token in special.items()}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokens, bos_token="<s>", eos_token="</s>", padding_side=side, **named
    )


def _loader(make: Callable[[Any, Any], tuple[Any, Callable[[int], Any]]], side: str = "right") -> DataLoader[Any]:
    """A loader of what `make` makes of the tokenizer and of a function from a number to the tokens of a text."""
    tokenizer = _tokenizer(side)

    def text(number: int, length: int | None = None) -> Mapping[str, list[int]]:
        ids = words(number, length or 10 + number * 7 % 30)
        return dict(tokenizer(" ".join(f"w{word}" for word in ids)))

    collate, one = make(tokenizer, text)
    return DataLoader(Items(one), batch_size=8, shuffle=True, collate_fn=collate)


def causal(side: str = "right") -> DataLoader[Any]:
    from transformers import DataCollatorForLanguageModeling

    return _loader(lambda tokenizer, text: (DataCollatorForLanguageModeling(tokenizer, mlm=False), text), side)


def causal_left() -> DataLoader[Any]:
    return causal("left")


def masked() -> DataLoader[Any]:
    from transformers import DataCollatorForLanguageModeling

    return _loader(lambda tokenizer, text: (DataCollatorForLanguageModeling(tokenizer), text))


def classes() -> DataLoader[Any]:
    from transformers import DataCollatorWithPadding

    return _loader(
        lambda tokenizer, text: (
            DataCollatorWithPadding(tokenizer),
            lambda number: {**text(number), "label": number % 3},
        )
    )


def translated() -> DataLoader[Any]:
    from transformers import DataCollatorForSeq2Seq

    def labelled(text: Any, number: int) -> dict[str, list[int]]:
        return {**text(number), "labels": text(number + 3000, 5 + number % 9)["input_ids"]}

    return _loader(lambda tokenizer, text: (DataCollatorForSeq2Seq(tokenizer), lambda number: labelled(text, number)))


def token_classes() -> DataLoader[Any]:
    from transformers import DataCollatorForTokenClassification

    def labelled(tokens: Mapping[str, list[int]]) -> dict[str, list[int]]:
        return {**tokens, "labels": [-100, *(word % 5 for word in tokens["input_ids"][1:-1]), -100]}

    return _loader(
        lambda tokenizer, text: (DataCollatorForTokenClassification(tokenizer), lambda number: labelled(text(number)))
    )


def flattened() -> DataLoader[Any]:
    from transformers import DataCollatorWithFlattening

    return _loader(
        lambda _, text: (DataCollatorWithFlattening(), lambda number: {"input_ids": text(number)["input_ids"]})
    )


COLLATORS = (causal, causal_left, masked, classes, translated, token_classes, flattened)
"""Factories of healthy loaders."""
