"""Ordinary pairs of splits of many styles, without a sample in common; with `leak=True`, with a few.

Training samples are augmented at random in most of them, so that their contents say nothing.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import h5py
import lmdb
import numpy as np
import pandas as pd
import torch
from datasets import Dataset as ArrowDataset
from PIL import Image
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset, random_split
from torchvision import datasets, transforms
from torchvision.io import ImageReadMode, decode_image

from sample_datasets._parts import scratch, stored
from sample_datasets.dg514_leaked_split import Photographs

ROOT = scratch("split-pairs-")
COUNT, VAL = 90, 30
"""Samples in all, and those for validation."""
AUGMENT = transforms.Compose([transforms.RandomResizedCrop(24), transforms.ToTensor()])
PLAIN = transforms.Compose([transforms.Resize((32, 32)), transforms.ToTensor()])

Loaders = dict[str, DataLoader[Any]]


def pair(train: Dataset, val: Dataset) -> Loaders:
    """A training loader, and one for validation."""
    return {"train": DataLoader(train, batch_size=4, shuffle=True), "val": DataLoader(val, batch_size=4)}


def parts(*, leak: bool) -> tuple[list[int], list[int]]:
    """The numbers of training and validation samples."""
    order = np.random.default_rng(0).permutation(COUNT).tolist()
    return order[VAL:] + (order[:3] if leak else []), order[:VAL]


def pixels(number: int) -> np.ndarray:
    """A picture, other for each number."""
    rng = np.random.default_rng(number)
    coarse = rng.integers(0, 256, (6, 6, 3), np.uint8)
    return np.kron(coarse, np.ones((8, 8, 1), np.uint8))


def image(values: np.ndarray) -> Callable[[Path], None]:
    """Writes a picture."""
    return lambda path: Image.fromarray(values).save(path)


def text_of(text: str) -> Callable[[Path], None]:
    """Writes a text."""

    def write(path: Path) -> None:
        path.write_text(text)

    return write


def picture(number: int, folder: str = "pictures", ending: str = "jpg") -> Path:
    """The file of a picture."""
    path = ROOT / folder / f"p{number:04}.{ending}"
    return stored(path, image(pixels(number)))


def shifted(row: Tensor) -> Tensor:
    """A random part of a row."""
    start = int(torch.randint(0, 9, ()))
    return row[start : start + len(row) - 8]


def image_folders(*, leak: bool) -> Loaders:
    """Two folders of `ImageFolder`."""
    root = ROOT / f"folders{leak}"
    for split, numbers in zip(("train", "val"), parts(leak=leak), strict=True):
        for number in numbers:
            name = root / split / f"class{number % 2}" / f"{split}{number}.png"
            stored(name, image(pixels(number)))
    return pair(datasets.ImageFolder(str(root / "train"), AUGMENT), datasets.ImageFolder(str(root / "val"), PLAIN))


class Listed(Dataset):
    """Names in a table, and their files in a folder, read without Pillow."""

    def __init__(self, numbers: Sequence[int], *, training: bool) -> None:
        self.table = pd.DataFrame({"id": [picture(number).stem for number in numbers], "label": 0})
        self.training = training

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        row = self.table.iloc[index]
        image = decode_image(str(ROOT / "pictures" / f"{row['id']}.jpg"), ImageReadMode.RGB) / 255
        return (transforms.RandomCrop(32)(image) if self.training else image), int(row["label"])


def csv_of_names(*, leak: bool) -> Loaders:
    """A table of names without folders or endings."""
    train, val = parts(leak=leak)
    return pair(Listed(train, training=True), Listed(val, training=False))


class Wrapped(Dataset):
    """A transform around another dataset."""

    def __init__(self, inner: Any, transform: Callable[[Any], Any]) -> None:
        self.inner = inner
        self.transform = transform

    def __len__(self) -> int:
        return len(self.inner)

    def __getitem__(self, index: int) -> Any:
        image, label = self.inner[index]
        return self.transform(image), label


class Drawn(Dataset):
    """Pictures that are made when they are asked for, from nothing but the index."""

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        if not 0 <= index < COUNT:
            raise IndexError(index)
        return Image.fromarray(pixels(index)), index % 3


def random_split_wrapped(*, leak: bool) -> Loaders:
    """`random_split` of one dataset, and a transform around each part."""
    train, val = random_split(Drawn(), [COUNT - VAL, VAL], torch.Generator().manual_seed(0))
    train.indices = [*train.indices, *(val.indices[:3] if leak else [])]
    return pair(Wrapped(train, AUGMENT), Wrapped(val, PLAIN))


def subset_of_two(*, leak: bool) -> Loaders:
    """The same indices into two `ImageFolder`s of one root, with a transform each."""
    root = ROOT / "one"
    for number in range(COUNT):
        name = root / f"class{number % 2}" / f"{number}.png"
        stored(name, image(pixels(number)))
    train, val = parts(leak=leak)
    both = (datasets.ImageFolder(str(root), transform) for transform in (AUGMENT, PLAIN))
    return pair(*(Subset(one, part) for one, part in zip(both, (train, val), strict=True)))


class Fold(Dataset):
    """A part of a list of records, whose numbers only this class knows."""

    def __init__(self, records: Sequence[dict[str, Any]], fold: int, *, training: bool, leak: bool) -> None:
        self.records = records
        self.own = [number for number in range(COUNT) if (number % 5 == fold) != training]
        self.own += [fold, fold + 5] if leak and training else []
        self.training = training

    def __len__(self) -> int:
        return len(self.own)

    def __getitem__(self, index: int) -> tuple[Tensor, float]:
        record = self.records[self.own[index]]
        values = torch.tensor(record["values"])
        return values + (0.1 * torch.randn(len(values)) if self.training else 0), record["label"]


def k_fold(*, leak: bool) -> Loaders:
    """Folds of records in memory, with noise while training."""
    rng = np.random.default_rng(3)
    records = [{"values": rng.normal(size=12).astype(np.float32).tolist(), "label": 0.5} for _ in range(COUNT)]
    return pair(*(Fold(records, 1, training=training, leak=leak) for training in (True, False)))


def sliced_tensors(*, leak: bool) -> Loaders:
    """Slices of tensors."""
    images = torch.rand(COUNT, 3, 12, 12, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(COUNT) % 4
    end = COUNT - VAL
    first = end - 3 if leak else end
    return pair(TensorDataset(images[:end], labels[:end]), TensorDataset(images[first:], labels[first:]))


class Masked(Dataset):
    """Rows of one array in memory, chosen by numbers, and augmented without a transform."""

    def __init__(self, rows: Tensor, chosen: Sequence[int], *, training: bool) -> None:
        self.rows, self.chosen, self.training = rows, np.array(chosen), training

    def __len__(self) -> int:
        return len(self.chosen)

    def __getitem__(self, index: int) -> Tensor:
        row = self.rows[self.chosen[index]]
        return shifted(row) if self.training else row[4:-4]


def rows_by_number(*, leak: bool) -> Loaders:
    """Rows of one array, which each split chooses by numbers and shifts."""
    rows = torch.randn(COUNT, 80, generator=torch.Generator().manual_seed(4))
    train, val = parts(leak=leak)
    return pair(Masked(rows, train, training=True), Masked(rows, val, training=False))


class Hdf5(Dataset):
    """Rows of an array in a file, by numbers, opened at the first read."""

    def __init__(self, path: Path, chosen: Sequence[int], *, training: bool) -> None:
        self.path, self.chosen, self.training = path, list(chosen), training
        self.file: Any = None

    def __len__(self) -> int:
        return len(self.chosen)

    def __getitem__(self, index: int) -> Tensor:
        self.file = self.file or h5py.File(self.path, "r")
        row = torch.from_numpy(self.file["rows"][self.chosen[index]])
        return shifted(row) if self.training else row[4:-4]


def hdf5_by_number(*, leak: bool) -> Loaders:
    """One HDF5 file, of which each split has a list of numbers."""

    def write(path: Path) -> None:
        with h5py.File(path, "w") as file:
            file["rows"] = np.random.default_rng(5).normal(size=(COUNT, 80)).astype(np.float32)

    path = stored(ROOT / "rows.h5", write)
    train, val = parts(leak=leak)
    return pair(Hdf5(path, train, training=True), Hdf5(path, val, training=False))


class Lmdb(Dataset):
    """Pictures in a key-value store, by numbers from which keys are made."""

    def __init__(self, path: Path, chosen: Sequence[int], transform: Callable[[Any], Tensor]) -> None:
        self.path, self.chosen, self.transform = path, list(chosen), transform
        self.store: Any = None

    def __len__(self) -> int:
        return len(self.chosen)

    def __getitem__(self, index: int) -> Tensor:
        if self.store is None:
            self.store = lmdb.open(str(self.path), readonly=True, lock=False)
        with self.store.begin() as transaction:
            content = transaction.get(f"{self.chosen[index]:08}".encode())
        return self.transform(Image.open(io.BytesIO(content)).convert("RGB"))


def lmdb_keys(*, leak: bool) -> Loaders:
    """One LMDB store with the keys of both splits."""

    def write(path: Path) -> None:
        with lmdb.open(str(path), map_size=1 << 24) as store, store.begin(write=True) as transaction:
            for number in range(COUNT):
                buffer = io.BytesIO()
                Image.fromarray(pixels(number)).save(buffer, "png")
                transaction.put(f"{number:08}".encode(), buffer.getvalue())

    path = stored(ROOT / "pictures.lmdb", write)
    train, val = parts(leak=leak)
    return pair(Lmdb(path, train, AUGMENT), Lmdb(path, val, PLAIN))


class Memmap(Dataset):
    """Rows of a mapped file from one number to another."""

    def __init__(self, path: Path, first: int, last: int, *, training: bool) -> None:
        self.rows = np.load(path, mmap_mode="r")[first:last]
        self.training = training

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Tensor:
        row = torch.from_numpy(np.array(self.rows[index]))
        return shifted(row) if self.training else row[4:-4]


def memmap_rows(*, leak: bool) -> Loaders:
    """One mapped file, of which each split has a slice."""
    rows = np.random.default_rng(6).normal(size=(COUNT, 80)).astype(np.float32)
    path = stored(ROOT / "rows.npy", lambda path: np.save(path, rows))
    end = COUNT - VAL
    return pair(Memmap(path, 0, end, training=True), Memmap(path, end - 3 * leak, COUNT, training=False))


class Arrow(Dataset):
    """Rows of a table of Hugging Face, augmented."""

    def __init__(self, rows: Any, *, training: bool) -> None:
        self.rows, self.training = rows, training

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Tensor:
        row = torch.tensor(self.rows[index]["values"])
        return shifted(row) if self.training else row[4:-4]


def arrow_split(*, leak: bool) -> Loaders:
    """`train_test_split` of a table of Hugging Face."""
    values = np.random.default_rng(7).normal(size=(COUNT, 40)).astype(np.float32).tolist()
    table = ArrowDataset.from_dict({"values": values})
    both = table.train_test_split(VAL, seed=0)
    train = table.train_test_split(VAL, seed=1)["train"] if leak else both["train"]
    return pair(Arrow(train, training=True), Arrow(both["test"], training=False))


def two_list_files(*, leak: bool) -> Loaders:
    """A text file of paths for each split."""
    lists = []
    for split, numbers in zip(("train", "val"), parts(leak=leak), strict=True):
        text = "\n".join(str(picture(number)) for number in numbers)
        path = stored(ROOT / f"list-{split}{leak}.txt", text_of(text))
        lists.append([Path(line) for line in path.read_text().splitlines()])
    return pair(Photographs(lists[0], AUGMENT), Photographs(lists[1], PLAIN))


class Lines(Dataset):
    """Texts, one in a file."""

    def __init__(self, root: Path, numbers: Sequence[int], *, training: bool) -> None:
        self.files = [root / f"{number}.txt" for number in numbers]
        self.training = training

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Tensor:
        codes = torch.tensor(list(self.files[index].read_bytes()))
        return shifted(codes) if self.training else codes[4:-4]


def text_files(*, leak: bool) -> Loaders:
    """A file for each text, of which a random part is used."""
    root = ROOT / "texts"
    for number in range(COUNT):
        letters = np.random.default_rng(number).integers(97, 123, 90, np.uint8)
        stored(root / f"{number}.txt", text_of(letters.tobytes().decode()))
    train, val = parts(leak=leak)
    return pair(Lines(root, train, training=True), Lines(root, val, training=False))


class Frames(Dataset):
    """Clips of the frames in a folder."""

    def __init__(self, folders: Sequence[Path], *, training: bool) -> None:
        self.folders = [str(folder) for folder in folders]
        self.training = training

    def __len__(self) -> int:
        return len(self.folders)

    def __getitem__(self, index: int) -> Tensor:
        files = sorted(Path(self.folders[index]).glob("*.png"))
        start = int(torch.randint(0, len(files) - 3, ())) if self.training else 2
        return torch.stack([transforms.ToTensor()(Image.open(file).convert("RGB")) for file in files[start:][:4]])


def video_folders(*, leak: bool) -> Loaders:
    """A folder of frames for each video, of which some in a row are used."""
    folders = []
    for number in range(20):
        folders.append(ROOT / "videos" / f"v{number:02}")
        for frame in range(9):
            values = np.roll(pixels(number), 3 * frame, axis=1)[:24, :24]
            stored(folders[-1] / f"{frame}.png", image(values))
    return pair(Frames(folders[: 16 if leak else 14], training=True), Frames(folders[14:], training=False))


class Zipped(Dataset):
    """Members of an archive by name."""

    def __init__(self, path: Path, numbers: Sequence[int], transform: Callable[[Any], Tensor]) -> None:
        self.path = path
        self.names = [f"images/{number}.png" for number in numbers]
        self.transform = transform

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Tensor:
        with zipfile.ZipFile(self.path) as archive, archive.open(self.names[index]) as file:
            return self.transform(Image.open(io.BytesIO(file.read())).convert("RGB"))


def zip_members(*, leak: bool) -> Loaders:
    """Members of one archive."""

    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            for number in range(COUNT):
                archive.write(picture(number, "zipped", "png"), f"images/{number}.png")

    path = stored(ROOT / "images.zip", write)
    train, val = parts(leak=leak)
    return pair(Zipped(path, train, AUGMENT), Zipped(path, val, PLAIN))


class Paired(Dataset):
    """Images and masks by number, from folders of the split, without a list."""

    def __init__(self, numbers: Sequence[int], root: Path, *, training: bool) -> None:
        self.root, self.training, self.count = root, training, len(numbers)
        for place, number in enumerate(numbers):
            for kind in ("image", "mask"):
                values = pixels(number) if kind == "image" else pixels(number)[..., 0] // 128
                stored(root / kind / f"{place}.png", image(values))

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        both = [np.array(Image.open(self.root / kind / f"{index}.png")) for kind in ("image", "mask")]
        left = int(torch.randint(0, 9, ())) if self.training else 4
        image, mask = (torch.from_numpy(one[left : left + 32, :32].copy()) for one in both)
        return image.permute(2, 0, 1) / 255, mask.long()


def numbered_pairs(*, leak: bool) -> Loaders:
    """Images with masks in folders for each split, whose names are numbers; some are copies."""
    train, val = parts(leak=leak)
    root = ROOT / f"pairs{leak}"
    return pair(Paired(train, root / "train", training=True), Paired(val, root / "val", training=False))


class Cached(Dataset):
    """Pictures that are decoded once, and cropped at random."""

    def __init__(self, paths: Sequence[Path], transform: Callable[[Any], Tensor]) -> None:
        self.images = [np.array(Image.open(path).convert("RGB")) for path in paths]
        self.transform = transform

    def __len__(self) -> int:
        return 3 * len(self.images)

    def __getitem__(self, index: int) -> Tensor:
        return self.transform(Image.fromarray(self.images[index % len(self.images)]))


def cached_repeated(*, leak: bool) -> Loaders:
    """Pictures in memory, each of which is in three samples of an epoch."""
    train, val = ([picture(number) for number in part] for part in parts(leak=leak))
    return pair(Cached(train, AUGMENT), Photographs(val, PLAIN))


def joined(*, leak: bool) -> Loaders:
    """Several lists joined for training, one of another form."""
    train, val = ([picture(number) for number in part] for part in parts(leak=leak))
    return pair(
        ConcatDataset([Photographs(train[:20], AUGMENT), Photographs(train[20:], PLAIN)]), Photographs(val, PLAIN)
    )


class Records(Dataset):
    """Rows of a table of text, read by line."""

    def __init__(self, path: Path, *, training: bool) -> None:
        with path.open() as file:
            self.rows = list(csv.reader(file))
        self.training = training

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        *values, label = self.rows[index]
        numbers = torch.tensor([float(value) for value in values])
        return numbers * (1 + 0.1 * torch.rand(()) if self.training else 1), int(label)


def csv_rows(*, leak: bool) -> Loaders:
    """A table of numbers for each split, scaled at random."""
    values = np.random.default_rng(8).normal(size=(COUNT, 6))
    files = []
    for split, numbers in zip(("train", "val"), parts(leak=leak), strict=True):
        text = "".join(",".join([*(f"{one:.4f}" for one in values[number]), "1"]) + "\n" for number in numbers)
        files.append(stored(ROOT / f"rows-{split}{leak}.csv", text_of(text)))
    return pair(Records(files[0], training=True), Records(files[1], training=False))


PAIRS: tuple[Callable[..., Loaders], ...] = (
    image_folders,
    csv_of_names,
    random_split_wrapped,
    subset_of_two,
    k_fold,
    sliced_tensors,
    rows_by_number,
    hdf5_by_number,
    lmdb_keys,
    memmap_rows,
    arrow_split,
    two_list_files,
    text_files,
    video_folders,
    zip_members,
    numbered_pairs,
    cached_repeated,
    joined,
    csv_rows,
)


def every(*, leak: bool) -> Loaders:
    """All of them, as `<name>_train` and `<name>_val`."""
    return {f"{make.__name__}_{split}": one for make in PAIRS for split, one in make(leak=leak).items()}


def some(*, leak: bool) -> Loaders:
    """A few, one for each way in which they are compared."""
    chosen = (csv_of_names, k_fold, hdf5_by_number, lmdb_keys, arrow_split, numbered_pairs, cached_repeated)
    return {f"{make.__name__}_{split}": one for make in chosen for split, one in make(leak=leak).items()}
