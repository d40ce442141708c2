"""DG512 desynced-target: an image moves one way, and its mask, boxes or points another."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import soundfile
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms, tv_tensors
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms import functional as F

from sample_datasets._files import FOLDER, written
from sample_datasets._parts import scratch, stored
from sample_datasets._scenes import HEIGHT, WIDTH, scenes
from sample_datasets._sounds import recording
from sample_datasets._sounds import written as recorded

Pair = tuple[Image.Image, Image.Image]


class Scenes(Dataset):
    """Photographs and their label masks, through one function of both."""

    def __init__(self, augment: Callable[[Image.Image, Image.Image], Any]) -> None:
        self.augment = augment

    def __len__(self) -> int:
        return len(scenes())

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image, mask = self.augment(*(Image.open(path) for path in scenes()[index]))
        return F.to_tensor(image), torch.from_numpy(np.array(mask, np.int64))


def loader(augment: Callable[[Image.Image, Image.Image], Any]) -> DataLoader[Any]:
    """Batches of four scenes."""
    return DataLoader(Scenes(augment), batch_size=4)


def bad() -> DataLoader[Any]:
    """One transform, called twice: image and mask are mirrored by coins of their own."""
    flip = transforms.RandomHorizontalFlip()
    return loader(lambda image, mask: (flip(image), flip(mask)))  # culprit


class Inspected(Scenes):
    """Every third product is without defect, and has no mask."""

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image, mask = scenes()[index]
        empty = Image.new("L", (WIDTH, HEIGHT))
        image, mask = self.augment(Image.open(image), Image.open(mask) if index % 3 else empty)
        return F.to_tensor(image), torch.from_numpy(np.array(mask, np.int64))


def bad_crop() -> DataLoader[Any]:
    """Cropped by numbers of their own; v1 transforms of one kind, one for each."""
    crop = transforms.RandomCrop((40, 48))
    return DataLoader(Inspected(lambda image, mask: (crop(image), crop(mask))), batch_size=4)  # culprit


class Halved(Scenes):
    """Masks are stored at half the size of their photographs, as a network predicts them."""

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        photograph, mask = scenes()[index]

        def write(path: Path) -> None:
            Image.open(mask).resize((WIDTH // 2, HEIGHT // 2), Image.Resampling.NEAREST).save(path)

        image, small = self.augment(Image.open(photograph), Image.open(stored(HALVES / mask.name, write)))
        return F.to_tensor(image), torch.from_numpy(np.array(small, np.int64))


HALVES = scratch("halves")


def bad_image_only() -> DataLoader[Any]:
    """Only the image is cropped; both have the sizes of their files."""
    crop = transforms.RandomResizedCrop((HEIGHT, WIDTH), scale=(0.2, 0.5))
    return DataLoader(Halved(lambda image, mask: (crop(image), mask)), batch_size=4)  # culprit


def bad_angle() -> DataLoader[Any]:
    """Pillow turns against the clock and OpenCV's matrix with it, as the sign is taken here."""

    def turn(image: Image.Image, mask: Image.Image) -> tuple[Image.Image, np.ndarray]:
        angle = random.uniform(-30, 30)
        matrix = cv2.getRotationMatrix2D((WIDTH / 2, HEIGHT / 2), -angle, 1)
        turned = cv2.warpAffine(np.array(mask), matrix, (WIDTH, HEIGHT), flags=cv2.INTER_NEAREST)
        return image.rotate(angle), turned  # culprit

    return loader(turn)


class Arrays(Dataset):
    """Photographs and masks in memory, by albumentations."""

    def __init__(self, *, together: bool) -> None:
        import albumentations as A

        self.images = [np.array(Image.open(image)) for image, _ in scenes()]
        self.masks = [np.array(Image.open(mask)) for _, mask in scenes()]
        self.transform = A.Compose([A.HorizontalFlip(), A.RandomRotate90(), A.RandomCrop(40, 40), A.Normalize()])
        self.together = together

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        image, mask = self.images[index], self.masks[index]
        if self.together:
            found = self.transform(image=image, mask=mask)
        else:
            found = {
                "image": self.transform(image=image)["image"],  # culprit
                "mask": self.transform(image=image, mask=mask)["mask"],
            }
        return {
            "image": torch.from_numpy(found["image"]).permute(2, 0, 1),
            "mask": torch.from_numpy(found["mask"]).long(),
        }


def bad_albumentations() -> DataLoader[Any]:
    """Called once for the image and once more for the mask."""
    return DataLoader(Arrays(together=False), batch_size=4)


class Kept(Dataset):
    """Stacks of pictures and masks, and nothing that could be called a transform."""

    def __init__(self, *, flips_mask: bool) -> None:
        self.images = torch.stack([F.pil_to_tensor(Image.open(image)) for image, _ in scenes()])
        self.masks = torch.stack([F.pil_to_tensor(Image.open(mask))[0] for _, mask in scenes()])
        self.flips_mask = flips_mask

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image, mask = self.images[index] / 255, self.masks[index].long()
        if torch.rand(()) < 0.5:
            image = image.flip(-1)  # culprit
            mask = mask.flip(-1) if self.flips_mask else mask
        return image, mask


def bad_memory() -> DataLoader[Any]:
    """The image is mirrored, and the mask forgotten."""
    return DataLoader(Kept(flips_mask=False), batch_size=4)


def bad_transposed() -> DataLoader[Any]:
    """Width and height of the mask are confused, and a resize hides it."""

    def turn(image: Image.Image, mask: Image.Image) -> tuple[Image.Image, Image.Image]:
        square = mask.transpose(Image.Transpose.TRANSPOSE).resize((WIDTH, HEIGHT), Image.Resampling.NEAREST)  # culprit
        return image, square

    return loader(turn)


class Volumes(Dataset):
    """Patches of volumes and their labels, which are stored in one archive each."""

    def __init__(self, *, flips_label: bool) -> None:
        self.paths = [_volume(number) for number in range(8)]
        self.flips_label = flips_label

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        case = np.load(self.paths[index])
        volume, label = case["volume"].astype(np.float32) / 100, case["label"]
        depth, top, left = (random.randrange(8) for _ in range(3))
        part = np.s_[depth : depth + 16, top : top + 24, left : left + 24]
        volume, label = volume[part], label[part]
        if random.random() < 0.5:
            volume, label = volume[..., ::-1], label[..., ::-1] if self.flips_label else label  # culprit
        return {"image": torch.tensor(volume.copy())[None], "label": torch.tensor(label.copy())[None].long()}


def _volume(number: int) -> Path:
    def write(path: Path) -> None:
        source = np.random.default_rng(number)
        volume, label = source.normal(0, 100, (24, 32, 32)).astype(np.int16), np.zeros((24, 32, 32), np.uint8)
        for kind in (1, 2):
            depth, top, left = source.integers(0, 16, 3)
            label[depth : depth + 8, top : top + 14, left : left + 12] = kind
        np.savez(path, volume=volume + np.int16(300) * label, label=label)

    return stored(ARCHIVES / f"{number}.npz", write)


ARCHIVES = scratch("volumes")


def bad_volumes() -> DataLoader[Any]:
    """The volume is mirrored, and its label is not."""
    return DataLoader(Volumes(flips_label=False), batch_size=2)


def good_volumes() -> DataLoader[Any]:
    """Both are mirrored."""
    return DataLoader(Volumes(flips_label=True), batch_size=2)


class Scans(Dataset):
    """Volumes of one library, and labels of another one, which stores their axes the other way round."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        volume, label = (np.load(_scan(index, name)) for name in ("volume", "label"))
        return {"image": torch.tensor(volume)[None], "label": torch.tensor(label.transpose(2, 1, 0).copy())[None]}


def _scan(number: int, name: str) -> Path:
    rng = np.random.default_rng(number)
    label = np.zeros((24, 24, 24), np.uint8)
    label[tuple(slice(begin, begin + 8) for begin in rng.integers(2, 12, 3))] = 1
    volume = rng.normal(0, 20, label.shape) + 100 * label
    held: dict[str, np.ndarray] = {"volume": volume.astype(np.float32), "label": label.transpose(2, 1, 0)}
    return stored(ARCHIVES / f"{name}{number}.npy", partial(np.save, arr=held[name]))


def good_turned_labels() -> DataLoader[Any]:
    """The loader turns labels round, as the files of volumes and labels need."""
    return DataLoader(Scans(), batch_size=2)


def corners(index: int) -> np.ndarray:
    """Two boxes of a scene as x and y of two corners, in pixels, away from its middle."""
    shift = index % 5
    return np.array([[3 + shift, 4, 19 + shift, 20], [6, 24 + shift, 24, 40 + shift]], np.float32)


class Boxed(Dataset):
    """Photographs with boxes around things, through one function of both."""

    def __init__(self, transforms: Callable[[Any, dict[str, Any]], tuple[Any, dict[str, Any]]]) -> None:
        self.transforms = transforms

    def __len__(self) -> int:
        return len(scenes())

    def __getitem__(self, index: int) -> tuple[Tensor, dict[str, Any]]:
        image = Image.open(scenes()[index][0]).convert("RGB")
        target = {"boxes": torch.from_numpy(corners(range(len(self))[index])), "labels": torch.tensor([1, 2])}
        image, target = self.transforms(image, target)
        return F.to_tensor(image), target


def boxed(augment: Callable[[Any, dict[str, Any]], tuple[Any, dict[str, Any]]]) -> DataLoader[Any]:
    """Lists of four images and of four targets."""
    return DataLoader(Boxed(augment), batch_size=4, collate_fn=lambda samples: tuple(zip(*samples, strict=True)))


def bad_boxes() -> DataLoader[Any]:
    """The image is mirrored, its boxes are not."""
    flip = transforms.RandomHorizontalFlip()
    return boxed(lambda image, target: (flip(image), target))  # culprit


class Padded(Boxed):
    """A class and a box in each row, and equal rows up to ten, so that samples can be stacked."""

    fill = 0.0

    def __getitem__(self, index: int) -> Any:
        image, target = super().__getitem__(index)
        rows = torch.cat([target["labels"][:, None], target["boxes"]], 1)
        return image, torch.cat([rows, torch.full((10 - len(rows), 5), self.fill)])


def bad_padded() -> DataLoader[Any]:
    """The image is mirrored, and the boxes of a padded table are not."""
    flip = transforms.RandomHorizontalFlip()
    return DataLoader(Padded(lambda image, target: (flip(image), target)), batch_size=4)  # culprit


def bad_unscaled() -> DataLoader[Any]:
    """The image is made larger, and its boxes keep their pixels."""
    resize = transforms.Resize((2 * HEIGHT, 2 * WIDTH))
    return boxed(lambda image, target: (resize(image), target))  # culprit


def bad_form() -> DataLoader[Any]:
    """Boxes as x, y, width and height are mirrored as if they were two corners."""

    def flip(image: Image.Image, target: dict[str, Any]) -> tuple[Image.Image, dict[str, Any]]:
        boxes = target["boxes"].clone()
        boxes[:, 2:] -= boxes[:, :2]
        if random.random() < 0.5:
            image = F.hflip(image)
            boxes[:, 0] = WIDTH - boxes[:, 0]  # culprit
        return image, {**target, "boxes": boxes}

    return boxed(flip)


class Faces(Dataset):
    """Photographs with five points each, as shares of the image."""

    def __init__(self, *, moves_points: bool) -> None:
        self.moves_points = moves_points

    def __len__(self) -> int:
        return len(scenes())

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        image = F.to_tensor(Image.open(scenes()[index][0]))
        source = np.random.default_rng(range(len(self))[index])
        points = torch.from_numpy(source.uniform(0.1, 0.9, (5, 2)).astype(np.float32))
        if torch.rand(()) < 0.5:
            image = image.flip(-1)  # culprit
            if self.moves_points:
                points[:, 0] = 1 - points[:, 0]
                points = points[[1, 0, 2, 4, 3]]  # left and right change places
        return {"image": image, "keypoints": points}


def bad_points() -> DataLoader[Any]:
    """Points of a face stay where they were when it is mirrored."""
    return DataLoader(Faces(moves_points=False), batch_size=4)


class Pairs(Dataset):
    """Photographs, and what was stored beside each: half as large and blurred, through one function of both."""

    def __init__(self, augment: Callable[[Image.Image, Image.Image], Any]) -> None:
        self.augment = augment

    def __len__(self) -> int:
        return len(scenes())

    def other(self, index: int) -> Image.Image:
        """The smaller image."""
        image = scenes()[index][0]

        def write(path: Path) -> None:
            Image.open(image).resize((WIDTH // 2, HEIGHT // 2), Image.Resampling.BICUBIC).save(path)

        return Image.open(stored(SMALL / image.name, write))

    def __getitem__(self, index: int) -> Any:
        large, small = self.augment(Image.open(scenes()[index][0]), self.other(index))
        return {"low": F.to_tensor(small), "high": F.to_tensor(large)}


SMALL = scratch("pairs")


def bad_pairs() -> DataLoader[Any]:
    """Super-resolution: the large image is mirrored by one coin and the small one by another."""
    flip = transforms.RandomHorizontalFlip()
    return DataLoader(Pairs(lambda large, small: (flip(large), flip(small))), batch_size=4)  # culprit


class DrawnPairs(Pairs):
    """Each sample draws one of three pairs."""

    def __init__(self, augment: Callable[[Image.Image, Image.Image], Any]) -> None:
        super().__init__(augment)
        for index in range(len(self)):
            self.other(index)  # writes it

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__((range(len(self))[index] + random.randrange(3) * len(self) // 3) % len(self))


def bad_pair_crop() -> DataLoader[Any]:
    """The crop of the small image is taken from where the large one has it, in pixels of the large one."""

    def crop(large: Image.Image, small: Image.Image) -> Pair:
        top, left = random.randrange(0, HEIGHT // 2, 2), random.randrange(0, WIDTH // 2, 2)
        part = F.crop(large, top, left, HEIGHT // 2, WIDTH // 2)
        other = F.crop(small, top, left, HEIGHT // 4, WIDTH // 4)  # culprit
        return F.resize(part, [24, 32]), other

    return DataLoader(DrawnPairs(crop), batch_size=4)


class SomePairs(Pairs):
    """One photograph in eight has no small one beside it, which is made of it then; moved by `coins` coins."""

    def __init__(self, coins: int) -> None:
        self.coins = coins
        for index in range(len(self)):
            self.other(index)  # writes it

    def __getitem__(self, index: int) -> Any:
        large = Image.open(scenes()[index][0]).convert("RGB")
        small = large.resize((WIDTH // 2, HEIGHT // 2)) if index % 8 == 3 else self.other(index).convert("RGB")
        coins = [random.random() < 0.5 for _ in range(self.coins)]
        high = F.hflip(large) if coins[0] else large  # culprit
        low = F.hflip(small) if coins[-1] else small  # culprit
        return {"low": F.to_tensor(low), "high": F.to_tensor(high)}


def bad_some_pairs() -> DataLoader[Any]:
    """One coin for each of the two; some samples read a single file."""
    return DataLoader(SomePairs(2), batch_size=4)


def good_some_pairs() -> DataLoader[Any]:
    """One coin for both."""
    return DataLoader(SomePairs(1), batch_size=4)


def good_pairs() -> DataLoader[Any]:
    """One coin, and one crop in the pixels of each."""

    def move(large: Image.Image, small: Image.Image) -> Pair:
        top, left = (random.randrange(side // 4) for side in (HEIGHT, WIDTH))
        large = F.crop(large, 2 * top, 2 * left, HEIGHT // 2, WIDTH // 2)
        small = F.crop(small, top, left, HEIGHT // 4, WIDTH // 4)
        return (F.hflip(large), F.hflip(small)) if random.random() < 0.5 else (large, small)

    return DataLoader(Pairs(move), batch_size=4)


class Shrunk(Dataset):
    """A patch of a photograph, and the same patch half as large: super-resolution from one file."""

    def __init__(self, move: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> None:
        self.move = move

    def __len__(self) -> int:
        return len(scenes())

    def __getitem__(self, index: int) -> Any:
        image = F.to_tensor(Image.open(scenes()[index][0]))
        high = F.crop(image, random.randrange(HEIGHT // 2), random.randrange(WIDTH // 2), HEIGHT // 2, WIDTH // 2)
        low = F.resize(high, [HEIGHT // 4, WIDTH // 4], InterpolationMode.BICUBIC)
        low, high = self.move(low, high)
        return {"low": low, "high": high}


def bad_shrunk() -> DataLoader[Any]:
    """The small image is mirrored alone."""
    flip = transforms.RandomHorizontalFlip()
    return DataLoader(Shrunk(lambda low, high: (flip(low), high)), batch_size=4)  # culprit


def good_shrunk() -> DataLoader[Any]:
    """Both are mirrored."""
    return DataLoader(Shrunk(lambda low, high: (low.flip(-1), high.flip(-1))), batch_size=4)


def good_shrunk_together() -> DataLoader[Any]:
    """Both are mirrored by one coin, and the small one is noisy."""

    def move(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        low = low + 0.02 * torch.randn(low.shape)
        return (low.flip(-1), high.flip(-1)) if random.random() < 0.5 else (low, high)

    return DataLoader(Shrunk(move), batch_size=4)


class Branches(Dataset):
    """A photograph for a network of two branches, one of which gets a small image, and its class."""

    def __init__(self) -> None:
        sizes = ([HEIGHT, WIDTH], [HEIGHT // 2, WIDTH // 2])
        self.branches = [transforms.Compose([transforms.Resize(size), FLIP, TENSOR]) for size in sizes]

    def __len__(self) -> int:
        return len(scenes())

    def __getitem__(self, index: int) -> Any:
        image = Image.open(scenes()[index][0])
        return [branch(image) for branch in self.branches], range(len(self))[index] % 3


FLIP, TENSOR = transforms.RandomHorizontalFlip(), transforms.ToTensor()


def good_branches() -> DataLoader[Any]:
    """Each branch has a coin of its own."""
    return DataLoader(Branches(), batch_size=4)


class Depths(Scenes):
    """Photographs that are stored as wide as they are high; maps of depth that show more are cut to the same part."""

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image, mask = scenes()[index]

        def write(path: Path) -> None:
            F.center_crop(Image.open(image), [HEIGHT]).save(path)

        photograph, depth = Image.open(stored(SQUARES / image.name, write)), F.center_crop(Image.open(mask), [HEIGHT])
        return F.to_tensor(photograph), torch.from_numpy(np.array(depth, np.float32))


SQUARES = scratch("squares")


def good_wider_files() -> DataLoader[Any]:
    """Files of two shapes."""
    return DataLoader(Depths(lambda image, mask: (image, mask)), batch_size=4)


class Unpaired(Pairs):
    """Another photograph in the place of the small one."""

    def other(self, index: int) -> Image.Image:
        """A photograph of another style."""
        return Image.open(scenes()[(range(len(self))[index] * 5 + 3) % len(self)][0]).convert("L").convert("RGB")


def good_unpaired() -> DataLoader[Any]:
    """Two collections of photographs, each moved by itself."""
    flip = transforms.RandomHorizontalFlip()
    return DataLoader(Unpaired(lambda large, small: (flip(large), flip(small))), batch_size=4)


class TwoReads(Pairs):
    """The same photograph, opened once more."""

    def other(self, index: int) -> Image.Image:
        """The photograph."""
        return Image.open(scenes()[index][0])


def good_two_reads() -> DataLoader[Any]:
    """Two views of a photograph that is opened for each."""
    crop = transforms.RandomResizedCrop((24, 32))
    return DataLoader(TwoReads(lambda large, small: (crop(large), crop(small))), batch_size=4)


class Registered(Pairs):
    """How far the small image was shifted stands beside it."""

    def __getitem__(self, index: int) -> Any:
        shift = int(torch.randint(-8, 9, ()))
        small = F.to_tensor(self.other(index)).roll(shift, -1)
        return {"fixed": F.to_tensor(Image.open(scenes()[index][0])), "moving": small, "shift": float(shift)}


def good_registered() -> DataLoader[Any]:
    """What is to be learned is how two images have moved."""
    return DataLoader(Registered(lambda large, small: (large, small)), batch_size=4)


def good() -> DataLoader[Any]:
    """One coin for both."""

    def flip(image: Image.Image, mask: Image.Image) -> Pair:
        return (F.hflip(image), F.hflip(mask)) if random.random() < 0.5 else (image, mask)

    return loader(flip)


class Clips(Scenes):
    """Three frames, each augmented by itself."""

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        images, masks = zip(*(super(Clips, self).__getitem__(index) for _ in range(3)), strict=True)
        return torch.stack(images), torch.stack(masks)


def good_params() -> DataLoader[Any]:
    """One set of parameters for both, another for each frame; jitter and grey for the image alone."""
    jitter = transforms.Compose([transforms.ColorJitter(0.4, 0.4, 0.4, 0.1), transforms.RandomGrayscale(0.3)])

    def crop(image: Image.Image, mask: Image.Image) -> Pair:
        box = transforms.RandomResizedCrop.get_params(image, [0.3, 1.0], [0.8, 1.2])
        small = F.resized_crop(mask, *box, [40, 40], InterpolationMode.NEAREST)
        return jitter(F.resized_crop(image, *box, [40, 40])), small

    return DataLoader(Clips(crop), batch_size=4)


class Wrapped(Dataset):
    """torchvision moves what it knows together; parts of the image are erased, and it may be inverted."""

    def __init__(self) -> None:
        self.transforms = v2.Compose(
            [
                v2.RandomHorizontalFlip(),
                v2.RandomAffine(25, (0.1, 0.1), (0.8, 1.2), 5),
                v2.RandomPerspective(0.2),
                v2.RandomInvert(0.3),
                v2.RandomSolarize(128, 0.2),
            ]
        )
        self.erase = v2.RandomErasing(0.9, scale=(0.1, 0.3))

    def __len__(self) -> int:
        return len(scenes())

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        image, mask = (v2.functional.pil_to_tensor(Image.open(path)) for path in scenes()[index])
        image, mask = self.transforms(tv_tensors.Image(image), tv_tensors.Mask(mask))
        small = mask[:, ::4, ::4]
        return {"image": self.erase(image / 255), "mask": small[0].long()}


def good_wrapped() -> DataLoader[Any]:
    """Everything that a picture can be put through, and masks at a quarter of its size."""
    return DataLoader(Wrapped(), batch_size=4)


def good_albumentations() -> DataLoader[Any]:
    """Both in one call."""
    return DataLoader(Arrays(together=True), batch_size=4)


def good_memory() -> DataLoader[Any]:
    """Image and mask are mirrored together."""
    return DataLoader(Kept(flips_mask=True), batch_size=4)


def good_evaluation() -> DataLoader[Any]:
    """Images are cropped for the model; masks keep their own size, for the benchmark's own crop."""
    return loader(lambda image, mask: (F.center_crop(image, [40, 40]), mask))


class Views(Dataset):
    """Two crops of each photograph, which are apart on purpose."""

    def __init__(self) -> None:
        self.augment = transforms.Compose([transforms.RandomResizedCrop(32), transforms.ToTensor()])

    def __len__(self) -> int:
        return len(scenes())

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image = Image.open(scenes()[index][0])
        return self.augment(image), self.augment(image)


def good_views() -> DataLoader[Any]:
    """Self-supervised views."""
    return DataLoader(Views(), batch_size=4)


class Mixed(Scenes):
    """Four scenes in one, with their masks."""

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        numbers = [index, *(random.randrange(len(self)) for _ in range(3))]
        pairs = [super(Mixed, self).__getitem__(number) for number in numbers]
        rows = [[torch.cat([pairs[a][part], pairs[b][part]], -1) for a, b in ((0, 1), (2, 3))] for part in (0, 1)]
        image, mask = (torch.cat(row, -2) for row in rows)
        return image, mask


def good_mosaic() -> DataLoader[Any]:
    """A mosaic of four scenes."""
    return DataLoader(Mixed(lambda image, mask: (image, mask)), batch_size=4)


def good_boxes() -> DataLoader[Any]:
    """Mirrored, cropped and resized together, and written as centre, width and height in shares of the image."""
    augment = v2.Compose(
        [
            v2.RandomHorizontalFlip(),
            v2.RandomResizedCrop((40, 56), scale=(0.5, 1.0), antialias=True),
            v2.ClampBoundingBoxes(),
            v2.SanitizeBoundingBoxes(min_size=3),
        ]
    )

    def move(image: Image.Image, target: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        boxes = tv_tensors.BoundingBoxes(target["boxes"], format="XYXY", canvas_size=(HEIGHT, WIDTH))
        image, target = augment(image, {**target, "boxes": boxes})
        centred = v2.functional.convert_bounding_box_format(target["boxes"], new_format="CXCYWH")
        return image, {**target, "boxes": torch.as_tensor(centred) / torch.tensor([56, 40, 56, 40])}

    return boxed(move)


def flipped_both(image: Image.Image, target: dict[str, Any]) -> tuple[Image.Image, dict[str, Any]]:
    """Mirror an image and its boxes together, or neither."""
    boxes = target["boxes"].clone()
    if random.random() < 0.5:
        image = F.hflip(image)
        boxes[:, [0, 2]] = WIDTH - boxes[:, [2, 0]]
    return image, {**target, "boxes": boxes}


def good_padded() -> DataLoader[Any]:
    """The image and the boxes of a padded table are mirrored together."""
    return DataLoader(Padded(flipped_both), batch_size=4)


def good_padded_ignored() -> DataLoader[Any]:
    """The same, padded by a class and coordinates of -1."""
    dataset = Padded(flipped_both)
    dataset.fill = -1.0
    return DataLoader(dataset, batch_size=4)


class Measured(Padded):
    """Numbers of each thing that have nothing to do with where it is: its class, and how far and fast it was."""

    def __getitem__(self, index: int) -> Any:
        image, table = super().__getitem__(index)
        seen = torch.rand(2, 5, generator=torch.Generator().manual_seed(index)) * torch.tensor([1, 1, 1, 0.2, 1])
        return image, torch.cat([seen, torch.zeros_like(table[2:])])


def good_padded_numbers() -> DataLoader[Any]:
    """A padded table that holds no boxes stays as it is when the image is mirrored."""
    flip = transforms.RandomHorizontalFlip()
    return DataLoader(Measured(lambda image, target: (flip(image), target)), batch_size=4)


def good_uncut_boxes() -> DataLoader[Any]:
    """A crop at random, whose boxes may reach beyond it, and lie outside of it, as trackers take them."""

    def crop(image: Image.Image, target: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        top, left, height, width = transforms.RandomCrop.get_params(image, (32, 40))
        moved = target["boxes"] - torch.tensor([left, top, left, top])
        return F.crop(image, top, left, height, width), {**target, "boxes": moved}

    return boxed(crop)


def good_albumentations_boxes() -> DataLoader[Any]:
    """Boxes as albumentations keeps them for COCO: x, y, width and height."""
    import albumentations as A

    params = A.BboxParams("coco", label_fields=["labels"])
    augment = A.Compose([A.HorizontalFlip(), A.VerticalFlip(), A.RandomScale(0.3, p=1.0)], bbox_params=params)

    def move(image: Image.Image, target: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        boxes = target["boxes"].numpy().copy()
        boxes[:, 2:] -= boxes[:, :2]
        found = augment(image=np.array(image), bboxes=boxes, labels=target["labels"].numpy())
        return found["image"], {"boxes": torch.as_tensor(found["bboxes"]), "labels": torch.as_tensor(found["labels"])}

    return boxed(move)


def good_original_boxes() -> DataLoader[Any]:
    """Boxes that follow, and beside them those of the file, for the benchmark."""

    def shrink(image: Image.Image, target: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        scaled = {
            "boxes": target["boxes"] / 2,
            "original_boxes": target["boxes"],
            "size": torch.tensor([HEIGHT, WIDTH]),
        }
        return F.resize(image, [HEIGHT // 2, WIDTH // 2]), {**target, **scaled}

    return boxed(shrink)


def good_points() -> DataLoader[Any]:
    """Points are mirrored with their face, and left and right change places."""
    return DataLoader(Faces(moves_points=True), batch_size=4)


class Anchors(Dataset):
    """Photographs with a table of four columns that holds no boxes of theirs."""

    def __len__(self) -> int:
        return len(scenes())

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image = F.to_tensor(Image.open(scenes()[index][0]))
        image = image.flip(-1) if random.random() < 0.5 else image
        return image, torch.from_numpy(np.random.default_rng(range(len(self))[index]).normal(size=(8, 4))).float()


def good_offsets() -> DataLoader[Any]:
    """Encoded targets of one's own."""
    return DataLoader(Anchors(), batch_size=4)


class Cached(Dataset):
    """Photographs in memory, as a detector's loader keeps them, with as many boxes as each has."""

    def __init__(self, *, mirrors_boxes: bool = True) -> None:
        self.images = [np.array(Image.open(image)) for image, _ in scenes()]
        self.boxes = [self.drawn(number) for number in range(len(self.images))]
        self.mirrors_boxes = mirrors_boxes

    def drawn(self, number: int) -> np.ndarray:
        """Corners of one to five boxes, other ones for each photograph."""
        source = np.random.default_rng(number)
        corner = source.uniform((0, 0), (44, 30), (1 + number % 5, 2))
        return np.concatenate([corner, corner + source.uniform(6, 17, corner.shape)], 1)

    def __len__(self) -> int:
        return len(self.images)

    def mixed(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Four whole photographs around a corner at random, cut at the border, and what is left of their boxes."""
        middle = np.array([int(random.uniform(0.5 * side, 1.5 * side)) for side in (WIDTH, HEIGHT)])
        canvas = np.full((2 * HEIGHT, 2 * WIDTH, 3), 114, np.uint8)
        tiles = [index, *random.choices(range(len(self)), k=3)]
        tables = []
        for number, (right, down) in zip(random.sample(tiles, 4), ((0, 0), (1, 0), (0, 1), (1, 1)), strict=True):
            left, top = middle - (0 if right else WIDTH, 0 if down else HEIGHT)
            rows = slice(max(top, 0), top + HEIGHT), slice(max(left, 0), left + WIDTH)
            held = canvas[rows]
            held[:] = self.images[number][max(-top, 0) :, max(-left, 0) :][: len(held), : held.shape[1]]
            tables.append(self.boxes[number] + [left, top, left, top])
        boxes = np.concatenate(tables).clip(0, [2 * WIDTH, 2 * HEIGHT] * 2)
        return canvas, boxes[(boxes[:, 2:] - boxes[:, :2] > 2).all(axis=1)]

    def __getitem__(self, index: int) -> tuple[Tensor, dict[str, Tensor]]:
        image, boxes = self.mixed(index)
        if random.random() < 0.5:
            image = image[:, ::-1]
            if self.mirrors_boxes:
                boxes = boxes.copy()
                boxes[:, [0, 2]] = image.shape[1] - boxes[:, [2, 0]]
        return F.to_tensor(image.copy()), {"boxes": torch.from_numpy(boxes).float()}


class Averaged(Cached):
    """Two photographs shine through each other, and all boxes of both stay."""

    def mixed(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """The mean of both, which are as large as each other, and the boxes of both."""
        other = random.randrange(len(self))
        image = self.images[index] / 2 + self.images[other] / 2
        return image.astype(np.uint8), np.concatenate([self.boxes[index], self.boxes[other]])


def bad_memory_mosaic() -> DataLoader[Any]:
    """A mosaic is mirrored without its boxes."""
    return DataLoader(Cached(mirrors_boxes=False), batch_size=4, collate_fn=lambda samples: samples)


def good_memory_mosaic() -> DataLoader[Any]:
    """A mosaic of images in memory: boxes of other tiles come and go with them."""
    return DataLoader(Cached(), batch_size=4, collate_fn=lambda samples: samples)


def good_memory_mixup() -> DataLoader[Any]:
    """Boxes of the other image are new in each draw."""
    return DataLoader(Averaged(), batch_size=4, collate_fn=lambda samples: samples)


class Detections(Dataset):
    """Photographs resized to one size, with boxes from pixels of the file to shares of the image; no augmentation."""

    def __init__(self, divisors: Callable[[int, int], tuple[int, int]]) -> None:
        self.divisors = divisors

    def __len__(self) -> int:
        return len(scenes())

    def __getitem__(self, index: int) -> dict[str, Any]:
        image = Image.open(scenes()[index][0]).convert("RGB")
        x, y = self.divisors(*image.size)
        boxes = torch.from_numpy(corners(range(len(self))[index])) / torch.tensor([x, y, x, y])  # culprit
        return {"image": F.to_tensor(image.resize((40, 40))), "boxes": boxes}


def bad_other_side() -> DataLoader[Any]:
    """Both coordinates are divided by the width."""
    return DataLoader(Detections(lambda width, height: (width, width)), batch_size=4)


def good_own_side() -> DataLoader[Any]:
    """Each coordinate is divided by its own side."""
    return DataLoader(Detections(lambda width, height: (width, height)), batch_size=4)


def good_stored_shares() -> DataLoader[Any]:
    """The annotations say how large the images were."""
    return DataLoader(Detections(lambda *_: (WIDTH, HEIGHT)), batch_size=4)


class Letterbox(Detections):
    """Photographs made to fit into a square, with boxes in its pixels."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        image = Image.open(scenes()[index][0]).convert("RGB")
        scale = 48 / max(image.size)
        small = F.to_tensor(image.resize((round(image.width * scale), round(image.height * scale))))
        square = torch.zeros(3, 48, 48)
        square[:, : small.shape[1], : small.shape[2]] = small
        return {"image": square, "boxes": torch.from_numpy(corners(range(len(self))[index])) * scale}


def good_letterbox() -> DataLoader[Any]:
    """One factor for both sides, and the rest is padded."""
    return DataLoader(Letterbox(lambda width, height: (width, height)), batch_size=4)


class Centred(Detections):
    """The same in the middle of the square, with or without the padding in its boxes."""

    def __init__(self, *, pads_boxes: bool) -> None:
        self.pads_boxes = pads_boxes

    def size(self, image: Image.Image) -> tuple[int, int]:
        """Width and height from which the factor follows."""
        return image.size

    def __getitem__(self, index: int) -> dict[str, Any]:
        image = Image.open(scenes()[index][0]).convert("RGB")
        square = Image.new("RGB", (64, 64), (114, 114, 114))
        ratio = 64 / max(image.size)
        small = image.resize((round(image.width * ratio), round(image.height * ratio)))
        left, top = (64 - small.width) // 2, (64 - small.height) // 2
        square.paste(small, (left, top))
        boxes = torch.from_numpy(corners(range(len(self))[index])) * (64 / max(self.size(image)))
        boxes = boxes + torch.tensor([left, top, left, top]) * self.pads_boxes  # culprit
        return {"image": F.to_tensor(square), "boxes": boxes}


def bad_centred() -> DataLoader[Any]:
    """The image is padded on all sides, and its boxes are only scaled."""
    return DataLoader(Centred(pads_boxes=False), batch_size=4)


def good_centred() -> DataLoader[Any]:
    """Both are padded."""
    return DataLoader(Centred(pads_boxes=True), batch_size=4)


class Annotated(Centred):
    """The annotations say how large the images were."""

    def size(self, image: Image.Image) -> tuple[int, int]:
        """The size of all of them."""
        return WIDTH, HEIGHT


def good_centred_annotated() -> DataLoader[Any]:
    """Scaled by what the annotations say, and padded."""
    return DataLoader(Annotated(pads_boxes=True), batch_size=4)


class Outlined(Dataset):
    """Photographs with a target that is drawn from coordinates, through one function of both."""

    def __init__(
        self, draw: Callable[[int], Tensor], augment: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
    ) -> None:
        self.draw = draw
        self.augment = augment

    def __len__(self) -> int:
        return len(scenes())

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        number = range(len(self))[index]
        image, target = self.augment(F.to_tensor(Image.open(scenes()[number][0]).convert("RGB")), self.draw(number))
        return {"image": image, "target": target}


def polygon(number: int) -> Tensor:
    """A mask of a triangle on the left."""
    left, top = 3 + number % 7, 4 + number % 11
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    cv2.fillPoly(mask, [np.array([[left, top], [left + 20, top + 3], [left + 4, top + 22]], np.int32)], 1)
    return torch.from_numpy(mask) > 0


def heatmap(number: int) -> Tensor:
    """Where two joints are, in a quarter of the resolution."""
    rows, columns = torch.meshgrid(torch.arange(HEIGHT / 4), torch.arange(WIDTH / 4), indexing="ij")
    places = [(3 + number % 4, 2 + number % 3), (2 + number % 5, 6 - number % 3)]
    return torch.stack([torch.exp(-((rows - row) ** 2 + (columns - column) ** 2)) for row, column in places])


def flip_both(image: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Flips both by one coin."""
    return (image.flip(-1), target.flip(-1)) if torch.rand(()) < 0.5 else (image, target)


def flip_image(image: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The target is given as it was drawn."""
    return flip_both(image, image)[0], target  # culprit


def bad_polygons() -> DataLoader[Any]:
    """The image is flipped, and not the mask of its polygon."""
    return DataLoader(Outlined(polygon, flip_image), batch_size=4, shuffle=True)


def good_polygons() -> DataLoader[Any]:
    """Both are flipped."""
    return DataLoader(Outlined(polygon, flip_both), batch_size=4, shuffle=True)


def crop_both(image: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The same crop of both; the target has a quarter of the resolution."""
    top, left = random.randrange(3), random.randrange(4)
    return F.crop(image, 4 * top, 4 * left, 36, 48), F.crop(target, top, left, 9, 12)


def bad_heatmaps() -> DataLoader[Any]:
    """The heatmaps of joints are cropped with their image, and not flipped with it."""
    return DataLoader(Outlined(heatmap, lambda *both: crop_both(*flip_image(*both))), batch_size=4, shuffle=True)


def good_swapped_heatmaps() -> DataLoader[Any]:
    """Left and right change places as well."""

    def flip(image: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        image, flipped = flip_both(image, target)
        return crop_both(image, flipped if flipped is target else flipped.flip(0))

    return DataLoader(Outlined(heatmap, flip), batch_size=4, shuffle=True)


class Cells(Outlined):
    """Photographs with a grid of cells, as of YOLO: class, offset in the cell and size of the object centred there."""

    def __init__(self, *, flips_boxes: bool) -> None:
        self.flips_boxes = flips_boxes

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        number = range(len(self))[index]
        image = F.to_tensor(Image.open(scenes()[number][0]).convert("RGB"))
        source = np.random.default_rng(number)
        centres, sizes = source.uniform(0.05, 0.45, (2, 2)), source.uniform(0.1, 0.3, (2, 2))
        if random.random() < 0.5:
            image = image.flip(-1)  # culprit
            centres = centres * [-1, 1] + [1, 0] if self.flips_boxes else centres
        grid = torch.zeros(9, 12, 6)
        for kind, (centre, size) in enumerate(zip(centres * [12, 9], sizes, strict=True)):
            column, row = int(centre[0]), int(centre[1])
            grid[row, column] = torch.tensor([1 - kind, kind, *(centre - [column, row]), *size])
        return {"image": image, "grid": grid}


def bad_cells() -> DataLoader[Any]:
    """The image is flipped, and its boxes are not; the grid has its channels last."""
    return DataLoader(Cells(flips_boxes=False), batch_size=4, shuffle=True)


def good_cells() -> DataLoader[Any]:
    """Boxes are flipped before cells are filled: offsets in cells change as well."""
    return DataLoader(Cells(flips_boxes=True), batch_size=4, shuffle=True)


class Centres(Dataset):
    """Photographs under one affine map, and heatmaps of the centres of what it leaves of their boxes."""

    def __init__(self, *, flips_boxes: bool) -> None:
        self.flips_boxes = flips_boxes

    def __len__(self) -> int:
        return len(scenes())

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        number = range(len(self))[index]
        image = np.array(Image.open(scenes()[number][0]).convert("RGB"))
        source = np.random.default_rng(number)
        corners = source.uniform(0, (WIDTH - 20, HEIGHT - 20), (1 + number % 4, 2))
        corners = np.stack([corners, corners + source.uniform(8, 20, corners.shape)], 1)
        scale = random.uniform(0.6, 1.3)
        shift = np.array([random.uniform(-12, 12), random.uniform(-9, 9)])
        if random.random() < 0.5:
            image = np.ascontiguousarray(image[:, ::-1])  # culprit
            if self.flips_boxes:
                corners = corners[:, ::-1] * [-1, 1] + [WIDTH, 0]
                corners[..., 1] = corners[:, ::-1, 1]
        matrix = np.column_stack([scale * np.eye(2), shift])
        image = cv2.warpAffine(image, matrix, (WIDTH, HEIGHT), flags=cv2.INTER_LINEAR)
        shown = (scale * corners + shift).clip(0, (WIDTH, HEIGHT))
        heat = torch.zeros(2, HEIGHT // 2, WIDTH // 2)
        rows, columns = torch.meshgrid(torch.arange(HEIGHT // 2), torch.arange(WIDTH // 2), indexing="ij")
        for kind, (first, last) in enumerate(shown):
            if (last - first).min() > 1:
                column, row = ((first + last) / 4).astype(int)
                near = torch.exp(-((rows - row) ** 2 + (columns - column) ** 2) / 1.4)
                heat[kind % 2] = torch.maximum(heat[kind % 2], near)
        return {"image": F.to_tensor(image), "heat": heat}


def bad_centres() -> DataLoader[Any]:
    """Images are flipped before their crop, and boxes are not: few draws of some samples show it."""
    return DataLoader(Centres(flips_boxes=False), batch_size=4, shuffle=True)


def good_centres() -> DataLoader[Any]:
    """Both are flipped; boxes that the crop cuts off have other centres."""
    return DataLoader(Centres(flips_boxes=True), batch_size=4, shuffle=True)


def good_hidden_patches() -> DataLoader[Any]:
    """Which patches of the image the model does not see is drawn anew, and has nothing to do with the flip."""

    def hide(image: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        image, _ = flip_both(image, target)
        return image, torch.rand(12, 16) < 0.2

    return DataLoader(Outlined(polygon, hide), batch_size=4, shuffle=True)


def good_grid_from_above() -> DataLoader[Any]:
    """What is on the road, seen from above: the image is flipped, and the camera matrix, left out here, says so."""
    return DataLoader(
        Outlined(lambda number: F.pad(polygon(number), [0, 0, 0, WIDTH]), flip_image), batch_size=4, shuffle=True
    )


def good_template() -> DataLoader[Any]:
    """What to look for is shown beside, and is not flipped."""
    other = F.to_tensor(Image.open(scenes()[0][0]).convert("RGB"))
    return DataLoader(
        Outlined(lambda number: other.roll(number, -1) + 0.001 * torch.rand(other.shape), flip_image), batch_size=4
    )


ARRAYS = scratch("dg512-arrays-")


class Mapped(Dataset):
    """Photographs and masks in arrays that are mapped from files, and flipped as views of them."""

    def __init__(self, *, together: bool) -> None:
        opened = [[np.asarray(Image.open(path)) for path in pair] for pair in scenes()]
        columns = {"images": [image for image, _ in opened], "masks": [mask for _, mask in opened]}
        for name, arrays in columns.items():
            stored(ARRAYS / f"{name}.npy", partial(np.save, arr=np.stack(arrays)))
        self.together = together

    def __len__(self) -> int:
        return len(scenes())

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image, mask = (np.load(ARRAYS / f"{name}.npy", mmap_mode="r")[index] for name in ("images", "masks"))
        if random.random() < 0.5:
            image = image[:, ::-1]  # culprit
            mask = mask[:, ::-1] if self.together else mask
        return torch.from_numpy(image.copy()).permute(2, 0, 1) / 255, torch.from_numpy(mask.astype(np.int64))


def bad_mapped() -> DataLoader[Any]:
    """Of two arrays in files, only the images are flipped."""
    return DataLoader(Mapped(together=False), batch_size=4)


def good_mapped() -> DataLoader[Any]:
    """Both are flipped."""
    return DataLoader(Mapped(together=True), batch_size=4)


class Computed(Dataset):
    """Noisy images of squares, drawn from a table, that are mirrored half of the time, and label masks."""

    def __init__(self, *, together: bool, beside: int = 0) -> None:
        self.corners = np.random.default_rng(2).integers(0, 20, size=(80, 2)).tolist()
        self.together, self.beside = together, beside

    def __len__(self) -> int:
        return len(self.corners) - self.beside

    def square(self, index: int) -> Tensor:
        """A square on a black ground."""
        top, left = self.corners[index]
        image = torch.zeros(1, 32, 32)
        image[:, top : top + 9, left : left + 7] = 1
        return image

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        index = range(len(self))[index]
        image, other = self.square(index), self.square(index + self.beside)
        mask = other.long()
        if random.random() < 0.5:
            image = image.flip(-1)  # culprit
            mask = mask.flip(-1) if self.together else mask
        shown = [image, other] if self.beside else [image]
        return *(one + 0.05 * torch.rand(one.shape) for one in shown), mask


def bad_computed() -> DataLoader[Any]:
    """No file is read: the image is mirrored, and its mask is not."""
    return DataLoader(Computed(together=False), batch_size=4, shuffle=True)


def good_computed() -> DataLoader[Any]:
    """Both are mirrored."""
    return DataLoader(Computed(together=True), batch_size=4, shuffle=True)


def good_computed_support() -> DataLoader[Any]:
    """The mask is that of another image, which is shown beside and is not mirrored."""
    return DataLoader(Computed(together=False, beside=4), batch_size=4, shuffle=True)


class Rows(Dataset):
    """Photographs of faces: each row is a box, five points in it and a class."""

    def __init__(self, flip: Callable[[np.ndarray], np.ndarray]) -> None:
        self.flip = flip

    def __len__(self) -> int:
        return len(scenes())

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image = F.to_tensor(Image.open(scenes()[index][0]).convert("RGB"))
        source = np.random.default_rng(range(len(self))[index])
        corners, sizes = source.uniform(0, 0.3, (3, 1, 2)), source.uniform(0.15, 0.3, (3, 1, 2))
        points = corners + sizes * (FACE + source.uniform(0, 0.1, (3, 5, 2)))
        rows = np.concatenate([corners, corners + sizes, points], axis=1).reshape(3, 14)
        if random.random() < 0.5:
            image, rows = image.flip(-1), self.flip(rows)  # culprit
        return image, torch.from_numpy(np.concatenate([rows, np.ones((3, 1))], axis=1)).float()


FACE = np.array([[0.2, 0.3], [0.7, 0.3], [0.4, 0.5], [0.3, 0.8], [0.6, 0.8]])


def flipped_boxes(rows: np.ndarray) -> np.ndarray:
    """Boxes flipped, and not their points."""
    return np.concatenate([1 - rows[:, 2:3], rows[:, 1:2], 1 - rows[:, :1], rows[:, 3:]], axis=1)


def flipped_rows(rows: np.ndarray) -> np.ndarray:
    """Boxes and points flipped; eyes and corners of the mouth change places."""
    points = rows[:, 4:].reshape(-1, 5, 2)[:, [1, 0, 2, 4, 3]] * [-1, 1] + [1, 0]
    return np.concatenate([flipped_boxes(rows)[:, :4], points.reshape(-1, 10)], axis=1)


def bad_rows() -> DataLoader[Any]:
    """Columns of boxes are flipped, those of points are forgotten."""
    return DataLoader(Rows(flipped_boxes), batch_size=4, shuffle=True)


def good_rows() -> DataLoader[Any]:
    """All columns with an x are flipped."""
    return DataLoader(Rows(flipped_rows), batch_size=4, shuffle=True)


class Described(Rows):
    """Photographs with what is known of them in numbers, such as ages and counts, which a flip does not change."""

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image, _ = super().__getitem__(index)
        return image, torch.from_numpy(np.random.default_rng(range(len(self))[index]).uniform(0, 40, 15)).float()


def good_described() -> DataLoader[Any]:
    """Rows of as many numbers, which are no boxes."""
    return DataLoader(Described(flipped_rows), batch_size=4, shuffle=True)


class Frames(Dataset):
    """Six neighbouring frames of a clip, from an image file each, (3, frames, height, width)."""

    def __init__(self, name: str, length: int, *, each: bool) -> None:
        self.paths = [
            [written(f"dg512/{name}/{clip}/{number:03d}.png", self.frame(clip, number)) for number in range(length)]
            for clip in range(6)
        ]
        self.each = each

    @staticmethod
    def frame(clip: int, number: int) -> Image.Image:
        """A frame of a camera that moves over a photograph."""
        return Image.open(scenes()[clip][0]).convert("RGB").crop((number, 0, number + 40, 40))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        paths = self.paths[index]
        start = random.randrange(len(paths) - 5)
        flips = [random.random() < 0.5 for _ in range(6)]
        frames = [F.to_tensor(Image.open(path)) for path in paths[start : start + 6]]
        flips = flips if self.each else flips[:1] * 6
        frames = [frame.flip(-1) if flip else frame for frame, flip in zip(frames, flips, strict=True)]  # culprit
        return torch.stack(frames, 1), range(len(self))[index] % 2


def bad_frames() -> DataLoader[Any]:
    """Frames of one clip draw their own flips: a warning."""
    return DataLoader(Frames("clips", 12, each=True), batch_size=2)


def good_frames() -> DataLoader[Any]:
    """One flip for all frames of a clip."""
    return DataLoader(Frames("clips", 12, each=False), batch_size=2)


def good_bags() -> DataLoader[Any]:
    """Whole folders of patches with a number each are bags of separate images, which draw their own flips."""
    return DataLoader(Frames("bags", 6, each=True), batch_size=2)


class Segmented(Frames):
    """The same with a mask of each frame, which is flipped with it; stacked, or as lists of separate images."""

    def __init__(self, *, each: bool, stacked: bool = True) -> None:
        super().__init__("videos/frames", 12, each=each)
        self.stacked = stacked
        self.masks = [
            [
                written(f"dg512/videos/masks/{clip}/{number:03d}.png", self.mask(clip, number))
                for number in range(len(paths))
            ]
            for clip, paths in enumerate(self.paths)
        ]

    @staticmethod
    def mask(clip: int, number: int) -> Image.Image:
        """The mask of a frame."""
        return Image.open(scenes()[clip][1]).crop((number, 0, number + 40, 40))

    def __getitem__(self, index: int) -> Any:
        start = random.randrange(len(self.paths[index]) - 5)
        flips = [random.random() < 0.5 for _ in range(6)]
        frames, masks = [], []
        for number in range(6):
            frame, mask = (Image.open(files[index][start + number]) for files in (self.paths, self.masks))
            if flips[number * self.each]:
                frame, mask = F.hflip(frame), F.hflip(mask)  # culprit
            frames.append(F.to_tensor(frame))
            masks.append(torch.from_numpy(np.array(mask, np.int64)))
        if not self.stacked:
            return {"images": frames, "masks": masks}
        return {"rgb": torch.stack(frames, 1), "masks": torch.stack(masks)}


def bad_segmented_frames() -> DataLoader[Any]:
    """Frames of a clip and their masks are flipped together, but each frame by itself: a warning."""
    return DataLoader(Segmented(each=True), batch_size=2)


def good_segmented_frames() -> DataLoader[Any]:
    """One flip for all frames and masks of a clip."""
    return DataLoader(Segmented(each=False), batch_size=2)


def good_listed_frames() -> DataLoader[Any]:
    """Lists of frames and masks are separate images, as a network that sees one of them takes them."""
    return DataLoader(Segmented(each=True, stacked=False), batch_size=2)


class Filmed(Dataset):
    """Photographs and the camera that took each; a crop of random size is resized and flipped, and `follow`ed or not.

    Functions that follow get the camera, (3, 3), the matrix of what the crop did, and whether it is flipped.
    """

    def __init__(self, follow: Callable[[np.ndarray, np.ndarray, bool], dict[str, np.ndarray]]) -> None:
        self.follow = follow

    def __len__(self) -> int:
        return len(scenes())

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = range(len(self))[index]
        image = F.to_tensor(Image.open(scenes()[number][0]).convert("RGB"))
        camera = np.array([[50.0 + number % 3, 0, 25], [0, 51, 22], [0, 0, 1]])
        scale = random.uniform(0.6, 0.9)
        height, width = round(scale * HEIGHT), round(scale * WIDTH)
        top, left = random.randrange(HEIGHT - height + 1), random.randrange(WIDTH - width + 1)
        image = F.resized_crop(image, top, left, height, width, [HEIGHT, WIDTH])  # culprit
        across, down = WIDTH / width, HEIGHT / height
        crop = np.array([[across, 0, -left * across], [0, down, -top * down], [0, 0, 1]])
        flip = random.random() < 0.5
        image = image.flip(-1) if flip else image  # culprit
        return {"image": image, "number": number, **self.follow(camera, crop, flip)}


def filmed(follow: Callable[[np.ndarray, np.ndarray, bool], dict[str, np.ndarray]]) -> DataLoader[Any]:
    """Batches of two."""
    return DataLoader(Filmed(follow), batch_size=2, shuffle=True)


def bad_camera() -> DataLoader[Any]:
    """The camera follows the crop, and not the flip."""
    return filmed(lambda camera, crop, _: {"K": crop @ camera})


def bad_camera_kept() -> DataLoader[Any]:
    """The camera is that of the file, and nothing says how it was cropped: a warning."""
    return filmed(lambda camera, *_: {"camera": np.concatenate([camera, np.zeros((3, 1))], 1).astype(np.float32)})


def good_camera() -> DataLoader[Any]:
    """The principal point is flipped as well, and the focal length stays positive."""

    def follow(camera: np.ndarray, crop: np.ndarray, flip: bool) -> dict[str, np.ndarray]:
        camera = crop @ camera
        camera[0, 2] = WIDTH - camera[0, 2] if flip else camera[0, 2]
        return {"K": camera, "inverse": np.linalg.inv(camera)}

    return filmed(follow)


def good_camera_beside() -> DataLoader[Any]:
    """Beside the camera of the sample, that of the file."""
    mirror = np.array([[-1.0, 0, WIDTH], [0, 1, 0], [0, 0, 1]])
    return filmed(
        lambda camera, crop, flip: {
            "K": (mirror if flip else np.eye(3)) @ crop @ camera * [1 - 2 * flip, 1, 1],
            "original": camera,
        }
    )


def good_camera_of_file() -> DataLoader[Any]:
    """The camera of the file, and what the augmentation did, as networks take it that see from above."""
    return filmed(lambda camera, crop, flip: {"K": camera, "augmentation": crop * [1 - 2 * flip, 1, 1]})


def good_camera_in_shares() -> DataLoader[Any]:
    """A camera in shares of the image is not told from other matrices."""
    shares = np.array([[1 / WIDTH], [1 / HEIGHT], [1]])
    return filmed(lambda camera, *_: {"K": camera * shares})


RATE, WINDOW, HEARD = 8_000, 2_048, 16


def taken(name: str, number: int, noise: float = 0) -> Path:
    """The path of a recording below the folder of this module, which is written once."""
    path = FOLDER / "dg512" / f"{name}.wav"
    hiss = noise * np.random.default_rng(number).normal(size=(round(0.6 * RATE), 1))
    return path if path.exists() else recorded(f"dg512/{name}.wav", recording(number, RATE) + hiss, RATE)


def noisy_and_clean() -> list[tuple[Path, Path]]:
    """Recordings with noise and without, of equal names."""
    return [(taken(f"noisy/{n:02}", n, 0.05), taken(f"clean/{n:02}", n)) for n in range(HEARD)]


def heard(path: Path, start: int = 0, frames: int = -1) -> Tensor:
    """Some frames of a recording, float32."""
    return torch.from_numpy(soundfile.read(path, frames, start, dtype="float32")[0])


def a_start() -> int:
    """Where a window of a recording begins."""
    return random.randrange(round(0.6 * RATE) - WINDOW)


class Recordings(Dataset[Any]):
    """Two recordings each, of which `cut` makes a sample."""

    def __init__(self, cut: Callable[[Path, Path], Any], pairs: list[tuple[Path, Path]] | None = None) -> None:
        self.cut = cut
        self.pairs = pairs or noisy_and_clean()

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> Any:
        return self.cut(*self.pairs[index])


def each_by_itself(noisy: Path, clean: Path) -> Any:
    """A window of each, from a start of its own."""
    start, other = a_start(), a_start()
    first = heard(noisy)[start : start + WINDOW]
    return first, heard(clean)[other : other + WINDOW]  # culprit


def bad_sound() -> DataLoader[Any]:
    """The windows of the noisy and of the clean recording are drawn one by one."""
    return DataLoader(Recordings(each_by_itself), batch_size=4)


def both_alike(noisy: Path, clean: Path) -> Any:
    """The same window of both, each at a level of its own."""
    start = a_start()
    level = random.uniform(0.5, 1)
    return {"noisy": level * heard(noisy)[start : start + WINDOW], "clean": heard(clean, start, WINDOW)}


def good_sound() -> DataLoader[Any]:
    """One window is drawn for both."""
    return DataLoader(Recordings(both_alike), batch_size=4)


def mixed(speech: Path, street: Path) -> Any:
    """Speech with a noise from anywhere, and the speech."""
    start = a_start()
    clean = heard(speech, start, WINDOW)
    return clean + 0.1 * heard(street, a_start(), WINDOW), clean


def good_noises() -> DataLoader[Any]:
    """Each recording has the noise of one of four streets, which is cut anywhere."""
    streets = [taken(f"streets/{name}", 99 + len(name)) for name in ("bus", "tram", "market", "station")]
    pairs = [(clean, streets[number % 4]) for number, (_, clean) in enumerate(noisy_and_clean())]
    return DataLoader(Recordings(mixed, pairs), batch_size=4)


def good_enrolled() -> DataLoader[Any]:
    """A recording, and another one of the same speaker, who is to be found again: names end otherwise."""
    takes = [(n, n * 3 % 11, n * 3 % 11 + 1 + n % 5) for n in range(HEARD)]
    pairs = [(taken(f"speakers/{n}/{a}", n + a), taken(f"speakers/{n}/{b}", n + b)) for n, a, b in takes]
    return DataLoader(Recordings(each_by_itself, pairs), batch_size=4)


def good_windows() -> DataLoader[Any]:
    """Two windows of one recording, for contrastive learning."""
    return DataLoader(Recordings(each_by_itself, [(clean, clean) for _, clean in noisy_and_clean()]), batch_size=4)


class Crowds(Dataset[Any]):
    """Five boxes a scene, of classes in an order of its own, cropped at random."""

    def __init__(self, crop: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Any]]) -> None:
        self.crop = crop

    def __len__(self) -> int:
        return len(scenes())

    def __getitem__(self, index: int) -> tuple[Tensor, dict[str, Any]]:
        image = F.to_tensor(Image.open(scenes()[index][0]).convert("RGB"))
        draw = np.random.default_rng(range(len(self))[index])
        corner = draw.uniform(1, (WIDTH - 17, HEIGHT - 17), (5, 2))
        boxes = torch.from_numpy(np.concatenate([corner, corner + draw.uniform(8, 16, (5, 2))], 1)).float()
        labels = torch.from_numpy(draw.permutation(5))
        left, top = (int(torch.randint(side // 3, ())) for side in (WIDTH, HEIGHT))
        width, height = WIDTH - WIDTH // 3, HEIGHT - HEIGHT // 3
        boxes = boxes - torch.tensor([left, top, left, top])
        middle = (boxes[:, :2] + boxes[:, 2:]) / 2
        inside = ((middle > 0) & (middle < torch.tensor([width, height]))).all(1)
        boxes, beside = self.crop(boxes, labels, inside)
        return image[:, top : top + height, left : left + width], {"boxes": boxes, "labels": beside}


def crowds(crop: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Any]]) -> DataLoader[Any]:
    """Lists of four images and of four targets."""
    return DataLoader(Crowds(crop), batch_size=4, collate_fn=lambda samples: tuple(zip(*samples, strict=True)))


def bad_cut_labels() -> DataLoader[Any]:
    """Boxes outside of a crop are left out, and as many labels of the end of the list."""

    def crop(boxes: Tensor, labels: Tensor, inside: Tensor) -> tuple[Tensor, Tensor]:
        boxes = boxes[inside]
        return boxes, labels[: len(boxes)]  # culprit

    return crowds(crop)


def bad_shuffled_boxes() -> DataLoader[Any]:
    """Boxes are shuffled, and their labels are not."""

    def crop(boxes: Tensor, labels: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
        return boxes[torch.randperm(len(boxes))], labels  # culprit

    return crowds(crop)


def good_selected_labels() -> DataLoader[Any]:
    """Labels are selected with their boxes, and both are shuffled."""

    def crop(boxes: Tensor, labels: Tensor, inside: Tensor) -> tuple[Tensor, Tensor]:
        order = torch.randperm(len(boxes))
        order = order[inside[order]]
        return boxes[order], labels[order]

    return crowds(crop)


def good_numbered_boxes() -> DataLoader[Any]:
    """Boxes that are left are numbered anew."""
    return crowds(lambda boxes, labels, inside: (boxes[inside], torch.arange(1, int(inside.sum()) + 1)))


def good_ranked_boxes() -> DataLoader[Any]:
    """Boxes that are left are ranked by their height."""

    def crop(boxes: Tensor, _: Tensor, inside: Tensor) -> tuple[Tensor, Tensor]:
        boxes = boxes[inside]
        return boxes, (boxes[:, 3] - boxes[:, 1]).argsort().argsort()

    return crowds(crop)


def good_equal_labels() -> DataLoader[Any]:
    """All boxes have one label, of which as many are left."""
    return crowds(lambda boxes, labels, inside: (boxes[inside], torch.ones_like(labels)[: int(inside.sum())]))


class Segments(Frames):
    """Six frames of 24, `chosen` at random, from an image file each, whose names say nothing of time."""

    def __init__(self, name: str, chosen: Callable[[], list[int]]) -> None:
        super().__init__(name, 24, each=True)
        self.chosen = chosen

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        frames = []
        for number in self.chosen():
            frame = Image.open(self.paths[index][number])
            if random.random() < 0.5:
                frame = F.hflip(frame)  # culprit
            frames.append(F.to_tensor(frame))
        return torch.stack(frames), range(len(self))[index] % 2


def bad_segments() -> DataLoader[Any]:
    """A frame of each sixth of a clip, each with a flip of its own: a warning."""
    return DataLoader(Segments("shots", lambda: [4 * part + random.randrange(4) for part in range(6)]), batch_size=2)


def good_some_of_bags() -> DataLoader[Any]:
    """Any six of a bag's patches, in the order of their numbers, draw their own flips."""
    return DataLoader(Segments("tissues", lambda: sorted(random.sample(range(24), 6))), batch_size=2)


class Posed(Dataset[Any]):
    """Photographs and six points that nothing names, through one function of both and of an angle."""

    def __init__(self, turn: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> None:
        self.turn = turn

    def __len__(self) -> int:
        return len(scenes())

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image = cv2.cvtColor(cv2.imread(str(scenes()[index][0])), cv2.COLOR_BGR2RGB)
        points = np.random.default_rng(range(len(self))[index]).uniform((16, 12), (48, 36), (6, 2))
        matrix = cv2.getRotationMatrix2D((WIDTH / 2, HEIGHT / 2), random.uniform(-40, 40), 1.0)
        image = cv2.warpAffine(image, matrix, (WIDTH, HEIGHT))
        points = self.turn(points, matrix)
        return F.to_tensor(image), torch.from_numpy(points.astype(np.float32))


def turned_back(points: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Points that are rotated the other way round, about the same centre."""
    centre = np.array([WIDTH / 2, HEIGHT / 2])
    turned: np.ndarray = (points - centre) @ matrix[:, :2] + centre  # culprit
    return turned


def bad_turned_points() -> DataLoader[Any]:
    """An angle counts from the x axis in an image, whose y axis points down, and the other way round in a book."""
    return DataLoader(Posed(turned_back), batch_size=4)


def good_turned_points() -> DataLoader[Any]:
    """Points are rotated by the matrix of their image."""
    return DataLoader(Posed(lambda points, matrix: points @ matrix[:, :2].T + matrix[:, 2]), batch_size=4)


def good_queries() -> DataLoader[Any]:
    """Points at which a field is to be predicted are drawn for each read."""
    return DataLoader(Posed(lambda points, _: np.random.uniform(0, 40, points.shape)), batch_size=4)


class Mounted(Dataset[Any]):
    """Photographs of 64 by 48 that are resized to 32 by 36, with the camera of `seen_by`."""

    def __init__(self, seen_by: Callable[[np.ndarray], dict[str, Any]]) -> None:
        self.seen_by = seen_by

    def __len__(self) -> int:
        return len(scenes())

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = range(len(self))[index]
        image = Image.open(scenes()[number][0]).convert("RGB").resize((32, 36))  # culprit
        camera = np.array([[60.0 + number % 3, 0, 33], [0, 60.0 + number % 3, 23.5], [0, 0, 1]])
        return {"image": F.to_tensor(image), **self.seen_by(camera)}


def bad_camera_unscaled() -> DataLoader[Any]:
    """The camera is that of the file, twice as wide: a warning."""
    return DataLoader(Mounted(lambda camera: {"K": camera}), batch_size=4)


def good_camera_scaled() -> DataLoader[Any]:
    """Each row is scaled with its own side."""
    return DataLoader(Mounted(lambda camera: {"K": np.diag([32 / WIDTH, 36 / HEIGHT, 1]) @ camera}), batch_size=4)


def good_camera_with_size() -> DataLoader[Any]:
    """The size of the file says what the camera is that of."""
    return DataLoader(Mounted(lambda camera: {"K": camera, "size": torch.tensor([HEIGHT, WIDTH])}), batch_size=4)


class Peaks(Dataset[Any]):
    """Square crops of photographs, and a heatmap of each of two points, of which the first index is `row_of` it."""

    def __init__(self, row_of: Callable[[np.ndarray], np.ndarray]) -> None:
        self.row_of = row_of

    def __len__(self) -> int:
        return len(scenes())

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        number = range(len(self))[index]
        points = np.random.default_rng(number).uniform((22, 16), (40, 30), (2, 2))
        left, top = random.randrange(20), random.randrange(14)
        image = F.to_tensor(Image.open(scenes()[number][0]).convert("RGB"))[:, top : top + 34, left : left + 34]
        maps = torch.zeros(2, 34, 34)
        for plane, point in zip(maps, points - [left, top], strict=True):
            first, second = self.row_of(point).round().astype(int).clip(0, 33)
            plane[max(first - 1, 0) : first + 2, max(second - 1, 0) : second + 2] = 1  # culprit
        return image, maps


def bad_peaks() -> DataLoader[Any]:
    """Points are x and y, and indices of arrays are rows and columns: a warning."""
    return DataLoader(Peaks(lambda point: point), batch_size=4)


def good_peaks() -> DataLoader[Any]:
    """Row and column are y and x."""
    return DataLoader(Peaks(lambda point: point[::-1]), batch_size=4)


class CameraRoll(Scenes):
    """Photographs whose files are upside down, as their EXIF orientation says, and masks of what one sees."""

    def __init__(self) -> None:
        super().__init__(lambda *both: both)
        tags = Image.Exif()
        tags[0x112] = 3
        for number, (image, _) in enumerate(scenes()):
            written(f"dg512/roll/{number}.jpg", Image.open(image).convert("RGB").rotate(180), exif=tags, quality=95)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        number = range(len(self))[index]
        image = ImageOps.exif_transpose(Image.open(FOLDER / f"dg512/roll/{number}.jpg"))
        mask = torch.from_numpy(np.array(Image.open(scenes()[number][1]), np.int64))
        pair = F.to_tensor(image), mask
        return (pair[0].flip(-1), pair[1].flip(-1)) if random.random() < 0.5 else pair


def good_camera_roll() -> DataLoader[Any]:
    """Image and mask are both upright, though they are not in their files."""
    return DataLoader(CameraRoll(), batch_size=4)


class Opened:
    """The photographs, each opened when it is asked for."""

    def __len__(self) -> int:
        return len(scenes())

    def __getitem__(self, number: int) -> np.ndarray:
        return np.array(Image.open(scenes()[number][0]))


class Tiles(Cached):
    """The same mosaics of photographs that are read from their files."""

    def __init__(self, *, mirrors_boxes: bool = True) -> None:
        super().__init__(mirrors_boxes=mirrors_boxes)
        self.images: Any = Opened()


def bad_tiles() -> DataLoader[Any]:
    """A mosaic of files is mirrored without its boxes."""
    return DataLoader(Tiles(mirrors_boxes=False), batch_size=4, collate_fn=lambda samples: samples)


def good_tiles() -> DataLoader[Any]:
    """A mosaic of files, of which boxes come and go."""
    return DataLoader(Tiles(), batch_size=4, collate_fn=lambda samples: samples)


class Strands(Dataset[Any]):
    """Pieces of DNA of 60 to 66 bases with a label for each, from either strand; `augment` reverses them."""

    def __init__(self, augment: Callable[[np.ndarray, np.ndarray], Any]) -> None:
        self.augment = augment

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> Any:
        drawn = np.random.default_rng(range(32)[index])
        bases = np.eye(4, dtype=np.float32)[drawn.integers(0, 4, 60 + index % 7)]
        return self.augment(bases, (drawn.random(len(bases)) < 0.2).astype(np.int64))


def strands(augment: Callable[[np.ndarray, np.ndarray], Any]) -> DataLoader[Any]:
    return DataLoader(Strands(augment), batch_size=4, shuffle=True, collate_fn=list)


def bad_strand() -> DataLoader[Any]:
    """The reverse complement has the labels of the other strand."""

    def complemented(bases: np.ndarray, labels: np.ndarray) -> Any:
        if random.random() < 0.5:
            bases = bases[::-1, ::-1].copy()  # culprit
        return bases, labels

    return strands(complemented)


def bad_shuffled_entries() -> DataLoader[Any]:
    """Entries are shuffled without their labels, as edges without their attributes."""

    def shuffled(bases: np.ndarray, labels: np.ndarray) -> Any:
        values = np.arange(len(bases)) * 0.3 + bases[:, 0]
        values = values[np.random.permutation(len(values))]  # culprit
        return values, labels

    return strands(shuffled)


def good_strand() -> DataLoader[Any]:
    """Labels are reversed with their bases."""

    def complemented(bases: np.ndarray, labels: np.ndarray) -> Any:
        if random.random() < 0.5:
            bases, labels = bases[::-1, ::-1].copy(), labels[::-1].copy()
        return bases, labels

    return strands(complemented)


def good_sorted_strand() -> DataLoader[Any]:
    """What is shuffled is to be put in its order again; positions are no labels."""

    def shuffled(bases: np.ndarray, _: np.ndarray) -> Any:
        values = np.arange(len(bases)) * 0.3 + bases[:, 0]
        return {"x": np.random.permutation(values), "y": values, "position": np.arange(len(values))}

    return strands(shuffled)
