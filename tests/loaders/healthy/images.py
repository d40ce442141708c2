"""Healthy loaders of images: random, repeated, reordered, stacked or read in ways that resemble bugs."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate
from torchvision import transforms, tv_tensors
from torchvision.datasets import ImageFolder
from torchvision.transforms import functional as F
from torchvision.transforms import v2

from sample_datasets._parts import PHOTOGRAPHS
from tests.loaders.styles._data import CLASSES, IMAGENET_MEAN, IMAGENET_STD, class_of, files, record_of

SIDE = 48
NORMALIZE = transforms.Normalize(IMAGENET_MEAN, IMAGENET_STD)
EVALUATION = transforms.Compose([transforms.Resize((SIDE, SIDE)), transforms.ToTensor(), NORMALIZE])
TRAINING = transforms.Compose(
    [transforms.RandomResizedCrop(SIDE), transforms.RandomHorizontalFlip(), transforms.ToTensor(), NORMALIZE]
)


class Files(Dataset):
    """The files of photographs and their classes."""

    def __init__(self) -> None:
        self.paths = PHOTOGRAPHS
        self.targets = [class_of(path) for path in self.paths]

    def __len__(self) -> int:
        return len(self.paths)

    def image(self, index: int) -> Image.Image:
        with Image.open(self.paths[index]) as image:
            return image.convert("RGB")


class Photographs(Files):
    """Photographs through a transform, and their classes."""

    def __init__(self, transform: Callable[[Image.Image], Any] = TRAINING) -> None:
        super().__init__()
        self.transform = transform

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.image(index)), self.targets[index]


def random_erasing() -> DataLoader[Any]:
    """Rectangles of noise replace parts of some images after normalization."""
    erase = transforms.Compose([*TRAINING.transforms, transforms.RandomErasing(0.5, value="random")])
    return DataLoader(Photographs(erase), batch_size=8, shuffle=True, num_workers=2)


def auto_augment() -> DataLoader[Any]:
    """TrivialAugment posterizes, solarizes, inverts and rotates."""
    steps = [transforms.Resize((SIDE, SIDE)), transforms.TrivialAugmentWide(), transforms.ToTensor(), NORMALIZE]
    return DataLoader(Photographs(transforms.Compose(steps)), batch_size=8, shuffle=True, num_workers=2)


def strong_jitter() -> DataLoader[Any]:
    """Hue, greyscale and blur, as for contrastive learning, and labels beside it."""
    jitter = transforms.RandomApply([transforms.ColorJitter(0.8, 0.8, 0.8, 0.2)], 0.8)
    steps = [transforms.RandomResizedCrop(SIDE), jitter, transforms.RandomGrayscale(0.2), transforms.GaussianBlur(5)]
    steps += [transforms.ToTensor(), NORMALIZE]
    return DataLoader(Photographs(transforms.Compose(steps)), batch_size=8, shuffle=True, num_workers=2)


class MixedUp:
    """MixUp in collate: with labels as weights of both classes."""

    def __call__(self, samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
        images, labels = default_collate(samples)
        share = float(np.random.beta(0.4, 0.4))
        order = torch.randperm(len(images))
        targets = torch.nn.functional.one_hot(labels, len(CLASSES)).float()
        return images.lerp(images[order], 1 - share), targets.lerp(targets[order], 1 - share)


def mixup_by_hand() -> DataLoader[Any]:
    """Images and labels are blended with another order of the batch."""
    return DataLoader(Photographs(), batch_size=8, shuffle=True, num_workers=2, collate_fn=MixedUp(), drop_last=True)


def cut_or_mix() -> DataLoader[Any]:
    """CutMix or MixUp of torchvision, after collate."""
    mix = v2.RandomChoice([v2.CutMix(num_classes=3), v2.MixUp(num_classes=3)])

    def collate(samples: list[Any]) -> Any:
        return mix(*default_collate(samples))

    return DataLoader(Photographs(), batch_size=8, shuffle=True, collate_fn=collate, drop_last=True)


class Mosaicked(Files):
    """A mosaic of four random photographs; the label is the class of the first."""

    def __getitem__(self, index: int) -> Any:
        others = [index, *random.choices(range(len(self)), k=3)]
        parts = [transforms.functional.to_tensor(self.image(other).resize((24, 24))) for other in others]
        return torch.cat([torch.cat(parts[:2], 2), torch.cat(parts[2:], 2)], 1), self.targets[index]


def mosaic() -> DataLoader[Any]:
    """Each sample reads three others at random."""
    return DataLoader(Mosaicked(), batch_size=8, shuffle=True, num_workers=2)


class CaffeStyle(Dataset):
    """Photographs as OpenCV returns them, BGR, minus the mean of ImageNet in that order, as Caffe's models expect."""

    MEAN_BGR = np.array([103.939, 116.779, 123.68], np.float32)

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    def __getitem__(self, index: int) -> Any:
        image = cv2.resize(cv2.imread(str(PHOTOGRAPHS[index])), (SIDE, SIDE)).astype(np.float32) - self.MEAN_BGR
        return torch.from_numpy(image.transpose(2, 0, 1).copy()), class_of(PHOTOGRAPHS[index])


def caffe_bgr() -> DataLoader[Any]:
    """BGR on purpose, with a mean in the same order."""
    return DataLoader(CaffeStyle(), batch_size=8, shuffle=True)


class Detected(Dataset):
    """Street scenes with boxes for a detector of torchvision, flipped with their boxes."""

    def __init__(self) -> None:
        self.images = files("images")

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        record = record_of(self.images[index])
        image = F.pil_to_tensor(Image.open(self.images[index]).convert("RGB")).float() / 255
        boxes = torch.tensor(record["boxes"])
        if random.random() < 0.5:
            width = image.shape[-1]
            image = image.flip(-1)
            boxes = torch.stack([width - boxes[:, 2], boxes[:, 1], width - boxes[:, 0], boxes[:, 3]], 1)
        return image, {"boxes": boxes, "labels": torch.tensor(record["labels"]), "image_id": index}


def as_lists(samples: list[Any]) -> tuple[Any, ...]:
    return tuple(zip(*samples, strict=True))


def detection() -> DataLoader[Any]:
    """Lists of images and of targets, as torchvision's detectors take them."""
    return DataLoader(Detected(), batch_size=4, shuffle=True, collate_fn=as_lists, num_workers=2)


class Instances(Detected):
    """Street scenes with boxes and a mask for each object, drawn from its polygon: all are flipped together."""

    def __getitem__(self, index: int) -> Any:
        image, target = super().__getitem__(index)
        masks = torch.zeros(len(target["boxes"]), *image.shape[1:], dtype=torch.uint8)
        for mask, (left, top, right, bottom) in zip(masks, target["boxes"].int().tolist(), strict=True):
            polygon = [[left, top], [right - 1, top], [left, bottom - 1]]
            mask.copy_(torch.from_numpy(cv2.fillPoly(mask.numpy().copy(), [np.array(polygon)], 1)))
        return image, target | {"masks": masks}


def instance_masks() -> DataLoader[Any]:
    """Masks that no file holds."""
    return DataLoader(Instances(), batch_size=4, shuffle=True, collate_fn=as_lists, num_workers=2)


class SceneFiles(Dataset):
    """The files of street scenes and of their masks."""

    def __init__(self) -> None:
        self.images, self.masks = files("images"), files("masks")

    def __len__(self) -> int:
        return len(self.images)


class Segmented(SceneFiles):
    """Street scenes and their masks, through transforms of tensors with types; 255 marks what is not learned."""

    def __init__(self) -> None:
        super().__init__()
        self.transforms = v2.Compose(
            [
                v2.RandomRotation(20, fill={tv_tensors.Image: 0, tv_tensors.Mask: 255}),
                v2.RandomHorizontalFlip(),
                v2.ToDtype({tv_tensors.Image: torch.float32, "others": None}, scale=True),
            ]
        )

    def __getitem__(self, index: int) -> Any:
        image = tv_tensors.Image(F.pil_to_tensor(Image.open(self.images[index]).convert("RGB")))
        mask = tv_tensors.Mask(torch.from_numpy(np.array(Image.open(self.masks[index]), np.int64)))
        return self.transforms(image, mask)


def rotated_masks() -> DataLoader[Any]:
    """Rotation fills images with black and masks with the ignored class."""
    return DataLoader(Segmented(), batch_size=4, shuffle=True, num_workers=2)


class Validity(SceneFiles):
    """Scenes with a mask of 0 and 255 that says which pixels count, and no classes."""

    def __getitem__(self, index: int) -> Any:
        image = F.pil_to_tensor(Image.open(self.images[index]).convert("RGB")).float() / 255
        valid = np.array(Image.open(self.masks[index])) > 0
        return {"image": image, "valid": torch.from_numpy(valid.astype(np.uint8) * 255), "depth": image.mean(0) * 10}


def validity_masks() -> DataLoader[Any]:
    """A mask of 0 and 255 beside a depth map."""
    return DataLoader(Validity(), batch_size=4, shuffle=True)


class TwoViews:
    """Two random views of one image."""

    def __call__(self, image: Image.Image) -> list[Tensor]:
        return [TRAINING(image), TRAINING(image)]


def two_views() -> DataLoader[Any]:
    """Two views of each image, for SimCLR, with the class beside them."""
    return DataLoader(Photographs(TwoViews()), batch_size=8, shuffle=True, num_workers=2, drop_last=True)


class MultiCrop:
    """Two large crops and four small ones, for DINO."""

    def __init__(self) -> None:
        small = transforms.RandomResizedCrop(24, (0.05, 0.4))
        self.small = transforms.Compose([small, transforms.ToTensor(), NORMALIZE])

    def __call__(self, image: Image.Image) -> list[Tensor]:
        return [TRAINING(image), TRAINING(image), *(self.small(image) for _ in range(4))]


def multi_crop() -> DataLoader[Any]:
    """Six crops of two sizes of each image."""
    return DataLoader(Photographs(MultiCrop()), batch_size=8, shuffle=True, num_workers=2)


class Triplets(Files):
    """An anchor, another image of its class, and one of another class."""

    def __init__(self) -> None:
        super().__init__()
        self.by_class: dict[int, list[int]] = defaultdict(list)
        for index, label in enumerate(self.targets):
            self.by_class[label].append(index)

    def __getitem__(self, index: int) -> Any:
        label = self.targets[index]
        positive = random.choice([other for other in self.by_class[label] if other != index])
        negative = random.choice(self.by_class[random.choice([other for other in self.by_class if other != label])])
        return tuple(TRAINING(self.image(one)) for one in (index, positive, negative))


def triplets() -> DataLoader[Any]:
    """Positives and negatives are drawn anew at each read."""
    return DataLoader(Triplets(), batch_size=6, shuffle=True, num_workers=2)


class Pairs(Files):
    """Two images, and whether they are of one class: half of them are."""

    def __getitem__(self, index: int) -> Any:
        same = random.random() < 0.5
        others = [other for other in range(len(self)) if (self.targets[other] == self.targets[index]) == same]
        other = random.choice(others)
        return EVALUATION(self.image(index)), EVALUATION(self.image(other)), float(same)


def siamese_pairs() -> DataLoader[Any]:
    """The label is drawn with the second image."""
    return DataLoader(Pairs(), batch_size=6, shuffle=True, num_workers=2)


def val_sorted() -> DataLoader[Any]:
    """Validation in the order of the folders, class after class, without an augmentation."""
    return DataLoader(ImageFolder(str(PHOTOGRAPHS[0].parents[1]), EVALUATION), batch_size=8, num_workers=2)


class Flipped:
    """An image and its mirror image."""

    def __call__(self, image: Image.Image) -> Tensor:
        tensor: Tensor = EVALUATION(image)
        return torch.stack([tensor, tensor.flip(-1)])


def test_time_augmentation() -> DataLoader[Any]:
    """Evaluation of an image and of its mirror image."""
    return DataLoader(Photographs(Flipped()), batch_size=8, num_workers=2)


def ten_crop() -> DataLoader[Any]:
    """Evaluation of ten crops of each image."""

    def stack(crops: tuple[Image.Image, ...]) -> Tensor:
        return torch.stack([NORMALIZE(F.to_tensor(crop)) for crop in crops])

    steps = [transforms.Resize((64, 64)), transforms.TenCrop(SIDE), transforms.Lambda(stack)]
    return DataLoader(Photographs(transforms.Compose(steps)), batch_size=4)


class Rotated(Files):
    """A random quarter turn is the label."""

    def __getitem__(self, index: int) -> Any:
        turns = random.randrange(4)
        return torch.rot90(EVALUATION(self.image(index)), turns, (1, 2)), turns


def rotation_pretext() -> DataLoader[Any]:
    """Self-supervision: another label at each read."""
    return DataLoader(Rotated(), batch_size=8, shuffle=True, num_workers=2)


class MaskedPatches(Files):
    """Which patches are hidden from the encoder, for a masked autoencoder."""

    def __getitem__(self, index: int) -> Any:
        noise = torch.rand(36)
        return {"pixel_values": EVALUATION(self.image(index)), "bool_masked_pos": noise.argsort().argsort() < 27}


def masked_patches() -> DataLoader[Any]:
    """27 of 36 patches are masked at random."""
    return DataLoader(MaskedPatches(), batch_size=8, shuffle=True, num_workers=2)


class Cached(Photographs):
    """Small images, kept in memory after the first read; augmented after that."""

    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[int, Image.Image] = {}

    def image(self, index: int) -> Image.Image:
        if index not in self.cache:
            self.cache[index] = super().image(index).resize((64, 64))
        return self.cache[index]


def cached_on_first_read() -> DataLoader[Any]:
    """Each worker fills a cache of its own, of as many images as there are."""
    return DataLoader(Cached(), batch_size=8, shuffle=True, num_workers=2, persistent_workers=True)


class Degraded(Files):
    """A photograph, and the same with noise and half the resolution: to be restored."""

    def __getitem__(self, index: int) -> Any:
        clean = F.to_tensor(transforms.RandomCrop(SIDE)(self.image(index).resize((80, 64))))
        small = F.resize(clean, [SIDE // 2, SIDE // 2], antialias=True)
        return {"lq": (small + 0.05 * torch.randn_like(small)).clamp(0, 1), "gt": clean}


def degraded_in_code() -> DataLoader[Any]:
    """Super-resolution with a degradation that is drawn at each read."""
    return DataLoader(Degraded(), batch_size=8, shuffle=True, num_workers=2)


class SwappedAtRandom(Files):
    """Channels in a random order as an augmentation."""

    def __getitem__(self, index: int) -> Any:
        image = F.to_tensor(self.image(index).resize((SIDE, SIDE)))
        return (image[torch.randperm(3)] if random.random() < 0.5 else image), self.targets[index]


def random_channel_order() -> DataLoader[Any]:
    """Training swaps channels with p = 0.5."""
    return DataLoader(SwappedAtRandom(), batch_size=8, shuffle=True, num_workers=2)


class Rays(Dataset):
    """Rays of a radiance field: origins, directions and colours of pixels in random order, from four photographs."""

    def __init__(self) -> None:
        images = [np.array(Image.open(path).convert("RGB").resize((16, 16))) for path in PHOTOGRAPHS[:4]]
        self.colours = torch.from_numpy(np.stack(images)).reshape(-1, 3).float() / 255
        angles = torch.linspace(0, 6.28, len(self.colours))
        self.origins = torch.stack([angles.cos(), angles.sin(), torch.ones_like(angles)], 1)
        self.directions = torch.nn.functional.normalize(-self.origins + 0.1 * self.colours, dim=1)

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        chosen = torch.randint(len(self.colours), (128,))
        return {"rays_o": self.origins[chosen], "rays_d": self.directions[chosen], "rgb": self.colours[chosen]}


def rays() -> DataLoader[Any]:
    """A batch of rays at random, whatever the index."""
    return DataLoader(Rays(), batch_size=None, shuffle=True)


class Clips(Dataset):
    """Clips of eight frames from a random start of each video, with a stride of two."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.videos = [torch.rand(40 + 4 * number, 3, 16, 16, generator=generator) for number in range(12)]

    def __len__(self) -> int:
        return len(self.videos)

    def __getitem__(self, index: int) -> Any:
        video = self.videos[index]
        start = random.randrange(len(video) - 15)
        clip = video[start : start + 16 : 2]
        return (clip.flip(-1) if random.random() < 0.5 else clip), index % 3


def video_clips() -> DataLoader[Any]:
    """Random clips, flipped whole."""
    return DataLoader(Clips(), batch_size=4, shuffle=True, num_workers=2)


class Albumented(SceneFiles):
    """Scenes and masks through albumentations, whose generator is seeded anew in each worker."""

    def __init__(self) -> None:
        import albumentations as A

        super().__init__()
        self.augment = A.Compose([A.HorizontalFlip(), A.ShiftScaleRotate(), A.RandomBrightnessContrast(p=0.3)])

    def __getitem__(self, index: int) -> Any:
        image = cv2.cvtColor(cv2.imread(str(self.images[index])), cv2.COLOR_BGR2RGB)
        mask = cv2.imread(str(self.masks[index]), cv2.IMREAD_GRAYSCALE)
        both = self.augment(image=image, mask=mask)
        return F.to_tensor(both["image"]), torch.from_numpy(both["mask"]).long()


def seed_albumentations(worker: int) -> None:
    from torch.utils.data import get_worker_info

    info = get_worker_info()
    assert info is not None
    dataset: Any = info.dataset
    dataset.augment.set_random_seed(info.seed % 2**32)


def albumentations_seeded() -> DataLoader[Any]:
    """The generators of albumentations are seeded in worker_init_fn."""
    return DataLoader(Albumented(), batch_size=4, shuffle=True, num_workers=2, worker_init_fn=seed_albumentations)


class Dictionary(Files):
    """Dictionaries through functions of dictionaries, as MONAI and mmcv do."""

    def __init__(self) -> None:
        super().__init__()
        self.pipeline = [self.load, self.flip, self.normalize, self.pack]

    def load(self, results: dict[str, Any]) -> dict[str, Any]:
        results["img"] = np.array(self.image(results["index"]).resize((SIDE, SIDE)), np.float32)
        return results

    def flip(self, results: dict[str, Any]) -> dict[str, Any]:
        results["flip"] = np.random.rand() < 0.5
        results["img"] = results["img"][:, ::-1].copy() if results["flip"] else results["img"]
        return results

    def normalize(self, results: dict[str, Any]) -> dict[str, Any]:
        results["img"] = (results["img"] / 255 - IMAGENET_MEAN) / IMAGENET_STD
        return results

    def pack(self, results: dict[str, Any]) -> dict[str, Any]:
        image = torch.from_numpy(results["img"].transpose(2, 0, 1).astype(np.float32))
        return {"inputs": image, "label": results["label"], "flipped": bool(results["flip"])}

    def __getitem__(self, index: int) -> Any:
        results: dict[str, Any] = {"index": index, "label": self.targets[index]}
        for step in self.pipeline:
            results = step(results)
        return results


def dictionary_pipeline() -> DataLoader[Any]:
    """Steps that write into one dictionary of the sample."""
    return DataLoader(Dictionary(), batch_size=8, shuffle=True, num_workers=2)


class First:
    """The only image of a batch."""

    def __call__(self, images: Tensor) -> Tensor:
        return images[0]


FIRST = First()


def kornia_in_dataset() -> DataLoader[Any]:
    """kornia's augmentations on single images in the dataset."""
    import kornia.augmentation as K

    augment = K.AugmentationSequential(K.RandomHorizontalFlip(), K.ColorJiggle(0.2, 0.2, 0.2, 0.1, p=0.5))
    steps = [transforms.Resize((SIDE, SIDE)), transforms.ToTensor(), augment, FIRST]
    return DataLoader(Photographs(transforms.Compose(steps)), batch_size=8, shuffle=True, num_workers=2)


class MedicalGrey(Dataset):
    """Images of one channel, repeated three times for a pretrained network, with labels of several findings."""

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    def __getitem__(self, index: int) -> Any:
        grey = F.to_tensor(Image.open(PHOTOGRAPHS[index]).convert("L").resize((SIDE, SIDE)))
        label = class_of(PHOTOGRAPHS[index])
        findings = torch.tensor([label == 0, label in (0, 1), label == 2, index % 5 == 0]).float()
        return NORMALIZE(grey.expand(3, -1, -1)), findings


def grey_as_three() -> DataLoader[Any]:
    """Three equal channels and several labels a sample."""
    return DataLoader(MedicalGrey(), batch_size=8, shuffle=True, num_workers=2)


class Progressive(Files):
    """Images that grow with the epoch, which the trainer announces."""

    def __init__(self) -> None:
        super().__init__()
        self.side = 32

    def set_epoch(self, epoch: int) -> None:
        self.side = 32 + 16 * min(epoch, 2)

    def __getitem__(self, index: int) -> Any:
        image = self.image(index).resize((self.side, self.side))
        return NORMALIZE(F.to_tensor(image)), self.targets[index]


def progressive_resizing() -> DataLoader[Any]:
    """Another size in each epoch."""
    return DataLoader(Progressive(), batch_size=8, shuffle=True, num_workers=2)
