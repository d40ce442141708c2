"""Loaders whose colours are known: each read in another way, all of them normalized by ImageNet's statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset
from torchvision import transforms
from torchvision.io import ImageReadMode, read_image
from torchvision.transforms import v2

from sample_datasets import _files as files
from sample_datasets._parts import PHOTOGRAPHS
from sample_datasets.dg505_swapped_channels import MEAN, NORMALIZED, STD, loader, read_bgr, read_pil, read_rgb


def v1() -> DataLoader[Any]:
    augment = [transforms.RandomResizedCrop(40), transforms.RandomHorizontalFlip(), transforms.RandomRotation(15)]
    return loader(read_pil, transforms.Compose([*augment, transforms.ColorJitter(0.1, 0.1, 0.1), NORMALIZED]))


def v2_tensors() -> DataLoader[Any]:
    augment = [v2.ToImage(), v2.RandomResizedCrop(40, antialias=True), v2.RandomRotation(15), v2.ColorJitter(0.1, 0.1)]
    scale = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD), v2.RandomErasing()]
    return loader(read_pil, v2.Compose([*augment, *scale]))


def albumentations() -> DataLoader[Any]:
    import albumentations as A

    augment = A.Compose(
        [
            A.RandomCrop(40, 40),
            A.HorizontalFlip(),
            A.Rotate(15),
            A.ColorJitter((0.9, 1.1), hue=(-0.05, 0.05), p=0.8),
            A.Normalize(),
        ]
    )
    return loader(read_rgb, lambda image: torch.from_numpy(augment(image=image)["image"]).permute(2, 0, 1))


def by_hand() -> DataLoader[Any]:
    def normalize(image: np.ndarray) -> Tensor:
        scaled = (image[4:44, 4:44, ::-1].astype(np.float32) / 255 - MEAN[::-1]) / STD[::-1]
        return torch.from_numpy(np.flip(scaled, axis=1).copy().astype(np.float32))

    return loader(read_rgb, normalize)


def swapped_and_divided() -> DataLoader[Any]:
    """BGR, divided by 255 twice, and then normalized."""

    def normalize(image: np.ndarray) -> Tensor:
        scaled = torch.from_numpy(image.astype(np.float32) / 255).permute(2, 0, 1) / 255
        normalized: Tensor = transforms.Normalize(MEAN, STD)(scaled)
        return normalized

    return loader(read_bgr, normalize)


def jpeg() -> DataLoader[Any]:
    from simplejpeg import decode_jpeg

    paths = [files.written(f"plain{number}.jpg", files.photograph(number)) for number in range(12)]
    return files.loader(paths, lambda path: NORMALIZED(decode_jpeg(path.read_bytes())))


class Stream(IterableDataset):
    """Photographs out of bytes, one after the other."""

    def __iter__(self) -> Iterator[tuple[Tensor, str]]:
        for path in PHOTOGRAPHS:
            image = Image.open(BytesIO(path.read_bytes()))
            yield NORMALIZED(image.convert("RGB").resize((48, 48))), path.stem


def stream() -> DataLoader[Any]:
    return DataLoader(Stream(), batch_size=4)


class Small(Dataset):
    """Arrays in memory, as CIFAR keeps them, with or without Pillow between."""

    def __init__(self, *, pillow: bool) -> None:
        self.pillow = pillow
        self.images = np.random.default_rng(0).integers(0, 256, (len(PHOTOGRAPHS), 16, 16, 3), np.uint8)
        self.transform = NORMALIZED

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Tensor:
        image: Tensor = self.transform(Image.fromarray(self.images[index]) if self.pillow else self.images[index])
        return image


def in_memory() -> DataLoader[Any]:
    return DataLoader(Small(pillow=True), batch_size=4)


def wrapped() -> DataLoader[Any]:
    return DataLoader(ConcatDataset([Subset(Small(pillow=False), range(12))]), batch_size=4)


class Floats(Dataset):
    """Bytes that are kept as floating point numbers, channels first."""

    def __init__(self) -> None:
        pixels = np.random.default_rng(0).integers(0, 256, (len(PHOTOGRAPHS), 3, 16, 16), np.uint8)
        self.images = torch.from_numpy(pixels).float()
        self.transform = transforms.Compose([transforms.Lambda(lambda image: image / 255), NORMALIZED.transforms[1]])

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Tensor:
        image: Tensor = self.transform(self.images[index])
        return image


def floats() -> DataLoader[Any]:
    return DataLoader(Floats(), batch_size=4)


class Kept(Dataset):
    """Images that OpenCV decoded while the dataset was made."""

    def __init__(self) -> None:
        self.images = [NORMALIZED(read_rgb(path)) for path in PHOTOGRAPHS]

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        return self.images[index]


def kept() -> DataLoader[Any]:
    return DataLoader(Kept(), batch_size=4)


class Film(Dataset):
    """Frames of a film, each of which is looked for anew."""

    def __init__(self) -> None:
        self.path = str(files.FOLDER / "film.avi")
        files.FOLDER.mkdir(parents=True, exist_ok=True)
        writer = cv2.VideoWriter(self.path, cv2.VideoWriter.fourcc(*"MJPG"), 10, (48, 48))
        for path in PHOTOGRAPHS:
            writer.write(read_bgr(path))
        writer.release()

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    def __getitem__(self, index: int) -> Tensor:
        film = cv2.VideoCapture(self.path)
        film.set(cv2.CAP_PROP_POS_FRAMES, index)
        frame: Tensor = NORMALIZED(np.ascontiguousarray(film.read()[1][..., ::-1]))
        return frame


def film() -> DataLoader[Any]:
    return DataLoader(Film(), batch_size=4)


class Clips(Dataset):
    """The first frame of a film for each sample, as `frame_of` takes it out of what PyAV has opened."""

    def __init__(self, frame_of: Callable[[Any], Any]) -> None:
        import av

        self.frame_of = frame_of
        self.paths = [files.FOLDER / f"clip{number}.mp4" for number in range(len(PHOTOGRAPHS))]
        for path, photograph in zip(self.paths, PHOTOGRAPHS, strict=True):
            with av.open(str(path), "w") as container:
                stream = container.add_stream("mpeg4", rate=10, width=48, height=48, pix_fmt="yuv420p")
                frame = av.VideoFrame.from_ndarray(read_rgb(photograph), format="rgb24")
                container.mux([*stream.encode(frame), *stream.encode()])

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Tensor:
        import av

        with av.open(str(self.paths[index])) as container:
            frame: Tensor = NORMALIZED(self.frame_of(container))
            return frame


def clips() -> DataLoader[Any]:
    return DataLoader(Clips(lambda film: next(film.decode(video=0)).to_ndarray(format="rgb24")), batch_size=4)


def clips_of_images() -> DataLoader[Any]:
    return DataLoader(Clips(lambda film: next(film.decode(film.streams.video[0])).to_image()), batch_size=4)


def clips_of_packets() -> DataLoader[Any]:
    """Blue first, and turned."""

    def frame_of(film: Any) -> np.ndarray:
        frames = (frame for packet in film.demux(video=0) for frame in packet.decode())
        pixels: np.ndarray = next(frames).reformat(width=40, format="bgr24").to_ndarray()
        return pixels[..., ::-1].copy()

    return DataLoader(Clips(frame_of), batch_size=4)


def by_skimage() -> DataLoader[Any]:
    from skimage.io import imread
    from skimage.transform import resize

    return loader(imread, lambda image: NORMALIZED(resize(image, (40, 40)).astype(np.float32)))


def by_imageio() -> DataLoader[Any]:
    from imageio.v3 import imread

    return loader(imread, lambda image: NORMALIZED(image[:40, :40]))


def by_tifffile() -> DataLoader[Any]:
    import tifffile

    paths = [files.written(f"plain{number}.tiff", files.photograph(number)) for number in range(12)]
    return files.loader(paths, lambda path: NORMALIZED(tifffile.imread(path)))


class Cached(Dataset):
    """Keeps every image that was read."""

    def __init__(self) -> None:
        self.kept: dict[int, Tensor] = {}

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    def __getitem__(self, index: int) -> Tensor:
        if index not in self.kept:
            self.kept[index] = NORMALIZED(read_pil(PHOTOGRAPHS[index]))
        return self.kept[index]


def cached() -> DataLoader[Any]:
    return DataLoader(Cached(), batch_size=4)


def raw_floats() -> DataLoader[Any]:
    return loader(read_pil, lambda image: torch.from_numpy(np.array(image, np.float32)))


def read_palette(path: Path) -> Image.Image:
    """A mask of numbered classes, as PASCAL VOC keeps them."""
    classes = np.full((48, 48), len(path.stem), np.uint8)
    classes[8:16, 8:16] = PHOTOGRAPHS.index(path)
    written = BytesIO()
    Image.fromarray(classes).convert("P").save(written, "PNG")
    return Image.open(BytesIO(written.getvalue()))


def palettes() -> DataLoader[Any]:
    return loader(read_palette, transforms.PILToTensor())


def read_file() -> DataLoader[Any]:
    augment = v2.Compose(
        [
            v2.RandomResizedCrop(40, scale=(0.5, 1.0), antialias=True),
            v2.RandomRotation(30, fill=114),
            v2.RandomVerticalFlip(),
            v2.ColorJitter(0.1, 0.1, 0.1, 0.02),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    )
    return loader(lambda path: read_image(str(path), ImageReadMode.RGB), augment)


def v1_filled() -> DataLoader[Any]:
    augment = [transforms.Resize((48, 48)), transforms.RandomRotation(45, fill=(124, 116, 104))]
    return loader(read_pil, transforms.Compose([*augment, transforms.RandomAffine(0, (0.1, 0.1)), NORMALIZED]))


def opencv() -> DataLoader[Any]:
    def augment(image: np.ndarray) -> Tensor:
        angle, bright = np.random.uniform(-20, 20), np.random.uniform(0.9, 1.1)
        turn = cv2.getRotationMatrix2D((24, 24), angle, 1)
        turned = cv2.warpAffine(image, turn, (48, 48), borderMode=cv2.BORDER_REFLECT)[4:44, 4:44]
        jittered = np.clip(turned.astype(np.float32) * bright, 0, 255)
        pixels = (jittered[..., ::-1] / 255 - np.array(MEAN)) / np.array(STD)
        return torch.from_numpy(pixels.transpose(2, 0, 1).astype(np.float32))

    return loader(read_bgr, augment)


def batched() -> DataLoader[Any]:
    import kornia.augmentation as K

    augment = K.AugmentationSequential(
        K.RandomHorizontalFlip(), K.RandomRotation(15.0), K.ColorJiggle(0.1, 0.1, 0.1), K.Normalize(MEAN, STD)
    )

    def collate(samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
        return augment(torch.stack([image for image, _ in samples])), torch.tensor([label for _, label in samples])

    return loader(read_pil, transforms.ToTensor(), collate_fn=collate)


def with_alpha() -> DataLoader[Any]:
    normalize = transforms.Normalize((*MEAN, 0.5), (*STD, 0.5))
    return loader(lambda path: read_pil(path).convert("RGBA"), transforms.Compose([transforms.ToTensor(), normalize]))


def rows_and_columns() -> DataLoader[Any]:
    return loader(read_rgb, lambda image: torch.from_numpy((image[8:40] / 255 - MEAN) / STD).float())


def mixed() -> DataLoader[Any]:
    def mix(samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
        images = torch.stack([image for image, _ in samples])
        share = np.random.beta(0.4, 0.4)
        return share * images + (1 - share) * images.flip(0), torch.tensor([label for _, label in samples])

    return loader(read_pil, NORMALIZED, collate_fn=mix)


class Mosaic(Dataset):
    """Four photographs in one, of which three are drawn at random, on a grey ground."""

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    def __getitem__(self, index: int) -> Tensor:
        canvas = np.full((96, 96, 3), 114, np.uint8)
        for number, chosen in enumerate([index, *np.random.randint(0, len(self), 3)]):
            row, column = divmod(number, 2)
            height, width = np.random.randint(30, 48, 2)
            image = cv2.resize(read_rgb(PHOTOGRAPHS[chosen]), (int(width), int(height)))
            canvas[48 * row : 48 * row + height, 48 * column : 48 * column + width] = image
        tensor: Tensor = NORMALIZED(canvas)
        return tensor


def mosaic() -> DataLoader[Any]:
    return DataLoader(Mosaic(), batch_size=4)


def grey() -> DataLoader[Any]:
    """Grey files, cropped, flipped and normalized as MNIST is."""
    augment = [transforms.RandomCrop(32), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
    normalize = transforms.Normalize((0.1307,), (0.3081,))
    paths = [files.written(f"grey/{number}.png", files.photograph(number).convert("L")) for number in range(12)]
    return files.loader(paths, lambda path: transforms.Compose([*augment, normalize])(Image.open(path)))


class Bands(Dataset):
    """Satellite images of six bands and 16 bits, held in memory."""

    def __init__(self, transform: Any) -> None:
        self.images = np.random.default_rng(0).integers(0, 10_000, (12, 32, 32, 6)).astype(np.uint16)
        self.transform = transform

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Tensor:
        image: Tensor = self.transform(self.images[index])
        return image


def bands() -> DataLoader[Any]:
    def scale(image: np.ndarray) -> Tensor:
        return (torch.from_numpy(image.astype(np.float32) / 65535).permute(2, 0, 1) - 0.5) / 0.5

    return DataLoader(Bands(scale), batch_size=4)
