"""DG505 swapped-channels: OpenCV's blue, green, red reaches a model that means red, green, blue."""

from __future__ import annotations

import random
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from cv2 import imread
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import datasets, transforms
from torchvision.io import ImageReadMode, read_image
from torchvision.transforms import v2

from sample_datasets._parts import PHOTOGRAPHS

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIZE = (48, 48)


class Photographs(Dataset):
    """Photographs with the class that their folder names; `load` reads one file, `transform` makes a tensor of it."""

    def __init__(self, load: Callable[[Path], Any], transform: Callable[[Any], Any]) -> None:
        self.paths = PHOTOGRAPHS
        self.classes = sorted({path.parent.name for path in self.paths})
        self.load = load
        self.transform = transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path = self.paths[range(len(self))[index]]
        return self.transform(self.load(path)), self.classes.index(path.parent.name)


def loader(load: Callable[[Path], Any], transform: Callable[[Any], Any], **options: Any) -> DataLoader[Any]:
    """Batches of four photographs, read in the main process."""
    return DataLoader(Photographs(load, transform), batch_size=4, **options)


def read_bgr(path: Path) -> np.ndarray:
    """Read by OpenCV, as it gives it."""
    image: np.ndarray = cv2.resize(cv2.imread(str(path)), SIZE, interpolation=cv2.INTER_AREA)  # culprit
    return image


def read_rgb(path: Path) -> np.ndarray:
    """Read by OpenCV, and turned."""
    image: np.ndarray = cv2.cvtColor(read_bgr(path), cv2.COLOR_BGR2RGB)
    return image


def read_pil(path: Path) -> Image.Image:
    """Read by Pillow, which decodes when it is asked for pixels."""
    with Image.open(path) as image:
        return image.convert("RGB").resize(SIZE)


NORMALIZED = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, STD)])  # culprit


def bad() -> DataLoader[Any]:
    """OpenCV's array goes straight into torchvision's transforms, with ImageNet's statistics."""
    augment = transforms.Compose([transforms.ToTensor(), transforms.RandomHorizontalFlip(), NORMALIZED.transforms[1]])
    return loader(read_bgr, augment, shuffle=True)


def unit(image: np.ndarray) -> Tensor:
    """Values from 0 to 1, channels first."""
    return torch.from_numpy(image.transpose(2, 0, 1).copy()).float() / 255


def bad_by_hand() -> DataLoader[Any]:
    """Divided by 255 and transposed by hand, with no statistics at all."""
    return loader(lambda path: cv2.resize(imread(str(path)), SIZE), unit)  # culprit


def bad_turned_twice() -> DataLoader[Any]:
    """Pillow had red first; a conversion that was meant for OpenCV turns it."""
    return loader(lambda path: cv2.cvtColor(np.asarray(read_pil(path)), cv2.COLOR_BGR2RGB), NORMALIZED)  # culprit


def read_buffer(path: Path) -> np.ndarray:
    """Decoded from bytes, as they come out of an archive."""
    image = cv2.imdecode(np.frombuffer(path.read_bytes(), np.uint8), cv2.IMREAD_COLOR)  # culprit
    small: np.ndarray = cv2.resize(image, SIZE)
    return small


def bad_albumentations() -> DataLoader[Any]:
    """albumentations takes the array as it is, and its Normalize means ImageNet in red, green, blue."""
    import albumentations as A

    augment = A.Compose([A.RandomCrop(40, 40), A.Rotate(20, p=0.5), A.HorizontalFlip(), A.Normalize()])
    return loader(read_buffer, lambda image: torch.from_numpy(augment(image=image)["image"]).permute(2, 0, 1))


def bad_jittered() -> DataLoader[Any]:
    """Colour jitter hides nothing: the order shows through it."""
    augment = v2.Compose(
        [
            v2.ToImage(),
            v2.RandomResizedCrop(40, scale=(0.6, 1.0), antialias=True),
            v2.ColorJitter(0.2, 0.2, 0.2, 0.02),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    )
    return loader(read_bgr, augment)


def bad_through_pillow() -> DataLoader[Any]:
    """`Image.fromarray` believes what it is given."""
    return loader(lambda path: Image.fromarray(read_bgr(path)), NORMALIZED)


def bad_folder() -> DataLoader[Any]:
    """torchvision's `ImageFolder` with OpenCV for its loader."""
    augment = transforms.Compose([transforms.ToTensor(), transforms.Resize(SIZE), NORMALIZED.transforms[1]])
    folder = datasets.ImageFolder(str(PHOTOGRAPHS[0].parents[1]), augment, loader=cv2.imread)  # culprit
    return DataLoader(folder, batch_size=4)


def bad_kept() -> DataLoader[Any]:
    """All images are decoded at once, and kept in memory."""
    dataset = Photographs(read_bgr, NORMALIZED)
    images = {path: read_bgr(path) for path in dataset.paths}
    dataset.load = images.__getitem__
    return DataLoader(dataset, batch_size=4)


def good() -> DataLoader[Any]:
    """OpenCV reads, and the channels are turned once."""
    augment = transforms.Compose([transforms.ToTensor(), transforms.RandomHorizontalFlip(), NORMALIZED.transforms[1]])
    return loader(read_rgb, augment, shuffle=True)


def permuted(image: Tensor) -> Tensor:
    """Half of all images, with their channels in any order: the lighting noise of SSD."""
    return image[torch.randperm(3)] if torch.rand(()) < 0.5 else image


def good_permuted() -> DataLoader[Any]:
    """Turned to red, green, blue; what is swapped in some draws is augmentation."""
    return loader(read_rgb, lambda image: NORMALIZED.transforms[1](permuted(unit(image))))


def good_always_permuted() -> DataLoader[Any]:
    """Every draw permutes channels: there is no order that could be wrong."""
    return loader(read_rgb, lambda image: NORMALIZED.transforms[1](unit(image)[torch.randperm(3)]))


def bad_permuted() -> DataLoader[Any]:
    """The same augmentation of images in blue, green, red."""
    return loader(read_bgr, lambda image: NORMALIZED.transforms[1](permuted(unit(image))))


def grained(image: np.ndarray) -> np.ndarray:
    """With noise in every pixel, clipped at black and white as a sensor's is."""
    return np.clip(image + np.random.normal(0, 6, image.shape), 0, 255).astype(np.uint8)


def bad_noisy() -> DataLoader[Any]:
    """Noise leaves no two pixels of a colour equal; the order shows through it."""
    return loader(lambda path: grained(read_bgr(path)), NORMALIZED)


def good_noisy() -> DataLoader[Any]:
    """Red, green, blue with noise that is added after normalization, and a leaf of nothing but noise."""
    return loader(
        lambda path: NORMALIZED(read_rgb(path)),
        lambda image: {"image": image + 0.1 * torch.randn_like(image), "noise": torch.randn_like(image)},
    )


def good_vignetted() -> DataLoader[Any]:
    """Red, green, blue, darker towards the corners, with noise: no value of white is that of the whole image."""
    fading = 1 - 0.5 * np.hypot(*np.meshgrid(*[np.linspace(-1, 1, 48)] * 2))[..., None]
    return loader(lambda path: grained(read_rgb(path) * np.clip(fading, 0, 1)), NORMALIZED)


class Mosaics(Photographs):
    """Four photographs side by side, three of which were read before and kept, as YOLO keeps them."""

    def __init__(self, load: Callable[[Path], Any]) -> None:
        super().__init__(load, NORMALIZED)
        self.kept: list[np.ndarray] = []

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path = self.paths[range(len(self))[index]]
        self.kept = [*self.kept, self.load(path)][-24:]
        above, below = (np.concatenate([self.kept[-1], *random.choices(self.kept)], axis=1) for _ in range(2))
        return self.transform(np.concatenate([above, below])), self.classes.index(path.parent.name)


def good_mosaics() -> DataLoader[Any]:
    """Mosaics in red, green, blue."""
    return DataLoader(Mosaics(read_rgb), batch_size=4)


def bad_mosaics() -> DataLoader[Any]:
    """Mosaics in blue, green, red."""
    return DataLoader(Mosaics(read_bgr), batch_size=4)


def good_lazy() -> DataLoader[Any]:
    """Pillow opens bytes, and decodes when a transform asks for pixels."""
    return loader(
        lambda path: Image.open(BytesIO(path.read_bytes())),
        transforms.Compose(
            [transforms.Lambda(lambda image: image.convert("RGB")), transforms.Resize(SIZE), NORMALIZED]
        ),
    )


def good_torchvision() -> DataLoader[Any]:
    """torchvision decodes into channels first."""
    augment = v2.Compose([v2.Resize(SIZE), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])
    return loader(lambda path: read_image(str(path), ImageReadMode.RGB), augment)


def good_caffe() -> DataLoader[Any]:
    """Models that come from Caffe mean blue first: 0 to 255, minus the means of blue, green and red."""
    means = np.array([103.939, 116.779, 123.68], np.float32)
    return loader(read_bgr, lambda image: torch.from_numpy((image - means).transpose(2, 0, 1)))


def good_turned_statistics() -> DataLoader[Any]:
    """Blue first, and the statistics of blue first as well: the model was trained so."""
    return loader(read_bgr, transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN[::-1], STD[::-1])]))


def good_raw() -> DataLoader[Any]:
    """Bytes as OpenCV gives them: the model turns and scales them itself, on its device."""
    return loader(read_bgr, lambda image: torch.from_numpy(image).permute(2, 0, 1))


def good_grey() -> DataLoader[Any]:
    """Grey images in three channels have no order."""
    return loader(read_pil, transforms.Compose([transforms.Grayscale(3), NORMALIZED]))


def good_jittered() -> DataLoader[Any]:
    """Strong jitter, sometimes to grey, in the right order."""
    jitter = transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8)
    return loader(read_pil, transforms.Compose([jitter, transforms.RandomGrayscale(0.2), NORMALIZED]))


class Scans(Dataset):
    """Medical scans of 16 bits and one channel, and their masks, which OpenCV reads as they are."""

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        grey = cv2.resize(cv2.imread(str(PHOTOGRAPHS[index]), cv2.IMREAD_GRAYSCALE), SIZE)
        scan = torch.from_numpy(grey.astype(np.float32) * 257 / 65535)
        return scan[None].expand(3, -1, -1).clone(), torch.from_numpy(grey > 128).long()


def good_scans() -> DataLoader[Any]:
    """One channel is no colour."""
    return DataLoader(Scans(), batch_size=4)


class Features(Dataset):
    """Features that were computed once; the photographs are opened to learn their size, and that is all."""

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    def __getitem__(self, index: int) -> tuple[Tensor, tuple[int, int]]:
        number = range(len(self))[index]
        width, height = Image.open(PHOTOGRAPHS[number]).convert("RGB").size
        return torch.linspace(number, number + 1, 3 * 8 * 8).reshape(3, 8, 8), (height, width)


def good_features() -> DataLoader[Any]:
    """Nothing of a sample follows the colours."""
    return DataLoader(Features(), batch_size=4)


class Views(Dataset):
    """Two views of each photograph, and boxes, in a dictionary."""

    def __init__(self, transform: Callable[[Any], Tensor]) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    def __getitem__(self, index: int) -> dict[str, Any]:
        path = PHOTOGRAPHS[index]
        views = [self.transform(read_pil(path)) for _ in range(2)]
        return {"views": views, "boxes": torch.tensor([[0.0, 0.0, 8.0, 8.0 + index % 8]]), "name": path.stem}


def good_views() -> DataLoader[Any]:
    """Contrastive views with boxes beside, letterboxed into black, rotated and flipped."""
    pad = transforms.Pad((0, 8), fill=0)
    augment = transforms.Compose([pad, transforms.RandomRotation(20), transforms.RandomHorizontalFlip(), NORMALIZED])
    return DataLoader(Views(augment), batch_size=4)


def stacked(load: Callable[[Path], np.ndarray]) -> Callable[[Path], np.ndarray]:
    """Reads a photograph and its mirror image as two frames of a clip, (48, 48, 6)."""
    return lambda path: np.concatenate([load(path), load(path)[:, ::-1]], axis=2)


def bad_stacked() -> DataLoader[Any]:
    """The frames of a clip follow each other on the channel axis, blue first."""
    return loader(stacked(read_bgr), unit)


def good_stacked() -> DataLoader[Any]:
    """The same, red first."""
    return loader(stacked(read_rgb), unit)


def by_channel(image: np.ndarray) -> Tensor:
    """The red of both frames, then the green and the blue."""
    return unit(image).reshape(2, 3, *SIZE).transpose(0, 1).flatten(0, 1)


def good_stacked_by_channel() -> DataLoader[Any]:
    """All frames of one channel after the other: red is first."""
    return loader(stacked(read_rgb), by_channel)


def bad_stacked_by_channel() -> DataLoader[Any]:
    """All frames of one channel after the other: blue is first."""
    return loader(stacked(read_bgr), by_channel)


def grey_frames(path: Path) -> np.ndarray:
    """Six grey frames of a photograph, (48, 48, 6)."""
    grey = cv2.cvtColor(read_bgr(path), cv2.COLOR_BGR2GRAY)
    return np.stack([np.roll(grey, shift, 1) for shift in range(6)], axis=2)


def good_grey_frames() -> DataLoader[Any]:
    """Frames in grey have no order of channels."""
    return loader(grey_frames, unit)


def with_coordinates(image: np.ndarray) -> Tensor:
    """A photograph, and where each of its pixels is."""
    places = torch.stack(torch.meshgrid(torch.linspace(0, 1, 48), torch.linspace(0, 1, 48), indexing="ij"))
    return torch.cat([unit(image), places, torch.ones(1, 48, 48)])


def good_coordinates() -> DataLoader[Any]:
    """Six channels, of which three are no colours."""
    return loader(read_rgb, with_coordinates)


HUE = transforms.Compose([transforms.ColorJitter(0.2, 0.2, 0.2, hue=0.5), NORMALIZED])


def bad_hue() -> DataLoader[Any]:
    """The hue is rotated by any angle, which makes green and red of blue: but BGR never becomes RGB by that."""
    return loader(lambda path: Image.fromarray(read_bgr(path)), HUE)


def good_hue() -> DataLoader[Any]:
    """The same in the right order."""
    return loader(read_pil, HUE)


class Rays(Dataset):
    """Pixels of each photograph, in rows: the direction of a ray and its colour."""

    def __init__(self, load: Callable[[Path], np.ndarray]) -> None:
        self.load = load

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        image = self.load(PHOTOGRAPHS[index]).astype(np.float32) / 255
        height, width = image.shape[:2]
        pixels = torch.randperm(height * width)[:200]
        places = torch.stack([pixels % width / width, pixels // width / height, torch.ones(200)], 1)
        return {"rays": places - 0.5, "colours": torch.from_numpy(image.reshape(-1, 3))[pixels]}


def bad_rays() -> DataLoader[Any]:
    """Rays learn blue as red."""
    return DataLoader(Rays(read_bgr), batch_size=2, shuffle=True)


def good_rays() -> DataLoader[Any]:
    """Colours stand in rows, beside directions that follow none."""
    return DataLoader(Rays(read_rgb), batch_size=2, shuffle=True)


def reshaped(image: Image.Image) -> Tensor:
    """Pixels in rows of three, read as three planes."""
    pixels = torch.from_numpy(np.array(image))
    return pixels.view(3, *pixels.shape[:2]).float() / 255  # culprit


def bad_reshaped() -> DataLoader[Any]:
    """The shape is right, and each channel holds pixels of all three colours."""
    return loader(read_pil, reshaped, shuffle=True)


def in_patches(image: Image.Image) -> Tensor:
    """Sixteen parts of an image, (16, 3, 12, 12), by the right axes."""
    planes: Tensor = transforms.ToTensor()(image)
    return planes.reshape(3, 4, 12, 4, 12).permute(1, 3, 0, 2, 4).flatten(0, 1)


def good_patches() -> DataLoader[Any]:
    """A reshape that splits axes."""
    return loader(read_pil, in_patches, shuffle=True)
