"""Language models: tokenizers built in code, collators of transformers, and map functions of datasets."""

from __future__ import annotations

import functools
from typing import Any

import datasets as hf
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset
from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerFast

Loader = DataLoader[Any]
IGNORED = -100
SPECIAL = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def build_tokenizer(template: str | None = None, **special: str) -> PreTrainedTokenizerFast:
    names = ["<pad>", "<s>", "</s>", "<unk>", "User", "Assistant", ":"]
    words = {name: number for number, name in enumerate(names + [f"w{number}" for number in range(60)])}
    model = Tokenizer(WordLevel(words, unk_token="<unk>"))  # type: ignore[arg-type]
    model.pre_tokenizer = Whitespace()
    if template is not None:
        model.post_processor = TemplateProcessing(single=template, special_tokens=[("<s>", 1), ("</s>", 2)])  # type: ignore[assignment]
    return PreTrainedTokenizerFast(tokenizer_object=model, **(SPECIAL | special))  # type: ignore[no-any-return]


def sentence(number: int, words: int | None = None) -> str:
    count = words if words is not None else 5 + number * 5 % 9
    return " ".join(f"w{(number * 29 + step * step * 7) % 60}" for step in range(count))


class Corpus(Dataset[Any]):
    def __init__(self, tokenizer: PreTrainedTokenizerFast, count: int = 32) -> None:
        self.tokenizer, self.count = tokenizer, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> list[int]:
        found: list[int] = self.tokenizer(sentence(range(self.count)[index]))["input_ids"]
        return found


class PadAll:
    """Pads ids, mask and labels."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self.tokenizer = tokenizer

    def __call__(self, rows: list[list[int]]) -> dict[str, Tensor]:
        batch = self.tokenizer.pad({"input_ids": rows}, return_tensors="pt")
        batch["labels"] = batch["input_ids"].clone()  # culprit
        return dict(batch)


def dg421_cloned_labels() -> Loader:
    tokenizer = build_tokenizer("<s> $A </s>")
    return DataLoader(Corpus(tokenizer), batch_size=4, collate_fn=PadAll(tokenizer))


def tokenize(example: dict[str, Any], tokenizer: PreTrainedTokenizerFast, width: int) -> dict[str, Any]:
    out = tokenizer(example["text"], padding="max_length", truncation=True, max_length=width)
    out["labels"] = out["input_ids"].copy()  # culprit
    return dict(out)


def dg421_map_function() -> Loader:
    tokenizer = build_tokenizer("<s> $A </s>")
    texts = hf.Dataset.from_dict({"text": [sentence(number) for number in range(32)]})
    rows = texts.map(functools.partial(tokenize, tokenizer=tokenizer, width=18), remove_columns=["text"])
    columns = ["input_ids", "attention_mask", "labels"]
    return DataLoader(rows.with_format("torch", columns=columns), batch_size=4)  # type: ignore[arg-type]


def seq2seq(rows: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    source = pad_sequence([row["source"] for row in rows], batch_first=True, padding_value=0)
    target = pad_sequence([row["target"] for row in rows], batch_first=True, padding_value=0)  # culprit
    return {"input_ids": source, "attention_mask": (source != 0).long(), "labels": target}  # culprit


class Translation(Dataset[Any]):
    def __init__(self) -> None:
        self.tokenizer = build_tokenizer("$A </s>")

    def __len__(self) -> int:
        return 32

    def encode(self, text: str) -> Tensor:
        return torch.tensor(self.tokenizer(text)["input_ids"])

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        number = range(32)[index]
        return {"source": self.encode(sentence(number)), "target": self.encode(sentence(number + 40))}


def dg421_seq2seq() -> Loader:
    return DataLoader(Translation(), batch_size=4, collate_fn=seq2seq)


def dg422_language_modeling() -> Loader:
    tokenizer = build_tokenizer("<s> $A </s>")
    tokenizer.pad_token = tokenizer.eos_token  # culprit
    collate = DataCollatorForLanguageModeling(tokenizer, mlm=False)  # culprit

    class Encoded(Corpus):
        def __getitem__(self, index: int) -> Any:
            return {"input_ids": super().__getitem__(index)}

    return DataLoader(Encoded(tokenizer), batch_size=4, collate_fn=collate)


class MaskPads:
    """Ignores padding by its id."""

    ignore_index = IGNORED

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self.tokenizer = tokenizer

    def labels(self, ids: Tensor) -> Tensor:
        return ids.masked_fill(ids == self.tokenizer.pad_token_id, self.ignore_index)  # culprit

    def __call__(self, rows: list[list[int]]) -> dict[str, Tensor]:
        pad = self.tokenizer.pad_token_id
        ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=float(pad))
        lengths = torch.tensor([len(row) for row in rows])
        mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
        return {"input_ids": ids, "attention_mask": mask, "labels": self.labels(ids)}


def dg422_pad_is_eos() -> Loader:
    tokenizer = build_tokenizer("<s> $A </s>", pad_token="</s>")  # culprit
    return DataLoader(Corpus(tokenizer), batch_size=4, collate_fn=MaskPads(tokenizer))


class Instructions(Dataset[Any]):
    """Prompts with answers, cut to a width; the prompt is not learned."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, width: int) -> None:
        self.tokenizer, self.width = tokenizer, width

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        number = range(32)[index]
        prompt = self.tokenizer("User : " + sentence(number, 6 + number % 14), add_special_tokens=False)["input_ids"]
        answer = self.tokenizer("Assistant : " + sentence(number + 9, 5), add_special_tokens=False)["input_ids"]
        ids = (prompt + answer + [self.tokenizer.eos_token_id])[: self.width]  # culprit
        labels = ([IGNORED] * len(prompt) + answer + [self.tokenizer.eos_token_id])[: self.width]  # culprit
        return {"input_ids": torch.tensor(ids), "labels": torch.tensor(labels)}


def pad_instructions(rows: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    ids = pad_sequence([row["input_ids"] for row in rows], batch_first=True, padding_value=0)
    labels = pad_sequence([row["labels"] for row in rows], batch_first=True, padding_value=IGNORED)
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels}


def dg423_long_prompts() -> Loader:
    return DataLoader(Instructions(build_tokenizer(), 18), batch_size=4, collate_fn=pad_instructions)


def mask_prompt(row: dict[str, Any], marker: int) -> dict[str, Any]:
    ids = row["input_ids"]
    start = ids.index(marker) + 2 if marker in ids else len(ids)  # culprit
    row["labels"] = [IGNORED] * start + ids[start:]  # culprit
    return row


def dg423_map_marker() -> Loader:
    tokenizer = build_tokenizer()
    texts = [f"User : {sentence(number, 4 + number % 16)} Assistant : {sentence(number, 4)}" for number in range(32)]

    def encode(row: dict[str, Any]) -> dict[str, Any]:
        out = tokenizer(row["text"], truncation=True, max_length=18)  # culprit
        return {"input_ids": out["input_ids"]}

    rows = hf.Dataset.from_dict({"text": texts}).map(encode, remove_columns=["text"])
    rows = rows.map(mask_prompt, fn_kwargs={"marker": tokenizer.convert_tokens_to_ids("Assistant")})
    return DataLoader(rows.with_format("torch"), batch_size=4, collate_fn=pad_instructions)  # type: ignore[arg-type]


class Chat(Corpus):
    """Formats by a template of its own."""

    template = "{bos} User : {text} {eos}"

    def render(self, text: str) -> str:
        bos, eos = self.tokenizer.bos_token, self.tokenizer.eos_token
        return self.template.format(bos=bos, text=text, eos=eos)  # culprit

    def __getitem__(self, index: int) -> list[int]:
        found: list[int] = self.tokenizer(self.render(sentence(range(self.count)[index])))["input_ids"]  # culprit
        return found


class PadChat(PadAll):
    def __call__(self, rows: list[list[int]]) -> dict[str, Tensor]:
        batch = self.tokenizer.pad({"input_ids": rows}, return_tensors="pt")
        labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, IGNORED)
        return {**batch, "labels": labels}


def dg424_template() -> Loader:
    tokenizer = build_tokenizer("<s> $A")
    return DataLoader(Chat(tokenizer), batch_size=4, collate_fn=PadChat(tokenizer))


def dg424_prepended() -> Loader:
    tokenizer = build_tokenizer("<s> $A </s>")

    def with_bos(rows: list[list[int]]) -> dict[str, Tensor]:
        rows = [[tokenizer.bos_token_id, *row] for row in rows]  # culprit
        return PadChat(tokenizer)(rows)

    return DataLoader(Corpus(tokenizer), batch_size=4, collate_fn=with_bos)
