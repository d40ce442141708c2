"""DG428 learned-prompt: questions of conversations are learned, or parts of replies are not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from sample_datasets._tokens import IGNORED, Batch, Tokenizer, loader

ASK, REPLY, THOUGHT = 3, 4, 5


class ChatTokenizer(Tokenizer):
    """A tokenizer with a chat template: each message has a head, and the end token after it."""

    chat_template = "{% for message in messages %}<{{ message.role }}>{{ message.content }}</s>{% endfor %}"

    def apply_chat_template(self, messages: Sequence[Mapping[str, str]], tokenize: bool = False) -> str:
        """The text of a conversation."""
        assert not tokenize
        return "".join(f"<{message['role']}>{message['content']}</s>" for message in messages)

    def __call__(self, text: str, **_: Any) -> dict[str, Any]:
        """The ids of a text, and where each token is in it."""
        special = {"<user>": ASK, "<assistant>": REPLY, "<system>": 6, "</s>": self.eos_token_id}
        found = list(re.finditer(r"</?\w+>|\w+", text))
        return {
            "input_ids": [special.get(token[0], 7) for token in found],
            "offset_mapping": [token.span() for token in found],
        }


def conversation(number: int, turns: int = 2, thought: bool = False) -> tuple[Tensor, Tensor]:
    """A conversation, and which of its tokens are those of replies."""
    made, tokens, replies = Tokenizer(), [torch.tensor([1])], [torch.tensor([False])]
    for turn in range(turns):
        question, answer = (made.words(4 * number + 2 * turn + side, 4 + (number + turn) % 3) for side in (0, 1))
        head = torch.tensor([REPLY, THOUGHT] if thought else [REPLY])
        parts = (torch.tensor([ASK]), question, torch.tensor([2]), head, answer, torch.tensor([2]))
        tokens += parts
        replies += [torch.full((len(part),), place > 3) for place, part in enumerate(parts)]
    return torch.cat(tokens), torch.cat(replies)


def chat(learned: Any, thought: bool = False, made: Any = conversation) -> DataLoader[Any]:
    """Conversations whose labels are those tokens that `learned` says."""
    tokenizer = ChatTokenizer()

    def collate(numbers: Sequence[int]) -> Batch:
        rows = [made(number, thought=thought) if thought else made(number) for number in numbers]
        kept = [torch.where(learned(tokens, replies), tokens, IGNORED) for tokens, replies in rows]  # culprit
        tokens = pad_sequence([tokens for tokens, _ in rows], batch_first=True)
        assert tokenizer.pad_token_id == 0
        labels = pad_sequence(kept, batch_first=True, padding_value=IGNORED)
        return {"input_ids": tokens, "attention_mask": (tokens != 0).long(), "labels": labels}

    return loader(int, collate, multiprocessing_context="fork")


def all_but_first_prompt(tokens: Tensor, replies: Tensor) -> Tensor:
    """Everything after the first head of a reply."""
    del replies
    return ((tokens == REPLY).cumsum(0) > 0) & (tokens != REPLY)


def bad() -> DataLoader[Any]:
    """Only the first prompt is left out of the loss, so that second questions are learned."""
    return chat(all_but_first_prompt)


def bad_late_spans() -> DataLoader[Any]:
    """Spans of labels begin a token late, and end one late."""
    return chat(lambda tokens, replies: torch.cat([torch.tensor([False]), replies[:-1]]))


def on_the_left(moved: bool) -> DataLoader[Any]:
    """Conversations padded on the left, whose spans of labels are `moved` as far as the tokens."""
    tokenizer = ChatTokenizer()

    def collate(numbers: Sequence[int]) -> Batch:
        rows = [conversation(number) for number in numbers]
        width = max(len(tokens) for tokens, _ in rows)
        batch = {name: torch.zeros(len(rows), width, dtype=torch.long) for name in ("input_ids", "attention_mask")}
        labels = torch.full((len(rows), width), IGNORED)
        assert tokenizer.pad_token_id == 0
        for row, (tokens, replies) in enumerate(rows):
            start = width - len(tokens)
            batch["input_ids"][row, start:], batch["attention_mask"][row, start:] = tokens, 1
            spans = replies.nonzero()[:, 0] + (start if moved else 0)
            labels[row, spans] = batch["input_ids"][row, spans]  # culprit
        labels[batch["attention_mask"] == 0] = IGNORED
        return {**batch, "labels": labels}

    return loader(lambda number: number * 3 % 32, collate, multiprocessing_context="fork")


def bad_on_the_left() -> DataLoader[Any]:
    """Spans that were counted before padding was put on the left."""
    return on_the_left(moved=False)


def good_on_the_left() -> DataLoader[Any]:
    """Spans that move with their tokens."""
    return on_the_left(moved=True)


def triple(number: int, shift: int) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, next tokens, and a mask of the loss; without a `shift` it is that of the inputs."""
    tokens, replies = conversation(number)
    return tokens[:-1], tokens[1:], replies[shift:][: len(tokens) - 1].long()  # culprit


def padded(rows: Sequence[tuple[Tensor, Tensor, Tensor]]) -> tuple[Tensor, ...]:
    """A batch of such rows."""
    return tuple(pad_sequence(list(column), batch_first=True) for column in zip(*rows, strict=True))


def bad_mask_of_inputs() -> DataLoader[Any]:
    """Labels are shifted, and the mask of the loss is not; no template says where replies begin."""
    return loader(lambda number: triple(number, 0), padded, multiprocessing_context="fork")


def good() -> DataLoader[Any]:
    """Replies with their ends."""
    return chat(lambda tokens, replies: replies)


def good_mask_of_labels() -> DataLoader[Any]:
    """The mask of the loss is that of the labels."""
    return loader(lambda number: triple(number, 1), padded, multiprocessing_context="fork")


def good_everything() -> DataLoader[Any]:
    """Whole conversations are learned, as is usual for base models."""
    return chat(lambda tokens, replies: torch.ones_like(replies))


def good_hidden_thought() -> DataLoader[Any]:
    """Replies begin with a token that is given and not learned, the same in all."""
    return chat(lambda tokens, replies: replies & (tokens != THOUGHT), thought=True)


def with_thoughts(number: int) -> tuple[Tensor, Tensor]:
    """A conversation whose replies begin with thoughts of several lengths, which are not among the tokens to learn."""
    made, tokens, learned = Tokenizer(), [torch.tensor([1])], [False]
    for turn in range(2):
        asked, thought, answer = (
            made.words(6 * number + 3 * turn + part, 4 + (number + part) % 3) for part in range(3)
        )
        prompt = (torch.tensor([ASK]), asked, torch.tensor([2, REPLY]), thought, torch.tensor([THOUGHT]))
        tokens += [*prompt, answer, torch.tensor([2])]
        learned += [False] * sum(map(len, prompt)) + [True] * (len(answer) + 1)
    return torch.cat(tokens), torch.tensor(learned)


def good_hidden_thoughts() -> DataLoader[Any]:
    """Replies begin with thoughts of other words and lengths, up to one token, which are not learned."""
    return chat(lambda tokens, learned: learned, made=with_thoughts)


def good_last_reply() -> DataLoader[Any]:
    """Only the last reply of each conversation is learned."""
    return chat(lambda tokens, replies: replies & ((tokens == REPLY).cumsum(0) == 2))


def good_flattened() -> DataLoader[Any]:
    """Whole conversations one after another: only the first token of each has no label, as it follows another one."""
    tokenizer = ChatTokenizer()

    def collate(numbers: Sequence[int]) -> Batch:
        rows = [conversation(number)[0] for number in numbers]
        assert tokenizer.pad_token_id == 0
        labels = [torch.cat([torch.tensor([IGNORED]), row[1:]]) for row in rows]
        return {
            "input_ids": torch.cat(rows)[None],
            "labels": torch.cat(labels)[None],
            "position_ids": torch.cat([torch.arange(len(row)) for row in rows])[None],
        }

    return loader(int, collate, multiprocessing_context="fork")
