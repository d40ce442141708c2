"""DG305 shifting-structure: samples differ in keys or types, and collating hides it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, default_collate

from sample_datasets._parts import Pictures, picture


class SomeScored(Pictures):
    """Pictures, whose labels are classes, or the mean of what several people said."""

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return image, (label + 0.5 if index % 8 == 5 else label)  # culprit


def bad() -> DataLoader[Any]:
    """Labels are whole numbers here and fractions there: the dtype of a batch hangs on what is in it."""
    return DataLoader(SomeScored(), batch_size=4, shuffle=True, num_workers=2)


class SomeRaw(Pictures):
    """Pictures, some of which come from a fallback that leaves them as bytes."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        return ((image * 255).to(torch.uint8) if index % 8 == 4 else image), label  # culprit


def bad_bytes() -> DataLoader[Any]:
    """uint8 among float32 is promoted in silence without workers, and 255 times as bright."""
    return DataLoader(SomeRaw(), batch_size=4, shuffle=True)


class SomeBoxed(Pictures):
    """Pictures, some of which come with a box; those that begin a batch do not."""

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        sample = {"image": image, "label": label}
        return sample | ({"box": torch.tensor([1, 1, 6, 4])} if index % 4 == 3 else {})  # culprit


def bad_keys() -> DataLoader[Any]:
    """In its own order, the first sample of each batch has no box, and all boxes are dropped."""
    return DataLoader(SomeBoxed(), batch_size=4, num_workers=2)


def listed(samples: list[dict[str, Any]]) -> tuple[Tensor, list[dict[str, Any]]]:
    """Stack pictures, and leave targets as they are."""
    return torch.stack([one["image"] for one in samples]), samples


def bad_listed_keys() -> DataLoader[Any]:
    """Targets are listed, so nothing fails until a loss looks for a box that is not there: a warning."""
    return DataLoader(SomeBoxed(), batch_size=4, shuffle=True, collate_fn=listed)


def gathered(samples: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Gather the values of each key."""
    batch: dict[str, list[Any]] = {}
    for sample in samples:
        for key, value in sample.items():
            batch.setdefault(key, []).append(value)
    return batch


def bad_gathered_keys() -> DataLoader[Any]:
    """There are fewer boxes than pictures, and nothing says whose they are: a warning."""
    return DataLoader(SomeBoxed(), batch_size=4, shuffle=True, collate_fn=gathered)


class Annotated(SomeBoxed):
    """Pictures, each with what is known about it one level deeper."""

    def __getitem__(self, index: int) -> Any:
        sample = super().__getitem__(index)
        return sample.pop("image"), {"id": index, "annotation": sample}


def bad_nested_keys() -> DataLoader[Any]:
    """A box comes and goes in a dict of a dict: a warning."""
    return DataLoader(Annotated(), batch_size=4, collate_fn=lambda samples: tuple(zip(*samples, strict=True)))


class Stream(IterableDataset[Any]):
    """A stream of pictures with labels, some of them spelled out."""

    def __iter__(self) -> Iterator[Any]:
        for number in range(64):
            yield {"image": picture(number), "label": number % 4, "note": "seen" if number % 4 else 0.5}


def stacked(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Stack the usual, keep the notes."""
    batch: dict[str, Any] = default_collate([{"image": one["image"], "label": one["label"]} for one in samples])
    return batch | {"notes": [one["note"] for one in samples]}


def good_stream() -> DataLoader[Any]:
    """Notes of any type are kept as a list."""
    return DataLoader(Stream(), batch_size=4, collate_fn=stacked)


def good() -> DataLoader[Any]:
    """All samples are alike."""
    return DataLoader(Pictures(), batch_size=4, shuffle=True)


def filled(samples: list[dict[str, Any]]) -> dict[str, Tensor]:
    """Give those without a box an empty one."""
    none = torch.zeros(4, dtype=torch.long)
    return {
        "image": torch.stack([one["image"] for one in samples]),
        "label": torch.tensor([one["label"] for one in samples]),
        "box": torch.stack([one.get("box", none) for one in samples]),
        "has_box": torch.tensor(["box" in one for one in samples]),
    }


def good_filled() -> DataLoader[Any]:
    """A box is there or not, and the collate function fills in."""
    return DataLoader(SomeBoxed(), batch_size=4, shuffle=True, num_workers=2, collate_fn=filled)


def as_float(samples: list[tuple[Tensor, Any]]) -> tuple[Tensor, Tensor]:
    """Make fractions of all labels."""
    return torch.stack([image for image, _ in samples]), torch.tensor([float(label) for _, label in samples])


def good_converted() -> DataLoader[Any]:
    """Labels of two types become one in the collate function."""
    return DataLoader(SomeScored(), batch_size=4, shuffle=True, collate_fn=as_float)


class Listed(Pictures):
    """Pictures with lists of one to three boxes, each a list of numbers."""

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        number = range(len(self))[index]
        return {"image": image, "label": label, "boxes": [[1.0, 2.0, 5.0, 6.0]] * (number % 3)}


def kept(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Stack pictures, keep lists."""
    return {"image": torch.stack([one["image"] for one in samples]), "boxes": [one["boxes"] for one in samples]}


def good_lists() -> DataLoader[Any]:
    """Targets are lists, some of them empty."""
    return DataLoader(Listed(), batch_size=4, shuffle=True, collate_fn=kept)


class NoneAtTimes(Pictures):
    """Pictures, some of which cannot be read."""

    def __getitem__(self, index: int) -> Any:
        return None if index % 8 == 5 else super().__getitem__(index)


def readable(samples: list[Any]) -> Any:
    """Leave out what could not be read."""
    return default_collate([sample for sample in samples if sample is not None])


def good_dropped() -> DataLoader[Any]:
    """None stands for what could not be read, and the collate function leaves it out."""
    return DataLoader(NoneAtTimes(), batch_size=4, shuffle=True, collate_fn=readable)


class Numpy(Pictures):
    """Pictures with labels of numpy, or plain ones where a table had none."""

    def __getitem__(self, index: int) -> Any:
        import numpy as np

        image, label = super().__getitem__(index)
        return image, (label if index % 3 else np.int64(label))


def good_numpy() -> DataLoader[Any]:
    """int and numpy.int64 become the same."""
    return DataLoader(Numpy(), batch_size=4, shuffle=True)


def numbered(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Stack what boxes there are, with the numbers of their pictures."""
    boxed = [number for number, one in enumerate(samples) if "box" in one]
    batch: dict[str, Any] = default_collate([{key: one[key] for key in ("image", "label")} for one in samples])
    boxes = [samples[number]["box"] for number in boxed]
    return batch | {"box": torch.stack(boxes) if boxes else torch.zeros(0, 4), "of": torch.tensor(boxed)}


def good_numbered() -> DataLoader[Any]:
    """There are fewer boxes than pictures, and their numbers say whose they are."""
    return DataLoader(SomeBoxed(), batch_size=4, shuffle=True, collate_fn=numbered)


def good_nones() -> DataLoader[Any]:
    """A list of boxes has None for each that is not there."""
    return DataLoader(
        SomeBoxed(),
        batch_size=4,
        shuffle=True,
        collate_fn=lambda samples: {key: [one.get(key) for one in samples] for key in ("image", "label", "box")},
    )


class Measured(Pictures):
    """Pictures with a label, and with an age that a file spells as 34 or as 34.5."""

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return {"image": image, "label": label, "meta": {"age": 30 + index if index % 3 else 30.5 + index}}


def good_metadata() -> DataLoader[Any]:
    """Whole and fractional numbers of one quantity are promoted, and the label has one type."""
    return DataLoader(Measured(), batch_size=4, shuffle=True)


class Posed(Pictures):
    """Pictures with a map of joints, and the angle by which each was turned: a float, or 0 without a turn."""

    def __getitem__(self, index: int) -> Any:
        import numpy as np

        image, _ = super().__getitem__(index)
        angle = np.clip(np.random.randn() * 30, -60, 60) if torch.rand(()) < 0.6 else 0
        return image, image.mean(0), {"rotation": angle, "number": index}


def good_rotation() -> DataLoader[Any]:
    """A number in the record of a sample is promoted; what is learned is a map beside the picture."""
    return DataLoader(Posed(), batch_size=4, shuffle=True)
