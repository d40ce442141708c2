"""DG407 unmasked-padding: collate_fn pads, and the batch has no lengths or mask."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import PackedSequence, pack_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset, default_collate

from sample_datasets._parts import picture

Sound = tuple[Tensor, int]


def length_of(number: int) -> int:
    """From five to eleven, in no order."""
    return 5 + number * 3 % 7


class Sounds(Dataset[Sound]):
    """Four measurements at each of five to eleven moments, and one of three classes."""

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> Sound:
        number, length = range(32)[index], length_of(index)
        wave = torch.sin(torch.arange(4 * length) * (0.3 + number / 50)).reshape(length, 4)
        return wave, number % 3


def loader(dataset: Dataset, collate: Any) -> DataLoader[Any]:
    return DataLoader(dataset, batch_size=8, shuffle=True, num_workers=2, collate_fn=collate)


def pad_sounds(samples: list[Sound]) -> tuple[Tensor, Tensor]:
    """Silence at the end."""
    labels = torch.tensor([label for _, label in samples])
    return pad_sequence([wave for wave, _ in samples], batch_first=True), labels  # culprit


def bad() -> DataLoader[Any]:
    """Zeros at the end look like sound that happens to be zero."""
    return loader(Sounds(), pad_sounds)


class Texts(Dataset[Sound]):
    """Token numbers from `first` on, and one of two classes."""

    def __init__(self, first: int = 0) -> None:
        self.first = first

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> Sound:
        number = range(32)[index]
        return (torch.arange(length_of(number)) * 7 + number) % 20 + self.first, number % 2


def bad_tokens() -> DataLoader[Any]:
    """Token 0 is a word like any other, and fills up as well."""
    return loader(Texts(), pad_sounds)


class Scans(Dataset[tuple[Tensor, int]]):
    """Pictures of different height with values from 0 to 1."""

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        number = range(32)[index]
        return picture(number, height=length_of(number)).round(decimals=1), number % 4


def pad_scans(samples: list[tuple[Tensor, int]]) -> dict[str, Tensor]:
    """Black below."""
    height = max(image.shape[1] for image, _ in samples)
    images = [pad(image, (0, 0, 0, height - image.shape[1])) for image, _ in samples]  # culprit
    return {"image": torch.stack(images), "label": torch.tensor([label for _, label in samples])}  # culprit


def bad_scans() -> DataLoader[Any]:
    """Black is a colour."""
    return loader(Scans(), pad_scans)


class Words(Dataset[dict[str, Any]]):
    """Words as text."""

    words = ("abandon", "banana", "cab", "data", "a", "abacus", "fable", "gab", "jackal", "lava", "mad", "salad")

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"text": self.words[index], "label": index % 2}


def spell(samples: list[dict[str, Any]]) -> dict[str, Tensor]:
    """Letters counted from 0, filled up with 0."""
    letters = [torch.tensor([ord(letter) - ord("a") for letter in sample["text"]]) for sample in samples]
    labels = torch.tensor([sample["label"] for sample in samples])
    return {"letters": pad_sequence(letters, batch_first=True), "label": labels}  # culprit


def bad_words() -> DataLoader[Any]:
    """Text is made into numbers by collate_fn, and what fills up is the letter a."""
    return loader(Words(), spell)


def with_lengths(samples: list[Sound]) -> dict[str, Tensor]:
    waves, labels = pad_sounds(samples)
    return {"wave": waves, "length": torch.tensor([len(wave) for wave, _ in samples]), "label": labels}


def measured_late(samples: list[Sound]) -> dict[str, Tensor]:
    waves, labels = pad_sounds(samples)
    return {"wave": waves, "length": torch.tensor([len(wave) for wave in waves]), "label": labels}  # culprit


def bad_late_lengths_of_tokens() -> DataLoader[Any]:
    """No token is 0, but the lengths say that all of it is text."""
    return loader(Texts(first=1), measured_late)


def bad_late_lengths() -> DataLoader[Any]:
    """Lengths are taken after padding, so that all are those of the longest."""
    return loader(Sounds(), measured_late)


def good() -> DataLoader[Any]:
    """The lengths are there."""
    return loader(Sounds(), with_lengths)


def with_mask(samples: list[Sound]) -> dict[str, Tensor]:
    waves, labels = pad_sounds(samples)
    masks = pad_sequence([torch.ones(len(wave), dtype=torch.bool) for wave, _ in samples], batch_first=True)
    return {"wave": waves, "ignore": ~masks, "label": labels}


def good_mask() -> DataLoader[Any]:
    """True where there is nothing."""
    return loader(Sounds(), with_mask)


def good_pad_token() -> DataLoader[Any]:
    """No word has the number 0."""
    return loader(Texts(first=1), pad_sounds)


def with_ignored(samples: list[Sound]) -> dict[str, Tensor]:
    waves, _ = pad_sounds(samples)
    tags = [(wave[:, 0] > 0).long() for wave, _ in samples]
    return {"wave": waves, "tags": pad_sequence(tags, batch_first=True, padding_value=-100)}


def good_ignored() -> DataLoader[Any]:
    """Targets are filled up with -100, which the loss ignores."""
    return loader(Sounds(), with_ignored)


def with_shares(samples: list[Sound]) -> tuple[Tensor, Tensor, Tensor]:
    waves, labels = pad_sounds(samples)
    return waves, torch.tensor([len(wave) / waves.shape[1] for wave, _ in samples]), labels


def good_shares() -> DataLoader[Any]:
    """Lengths as shares of the longest, as SpeechBrain has them."""
    return loader(Sounds(), with_shares)


def with_attention(samples: list[Sound]) -> dict[str, Tensor]:
    waves, labels = pad_sounds(samples)
    mask = torch.zeros(len(samples), 1, waves.shape[1])
    for row, (wave, _) in enumerate(samples):
        mask[row, :, len(wave) :] = -torch.inf
    return {"wave": waves, "attention": mask, "label": labels}


def with_full_mask(samples: list[Sound]) -> dict[str, Tensor]:
    tokens, labels = pad_sounds(samples)
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "label": labels}  # culprit


def bad_full_mask() -> DataLoader[Any]:
    """A mask that is made after padding, and so masks nothing."""
    return loader(Texts(first=1), with_full_mask)


def with_token_mask(samples: list[Sound]) -> dict[str, Tensor]:
    tokens, labels = pad_sounds(samples)
    return {"input_ids": tokens, "attention_mask": (tokens != 0).long(), "label": labels}


def good_token_mask() -> DataLoader[Any]:
    """A mask that leaves out the padding."""
    return loader(Texts(first=1), with_token_mask)


def good_attention() -> DataLoader[Any]:
    """A mask to be added to attention scores."""
    return loader(Sounds(), with_attention)


def with_sizes(samples: list[tuple[Tensor, int]]) -> tuple[Tensor, list[dict[str, Tensor]]]:
    targets = [{"size": torch.tensor(image.shape[1:]), "label": torch.tensor(label)} for image, label in samples]
    return pad_scans(samples)["image"], targets


def good_sizes() -> DataLoader[Any]:
    """Each target says how large its picture is."""
    return loader(Scans(), with_sizes)


def packed(samples: list[Sound]) -> tuple[PackedSequence, Tensor]:
    labels = torch.tensor([label for _, label in samples])
    return pack_sequence([wave for wave, _ in samples], enforce_sorted=False), labels


def good_packed() -> DataLoader[Any]:
    """Nothing is padded."""
    return loader(Sounds(), packed)


class EvenSounds(Sounds):
    """Five moments each."""

    def __getitem__(self, index: int) -> Sound:
        wave, label = super().__getitem__(index)
        return wave[:5], label


def good_even() -> DataLoader[Any]:
    """All are equally long."""
    return loader(EvenSounds(), default_collate)


def with_labels(mask: bool) -> Any:
    """Collates tokens with a label each; the mask leaves out padding if `mask`, and nothing otherwise."""

    def collate(samples: list[Sound]) -> dict[str, Tensor]:
        tokens = pad_sequence([tokens for tokens, _ in samples], batch_first=True)
        labels = pad_sequence([tokens % 3 for tokens, _ in samples], batch_first=True, padding_value=-100)
        return {
            "input_ids": tokens,
            "attention_mask": (labels >= 0 if mask else labels >= -100).long(),  # culprit
            "labels": labels,
        }

    return collate


def bad_full_mask_with_labels() -> DataLoader[Any]:
    """Labels show what is padding, but the mask attends to all of it."""
    return DataLoader(Texts(), batch_size=8, shuffle=True, collate_fn=with_labels(mask=False))


def good_mask_with_labels() -> DataLoader[Any]:
    """The mask leaves out what labels leave out."""
    return DataLoader(Texts(), batch_size=8, shuffle=True, collate_fn=with_labels(mask=True))


def with_mask_of_moments(samples: list[Sound]) -> dict[str, Tensor]:
    """Padded measurements, their lengths, and a mask of ones with an entry for each moment."""
    waves = pad_sequence([wave for wave, _ in samples], batch_first=True)
    lengths = torch.tensor([len(wave) for wave, _ in samples])
    mask = torch.ones(waves.shape[:2], dtype=torch.long)  # culprit
    return {"wave": waves, "lengths": lengths, "attention_mask": mask}


def bad_full_mask_of_moments() -> DataLoader[Any]:
    """A mask of ones for rows of measurements."""
    return loader(Sounds(), with_mask_of_moments)


def with_mask_of_values(samples: list[Sound]) -> dict[str, Tensor]:
    """Padded tokens, and a mask of all that are not 0."""
    tokens, labels = pad_sounds(samples)
    mask = (tokens != 0).long()  # culprit
    return {"input_ids": tokens, "attention_mask": mask, "token_type_ids": tokens.clone(), "label": labels}


def bad_mask_of_values() -> DataLoader[Any]:
    """Token 0 is a word like any other, and the mask leaves it out."""
    return loader(Texts(), with_mask_of_values)


class Doses(Dataset[Any]):
    """How often something was given in each of five to eleven hours, in some not at all, and a temperature."""

    def __init__(self, kind: str, first: int = 0) -> None:
        self.kind, self.first = kind, first

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        number, length = range(64)[index], length_of(index)
        moments = torch.arange(length) * 7 + number * 11
        doses = moments % (40 if self.kind == "items" else 8) + self.first
        if self.kind == "items":
            return doses, number % 3
        table = torch.stack([doses.float(), 37 + torch.sin(moments.float())], 1)
        if self.kind == "gaps":
            table[moments % 5 == 0] = torch.nan
        return table, number % 3


def by_value(samples: list[Any]) -> dict[str, Tensor]:
    """Padded rows, and a mask of what is not 0 in them, or in their first column."""
    rows, labels = pad_sounds(samples)
    first = rows if rows.ndim == 2 else rows[..., 0]
    return {"x": rows, "mask": first != 0, "y": labels}  # culprit


def bad_mask_of_items() -> DataLoader[Any]:
    """Item 0 is rare, so that the mask gives the lengths of most samples."""
    return loader(Doses("items"), by_value)


def bad_mask_of_column() -> DataLoader[Any]:
    """Hours without a dose are hidden as if they were padding."""
    return loader(Doses("table"), by_value)


def good_mask_of_items() -> DataLoader[Any]:
    """Items begin with 1."""
    return loader(Doses("items", 1), by_value)


def beside_lengths(samples: list[Any]) -> dict[str, Tensor]:
    """The same with the lengths: the mask may be one of doses that were given."""
    return {**by_value(samples), "lengths": torch.tensor([len(rows) for rows, _ in samples])}


def good_lengths_beside_mask() -> DataLoader[Any]:
    """A mask of what is not 0 beside the lengths."""
    return loader(Doses("table"), beside_lengths)


def observed(samples: list[Any]) -> dict[str, Tensor]:
    """What was measured, 0 where nothing was, and where that is."""
    rows, labels = pad_sounds(samples)
    lengths = torch.tensor([len(each) for each, _ in samples])
    measured = ~rows.isnan() & (torch.arange(rows.shape[1]) < lengths[:, None])[..., None]
    return {"x": rows.nan_to_num(0.0), "mask": measured, "y": labels}


def good_observed() -> DataLoader[Any]:
    """A mask of what was measured has gaps."""
    return loader(Doses("gaps", 1), observed)


def measured_across(samples: list[Sound]) -> dict[str, Tensor]:
    waves, labels = pad_sounds(samples)
    return {"wave": waves, "length": torch.tensor([wave.shape[1] for wave, _ in samples]), "label": labels}  # culprit


def bad_lengths_across() -> DataLoader[Any]:
    """Lengths are the number of measurements, and not that of moments."""
    return loader(Sounds(), measured_across)


def cut_late(samples: list[Any]) -> dict[str, Tensor]:
    """Rows of eight moments at most, and lengths."""
    rows, labels = pad_sounds(samples)
    lengths = torch.tensor([len(wave) for wave, _ in samples])  # culprit
    return {"x": rows[:, :8], "lengths": lengths, "y": labels}


def bad_lengths_before_cut() -> DataLoader[Any]:
    """Lengths are those of the whole recordings."""
    return loader(Sounds(), cut_late)


def cut_early(samples: list[Any]) -> dict[str, Tensor]:
    """The same with the lengths of what is left, and those of the recordings."""
    rows, labels = pad_sounds([(wave[:8], label) for wave, label in samples])
    lengths = torch.tensor([min(len(wave), 8) for wave, _ in samples])
    return {
        "x": rows,
        "lengths": lengths,
        "total_length": torch.tensor([len(wave) for wave, _ in samples]),
        "y": labels,
    }


def good_lengths_of_recordings() -> DataLoader[Any]:
    """Lengths of the recordings stand beside those of what is left."""
    return loader(Sounds(), cut_early)


class Moments(Dataset[Any]):
    """Recordings that are padded at the beginning, the time of each moment, and which moments there are."""

    def __init__(self, moved: str = "all") -> None:
        self.moved = moved

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        wave, length = Sounds()[index][0], length_of(range(32)[index])
        times = pad(torch.arange(1.0, length + 1), (12 - length, 0))
        shown = pad(torch.ones(length), (12 - length, 0))
        if self.moved == "values":
            times = times.roll(length)  # culprit
        if self.moved == "hidden":
            shown = (shown == 0).float()  # culprit
        return {"x": pad(wave, (0, 0, 12 - length, 0)), "time": times, "attention_mask": shown}


def bad_times_at_the_end() -> DataLoader[Any]:
    """Values are padded at the beginning, and their times at the end."""
    return loader(Moments("values"), default_collate)


def bad_inverted_mask() -> DataLoader[Any]:
    """An attention mask is 1 for padding."""
    return loader(Moments("hidden"), default_collate)


def good_padded_first() -> DataLoader[Any]:
    """All are padded at the beginning."""
    return loader(Moments(), default_collate)


def both_ways(samples: list[Any]) -> dict[str, Tensor]:
    """Recordings forwards and backwards, padded at either end, with a padding mask for each."""
    rows, labels = pad_sounds(samples)
    lengths = torch.tensor([len(wave) for wave, _ in samples])
    padding = torch.arange(rows.shape[1]) >= lengths[:, None]
    return {"x": rows, "padding": padding, "back": rows.flip(1), "back_padding": padding.flip(1), "y": labels}


def good_both_ways() -> DataLoader[Any]:
    """Each direction has its own mask."""
    return loader(Sounds(), both_ways)
