"""The user's code writes no file while it computes with changed data."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Client, Listener
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

import dataguard
from dataguard.core.model import Status
from dataguard.lab.process import write_protection
from dataguard.lab.process.isolation import in_fork
from dataguard.lab.process.write_protection import allow_writes, forbid_writes
from tests.support.faces import todays

PIXELS = np.zeros((4, 4, 3), np.uint8)
WRITERS: dict[str, Callable[[Path], object]] = {
    "open": lambda path: path.write_text("changed"),
    "append and read": lambda path: path.open("a+").close(),
    "numpy": lambda path: np.save(path.open("r+b"), PIXELS),
    "rename": lambda path: path.rename(path.with_suffix(".old")),
    "replace": lambda path: path.with_suffix(".new").replace(path),
    "move": lambda path: (path.parent.parent / "scratch" / "own").replace(path),
    "remove": lambda path: path.unlink(),
    "folder": lambda path: path.with_suffix(".d").mkdir(),
}
NATIVE_WRITERS: dict[str, Callable[[Path], object]] = {
    "torch": lambda path: torch.save(torch.zeros(2), path),
    "cv2": lambda path: cv2.imwrite(f"{path}.png", PIXELS),
    "sqlite": lambda path: sqlite3.connect(path.with_suffix(".db")).execute("create table t (a)"),
}


def contents(folder: Path) -> dict[str, bytes | None]:
    return {path.name: path.read_bytes() if path.is_file() else None for path in folder.iterdir()}


def refused(write: Callable[[Path], object], path: Path, scratch: Path) -> str:
    """The class of the error, in a process that may not write."""

    def attempt() -> str:
        allow_writes(scratch)
        forbid_writes()
        (scratch / "own").write_text("written")
        try:
            write(path)
        except (OSError, RuntimeError, sqlite3.Error) as error:
            return type(error).__name__
        return ""

    return in_fork(attempt) or ""


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    scratch, users = tmp_path / "scratch", tmp_path / "users"
    for folder in (scratch, users):
        folder.mkdir()
    (users / "data.npy").write_text("kept")
    (users / "data.new").write_text("other")
    return scratch, users


@pytest.fixture(params=[True, False], ids=["landlock", "audit hook"])
def protected(
    request: pytest.FixtureRequest, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, Path]:
    """The same folders, with each way to forbid writes."""
    if not request.param:
        monkeypatch.setattr(write_protection, "_restricted", lambda writable: False)
    return folders


@pytest.mark.parametrize("writer", WRITERS)
def test_no_file_is_written_while_data_are_changed(writer: str, protected: tuple[Path, Path]) -> None:
    scratch, users = protected
    before = contents(users)
    assert refused(WRITERS[writer], users / "data.npy", scratch) == "PermissionError"
    assert contents(users) == before
    assert (scratch / "own").exists()


APPENDERS: dict[str, Callable[[Path], object]] = {
    "open": lambda path: path.open("a").write("more"),
    "by name": lambda path: open(str(path), "ab").write(b"more"),  # noqa: SIM115, PTH123 - as users do
    "low": lambda path: os.write(os.open(path, os.O_APPEND | os.O_WRONLY), b"more"),
    "new file": lambda path: path.with_suffix(".log").open("a").write("more"),
}


@pytest.mark.parametrize("append", APPENDERS)
def test_what_is_appended_goes_into_another_file(append: str, protected: tuple[Path, Path]) -> None:
    scratch, users = protected
    before = contents(users)
    assert refused(APPENDERS[append], users / "data.npy", scratch) == ""
    assert contents(users) == before
    assert any(content == b"more" for content in contents(scratch).values())


@pytest.mark.parametrize("writer", NATIVE_WRITERS)
def test_libraries_in_c_write_none_where_the_kernel_can_deny_it(writer: str, folders: tuple[Path, Path]) -> None:
    scratch, users = folders
    if not in_fork(lambda: write_protection._restricted([scratch])):
        pytest.skip("this kernel has no Landlock")
    before = contents(users)
    refused(NATIVE_WRITERS[writer], users / "data.npy", scratch)
    assert contents(users) == before


CACHING = """
import json
import os

import numpy as np
from torch.utils.data import DataLoader, TensorDataset
import torch
from PIL import Image


def images():
    for number in range(6):
        with Image.open(f"{number}.png") as image:
            np.save(f"cached{number}.npy", np.asarray(image, np.float32) / 255)
    held = np.stack([np.load(f"cached{number}.npy") for number in range(6)])
    return DataLoader(TensorDataset(torch.from_numpy(held.transpose(0, 3, 1, 2))), batch_size=2)

def listed():
    with open("classes.json", "w") as file:
        json.dump([name for name in os.listdir() if name.endswith(".png")], file)
    with open("classes.json") as file:
        names = json.load(file)
    return DataLoader([torch.tensor([int(name[0])]) for name in names], batch_size=2)


def scaled():
    table = np.loadtxt("table.csv", delimiter=",", dtype=np.float32)
    np.save("mean.npy", table.mean(0))
    table = torch.from_numpy((table - np.load("mean.npy")) / table.std(0))
    train, val = TensorDataset(table[:48]), TensorDataset(table[48:])
    return {"train": DataLoader(train, batch_size=4, shuffle=True), "val": DataLoader(val, batch_size=4)}
"""


@pytest.mark.scan
@pytest.mark.parametrize(("factory", "code"), [("images", "DG505"), ("listed", "DG309"), ("scaled", "DG521")])
def test_what_a_factory_stores_stays_as_it_was(
    factory: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    for number in range(6):
        cv2.imwrite(f"{number}.png", generator.integers(0, 255, (8, 8, 3), np.uint8))
    table = generator.normal(0, 1, (72, 4))
    np.savetxt("table.csv", table, delimiter=",")
    (tmp_path / "caching.py").write_text(CACHING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    report = dataguard.scan(f"caching:{factory}", select=code)
    monkeypatch.delitem(sys.modules, "caching", raising=False)
    assert {result.code for result in report.results} == {code}
    for number in range(6 if factory == "images" else 0):
        stored, usual = np.load(f"cached{number}.npy"), np.asarray(cv2.imread(f"{number}.png"))[..., ::-1]
        assert np.array_equal(stored, usual / np.float32(255))
    if factory == "listed":
        assert json.loads(Path("classes.json").read_text()) != [f"{number}.png" for number in reversed(range(6))]
        assert report.results[0].status is Status.INCONCLUSIVE
    if factory == "scaled":
        assert np.allclose(np.load("mean.npy"), table.mean(0), atol=1e-5)


class Reads(Dataset[Any]):
    """Images that are decoded at each read, and what else `use` does with them."""

    def __init__(self, folder: Path, use: Callable[[Any, int, np.ndarray], object]) -> None:
        self.paths = sorted(folder.glob("*.png"))
        self.cached = [path.with_suffix(".npy") for path in self.paths]
        self.held = np.lib.format.open_memmap(folder / "held.npy", "w+", np.uint8, (len(self.paths), 8, 8, 3))
        self.file = (folder / "open.bin").open("w+b", buffering=0)
        self.shared = torch.zeros(1).share_memory_()
        self.use = use

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        pixels = cv2.cvtColor(cv2.imread(str(self.paths[index])), cv2.COLOR_BGR2RGB)
        self.use(self, index, pixels)
        return torch.from_numpy(pixels.transpose(2, 0, 1) / np.float32(255))


def into_open_file(dataset: Reads, index: int, pixels: np.ndarray) -> None:
    dataset.file.seek(index * pixels.size)
    with contextlib.suppress(OSError):
        dataset.file.write(pixels.tobytes())


def through_others(dataset: Reads, index: int, pixels: np.ndarray) -> None:
    """A temporary file, shared memory, and a socket."""
    del index
    with tempfile.NamedTemporaryFile(suffix=".png") as file:
        cv2.imwrite(file.name, pixels)
        assert Path(file.name).stat().st_size
    dataset.shared += 1
    with Listener(family="AF_UNIX") as listener, Client(listener.address) as client, listener.accept() as accepted:
        client.send(pixels)
        assert np.array_equal(accepted.recv(), pixels)
    block = SharedMemory(create=True, size=8)
    block.close()
    block.unlink()


USES: dict[str, tuple[Callable[[Any, int, np.ndarray], object], Status]] = {
    "saved": (lambda dataset, index, pixels: np.save(dataset.cached[index], pixels), Status.INCONCLUSIVE),
    "saved in C": (lambda dataset, index, pixels: cv2.imwrite(f"{dataset.cached[index]}.png", pixels), Status.PASSED),
    "mapped": (lambda dataset, index, pixels: dataset.held.__setitem__(index, pixels), Status.PASSED),
    "open file": (into_open_file, Status.PASSED),
    "elsewhere": (through_others, Status.PASSED),
}


@pytest.mark.scan
@pytest.mark.parametrize("use", todays(USES, turns=2))
def test_what_samples_store_at_each_read_stays_as_it_was(use: str, tmp_path: Path) -> None:
    if not in_fork(lambda: write_protection._restricted([tmp_path])):
        pytest.skip("this kernel has no Landlock")
    generator = np.random.default_rng(0)
    images = [generator.integers(0, 255, (8, 8, 3), np.uint8) for _ in range(6)]
    for number, image in enumerate(images):
        cv2.imwrite(str(tmp_path / f"{number}.png"), image)
    write, status = USES[use]
    dataset = Reads(tmp_path, write)
    for index in range(6):
        dataset[index]
    before = contents(tmp_path)
    report = dataguard.scan(DataLoader(dataset, batch_size=2), select=["DG505"])
    dataset.file.close()
    assert contents(tmp_path) == before
    (result,) = report.results
    assert result.status is status, result.reason
    if status is Status.INCONCLUSIVE:
        assert "no file is written" in str(result.reason)
        assert "Permission denied" in str(result.reason)


@pytest.mark.scan
def test_samples_that_are_logged_are_decided(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (24, 24, 3), np.uint8)
    cv2.imwrite(str(tmp_path / "picture.png"), pixels)

    class Logged(Dataset[Any]):
        def __getitem__(self, index: int) -> Any:
            with (tmp_path / "reads.log").open("a") as log:
                log.write(f"{range(6)[index]}\n")
            image = cv2.cvtColor(cv2.imread(str(tmp_path / "picture.png")), cv2.COLOR_BGR2RGB)
            return torch.from_numpy(image).permute(2, 0, 1)

        def __len__(self) -> int:
            return 6

    report = dataguard.scan(DataLoader(Logged(), batch_size=2), select=["DG505"])
    (result,) = report.results
    assert result.status is Status.PASSED, result.reason


@pytest.mark.scan
def test_samples_that_must_write_leave_rows_undecided(tmp_path: Path) -> None:
    series = np.random.default_rng(0).normal(0, 1, (200, 3)).astype(np.float32)

    class Windows(TensorDataset):
        def __getitem__(self, index: int) -> Any:
            window = self.tensors[0][index : index + 8]
            np.save(tmp_path / "last.npy", window)
            return window[:6], window[6:]

        def __len__(self) -> int:
            return len(series) - 8

    report = dataguard.scan(DataLoader(Windows(torch.from_numpy(series)), batch_size=4), select=["DG528"])
    (result,) = report.results
    assert result.status is Status.INCONCLUSIVE
    assert "no file is written" in str(result.reason)
    stored = np.load(tmp_path / "last.npy")
    assert any(np.array_equal(stored, series[first : first + 8]) for first in range(len(series) - 7))
