"""DG514 leaked-split: samples of the training data are in the validation data as well."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    Dataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    random_split,
)
from torchvision import datasets, transforms

from sample_datasets._parts import PHOTOGRAPHS, scratch, stored

Loaders = dict[str, DataLoader[Any]]
AUGMENT = transforms.Compose(
    [transforms.RandomResizedCrop(24), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
)
PLAIN = transforms.Compose([transforms.Resize((24, 24)), transforms.ToTensor()])


ROOT = scratch("dg514-")


def copied(name: str, train: Sequence[Path], val: Sequence[Path], names: str = "{split}-{number:03}") -> Path:
    """A folder for each split, with a folder for each class, as `ImageFolder` wants them."""
    for split, paths in (("train", train), ("val", val)):
        for number, path in enumerate(paths):
            own = names.format(split=split, number=number) + path.suffix
            target = ROOT / name / split / path.parent.name / own
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)
    return ROOT / name


def pair(train: Dataset, val: Dataset) -> Loaders:
    """A training loader, and one for validation."""
    return {"train": DataLoader(train, batch_size=4, shuffle=True), "val": DataLoader(val, batch_size=4)}


def folders(name: str, train: Sequence[Path], val: Sequence[Path], **options: Any) -> Loaders:
    """Two `ImageFolder`s, one of them augmented."""
    root = copied(name, train, val, **options)
    augmented = datasets.ImageFolder(str(root / "train"), AUGMENT)
    return pair(augmented, datasets.ImageFolder(str(root / "val"), PLAIN))  # culprit


def bad() -> Loaders:
    """Some files were copied into both folders, under other names."""
    return folders("copies", PHOTOGRAPHS[::2], PHOTOGRAPHS[1::2] + PHOTOGRAPHS[:4:2])  # culprit


def good_saved_anew() -> Loaders:
    """Validation holds photographs of the training data that were scaled and compressed: a note tells how many."""
    kept = ROOT / "anew"
    for path in PHOTOGRAPHS[:3]:
        with Image.open(path) as image:
            small = image.convert("RGB").resize((64, 64))
        stored(kept / f"{path.stem}.jpg", partial(small.save, quality=60))
    anew = sorted(kept.glob("*.jpg"))
    return pair(Photographs(PHOTOGRAPHS[:14], AUGMENT), Photographs([*PHOTOGRAPHS[14:], *anew], PLAIN))


def bad_split_twice() -> Loaders:
    """The split is drawn twice, and with no common seed, so that each loader has one of its own."""
    train = datasets.ImageFolder(str(PHOTOGRAPHS[0].parents[1]), AUGMENT)
    val = datasets.ImageFolder(str(PHOTOGRAPHS[0].parents[1]), PLAIN)
    first, _ = random_split(train, [16, len(train) - 16], generator=torch.Generator().manual_seed(1))  # culprit
    _, second = random_split(val, [16, len(val) - 16], generator=torch.Generator().manual_seed(2))  # culprit
    return pair(first, second)


def bad_overlap() -> Loaders:
    """The training data end at sample 90, and the validation data begin at sample 80."""
    images = torch.rand(120, 3, 12, 12, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(120) % 4
    return pair(TensorDataset(images[:90], labels[:90]), TensorDataset(images[80:], labels[80:]))  # culprit


def bad_rows() -> Loaders:
    """Rows of eight numbers, shuffled for training and not for validation."""
    rows = torch.randn(90, 8, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(90) % 3
    order = torch.randperm(90, generator=torch.Generator().manual_seed(1)).tolist()
    data = TensorDataset(rows, labels)
    return pair(Subset(data, order[20:]), Subset(data, range(20)))  # culprit


class Photographs(Dataset):
    """Photographs by their paths."""

    def __init__(self, paths: Sequence[Path], transform: Callable[[Any], Tensor]) -> None:
        self.paths = list(paths)
        self.transform = transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Tensor:
        return self.transform(Image.open(self.paths[range(len(self))[index]]).convert("RGB"))


def bad_listed_twice() -> Loaders:
    """A path stands in both lists."""
    return pair(Photographs(PHOTOGRAPHS[:16], AUGMENT), Photographs(PHOTOGRAPHS[15:], PLAIN))  # culprit


class Reader:
    """Opens files by number, as timm's readers do."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.samples = [(str(path), 0) for path in paths]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Image.Image:
        return Image.open(self.samples[index][0]).convert("RGB")


class Opened(Dataset):
    """Photographs whose paths only a reader has."""

    def __init__(self, paths: Sequence[Path], transform: Callable[[Any], Tensor]) -> None:
        self.reader = Reader(paths)
        self.transform = transform

    def __len__(self) -> int:
        return len(self.reader)

    def __getitem__(self, index: int) -> Tensor:
        return self.transform(self.reader[range(len(self))[index]])


def bad_reader() -> Loaders:
    """A file is in the lists of both readers."""
    return pair(Opened(PHOTOGRAPHS[:16], AUGMENT), Opened(PHOTOGRAPHS[15:], PLAIN))  # culprit


def good_reader() -> Loaders:
    """The readers have no file in common."""
    return pair(Opened(PHOTOGRAPHS[:16], AUGMENT), Opened(PHOTOGRAPHS[16:], PLAIN))


class Record:
    """A photograph in a catalogue."""

    def __init__(self, path: Path) -> None:
        self.image: dict[str, Any] = {"path": path, "size": (48, 40)}
        self.rating = 3


class Catalogue(Dataset):
    """Photographs by records, which hold paths some levels down."""

    def __init__(self, paths: Sequence[Path], transform: Callable[[Any], Tensor]) -> None:
        self.records = [Record(path) for path in paths]
        self.transform = transform

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> Tensor:
        return self.transform(Image.open(self.records[range(len(self))[index]].image["path"]).convert("RGB"))


def bad_records_of_files() -> Loaders:
    """A file is in the records of both splits."""
    return pair(Catalogue(PHOTOGRAPHS[:16], AUGMENT), Catalogue(PHOTOGRAPHS[15:], PLAIN))  # culprit


def good_records_of_files() -> Loaders:
    """The records have no file in common."""
    return pair(Catalogue(PHOTOGRAPHS[:16], AUGMENT), Catalogue(PHOTOGRAPHS[16:], PLAIN))


class Flipped(Dataset):
    """Photographs that are augmented by hand, where nothing but the code of `__getitem__` tells it."""

    def __init__(self, paths: Sequence[Path], *, training: bool) -> None:
        self.paths = list(paths)
        self.training = training

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Tensor:
        with Image.open(self.paths[range(len(self))[index]]) as image:
            pixels = torch.from_numpy(np.array(image.convert("RGB").resize((24, 24)))).permute(2, 0, 1)
        return pixels.flip(-1) if self.training and torch.rand(()) < 0.5 else pixels


def bad_flipped() -> Loaders:
    """Three photographs are in both lists."""
    return pair(Flipped(PHOTOGRAPHS[:14], training=True), Flipped(PHOTOGRAPHS[11:], training=False))  # culprit


class Records(Dataset):
    """Records of one large file, read by their numbers, which nothing else tells apart."""

    def __init__(self, numbers: range) -> None:
        values = np.random.default_rng(5).normal(size=(100, 64)).astype(np.float32)
        self.path = stored(ROOT / "records.npy", partial(np.save, arr=values))
        self.first, self.count = numbers.start, len(numbers)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Tensor:
        rows = np.load(self.path, mmap_mode="r")
        return torch.from_numpy(np.array(rows[self.first + range(len(self))[index]]))


def bad_records() -> Loaders:
    """Ten records are read by both."""
    return pair(Records(range(70)), Records(range(60, 100)))  # culprit


def balanced(seed: int, count: int, width: int) -> Loaders:
    """Rows, of which those of the rarer class are repeated until both are as many; a quarter is split off then."""
    rng = np.random.default_rng(seed)
    rows, kinds = rng.normal(size=(count, width)).astype(np.float32), np.arange(count) % 6 == 0
    order = rng.permutation(np.concatenate([np.flatnonzero(~kinds), np.repeat(np.flatnonzero(kinds), 5)]))  # culprit
    data = TensorDataset(torch.from_numpy(rows[order]), torch.from_numpy(kinds[order]).long())
    first = len(data) * 3 // 4
    return pair(Subset(data, range(first)), Subset(data, range(first, len(data))))  # culprit


def bad_balanced() -> Loaders:
    """Rows of the rarer class were repeated until both were as many, and split then."""
    return balanced(8, count=60, width=48)


def bad_balanced_few() -> Loaders:
    """The same with ten measurements in a row: no two of them agree by themselves."""
    return balanced(9, count=120, width=10)


class Reviews(Dataset):
    """Reviews as texts, which a collate_fn may turn into tokens."""

    def __init__(self, numbers: Sequence[int]) -> None:
        letters = [chr(ord("a") + number) for number in range(26)] + [" "] * 6
        self.texts = ["".join(np.random.default_rng(number).choice(letters, 280)) for number in numbers]

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"text": self.texts[index], "label": index % 2}


def bad_reviews() -> Loaders:
    """Two reviews were posted twice."""
    return pair(Reviews(range(30)), Reviews([30, 31, 4, 32, 33, 17, 34, 35]))  # culprit


class Words(Dataset):
    """Words as numbers of their letters: too short for a few equal ones to be more than chance."""

    def __init__(self, words: Sequence[str], width: int) -> None:
        self.words = words
        self.width = width

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        letters = [ord(letter) - ord("a") + 1 for letter in self.words[index]]
        padded = torch.tensor([0, *letters] + [0] * (self.width - len(letters)))
        return padded[:-1], padded[1:]


def words(count: int, letters: str, width: int) -> list[str]:
    """Words of these letters, in any order; those of few letters repeat."""
    rng = np.random.default_rng(0)
    return ["".join(rng.choice([*letters], rng.integers(3, width + 1))) for _ in range(count)]


def bad_words() -> Loaders:
    """Of 400 words for validation 15 are training samples."""
    known = sorted(set(words(4000, "abcdefghijklmnopqrstuvwxyz", 9)))
    return pair(Words(known[: -400 + 15], 9), Words(known[-400:], 9))  # culprit


def good_words() -> Loaders:
    """Words that repeat: many of those for validation are training samples, as many occur twice in one split."""
    known = words(4000, "abcd", 6)
    return pair(Words(known[:-400], 6), Words(known[-400:], 6))


class Answers(Dataset):
    """Rows of few answers, by the number of a person in each split."""

    def __init__(self, count: int, seed: int) -> None:
        self.persons = list(range(1000, 1000 + count))
        self.answers = np.random.default_rng(seed).integers(0, 2, (count, 8)).astype(np.float32)

    def __len__(self) -> int:
        return len(self.persons)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.from_numpy(self.answers[index, 1:]), int(self.answers[index, 0])


def good_answers() -> Loaders:
    """Other persons, who are numbered from the same number on and often give the same answers."""
    return pair(Answers(1500, 0), Answers(300, 1))


def good() -> Loaders:
    """No file stands in both folders."""
    return folders("apart", PHOTOGRAPHS[::2], PHOTOGRAPHS[1::2])


def good_same_names() -> Loaders:
    """Names begin anew in each folder, and the pictures are others."""
    return folders("numbered", PHOTOGRAPHS[::2], PHOTOGRAPHS[1::2], names="{number:03}")


def good_one_split() -> Loaders:
    """One split, drawn once, with transforms of its own for each part."""
    order = torch.randperm(len(PHOTOGRAPHS), generator=torch.Generator().manual_seed(0)).tolist()
    train, val = (Photographs(PHOTOGRAPHS, transform) for transform in (AUGMENT, PLAIN))
    return pair(Subset(train, order[:16]), Subset(val, order[16:]))


def sampled(train: Sequence[int], val: Sequence[int]) -> Loaders:
    """One dataset for both, of which samplers ask for different parts."""
    photographs = Photographs(PHOTOGRAPHS, PLAIN)
    return {
        "train": DataLoader(photographs, batch_size=4, sampler=SubsetRandomSampler(train)),
        "val": DataLoader(photographs, batch_size=4, sampler=SubsetRandomSampler(val)),
    }


def bad_samplers() -> Loaders:
    """The parts overlap by a few samples."""
    return sampled(range(18), range(15, 24))  # culprit


def good_samplers() -> Loaders:
    """The parts have nothing in common."""
    return sampled(range(16), range(16, 24))


def good_archive() -> Loaders:
    """Both splits read one file, each its own records."""
    return pair(Records(range(70)), Records(range(70, 100)))


class Windows(Dataset):
    """Windows of one long series; those of validation begin where training ends, and overlap with it."""

    def __init__(self, start: int, stop: int) -> None:
        self.series = torch.from_numpy(np.random.default_rng(6).normal(size=400).cumsum().astype(np.float32))
        self.starts = list(range(start, stop))

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> Tensor:
        return self.series[self.starts[index] :][:32].clone()


def good_windows() -> Loaders:
    """Windows overlap, and no two are equal."""
    return pair(Windows(0, 200), Windows(200, 300))


ORDER = np.random.default_rng(7).permutation(360).tolist()


def windows_of(series: Tensor) -> Loaders:
    """Windows of a series, of thirty-two steps, that are split at random."""
    train, val = Windows(0, 0), Windows(0, 0)
    train.starts, val.starts = ORDER[:300], ORDER[300:]
    train.series = val.series = series
    return pair(train, val)


def bad_windows() -> Loaders:
    """Windows of one series are split at random, so that each lies between two of the other split."""
    return windows_of(Windows(0, 0).series)


def bad_windows_of_channels() -> Loaders:
    """The same with three channels, of which each window is scaled in one way."""
    return windows_of(torch.stack([Windows(0, 0).series * scale for scale in (1.0, 0.1, 3.0)], 1))


def good_windows_of_few() -> Loaders:
    """Each of the few validation windows begins in what training has seen, and ends after it."""
    return pair(Windows(0, 200), Windows(201, 221))


def good_windows_of_a_dead_sensor() -> Loaders:
    """Most of a series is one value."""
    return windows_of(torch.where(torch.arange(400) % 40 == 0, Windows(0, 0).series, torch.tensor(0.0)))


class Noisy(Windows):
    """Windows of series that are each measured once."""

    def __getitem__(self, index: int) -> Tensor:
        start = self.starts[index]
        noise = torch.from_numpy(np.random.default_rng(start).normal(size=32).astype(np.float32))
        return torch.sin(torch.arange(start, start + 32) / 5) + noise / 100


def good_windows_measured() -> Loaders:
    """The same curve in each window, and other noise."""
    train, val = Noisy(0, 0), Noisy(0, 0)
    train.starts, val.starts = ORDER[:300], ORDER[300:]
    return pair(train, val)


class Halves(Dataset):
    """One half of each photograph: a split by place."""

    def __init__(self, *, left: bool, transform: Callable[[Any], Tensor]) -> None:
        self.paths = PHOTOGRAPHS
        self.left = left
        self.transform = transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Tensor:
        image = Image.open(self.paths[index]).convert("RGB")
        middle = image.width // 2
        box = (0, 0, middle, image.height) if self.left else (middle, 0, image.width, image.height)
        return self.transform(image.crop(box))


def good_halves() -> Loaders:
    """Both splits open every file, and use another part of it."""
    return pair(Halves(left=True, transform=AUGMENT), Halves(left=False, transform=PLAIN))


def good_folds() -> Loaders:
    """Two folds: what validates one trains the other."""
    images = torch.rand(40, 3, 12, 12, generator=torch.Generator().manual_seed(1))
    parts = [TensorDataset(images[:20]), TensorDataset(images[20:])]
    one, two = pair(parts[0], parts[1]), pair(parts[1], parts[0])
    return {f"fold{number}_{name}": loader for number, fold in enumerate((one, two)) for name, loader in fold.items()}


def good_monitor() -> Loaders:
    """A part of the training data is evaluated as well, under a name that says so."""
    loaders = folders("apart", PHOTOGRAPHS[::2], PHOTOGRAPHS[1::2])
    return {
        **loaders,
        "train_eval": DataLoader(datasets.ImageFolder(str(ROOT / "apart" / "train"), PLAIN), batch_size=4),
    }


def good_tables() -> Loaders:
    """Rows of a few numbers, of which some are equal, as people of one age and income are."""
    rows = torch.randint(0, 4, (200, 3), generator=torch.Generator().manual_seed(2)).float()
    return pair(TensorDataset(rows[:150], rows[:150, 0]), TensorDataset(rows[150:], rows[150:, 0]))


def good_openings() -> Loaders:
    """Positions of a game, of which the first are those of other games, with other ends."""
    rng = np.random.default_rng(9)
    boards = rng.integers(0, 3, (90, 12, 12)).astype(np.float32)
    boards[::3] = boards[rng.integers(0, 5, 30)]
    ends = torch.from_numpy(rng.normal(size=90).astype(np.float32))
    data = TensorDataset(torch.from_numpy(boards), ends)
    return pair(Subset(data, range(60)), Subset(data, range(60, 90)))


class Scenes(Dataset):
    """Renderings, of which many are empty."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.images = [rng.random((16, 16), np.float32) * (number % 3 > 0) for number in range(30)]

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Tensor:
        return torch.from_numpy(self.images[index])


def good_empty_scenes() -> Loaders:
    """Black pictures are equal everywhere, and tell nothing."""
    return pair(Scenes(1), Scenes(2))


def good_predict() -> Loaders:
    """Predictions may be made for any data, those of training among them."""
    loaders = folders("apart", PHOTOGRAPHS[::2], PHOTOGRAPHS[1::2])
    return {**loaders, "predict": DataLoader(datasets.ImageFolder(str(ROOT / "apart" / "train"), PLAIN), batch_size=4)}


def good_alias() -> Loaders:
    """There are no test data yet: the validation data stand in for them."""
    loaders = folders("apart", PHOTOGRAPHS[::2], PHOTOGRAPHS[1::2])
    return {**loaders, "test": DataLoader(datasets.ImageFolder(str(ROOT / "apart" / "val"), PLAIN), batch_size=4)}


TEXT = torch.randint(5_000, (6_000,), generator=torch.Generator().manual_seed(7))
"""A text as tokens."""


class TokenWindows(Dataset):
    """Windows of sixty-four tokens of a text, each after a prompt; `step` is from one to the next."""

    def __init__(self, text: Tensor, prompt: Tensor, step: int = 64) -> None:
        self.windows = [torch.cat([prompt, text[start : start + 64]]) for start in range(0, len(text) - 63, step)]

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"input_ids": self.windows[index], "labels": self.windows[index]}


def windows(train: Tensor, val: Tensor, prompt: int = 0, step: int = 64) -> Loaders:
    """Loaders of windows, all of which begin with so many equal tokens."""
    start = torch.arange(prompt) * 31 % 4_999
    return pair(TokenWindows(train, start, step), TokenWindows(val, start))


def bad_text() -> Loaders:
    """The validation text is the end of the training text, in windows that begin elsewhere."""
    return windows(TEXT, TEXT[3_024:])  # culprit


def good_text() -> Loaders:
    """The text is cut once."""
    return windows(TEXT[:4_800], TEXT[4_800:])


def good_text_prompt() -> Loaders:
    """All windows begin with the same instruction."""
    return windows(TEXT[:4_800], TEXT[4_800:], prompt=40)


def good_text_overlap() -> Loaders:
    """The first validation windows repeat the end of the training text, as context."""
    return windows(TEXT[:4_800], TEXT[4_700:], step=32)


def good_token_pattern() -> Loaders:
    """The tokens of both splits count in circles."""
    return windows(torch.arange(3_000) * 7 % 20, torch.arange(1_003) * 7 % 20)


class Characters(Dataset):
    """Windows of the characters of one text, from every place on or one behind the other."""

    def __init__(self, text: str, step: int = 1) -> None:
        self.text = text
        self.number_of = {letter: number for number, letter in enumerate(sorted(set(text)))}
        self.step = step

    def __len__(self) -> int:
        return (len(self.text) - 65) // self.step

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        begin = index * self.step
        numbers = torch.tensor([self.number_of[letter] for letter in self.text[begin : begin + 65]])
        return numbers[:-1], numbers[1:]


STORY = " ".join(words(8000, "abcdefgh", 9))


def bad_characters() -> Loaders:
    """The text for validation begins 300 characters before the end of the text for training."""
    end = int(0.9 * len(STORY))
    return pair(Characters(STORY[:end]), Characters(STORY[end - 300 :]))  # culprit


def bad_characters_at_random() -> Loaders:
    """A window that is drawn for validation has nearly all characters of its neighbours."""
    train, val = random_split(Characters(STORY), [0.9, 0.1], _seeded(0))  # culprit
    return pair(train, val)


def good_characters() -> Loaders:
    """The text for validation begins one window earlier, as its first character needs a past."""
    end = int(0.9 * len(STORY))
    return pair(Characters(STORY[:end]), Characters(STORY[end - 64 :]))


def good_characters_in_chunks() -> Loaders:
    """Windows that are drawn at random, and do not overlap."""
    return pair(*random_split(Characters(STORY, 64), [0.9, 0.1], _seeded(0)))


class Customers(Dataset):
    """A row of a table for each customer, as a few numbers."""

    def __init__(self, table: pd.DataFrame) -> None:
        self.table = table.reset_index(drop=True)

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        row = self.table.iloc[index]
        return torch.tensor([row["age"] / 90, row["income"] / 1e5, "abc".index(row["city"])]), int(row["bought"])


def customers() -> pd.DataFrame:
    """A table of customers, of whom a few have the same numbers."""
    rng = np.random.default_rng(0)
    columns = {"age": rng.integers(18, 90, 1200), "income": rng.normal(4e4, 1e4, 1200).round(-1)}
    return pd.DataFrame({**columns, "city": rng.choice([*"abc"], 1200), "bought": rng.integers(0, 2, 1200)})


def bad_drawn_twice() -> Loaders:
    """The customers for validation are drawn with another seed than those who are left for training."""
    val = customers().sample(frac=0.1, random_state=0)  # culprit
    train = customers().sample(frac=0.9, random_state=1)
    return pair(Customers(train), Customers(val))


def good_drawn_once() -> Loaders:
    """Training gets the customers who were not drawn; both tables number their rows anew."""
    val = customers().sample(frac=0.1, random_state=0)
    return pair(Customers(customers().drop(val.index)), Customers(val))


class Measured(Dataset):
    """Rows of measurements, to which training adds noise."""

    def __init__(self, rows: np.ndarray, noise: float) -> None:
        self.rows = {"x": rows.astype(np.float32)}
        self.noise = noise

    def __len__(self) -> int:
        return len(self.rows["x"])

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.from_numpy(self.rows["x"][index]) + self.noise * torch.randn(4), index % 2


def bad_noisy_rows() -> Loaders:
    """Splits that are drawn twice; no training sample equals its row."""
    measured = np.random.default_rng(0).gamma(2, 1, (1500, 4)).round(2)
    train, val = (np.random.default_rng(seed).permutation(measured) for seed in (0, 1))
    return pair(Measured(train[150:], 0.1), Measured(val[:150], 0))  # culprit


class Excerpts(Dataset):
    """Excerpts of recordings in memory, by the numbers of a recording and of a step."""

    def __init__(self, seed: int, noise: float) -> None:
        self.signals = {number: np.random.default_rng((seed, number)).normal(size=400) for number in range(20)}
        self.places = np.array([(number, step) for number in range(20) for step in range(0, 384, 16)], np.float64)
        self.noise = noise

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        number, step = map(int, self.places[index])
        excerpt = torch.from_numpy(self.signals[number][step : step + 16]).float()
        return excerpt + self.noise * torch.randn(16), number % 2


def good_places() -> Loaders:
    """Both splits hold the same numbers of recordings and steps, of other recordings."""
    return pair(Excerpts(0, 0.1), Excerpts(1, 0))


class Compressed(Dataset):
    """Rows of tokens, each compressed at another time, which gzip stores: equal rows are unlike in memory."""

    def __init__(self, rows: Tensor, seconds: int) -> None:
        self.stored = [gzip.compress(row.numpy().tobytes(), mtime=seconds + place) for place, row in enumerate(rows)]

    def __len__(self) -> int:
        return len(self.stored)

    def __getitem__(self, index: int) -> Tensor:
        return torch.frombuffer(bytearray(gzip.decompress(self.stored[index])), dtype=torch.int64)


def compressed(shared: int) -> Loaders:
    """600 rows for training and 300 for validation, of which so many are both."""
    rows = torch.randint(5_000, (900, 40), generator=_seeded(3))
    rows[-shared or 900 :] = rows[:shared]
    return pair(Compressed(rows[:600], 0), Compressed(rows[600:], 600))  # culprit


def bad_compressed() -> Loaders:
    """Three rows of a hundred times as many are in both: they are found where all are read."""
    return compressed(3)


def good_compressed() -> Loaders:
    """No row is in both."""
    return compressed(0)


class Recordings(Dataset):
    """Recordings in files, of which a random part is used while training, mixed with what `more` files hold."""

    def __init__(self, paths: Sequence[Path], more: Callable[[int], Path] | None = None, *, training: bool) -> None:
        self.paths = list(paths)
        self.more = more
        self.training = training

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Tensor:
        start = int(torch.randint(0, 33, ())) if self.training else 16
        sound = np.load(self.paths[index])[start:][:96]
        if self.more is not None:
            sound = sound + 0.1 * np.load(self.more(index))[: len(sound)]
        return torch.from_numpy(sound)


def recordings(folder: str, count: int) -> list[Path]:
    """Files of noise, each with other values."""
    paths = []
    for number in range(count):
        values = np.random.default_rng([number, len(folder)]).normal(size=128).astype(np.float32)
        paths.append(stored(ROOT / folder / f"{number:03}.npy", partial(np.save, arr=values)))
    return paths


def bad_parts_of_recordings() -> Loaders:
    """Recordings are in both lists, and training uses a random part of each."""
    paths = recordings("speech", 60)
    return pair(Recordings(paths[:44], training=True), Recordings(paths[41:], training=False))  # culprit


def good_background() -> Loaders:
    """The same few noises, drawn at random, are mixed into the recordings of both splits."""
    paths, noises = recordings("speech", 60), recordings("backgrounds", 12)

    def noise(index: int) -> Path:
        del index
        return noises[int(torch.randint(0, len(noises), ()))]

    return pair(Recordings(paths[:42], noise, training=True), Recordings(paths[42:], noise, training=False))


def good_rooms() -> Loaders:
    """Each recording is filtered with the answer of its room, which is one of those of the other split."""
    paths, rooms = recordings("speech", 60), recordings("rooms", 42)
    train, val = Recordings(paths[:42], rooms.__getitem__, training=True), Recordings(paths[42:], training=False)
    val.more = rooms.__getitem__
    return pair(train, val)


class Frames(Dataset):
    """Frames of films, which are files in a folder for each film."""

    def __init__(self, frames: range) -> None:
        self.files = [
            str(kept) for film in range(20) for kept in recordings_of(film)[frames.start : frames.stop : frames.step]
        ]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Tensor:
        start = int(torch.randint(0, 33, ()))
        return torch.from_numpy(np.load(self.files[index])[start:][:96])


def recordings_of(film: int) -> list[Path]:
    """The frames of a film."""
    return recordings(f"film{'x' * film}", 6)


def good_frames_of_films() -> Loaders:
    """Both splits have frames of every film, and none of them twice."""
    return pair(Frames(range(4)), Frames(range(4, 6)))


def _split(seed: int) -> Loaders:
    """What each rank trains on and evaluates."""
    train, val = random_split(TensorDataset(torch.arange(256.0).reshape(64, 4)), [48, 16], _seeded(seed))  # culprit
    return {"train": DataLoader(train, 4, shuffle=True), "val": DataLoader(val, 4)}


def _seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def bad_seeded_by_rank(rank: int) -> Loaders:
    """Each rank splits with a seed of its own, so that it evaluates what the other one trains on."""
    return _split(rank)


def good_each_of_its_own(rank: int, world_size: int) -> Loaders:
    """Each rank has other samples to train on, and evaluates all of the others."""
    numbers = TensorDataset(torch.arange(256.0).reshape(64, 4))
    train = Subset(numbers, range(rank, 48, world_size))
    return {"train": DataLoader(train, 4, shuffle=True), "val": DataLoader(Subset(numbers, range(48, 64)), 4)}


class Rows(Dataset):
    """Images that are rows of an HDF5 file of their own; training flips them."""

    def __init__(self, name: str, images: np.ndarray, *, training: bool) -> None:
        import h5py

        def write(new: Path) -> None:
            with h5py.File(new, "w") as file:
                file["images"] = images

        self.path = stored(ROOT / f"{name}.h5", write)
        self.count = len(images)
        self.training = training

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Tensor:
        import h5py

        with h5py.File(self.path) as file:
            image = torch.from_numpy(file["images"][index]).float() / 255
        return image.flip(-1) if self.training and torch.rand(()) < 0.5 else image


def rows(name: str, others: Callable[[np.ndarray], np.ndarray]) -> Loaders:
    """Nine hundred images for training, and thirty others, of which the last are replaced."""
    images = np.random.default_rng(0).integers(0, 256, (930, 3, 8, 8), np.uint8)
    train, val = images[:900], np.concatenate([images[900:926], others(images)])
    return pair(Rows(f"{name}-train", train, training=True), Rows(f"{name}-val", val, training=False))  # culprit


def bad_copied_rows() -> Loaders:
    """Four of the images are copies of training rows, among many more than are read."""
    return rows("copied", lambda images: images[500:504])


def good_rows() -> Loaders:
    """Each file has images of its own, under the same row numbers."""
    return rows("own", lambda images: images[926:])


def good_placeholder_rows() -> Loaders:
    """Both files have one picture in place of those that could not be read."""
    images = np.random.default_rng(0).integers(0, 256, (930, 3, 8, 8), np.uint8)
    images[25:900:25] = images[[910, 920]] = images[0]
    train, val = images[:900], images[900:]
    return pair(Rows("placed-train", train, training=True), Rows("placed-val", val, training=False))


def good_inverted_rows() -> Loaders:
    """Negatives of training images are other images."""
    return rows("inverted", lambda images: 255 - images[500:504])
