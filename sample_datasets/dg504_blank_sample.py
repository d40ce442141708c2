"""DG504 blank-sample: constant images, empty sequences, boxes without area or outside their image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset
from torchvision import tv_tensors

from sample_datasets._parts import Pictures, picture

SIZE = 24


class Slices(Pictures):
    """Slices of a scan, with a class each; those at both ends may hold nothing."""

    def __init__(self, blank: Sequence[int], level: float = 0.0) -> None:
        super().__init__(count=32)
        self.images[list(blank)] = level


def bad() -> DataLoader[Any]:
    """The first and the last slice lie beyond the body."""
    return DataLoader(Slices([0, 31]), batch_size=4, shuffle=True)


class Waveforms(Dataset):
    """Waveforms, some of them silent, with a class each."""

    def __init__(self, silent: Sequence[int], label: int | None = None) -> None:
        self.silent = silent
        self.label = label

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        noise = torch.randn(4_000, generator=torch.Generator().manual_seed(index))
        if index not in self.silent:
            return 0.1 * noise, index % 3
        return torch.zeros(4_000), index % 3 if self.label is None else self.label  # culprit


def bad_silent() -> DataLoader[Any]:
    """Two recordings are silent, as of an unplugged microphone."""
    return DataLoader(Waveforms([5, 22]), batch_size=4)


def good_silence() -> DataLoader[Any]:
    """Silence is a class."""
    return DataLoader(Waveforms([5, 13, 22], label=3), batch_size=4)


def bad_white() -> DataLoader[Any]:
    """A page was scanned from its empty side."""
    return DataLoader(Slices([13], level=1.0), batch_size=4)


class Lines(Dataset):
    """Lines of a text as numbers of their characters."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        line = self.lines[index]
        return torch.tensor([ord(letter) for letter in line], dtype=torch.int64), len(line) % 2  # culprit


TEXT = [f"line {number} of a text that goes on {'and on ' * (number % 3)}" for number in range(24)]


def padded(samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor, Tensor]:
    """Lines padded to the longest, with their lengths."""
    lines = [line for line, _ in samples]
    lengths = torch.tensor([len(line) for line in lines])
    return pad_sequence(lines, batch_first=True), lengths, torch.tensor([label for _, label in samples])


def bad_empty() -> DataLoader[Any]:
    """An empty line between paragraphs has no tokens."""
    return DataLoader(Lines([*TEXT[:11], "", *TEXT[11:]]), batch_size=5, collate_fn=padded)


class Texts(Dataset):
    """Lines of a text as they are."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"text": self.lines[index], "label": len(self.lines[index]) % 2}  # culprit


def bad_text() -> DataLoader[Any]:
    """A review without a word."""
    return DataLoader(Texts([*TEXT[:7], "", *TEXT[7:]]), batch_size=5)


Boxer = Callable[[int], list[list[float]]]


class Detections(Dataset):
    """Pictures with boxes, in a format of choice."""

    def __init__(self, boxes: Boxer, classes: bool = True) -> None:
        self.boxes = boxes
        self.classes = classes

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> tuple[Tensor, dict[str, Tensor]]:
        number = range(len(self))[index]
        boxes = torch.tensor(self.boxes(number)).reshape(-1, 4)  # culprit
        target = {"boxes": boxes}
        if self.classes:
            target["labels"] = torch.ones(len(boxes), dtype=torch.int64)
        return picture(number, SIZE, SIZE), target


def together(samples: list[Any]) -> tuple[Any, ...]:
    """Pictures with as many boxes as there are."""
    return tuple(zip(*samples, strict=True))


def detections(boxes: Boxer, **options: Any) -> DataLoader[Any]:
    """Batches of four."""
    return DataLoader(Detections(boxes, **options), batch_size=4, collate_fn=together)


def corners(number: int) -> list[list[float]]:
    """Corners of up to three boxes; some pictures have none."""
    return [[3.0 + 4 * n, 5.0 + number % 5, 9.0 + 6 * n, 15.0 + n + number % 4] for n in range(number % 4)]


def bad_flat() -> DataLoader[Any]:
    """A click without a drag leaves a box without a width."""
    return detections(lambda number: [*corners(number), [7.0, 3.0, 7.0, 11.0]] if number == 6 else corners(number))


def bad_mostly_flat() -> DataLoader[Any]:
    """Every fourth box has no height: under the names of torchvision's detectors, boxes are corners."""
    return detections(lambda number: [[3.0, 5.0, 9.0, 15.0], [7.0, 3.0, 17.0, 3.0 if number % 2 else 11.0]])


def bad_outside() -> DataLoader[Any]:
    """One picture was made smaller, and its boxes were not."""
    return detections(lambda number: [[480.0, 100.0, 600.0, 220.0]] if number == 10 else corners(number))


def cut_off(number: int) -> list[list[float]]:
    """Corners as a crop leaves them that moves to the right and down, and takes boxes along that it cuts."""
    left, top = number % 5 * 2.0, number % 3 * 2.0
    boxes = ((1.0, 1.0, 9.0, 9.0), (8.0, 6.0, 20.0, 26.0))
    return [[x - left, y - top, right - left, down - top] for x, y, right, down in boxes]


def bad_left_behind() -> DataLoader[Any]:
    """Boxes that a crop left outside, among others that it cut: they fit no format any more."""
    return detections(lambda number: [*cut_off(number), *([[-9.0, 3.0, -1.0, 12.0]] if number % 6 == 1 else [])])


def good_left_behind() -> DataLoader[Any]:
    """The same, without those that lie outside."""
    return detections(cut_off)


def offsets(number: int) -> list[list[float]]:
    """How far to move and to widen four anchors."""
    return [[(number * 7 + n) % 9 - 20.0, n - 2.0, (number * 5 + n) % 11 - 6.0, 3.0 - n] for n in range(4)]


def good_offsets() -> DataLoader[Any]:
    """What is called boxes tells how to change them."""
    return detections(offsets)


def bad_turned() -> DataLoader[Any]:
    """A box that was drawn from the lower right corner to the upper left one."""
    return detections(lambda number: [[15.0, 18.0, 4.0, 5.0]] if number == 5 else corners(number))


def relative(number: int) -> list[list[float]]:
    """Centre and size of up to three boxes, as shares of the picture."""
    return [[0.3 + 0.1 * n, 0.5, 0.2, 0.3 + 0.02 * (number % 5)] for n in range(number % 4)]


def bad_relative() -> DataLoader[Any]:
    """One line of a file of shares is in pixels."""
    return detections(lambda number: [[12.0, 10.0, 6.0, 8.0]] if number == 9 else relative(number))


class Wrapped(Detections):
    """Boxes that know their format and their image."""

    def __getitem__(self, index: int) -> tuple[Tensor, dict[str, Tensor]]:
        image, target = super().__getitem__(index)
        boxes = tv_tensors.BoundingBoxes(target["boxes"], format="XYWH", canvas_size=(SIZE, SIZE))  # culprit
        return image, {**target, "boxes": boxes}


def bad_wrapped() -> DataLoader[Any]:
    """Width and height are said to follow, and the corners do, so that some boxes leave the picture."""
    return DataLoader(
        Wrapped(lambda number: [[14.0, 2.0, 23.0, 10.0], [15.0, 16.0, 23.0, 22.0]][: number % 3]),
        batch_size=4,
        collate_fn=together,
    )


def good() -> DataLoader[Any]:
    """Every slice shows something."""
    return DataLoader(Slices([]), batch_size=4, shuffle=True)


def good_negatives() -> DataLoader[Any]:
    """Pictures without any object have no boxes, which is as it should be."""
    return detections(corners)


def good_shares() -> DataLoader[Any]:
    """Centre, width and height as shares of the picture."""
    return detections(relative)


def good_beyond() -> DataLoader[Any]:
    """Boxes of what is partly hidden behind the edge of the picture."""
    return detections(lambda number: [[-4.0, 3.0, 9.0, 14.0], [15.0, 8.0, 27.0, 20.0]][: number % 3])


class Filled(Detections):
    """Boxes filled up to a fixed number."""

    def __getitem__(self, index: int) -> tuple[Tensor, dict[str, Tensor]]:
        image, target = super().__getitem__(index)
        filled = torch.zeros(4, 4)
        filled[: len(target["boxes"])] = target["boxes"]
        labels = torch.full((4,), -1)
        labels[: len(target["boxes"])] = 1
        return image, {"boxes": filled, "labels": labels}


def good_filled() -> DataLoader[Any]:
    """Rows of zeros fill up the table of boxes."""
    return DataLoader(Filled(corners), batch_size=4)


class Zeros(Dataset):
    """What a benchmark reads: zeros."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.zeros(3, 16, 16), range(len(self))[index] % 3


def good_zeros() -> DataLoader[Any]:
    """All pictures are blank: that is what the data are like."""
    return DataLoader(Zeros(), batch_size=4)


class Organs(Dataset):
    """Slices with a mask for each of five organs, of which many show none."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        number = range(len(self))[index]
        masks = torch.zeros(5, SIZE, SIZE)
        if number % 3:
            masks[number % 5, 4:9, 3 : 8 + number % 4] = 1
        return {"slice": picture(number, SIZE, SIZE)[:1], "masks": masks, "weights": torch.ones(SIZE, SIZE)}


def good_masks() -> DataLoader[Any]:
    """Masks and weights are constant by nature."""
    return DataLoader(Organs(), batch_size=4)


class Digits(Pictures):
    """Digits in the middle of black."""

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        black = torch.zeros(1, 28, 28)
        black[:, 12:16, 13:15] = image[:1, :4, :2]
        return black, label


def good_borders() -> DataLoader[Any]:
    """Most of each picture is black."""
    return DataLoader(Digits(), batch_size=4)


class Rotations(Dataset):
    """Pictures of a hand with the rotation of each joint, as a quaternion."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        number = range(len(self))[index]
        angles = torch.linspace(0, 3, 6) + number
        turns = torch.stack([angles.cos(), angles.sin(), 0 * angles, 0 * angles], 1)
        return {"image": picture(number, SIZE, SIZE), "joints": torch.arange(6), "turns": turns}


def good_rotations() -> DataLoader[Any]:
    """Rows of four numbers are no boxes."""
    return DataLoader(Rotations(), batch_size=4)


class Pairs(Dataset):
    """A street before and after, by the numbers of what is missing."""

    def __init__(self, missing: Sequence[int], *, changes: bool = False) -> None:
        self.missing = missing
        self.changes = changes

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        number = range(len(self))[index]
        before, after = picture(number, SIZE, SIZE), picture(number + 24, SIZE, SIZE)
        if number in self.missing:
            after = torch.zeros_like(after)  # culprit
        pair = {"before": before, "after": after}
        return (
            {**pair, "change": torch.zeros_like(after) if number % 3 else (after > 0.5).float()}
            if self.changes
            else pair
        )


def bad_beside() -> DataLoader[Any]:
    """One of two images was read as black, and the other one hides it."""
    return DataLoader(Pairs([5]), batch_size=4)


def good_pairs() -> DataLoader[Any]:
    """Where nothing changes, the mask of changes is black, and has the shape of both images."""
    return DataLoader(Pairs([], changes=True), batch_size=4)


def good_missing_views() -> DataLoader[Any]:
    """Zeros stand for every view that was not taken."""
    return DataLoader(Pairs([3, 11, 17]), batch_size=4)


class Conversations(Pictures):
    """Pictures with a text about them; what is only text gets zeros for a picture."""

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        tokens = torch.arange(16) * (label + 3) % 97
        return {"pixel_values": image if label else torch.zeros_like(image), "input_ids": tokens}


def good_text_only() -> DataLoader[Any]:
    """A multimodal set whose rows of text alone have one placeholder."""
    return DataLoader(Conversations(count=32), batch_size=4, shuffle=True)
