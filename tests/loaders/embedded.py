"""Models of tokens by the size of their embedding, and a tokenizer with and without a model beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

from sample_datasets import _tokens
from sample_datasets.dg410_doubly_shifted_labels import Sentences, loader, padded_and_shifted


class Embedded(nn.Module):
    """Scores the tokens of a small vocabulary."""

    def __init__(self, size: int = 98) -> None:
        super().__init__()
        self.places = nn.Embedding(64, 4)
        self.words = nn.Embedding(size, 4)

    def forward(self, input_ids: Tensor) -> Tensor:
        """The scores."""
        scores: Tensor = self.words(input_ids) @ self.words.weight.T
        return scores


class Trained(nn.Module):
    """Computes its loss, from labels as they are."""

    shift, sees_all = 0, False

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(98, 4)

    def forward(self, input_ids: Tensor, labels: Tensor) -> Tensor:
        """The loss."""
        seen = self.words(input_ids)
        scores = (seen + seen.mean(1, keepdim=True) * self.sees_all) @ self.words.weight.T
        width = labels.shape[1] - self.shift
        return functional.cross_entropy(scores[:, :width].flatten(0, 1), labels[:, self.shift :].flatten())


class Shifting(Trained):
    """The same, from labels that it shifts."""

    shift = 1


class Restoring(Trained):
    """Sees all tokens, and restores them."""

    sees_all = True


def copied(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Tokens, twice."""
    return tokens, tokens.clone()


def copies() -> DataLoader[Any]:
    return loader(Sentences(copied))


def small() -> Embedded:
    return Embedded()


def large() -> Embedded:
    return Embedded(200)


class Collate:
    """Shifts labels, and leaves out the mask."""

    def __init__(self) -> None:
        from tokenizers import Tokenizer, models
        from transformers import PreTrainedTokenizerFast

        words = Tokenizer(models.WordLevel({f"w{number}": number for number in range(97)}, "w0"))
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_object=words)

    def __call__(self, sentences: list[Tensor]) -> dict[str, Tensor]:
        batch = padded_and_shifted(sentences)
        return {name: batch[name] for name in ("input_ids", "labels")}


def without_model() -> DataLoader[Any]:
    return loader(Sentences(Tensor.clone), collate_fn=Collate())


def with_model() -> DataLoader[Any]:
    import transformers.modeling_utils  # noqa: F401 - what code with a model loads

    return without_model()


def stacked(texts: Sequence[Tensor]) -> dict[str, Tensor]:
    """A batch as a tokenizer made it, which is not kept."""
    return _tokens.Padded(_tokens.unpadded, _tokens.Tokenizer())(texts)


def with_evaluation() -> dict[str, DataLoader[Any]]:
    """Only the loader of evaluation holds the tokenizer."""
    padded = _tokens.Padded(_tokens.unpadded, _tokens.Tokenizer())
    return {"train": _tokens.loader(_tokens.whole, stacked), "val": _tokens.loader(_tokens.whole, padded)}
