"""Planted bugs, and who finds them: `python -m tests.bench.beside`, a markdown table.

Four tools look at the same files and loaders in one run: dataguard, cleanvision, the image suites of deepchecks, and a
test of fifty lines as careful people write it. A tool finds a bug if it reports something that it does not report of
the clean loaders. cleanvision looks at the files, as it does not see what a loader makes of them. A tool that cannot be
imported is named with the reason: deepchecks 0.19.1 needs `setuptools<80 scikit-learn<1.6 category_encoders<2.7`.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from tests.bench.loaders import write_jpegs

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
FILES = 240
BUGS = {
    "every worker draws the same augmentations": "DG101",
    "every epoch draws the same augmentations": "DG102",
    "`__len__` counts each sample twice": "DG303",
    "training is not shuffled": "DG207",
    "class indices follow the order of a set": "DG310",
    "a label that no class has": "DG502",
    "channels are BGR": "DG505",
    "pixels are divided by 255 twice": "DG506",
    "EXIF orientation is ignored": "DG508",
    "images that cannot be read are black": "DG504",
    "validation files are also in training": "DG514",
    "a cache grows with each sample": "DG602",
}
"""Each bug and the check that is to find it; loaders are made by number, and 0 is the clean one."""


class Window:
    """A random window of 64 x 64 in training, else that in the middle."""

    def __init__(self, training: bool, own: bool) -> None:
        self.training = training
        self.rng = np.random.default_rng(0) if own else None

    def __call__(self, pixels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        top, left = ((size - 64) // 2 for size in pixels.shape[:2])
        if self.training:
            draw = self.rng.integers if self.rng else np.random.randint
            top, left = (int(draw(0, size - 64)) for size in pixels.shape[:2])
        return np.ascontiguousarray(pixels[top : top + 64, left : left + 64])


class Photographs(Dataset[tuple[torch.Tensor, int]]):
    """JPEGs in a folder a class, cropped at random; `code` plants the bug that this check finds."""

    def __init__(self, folder: Path, code: str | None, training: bool) -> None:
        files = sorted(folder.glob("*/*.jpg"))
        names = {file.parent.name for file in files}
        self.classes = list(names) if code == "DG310" else sorted(names)
        own = [file for number, file in enumerate(files) if (number % 5 > 0) == training]
        leaked = [file for number, file in enumerate(files) if number % 25 == 0]
        self.files = own + (leaked if code == "DG514" and training else [])
        self.code = code
        self.cache: list[np.ndarray[Any, Any]] = []
        finish = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
        self.transform = transforms.Compose([Window(training, own=code == "DG101"), *finish])

    def __len__(self) -> int:
        return len(self.files) * (2 if self.code == "DG303" else 1)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index >= len(self):
            raise IndexError(index)
        file = self.files[index % len(self.files)]
        image = Image.open(file)
        pixels = np.asarray((image if self.code == "DG508" else upright(image)).convert("RGB"))
        if self.code == "DG505":
            pixels = pixels[:, :, ::-1]
        if self.code == "DG504" and index % 7 == 0:
            pixels = np.zeros_like(pixels)
        if self.code == "DG602":
            self.cache.append(np.array(pixels))
        tensor = self.transform(pixels)
        if self.code == "DG506":
            mean, std = torch.tensor(MEAN)[:, None, None], torch.tensor(STD)[:, None, None]
            tensor = ((tensor * std + mean) / 255 - mean) / std
        label = len(self.classes) if self.code == "DG502" and index == 11 else self.classes.index(file.parent.name)
        return tensor, label


def same_seeds(worker: int) -> None:
    np.random.seed(worker)


def upright(image: Image.Image) -> Image.Image:
    from PIL import ImageOps

    return ImageOps.exif_transpose(image)


def make(folder: str, number: int = 0) -> dict[str, DataLoader[Any]]:
    """Loaders for training and validation with bug `number`, from 1; 0 is clean."""
    code = [None, *BUGS.values()][number]
    common: dict[str, Any] = {"batch_size": 16, "num_workers": 2}
    common["worker_init_fn"] = same_seeds if code == "DG102" else None
    train, val = (Photographs(Path(folder), code, training) for training in (True, False))
    return {"train": DataLoader(train, shuffle=code != "DG207", **common), "val": DataLoader(val, **common)}


def write_files(folder: Path) -> None:
    """Landscapes of 96 x 128 in two classes; every third was taken with the camera upright."""
    write_jpegs(folder, FILES, (128, 96))
    for number, file in enumerate(sorted(folder.glob("*/*.jpg"))):
        if number % 3 == 0:
            image = Image.open(file).transpose(Image.Transpose.ROTATE_90)
            exif = Image.Exif()
            exif[0x0112] = 6
            image.save(file, exif=exif, quality=92)


def by_dataguard(folder: Path, number: int) -> set[str]:
    command = [sys.executable, "-m", "dataguard", "scan", "tests.bench.beside:make", "--format", "json"]
    command += ["--arg", f"folder={folder}", "--arg", f"number={number}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    return {result["code"] for result in json.loads(done.stdout)["results"] if result["status"] == "failed"}


def by_hand(folder: Path, number: int) -> set[str]:
    """What a careful team tests: shapes, dtypes, ranges, labels, lengths, shuffling, and disjoint files."""
    loaders = make(str(folder), number)
    found = set()
    for name, loader in loaders.items():
        data: Any = loader.dataset
        batches, seen = list(loader), 0
        for images, labels in batches:
            seen += len(images)
            if images.shape[1:] != (3, 64, 64) or images.dtype != torch.float32:
                found.add("shape")
            if not torch.isfinite(images).all() or images.abs().max() > 5:
                found.add("range")
            if labels.min() < 0 or labels.max() >= len(data.classes):
                found.add("labels")
        if seen != len(data):
            found.add("length")
        if max(Counter(label for _, labels in batches for label in labels.tolist()).values()) > 0.8 * seen:
            found.add("balance")
        images = torch.cat([images for images, _ in batches])
        if abs(float(images.mean())) > 1.5 or not 0.2 < float(images.std()) < 3:
            found.add("normalization")
        first = next(iter(loader))[0]
        if name == "train" and torch.equal(first, batches[0][0]):
            found.add("not shuffled")
    train, val = (set(loaders[name].dataset.files) for name in ("train", "val"))  # type: ignore[attr-defined]
    if train & val:
        found.add("leak")
    return found


def by_cleanvision(folder: Path, number: int) -> set[str]:
    from cleanvision import Imagelab

    lab = Imagelab(data_path=str(folder))
    lab.find_issues(n_jobs=1)
    summary = lab.issue_summary
    return {str(row.issue_type) for row in summary.itertuples() if row.num_images}


def by_deepchecks(folder: Path, number: int) -> set[str]:
    from deepchecks.vision import VisionData
    from deepchecks.vision.suites import data_integrity, train_test_validation

    mean, std = np.array(MEAN), np.array(STD)

    def collate(samples: list[tuple[torch.Tensor, int]]) -> dict[str, Any]:
        arrays = [(image.permute(1, 2, 0).numpy() * std + mean) * 255 for image, _ in samples]
        return {
            "images": [array.clip(0, 255).astype(np.uint8) for array in arrays],
            "labels": [int(label) for _, label in samples],
        }

    given = {
        name: VisionData(
            DataLoader(loader.dataset, batch_size=16, shuffle=name == "train", num_workers=2, collate_fn=collate),
            task_type="classification",
            reshuffle_data=False,
        )
        for name, loader in make(str(folder), number).items()
    }
    suites = (data_integrity(), train_test_validation())
    results = [suite.run(given["train"], given["val"]) for suite in suites]
    return {result.get_header() for suite in results for result in suite.get_not_passed_checks()}


TOOLS: dict[str, Callable[[Path, int], set[str]]] = {
    "dataguard": by_dataguard,
    "a test by hand": by_hand,
    "cleanvision": by_cleanvision,
    "deepchecks": by_deepchecks,
}


@dataclass
class Coverage:
    """What a tool reported of the clean loaders and of each bug beyond that, and its median time."""

    clean: set[str]
    found: dict[str, set[str]]
    seconds: float


def looked(tool: Callable[[Path, int], set[str]], folder: Path) -> Coverage:
    reports, times = [], []
    for number in range(len(BUGS) + 1):
        started = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(0)
            try:
                reports.append(tool(folder, number))
            except ImportError:
                raise
            except Exception as error:  # noqa: BLE001 - a tool that refuses a loader has noticed something
                reports.append({f"raises {type(error).__name__}"})
        times.append(time.perf_counter() - started)
    clean, *buggy = reports
    found = {bug: said - clean for bug, said in zip(BUGS, buggy, strict=True)}
    return Coverage(clean, found, sorted(times)[len(times) // 2])


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "photographs"
        write_files(folder)
        tools = {}
        for name, tool in TOOLS.items():
            try:
                tools[name] = looked(tool, folder)
            except ImportError as error:
                sys.stdout.write(f"{name} was not tried: {error}\n\n")
    rows = [["planted bug", *tools], ["---"] * (len(tools) + 1)]
    rows += [[bug, *(", ".join(sorted(one.found[bug])) or "–" for one in tools.values())] for bug in BUGS]
    rows += [["**found**", *(f"{sum(map(bool, one.found.values()))} of {len(BUGS)}" for one in tools.values())]]
    rows += [["reported of the clean loaders", *(", ".join(sorted(one.clean)) or "–" for one in tools.values())]]
    rows += [["seconds", *(f"{one.seconds:.1f}" for one in tools.values())]]
    sys.stdout.write("".join(f"| {' | '.join(row)} |\n" for row in rows))


if __name__ == "__main__":
    main()
