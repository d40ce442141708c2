"""Libraries of medical volumes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tests.ecosystem.data import made

Loaders = dict[str, Any]


def volume(number: int) -> tuple[np.ndarray, np.ndarray]:
    """A volume with one bright block, and the mask of that block."""
    rng = np.random.default_rng(number)
    image = rng.normal(size=(24, 24, 24)).astype(np.float32)
    mask = np.zeros(image.shape, np.uint8)
    start = rng.integers(0, 14, 3)
    mask[tuple(slice(at, at + 10) for at in start)] = 1
    return image + 3 * mask, mask


def files() -> list[dict[str, str]]:
    """NIfTI files of volumes and masks, as MONAI lists them."""

    def make(folder: Any) -> None:
        import nibabel

        for number in range(24):
            for name, array in zip(("image", "label"), volume(number), strict=True):
                nibabel.save(nibabel.Nifti1Image(array, np.eye(4)), folder / f"{name}{number}.nii.gz")

    folder = made("volumes", make)
    return [{name: str(folder / f"{name}{number}.nii.gz") for name in ("image", "label")} for number in range(24)]


def monai_loaders() -> Loaders:
    """MONAI's spleen tutorial: dictionary transforms under a `CacheDataset`, several crops of each volume."""
    from monai.data import CacheDataset, DataLoader, Dataset
    from monai.transforms import (
        Compose,
        EnsureChannelFirstd,
        LoadImaged,
        RandCropByPosNegLabeld,
        RandFlipd,
        RandShiftIntensityd,
        ScaleIntensityRanged,
    )

    keys = ["image", "label"]
    load = [
        LoadImaged(keys=keys),
        EnsureChannelFirstd(keys=keys),
        ScaleIntensityRanged(keys=["image"], a_min=-4, a_max=8, b_min=0.0, b_max=1.0, clip=True),
    ]
    augment = [
        RandCropByPosNegLabeld(
            keys=keys, label_key="label", spatial_size=(16, 16, 16), pos=1, neg=1, num_samples=2, image_key="image"
        ),
        RandFlipd(keys=keys, prob=0.5, spatial_axis=0),
        RandShiftIntensityd(keys=["image"], offsets=0.1, prob=0.5),
    ]
    train = CacheDataset(files()[:18], Compose([*load, *augment]), cache_rate=1.0, num_workers=2, progress=False)
    return {
        "train": DataLoader(train, batch_size=2, shuffle=True, num_workers=2),
        "val": DataLoader(Dataset(files()[18:], Compose(load)), batch_size=1, num_workers=2),
    }


def torchio_loaders() -> Loaders:
    """torchio's `SubjectsDataset` of whole volumes, and a `Queue` of patches, which has workers of its own."""
    import torchio as tio

    def subjects(some: slice) -> list[Any]:
        return [
            tio.Subject(image=tio.ScalarImage(paths["image"]), label=tio.LabelMap(paths["label"]))
            for paths in files()[some]
        ]

    augment = tio.Compose([tio.ZNormalization(), tio.RandomFlip(), tio.RandomAffine(), tio.RandomNoise()])
    train = tio.SubjectsDataset(subjects(slice(0, 18)), transform=augment)
    val = tio.SubjectsDataset(subjects(slice(18, 24)), transform=tio.ZNormalization())
    queue = tio.Queue(train, max_length=16, samples_per_volume=4, sampler=tio.UniformSampler(12), num_workers=2)
    return {
        "train": tio.SubjectsLoader(train, batch_size=2, shuffle=True, num_workers=2),
        "train_patches": tio.SubjectsLoader(queue, batch_size=4, num_workers=0),
        "val": tio.SubjectsLoader(val, batch_size=1, num_workers=2),
    }


def xray_loaders() -> Loaders:
    """torchxrayvision's dataset of NIH chest X-rays, from a table and images of the same form."""
    import pandas
    import torchvision
    import torchxrayvision as xrv
    from PIL import Image
    from torch.utils.data import DataLoader

    findings = ["Atelectasis", "Cardiomegaly", "Effusion", "No Finding"]

    def make(folder: Any) -> None:
        rows = []
        for number in range(32):
            image = np.random.default_rng(number).integers(0, 256, (8, 8), dtype=np.uint8)
            Image.fromarray(image).resize((256, 256)).save(folder / f"{number:08}_000.png")
            rows.append(
                {
                    "Image Index": f"{number:08}_000.png",
                    "Finding Labels": findings[number % 4],
                    "Follow-up #": 0,
                    "Patient ID": number,
                    "Patient Age": 40,
                    "Patient Gender": "MF"[number % 2],
                    "View Position": "PA",
                }
            )
        pandas.DataFrame(rows).to_csv(folder / "table.csv", index=False)

    folder = made("xrays", make)
    crop = torchvision.transforms.Compose([xrv.datasets.XRayCenterCrop(), xrv.datasets.XRayResizer(64)])
    dataset = xrv.datasets.NIH_Dataset(
        str(folder), csvpath=str(folder / "table.csv"), transform=crop, unique_patients=False, views=["PA"]
    )
    torch.set_num_threads(1)
    return {"train": DataLoader(dataset, batch_size=8, shuffle=True, num_workers=2)}
