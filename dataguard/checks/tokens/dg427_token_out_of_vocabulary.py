"""DG427: ids that no token has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.labels import IGNORED
from dataguard.checks.common.lines import line_at
from dataguard.core.model import Coverage, Finding, Judgement, NotTested, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

FEWEST_IDS = 8
"""So many different ids beyond a tokenizer's are those of another one; a few may be placeholders that were added."""


@check("DG427", "token-out-of-vocabulary", Severity.ERROR, since="2026.3")
def dg427_token_out_of_vocabulary(lab: Lab) -> Judgement:
    """Ids are outside the vocabulary, or were changed by a dtype that is too narrow.

    Symptom: "index out of range in self", or a device-side assert; with wrapped ids no error at all, but a model that
        learns other tokens than the text has.
    Cause: data that another tokenizer prepared; tokens stored as uint16 though the vocabulary has more than 65,536;
        labels such as -1, which the loss does not ignore; items numbered from 0 and padded with 0; negatives drawn
        from more ids than there are items.
    Fix: prepare the data with the tokenizer of the model; store ids as uint32; mark what is not learned with -100, or
        declare the label that your loss ignores: `[tool.dataguard.contract] ignore_index = -1`. Declare the size of
        the embedding if it is larger: `vocab_size = 32064`.
    Links: https://docs.pytorch.org/docs/stable/generated/torch.nn.Embedding.html
    """
    read = lab.tokens.read
    vocabulary, seen, labels = read.vocabulary, read.ids, read.names.get("labels")
    ignored = lab.settings.contract.get("ignore_index", ())
    ignored = {IGNORED, *(ignored if isinstance(ignored, list | tuple) else [ignored])}
    negative = {value: count for value, count in seen.negative if value not in ignored}
    if vocabulary.size is None and not labels and lab.settings.model is None and seen.padding is None:
        raise NotTested("the vocabulary is unknown: no tokenizer found, and no vocab_size in the contract")
    declared = "vocab_size" in vocabulary.declared
    embedded = None if declared else lab.model.vocabulary
    if embedded is not None and seen.largest >= embedded:
        yield Finding(
            message=f"ids of batch{read.names['tokens']} go up to {seen.largest:,}, but the largest embedding of the "
            f"model takes {embedded:,} ids",
        )
    elif embedded is None and seen.place and (declared or seen.distinct >= FEWEST_IDS):
        batch, row = place = seen.place
        source = "the contract" if declared else str(vocabulary.where)
        yield Finding(
            message=f"{seen.beyond:,} ids of batch{read.names['tokens']} are {vocabulary.size:,} or larger, up to "
            f"{seen.largest:,}, but {source} has {vocabulary.size:,} tokens; the first is row {row} of batch {batch}",
            evidence=without_empty({"different ids": seen.distinct, "the row": seen.shown}),
            at=line_at(lab.tokens.line_of_tokens, place),
        )
    yield from _items(lab, embedded)
    if negative and (read.model_keys or seen.ignores):
        values = ", ".join(map(str, negative))
        yield Finding(
            message=f"{sum(negative.values()):,} labels of batch{labels} are {values}, which the loss does not ignore",
            evidence={
                "fix here": f"batch{labels}[batch{labels} < 0] = -100",
                "labels by value": {str(value): count for value, count in negative.items()},
            },
            at=line_at(lab.tokens.line, seen.negative_spot),
        )
    narrow = read.narrow
    if narrow is not None and seen.largest < narrow.ids:
        yield Finding(
            message=f"{narrow.where} stores tokens as {narrow.dtype}, which holds {narrow.ids:,} ids, "
            f"but the vocabulary has {vocabulary.size:,}: larger ids are wrapped",
            evidence={"fix here": f"store {narrow.where} as uint32", "largest id": seen.largest},
            at=line_at(lab.tokens.line_of_storage, narrow.where, narrow.dtype),
        )
    elif (wrapped := seen.wrapped) is not None:
        batch, row = wrapped.place
        yield Finding(
            message=f"the special token {wrapped.token:,} never occurs in batch{read.names['tokens']}, but its last "
            f"{wrapped.bits} bits, {wrapped.stored:,}, do in its places, {wrapped.count} times: ids were stored in "
            f"{wrapped.bits} bits; the first is in row {row} of batch {batch}",
            evidence={
                "fix here": "store ids as uint32",
                "times": wrapped.count,
                "largest id": seen.largest,
                "a row": wrapped.shown,
            },
            at=line_at(lab.tokens.line_of_tokens, wrapped.place),
        )
    return Coverage(read.exercised, read.note)


def _items(lab: Lab, embedded: int | None) -> Iterator[Finding]:
    """Items of a catalogue: one that is the padding, too, and negatives that no item has."""
    read = lab.tokens.read
    seen, tokens = read.ids, f"batch{read.names['tokens']}"
    declared = "vocab_size" in read.vocabulary.declared
    limit = read.vocabulary.size if declared else embedded
    if limit is not None and seen.negatives is not None and seen.negatives >= limit:
        yield Finding(
            message=f"negatives of batch{read.names['negatives']} go up to {seen.negatives:,}, but "
            f"{'the contract' if declared else 'the largest embedding of the model'} has {limit:,} ids",
            evidence={"fix here": f"draw negatives below {limit}", "largest id": seen.largest},
        )
    item = seen.padding
    if item is not None:
        yield Finding(
            message=f"id {item.item} pads rows of {tokens}, and is an item, too: it stands among others in "
            f"{item.rows} rows, as often as other items do",
            evidence={
                "fix here": "number items from 1, or pad with another id",
                "a row": item.shown,
            },
            at=line_at(lab.tokens.line, item.spot),
            ambiguous=True,
        )
