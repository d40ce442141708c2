"""Batches of language models: the collators and datasets of libraries one by one, with tokenizers made on the spot."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from tests.ecosystem.data import WORDS, made, sentences

Loaders = dict[str, Any]
OPTIONS: dict[str, Any] = {"batch_size": 8, "num_workers": 2}
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|im_start|>{{ ' ' + message['role'] + ' ' }}"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] }} {{ eos_token }}{% endgeneration %}"
    "{% else %}{{ message['content'] }} {{ eos_token }}{% endif %}{{ ' ' }}{% endfor %}"
)


def tokenizer(**changes: Any) -> Any:
    """A tokenizer of words with a start, an end and a padding token, as `transformers` wraps one of `tokenizers`."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = ["<pad>", "<unk>", "<s>", "</s>", "<mask>", "<|im_start|>", "<image>", "user", "assistant"]
    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate([*special, *WORDS])}, "<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    names = {
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "mask_token": "<mask>",
    }
    return PreTrainedTokenizerFast(tokenizer_object=words, chat_template=TEMPLATE, **{**names, **changes})


def rows(words: Any, count: int = 96, *, end: bool = True) -> Any:
    """Sentences of `datasets`, tokenized with a start and an end."""
    from datasets import Dataset

    stop = [words.eos_token_id] * end
    ids = [[words.bos_token_id, *words(text)["input_ids"], *stop] for text in sentences(count)]
    return Dataset.from_dict({"input_ids": ids})


def causal() -> Loaders:
    """`DataCollatorForLanguageModeling` without masks: padded rows, and blocks as in the examples of `transformers`."""
    from datasets import Dataset
    from transformers import DataCollatorForLanguageModeling

    words = tokenizer()
    joined = [token for row in rows(words)["input_ids"] for token in row]
    blocks = Dataset.from_dict({"input_ids": [joined[at : at + 32] for at in range(0, len(joined) - 32, 32)]})
    collate = DataCollatorForLanguageModeling(words, mlm=False)
    same = DataCollatorForLanguageModeling(tokenizer(pad_token="</s>"), mlm=False)
    return {
        "train": DataLoader(rows(words), shuffle=True, collate_fn=collate, **OPTIONS),
        "train_blocks": DataLoader(blocks, shuffle=True, collate_fn=collate, **OPTIONS),
        "train_same_padding": DataLoader(rows(words), shuffle=True, collate_fn=same, **OPTIONS),
    }


def masked() -> Loaders:
    """Masked words, whole and in parts, and classes of tokens."""
    from transformers import DataCollatorForLanguageModeling, DataCollatorForTokenClassification

    words = tokenizer()
    tagged = rows(words).map(lambda row: {"labels": [token % 5 for token in row["input_ids"]]})
    tags = DataCollatorForTokenClassification(words)
    return {
        "train": DataLoader(rows(words), shuffle=True, collate_fn=DataCollatorForLanguageModeling(words), **OPTIONS),
        "train_tags": DataLoader(tagged, shuffle=True, collate_fn=tags, **OPTIONS),
    }


def flattened() -> Loaders:
    """`DataCollatorWithFlattening`, plain and with the offsets of flash attention."""
    from transformers import DataCollatorWithFlattening

    words = tokenizer()
    labelled = rows(words).map(lambda row: {"labels": row["input_ids"]})
    offsets = DataCollatorWithFlattening(return_flash_attn_kwargs=True, return_seq_idx=True)
    return {
        "train": DataLoader(labelled, shuffle=True, collate_fn=DataCollatorWithFlattening(), **OPTIONS),
        "train_offsets": DataLoader(labelled, shuffle=True, collate_fn=offsets, **OPTIONS),
    }


def sequences() -> Loaders:
    """`DataCollatorForSeq2Seq` with a decoder, and for causal models whose prompts are not learned."""
    from transformers import DataCollatorForSeq2Seq, DataCollatorWithPadding, T5Config, T5ForConditionalGeneration

    words = tokenizer()
    sizes = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2}
    model = T5ForConditionalGeneration(T5Config(vocab_size=len(words), decoder_start_token_id=0, **sizes))
    pairs = rows(words).map(lambda row: {"labels": [*row["input_ids"][3:0:-1], words.eos_token_id]})
    prompted = rows(words).map(lambda row: {"labels": [-100] * 3 + row["input_ids"][3:]})
    classes = rows(words).add_column("label", [number % 2 for number in range(96)])
    return {
        "train": DataLoader(pairs, shuffle=True, collate_fn=DataCollatorForSeq2Seq(words, model), **OPTIONS),
        "train_prompts": DataLoader(prompted, shuffle=True, collate_fn=DataCollatorForSeq2Seq(words), **OPTIONS),
        "train_classes": DataLoader(classes, shuffle=True, collate_fn=DataCollatorWithPadding(words), **OPTIONS),
    }


def tuned() -> Loaders:
    """`SFTTrainer`: answers only, the turns of the assistant only, packed and flattened."""
    from datasets import Dataset
    from transformers import LlamaConfig, LlamaForCausalLM
    from trl import SFTConfig, SFTTrainer

    words = tokenizer()
    texts = sentences(96)
    questions = [text.split()[0] + " sees" for text in texts]
    turns = [
        [{"role": "user", "content": question}, {"role": "assistant", "content": text}]
        for question, text in zip(questions, texts, strict=True)
    ]
    plain = Dataset.from_dict({"text": texts})
    pairs = Dataset.from_dict({"prompt": questions, "completion": [f" {text}" for text in texts]})
    chats = Dataset.from_dict({"messages": turns})

    def loader(table: Any, **options: Any) -> Any:
        arguments = SFTConfig(
            str(made("tuned", lambda folder: None)),
            per_device_train_batch_size=4,
            dataloader_num_workers=2,
            report_to="none",
            use_cpu=True,
            bf16=False,
            **{"max_length": 32, **options},
        )
        sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
        model = LlamaForCausalLM(LlamaConfig(vocab_size=len(words), **sizes))
        return SFTTrainer(model, arguments, train_dataset=table, processing_class=words).get_train_dataloader()

    return {
        "train": loader(plain),
        "train_answers": loader(pairs, completion_only_loss=True),
        "train_assistant": loader(chats, assistant_only_loss=True, max_length=64),
        "train_packed": loader(plain, packing=True),
        "train_flat": loader(plain, padding_free=True, max_length=None),
        "train_wrapped": loader(plain, packing=True, packing_strategy="wrapped"),
    }


class Answers(torch.utils.data.Dataset):
    """What litgpt's dataset of instructions asks of a tokenizer."""

    def __init__(self, words: Any) -> None:
        self.words = words
        self.bos_id, self.eos_id = words.bos_token_id, words.eos_token_id

    def encode(self, text: str, bos: Any = None, eos: bool = False, max_length: int = -1) -> Any:
        ids = self.words(text)["input_ids"]
        ids = [self.bos_id] * (bos is not False) + ids + [self.eos_id] * eos
        return torch.tensor(ids[: max_length if max_length > 0 else None])


def instructions() -> Loaders:
    """litgpt's `SFTDataset` and its collate_fn."""
    from litgpt.data.base import SFTDataset, get_sft_collate_fn
    from litgpt.prompts import Default

    table = [{"instruction": text, "input": "", "output": text} for text in sentences(96)]
    learned = SFTDataset(table, Answers(tokenizer()), Default(), mask_prompt=True)
    collate = get_sft_collate_fn(max_seq_length=64, pad_id=0)
    return {"train": DataLoader(learned, shuffle=True, collate_fn=collate, **OPTIONS)}


def packed_documents() -> Loaders:
    """torchtune's `PackedDataset` and its collate_fn."""
    from functools import partial

    from torchtune.data import padded_collate_packed, padded_collate_sft
    from torchtune.datasets._packed import PackedDataset

    table = [{"tokens": row[:-1], "labels": row[1:]} for row in rows(tokenizer())["input_ids"]]
    packs = PackedDataset(table, max_seq_len=32)
    padded = partial(padded_collate_sft, padding_idx=0, ignore_idx=-100)
    return {
        "train": DataLoader(packs, shuffle=True, collate_fn=padded_collate_packed, drop_last=True, **OPTIONS),
        "train_padded": DataLoader(table, shuffle=True, collate_fn=padded, **OPTIONS),
    }


class Encoder:
    """What torchtitan asks of a tokenizer."""

    def __init__(self) -> None:
        self.words = tokenizer()
        self.bos_id, self.eos_id = self.words.bos_token_id, self.words.eos_token_id

    def encode(self, text: str, *, add_bos: bool, add_eos: bool) -> list[int]:
        return [self.bos_id] * add_bos + self.words(text)["input_ids"] + [self.eos_id] * add_eos


def pretraining() -> Loaders:
    """torchtitan's stream of documents."""
    from datasets import Dataset
    from torchtitan.hf_datasets import text_datasets
    from torchtitan.hf_datasets.text_datasets import DatasetConfig, HuggingFaceTextDataset

    table = Dataset.from_dict({"text": sentences(384)})
    text_datasets.DATASETS["sentences"] = DatasetConfig(
        path="sentences", loader=lambda path: table, sample_processor=lambda row: row["text"]
    )
    stream = HuggingFaceTextDataset("sentences", None, Encoder(), seq_len=32, infinite=True)
    return {"train": DataLoader(stream, batch_size=8)}


class Patches:
    """A collate_fn that calls the processor of LLaVA, which writes a placeholder for each patch of an image."""

    def __init__(self) -> None:
        from transformers import CLIPImageProcessor, LlavaProcessor

        words = tokenizer(additional_special_tokens=["<image>"])
        words.image_token, words.image_token_id = "<image>", words.convert_tokens_to_ids("<image>")
        pixels = CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
        options = {"patch_size": 8, "vision_feature_select_strategy": "full", "image_token": "<image>"}
        self.processor = LlavaProcessor(pixels, words, **options)

    def __call__(self, samples: list[tuple[str, Any]]) -> Any:
        texts = [f"<s> <image> {text} </s>" for text, _ in samples]
        batch = self.processor(text=texts, images=[image for _, image in samples], padding=True, return_tensors="pt")
        image = batch["input_ids"] == self.processor.tokenizer.image_token_id
        batch["labels"] = batch["input_ids"].masked_fill(image | (batch["attention_mask"] == 0), -100)
        return batch


def images() -> Loaders:
    """The processor of LLaVA."""
    from PIL import Image

    generator = np.random.default_rng(3)
    pixels = generator.integers(0, 256, (48, 40, 40, 3), dtype=np.uint8)
    samples = [(text, Image.fromarray(array)) for text, array in zip(sentences(48), pixels, strict=True)]
    return {"train": DataLoader(samples, shuffle=True, collate_fn=Patches(), **OPTIONS)}


class Encode:
    """Tokenizes the text of a row."""

    def __init__(self) -> None:
        self.words = tokenizer()

    def __call__(self, row: Any) -> Any:
        row = row[0] if isinstance(row, tuple) else row
        ids = self.words(row["text"])["input_ids"]
        return {"input_ids": [self.words.bos_token_id, *ids, self.words.eos_token_id]}


def streams() -> Loaders:
    """Documents of a `WebDataset`, and of a stream of `datasets`, tokenized on the way."""
    import json
    import tarfile
    from io import BytesIO

    import webdataset
    from datasets import Dataset
    from transformers import DataCollatorForLanguageModeling

    collate = DataCollatorForLanguageModeling(tokenizer(), mlm=False)

    def write(folder: Any) -> None:
        for shard in range(4):
            with tarfile.open(folder / f"{shard}.tar", "w") as archive:
                for number, text in enumerate(sentences(24, 24 * shard)):
                    content = json.dumps({"text": text}).encode()
                    info = tarfile.TarInfo(f"{shard}-{number:03}.json")
                    info.size = len(content)
                    archive.addfile(info, BytesIO(content))

    shards = webdataset.WebDataset(f"{made('texts', write)}/{{0..3}}.tar", shardshuffle=False).decode()
    shards = shards.to_tuple("json").map(Encode())
    stream = Dataset.from_dict({"text": sentences(96)}).to_iterable_dataset(num_shards=4)
    stream = stream.map(Encode(), remove_columns="text")
    return {
        "train": DataLoader(shards, collate_fn=collate, **OPTIONS),
        "train_stream": DataLoader(stream, collate_fn=collate, **OPTIONS),
    }


def embeddings() -> Loaders:
    """`SentenceTransformerTrainer` with a transformer and its tokenizer."""
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, models
    from sentence_transformers import SentenceTransformerTrainingArguments as Arguments
    from sentence_transformers.losses import MultipleNegativesRankingLoss
    from transformers import BertConfig, BertModel

    def write(folder: Any) -> None:
        words = tokenizer(cls_token="<s>", sep_token="</s>")
        sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
        BertModel(BertConfig(vocab_size=len(words), **sizes)).save_pretrained(folder)
        words.save_pretrained(folder)

    transformer = models.Transformer(str(made("bert", write)))
    model = SentenceTransformer(modules=[transformer, models.Pooling(8)], device="cpu")
    pairs = Dataset.from_dict({"anchor": sentences(48), "positive": sentences(48, 100)})
    arguments = Arguments(
        str(made("embeddings", lambda folder: None)),
        per_device_train_batch_size=8,
        dataloader_num_workers=2,
        report_to="none",
        use_cpu=True,
    )
    loss = MultipleNegativesRankingLoss(model)
    trainer = SentenceTransformerTrainer(model, arguments, train_dataset=pairs, loss=loss)
    torch.set_num_threads(1)
    return {"train": trainer.get_train_dataloader()}
