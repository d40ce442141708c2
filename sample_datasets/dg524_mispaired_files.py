"""DG524 mispaired-files: the image of one sample with the mask, or the row of a table, of another one."""

from __future__ import annotations

import csv
import json
import random
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from sample_datasets._files import FOLDER, photograph, written

COUNT = 24
NUMBERS = range(1, COUNT + 1)
ROOT = "dg524"


def image_of(number: int, size: int = 24) -> Image.Image:
    """A part of a photograph of its own for each number."""
    left, top = number * 5 % 24, number * 3 % 16
    return photograph(number).crop((left, top, left + 24, top + 24)).resize((size, size))


def mask_of(number: int) -> Image.Image:
    """The bright half of that image, as classes 0 and 1."""
    grey = np.asarray(image_of(number).convert("L"))
    return Image.fromarray((grey > np.median(grey)).astype(np.uint8))


def folder(name: str, names: Sequence[str], make: Callable[[int], Image.Image] = image_of) -> Path:
    """A folder of images with these names, the first of which is number 1."""
    for number, file in enumerate(names, 1):
        written(f"{ROOT}/{name}/{file}", make(number))
    return FOLDER / ROOT / name


def by_number(path: Path) -> int:
    """The number in the name of a file."""
    return int("".join(filter(str.isdigit, path.stem)))


def pixels(path: Path | str) -> Tensor:
    """An image, float32 (3, height, width)."""
    with Image.open(path) as image:
        return torch.from_numpy(np.asarray(image.convert("RGB")).copy()).permute(2, 0, 1) / 255


def classes(path: Path | str) -> Tensor:
    """A mask, int64 (height, width)."""
    with Image.open(path) as image:
        return torch.from_numpy(np.asarray(image).astype(np.int64))


class Pairs(Dataset[Any]):
    """Two files for each sample, which two functions load."""

    def __init__(self, one: Sequence[Any], other: Sequence[Any], *loads: Callable[[Any], Any]) -> None:
        self.pairs = list(zip(one, other, strict=False))
        self.loads = loads or (pixels, classes)

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> Any:
        return tuple(load(path) for load, path in zip(self.loads, self.pairs[index], strict=True))


def loader(one: Sequence[Any], other: Sequence[Any], *loads: Callable[[Any], Any]) -> DataLoader[Any]:
    """Batches of four pairs."""
    return DataLoader(Pairs(one, other, *loads), batch_size=4)


def segmentation() -> tuple[Path, Path]:
    """Folders of images and masks, `7.png` and `7_mask.png`."""
    images = folder("segmentation/images", [f"{number}.png" for number in NUMBERS])
    return images, folder("segmentation/masks", [f"{number}_mask.png" for number in NUMBERS], mask_of)


def bad() -> DataLoader[Any]:
    """Images are sorted by number and masks as text."""
    images, masks = segmentation()
    return loader(sorted(images.glob("*.png"), key=by_number), sorted(masks.glob("*.png")))  # culprit


def bad_missing() -> DataLoader[Any]:
    """One clean recording is missing, and all that follow it are shifted."""
    noisy = folder("denoising/noisy", [f"p{226 + number // 9}_{number:03}.png" for number in NUMBERS])
    names = [f"p{226 + number // 9}_{number:03}.png" for number in NUMBERS]
    clean = folder("denoising/clean", names)
    (clean / names[6]).unlink(missing_ok=True)
    return loader(sorted(noisy.glob("*")), sorted(clean.glob("*")), pixels, pixels)  # culprit


def bad_scales() -> DataLoader[Any]:
    """Super-resolution: low resolution `07x2.png` is read backwards, and high resolution `07.png` is not."""
    high = folder("super/HR", [f"{number:04}.png" for number in NUMBERS])
    low = folder("super/LR/X2", [f"{number:04}x2.png" for number in NUMBERS], lambda number: image_of(number, 12))
    return loader(sorted(low.iterdir(), reverse=True), sorted(high.iterdir()), pixels, pixels)  # culprit


def bad_episodes() -> DataLoader[Any]:
    """Left views of one episode with right views of the next: folders are in two orders."""
    names = [f"episode_{episode}/SIDE/{frame:04}.png" for episode in range(9, 13) for frame in range(6)]
    root = folder("stereo", [name.replace("SIDE", "left") for name in names])
    folder("stereo", [name.replace("SIDE", "right") for name in names])
    left = sorted(root.glob("*/left/*.png"))  # culprit
    right = sorted(root.glob("*/right/*.png"), key=lambda path: (by_number(path.parents[1]), path.name))  # culprit
    return loader(left, right, pixels, pixels)


def bad_annotations() -> DataLoader[Any]:
    """JPEG images and JSON annotations in one folder, which is sorted by two keys."""
    names = [f"dog-{number * 7}" for number in NUMBERS]
    root = folder("annotated", [f"{name}.jpg" for name in names])
    for name in names:
        (root / f"{name}.json").write_text(json.dumps({"box": [by_number(Path(name)) % 20, 3, 20, 21]}))
    boxes = lambda path: torch.tensor(json.loads(path.read_text())["box"], dtype=torch.float32)  # noqa: E731
    return loader(sorted(root.glob("*.jpg"), key=by_number), sorted(root.glob("*.json")), pixels, boxes)  # culprit


def driving() -> tuple[Path, list[tuple[str, str]]]:
    """A folder of images, and rows of a log, not in the order of their names: one for each image, two without angle."""
    names = [f"{number:03}.png" for number in NUMBERS]
    root = folder("driving", names)
    log = root / "log.csv"
    if not log.exists():
        rows = [(names[n * 7 % COUNT], "" if n in (3, 9) else f"{n * 11 % 50 / 10 - 2.5:.2f}") for n in range(COUNT)]
        log.write_text("".join(f"{name},{angle}\n" for name, angle in rows))
    with log.open(newline="") as file:
        return root, [(name, angle) for name, angle in csv.reader(file)]


def angle_of(text: str) -> Tensor:
    """The angle of a row."""
    return torch.tensor(float(text))


def bad_table_order() -> DataLoader[Any]:
    """Images in the order of their names, and angles in that of the rows."""
    root, rows = driving()
    named = sorted(root / name for name, angle in rows if angle)  # culprit
    return loader(named, [angle for _, angle in rows if angle], pixels, angle_of)  # culprit


def bad_dropped_rows() -> DataLoader[Any]:
    """Rows without an angle are left out of the angles, and not of the images: what follows is shifted."""
    root, rows = driving()
    angles = [angle for _, angle in rows if angle]  # culprit
    return loader([root / name for name, _ in rows], angles, pixels, angle_of)  # culprit


class Member:
    """A member of an archive that is opened when it is read."""

    def __init__(self, archive: Path, name: str) -> None:
        self.archive = archive
        self.name = name

    def __call__(self, load: Callable[[Any], Any]) -> Any:
        with zipfile.ZipFile(self.archive) as archive, archive.open(self.name) as file:
            return load(file)


def bad_archive() -> DataLoader[Any]:
    """Members of an archive, images as they were added and masks sorted."""
    images, masks = segmentation()
    path = FOLDER / ROOT / "archive.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for part in (images, masks):
            for file in sorted(part.glob("*.png"), key=by_number):
                archive.write(file, f"data/{part.name}/{file.name}")
    names = zipfile.ZipFile(path).namelist()  # culprit
    one = [Member(path, name) for name in names if "images" in name]  # culprit
    other = [Member(path, name) for name in sorted(names) if "masks" in name]  # culprit
    return loader(one, other, lambda member: member(pixels), lambda member: member(classes))


def good() -> DataLoader[Any]:
    """The name of the mask is made of that of the image."""
    images, masks = segmentation()
    paths = sorted(images.glob("*.png"))
    return loader(paths, [masks / f"{path.stem}_mask.png" for path in paths])


def good_counted_from_one() -> DataLoader[Any]:
    """Images count from 0 and masks from 1, all of them, so that both listings have one order."""
    images = folder("counted/images", [f"img_{number - 1:03}.png" for number in NUMBERS])
    masks = folder("counted/masks", [f"mask_{number:03}.png" for number in NUMBERS], mask_of)
    return loader(sorted(images.glob("*")), sorted(masks.glob("*")))


def good_next_frame() -> DataLoader[Any]:
    """The depth of the next frame is to be predicted: each is one further, on purpose."""
    frames = folder("next/rgb", [f"{number:04}.png" for number in NUMBERS])
    depth = folder("next/depth", [f"{number:04}.png" for number in NUMBERS], lambda number: image_of(number, 12))
    return loader(sorted(frames.glob("*"))[:-1], sorted(depth.glob("*"))[1:], pixels, pixels)


def good_unpaired() -> DataLoader[Any]:
    """Two domains for an unpaired translation, some of whose names are equal by chance."""
    horses = folder("unpaired/trainA", [f"n02381460_{number * 37 % 90}.jpg" for number in NUMBERS])
    zebras = folder("unpaired/trainB", [f"n02391049_{number * 53 % 90}.jpg" for number in NUMBERS])
    return loader(sorted(horses.glob("*")), sorted(zebras.glob("*")), pixels, pixels)


def good_table_by_name() -> DataLoader[Any]:
    """Images are sorted, and the angle of each is looked up by its name."""
    root, rows = driving()
    angles = {name: angle for name, angle in rows if angle}
    return loader([root / name for name in sorted(angles)], [angles[name] for name in sorted(angles)], pixels, angle_of)


def good_next_angle() -> DataLoader[Any]:
    """The angle in the next row is to be predicted."""
    root, rows = driving()
    known = [row for row in rows if row[1]]
    return loader([root / name for name, _ in known[:-1]], [angle for _, angle in known[1:]], pixels, angle_of)


class Negatives(Pairs):
    """A pair, and the other file of another pair that is drawn anew."""

    def __getitem__(self, index: int) -> Any:
        anchor, positive = super().__getitem__(index)
        return anchor, positive, pixels(str(random.choice(self.pairs)[1]).replace("right", "negative"))


def good_negatives() -> DataLoader[Any]:
    """Negatives are drawn from a folder of their own, whose names are those of the others."""
    sides = [folder(f"triplets/{side}", [f"{number:03}.png" for number in NUMBERS]) for side in ("left", "right")]
    folder("triplets/negative", [f"{number:03}.png" for number in NUMBERS])
    one, other = (sorted(side.glob("*")) for side in sides)
    return DataLoader(Negatives(one, other, pixels, pixels), batch_size=4)


def good_verification() -> DataLoader[Any]:
    """Pairs of images of one folder, which a table lists: each file is in several."""
    root = folder("verification", [f"person_{number:03}.png" for number in NUMBERS])
    table = root.parent / "pairs.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows((f"person_{n:03}.png", f"person_{n * 5 % 24 + 1:03}.png") for n in NUMBERS)
    rows = list(csv.reader(table.open()))
    return loader([root / one for one, _ in rows], [root / other for _, other in rows], pixels, pixels)


def good_modalities() -> DataLoader[Any]:
    """Two modalities `case_07_0000.png` and `case_07_0001.png` in one folder."""
    names = [f"case_{number:02}_000{channel}.png" for number in NUMBERS for channel in (0, 1)]
    root = folder("modalities", names)
    paths = sorted(root.glob("*"))
    return loader(paths[::2], paths[1::2], pixels, pixels)


def good_cross_pairs() -> DataLoader[Any]:
    """Each fixed image is registered with several moving ones: all pairs are meant."""
    fixed = folder("registration/fixed", [f"{number:02}.png" for number in range(1, 9)])
    moving = folder("registration/moving", [f"{number:02}.png" for number in range(1, 9)])
    pairs = [(one, other) for one in sorted(fixed.glob("*")) for other in sorted(moving.glob("*"))]
    return loader([one for one, _ in pairs], [other for _, other in pairs], pixels, pixels)


class Entry:
    """An entry of a database that is opened when it is read."""

    def __init__(self, path: Path, key: str) -> None:
        self.path = path
        self.key = key

    def __call__(self, load: Callable[[Any], Any]) -> Any:
        import io

        import lmdb

        with lmdb.open(str(self.path), subdir=False, readonly=True, lock=False) as database:
            return load(io.BytesIO(database.begin().get(self.key.encode()) or b""))


def write_entries(path: Path) -> None:
    """All images and masks as entries of a database."""
    import io

    import lmdb

    with lmdb.open(str(path), subdir=False, lock=False) as database, database.begin(write=True) as transaction:
        for part, make in (("image", image_of), ("mask", mask_of)):
            for number in NUMBERS:
                content = io.BytesIO()
                make(number).save(content, "PNG")
                transaction.put(f"{part}-{number}".encode(), content.getvalue())


def entries(images: Sequence[int], masks: Sequence[int]) -> DataLoader[Any]:
    """The images and masks with these numbers, from a database."""
    from sample_datasets._parts import stored

    path = stored(FOLDER / ROOT / "entries.lmdb", write_entries)
    listed = (("image", images), ("mask", masks))
    one, other = ([Entry(path, f"{part}-{n}") for n in numbers] for part, numbers in listed)  # culprit
    return loader(one, other, lambda entry: entry(pixels), lambda entry: entry(classes))


def bad_entries() -> DataLoader[Any]:
    """Keys of images in the order of the database, which sorts them as text, and keys of masks by number."""
    return entries(sorted(NUMBERS, key=str), NUMBERS)


def good_entries() -> DataLoader[Any]:
    """Both in the order of the database."""
    return entries(sorted(NUMBERS, key=str), sorted(NUMBERS, key=str))


def good_next_entries() -> DataLoader[Any]:
    """The mask of the next image is to be predicted."""
    return entries(NUMBERS[:-1], NUMBERS[1:])
