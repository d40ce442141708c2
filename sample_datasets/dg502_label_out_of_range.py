"""DG502 label-out-of-range: labels that are not valid class indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset
from torch.utils.data.dataloader import default_collate

from sample_datasets._parts import picture

ANIMALS = ("cat", "dog", "elk", "owl")


class Animals(Dataset):
    """Pictures of animals with the numbers that an annotation file has for them, whatever it counts from."""

    def __init__(self, numbers: Sequence[int], classes: Sequence[str] = ANIMALS) -> None:
        self.numbers = list(numbers)
        self.classes = list(classes)

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return picture(range(len(self))[index]), self.numbers[index]  # culprit


def bad() -> DataLoader[Any]:
    """The annotation file counts from 1."""
    return DataLoader(Animals([1 + number % 4 for number in range(32)]), batch_size=4, shuffle=True)  # culprit


def bad_unlabelled() -> DataLoader[Any]:
    """A few pictures were never annotated, and got -1."""
    numbers = [-1 if number in (3, 17) else number % 4 for number in range(32)]  # culprit
    return DataLoader(Animals(numbers), batch_size=4)


class Flowers(Animals):
    """Four measurements of each, as in a table."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return picture(range(len(self))[index])[0, 0, :4].clone(), self.numbers[index]  # culprit


def bad_short_rows() -> DataLoader[Any]:
    """The same beside rows of four measurements."""
    return DataLoader(Flowers([1 + n % 3 for n in range(32)], ANIMALS[:3]), batch_size=4, shuffle=True)  # culprit


class Missing(Animals):
    """The number that stands for nothing in one byte, as tensors."""

    def __getitem__(self, index: int) -> Any:
        image, number = super().__getitem__(index)
        return {"pixels": image, "y": torch.tensor(255 if index % 10 == 5 else number)}  # culprit


def bad_void() -> DataLoader[Any]:
    """255 marks what has no label, as in masks; here it is one label for a picture."""
    return DataLoader(Missing([number % 4 for number in range(32)]), batch_size=4)


def bad_merged() -> DataLoader[Any]:
    """Two sets in one, the second of which counts on where the first ends, while the model has the classes of one."""
    first, second = Animals([n % 4 for n in range(20)]), Animals([4 + n % 4 for n in range(12)])  # culprit
    return DataLoader(ConcatDataset([first, second]), batch_size=4, shuffle=True)


def bad_rare() -> DataLoader[Any]:
    """Three of two thousand pictures lack a label: a table of all of them tells what a part of them may not."""
    numbers = [-1 if number in (333, 1444, 1777) else number % 4 for number in range(2000)]  # culprit
    return DataLoader(Animals(numbers), batch_size=16, shuffle=True)


class Tumours(Dataset):
    """Scans with a mask that was painted in an image editor, in black and white."""

    classes = ("background", "tumour")

    def __init__(self, white: int, dtype: torch.dtype = torch.int64) -> None:
        self.white, self.dtype = white, dtype

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        number = range(len(self))[index]
        mask = torch.zeros(16, 16, dtype=self.dtype)
        mask[2 : 4 + number % 8, 3:9] = self.white  # culprit
        return {"scan": picture(number, 16, 16), "mask": mask}


def bad_undivided() -> DataLoader[Any]:
    """A mask of 0 and 255: nothing was divided."""
    return DataLoader(Tumours(white=255), batch_size=4)  # culprit


STREET = ("road", "house", "tree", "car", "person")


class Streets(Dataset):
    """Street scenes with a class for each pixel: 255 along the edges, and all numbers of a larger set or of this."""

    def __init__(self, highest: int, void: int = 255, lowest: int = 0) -> None:
        self.classes = list(STREET)
        self.void, self.lowest, self.highest = void, lowest, highest

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        number = range(len(self))[index]
        mask = torch.full((16, 16), self.void)
        span = self.highest + 1 - self.lowest
        for stripe in range(1, 7):
            mask[2 * stripe : 2 * stripe + 2, 1:-1] = self.lowest + (number + stripe) % span  # culprit
        return picture(number, 16, 16), mask


def bad_larger_set() -> DataLoader[Any]:
    """The numbers of a larger set of classes, of which five are kept."""
    return DataLoader(Streets(highest=18), batch_size=4)  # culprit


class Boxes(Dataset):
    """Pictures with boxes and the class of each, in the order in which files have them."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.categories = list(ANIMALS)
        self.numbers = numbers

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> tuple[Tensor, dict[str, Tensor]]:
        number = range(len(self))[index]
        count = number % 4
        corners = torch.tensor([[1.0 + n, 2.0, 9.0 + n, 12.0 - n] for n in range(count)]).reshape(-1, 4)
        known = [self.numbers[(number + n) % len(self.numbers)] for n in range(count)]  # culprit
        labels = torch.tensor(known, dtype=torch.int64)  # culprit
        return picture(number, 16, 16), {"boxes": corners, "labels": labels, "image_id": torch.tensor(number)}


def together(samples: list[Any]) -> tuple[Any, ...]:
    """Batches for detectors: pictures of any size, with as many boxes as there are."""
    return tuple(zip(*samples, strict=True))


def bad_category_ids() -> DataLoader[Any]:
    """Numbers of COCO's categories, which have gaps, where four classes are meant."""
    return DataLoader(Boxes([1, 2, 3, 18, 4]), batch_size=4, collate_fn=together)  # culprit


def good() -> DataLoader[Any]:
    """Classes count from 0."""
    return DataLoader(Animals([number % 4 for number in range(32)]), batch_size=4, shuffle=True)


def good_subset() -> DataLoader[Any]:
    """A part of the set in which some classes are missing, the first among them, and one is rare."""
    whole = Animals([0] * 10 + [1, 2] * 12 + [3])
    return DataLoader(Subset(whole, range(10, 35)), batch_size=5)


class Corrected(Animals):
    """What has no label in the file gets one when it is read."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, number = super().__getitem__(index)
        return image, max(number, 0)


def good_corrected() -> DataLoader[Any]:
    """The file holds -1 for a few, and the dataset gives 0 for those."""
    numbers = [-1 if number in (333, 1444, 1777) else number % 4 for number in range(2000)]
    return DataLoader(Corrected(numbers), batch_size=16, shuffle=True)


def good_void() -> DataLoader[Any]:
    """255 along the edges of a mask, as PASCAL VOC has it."""
    return DataLoader(Streets(highest=4), batch_size=4)


def good_background() -> DataLoader[Any]:
    """0 is the background, which the names of classes leave out."""
    return DataLoader(Streets(highest=5, void=0, lowest=1), batch_size=4)


def good_bytes() -> DataLoader[Any]:
    """Masks of 0 and 255 in bytes, which a transform on the device divides."""
    return DataLoader(Tumours(white=255, dtype=torch.uint8), batch_size=4)


def good_detection() -> DataLoader[Any]:
    """torchvision's detectors count the background, so that classes count from 1."""
    return DataLoader(Boxes([1, 2, 3, 4]), batch_size=4, collate_fn=together)


def good_unlabelled() -> DataLoader[Any]:
    """Most pictures have no label: the set is for semi-supervised training."""
    return DataLoader(Animals([number % 4 if number % 5 == 0 else -1 for number in range(40)]), batch_size=4)


def good_signs() -> DataLoader[Any]:
    """A hinge loss takes -1 and 1."""
    return DataLoader(Animals([1 - 2 * (number % 2) for number in range(24)], ("real", "fake")), batch_size=4)


def from_zero(samples: list[tuple[Tensor, int]]) -> Any:
    """Counts from 0."""
    return default_collate([(image, number - 1) for image, number in samples])


def good_mapped() -> DataLoader[Any]:
    """The file counts from 1, and collate_fn from 0."""
    return DataLoader(Animals([1 + number % 4 for number in range(32)]), batch_size=4, collate_fn=from_zero)


class Records(Animals):
    """Pictures with all that a table has of them: when and where they were taken, how many animals are in sight."""

    def __getitem__(self, index: int) -> Any:
        image, number = super().__getitem__(index)
        return {
            "image": image,
            "taken": 1_700_000_000 + 86_400 * index,
            "camera": 7 + index % 3,
            "count": 1 + index % 6,
            "class": number,
        }


def good_records() -> DataLoader[Any]:
    """Times, cameras and counts are no classes."""
    return DataLoader(Records([number % 4 for number in range(32)]), batch_size=4)


class Utterances(Dataset):
    """Recordings of one to six steps, each with its length and its speaker."""

    classes = ("yes", "no", "stop", "go")

    def __len__(self) -> int:
        return 48

    def __getitem__(self, index: int) -> Any:
        steps = 1 + range(len(self))[index] % 6
        return {"features": torch.linspace(0, index, steps * 16).reshape(steps, 16), "steps": steps}


class Speakers(Animals):
    """Pictures of who is speaking, by a number from 1 on, while the names are those of words."""

    def __getitem__(self, index: int) -> Any:
        image, number = super().__getitem__(index)
        return {"image": image, "speaker_id": 1 + number}


def good_lengths() -> dict[str, DataLoader[Any]]:
    """Neither lengths nor identifiers are classes, although there are as many names of classes as most of them."""
    speakers = Speakers([number % 4 for number in range(32)])
    return {
        "lengths": DataLoader(Utterances(), batch_size=4, collate_fn=list),
        "speakers": DataLoader(speakers, batch_size=4),
    }


def good_ages() -> DataLoader[Any]:
    """Ages are whole numbers, and no classes, although the dataset has names of classes for something else."""
    return DataLoader(Animals([18 + 3 * number % 60 for number in range(40)], ("child", "adult")), batch_size=4)


class Words(Dataset):
    """Sentences as numbers of words, with a tag for each; what is no first piece of a word has none."""

    num_classes = 5

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        words = torch.arange(12) * 7919 % (997 + range(len(self))[index])
        tags = words % 5
        tags[::3] = -100
        return {"input_ids": words, "attention_mask": torch.ones_like(words), "labels": tags}


def good_tokens() -> DataLoader[Any]:
    """Numbers of words are no classes, and -100 is what cross entropy leaves out."""
    return DataLoader(Words(), batch_size=4)


class Named(Animals):
    """Pictures with the name of the animal."""

    def __getitem__(self, index: int) -> Any:
        image, number = super().__getitem__(index)
        return image, self.classes[number]


def good_names() -> DataLoader[Any]:
    """Labels are names, and numbered later."""
    return DataLoader(Named([number % 4 for number in range(24)]), batch_size=4)


def watched(transform: Callable[[Tensor], Tensor]) -> DataLoader[Any]:
    """Views of one picture under a transform, and which quarter turn it was."""
    return DataLoader([(transform(picture(n)), n % 4) for n in range(24)], batch_size=4)  # type: ignore[arg-type]


def good_nobody_knows() -> DataLoader[Any]:
    """A list of pairs, of which nobody says how many classes there are."""
    return watched(lambda image: image.flip(2))


def told_by_nobody(number_of: Callable[[int], int]) -> DataLoader[Any]:
    """Pictures with numbers, of which nobody says how many classes they are of."""
    pairs: Any = [(picture(n), number_of(n)) for n in range(96)]  # culprit
    return DataLoader(pairs, batch_size=4)


def bad_from_one() -> DataLoader[Any]:
    """Numbers that start at 1, all of them there many times."""
    return told_by_nobody(lambda number: 1 + number % 5)


def bad_selected() -> DataLoader[Any]:
    """Two classes of a larger set, which keep the numbers they have there."""
    return told_by_nobody(lambda number: (3, 5)[number % 2])


def bad_trimap() -> DataLoader[Any]:
    """Masks of the numbers 1 to 3: the animal, what is behind it, and the edge between them."""
    masks = [1 + (torch.arange(256) // 16 + number).reshape(16, 16) % 3 for number in range(32)]  # culprit
    return DataLoader([(picture(n, 16, 16), mask) for n, mask in enumerate(masks)], batch_size=4)  # type: ignore[arg-type]


def painted(*others: Callable[[Tensor], Tensor]) -> DataLoader[Any]:
    """Pictures, what `others` make of them, and a mask in black and white."""
    masks = [255 * (torch.arange(256).reshape(16, 16) > 8 * n).long() for n in range(32)]  # culprit
    images = [picture(n, 16, 16) for n in range(32)]
    return DataLoader(
        [(image, *(other(image) for other in others), mask) for image, mask in zip(images, masks, strict=True)],  # type: ignore[arg-type]
        batch_size=4,
    )


def bad_painted() -> DataLoader[Any]:
    """The mask is all that there is to predict, and has 255 in place of 1."""
    return painted()


def good_validity() -> DataLoader[Any]:
    """The mask says where the depth was measured."""
    return painted(lambda image: image.float().mean(0))


def good_validity_of_flow() -> DataLoader[Any]:
    """The mask says where the flow between two frames is known."""
    return painted(lambda image: image.flip(2), lambda image: image[:2] - 0.5)


def good_inpainting() -> DataLoader[Any]:
    """The mask says which part of the picture was cut out of another one."""
    return painted(lambda image: image.flip(1))


def good_later_classes() -> DataLoader[Any]:
    """The classes of a second task count on where those of the first one end."""
    return told_by_nobody(lambda number: 5 + number % 5)


def good_rare_classes() -> dict[str, DataLoader[Any]]:
    """Validation has no sample of two rare classes, which training has."""
    train = told_by_nobody(lambda number: number % 8)
    return {"train": train, "val": told_by_nobody(lambda number: (1, 2, 3, 5, 6, 7)[number % 6])}


def good_verified() -> DataLoader[Any]:
    """Whether two pictures belong together is 1 or -1, as a margin loss wants it."""
    return told_by_nobody(lambda number: 1 - 2 * (number % 2))


def good_next_word() -> DataLoader[Any]:
    """Rows of words and the word that follows; 0 fills short rows up, and so no row ends in it."""
    rows = torch.arange(96 * 17).reshape(96, 17) * 7 % 5 + 1
    return DataLoader([(row[:16], row[16]) for row in rows], batch_size=4)  # type: ignore[arg-type]


class Species(Dataset):
    """Measurements of 300 species in bytes, as many of each."""

    def __init__(self, numbers: range) -> None:
        self.classes = [f"species {number}" for number in range(300)]
        self.labels = np.array([*numbers] * 4).astype(np.uint8)
        self.measured = torch.randn(len(self.labels), 8, generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.measured[index], int(self.labels[index])  # culprit


def bad_bytes() -> DataLoader[Any]:
    """Species 256 has the label of species 0."""
    return DataLoader(Species(range(300)), batch_size=32, shuffle=True)


def good_first_species() -> DataLoader[Any]:
    """The data are of fewer species than there are names, and bytes are enough."""
    return DataLoader(Species(range(200)), batch_size=32, shuffle=True)


class Answers(Dataset):
    """Texts of 20 to 60 words, cut to 40, and where the answer is; `marked` says what becomes of it if it is cut."""

    def __init__(self, marked: Callable[[int], int] = int) -> None:
        self.marked = marked

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, Any]:
        drawn = np.random.default_rng(range(64)[index])
        words = drawn.integers(5, 900, drawn.integers(20, 61))
        start = int(drawn.integers(0, len(words) - 2))
        ids = np.zeros(40, dtype=np.int64)
        ids[: len(words)] = words[:40]
        return {"ids": ids, "start_token": self.marked(start), "end_token": self.marked(start + 2)}  # culprit


def bad_cut_answers() -> DataLoader[Any]:
    """Answers that are cut off keep their place."""
    return DataLoader(Answers(), batch_size=16)


def good_cut_answers() -> DataLoader[Any]:
    """Answers that are cut off are at a place that the loss ignores."""
    return DataLoader(Answers(lambda place: min(place, 40)), batch_size=16)


class Scenes(Answers):
    """The same of a film, with the first and last second of the scene that the text describes."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        sample = super().__getitem__(index)
        return {"ids": sample["ids"], "start": sample["start_token"], "end": sample["end_token"]}


def good_seconds() -> DataLoader[Any]:
    """Seconds may be more than there are words."""
    return DataLoader(Scenes(), batch_size=16)
