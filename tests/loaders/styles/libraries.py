"""albumentations, kornia, MONAI dictionaries and Hugging Face datasets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import albumentations as A
import cv2
import datasets as hf
import kornia.augmentation as K
import numpy as np
import torch
from albumentations.pytorch import ToTensorV2
from monai.data import Dataset as MonaiDataset
from monai.transforms import Compose as MonaiCompose
from monai.transforms import EnsureChannelFirstd, EnsureTyped, Lambdad, MapTransform, RandFlipd, Resized
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms as T

from tests.loaders.styles import _data
from tests.loaders.styles._data import IMAGENET_MEAN, IMAGENET_STD, PHOTOGRAPHS, class_of

Loader = DataLoader[Any]


class AlbumentationsSet(Dataset[Any]):
    def __init__(self, aug: A.Compose) -> None:
        self.aug = aug

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    def read(self, path: Path) -> np.ndarray:
        return cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)

    def __getitem__(self, i: int) -> dict[str, Any]:
        out = self.aug(image=self.read(PHOTOGRAPHS[i]))
        return {"image": out["image"], "target": class_of(PHOTOGRAPHS[i])}


class Unconverted(AlbumentationsSet):
    def read(self, path: Path) -> np.ndarray:
        image: np.ndarray = cv2.imread(str(path))  # culprit
        if image is None:
            raise FileNotFoundError(path)
        return image  # culprit


def dg505_albumentations_override() -> Loader:
    aug = A.Compose([A.Resize(56, 56), A.RandomCrop(48, 48), A.HorizontalFlip(), A.Normalize(), ToTensorV2()])
    return DataLoader(Unconverted(aug), batch_size=4, shuffle=True)


def dg506_albumentations_max_value() -> Loader:
    aug = A.Compose(
        [
            A.Resize(48, 48),
            A.ToFloat(max_value=255),  # culprit
            A.Normalize(IMAGENET_MEAN, IMAGENET_STD),  # culprit
            ToTensorV2(),
        ]
    )
    return DataLoader(AlbumentationsSet(aug), batch_size=4, shuffle=True)


class Scenes(Dataset[Any]):
    def __init__(self, aug: Any) -> None:
        self.images, self.masks, self.aug = _data.files("images"), _data.files("masks"), aug

    def __len__(self) -> int:
        return len(self.images)

    def pair(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        image = cv2.cvtColor(cv2.imread(str(self.images[i])), cv2.COLOR_BGR2RGB)
        return image, cv2.imread(str(self.masks[i]), cv2.IMREAD_GRAYSCALE)

    def __getitem__(self, i: int) -> Any:
        image, mask = self.pair(i)
        done = self.aug(image=image, mask=mask)
        return done["image"], done["mask"].long()


def dg511_albumentations_mask_as_image() -> Loader:
    aug = A.Compose(
        [A.RandomScale(0.2), A.Resize(48, 60), A.ToFloat(), ToTensorV2()], additional_targets={"mask": "image"}
    )

    class WithImages(Scenes):
        def __getitem__(self, i: int) -> Any:
            image, mask = self.pair(i)
            out = self.aug(image=image)["image"]
            small = A.Resize(48, 60)(image=mask)["image"]  # culprit
            return out, torch.from_numpy(small).long()

    return DataLoader(WithImages(A.Compose(aug.transforms)), batch_size=4)


def dg512_albumentations_image_only() -> Loader:
    geometric = A.Compose([A.HorizontalFlip(p=0.5), A.ShiftScaleRotate(rotate_limit=0, p=0.0)])
    final = A.Compose([A.Normalize(), ToTensorV2()])

    class Split(Scenes):
        def __getitem__(self, i: int) -> Any:
            image, mask = self.pair(i)
            image = self.aug(image=image)["image"]  # culprit
            done = final(image=image, mask=mask)
            return done["image"], done["mask"].long()

    return DataLoader(Split(geometric), batch_size=4, shuffle=True)


def dg512_kornia_two_calls() -> Loader:
    flip = K.RandomHorizontalFlip(p=0.5)

    class KorniaScenes(Scenes):
        def __getitem__(self, i: int) -> Any:
            image, mask = self.pair(i)
            x = torch.from_numpy(image).permute(2, 0, 1).float()[None] / 255
            y = torch.from_numpy(mask)[None, None].float()
            x = self.aug(x)[0]  # culprit
            y = self.aug(y)[0, 0].long()  # culprit
            return x, y

    return DataLoader(KorniaScenes(flip), batch_size=4)


def dg506_kornia_normalize() -> Loader:
    chain = torch.nn.Sequential(
        K.Resize((48, 48)),
        K.RandomHorizontalFlip(),
        K.Normalize(torch.tensor(IMAGENET_MEAN), torch.tensor(IMAGENET_STD)),
    )

    class KorniaSet(Dataset[Any]):
        def __len__(self) -> int:
            return len(PHOTOGRAPHS)

        def __getitem__(self, i: int) -> Any:
            img = np.array(Image.open(PHOTOGRAPHS[i]).convert("RGB"))
            x = torch.from_numpy(img).permute(2, 0, 1).float()  # culprit
            return chain(x[None])[0], class_of(PHOTOGRAPHS[i])  # culprit

    return DataLoader(KorniaSet(), batch_size=4)


class ReadScened(MapTransform):
    """Reads what the keys name."""

    def __call__(self, data: Any) -> dict[str, Any]:
        row = dict(data)
        for key in self.key_iterator(row):
            row[key] = np.array(Image.open(row[key]))
        return row


def monai_rows() -> list[dict[str, str]]:
    pairs = zip(_data.files("images"), _data.files("masks"), strict=True)
    return [{"image": str(image), "label": str(mask)} for image, mask in pairs]


def to_unit(image: Any) -> Any:
    return image / 255.0


def dg511_monai_resized() -> Loader:
    chain = MonaiCompose(
        [
            ReadScened(keys=["image", "label"]),
            EnsureChannelFirstd(keys=["image"], channel_dim=-1),
            EnsureChannelFirstd(keys=["label"], channel_dim="no_channel"),
            Lambdad(keys=["image"], func=to_unit),
            Resized(keys=["image", "label"], spatial_size=(48, 60), mode="bilinear"),  # culprit
            EnsureTyped(keys=["image", "label"], dtype=[torch.float32, torch.int64]),
        ]
    )
    return DataLoader(MonaiDataset(monai_rows(), chain), batch_size=4)


def dg512_monai_keys() -> Loader:
    both = ["image", "label"]
    chain = MonaiCompose(
        [
            ReadScened(keys=both),
            EnsureChannelFirstd(keys=["image"], channel_dim=-1),
            EnsureChannelFirstd(keys=["label"], channel_dim="no_channel"),
            RandFlipd(keys=both, prob=0.5, spatial_axis=0),
            RandFlipd(keys=["image"], prob=0.5, spatial_axis=1),  # culprit
            Lambdad(keys=["image"], func=to_unit),
            EnsureTyped(keys=both, dtype=[torch.float32, torch.int64]),
        ]
    )
    return DataLoader(MonaiDataset(monai_rows(), chain), batch_size=4)


def hf_images() -> hf.Dataset:
    rows = {"path": [str(path) for path in PHOTOGRAPHS], "label": [class_of(path) for path in PHOTOGRAPHS]}
    return hf.Dataset.from_dict(rows)


def dg505_hf_with_transform() -> Loader:
    prepare = T.Compose([T.ToTensor(), T.Resize((48, 48)), T.Normalize(IMAGENET_MEAN, IMAGENET_STD)])

    def apply(batch: dict[str, Any]) -> dict[str, Any]:
        images = [cv2.imread(path) for path in batch["path"]]  # culprit
        batch["pixel_values"] = [prepare(image) for image in images]  # culprit
        del batch["path"]
        return batch

    return DataLoader(hf_images().with_transform(apply), batch_size=4)  # type: ignore[arg-type]


def dg506_hf_set_transform() -> Loader:
    to_tensor = T.Compose([T.Resize((48, 48)), T.ToTensor()])
    data = hf_images()

    def on_access(batch: dict[str, Any]) -> dict[str, Any]:
        pixels = [to_tensor(Image.open(path).convert("RGB")) for path in batch["path"]]
        return {"pixel_values": [x / 255 for x in pixels], "label": batch["label"]}  # culprit

    data.set_transform(on_access)
    return DataLoader(data, batch_size=4, shuffle=True)  # type: ignore[arg-type]


def dg507_hf_processor() -> Loader:
    class Processor:
        """What an image processor of a model hub does, from its configuration."""

        image_mean = (0.5, 0.5, 0.5)
        image_std = (0.5, 0.5, 0.5)
        rescale_factor = 1 / 255

        def __call__(self, images: list[Image.Image]) -> list[torch.Tensor]:
            arrays = [np.asarray(image.resize((48, 48)), np.float32) * self.rescale_factor for image in images]
            mean, std = np.asarray(self.image_mean, np.float32), np.asarray(self.image_std, np.float32)
            return [torch.from_numpy((array - mean) / std).permute(2, 0, 1) for array in arrays]  # culprit

    processor = Processor()

    def apply(batch: dict[str, Any]) -> dict[str, Any]:
        tensors = processor([Image.open(path).convert("RGB") for path in batch["path"]])
        tensors = [T.functional.normalize(x, IMAGENET_MEAN, IMAGENET_STD) for x in tensors]  # culprit
        return {"pixel_values": tensors, "label": batch["label"]}

    return DataLoader(hf_images().with_transform(apply), batch_size=4)  # type: ignore[arg-type]
