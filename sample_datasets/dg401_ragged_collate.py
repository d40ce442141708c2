"""DG401 ragged-collate: the collate function fails on a mixture of samples that the dataset returns.

Those named `unlike_` differ in structure, so DG305 reports them as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler, SubsetRandomSampler, default_collate

from sample_datasets._parts import Pictures, picture


class TallPictures(Dataset[Tensor]):
    """A hundred pictures, one in fifty of which is a row taller."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> Tensor:
        number = range(len(self))[index]
        return picture(number, height=9 if number % 50 == 37 else 8)  # culprit


def bad() -> DataLoader[Any]:
    """One picture in fifty has another height."""
    return DataLoader(TallPictures(), batch_size=4, num_workers=2)


class SomeGrey(Pictures):
    """Pictures, some of which are grey and come without a channel axis."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        return (image[0] if index % 8 == 5 else image), label


def unlike_rank() -> DataLoader[Any]:
    """Some pictures are (height, width), the others (3, height, width)."""
    return DataLoader(SomeGrey(), batch_size=4, num_workers=2)


class SomeBoxed(Pictures):
    """Pictures, most of which come with a box."""

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        if index % 8 == 5:
            return {"image": image, "label": label}
        return {"image": image, "label": label, "box": torch.tensor([1, 1, 6, 4])}


def unlike_keys() -> DataLoader[Any]:
    """An optional key is missing in some samples."""
    return DataLoader(SomeBoxed(), batch_size=4, num_workers=2)


class SomeBoxesNone(Pictures):
    """Pictures with a box or None."""

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return {"image": image, "label": label, "box": None if index % 8 == 5 else torch.tensor([1, 1, 6, 4])}


def unlike_none() -> DataLoader[Any]:
    """A field is None now and then, which the default collate does not know."""
    return DataLoader(SomeBoxesNone(), batch_size=4, num_workers=2)


class Sentences(Dataset[Tensor]):
    """Token numbers, in sentences of four to seven tokens."""

    def __init__(self) -> None:
        self.sentences = [torch.arange(number, number + 4 + number % 4) for number in range(16)]

    def __len__(self) -> int:
        return len(self.sentences)

    def __getitem__(self, index: int) -> Tensor:
        return self.sentences[index]  # culprit


def bad_lengths() -> DataLoader[Any]:
    """Sentences of different lengths meet the default collate."""
    return DataLoader(Sentences(), batch_size=4, num_workers=2)  # culprit


class SomeRaw(Pictures):
    """Pictures, some of which are left as whole numbers."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        return ((image * 255).long() if index % 8 == 4 else image), label


def unlike_dtype() -> DataLoader[Any]:
    """int64 at the head of float32: promoted in silence without workers, an error with them."""
    return DataLoader(SomeRaw(), batch_size=4, num_workers=2)


def pad_sentences(sentences: list[Tensor]) -> dict[str, Tensor]:
    """Fill up with zeros, and say how long each sentence is."""
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    return {"tokens": pad_sequence(sentences, batch_first=True), "lengths": lengths}


def good() -> DataLoader[Any]:
    """Sentences of different lengths are padded by the collate function."""
    return DataLoader(Sentences(), batch_size=4, num_workers=2, collate_fn=pad_sentences)


def pad_pictures(images: list[Tensor]) -> dict[str, Tensor]:
    """Fill up with rows of zeros, and mark the rows that are not."""
    height = max(image.shape[1] for image in images)
    return {
        "images": torch.stack([pad(image, (0, 0, 0, height - image.shape[1])) for image in images]),
        "mask": torch.stack([torch.arange(height) < image.shape[1] for image in images]),
    }


def good_padded_pictures() -> DataLoader[Any]:
    """One picture in fifty has another height, and the collate function is ready for it."""
    return DataLoader(TallPictures(), batch_size=4, num_workers=2, collate_fn=pad_pictures)


class Detections(Dataset[tuple[Tensor, dict[str, Tensor]]]):
    """Pictures of different heights, each with one to three boxes."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> tuple[Tensor, dict[str, Tensor]]:
        number = range(len(self))[index]
        boxes = torch.tensor([[0.0, 0.0, 4.0, 4.0], [1.0, 2.0, 6.0, 7.0], [3.0, 1.0, 8.0, 5.0]])[: 1 + number % 3]
        return picture(number, height=8 + number % 2), {"boxes": boxes, "labels": torch.arange(len(boxes))}


def as_lists(samples: list[tuple[Tensor, dict[str, Tensor]]]) -> tuple[list[Tensor], list[dict[str, Tensor]]]:
    """Images and targets side by side, as torchvision's detection models take them."""
    return [image for image, _ in samples], [target for _, target in samples]


def good_list() -> DataLoader[Any]:
    """Nothing is stacked, so nothing has to fit."""
    return DataLoader(Detections(), batch_size=4, num_workers=2, collate_fn=as_lists)


def collect_boxes(samples: list[dict[str, Any]]) -> dict[str, Tensor]:
    """Stack the boxes there are, and say which samples they belong to."""
    owners = [row for row, sample in enumerate(samples) if sample["box"] is not None]
    return {
        "images": torch.stack([sample["image"] for sample in samples]),
        "labels": torch.tensor([sample["label"] for sample in samples]),
        "boxes": torch.stack([samples[row]["box"] for row in owners]),
        "box_owners": torch.tensor(owners),
    }


def good_optional() -> DataLoader[Any]:
    """A field is None now and then, and the collate function leaves it out."""
    return DataLoader(SomeBoxesNone(), batch_size=4, num_workers=2, collate_fn=collect_boxes)


class SameHeight(Sampler[list[int]]):
    """Batches of four indices whose pictures have one height."""

    def __init__(self, heights: list[int]) -> None:
        self.heights = heights

    def __len__(self) -> int:
        return len(self.heights) // 4

    def __iter__(self) -> Iterator[list[int]]:
        by_height = sorted(range(len(self.heights)), key=self.heights.__getitem__)
        return (by_height[start : start + 4] for start in range(0, len(by_height), 4))


class TwoHeights(Dataset[Tensor]):
    """Pictures of two heights by turns."""

    heights = (8, 9) * 8

    def __len__(self) -> int:
        return len(self.heights)

    def __getitem__(self, index: int) -> Tensor:
        number = range(len(self))[index]
        return picture(number, height=self.heights[number])


def good_buckets() -> DataLoader[Any]:
    """Heights differ, but the batch sampler never lets two of them meet."""
    dataset = TwoHeights()
    return DataLoader(dataset, num_workers=2, batch_sampler=SameHeight(list(dataset.heights)))


def good_batch_of_one() -> DataLoader[Any]:
    """Heights differ, but each batch holds one picture."""
    return DataLoader(TallPictures(), batch_size=1, num_workers=2)


def in_fours(images: list[Tensor]) -> Tensor:
    """Two rows of two pictures each."""
    return torch.stack(images).reshape(2, 2, *images[0].shape)  # culprit


def bad_fours() -> DataLoader[Any]:
    """collate_fn takes four pictures and no fewer, and they have to be of one height."""
    return DataLoader(TallPictures(), batch_size=4, shuffle=True, num_workers=2, drop_last=True, collate_fn=in_fours)


def good_fours() -> DataLoader[Any]:
    """Four pictures and no fewer, all of one height."""
    images = [picture(number) for number in range(16)]
    return DataLoader(images, batch_size=4, shuffle=True, num_workers=2, collate_fn=in_fours)  # type: ignore[arg-type]


class SomeSentencesShort(Sentences):
    """Sentences, of which one is a single word."""

    def __getitem__(self, index: int) -> Tensor:
        return super().__getitem__(index)[:1] if index == 9 else super().__getitem__(index)


def good_short() -> DataLoader[Any]:
    """A sentence of one word is padded as well."""
    return DataLoader(SomeSentencesShort(), batch_size=4, shuffle=True, num_workers=2, collate_fn=pad_sentences)


def take_out(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Take the optional boxes out of the samples, and stack the rest."""
    boxes = [sample.pop("box", None) for sample in samples]
    return {**default_collate(samples), "boxes": boxes}


def good_taken_out() -> DataLoader[Any]:
    """An optional key is kept in a list."""
    return DataLoader(SomeBoxed(), batch_size=4, shuffle=True, num_workers=2, collate_fn=take_out)


class Windows(Dataset[Tensor]):
    """Windows of a long series, the last of which are cut off at its end."""

    series = torch.linspace(0, 1, 3000)

    def __init__(self, windows: int) -> None:
        self.windows = windows

    def __len__(self) -> int:
        return self.windows

    def __getitem__(self, index: int) -> Tensor:
        start = range(self.windows)[index]
        return self.series[start : start + 16]  # culprit


def bad_last_window() -> DataLoader[Any]:
    """One window too many in 3,000, which a shuffled loader meets once in an epoch."""
    return DataLoader(Windows(2986), batch_size=9, shuffle=True)  # culprit


def good_last_window() -> DataLoader[Any]:
    """The last whole window is the last one."""
    return DataLoader(Windows(2985), batch_size=9, shuffle=True)


def good_last_window_padded() -> DataLoader[Any]:
    """A collate function that pads what is cut off."""
    return DataLoader(Windows(2986), batch_size=9, shuffle=True, collate_fn=pad_sentences)


def good_last_window_unread() -> DataLoader[Any]:
    """A sampler that draws whole windows only."""
    return DataLoader(Windows(2986), batch_size=9, sampler=SubsetRandomSampler(range(2985)))
