"""The content that is stored under the units of samples, read without the dataset."""

from __future__ import annotations

import zipfile
from pathlib import Path
from types import SimpleNamespace

import h5py
import lmdb
import numpy as np
import pytest

from dataguard.lab.splits.stored_contents import POOR, StoredContents

ROWS = np.random.default_rng(0).integers(0, 256, (6, 512), np.uint8)
ROWS[5] = ROWS[2]


def database(folder: Path) -> Path:
    path = folder / "entries.lmdb"
    with lmdb.open(str(path)) as environment, environment.begin(write=True) as transaction:
        for number, row in enumerate(ROWS):
            transaction.put(b"image-%03d" % number, row.tobytes())
    return path


def units(folder: Path, kind: str) -> list[str]:
    """The units of six entries, the last of which is a copy of the third."""
    if kind == "files":
        for number, row in enumerate(ROWS):
            (folder / f"{number}.bin").write_bytes(row.tobytes())
        return [f"{folder}/{number}.bin" for number in range(6)]
    if kind == "archive":
        with zipfile.ZipFile(folder / "a.zip", "w") as archive:
            for number, row in enumerate(ROWS):
                archive.writestr(f"x/{number}.bin", row.tobytes())
        return [f"{folder}/a.zip::x/{number}.bin" for number in range(6)]
    if kind == "entries":
        path = database(folder)
        return [f"{path}[image-{number:03}]" for number in range(6)]
    with h5py.File(folder / "a.h5", "w") as file:
        file["x"] = ROWS
        for number, row in enumerate(ROWS):
            file[f"g/{number}"] = row
    return [f"{folder}/a.h5::/{'g' if kind == 'members' else 'x'}{end}" for end in _ends(kind)]


def _ends(kind: str) -> list[str]:
    return [f"/{number}" if kind == "members" else f"[{number}]" for number in range(6)]


@pytest.mark.parametrize("kind", ["files", "archive", "entries", "members", "rows"])
def test_copies_have_one_number(tmp_path: Path, kind: str) -> None:
    listed = [(unit,) for unit in units(tmp_path, kind)]
    found = StoredContents(None).of_samples(listed, len(listed), 0)
    assert found is not None
    assert found[5] == found[2]
    assert len({*found}) == 5


def test_several_rows_are_one_window(tmp_path: Path) -> None:
    first, *_ = units(tmp_path, "rows")
    path = first.rpartition("[")[0]
    stored = StoredContents(None)
    assert stored.of(f"{path}[1,2]") not in {None, stored.of(f"{path}[1]"), stored.of(f"{path}[2,3]")}
    assert stored.of(f"{path}[0,2]") is None


def test_a_database_that_is_open_is_read_through_the_dataset(tmp_path: Path) -> None:
    path = database(tmp_path)
    with lmdb.open(str(path), readonly=True, lock=False) as environment:
        assert StoredContents(None).of(f"{path}[image-001]") is None
        assert StoredContents(SimpleNamespace(environment=environment)).of(f"{path}[image-001]") is not None
    assert StoredContents(None).of(f"{path}[image-001]") is not None


def test_blank_rows_are_no_copies_of_each_other(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.zeros((3, 512), np.uint8)
    assert StoredContents(None).of(f"{tmp_path}/a.h5::/x[1]") == POOR


@pytest.mark.parametrize("unit", ["dataset.frame[3]", "/nowhere/1.png", "/nowhere/a.h5::/x[3]"])
def test_what_cannot_be_read_has_no_number(unit: str) -> None:
    assert StoredContents(None).of(unit) is None


def test_what_is_damaged_has_no_number(tmp_path: Path) -> None:
    (tmp_path / "a.h5").write_bytes(b"rubbish")
    assert StoredContents(None).of(f"{tmp_path}/a.h5::/x[3]") is None


def test_reading_ends_when_time_is_over(tmp_path: Path) -> None:
    listed = [(unit,) for unit in units(tmp_path, "files")] * 30
    assert StoredContents(None).of_samples(listed, len(listed), 0) is not None
    assert StoredContents(None).of_samples(listed, 6, 0) is None
