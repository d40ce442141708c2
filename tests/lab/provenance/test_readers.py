"""What the known readers of libraries read, of samples whose source is known, or that it is unknown."""

from __future__ import annotations

import io
import json
import pickle
import re
import sqlite3
import tarfile
import threading
import wave
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import cv2
import h5py
import numpy as np
import pandas as pd
import pytest
import soundfile
import tifffile
import torch
from PIL import Image
from scipy.io import wavfile
from torch.utils.data import DataLoader, Dataset

from dataguard.lab.process.isolation import isolated
from dataguard.lab.provenance.provenance import find_reads
from dataguard.lab.provenance.readers import READERS, function_of
from dataguard.lab.provenance.reads_seen import ReadLog
from dataguard.lab.rows.origins import SampleReads
from tests.lab.sound.test_decoders import importable

COUNT, INDEX = 12, 5
"""Samples of each dataset, and the one that is looked at."""
PIXELS = np.random.default_rng(0).integers(0, 255, (COUNT, 16, 16, 3), np.uint8)
VALUES = np.random.default_rng(1).random((COUNT, 6), np.float32)

Sample = Callable[[int], Any]
Expected = tuple[str, tuple[int | str, ...], bool]
"""The source without its folder, the rows, and whether the values can be exchanged."""


class Made(Dataset[Any]):
    """A dataset that makes samples by a function; what else it holds has a name."""

    def __init__(self, make: Callable[..., Any], **held: Any) -> None:
        self.make = make
        self.__dict__.update(held)

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        return self.make(self, index)


Case = Callable[[Path], tuple[Dataset[Any], list[Expected]]]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    """Register a dataset."""
    CASES[function.__name__] = function
    return function


def encoded(number: int) -> bytes:
    """A PNG file."""
    return cast("np.ndarray", cv2.imencode(".png", PIXELS[number])[1]).tobytes()


def files(folder: Path, suffix: str = "png") -> list[Path]:
    """One image file a sample."""
    paths = [folder / f"{number:02}.{suffix}" for number in range(COUNT)]
    for number, path in enumerate(paths):
        path.write_bytes(encoded(number))
    return paths


@case
def pillow(folder: Path) -> Any:
    paths = files(folder)
    return Made(lambda _, index: np.asarray(Image.open(paths[index]))), [("05.png", (), True)]


@case
def pillow_of_an_open_file(folder: Path) -> Any:
    paths = files(folder)

    def make(_: Any, index: int) -> Any:
        with paths[index].open("rb") as file:
            return np.asarray(Image.open(file).convert("RGB"))

    return Made(make), [("05.png", (), True)]


@case
def opencv(folder: Path) -> Any:
    paths = files(folder)
    return Made(lambda _, index: cv2.imread(str(paths[index]))), [("05.png", (), True)]


@case
def bytes_decoded_after_others_were_read(folder: Path) -> Any:
    paths = files(folder)

    def make(_: Any, index: int) -> Any:
        content = paths[index].read_bytes()
        other = paths[(index + 1) % COUNT].read_bytes()
        return cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR), len(other)

    return Made(make), [("06.png", (), False), ("05.png", (), True)]


@case
def images_packed_in_one_file(folder: Path) -> Any:
    parts = [encoded(number) for number in range(COUNT)]
    starts = np.cumsum([0, *map(len, parts)]).tolist()
    (folder / "packed").write_bytes(b"".join(parts))

    def make(_: Any, index: int) -> Any:
        with (folder / "packed").open("rb") as file:
            file.seek(starts[index])
            return np.asarray(Image.open(io.BytesIO(file.read(starts[index + 1] - starts[index]))))

    return Made(make), [("packed", (starts[INDEX],), True)]


@case
def content_that_is_decrypted(folder: Path) -> Any:
    paths = files(folder, "bin")
    for path in paths:
        path.write_bytes(bytes(255 - byte for byte in path.read_bytes()))

    def make(_: Any, index: int) -> Any:
        content = bytes(255 - byte for byte in paths[index].read_bytes())
        return np.asarray(Image.open(io.BytesIO(content)))

    return Made(make), [("05.bin", (), False)]


@case
def content_of_a_file_that_is_always_open(folder: Path) -> Any:
    paths = files(folder)
    content = [path.read_bytes() for path in paths]
    for number, path in enumerate(paths):
        path.with_suffix(".json").write_text(json.dumps({"label": number}))

    def make(_: Any, index: int) -> Any:
        label = json.loads(paths[index].with_suffix(".json").read_text())["label"]
        return np.asarray(Image.open(io.BytesIO(content[index]))), label

    return Made(make), [("05.json", (), False)]


@case
def numpy_file(folder: Path) -> Any:
    for number in range(COUNT):
        np.save(folder / f"{number:02}.npy", VALUES)
    every = tuple(range(COUNT))
    return Made(lambda _, index: np.load(folder / f"{index:02}.npy")[2:4]), [("05.npy", every, True)]


@case
def mapped_numpy_file(folder: Path) -> Any:
    np.save(folder / "all.npy", VALUES)

    def make(_: Any, index: int) -> Any:
        return np.array(np.load(mmap_mode="r", file=folder / "all.npy")[index : index + 2])

    return Made(make), [("all.npy", (5, 6), True)]


@case
def mapped_array_and_a_view_of_it(folder: Path) -> Any:
    VALUES.tofile(folder / "raw")

    def make(_: Any, index: int) -> Any:
        rows = np.memmap(folder / "raw", np.float32, "r", shape=VALUES.shape)[index : index + 3]
        return np.array(rows[0])

    return Made(make), [("raw", (5, 6, 7), True)]


@case
def numbers_from_a_position(folder: Path) -> Any:
    VALUES.tofile(folder / "raw")
    return Made(lambda _, index: np.fromfile(folder / "raw", np.float32, 6, offset=index * 24)), [("raw", (30,), True)]


@case
def numpy_archive(folder: Path) -> Any:
    np.savez(folder / "all.npz", **{f"x{number}": VALUES[number] for number in range(COUNT)})
    return Made(lambda _, index: np.load(folder / "all.npz")[f"x{index}"]), [("all.npz::x5", tuple(range(6)), True)]


@case
def zip_of_images(folder: Path) -> Any:
    with zipfile.ZipFile(folder / "all.zip", "w") as archive:
        for number in range(COUNT):
            archive.writestr(f"{number}.png", encoded(number))
    opened = zipfile.ZipFile(folder / "all.zip")

    def make(_: Any, index: int) -> Any:
        with opened.open(f"{index}.png") as member, opened.open("0.png") as other:
            other.read(1)
            return np.asarray(Image.open(member))

    return Made(make), [("all.zip::0.png", (), False), ("all.zip::5.png", (), True)]


@case
def tar_of_arrays(folder: Path) -> Any:
    with tarfile.open(folder / "all.tar", "w") as archive:
        for number in range(COUNT):
            content = io.BytesIO()
            np.save(content, VALUES[number])
            info = tarfile.TarInfo(f"{number}.npy")
            info.size = len(content.getvalue())
            archive.addfile(info, io.BytesIO(content.getvalue()))
    opened = tarfile.open(folder / "all.tar")  # noqa: SIM115 - it stays open, as users leave it

    def make(_: Any, index: int) -> Any:
        member = opened.extractfile(f"{index}.npy")
        assert member is not None
        return np.load(io.BytesIO(member.read()))

    return Made(make), [("all.tar::5.npy", (), False)]


@case
def hdf5(folder: Path) -> Any:
    with h5py.File(folder / "all.h5", "w") as file:
        file["group/x"] = VALUES
        file["group/y"] = np.arange(COUNT)

    def make(_: Any, index: int) -> Any:
        with h5py.File(folder / "all.h5") as file:
            filled = np.empty((2, 6), np.float32)
            file["group/x"].read_direct(filled, np.s_[index : index + 2])
            return filled, file["group"]["y"][[index, index + 2]]

    return Made(make), [("all.h5::/group/x", (5, 6), True), ("all.h5::/group/y", (5, 7), True)]


@case
def columns_of_hdf5(folder: Path) -> Any:
    with h5py.File(folder / "all.h5", "w") as file:
        file["x"] = VALUES.T
        file["y"] = PIXELS.transpose(1, 2, 3, 0)

    def make(_: Any, index: int) -> Any:
        with h5py.File(folder / "all.h5") as file:
            return file["x"][:, index : index + 6], file["y"][..., index]

    return Made(make), [("all.h5::/x[:, *]", tuple(range(5, 11)), True), ("all.h5::/y[:, :, :, *]", (5,), True)]


@case
def columns_of_a_mapped_array(folder: Path) -> Any:
    np.save(folder / "all.npy", VALUES.T)
    rows = np.load(folder / "all.npy", mmap_mode="r")
    return Made(lambda _, index: np.array(rows[:, index : index + 6])), [("all.npy[:, *]", tuple(range(5, 11)), True)]


@case
def zarr(folder: Path) -> Any:
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(str(folder / "all.zarr"), mode="w")
    array = group.create_array("x", shape=VALUES.shape, chunks=(5, 6), dtype="f4")
    array[:] = VALUES

    def make(_: Any, index: int) -> Any:
        array = zarr.open_group(str(folder / "all.zarr"), mode="r")["x"]
        return array[index : index + 2], array.oindex[[index, 0]]

    return Made(make), [("all.zarr::x", (5, 6), True), ("all.zarr::x", (5, 0), True)]


@case
def lmdb(folder: Path) -> Any:
    lmdb = pytest.importorskip("lmdb")
    database = lmdb.open(str(folder / "all.lmdb"))
    with database.begin(write=True) as transaction:
        for number in range(COUNT):
            transaction.put(f"{number:03}".encode(), encoded(number))
    state: dict[str, Any] = {}

    def make(_: Any, index: int) -> Any:
        opened = state.setdefault("database", database)
        with opened.begin() as transaction:
            cursor = transaction.cursor()
            assert cursor.set_key(f"{index + 1:03}".encode())
            content, other = transaction.get(f"{index:03}".encode()), cursor.value()
            return cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR), len(other)

    return Made(make), [("all.lmdb", ("006",), False), ("all.lmdb", ("005",), True)]


@case
def sqlite(folder: Path) -> Any:
    connection = sqlite3.connect(folder / "all.db")
    connection.execute("CREATE TABLE images (id INTEGER, content BLOB)")
    connection.executemany("INSERT INTO images VALUES (?, ?)", [(one, encoded(one)) for one in range(COUNT)])
    connection.commit()

    def make(_: Any, index: int) -> Any:
        row = sqlite3.connect(folder / "all.db").execute("SELECT content FROM images WHERE id = ?", (index,)).fetchone()
        return np.asarray(Image.open(io.BytesIO(row[0])))

    return Made(make), [("all.db::SELECT content FROM images WHERE id = ?", (5,), True)]


@case
def duckdb(folder: Path) -> Any:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(folder / "all.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT i, i * i AS square FROM range(12) r(i)")

    def make(_: Any, index: int) -> Any:
        with duckdb.connect(str(folder / "all.duckdb"), read_only=True) as connection:
            return float(connection.execute("SELECT square FROM t WHERE i = ?", [index]).fetchone()[0])

    return Made(make), [("all.duckdb::SELECT square FROM t WHERE i = ?", (5,), False)]


@case
def pickled(folder: Path) -> Any:
    for number in range(COUNT):
        (folder / f"{number}.pkl").write_bytes(pickle.dumps({"x": VALUES[number]}))
    return Made(lambda _, index: pickle.loads((folder / f"{index}.pkl").read_bytes())["x"]), [("5.pkl", (), True)]


@case
def tensors(folder: Path) -> Any:
    for number in range(COUNT):
        torch.save(torch.tensor(VALUES), folder / f"{number}.pt")
    return Made(lambda _, index: torch.load(folder / f"{index}.pt")[2]), [("5.pt", tuple(range(COUNT)), True)]


@case
def pages_of_tiff(folder: Path) -> Any:
    tifffile.imwrite(folder / "all.tif", PIXELS[..., 0], photometric="minisblack")

    def make(_: Any, index: int) -> Any:
        with tifffile.TiffFile(folder / "all.tif") as file:
            return tifffile.imread(folder / "all.tif", key=index + 1), file.pages[index].asarray()

    return Made(make), [("all.tif", (6,), True), ("all.tif", (5,), True)]


@case
def pandas(folder: Path) -> Any:
    del folder
    frame = pd.DataFrame({"a": np.arange(COUNT), "b": list("abcdefghijkl")}, index=np.arange(100, 100 + COUNT))

    def make(self: Any, index: int) -> Any:
        return float(self.frame.iloc[index]["a"]), float(self.frame.loc[100 + index + 1, "a"])

    return Made(make, frame=frame), [("dataset.frame", (5,), False), ("dataset.frame", (6,), False)]


@case
def polars(folder: Path) -> Any:
    del folder
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"a": np.arange(COUNT), "b": list("abcdefghijkl")})

    def make(self: Any, index: int) -> Any:
        return self.frame.row(index)[0], self.frame["a"][index + 1], self.frame.slice(index, 2).to_numpy()[0, 0]

    rows: list[tuple[int, ...]] = [(5,), (6,), (5, 6)]
    return Made(make, frame=frame), [("dataset.frame", one, False) for one in rows]


@case
def parquet(folder: Path) -> Any:
    pytest.importorskip("pyarrow")
    for number in range(COUNT):
        pd.DataFrame({"a": np.arange(COUNT) + number}).to_parquet(folder / f"{number}.parquet")
    return Made(lambda _, index: float(pd.read_parquet(folder / f"{index}.parquet").iloc[3]["a"])), [
        ("5.parquet", (3,), False)
    ]


@case
def pyarrow(folder: Path) -> Any:
    del folder
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"a": np.arange(COUNT), "b": np.arange(COUNT) / 2})

    def make(self: Any, index: int) -> Any:
        first = self.table["a"][index].as_py()
        return first, self.table.slice(index + 1, 2).to_pydict()["b"], self.table.take([index, 1]).num_rows

    rows: list[tuple[int, ...]] = [(5,), (6, 7), (5, 1)]
    return Made(make, table=table), [("dataset.table", one, False) for one in rows]


@case
def shuffled_datasets(folder: Path) -> Any:
    datasets = pytest.importorskip("datasets")
    whole = datasets.Dataset.from_dict({"x": VALUES.tolist(), "y": list(range(COUNT))})
    whole.save_to_disk(folder / "saved")
    shuffled = datasets.load_from_disk(str(folder / "saved")).shuffle(seed=1).with_format("torch")
    row = shuffled[INDEX]["y"].item()
    (file,) = (folder / "saved").glob("data*.arrow")
    return Made(lambda self, index: self.rows[index]["x"], rows=shuffled), [(f"saved/{file.name}", (row,), True)]


def video(path: Path) -> Path:
    """A video whose frames differ; each is a key frame, so that every reader can seek."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 10, (64, 48))
    for number in range(COUNT + 8):
        writer.write(np.full((48, 64, 3), 10 * number, np.uint8))
    writer.release()
    return path


@case
def frames_of_opencv(folder: Path) -> Any:
    path = video(folder / "a.avi")

    def make(_: Any, index: int) -> Any:
        capture = cv2.VideoCapture(str(path))
        capture.set(cv2.CAP_PROP_POS_FRAMES, index)
        first = capture.read()[1]
        assert capture.grab()
        return first, capture.retrieve()[1]

    return Made(make), [("a.avi", (5,), True), ("a.avi", (6,), True)]


@case
def frames_of_decord(folder: Path) -> Any:
    decord = pytest.importorskip("decord")
    path = video(folder / "a.avi")

    def make(_: Any, index: int) -> Any:
        reader = decord.VideoReader(str(path))
        return reader.get_batch([index, index + 2]).asnumpy(), reader[index].asnumpy()

    return Made(make), [("a.avi", (5, 7), True), ("a.avi", (5,), True)]


@case
def frames_of_torchcodec(folder: Path) -> Any:
    decoders = importable("torchcodec.decoders", "no torchcodec, or no FFmpeg")
    path = video(folder / "a.avi")

    def make(_: Any, index: int) -> Any:
        decoder = decoders.VideoDecoder(str(path))
        return {
            "at": decoder.get_frames_at([index, index + 2]).data,
            "one": decoder[index + 1],
            "slice": decoder[index + 3 : index + 5],
            "range": decoder.get_frames_in_range(index, index + 5, 2).data / 255,
            "played": decoder.get_frame_played_at(index / 10).data,
            "times": decoder.get_frames_played_at([index / 10, index / 10 + 0.2]).data,
            "span": decoder.get_frames_played_in_range(index / 10 + 0.1, index / 10 + 0.3).data,
        }

    rows: list[tuple[int, ...]] = [(5, 7), (6,), (8, 9), (5, 7, 9)]
    times = [("0.500000 s",), ("0.500000 s", "0.700000 s"), ("0.600000 s",)]
    return Made(make), [("a.avi", one, True) for one in [*rows, *times]]


@case
def sound_of_torchcodec(folder: Path) -> Any:
    decoders = importable("torchcodec.decoders", "no torchcodec, or no FFmpeg")
    for number in range(COUNT):
        soundfile.write(folder / f"{number}.wav", np.random.default_rng(number).random(8000) - 0.5, 8000)

    def make(_: Any, index: int) -> Any:
        first = decoders.AudioDecoder(str(folder / f"{index}.wav")).get_samples_played_in_range(0.25, 0.5)
        return first.data, decoders.AudioDecoder(str(folder / f"{index + 1}.wav")).get_all_samples().data

    return Made(make), [("5.wav", ("0.250000 s",), True), ("6.wav", (), True)]


@case
def frames_of_pyav(folder: Path) -> Any:
    av = pytest.importorskip("av")
    path = video(folder / "a.avi")

    def make(_: Any, index: int) -> Any:
        with av.open(str(path)) as container:
            for number, frame in enumerate(container.decode(video=0)):
                if number == index:
                    return frame.to_ndarray(format="rgb24")
        raise IndexError(index)

    return Made(make), [("a.avi", (5,), True)]


@case
def sound(folder: Path) -> Any:
    for number in range(COUNT):
        soundfile.write(folder / f"{number}.wav", np.random.default_rng(number).random(800) / 2, 8000, "PCM_16")

    def make(_: Any, index: int) -> Any:
        window = soundfile.read(folder / f"{index}.wav", frames=100, start=300)[0]
        with soundfile.SoundFile(folder / f"{index + 1}.wav") as file:
            file.seek(40)
            second = file.read(100)
        with wave.open(str(folder / f"{index + 2}.wav")) as other:
            other.setpos(10)
            third = np.frombuffer(other.readframes(50), np.int16)
        return window, second, third, wavfile.read(folder / f"{index + 3}.wav")[1]

    expected = [("5.wav", (300,), True), ("6.wav", (40,), True), ("7.wav", (10,), True), ("8.wav", (), True)]
    return Made(make), expected


@case
def text(folder: Path) -> Any:
    for number in range(COUNT):
        (folder / f"{number}.csv").write_text("a,b\n1,2\n")
    return Made(lambda _, index: pd.read_csv(folder / f"{index}.csv").to_numpy()), [("5.csv", (), False)]


@case
def files_read_by_threads(folder: Path) -> Any:
    paths = files(folder)

    def make(_: Any, index: int) -> Any:
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(lambda path: np.asarray(Image.open(path)), [paths[index], paths[index + 1]]))

    return Made(make), [("05.png", (), True), ("06.png", (), True)]


@case
def read_under_a_lock_and_with_errors(folder: Path) -> Any:
    paths = files(folder)
    lock = threading.Lock()

    def make(_: Any, index: int) -> Any:
        with lock:
            assert cv2.imread(str(folder / "none.png")) is None
            try:
                Image.open(folder / "none.png")
            except FileNotFoundError:
                return np.asarray(Image.open(fp=paths[index]))

    return Made(make), [("05.png", (), True)]


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[SampleReads, list[Expected]]]:
    """What is seen of each dataset, in one fork."""
    root = tmp_path_factory.mktemp("readers")

    def run() -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, make in CASES.items():
            folder = root / name
            folder.mkdir()
            try:
                dataset, expected = make(folder)
                loader = DataLoader(dataset)
                sample = find_reads(loader, root, [0, 1, INDEX], 3)[2]
            except pytest.skip.Exception:
                continue
            except Exception as error:  # noqa: BLE001 - the test shows it
                found[name] = repr(error), []
            else:
                found[name] = sample, [(_full(folder, one), *rest) for one, *rest in expected]
        return found

    return isolated(run, root, timeout=100, allowed=100)


def _full(folder: Path, source: str) -> str:
    return source if source.startswith("dataset") else f"{folder.resolve()}/{source}"


@pytest.mark.scan
@pytest.mark.parametrize("name", CASES)
def test_what_a_sample_is_read_from(name: str, observed: dict[str, tuple[SampleReads, list[Expected]]]) -> None:
    if name not in observed:
        pytest.skip("not installed")
    sample, expected = observed[name]
    assert isinstance(sample, SampleReads), sample
    reads = [(read.name, read.rows, read.changeable) for read in sample.reads]
    assert (sorted(reads, key=str) if "threads" in name else reads) == expected
    units = {(source, row) for source, rows, changeable in expected if changeable for row in rows or (None,)}
    found = {
        (read.name, row)
        for leaf in sample.leaves
        for read in leaf.reads
        if read is not None
        for row in read.rows or (None,)
    }
    assert found <= units
    assert {source for source, _ in found} == {source for source, _ in units}


def outcomes(folder: Path) -> list[str]:
    """What calls of known functions return or raise, with arguments of all kinds."""
    any_cv2: Any = cv2
    any_numpy: Any = np
    np.save(folder / "x.npy", VALUES)
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t AS SELECT 1 AS a UNION SELECT 2")
    mapped: Any = np.load(folder / "x.npy", mmap_mode="r")
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"a": [1, 2, 3]})
    (folder / "x.png").write_bytes(encoded(0))
    soundfile.write(folder / "x.wav", np.zeros(100), 8000)
    file = h5py.File(folder / "x.h5", "a")
    file.require_dataset("x", (3, 2), "f4")
    capture: Any = cv2.VideoCapture(str(video(folder / "x.avi")))
    calls: list[Callable[[], Any]] = [
        lambda: any_numpy.load(file=folder / "x.npy", allow_pickle=False),
        lambda: any_numpy.load(folder / "none.npy"),
        lambda: any_numpy.load(folder / "x.npy", mode="r"),
        lambda: mapped[3:5],
        lambda: mapped[3:5][1, ...],
        lambda: mapped[1, 2],
        lambda: mapped["a"],
        lambda: np.frombuffer(b"12345678", dtype=np.int32, count=1, offset=4),
        lambda: any_numpy.frombuffer(b"123", np.int32),
        lambda: pickle.loads(pickle.dumps({1: 2})),
        lambda: pickle.loads(b"nonsense"),
        lambda: table["a"][1],
        lambda: table["a"][9],
        lambda: table.slice(1).to_pydict(),
        lambda: list(connection.execute("SELECT a FROM t WHERE a > ?", (0,))),
        lambda: connection.execute("SELECT nothing").fetchall(),
        lambda: any_cv2.imread(filename=str(folder / "x.png"), flags=0).shape,
        lambda: any_cv2.imread(str(folder / "none.png")),
        lambda: any_cv2.imread(1, 2, 3, 4),
        lambda: Image.open(folder / "x.png").size,
        lambda: Image.open(io.BytesIO(b"nonsense")),
        lambda: soundfile.read(file=folder / "x.wav", dtype="int16", always_2d=True)[0].shape,
        lambda: file["x"][()].shape,
        lambda: file["x"][[2, 1]],
        lambda: capture.read()[1].shape,
        lambda: capture.read(1, 2, 3),
        lambda: pd.DataFrame({"a": [1, 2]}).loc[0, "a"],
        lambda: pd.DataFrame({"a": [1, 2]}).loc[7],
        lambda: torch.load(folder / "none.pt"),
    ]
    return [_outcome(one) for one in calls]


def _outcome(call: Callable[[], Any]) -> str:
    try:
        result = call()
    except Exception as error:  # noqa: BLE001 - it is compared
        result = error
    return f"{type(result)} {re.sub('0x[0-9a-f]+', '', repr(result))}"


@pytest.mark.scan
def test_known_functions_behave_as_before(tmp_path: Path) -> None:
    def run() -> tuple[list[str], list[str]]:
        before = outcomes(tmp_path)
        log = ReadLog()
        with log.recorded():
            after = outcomes(tmp_path)
        assert len(log.reads) > 8
        return before, after

    before, after = isolated(run, tmp_path, timeout=100, allowed=100)
    assert after == before


def test_the_known_functions_are_there() -> None:
    """Of libraries that are installed: a name that is wrong would never be noticed."""
    missing = []
    for reader in READERS:
        try:
            import_module(reader.module)
        except ImportError:  # not installed, or of an older version
            continue
        owner, function = function_of(reader)
        if owner is not None and not callable(function):
            missing.append(f"{reader.module}.{reader.owner}.{reader.name}")
    assert missing == []
