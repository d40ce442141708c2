"""Which tokens of conversations are learned: turns are found by the chat template, or by what precedes labels.

The template of a tokenizer that the loader holds is rendered with a few messages, offline. What it writes between them
is searched in rows: the head of a reply ends a question, and the head of the next question ends a reply.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from dataguard.lab.core.object_graph import Node
from dataguard.lab.tokens.token_facts import Spot, spot_in
from dataguard.lab.tokens.token_rows import IGNORED, Chat, TokenRow, Word, excerpt, named

_MESSAGES = (("alpha", "bravo", "charlie", "delta"), ("golf", "hotel", "india", "juliet"))
"""Contents of messages: what stands between them in both renderings comes from the template."""
MOST_SHIFT, FEWEST_SPANS, FEWEST_WORDS = 4, 16, 8
"""How far spans of labels may be shifted; how many of them, and how many different tokens, show that they are."""
DEDICATED_SHARE = 0.95
"""The least share of a token's places that must begin a reply for it to be the head of replies."""


@dataclass(frozen=True, slots=True)
class LearnedTurns:
    """Which turns of conversations have labels, in rows that have any.

    `first` and `later` count the first and the later questions of rows, and `learned_first` and `learned_later` those
    of which every token has a label. `replies` have some label; `start` and `end` are how many tokens without a label
    all of them begin and end with, 0 if these are the same tokens in all. `ignores`: some token that no padding is has
    no label. `head`: the token that begins replies, if no template says it. `broken` counts rows with a turn within
    which labels begin or end, among different tokens in each; `labels` and `turns` are the columns of labels and of
    replies in the first of them.
    """

    first: int
    later: int
    learned_first: int
    learned_later: int
    replies: int
    start: int
    end: int
    ignores: bool
    head: str | None = None
    shown: str | None = None
    shown_reply: str | None = None
    spot: Spot | None = None
    reply_spot: Spot | None = None
    broken: int = 0
    labels: str | None = None
    turns: str | None = None


@dataclass(frozen=True, slots=True)
class _Turn:
    """The places of a question or reply in a row."""

    row: TokenRow
    start: int
    end: int

    @property
    def labelled(self) -> np.ndarray:
        return np.asarray(_targets(self.row)[self.start : self.end] != IGNORED)


def chat_of(nodes: Iterable[Node]) -> Chat | None:
    """What the chat template of the first tokenizer that has one writes around messages; None without one."""
    for node in nodes:
        tokenizer = node.value
        if "apply_chat_template" not in dir(type(tokenizer)) or not getattr(tokenizer, "chat_template", None):
            continue
        try:
            return _rendered(tokenizer)
        except Exception:  # noqa: BLE001 - a template may refuse messages with anything, and slow tokenizers offsets
            continue
    return None


def _rendered(tokenizer: Any) -> Chat | None:
    roles = ("user", "assistant", "user", "assistant")
    gaps = [_gaps(tokenizer, roles, contents) for contents in _MESSAGES]
    if gaps[0] != gaps[1] or gaps[0] is None:
        return None
    first, reply, question, _, tail = gaps[0]
    system = _gaps(tokenizer, ("system", *roles), ("kilo", *_MESSAGES[0]), refusable=True)
    heads = [head for head in (first, system[0] if system else ()) if head and not _contains(question, head)]
    if not reply or not question:
        return None
    return Chat(reply, question, tail[0] if tail else None, tuple(dict.fromkeys(heads)))


def _gaps(
    tokenizer: Any, roles: Sequence[str], contents: Sequence[str], *, refusable: bool = False
) -> list[tuple[int, ...]] | None:
    """The tokens before each of these messages and after the last one, as far as no token is part of a message."""
    messages = [{"role": role, "content": content} for role, content in zip(roles, contents, strict=True)]
    try:
        text = tokenizer.apply_chat_template(messages, tokenize=False)
    except Exception:
        if refusable:
            return None
        raise
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    bounds, at = [0], 0
    for content in contents:
        at = text.index(content, at)
        bounds += [at, at + len(content)]
        at += len(content)
    bounds.append(len(text))
    pairs = list(zip(encoded["input_ids"], encoded["offset_mapping"], strict=True))
    return [
        tuple(token for token, (start, end) in pairs if low <= start < end <= high)
        for low, high in zip(bounds[::2], bounds[1::2], strict=True)
    ]


def _contains(whole: Sequence[int], part: Sequence[int]) -> bool:
    return any(tuple(whole[start : start + len(part)]) == tuple(part) for start in range(len(whole) - len(part) + 1))


def learned_turns(rows: Sequence[TokenRow], chat: Chat | None, word: Word) -> LearnedTurns | None:
    """Which turns have labels; None if none is known, or nothing is a label of a causal model."""
    causal = [row for row in rows if row.targets is not None and bool((row.targets != IGNORED).any())]
    if not causal:
        return None
    ignores = any(ignores_within(row) for row in causal)
    if chat is None:
        return _shifted(causal, word, ignores=ignores)
    conversations = [_turns_of(row, chat) for row in causal]
    first = [questions[0] for questions, _ in conversations if questions]
    later = [question for questions, _ in conversations for question in questions[1:]]
    replies = [reply for _, every in conversations for reply in every if reply.labelled.any()]
    if not first:
        return None
    learned = [[turn for turn in turns if turn.labelled.all()] for turns in (first, later)]
    shown = next(iter([*learned[0], *learned[1]]), None)
    start, end = _hidden(replies, at_end=False), _hidden(replies, at_end=True)
    broken = [] if start or end else _broken(conversations)
    reply = replies[0] if replies and (start or end) else next(iter(broken), None)
    place = (int(_edges(reply)[0]) if broken else reply.start if start else reply.end - 1) if reply else 0
    return LearnedTurns(
        len(first),
        len(later),
        len(learned[0]),
        len(learned[1]),
        len(replies),
        start,
        end,
        ignores,
        shown=excerpt(shown.row, [shown.start], word) if shown else None,
        shown_reply=excerpt(reply.row, [place], word) if reply else None,
        spot=spot_in("labels", shown.row, [shown.start]) if shown else None,
        reply_spot=spot_in("labels", reply.row, [place]) if reply else None,
        broken=len(broken),
        labels=_columns(_spans(broken[0].row)) if broken else None,
        turns=_columns([(turn.start, turn.end) for turn in _replies_of(broken[0].row, conversations)])
        if broken
        else None,
    )


def ignores_within(row: TokenRow) -> bool:
    """Whether a token between others of a row has no label, as prompts have none.

    Padding stands at the ends of rows, and the first token of a later document is predicted from another one.
    """
    assert row.targets is not None
    content = np.flatnonzero(row.inside)
    labelled = np.flatnonzero(row.targets != IGNORED)
    within = content[(content > content[0]) & (content < labelled[-1])] if len(content) and len(labelled) else content
    return bool((row.targets[np.setdiff1d(within, row.starts)] == IGNORED).any())


def _turns_of(row: TokenRow, chat: Chat) -> tuple[list[_Turn], list[_Turn]]:
    """The questions and the replies of a row; of the first question only its last token is known."""
    tokens = row.tokens.tolist()
    heads, nexts = (_places(tokens, head) for head in (chat.reply, chat.question))
    width = int(np.flatnonzero(row.inside)[-1]) + 1 if row.inside.any() else 0
    questions: list[_Turn] = []
    replies: list[_Turn] = []
    for head, following in pairwise([*heads, None]):
        assert head is not None
        before = [place + len(chat.question) for place in nexts if place < head]
        question = before[-1] if before and (not replies or before[-1] >= replies[-1].end) else head - 1
        if 0 < question < head:
            questions.append(_Turn(row, question, head))
        start = head + len(chat.reply)
        ends = [place for place in nexts if place >= start]
        ends += [place for place in range(start, width) if tokens[place] == chat.stop][:1]
        end = min([*ends, width if following is None else following])
        if start < end:
            replies.append(_Turn(row, start, end))
    return questions, replies


def _places(tokens: Sequence[int], head: Sequence[int]) -> list[int]:
    return [
        place for place in range(len(tokens) - len(head) + 1) if tuple(tokens[place : place + len(head)]) == tuple(head)
    ]


def _hidden(replies: Sequence[_Turn], *, at_end: bool) -> int:
    """How many tokens without a label all replies begin or end with; 0 if the same ones begin or end them in all.

    The end of a thought that is left out of the loss is one token, however long the thought is.
    """
    runs = [int(np.argmax(reply.labelled[::-1] if at_end else reply.labelled)) for reply in replies]
    count = min(runs, default=0)
    if not count:
        return 0
    columns = [
        (reply.end - 1, reply.end - run) if at_end else (reply.start, reply.start + run - 1)
        for reply, run in zip(replies, runs, strict=True)
    ]
    hidden = [
        {int(reply.row.tokens[place[side]]) for reply, place in zip(replies, columns, strict=True)} for side in (0, 1)
    ]
    return count if min(map(len, hidden)) >= FEWEST_WORDS else 0


MOST_EDGES = 2
"""How often labels of moved spans begin or end within a turn, on average: both at most. Labels that are chosen token by
token do more often."""


def _broken(conversations: Sequence[tuple[Sequence[_Turn], Sequence[_Turn]]]) -> list[_Turn]:
    """The turns within which labels begin or end, the first of each row, if most rows have one; [] if on purpose.

    It is where one token stands before or after all these places, as the end of a thought does, where they have one
    distance from the start or the end of all rows or their padding, and where labels are chosen token by token.
    """
    turns = [_with_prompts(replies) for _, replies in conversations if replies]
    broken = [[turn for turn in every if len(_edges(turn))] for every in turns]
    broken = [every for every in broken if every]
    places = [(turn.row, int(edge)) for every in broken for turn in every for edge in _edges(turn)]
    around = [{int(row.tokens[place + side]) for row, place in places} for side in (-1, 0)]
    seen = [np.flatnonzero(row.inside)[[0, -1]] for row, _ in places]
    columns = [
        {place for _, place in places},
        {len(row.tokens) - place for row, place in places},
        {place - int(first) for (_, place), (first, _) in zip(places, seen, strict=True)},
        {int(last) - place for (_, place), (_, last) in zip(places, seen, strict=True)},
    ]
    aligned = min(map(len, [*around, *columns])) < FEWEST_WORDS
    moved = len(places) <= MOST_EDGES * sum(map(len, broken))
    return [every[0] for every in broken] if moved and not aligned and 2 * len(broken) >= len(turns) else []


def _with_prompts(replies: Sequence[_Turn]) -> list[_Turn]:
    """The replies of a row, and what stands before each of them, up to the one before."""
    row = replies[0].row
    ends = [int(np.argmax(row.inside)), *(reply.end for reply in replies)]
    before = [_Turn(row, end, reply.start) for end, reply in zip(ends, replies, strict=False) if end < reply.start]
    return sorted([*replies, *before], key=lambda turn: turn.start)


def _replies_of(row: TokenRow, conversations: Sequence[tuple[Sequence[_Turn], Sequence[_Turn]]]) -> list[_Turn]:
    return [turn for _, replies in conversations for turn in replies if turn.row is row]


def _edges(turn: _Turn) -> np.ndarray:
    """The columns within a turn in which labels begin, or are no longer."""
    return turn.start + 1 + np.flatnonzero(np.diff(turn.labelled.astype(int)))


def _spans(row: TokenRow) -> list[tuple[int, int]]:
    """Where runs of labels begin and end in a row."""
    edges = np.flatnonzero(np.diff((_targets(row) != IGNORED).astype(int), prepend=0, append=0))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _columns(spans: Sequence[tuple[int, int]]) -> str:
    """Spans of columns for readers, with their last one."""
    return ", ".join(f"{start} to {end - 1}" for start, end in spans)


def _shifted(rows: Sequence[TokenRow], word: Word, *, ignores: bool) -> LearnedTurns | None:
    """Spans of labels that begin at one distance from a token that begins all replies, and nothing else."""
    spans = [_Turn(row, int(start), 0) for row in rows for start in _span_starts(row)]
    spans = [span for span in spans if span.start > MOST_SHIFT]
    if len(spans) < FEWEST_SPANS:
        return None
    everywhere = Counter(int(token) for row in rows for token in row.text)
    for shift in range(1, MOST_SHIFT + 1):
        heads = {int(span.row.tokens[span.start - 1 - shift]) for span in spans}
        between = [{int(span.row.tokens[span.start - place]) for span in spans} for place in range(1, shift + 1)]
        learned = any(_targets(span.row)[span.start - 1 - shift] != IGNORED for span in spans)
        if len(heads) > 1 or min(map(len, between)) < FEWEST_WORDS or learned:  # A learned one ends a document.
            continue
        head = heads.pop()
        if len(spans) >= DEDICATED_SHARE * everywhere[head]:
            span = spans[0]
            places = range(span.start - shift, span.start)
            return LearnedTurns(
                0,
                0,
                0,
                0,
                len(spans),
                shift,
                0,
                ignores,
                named(head, word),
                shown_reply=excerpt(span.row, places, word),
                reply_spot=spot_in("labels", span.row, places),
            )
    return None


def _targets(row: TokenRow) -> np.ndarray:
    assert row.targets is not None
    return row.targets


def _span_starts(row: TokenRow) -> np.ndarray:
    """Where labels begin after tokens that have none."""
    labelled = _targets(row) != IGNORED
    return np.flatnonzero(labelled[1:] & ~labelled[:-1]) + 1
