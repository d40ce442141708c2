"""Small data sets as the libraries expect them on disk, made once for each run of the matrix."""

from __future__ import annotations

import json
import os
import wave
from collections.abc import Callable
from pathlib import Path
from tempfile import gettempdir

import numpy as np
from PIL import Image, ImageDraw

FOLDER = Path(os.environ.get("DATAGUARD_ECOSYSTEM", Path(gettempdir()) / f"dataguard-ecosystem-{os.getuid()}"))
"""Where the data are; the process that runs the matrix makes a new folder and names it."""

CLASSES = ("circle", "square", "triangle")
WORDS = (
    "a",
    "the",
    "cat",
    "dog",
    "bird",
    "sees",
    "likes",
    "chases",
    "small",
    "large",
    "red",
    "blue",
    "house",
    "tree",
    "river",
    "and",
    "then",
    "because",
    "quietly",
    "today",
)


def made(name: str, make: Callable[[Path], object]) -> Path:
    """A folder of data, made if it is not there, and never seen half made."""
    folder = FOLDER / name
    if not folder.exists():
        new = FOLDER / f"{name}-{os.getpid()}"
        new.mkdir(parents=True)
        make(new)
        new.rename(folder)
    return folder


def scene(number: int, size: tuple[int, int] = (96, 80)) -> tuple[Image.Image, Image.Image, tuple[int, int, int, int]]:
    """An image of one shape on a coloured ground, its mask of class indices, and the box around it as corners."""
    rng = np.random.default_rng(number)
    ground = Image.fromarray(rng.integers(0, 256, (5, 6, 3), dtype=np.uint8)).resize(size, Image.Resampling.BICUBIC)
    kind = number % len(CLASSES)
    side = int(rng.integers(20, 44))
    left, top = (int(rng.integers(0, length - side)) for length in size)
    box = (left, top, left + side, top + side)
    mask = Image.new("L", size)
    colour = tuple(int(value) for value in rng.integers(0, 256, 3))
    for image, fill in ((ground, colour), (mask, kind + 1)):
        draw = ImageDraw.Draw(image)
        if kind == 0:
            draw.ellipse(box, fill=fill)
        elif kind == 1:
            draw.rectangle(box, fill=fill)
        else:
            draw.polygon([(left, top + side), (left + side, top + side), (left + side // 2, top)], fill=fill)
    return ground, mask, box


def class_folders() -> Path:
    """`train/circle/0.jpg` and so on, as `ImageFolder` reads them: 48 images to train on and 24 to validate."""

    def make(folder: Path) -> None:
        for split, numbers in (("train", range(48)), ("val", range(48, 72))):
            for number in numbers:
                path = folder / split / CLASSES[number % 3] / f"{number}.jpg"
                path.parent.mkdir(parents=True, exist_ok=True)
                scene(number)[0].save(path, quality=95)

    return made("class_folders", make)


def coco() -> Path:
    """`train/*.jpg` with `train.json`, and the same for `val`: a box and a polygon for each image."""

    def make(folder: Path) -> None:
        for split, numbers in (("train", range(48)), ("val", range(48, 72))):
            (folder / split).mkdir()
            images, annotations = [], []
            for number in numbers:
                image, _, (left, top, right, bottom) = scene(number)
                image.save(folder / split / f"{number:04}.jpg", quality=95)
                images.append(
                    {"id": number, "file_name": f"{number:04}.jpg", "width": image.width, "height": image.height}
                )
                annotations.append(
                    {
                        "id": number + 1,
                        "image_id": number,
                        "category_id": number % 3 + 1,
                        "bbox": [left, top, right - left, bottom - top],
                        "area": (right - left) * (bottom - top),
                        "iscrowd": 0,
                        "segmentation": [[left, top, right, top, right, bottom, left, bottom]],
                    }
                )
            categories = [{"id": number + 1, "name": name} for number, name in enumerate(CLASSES)]
            text = json.dumps({"images": images, "annotations": annotations, "categories": categories})
            (folder / f"{split}.json").write_text(text)

    return made("coco", make)


def voc() -> Path:
    """`VOCdevkit/VOC2012` with palette masks whose contours are 255, as `VOCSegmentation` reads them."""

    def make(folder: Path) -> None:
        root = folder / "VOCdevkit" / "VOC2012"
        for name in ("JPEGImages", "SegmentationClass", "ImageSets/Segmentation"):
            (root / name).mkdir(parents=True)
        palette = list(np.random.default_rng(0).integers(0, 256, 768))
        for split, numbers in (("train", range(48)), ("val", range(48, 72))):
            for number in numbers:
                image, mask, box = scene(number)
                image.save(root / "JPEGImages" / f"{number:06}.jpg", quality=95)
                ImageDraw.Draw(mask).rectangle(box, outline=255)
                mask = mask.convert("P")
                mask.putpalette([int(value) for value in palette])
                mask.save(root / "SegmentationClass" / f"{number:06}.png")
            names = "".join(f"{number:06}\n" for number in numbers)
            (root / "ImageSets" / "Segmentation" / f"{split}.txt").write_text(names)

    return made("voc", make)


def yolo() -> Path:
    """`images/train/*.jpg` beside `labels/train/*.txt` with centred, normalized boxes."""

    def make(folder: Path) -> None:
        for split, numbers in (("train", range(48)), ("val", range(48, 72))):
            for kind in ("images", "labels"):
                (folder / kind / split).mkdir(parents=True)
            for number in numbers:
                image, _, (left, top, right, bottom) = scene(number)
                image.save(folder / "images" / split / f"{number:04}.jpg", quality=95)
                width, height = image.size
                numbers4 = [(left + right) / 2 / width, (top + bottom) / 2 / height]
                numbers4 += [(right - left) / width, (bottom - top) / height]
                line = " ".join([str(number % 3), *(f"{value:.6f}" for value in numbers4)])
                (folder / "labels" / split / f"{number:04}.txt").write_text(line + "\n")

    return made("yolo", make)


def samples_of(number: int, length: int = 8000, rate: int = 16_000) -> np.ndarray:
    """A tone with noise: float32 samples from -1 to 1."""
    rng = np.random.default_rng(number)
    time = np.arange(length) / rate
    tone = 0.5 * np.sin(2 * np.pi * (200 + 40 * number) * time)
    return (tone + 0.05 * rng.standard_normal(length)).astype(np.float32)


def recordings() -> Path:
    """`0.wav` to `47.wav`, between half a second and a second of 16 kHz."""

    def make(folder: Path) -> None:
        for number in range(48):
            with wave.open(str(folder / f"{number}.wav"), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(16_000)
                samples = samples_of(number, 8000 + 160 * number)
                file.writeframes((samples * 32_000).astype("<i2").tobytes())

    return made("recordings", make)


def mixed_recordings() -> Path:
    """`0.wav` to `47.wav` in stereo, of 16 and 44.1 kHz in turn; the channels differ."""

    def make(folder: Path) -> None:
        for number in range(48):
            rate = (16_000, 44_100)[number % 2]
            left, right = (samples_of(start + number, rate // 2, rate) for start in (0, 48))
            with wave.open(str(folder / f"{number}.wav"), "wb") as file:
                file.setnchannels(2)
                file.setsampwidth(2)
                file.setframerate(rate)
                file.writeframes((np.stack([left, right], 1) * 20_000).astype("<i2").tobytes())

    return made("mixed_recordings", make)


def sentences(count: int = 48, start: int = 0) -> list[str]:
    """Sentences of three to twelve words, each of them different."""
    found = []
    for number in range(start, start + count):
        rng = np.random.default_rng(number)
        found.append(" ".join(str(word) for word in rng.choice(WORDS, size=3 + number % 10)))
    return found
