"""Libraries of images, as their documentation uses them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, default_collate

from tests.ecosystem.data import CLASSES, class_folders, coco, made, voc, yolo

Loaders = dict[str, Any]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def torchvision_folders() -> Loaders:
    """`ImageFolder` with the presets of torchvision's classification reference, and CutMix or MixUp in collate."""
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import v2

    finish = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    augment = v2.Compose([v2.RandomResizedCrop(64, antialias=True), v2.RandomHorizontalFlip(), v2.TrivialAugmentWide()])
    train = ImageFolder(class_folders() / "train", v2.Compose([augment, *finish]))
    val = ImageFolder(class_folders() / "val", v2.Compose([v2.Resize(72), v2.CenterCrop(64), *finish]))
    return {
        "train": DataLoader(train, batch_size=8, shuffle=True, num_workers=2),
        "train_mixed": DataLoader(train, batch_size=8, shuffle=True, num_workers=2, collate_fn=mixed),
        "val": DataLoader(val, batch_size=8, num_workers=2),
    }


def mixed(batch: Any) -> Any:
    """Collate as torchvision's page on CutMix and MixUp does."""
    from torchvision.transforms import v2

    return v2.RandomChoice([v2.CutMix(num_classes=3), v2.MixUp(num_classes=3)])(*default_collate(batch))


def paired(batch: Any) -> Any:
    """Images and targets apart, as that page collates them (there with a lambda)."""
    return tuple(zip(*batch, strict=True))


def torchvision_coco() -> Loaders:
    """`CocoDetection`, wrapped for transforms v2, as torchvision's page of end-to-end detection does."""
    from torchvision import tv_tensors
    from torchvision.datasets import CocoDetection, wrap_dataset_for_transforms_v2
    from torchvision.transforms import v2

    train = v2.Compose(
        [
            v2.ToImage(),
            v2.RandomPhotometricDistort(p=1),
            v2.RandomZoomOut(fill={tv_tensors.Image: (123, 117, 104), "others": 0}),
            v2.RandomIoUCrop(),
            v2.RandomHorizontalFlip(p=1),
            v2.SanitizeBoundingBoxes(),
            v2.ToDtype(torch.float32, scale=True),
        ]
    )
    val = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])

    def loader(split: str, transforms: Any, **options: Any) -> DataLoader[Any]:
        dataset: Any = CocoDetection(coco() / split, coco() / f"{split}.json", transforms=transforms)
        dataset = wrap_dataset_for_transforms_v2(dataset, target_keys=["boxes", "labels", "masks"])
        return DataLoader(dataset, batch_size=4, num_workers=2, collate_fn=paired, **options)

    return {"train": loader("train", train, shuffle=True), "val": loader("val", val)}


def torchvision_voc() -> Loaders:
    """`VOCSegmentation` with the transforms of torchvision's segmentation reference."""
    from torchvision import tv_tensors
    from torchvision.datasets import VOCSegmentation, wrap_dataset_for_transforms_v2
    from torchvision.transforms import v2

    finish = [
        v2.ToImage(),
        v2.ToDtype({tv_tensors.Image: torch.float32, tv_tensors.Mask: torch.int64, "others": None}, scale=True),
        v2.Normalize(MEAN, STD),
    ]
    fill = {tv_tensors.Mask: 255, "others": 0}
    train = v2.Compose(
        [
            v2.RandomResize(64, 128),
            v2.RandomHorizontalFlip(0.5),
            v2.RandomCrop(64, pad_if_needed=True, fill=fill),
            *finish,
        ]
    )
    val = v2.Compose([v2.Resize((64, 64)), *finish])

    def loader(split: str, transforms: Any, **options: Any) -> DataLoader[Any]:
        dataset: Any = VOCSegmentation(voc(), image_set=split, transforms=transforms)
        return DataLoader(wrap_dataset_for_transforms_v2(dataset), batch_size=4, num_workers=2, **options)

    return {"train": loader("train", train, shuffle=True, drop_last=True), "val": loader("val", val)}


def timm_loaders() -> Loaders:
    """timm's `create_loader` with the options of its training script: RandAugment, random erasing, mixup in collate."""
    from timm.data import FastCollateMixup, create_dataset, create_loader

    train = create_dataset("", root=str(class_folders() / "train"))
    val = create_dataset("", root=str(class_folders() / "val"))
    options: dict[str, Any] = {"batch_size": 8, "num_workers": 2, "use_prefetcher": False, "persistent_workers": False}
    augment = {"auto_augment": "rand-m9-mstd0.5-inc1", "re_prob": 0.25, "color_jitter": 0.4}
    mix = FastCollateMixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=3)
    return {
        "train": create_loader(train, (3, 64, 64), is_training=True, **augment, **options),
        "train_mixed": create_loader(
            create_dataset("", root=str(class_folders() / "train")),
            (3, 64, 64),
            is_training=True,
            collate_fn=mix,
            **augment,
            **{**options, "use_prefetcher": True, "device": torch.device("cpu")},
        ),
        "val": create_loader(val, (3, 64, 64), crop_pct=0.9, **options),
    }


class Photographs(Dataset[Any]):
    """Images read by OpenCV, with the transform as albumentations' pages write it."""

    def __init__(self, split: str, transform: Any) -> None:
        self.paths = sorted((class_folders() / split).glob("*/*.jpg"))
        self.classes = list(CLASSES)
        self.transform = transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        import cv2

        image = cv2.cvtColor(cv2.imread(str(self.paths[index])), cv2.COLOR_BGR2RGB)
        return self.transform(image=image)["image"], CLASSES.index(self.paths[index].parent.name)


class Segmented(Dataset[Any]):
    """Images with masks, both of which go through one transform."""

    def __init__(self, numbers: range, transform: Any) -> None:
        root = voc() / "VOCdevkit" / "VOC2012"
        self.images = [root / "JPEGImages" / f"{number:06}.jpg" for number in numbers]
        self.masks = [root / "SegmentationClass" / f"{number:06}.png" for number in numbers]
        self.transform = transform

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        import cv2

        image = cv2.cvtColor(cv2.imread(str(self.images[index])), cv2.COLOR_BGR2RGB)
        both = self.transform(image=image, mask=np.array(Image.open(self.masks[index])))
        return both["image"], both["mask"].long()


def albumentations_loaders(*, masks: bool = False) -> Loaders:
    """Classification by albumentations, as its page on PyTorch does."""
    import albumentations as A
    from albumentations.pytorch import ToTensorV2

    augment = [A.RandomResizedCrop((64, 64)), A.HorizontalFlip(p=0.5), A.RandomBrightnessContrast(p=0.2)]
    finish = [A.Normalize(mean=MEAN, std=STD), ToTensorV2()]
    train, val = A.Compose([*augment, *finish]), A.Compose([A.Resize(64, 64), *finish])
    if masks:
        return {
            "train": DataLoader(Segmented(range(48), train), batch_size=8, shuffle=True, num_workers=2),
            "val": DataLoader(Segmented(range(48, 72), val), batch_size=8, num_workers=2),
        }
    return {
        "train": DataLoader(Photographs("train", train), batch_size=8, shuffle=True, num_workers=2),
        "val": DataLoader(Photographs("val", val), batch_size=8, num_workers=2),
    }


def albumentations_masks() -> Loaders:
    """Segmentation by albumentations, which transforms image and mask together."""
    return albumentations_loaders(masks=True)


class Augmented(Dataset[Any]):
    """Images and masks under one of kornia's `AugmentationSequential`."""

    def __init__(self, augment: Any) -> None:
        root = voc() / "VOCdevkit" / "VOC2012"
        self.images = sorted((root / "JPEGImages").iterdir())
        self.masks = sorted((root / "SegmentationClass").iterdir())
        self.augment = augment

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        image = np.array(Image.open(self.images[index]))
        mask = np.array(Image.open(self.masks[index]))
        both = torch.from_numpy(image).permute(2, 0, 1)[None] / 255, torch.from_numpy(mask)[None, None].float()
        image_out, mask_out = self.augment(*both)
        return image_out[0], mask_out[0, 0].long()


def kornia_loaders() -> Loaders:
    """kornia's containers inside a dataset."""
    import kornia.augmentation as K

    augment = K.AugmentationSequential(
        K.RandomHorizontalFlip(p=0.5),
        K.RandomAffine(15.0, p=1.0),
        K.ColorJitter(0.1, 0.1, 0.1, 0.1),
        data_keys=["input", "mask"],
    )
    return {"train": DataLoader(Augmented(augment), batch_size=8, shuffle=True, num_workers=2)}


def ultralytics_loaders() -> Loaders:
    """YOLO's own dataset and loader, as its trainer builds them."""
    from ultralytics.cfg import get_cfg
    from ultralytics.data import build_dataloader, build_yolo_dataset

    root = yolo()
    data = {
        "train": str(root / "images" / "train"),
        "val": str(root / "images" / "val"),
        "names": dict(enumerate(CLASSES)),
        "nc": 3,
        "channels": 3,
    }
    cfg = get_cfg(overrides={"imgsz": 96, "workers": 2, "task": "detect"})

    def loader(split: str) -> Any:
        dataset = build_yolo_dataset(cfg, data[split], 8, data, mode=split, rect=split == "val", stride=32)
        return build_dataloader(dataset, 8, 2, shuffle=split == "train", rank=-1)

    return {"train": loader("train"), "val": loader("val")}


def lightly_loaders() -> Loaders:
    """Two views of each image for SimCLR."""
    from lightly.data import LightlyDataset
    from lightly.transforms import SimCLRTransform

    dataset = LightlyDataset(str(class_folders() / "train"), transform=SimCLRTransform(input_size=32))
    return {"train": DataLoader(dataset, batch_size=8, shuffle=True, drop_last=True, num_workers=2)}


def medmnist_loaders() -> Loaders:
    """A data set of MedMNIST, from an archive of the same form."""
    from medmnist import INFO, BreastMNIST
    from torchvision import transforms

    def make(folder: Any) -> None:
        rng = np.random.default_rng(0)
        arrays = {}
        for split, count in INFO["breastmnist"]["n_samples"].items():
            arrays[f"{split}_images"] = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
            arrays[f"{split}_labels"] = np.arange(count).reshape(-1, 1) % 2
        np.savez(folder / "breastmnist.npz", **arrays)

    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize(mean=[0.5], std=[0.5])])
    options = {"transform": transform, "root": str(made("breastmnist", make))}
    return {
        "train": DataLoader(BreastMNIST("train", **options), batch_size=16, shuffle=True, num_workers=2),
        "val": DataLoader(BreastMNIST("val", **options), batch_size=16, num_workers=2),
    }
