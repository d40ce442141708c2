"""Image classification with OpenCV, Pillow and torchvision."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import datasets
from torchvision import transforms as T
from torchvision.io import read_image
from torchvision.transforms import functional as F
from torchvision.transforms import v2

from tests.loaders.styles._bases import ClassLabels, ImageBase, ReadsFast
from tests.loaders.styles._data import CLASSES, IMAGENET_MEAN, IMAGENET_STD, PHOTOGRAPHS, class_of
from tests.loaders.styles._transforms import Resize, Standardize, ToFloat, ToFloatRaw

Loader = DataLoader[Any]


def batches(dataset: Dataset[Any], **options: Any) -> Loader:
    return DataLoader(dataset, batch_size=4, shuffle=True, drop_last=True, **options)


class CachedReader:
    """Reads a file once and keeps its bytes."""

    def __init__(self) -> None:
        self.store: dict[Path, bytes] = {}

    def fetch(self, path: Path) -> np.ndarray:
        if path not in self.store:
            self.store[path] = path.read_bytes()
        buffer = np.frombuffer(self.store[path], dtype=np.uint8)
        return cv2.imdecode(buffer, cv2.IMREAD_COLOR)  # culprit


class ByteDataset(Dataset[Any]):
    def __init__(self, transform: Callable[[np.ndarray], Tensor]) -> None:
        self.reader, self.transform = CachedReader(), transform

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    def __getitem__(self, i: int) -> Any:
        path = PHOTOGRAPHS[i]
        img = cv2.resize(self.reader.fetch(path), (64, 64))  # culprit
        return self.transform(img), class_of(path)


def dg505_helper_class() -> Loader:
    return batches(ByteDataset(T.Compose([T.ToTensor(), T.Normalize(IMAGENET_MEAN, IMAGENET_STD)])))


class Pets(ClassLabels, ReadsFast):
    pass


def dg505_overriding_base() -> Loader:
    return batches(Pets(PHOTOGRAPHS, T.Compose([ToFloat(), Standardize(IMAGENET_MEAN, IMAGENET_STD)])))


class PetsRGB(ClassLabels, ImageBase):
    pass


def dg505_second_conversion() -> Loader:
    def as_pil(array: np.ndarray) -> Image.Image:
        return Image.fromarray(cv2.cvtColor(array, cv2.COLOR_BGR2RGB))  # culprit

    stages = [T.Lambda(as_pil), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(IMAGENET_MEAN, IMAGENET_STD)]
    return batches(PetsRGB(PHOTOGRAPHS, T.Compose(stages)))


def dg505_folder_partial() -> Loader:
    read = functools.partial(cv2.imread, flags=cv2.IMREAD_COLOR)  # culprit
    stages = v2.Compose(
        [
            v2.ToImage(),
            v2.Resize((56, 56), antialias=True),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(IMAGENET_MEAN, IMAGENET_STD),
        ]
    )
    return batches(datasets.ImageFolder(str(PHOTOGRAPHS[0].parents[1]), stages, loader=read))


@dataclass
class Sample:
    image: Tensor
    label: int
    name: str


class DataclassSet(Dataset[Sample]):
    def __init__(self, paths: list[Path]) -> None:
        self.entries = [{"file": str(path), "label": class_of(path)} for path in paths]

    def __len__(self) -> int:
        return len(self.entries)

    def _load(self, file: str) -> np.ndarray:
        raw = Path(file).read_bytes()
        image = Image.open(io.BytesIO(raw)).convert("RGB").resize((40, 40))
        array = np.array(image)
        return array[:, :, ::-1]  # culprit

    def __getitem__(self, i: int) -> Sample:
        entry = self.entries[i]
        img = self._load(str(entry["file"]))
        tensor = torch.from_numpy(img.astype(np.float32) / 255.0).permute(2, 0, 1)
        return Sample(
            Standardize(IMAGENET_MEAN, IMAGENET_STD)(tensor), int(entry["label"]), Path(str(entry["file"])).stem
        )


def collate_samples(samples: list[Sample]) -> dict[str, Any]:
    return {
        "image": torch.stack([sample.image for sample in samples]),
        "label": torch.tensor([sample.label for sample in samples]),
    }


def dg505_dataclass() -> Loader:
    return batches(DataclassSet(PHOTOGRAPHS), collate_fn=collate_samples)


class VideoLike(Dataset[Any]):
    """Three photographs as the frames of a clip."""

    mean = np.array(IMAGENET_MEAN, np.float32)
    std = np.array(IMAGENET_STD, np.float32)

    def __len__(self) -> int:
        return len(PHOTOGRAPHS) - 2

    def frames(self, start: int) -> Any:
        for path in PHOTOGRAPHS[start : start + 3]:
            yield cv2.resize(cv2.imread(str(path)), (32, 32))  # culprit

    def __getitem__(self, i: int) -> Any:
        if not 0 <= i < len(self):
            raise IndexError(i)
        clip = np.stack(list(self.frames(i))).astype(np.float32) / 255  # culprit
        clip = (clip - self.mean) / self.std
        return torch.from_numpy(clip.transpose(0, 3, 1, 2).copy()), i % 5


def dg505_generator_of_frames() -> Loader:
    return batches(VideoLike())


class PilDataset(Dataset[Any]):
    """Opens with Pillow; the transform does the rest."""

    def __init__(self, transform: Callable[[Image.Image], Tensor]) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    def __getitem__(self, i: int) -> Any:
        img = Image.open(PHOTOGRAPHS[i]).convert("RGB")
        return self.transform(img), class_of(PHOTOGRAPHS[i])


def dg506_divided_in_lambda() -> Loader:
    steps = [
        T.Resize((48, 48)),
        T.ToTensor(),
        T.Lambda(lambda x: x / 255.0),  # culprit
        T.Normalize(IMAGENET_MEAN, IMAGENET_STD),
    ]
    return batches(PilDataset(T.Compose(steps)))


class Net(Dataset[Any]):
    """Prepares as the paper's code does."""

    def __init__(self, size: int = 48) -> None:
        self.size = size

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    @property
    def scale(self) -> float:
        return 1.0 / 255.0

    def preprocess(self, img: np.ndarray) -> np.ndarray:
        img = cv2.resize(img, (self.size, self.size)).astype(np.float32)
        img = img * self.scale
        return img.transpose(2, 0, 1)

    def __getitem__(self, i: int) -> Any:
        bgr = cv2.imread(str(PHOTOGRAPHS[i]))
        rgb = cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)
        x = self.preprocess(rgb)
        x = x / 255.0  # culprit
        return torch.from_numpy(np.ascontiguousarray(x)), class_of(PHOTOGRAPHS[i])


def dg506_property_and_again() -> Loader:
    return batches(Net())


def dg506_read_image() -> Loader:
    class Tiny(Dataset[Any]):
        def __init__(self, tf: Callable[[Tensor], Tensor]) -> None:
            self.tf = tf

        def __len__(self) -> int:
            return len(PHOTOGRAPHS)

        def __getitem__(self, i: int) -> Any:
            x = read_image(str(PHOTOGRAPHS[i]))[:3]
            x = self.tf(x).float()  # culprit
            return F.normalize(x, IMAGENET_MEAN, IMAGENET_STD), class_of(PHOTOGRAPHS[i])  # culprit

    return batches(Tiny(T.Compose([T.Resize((48, 48), antialias=True), T.RandomHorizontalFlip()])))


def dg506_transform_in_other_file() -> Loader:
    chain = T.Compose([ToFloatRaw(), Standardize(IMAGENET_MEAN, IMAGENET_STD)])
    return batches(PetsRGB(PHOTOGRAPHS, chain))


def dg506_dtype_without_scale() -> Loader:
    steps: list[Any] = [v2.PILToTensor(), v2.Resize((48, 48), antialias=True)]
    steps.append(v2.ToDtype(torch.float32))  # culprit
    steps.append(v2.Normalize(IMAGENET_MEAN, IMAGENET_STD))
    return batches(PilDataset(v2.Compose(steps)))


def scaled(fn: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    @functools.wraps(fn)
    def inner(*args: Any, **kwargs: Any) -> np.ndarray:
        return fn(*args, **kwargs).astype(np.float32) / 255.0  # culprit

    return inner


@scaled
def load_unit(path: Path) -> np.ndarray:
    img = np.asarray(Image.open(path).convert("RGB").resize((48, 48)))
    return img / 255.0  # culprit


def dg506_decorator() -> Loader:
    class Decorated(PilDataset):
        def __getitem__(self, i: int) -> Any:
            img = load_unit(PHOTOGRAPHS[i])
            return torch.from_numpy(img.transpose(2, 0, 1).copy()), class_of(PHOTOGRAPHS[i])

    return batches(Decorated(F.to_tensor))


def dg506_statistics_of_255() -> Loader:
    mean, std = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]  # culprit
    steps = T.Compose([Resize(48), T.ToTensor(), T.Normalize(mean, std)])  # culprit
    return batches(PilDataset(steps))


def dg507_normalized_again() -> Loader:
    base = T.Compose([T.Resize((48, 48)), T.ToTensor(), T.Normalize(IMAGENET_MEAN, IMAGENET_STD)])  # culprit
    full = T.Compose([base, T.RandomHorizontalFlip(), T.Normalize(IMAGENET_MEAN, IMAGENET_STD)])  # culprit
    return batches(PilDataset(full))


class Prepared(PilDataset):
    """Normalizes at the end of `__getitem__`."""

    def __getitem__(self, i: int) -> Any:
        x, label = super().__getitem__(i)
        x = F.normalize(x, IMAGENET_MEAN, IMAGENET_STD)  # culprit
        return x, label


def dg507_subclass_normalizes() -> Loader:
    tf = T.Compose([T.Resize((48, 48)), T.ToTensor(), T.Normalize(IMAGENET_MEAN, IMAGENET_STD)])  # culprit
    return batches(Prepared(tf))


def dg507_std_left_out() -> Loader:
    class Centred(PilDataset):
        STD = torch.tensor(IMAGENET_STD)[:, None, None]
        MEAN = torch.tensor(IMAGENET_MEAN)[:, None, None]

        def __getitem__(self, i: int) -> Any:
            x, y = super().__getitem__(i)
            x = x.sub(self.MEAN)
            x = x.mul(self.STD)  # culprit
            return x, y

    return batches(Centred(T.Compose([T.Resize((48, 48)), T.ToTensor()])))


def dg507_swapped_means() -> Loader:
    config = {"mean": IMAGENET_MEAN[::-1], "std": IMAGENET_STD[::-1], "classes": len(CLASSES)}  # culprit
    norm = v2.Normalize(**{key: config[key] for key in ("mean", "std")})  # type: ignore[arg-type] # culprit
    chain = v2.Compose([v2.ToImage(), v2.Resize((48, 48)), v2.ToDtype(torch.float32, scale=True), norm])
    return batches(PilDataset(chain))
