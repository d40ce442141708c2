"""DG519 unswapped-keypoints: a horizontal flip moves keypoints, and a left one stays before its right one."""

from __future__ import annotations

import math
import random
from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import tv_tensors
from torchvision.transforms import v2

from sample_datasets._parts import PHOTOGRAPHS

WIDTH, HEIGHT = 64, 48
NAMES = ["nose", "left_eye", "right_eye", "left_shoulder", "right_shoulder", "left_hip", "right_hip"]
SWAPPED = [0, 2, 1, 4, 3, 6, 5]
FRONT = ((32, 8), (36, 6), (28, 6), (44, 20), (20, 20), (40, 40), (24, 40))
"""A body seen from the front: what is left of it is on the right of the image."""


class Poses(Dataset[Any]):
    """Photographs with seven keypoints (x, y, visible), flipped in every other read."""

    def __init__(self) -> None:
        draw = np.random.default_rng(0)
        opened = [Image.open(path).convert("RGB").resize((WIDTH, HEIGHT)) for path in PHOTOGRAPHS]
        self.images = torch.stack([torch.from_numpy(np.array(image)).permute(2, 0, 1) for image in opened])
        self.poses = [np.array(FRONT) + draw.integers(-4, 5, (7, 2)) for _ in opened]

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image, points = self.images[index] / 255, torch.tensor(self.poses[index], dtype=torch.float32)
        if random.random() < 0.5:
            image, points = self.flipped(image, points)
        return image, torch.cat([points, torch.full((7, 1), 2.0)], 1)

    def flipped(self, image: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        """Both flipped, with the keypoints in the same order."""
        return image.flip(2), torch.stack([WIDTH - 1 - points[:, 0], points[:, 1]], 1)  # culprit


class Named(Poses):
    """The same, with names for the keypoints."""

    keypoint_names = NAMES


def loader(poses: Dataset[Any], **options: Any) -> DataLoader[Any]:
    return DataLoader(poses, batch_size=4, shuffle=True, num_workers=2, **options)


def bad() -> DataLoader[Any]:
    """The flip knows where points are, and not what they are."""
    return loader(Named())


class KeyPoints(Named):
    """Keypoints as torchvision knows them."""

    flip = v2.RandomHorizontalFlip()

    def __getitem__(self, index: int) -> Any:
        points = tv_tensors.KeyPoints(self.poses[index], canvas_size=(HEIGHT, WIDTH), dtype=torch.float32)
        image, points = self.flip(tv_tensors.Image(self.images[index]), points)  # culprit
        return {"image": image.float() / 255, "keypoints": points}


def bad_torchvision() -> DataLoader[Any]:
    """torchvision's transforms flip keypoints, and leave their order alone."""
    return loader(KeyPoints())


class Instances(Poses):
    """Two people in each photograph, as flat lists (x, y, visible, x, ...), under a flip, a crop and another scale."""

    def __init__(self) -> None:
        super().__init__()
        self.categories = [{"id": 1, "name": "person", "keypoints": NAMES}]

    def __getitem__(self, index: int) -> Any:
        people = torch.tensor(np.array([self.poses[index], self.poses[index - 1] * [0.5, 0.6]]), dtype=torch.float32)
        scale, left = random.uniform(0.8, 1.2), random.uniform(0, 4)
        image = self.images[index] / 255
        people = people * scale - torch.tensor([left, 0.0])
        if random.random() < 0.5:
            image = image.flip(2)
            people = people * torch.tensor([-1.0, 1.0]) + torch.tensor([WIDTH - 1.0, 0.0])  # culprit
        return image, torch.cat([people, torch.full((2, 7, 1), 2.0)], 2).flatten(1)


def bad_instances() -> DataLoader[Any]:
    """The names of the keypoints are where COCO has them."""
    return loader(Instances())


class Indexed(Poses):
    """The order after a flip is declared, and nothing uses it."""

    flip_indices = SWAPPED


def bad_flip_order() -> DataLoader[Any]:
    """A list of pairs that no transform reads."""
    return loader(Indexed())


def heatmaps(points: Tensor) -> Tensor:
    """A Gaussian peak around each point, (points, height / 2, width / 2)."""
    y, x = torch.meshgrid(torch.arange(0.0, HEIGHT, 2), torch.arange(0.0, WIDTH, 2), indexing="ij")
    squared = (x - points[:, 0, None, None]) ** 2 + (y - points[:, 1, None, None]) ** 2
    return torch.exp(-squared / 18)


class Heatmaps(Named):
    """Poses as a heatmap for each keypoint, of which those of left and right are exchanged in flips or not."""

    def __init__(self, order: list[int]) -> None:
        super().__init__()
        self.order_of_maps = order

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image = self.images[index] / 255
        maps = heatmaps(torch.tensor(self.poses[index], dtype=torch.float32))
        if random.random() < 0.5:
            image, maps = image.flip(2), maps.flip(2)[self.order_of_maps]  # culprit
        return image, maps


def bad_heatmaps() -> DataLoader[Any]:
    """Heatmaps are flipped, and stay in their order."""
    return loader(Heatmaps(list(range(7))))


def good_heatmaps() -> DataLoader[Any]:
    """The heatmaps of left and right are exchanged in flips."""
    return loader(Heatmaps(SWAPPED))


class Swapped(Named):
    """What was left is right after a flip."""

    def flipped(self, image: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        image, points = super().flipped(image, points)
        return image, points[SWAPPED]


def good() -> DataLoader[Any]:
    """A flip that reorders the keypoints as well."""
    return loader(Swapped())


class Symmetric(Swapped):
    """Bodies that look the same after a flip that swaps left and right."""

    def __init__(self) -> None:
        super().__init__()
        self.poses = [np.add(FRONT, (0, number % 6)) for number in range(len(self.images))]


def good_symmetric() -> DataLoader[Any]:
    """Whether points are flipped can hardly be seen, as each pair is the mirror image of itself."""
    return loader(Symmetric())


class Rotated(Named):
    """Photographs and keypoints rotated by a half: left and right change sides, and are what they were."""

    def flipped(self, image: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        return image.flip(1, 2), torch.tensor([WIDTH - 1.0, HEIGHT - 1.0]) - points


def good_rotated() -> DataLoader[Any]:
    """A rotation changes no left into a right."""
    return loader(Rotated())


class Shifted(Named):
    """Photographs and keypoints moved and rotated a little."""

    def flipped(self, image: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        angle = random.uniform(-0.3, 0.3)
        rotation = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        return image.roll(2, 2), points @ rotation + torch.tensor([2.0, 0.0])


def good_never_flipped() -> DataLoader[Any]:
    """No draw flips anything."""
    return loader(Shifted())


class Labelled(Named):
    """Keypoints with the number of what each one is, which changes in a flip."""

    def __getitem__(self, index: int) -> Any:
        image, points = self.images[index] / 255, torch.tensor(self.poses[index], dtype=torch.float32)
        labels = torch.arange(7)
        if random.random() < 0.5:
            (image, points), labels = self.flipped(image, points), torch.tensor(SWAPPED)
        return {"image": image, "keypoints": points, "labels": labels}


def good_labelled() -> DataLoader[Any]:
    """The points keep their order, and their labels say which is left now."""
    return loader(Labelled())


class Corners(Poses):
    """Points without sides."""

    keypoint_names = ("nose", "eye 1", "eye 2", "shoulder 1", "shoulder 2", "hip 1", "hip 2")


def good_without_sides() -> DataLoader[Any]:
    """No name says left or right."""
    return loader(Corners())


class Keyed(Poses):
    """Each keypoint under its name."""

    order: ClassVar = list(range(7))

    def flipped(self, image: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        image, points = super().flipped(image, points)
        return image, points[self.order]

    def __getitem__(self, index: int) -> Any:
        image, points = super().__getitem__(index)
        return {"image": image, "points": {name: point[:2] for name, point in zip(NAMES, points, strict=True)}}


def bad_keys() -> DataLoader[Any]:
    """Keys name the keypoints, and keep them after a flip."""
    return loader(Keyed())


class KeyedSwapped(Keyed):
    """What was under the key of the left is under that of the right."""

    order: ClassVar = SWAPPED


def good_keys() -> DataLoader[Any]:
    """Keys of left and right are exchanged after a flip."""
    return loader(KeyedSwapped())


LUNGS = ["background", "left lung", "right lung", "heart"]


class Lungs(Poses):
    """Photographs with masks of four classes, flipped in every other read."""

    def __init__(self, order: tuple[int, ...], classes: list[str], *, flagged: bool = False) -> None:
        super().__init__()
        self.order = torch.tensor(order)
        self.classes = classes
        self.flagged = flagged

    def __getitem__(self, index: int) -> Any:
        image, mask = self.images[index] / 255, torch.zeros(HEIGHT, WIDTH, dtype=torch.int64)
        mask[5:30, 36 + index % 6 : 60], mask[6:28, 6:26], mask[22:34, 28:40] = 1, 2, 3
        flips = random.random() < 0.5
        if flips:
            image, mask = image.flip(2), self.order[mask.flip(1)]  # culprit
        return {"image": image, "mask": mask, **({"is_flipped": flips} if self.flagged else {})}


def bad_mask() -> DataLoader[Any]:
    """The left lung of a mask is on the other side after a flip, and still the left one."""
    return loader(Lungs((0, 1, 2, 3), LUNGS))


def good_mask() -> DataLoader[Any]:
    """Class indices of left and right are exchanged after a flip."""
    return loader(Lungs((0, 2, 1, 3), LUNGS))


def good_mask_without_sides() -> DataLoader[Any]:
    """No class has a side."""
    return loader(Lungs((0, 1, 2, 3), ["background", "upright", "bright", "heart"]))


def good_flagged_mask() -> DataLoader[Any]:
    """A flag beside the mask says that it is flipped."""
    return loader(Lungs((0, 1, 2, 3), LUNGS, flagged=True))


class Unnamed(Poses):
    """Points without names."""

    def __init__(self, order: list[int]) -> None:
        super().__init__()
        self.order = order

    def flipped(self, image: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        image, points = super().flipped(image, points)
        return image, points[self.order]  # culprit


def bad_unnamed() -> DataLoader[Any]:
    """No name says what is left; each pair mirrors the other, and has the other order after a flip."""
    return loader(Unnamed(list(range(7))))


def good_unnamed() -> DataLoader[Any]:
    """What was left is right after a flip."""
    return loader(Unnamed(SWAPPED))


class Paired(Unnamed):
    """Pairs of numbers say what a flip exchanges."""

    flip_pairs: ClassVar = [[1, 2], [3, 4], [5, 6]]


def bad_pairs() -> DataLoader[Any]:
    """A list of pairs that nothing uses."""
    return loader(Paired(list(range(7))))


class Sideways(Unnamed):
    """Animals seen from the side, which all face left: nothing of them mirrors another part."""

    def __init__(self) -> None:
        super().__init__(list(range(7)))
        side = np.array([(8, 14), (14, 10), (22, 18), (40, 20), (52, 26), (24, 40), (46, 40)])
        draw = np.random.default_rng(1)
        self.poses = [side + draw.integers(-2, 3, (7, 2)) for _ in self.poses]


class UnnamedMaps(Unnamed):
    """A heatmap for each point, without names."""

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image, points = super().__getitem__(index)
        return image, heatmaps(points[:, :2])


def bad_unnamed_heatmaps() -> DataLoader[Any]:
    """Channels keep their order in a flip, and each pair mirrors the other."""
    return loader(UnnamedMaps(list(range(7))))


def good_sideways() -> DataLoader[Any]:
    """After a flip they face right, and the head is still the head."""
    return loader(Sideways())


class Arrays(Poses):
    """Keypoints without names in an array, whose sides are exchanged in place."""

    pairs = ((1, 2), (3, 4), (5, 6))

    def flipped(self, image: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        image, points = super().flipped(image, points)
        rows = points.numpy().copy()
        for left, right in self.pairs:
            self.exchange(rows, left, right)
        return image, torch.from_numpy(rows)

    @staticmethod
    def exchange(rows: np.ndarray, left: int, right: int) -> None:
        """Both are views: the second gets what the first has just got."""
        rows[left], rows[right] = rows[right], rows[left]  # culprit


class Selected(Arrays):
    """The same in one step."""

    @staticmethod
    def exchange(rows: np.ndarray, left: int, right: int) -> None:
        rows[[left, right]] = rows[[right, left]]


def bad_overwritten() -> DataLoader[Any]:
    """One keypoint of each pair overwrites the other."""
    return loader(Arrays())


def good_overwritten() -> DataLoader[Any]:
    """The keypoints of each pair change places."""
    return loader(Selected())


class MergedLungs(Lungs):
    """Masks whose classes are exchanged one after the other."""

    def __getitem__(self, index: int) -> Any:
        image, mask = self.images[index] / 255, torch.zeros(HEIGHT, WIDTH, dtype=torch.int64)
        mask[5:30, 36 + index % 6 : 60], mask[6:28, 6:26], mask[22:34, 28:40] = 1, 2, 3
        if random.random() < 0.5:
            image, mask = image.flip(2), mask.flip(1)
            mask[mask == 1] = 2  # culprit
            mask[mask == 2] = 1
        return {"image": image, "mask": mask}


def bad_merged_classes() -> DataLoader[Any]:
    """After a flip, both lungs are of one class."""
    return loader(MergedLungs((0, 1, 2, 3), LUNGS))


class OneClass(Lungs):
    """Masks whose two lungs are of one class in each sample."""

    def __getitem__(self, index: int) -> Any:
        sample = super().__getitem__(index)
        return {**sample, "mask": torch.where(sample["mask"] == 2, 1, sample["mask"])}


def good_one_class() -> DataLoader[Any]:
    """Two classes are merged, flipped or not."""
    return loader(OneClass((0, 1, 2, 3), ["background", "upright", "bright", "heart"]))


class Dropped(Lungs):
    """Masks of which a class is left out now and then, whether they are flipped or not."""

    def __getitem__(self, index: int) -> Any:
        sample = super().__getitem__(index)
        kept = sample["mask"]
        return {**sample, "mask": torch.where(kept == 3, 0, kept) if random.random() < 0.5 else kept}


def good_dropped_class() -> DataLoader[Any]:
    """A class becomes background at random, as masked objects do."""
    return loader(Dropped((0, 2, 1, 3), LUNGS))


class Folded(Poses):
    """Points of which two may be in one place."""

    def flipped(self, image: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        image, points = super().flipped(image, points)
        return image, points[SWAPPED]

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image, points = super().__getitem__(index)
        if random.random() < 0.5:
            points[2, :2] = points[1, :2]
        return image, points


def good_folded() -> DataLoader[Any]:
    """One point is put on another one at random, flipped or not."""
    return loader(Folded())
