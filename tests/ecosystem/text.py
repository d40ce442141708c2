"""Libraries of text, with a tokenizer made of the words at hand."""

from __future__ import annotations

from typing import Any

from torch.utils.data import DataLoader

from tests.ecosystem.data import WORDS, made, sentences

Loaders = dict[str, Any]


def tokenizer() -> Any:
    """A tokenizer of words, as `transformers` wraps one of `tokenizers`."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate([*special, *WORDS])}, "[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), special, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=words, **names)


def datasets_loaders() -> Loaders:
    """Rows of `datasets`, mapped and formatted for torch; as a table, and as a stream of shards."""
    from datasets import Dataset

    rows = {"x": [[float(i), float(i % 7)] for i in range(96)], "label": [i % 4 for i in range(96)]}
    table = Dataset.from_dict(rows).map(lambda row: {"x": [value / 96 for value in row["x"]]})
    split = table.train_test_split(test_size=0.25, seed=0)
    stream = split["train"].to_iterable_dataset(num_shards=4).shuffle(seed=42, buffer_size=16)
    return {
        "train": DataLoader(split["train"].with_format("torch"), batch_size=8, shuffle=True, num_workers=2),
        "train_stream": DataLoader(stream.with_format("torch"), batch_size=8, num_workers=2),
        "test": DataLoader(split["test"].with_format("torch"), batch_size=8, num_workers=2),
    }


def tokenized(count: int = 48, start: int = 0, **more: Any) -> Any:
    """Sentences of `datasets`, tokenized without padding."""
    from datasets import Dataset

    words = tokenizer()
    rows = Dataset.from_dict(
        {"text": sentences(count, start), "label": [number % 2 for number in range(count)], **more}
    )
    return rows.map(
        lambda batch: words(batch["text"], truncation=True, max_length=10), batched=True, remove_columns="text"
    )


def transformers_collators() -> Loaders:
    """The collators of `transformers` for classification, masked and causal language models, and sequences."""
    from transformers import DataCollatorForLanguageModeling, DataCollatorForSeq2Seq, DataCollatorWithPadding

    words = tokenizer()
    rows, held_out = tokenized(), tokenized(24, 48)
    plain = rows.remove_columns("label")
    pairs = plain.map(lambda row: {"labels": row["input_ids"][::-1][:6]})
    masked = DataCollatorForLanguageModeling(words, mlm_probability=0.15)
    causal = DataCollatorForLanguageModeling(words, mlm=False)
    options: dict[str, Any] = {"batch_size": 8, "num_workers": 2}
    return {
        "train": DataLoader(rows, shuffle=True, collate_fn=DataCollatorWithPadding(words), **options),
        "train_masked": DataLoader(plain, shuffle=True, collate_fn=masked, **options),
        "train_causal": DataLoader(plain, shuffle=True, collate_fn=causal, **options),
        "train_pairs": DataLoader(pairs, shuffle=True, collate_fn=DataCollatorForSeq2Seq(words), **options),
        "val": DataLoader(held_out, collate_fn=DataCollatorWithPadding(words), **options),
        "val_masked": DataLoader(held_out.remove_columns("label"), collate_fn=masked, **options),
    }


def transformers_trainer() -> Loaders:
    """The loaders that `Trainer` makes."""
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    words = tokenizer()
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    model = BertForSequenceClassification(BertConfig(vocab_size=len(words), **sizes))
    arguments = TrainingArguments(
        str(made("trainer", lambda folder: None)),
        per_device_train_batch_size=8,
        dataloader_num_workers=2,
        report_to="none",
        use_cpu=True,
        train_sampling_strategy="group_by_length",
    )
    trainer = Trainer(
        model, arguments, train_dataset=tokenized(), eval_dataset=tokenized(24, 48), processing_class=words
    )
    return {"train": trainer.get_train_dataloader(), "val": trainer.get_eval_dataloader()}


def sentence_transformers_loaders() -> Loaders:
    """The loaders of `SentenceTransformerTrainer`: no duplicates in a batch, for a loss of negatives in the batch."""
    import torch
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
        models,
    )
    from sentence_transformers.losses import MultipleNegativesRankingLoss

    words = models.BoW(vocab=WORDS)
    model = SentenceTransformer(
        modules=[words, models.Dense(words.get_sentence_embedding_dimension(), 8)], device="cpu"
    )
    pairs = Dataset.from_dict({"anchor": sentences(48), "positive": sentences(48, 100)})
    held_out = Dataset.from_dict({"anchor": sentences(16, 200), "positive": sentences(16, 300)})
    arguments = SentenceTransformerTrainingArguments(
        str(made("sentences", lambda folder: None)),
        per_device_train_batch_size=8,
        batch_sampler="no_duplicates",
        dataloader_num_workers=2,
        report_to="none",
        use_cpu=True,
    )
    trainer = SentenceTransformerTrainer(
        model, arguments, train_dataset=pairs, eval_dataset=held_out, loss=MultipleNegativesRankingLoss(model)
    )
    torch.set_num_threads(1)
    return {"train": trainer.get_train_dataloader(), "val": trainer.get_eval_dataloader()}


def trl_loaders() -> Loaders:
    """The loader of `SFTTrainer`, packed and not."""
    from datasets import Dataset
    from transformers import GPT2Config, GPT2LMHeadModel
    from trl import SFTConfig, SFTTrainer

    words = tokenizer()
    words.eos_token = "[SEP]"

    def loader(**options: Any) -> Any:
        arguments = SFTConfig(
            str(made("sft", lambda folder: None)),
            per_device_train_batch_size=4,
            dataloader_num_workers=2,
            max_length=16,
            report_to="none",
            use_cpu=True,
            bf16=False,
            **options,
        )
        model = GPT2LMHeadModel(GPT2Config(vocab_size=len(words), n_embd=8, n_layer=1, n_head=1))
        rows = Dataset.from_dict({"text": sentences(64)})
        return SFTTrainer(model, arguments, train_dataset=rows, processing_class=words).get_train_dataloader()

    return {"train": loader(), "train_packed": loader(packing=True, padding_free=False)}
