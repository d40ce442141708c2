"""DG402 lossy-collate: a batch does not match what the dataset returns for its indices."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import interpolate, one_hot
from torch.nn.utils.rnn import PackedSequence, pack_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from sample_datasets._parts import Pictures, picture, share

Sentence = tuple[Tensor, int]


class Sentences(Dataset[Sentence]):
    """Token numbers from 1 on, in sentences of three to seven tokens, of two classes."""

    def __init__(self, count: int = 32) -> None:
        self.sentences = [torch.arange(3 + number * 3 % 5) + 1 + number for number in range(count)]
        self.labels = [number // 3 % 2 for number in range(count)]

    def __len__(self) -> int:
        return len(self.sentences)

    def __getitem__(self, index: int) -> Sentence:
        return self.sentences[index], self.labels[index]


def lengths_of(sentences: Sequence[Tensor]) -> Tensor:
    return torch.tensor([len(sentence) for sentence in sentences])


def sort_sentences(samples: list[Sentence]) -> dict[str, Tensor]:
    """The longest first, as packing wants it; the labels stay where they were."""
    sentences = sorted((sentence for sentence, _ in samples), key=len, reverse=True)  # culprit
    labels = torch.tensor([label for _, label in samples])  # culprit
    return {"tokens": pad_sequence(sentences, batch_first=True), "lengths": lengths_of(sentences), "labels": labels}


def bad() -> DataLoader[Any]:
    """The sentences are sorted by length, and their labels are not."""
    return DataLoader(Sentences(), batch_size=8, shuffle=True, num_workers=2, collate_fn=sort_sentences)


def pack_sentences(samples: list[Sentence]) -> tuple[PackedSequence, Tensor]:
    """A packed sequence, which has to be sorted, and the labels."""
    sentences = sorted((sentence for sentence, _ in samples), key=len, reverse=True)  # culprit
    return pack_sequence(sentences), torch.tensor([label for _, label in samples])  # culprit


def bad_packed() -> DataLoader[Any]:
    """The packed sentences are in another order than their labels."""
    return DataLoader(Sentences(), batch_size=8, num_workers=2, collate_fn=pack_sentences)


def drop_last_sample(samples: list[tuple[Tensor, int]]) -> dict[str, Tensor]:
    """Inputs and labels; the loop ends one too early."""
    pictures = [samples[row][0] for row in range(len(samples) - 1)]  # culprit
    labels = [samples[row][1] for row in range(len(samples) - 1)]  # culprit
    return {"image": torch.stack(pictures), "label": torch.tensor(labels)}


def bad_short() -> DataLoader[Any]:
    """The last sample of every batch is left out."""
    return DataLoader(Pictures(32), batch_size=8, num_workers=2, collate_fn=drop_last_sample)


def by_label(samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
    """Gathered in a dict, whose keys are not unique."""
    gathered = {label: image for image, label in samples}  # culprit
    return torch.stack(list(gathered.values())), torch.tensor(list(gathered))


def bad_keyed() -> DataLoader[Any]:
    """Of the samples of one label, only the last one is left."""
    return DataLoader(Pictures(32), batch_size=8, num_workers=2, collate_fn=by_label)


class ArrayPictures(Pictures):
    """Pictures that are written into one buffer each time."""

    def __init__(self) -> None:
        super().__init__(32)
        self.brightness = [torch.tensor(0.25 + number / 64) for number in range(32)]

    def __getitem__(self, index: int) -> Any:
        return {"image": self.images[index], "brightness": self.brightness[index], "label": self.labels[index]}


def subtract_mean(samples: list[dict[str, Any]]) -> Any:
    """Each picture around zero, in place."""
    for sample in samples:
        sample["image"] -= sample["image"].mean() - sample["brightness"]  # culprit
        sample["image"] *= 0.5  # culprit
    return default_collate(samples)


def bad_in_place() -> DataLoader[Any]:
    """collate_fn writes into pictures that the dataset holds, and each epoch finds them darker."""
    return DataLoader(ArrayPictures(), batch_size=8, collate_fn=subtract_mean)


class TokenRows(Dataset):
    """Tokens in dicts that are made once, as a tokenizer makes them; `copied` when they are read."""

    def __init__(self, *, copied: bool = False) -> None:
        self.rows = [{"tokens": [1 + (place * number) % 97 for place in range(3 + number % 9)]} for number in range(32)]
        self.copied = copied

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        return dict(self.rows[index]) if self.copied else self.rows[index]


def padded_rows(rows: list[dict[str, list[int]]]) -> Tensor:
    """Tokens, and zeros up to the longest row of the batch, which are written into the rows."""
    longest = max(len(row["tokens"]) for row in rows)
    for row in rows:
        row["tokens"] = row["tokens"] + [0] * (longest - len(row["tokens"]))  # culprit
    return torch.tensor([row["tokens"] for row in rows])


def bad_padded_in_place() -> DataLoader[Any]:
    """The dataset's own rows are padded: in the next epoch, they have the length of the last one's batch."""
    return DataLoader(TokenRows(), batch_size=8, shuffle=True, collate_fn=padded_rows)


def good_padded_in_place() -> DataLoader[Any]:
    """Padding is written into copies of the rows."""
    return DataLoader(TokenRows(copied=True), batch_size=8, shuffle=True, collate_fn=padded_rows)


def whole_scores(samples: list[tuple[Tensor, float]]) -> tuple[Tensor, Tensor]:
    """Labels as whole numbers, as for classes, although they are scores between 0 and 1."""
    return torch.stack([image for image, _ in samples]), torch.tensor([score for _, score in samples]).long()  # culprit


class Scored(Pictures):
    """Pictures with a score between 0 and 1."""

    def __getitem__(self, index: int) -> Any:
        image, _ = super().__getitem__(index)
        return image, range(32)[index] / 32


def bad_truncated() -> DataLoader[Any]:
    """Scores between 0 and 1 become whole numbers: all of them zero."""
    return DataLoader(Scored(32), batch_size=8, num_workers=2, collate_fn=whole_scores)


class Rows(Dataset[tuple[float, int]]):
    """Rows of a table in SQLite, whole batches of them by one query."""

    def __init__(self, query: str = "select id, x, y from rows where id in ({marks})") -> None:
        self.query = query
        self.base: sqlite3.Connection | None = None

    def connect(self) -> sqlite3.Connection:
        """Connect where it is first needed, hence in each worker."""
        if self.base is None:
            self.base = sqlite3.connect(":memory:")
            self.base.execute("create table rows (id integer primary key, x real, y integer)")
            values = [(number, number * 0.618034 % 1, number * 7 % 5) for number in range(len(self))]
            self.base.executemany("insert into rows values (?, ?, ?)", values)
        return self.base

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> Any:
        return self.__getitems__([range(len(self))[index]])[0]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        query = self.query.format(marks=", ".join("?" * len(indices)))
        found = self.connect().execute(query, [int(index) for index in indices]).fetchall()  # culprit
        return [(torch.tensor([x, 1 - x]), y) for _, x, y in found]  # culprit


def bad_query() -> DataLoader[Any]:
    """The database gives rows in its own order, whatever was asked for."""
    return DataLoader(Rows(), batch_size=8, shuffle=True, num_workers=2)


class RangeRows(Rows):
    """All rows between two indices, the upper one included."""

    def __getitems__(self, indices: list[int]) -> list[Any]:
        rows = range(min(indices), min(max(indices) + 1, len(self) - 1) + 1)  # culprit
        return [row for number in rows for row in Rows.__getitems__(self, [number])]


def bad_range() -> DataLoader[Any]:
    """A batch of neighbours comes with the first sample of the next one."""
    return DataLoader(RangeRows(), batch_size=8, num_workers=2)


class SeparateRows(Rows):
    """Inputs in the order of the indices, labels by a query of their own."""

    def __getitems__(self, indices: list[int]) -> list[Any]:
        rows = {number: (x, y) for number, x, y in self.connect().execute("select id, x, y from rows")}
        labels = [rows[index][1] for index in sorted(indices)]  # culprit
        return [(torch.tensor([rows[index][0]]), label) for index, label in zip(indices, labels, strict=True)]


def bad_labels() -> DataLoader[Any]:
    """Inputs come as they were asked for, and labels sorted by their number."""
    return DataLoader(SeparateRows(), batch_size=8, shuffle=True, num_workers=2)


class TwoViews(Pictures):
    """Two views of each picture: as it is, and turned upside down."""

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return [image, image.flip(1)], label


def view_after_view(samples: list[Any]) -> tuple[Tensor, Tensor]:
    """All first views, then all second ones; the labels are repeated one by one."""
    views = torch.cat([torch.stack([views[number] for views, _ in samples]) for number in range(2)])  # culprit
    return views, torch.tensor([label for _, label in samples]).repeat_interleave(2)  # culprit


def bad_views() -> DataLoader[Any]:
    """Labels of two views of a picture follow each other, and the views do not."""
    return DataLoader(TwoViews(32), batch_size=8, num_workers=2, collate_fn=view_after_view)


class SentenceStream(IterableDataset[Sentence]):
    """The sentences as a stream."""

    def __iter__(self) -> Iterator[Sentence]:
        sentences = Sentences()
        return (sentences[number] for number in share(range(len(sentences))))


def bad_stream() -> DataLoader[Any]:
    """A stream of sentences, sorted apart from their labels."""
    return DataLoader(SentenceStream(), batch_size=8, num_workers=2, collate_fn=sort_sentences)


def sort_samples(samples: list[Sentence]) -> dict[str, Tensor]:
    """The longest first, with their labels."""
    samples = sorted(samples, key=lambda sample: len(sample[0]), reverse=True)
    sentences = [sentence for sentence, _ in samples]
    labels = torch.tensor([label for _, label in samples])
    return {"tokens": pad_sequence(sentences), "lengths": lengths_of(sentences), "labels": labels}


def good() -> DataLoader[Any]:
    """Whole samples are sorted by length, and time comes first in the batch."""
    return DataLoader(Sentences(), batch_size=8, shuffle=True, num_workers=2, collate_fn=sort_samples)


def pack_samples(samples: list[Sentence]) -> tuple[PackedSequence, Tensor]:
    """A packed sequence that remembers how it was sorted, and the labels as they came."""
    packed = pack_sequence([sentence for sentence, _ in samples], enforce_sorted=False)
    return packed, torch.tensor([label for _, label in samples])


def good_packed() -> DataLoader[Any]:
    """Packing sorts, and unpacking undoes it."""
    return DataLoader(Sentences(), batch_size=8, num_workers=2, collate_fn=pack_samples)


def sort_and_remember(samples: list[Sentence]) -> dict[str, Tensor]:
    """The longest first, and how to put the model's answers back into the order of the labels."""
    sentences, labels = [sentence for sentence, _ in samples], torch.tensor([label for _, label in samples])
    lengths, order = lengths_of(sentences).sort(descending=True)
    tokens = pad_sequence([sentences[place] for place in order], batch_first=True)
    return {"tokens": tokens, "lengths": lengths, "order": order, "labels": labels}


def good_remembered() -> DataLoader[Any]:
    """Sentences are sorted, labels are not, and the batch says how."""
    return DataLoader(Sentences(), batch_size=8, num_workers=2, collate_fn=sort_and_remember)


def mix_up(samples: list[tuple[Tensor, int]]) -> dict[str, Tensor]:
    """Each picture blended with another one of the batch, with both labels."""
    images, labels = default_collate(samples)
    order, share = torch.randperm(len(samples)), torch.distributions.Beta(0.4, 0.4).sample()
    mixed = share * images + (1 - share) * images[order]
    return {"image": mixed, "label": labels, "other": labels[order], "share": share}


def good_mixup() -> DataLoader[Any]:
    """Pictures are blended in the batch, and each has two labels."""
    return DataLoader(Pictures(32), batch_size=8, shuffle=True, num_workers=2, collate_fn=mix_up)


def mix_all(samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
    """Each picture and each label blended with others of the batch."""
    images, labels = default_collate(samples)
    targets = torch.nn.functional.one_hot(labels, 64).float()
    share = float(torch.distributions.Beta(1.0, 1.0).sample())
    return images.lerp(images.roll(1, 0), share), targets.lerp(targets.roll(1, 0), share)


def good_mixed_labels() -> DataLoader[Any]:
    """Pictures and labels are blended in the batch, so that no row is a sample."""
    return DataLoader(Pictures(32), batch_size=8, shuffle=True, num_workers=2, collate_fn=mix_all)


def with_negatives(samples: list[tuple[Tensor, int]]) -> dict[str, Tensor]:
    """Each picture with its neighbour as a negative, and the diagonal as the target of a contrastive loss."""
    images, labels = default_collate(samples)
    return {"anchor": images, "negative": images.roll(1, 0), "label": labels, "target": torch.arange(len(samples))}


def good_contrastive() -> DataLoader[Any]:
    """Negatives are other pictures of the batch, on purpose."""
    return DataLoader(Pictures(32), batch_size=8, num_workers=2, collate_fn=with_negatives)


class SomeBroken(Pictures):
    """Pictures, one in eight of which cannot be read."""

    def __getitem__(self, index: int) -> Any:
        return None if index % 8 == 3 else super().__getitem__(index)


def skip_none(samples: list[Any]) -> Any:
    """What could be read."""
    return default_collate([sample for sample in samples if sample is not None])


def good_skipped() -> DataLoader[Any]:
    """Samples that could not be read are left out."""
    return DataLoader(SomeBroken(32), batch_size=8, num_workers=2, collate_fn=skip_none)


def crops(samples: list[Any]) -> tuple[Tensor, Tensor]:
    """Both views of each picture, one after the other, with a label for each."""
    views = torch.stack([view for views, _ in samples for view in views])
    return views, torch.tensor([label for _, label in samples]).repeat_interleave(2)  # culprit


def good_views() -> DataLoader[Any]:
    """Two rows for each sample."""
    return DataLoader(TwoViews(32), batch_size=8, num_workers=2, collate_fn=crops)


def into_rows(samples: list[Sentence], width: int = 16) -> dict[str, Tensor]:
    """Several sentences in one row, as language models are trained, with where each begins."""
    rows: list[list[Tensor]] = [[]]
    for sentence, _ in samples:
        if sum(map(len, rows[-1])) + len(sentence) > width:
            rows.append([])
        rows[-1].append(sentence)
    full = [torch.cat(row) for row in rows]
    places = [torch.cat([torch.arange(len(sentence)) for sentence in row]) for row in rows]
    padded = [pad_sequence(one, batch_first=True, padding_value=-100) for one in (full, places)]
    return {"tokens": padded[0], "positions": padded[1]}


def good_rows() -> DataLoader[Any]:
    """A batch has fewer rows than samples, and all of them are there."""
    return DataLoader(Sentences(), batch_size=8, num_workers=2, collate_fn=into_rows)


def pop_labels(samples: list[dict[str, Any]]) -> dict[str, Tensor]:
    """Take the labels out of the samples, which are new ones each time, and spread them out."""
    labels = torch.tensor([sample.pop("label") for sample in samples])
    images = torch.stack([sample["image"].sub_(0.5) for sample in samples])
    return {"image": images, "label": one_hot(labels, 4)}


class FreshPictures(Pictures):
    """Pictures as dicts with copies of what is held."""

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return {"image": image.clone(), "label": label}


def good_in_place() -> DataLoader[Any]:
    """collate_fn writes into samples that nobody else has."""
    return DataLoader(FreshPictures(32), batch_size=8, num_workers=2, collate_fn=pop_labels)


class OrderedRows(Rows):
    """Rows put into the order of the indices."""

    def __getitems__(self, indices: list[int]) -> list[Any]:
        query = self.query.format(marks=", ".join("?" * len(indices)))
        found = self.connect().execute(query, [int(index) for index in indices]).fetchall()  # culprit
        rows = {number: (torch.tensor([x, 1 - x]), y) for number, x, y in found}
        return [rows[index] for index in indices]


def good_query() -> DataLoader[Any]:
    """One query for a batch, whose rows come as they were asked for."""
    return DataLoader(OrderedRows(), batch_size=8, shuffle=True, num_workers=2)


def episode(samples: list[tuple[Tensor, int]]) -> dict[str, Tensor]:
    """Half of the batch to learn from, the other half to answer about; labels counted anew."""
    half = len(samples) // 2
    images, labels = default_collate(samples)
    _, counted = labels.unique(return_inverse=True)
    return {"support": images[:half], "query": images[half:], "known": counted[:half], "asked": counted[half:]}


def good_episode() -> DataLoader[Any]:
    """A batch is cut in two, as in few-shot learning."""
    return DataLoader(Pictures(32), batch_size=8, num_workers=2, drop_last=True, collate_fn=episode)


def detections(samples: list[tuple[Tensor, int]]) -> tuple[tuple[Tensor, ...], tuple[dict[str, Tensor], ...]]:
    """Side by side, without stacking."""
    targets = [
        {"boxes": torch.tensor([[0.0, 0.0, 4.0, 2.0 + label]]), "labels": torch.tensor([label])} for _, label in samples
    ]
    return tuple(image for image, _ in samples), tuple(targets)


def good_lists() -> DataLoader[Any]:
    """Images and targets in tuples, as detection models take them."""
    return DataLoader(Pictures(32), batch_size=8, shuffle=True, num_workers=2, collate_fn=detections)


class Spoken(Dataset[dict[str, Any]]):
    """Words of different length with a label, as text."""

    words = (
        "to",
        "be",
        "or",
        "not",
        "that",
        "is",
        "the",
        "question",
        "whether",
        "nobler",
        "in",
        "mind",
        "suffer",
        "slings",
    )

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"text": self.words[index], "label": len(self.words[index]) % 2}


def tokenize(samples: list[dict[str, Any]]) -> dict[str, Tensor]:
    """Letters as numbers, filled up with zeros, and a mask."""
    tokens = [torch.tensor([ord(letter) - 96 for letter in sample["text"]]) for sample in samples]
    padded = pad_sequence(tokens, batch_first=True)
    return {"tokens": padded, "mask": padded != 0, "labels": torch.tensor([sample["label"] for sample in samples])}


def good_tokenizer() -> DataLoader[Any]:
    """Text is made into numbers in the batch."""
    return DataLoader(Spoken(), batch_size=8, shuffle=True, num_workers=2, collate_fn=tokenize)


def noisy(samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
    """Noise and a random flip for the whole batch."""
    images, labels = default_collate(samples)
    images = images + 0.01 * torch.randn_like(images)
    return (images.flip(-1) if torch.rand(()) < 0.5 else images), labels


def good_noisy() -> DataLoader[Any]:
    """Pictures are augmented in the batch."""
    return DataLoader(Pictures(32), batch_size=8, shuffle=True, num_workers=2, collate_fn=noisy)


class Inspections(Pictures):
    """Pictures of several sizes with a mask of their defects: they have none."""

    def __getitem__(self, index: int) -> Any:
        size = 8 + index % 3 * 4, 16 - index % 3 * 4
        return {"image": picture(index, *size), "mask": torch.zeros(1, *size), "label": index}


def resize_all(samples: list[dict[str, Any]]) -> dict[str, Tensor]:
    """Pictures and masks in the size of the tallest picture."""
    size = max(sample["image"].shape[1:] for sample in samples)
    images = [interpolate(sample["image"][None], size=size)[0] for sample in samples]
    masks = [interpolate(sample["mask"][None], size=size)[0] for sample in samples]
    labels = torch.tensor([sample["label"] for sample in samples])
    return {"image": torch.stack(images), "mask": torch.stack(masks), "label": labels}


def good_resized() -> DataLoader[Any]:
    """Blank masks of several sizes become equal."""
    return DataLoader(Inspections(32), batch_size=8, shuffle=True, num_workers=2, collate_fn=resize_all)


def good_picture_stream() -> DataLoader[Any]:
    """A stream of pictures, batched by torch."""

    return DataLoader(PictureStream(), batch_size=8, num_workers=2)


class PictureStream(IterableDataset[tuple[Tensor, int]]):
    """The pictures as a stream."""

    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        return ((picture(number), number % 4) for number in share(range(64)))


class Questions(Dataset[dict[str, Any]]):
    """Pictures, each with a question of some number."""

    def __init__(self, each: int) -> None:
        self.each = each

    def __len__(self) -> int:
        return 48

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = range(len(self))[index]
        return {"question": number // self.each, "image": picture(number)}


def by_question(samples: list[dict[str, Any]]) -> dict[str, Tensor]:
    """A dict holds one picture for each question."""
    known = {sample["question"]: sample["image"] for sample in samples}  # culprit
    return {"question": torch.tensor(list(known)), "image": torch.stack(list(known.values()))}


def bad_by_id() -> DataLoader[Any]:
    """Two pictures of one question seldom meet in a batch, and then one is lost."""
    return DataLoader(Questions(2), batch_size=6, shuffle=True, collate_fn=by_question)


def good_by_id() -> DataLoader[Any]:
    """Each picture has a question of its own."""
    return DataLoader(Questions(1), batch_size=6, shuffle=True, collate_fn=by_question)


def good_apart() -> DataLoader[Any]:
    """Pictures of one question are far apart, and never meet in a batch."""
    dataset = Questions(2)
    order = [*range(0, 48, 2), *range(1, 48, 2)]
    return DataLoader(dataset, batch_size=6, sampler=order, collate_fn=by_question)


def with_width(samples: list[dict[str, Any]]) -> dict[str, Tensor]:
    """A picture each, and for all of them the largest number."""
    numbers = [sample["question"] for sample in samples]
    largest = torch.tensor([max(numbers)] * len(numbers))
    return {"image": torch.stack([sample["image"] for sample in samples]), "largest": largest}


def good_of_batch() -> DataLoader[Any]:
    """What is the same in every row describes the batch, and belongs to no sample."""
    return DataLoader(Questions(1), batch_size=6, shuffle=True, collate_fn=with_width)


class Segments(Dataset[dict[str, list[float]]]):
    """Token ids of a question and its answer, and which of both each token belongs to, in short and long lists."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> dict[str, list[float]]:
        generator = torch.Generator().manual_seed(index)
        length = 6 + 4 * (index % 5)
        ids = torch.randint(1, 90, (length,), generator=generator).tolist()
        return {"ids": ids, "types": [int(place > 2) for place in range(length)], "weights": [1 / length] * length}


def pad_fields(samples: list[dict[str, list[float]]], fields: dict[str, str]) -> dict[str, Tensor]:
    """Pads each field of the batch, which is made of that of a sample."""
    batch = {  # culprit
        name: torch.nn.utils.rnn.pad_sequence([torch.tensor(sample[field]) for sample in samples], batch_first=True)
        for name, field in fields.items()  # culprit
    }
    return batch | {"lengths": torch.tensor([len(sample["ids"]) for sample in samples])}


def segments(**fields: str) -> DataLoader[Any]:
    """Batches of four, with these fields."""
    return DataLoader(Segments(), batch_size=4, collate_fn=lambda samples: pad_fields(samples, fields))


def bad_field() -> DataLoader[Any]:
    """Token types are the ids once more."""
    return segments(ids="ids", types="ids", weights="weights")


def good_fields() -> DataLoader[Any]:
    """Each field is its own."""
    return segments(ids="ids", types="types", weights="weights")


def good_renamed() -> DataLoader[Any]:
    """Inputs are what is to be reconstructed, too, and token types are left out."""
    return segments(ids="ids", targets="ids", weights="weights")


def good_exchanged() -> DataLoader[Any]:
    """Two fields exchange their names, and nothing is lost."""
    return segments(weights="ids", ids="weights", types="types")


class Molecules(Dataset[dict[str, Tensor]]):
    """Graphs of atoms with their bonds, the kind of each atom, where two chains end, and an energy."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        drawn = torch.Generator().manual_seed(index)
        atoms = 4 + index * 5 % 7
        return {
            "x": torch.randn(atoms, 3, generator=drawn),
            "edge_index": torch.randint(0, atoms, (2, 2 * atoms), generator=drawn),
            "kind_index": torch.randint(0, 30, (atoms,), generator=drawn),
            "ends": torch.tensor([1 + index % 3, atoms]),
            "energy": torch.tensor([index / 7]),
        }


def join(samples: list[dict[str, Tensor]], shifted: Callable[[str], bool]) -> dict[str, Tensor]:
    """One graph of several, with the number of nodes before each one added to some fields."""
    ends = list(accumulate((len(sample["x"]) for sample in samples), initial=0))
    parts = [
        {name: value + end if shifted(name) else value for name, value in sample.items()}
        for sample, end in zip(samples, ends, strict=False)
    ]
    return {name: torch.cat([part[name] for part in parts], -2 if name == "x" else -1) for name in parts[0]}  # culprit


def molecules(shifted: Callable[[str], bool]) -> DataLoader[Any]:
    return DataLoader(Molecules(), batch_size=6, collate_fn=lambda samples: join(samples, shifted))


def bad_offsets() -> DataLoader[Any]:
    """The kind of an atom is shifted like the number of a node, because of its name."""
    return molecules(lambda name: "index" in name or name == "ends")


def good_offsets() -> DataLoader[Any]:
    """Numbers of nodes are shifted, and the ends of chains, the last of which is the number of all nodes."""
    return molecules(lambda name: name in ("edge_index", "ends"))


def rename(samples: list[dict[str, Tensor]], *, shifted: bool) -> dict[str, Tensor]:
    """One graph of several, whose leaves have other names."""
    ends = list(accumulate((len(sample["x"]) for sample in samples), initial=0))
    bonds = [sample["edge_index"] + end * shifted for sample, end in zip(samples, ends, strict=False)]
    nodes, energy = (torch.cat([sample[name] for sample in samples]) for name in ("x", "energy"))
    return {"nodes": nodes, "bonds": torch.cat(bonds, 1), "energy": energy}  # culprit


def bad_bonds() -> DataLoader[Any]:
    """All bonds are among the atoms of the first molecules."""
    return DataLoader(Molecules(), batch_size=12, collate_fn=lambda samples: rename(samples, shifted=False))


def good_bonds() -> DataLoader[Any]:
    """Bonds have the offsets of their atoms."""
    return DataLoader(Molecules(), batch_size=12, collate_fn=lambda samples: rename(samples, shifted=True))


def join_by(samples: list[dict[str, Tensor]], rows: Callable[[dict[str, Tensor]], int]) -> dict[str, Tensor]:
    """One graph of several, each of which moves those after it by its `rows`."""
    ends = list(accumulate(map(rows, samples), initial=0))
    edges = [sample["edge_index"] + end for sample, end in zip(samples, ends, strict=False)]
    return {"x": torch.cat([sample["x"] for sample in samples]), "edge_index": torch.cat(edges, 1)}  # culprit


def largest(sample: dict[str, Tensor]) -> int:
    """The largest number of a node that has an edge, and one."""
    return int(sample["edge_index"].max()) + 1


class Isolated(Molecules):
    """Every third molecule has an atom without bonds at its end; none has one if it is `connected`."""

    def __init__(self, *, connected: bool = False) -> None:
        self.connected = connected

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        sample = super().__getitem__(index)
        atoms = len(sample["x"]) - (index % 3 == 0 and not self.connected)
        ring = torch.arange(atoms)
        return {"x": sample["x"], "edge_index": torch.stack([ring, ring.roll(1)])}


def bad_largest() -> DataLoader[Any]:
    """Offsets miss atoms that have no bonds."""
    return DataLoader(Isolated(), batch_size=12, collate_fn=lambda samples: join_by(samples, largest))


def good_rows_of_nodes() -> DataLoader[Any]:
    """Offsets are the numbers of atoms."""
    return DataLoader(Isolated(), batch_size=12, collate_fn=lambda samples: join_by(samples, lambda one: len(one["x"])))


def good_connected() -> DataLoader[Any]:
    """All atoms have bonds, so that the largest number is that of the last one."""
    return DataLoader(Isolated(connected=True), batch_size=12, collate_fn=lambda samples: join_by(samples, largest))


class Meshes(Isolated):
    """Triangles of vertices, and a few points of a cloud, which are others."""

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        sample = super().__getitem__(index)
        edges = sample["edge_index"]
        return {"x": torch.cat([sample["x"], sample["x"]])[: len(edges[0]) + 1 + index % 4], "edge_index": edges}


def good_cloud() -> DataLoader[Any]:
    """Points that have no triangles in any sample are no vertices."""
    return DataLoader(Meshes(connected=True), batch_size=12, collate_fn=lambda samples: join_by(samples, largest))
