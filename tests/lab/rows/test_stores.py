"""Which rows of what a dataset holds each position of a sample depends on; and that nothing of it stays changed."""

from __future__ import annotations

import datetime
import multiprocessing
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset

from dataguard.lab.provenance.altered_values import altered
from dataguard.lab.rows.origins import SampleRows
from dataguard.lab.rows.row_changes import range_of
from dataguard.lab.rows.rows_changed import RowTracer, values_of
from dataguard.lab.rows.stores import held_stores, store_of

COUNT, INDEX, WIDTH = 40, 7, 4
WINDOW = tuple(range(INDEX, INDEX + WIDTH))
NUMBERS = np.random.default_rng(0).random((COUNT, 3), np.float32)
IMAGES = np.random.default_rng(1).integers(0, 255, (COUNT, 8, 8, 3), np.uint8)
LABELS = np.random.default_rng(2).integers(0, 5, COUNT)
WORDS = [f"word {number % 7} of {number}" for number in range(COUNT)]

Make = Callable[[Any, int], Any]
Found = dict[tuple[str, str], tuple[int | None, tuple[int, ...]]]


class Held(Dataset[Any]):
    """A dataset that makes samples of what it holds."""

    def __init__(self, make: Make, **held: Any) -> None:
        self._make = make
        self.__dict__.update(held)

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: Any) -> Any:
        return self._make(self, index)


class Slotted(Dataset[Any]):
    """A dataset without a `__dict__` of its own class."""

    __slots__ = ("_x",)

    def __init__(self) -> None:
        self._x = NUMBERS.copy()

    def __getitem__(self, index: int) -> Any:
        return self._x[index : index + WIDTH]


def traced(dataset: Any, index: int = INDEX) -> SampleRows:
    """The rows of all that a dataset holds; random numbers are the same at each read."""

    def read(given: Any) -> Any:
        torch.manual_seed(0)
        return dataset[given]

    return RowTracer(read, held_stores(dataset)).trace(index)


def rows_by_leaf(dataset: Any, index: int = INDEX) -> Found:
    """The axis and the rows of each leaf, by its path and the source."""
    return {(leaf.path, leaf.source): (leaf.axis, leaf.rows) for leaf in traced(dataset, index).leaves}


def window(table: Any, index: int) -> Any:
    """Some rows."""
    return table[index : index + WIDTH]


def rescaled(self: Any, index: int) -> Any:
    """A window with random scale and noise, as in augmentation."""
    rows = torch.as_tensor(window(self.x, index))
    return rows * (1 + torch.rand(())) + torch.randn(rows.shape) * 0.01


READ_ONLY = np.frombuffer(NUMBERS.tobytes(), np.float32).reshape(COUNT, 3)
UNLIKE = np.array([f"{'x' * (number % 9)}{number % 3}" for number in range(COUNT)], object)
VIEWS: dict[str, tuple[Any, Make]] = {
    "a view": (NUMBERS.copy(), lambda self, i: window(self.x, i)),
    "random scale and noise": (NUMBERS.copy(), rescaled),
    "normalized": (NUMBERS.copy(), lambda self, i: (window(self.x, i) - 0.4) / 0.2),
    "a tensor": (torch.tensor(NUMBERS), lambda self, i: window(self.x, i)),
    "a shared tensor": (torch.tensor(NUMBERS).share_memory_(), lambda self, i: window(self.x, i)),
    "bfloat16": (torch.tensor(NUMBERS).bfloat16(), lambda self, i: window(self.x, i).float()),
    "bool": (NUMBERS > 0.5, lambda self, i: window(self.x, i)),
    "float16": (NUMBERS.astype(np.float16), lambda self, i: window(self.x, i)),
    "complex": (NUMBERS.astype(np.complex64), lambda self, i: window(self.x, i)),
    "NaN": (np.where(NUMBERS > 0.7, np.nan, NUMBERS), lambda self, i: window(self.x, i)),
    "hashes": (np.arange(COUNT, dtype=np.uint64) << np.uint64(58), lambda self, i: window(self.x, i)),
    "datetimes": (np.arange(COUNT).astype("M8[h]"), lambda self, i: window(self.x, i)),
    "words": (np.array(WORDS), lambda self, i: window(self.x, i)),
    "an array of objects": (UNLIKE, lambda self, i: np.array([len(one) for one in window(self.x, i)] * 5)[:WIDTH]),
    "a list of arrays": (list(NUMBERS), lambda self, i: np.stack(window(self.x, i))),
    "a list of numbers": (LABELS.tolist(), lambda self, i: np.array(window(self.x, i))),
    "a list of records": (
        [{"a": number / 7} for number in range(COUNT)],
        lambda self, i: np.array([one["a"] for one in window(self.x, i)]),
    ),
    "a dict of arrays": (
        {"episode_0": NUMBERS[:30].copy(), "episode_1": NUMBERS[30:].copy()},
        lambda self, i: window(self.x["episode_0"], i),
    ),
    "one-hot labels": (LABELS.copy(), lambda self, i: np.eye(5)[window(self.x, i)]),
    "a masked array": (np.ma.masked_array(NUMBERS.copy()), lambda self, i: np.array(window(self.x, i))),
    "read-only memory": (READ_ONLY, lambda self, i: window(self.x, i)),
    "every second of an array": (np.repeat(NUMBERS, 2, 0)[::2], lambda self, i: window(self.x, i)),
    "a structured array": (
        np.array(list(zip(NUMBERS[:, 0], LABELS, strict=True)), [("a", "f4"), ("b", "i8")]),
        lambda self, i: np.array(window(self.x, i)["a"]),
    ),
}


@pytest.mark.parametrize("name", VIEWS)
def test_rows_of_a_window(name: str) -> None:
    held, make = VIEWS[name]
    before = repr(held)
    ((source, (axis, rows)),) = rows_by_leaf(Held(make, x=held)).items()
    assert source in (("", "dataset.x"), ("", "dataset.x[*]"))
    assert axis == 0
    if name == "an array of objects":  # two rows may have the same length
        assert all(row in (known, -1) for row, known in zip(rows, WINDOW, strict=True))
    else:
        assert rows == WINDOW
    assert repr(held) == before


def table() -> pd.DataFrame:
    """A table of all types of pandas."""
    return pd.DataFrame(
        {
            "whole": np.arange(COUNT),
            "float": NUMBERS[:, 0],
            "other": NUMBERS[:, 1],
            "flag": np.arange(COUNT) % 3 == 0,
            "day": pd.date_range("2026", periods=COUNT),
            "kind": pd.Categorical(np.array(["a", "b", "c"])[np.arange(COUNT) % 3]),
            "nullable": pd.array(np.arange(COUNT), dtype="Int64"),
            "word": WORDS,
            "object": pd.Series([datetime.date(2026, 1, 1 + number % 28) for number in range(COUNT)], dtype=object),
        }
    )


def in_arrow() -> Any:
    """A table of pyarrow of many types."""
    pa = pytest.importorskip("pyarrow")
    columns = {
        "whole": pa.array(range(COUNT)),
        "float": pa.array(NUMBERS[:, 0]),
        "flag": pa.array([number % 3 == 0 for number in range(COUNT)]),
        "day": pa.array([datetime.date(2026, 1, 1 + number % 28) for number in range(COUNT)]),
        "kind": pa.array(["abc"[number % 3] for number in range(COUNT)]).dictionary_encode(),
        "word": pa.array([f"{number:03}" for number in range(COUNT)]),
        "large": pa.array([f"{number:03}" for number in range(COUNT)], pa.large_string()),
        "bytes": pa.array([bytes([number, 1, 2]) for number in range(COUNT)]),
        "list": pa.array([[number, number + 1] for number in range(COUNT)]),
        "even": pa.array([[number, number + 1] for number in range(COUNT)], pa.list_(pa.int64(), 2)),
        "record": pa.array([{"a": number / 2} for number in range(COUNT)]),
        "decimal": pa.array(range(COUNT)).cast(pa.decimal128(24, 2)),
    }
    whole = pa.table(columns)
    return pa.concat_tables([whole.slice(0, 9), whole.slice(9)])


def in_polars() -> Any:
    """A table of polars of many types."""
    pl = pytest.importorskip("polars")
    return pl.DataFrame(
        {
            "whole": np.arange(COUNT),
            "float": NUMBERS[:, 0],
            "flag": [number % 3 == 0 for number in range(COUNT)],
            "day": [datetime.date(2026, 1, 1 + number % 28) for number in range(COUNT)],
            "kind": pl.Series(["abc"[number % 3] for number in range(COUNT)], dtype=pl.Categorical),
            "word": WORDS,
            "long": [f"a word that is longer than twelve bytes, {number}" for number in range(COUNT)],
            "list": [[number, number + 1] for number in range(COUNT)],
        }
    )


TABLES: dict[str, tuple[Callable[[], Any], Callable[[Any, str, int], Any]]] = {
    "pandas": (table, lambda frame, name, i: frame[name].iloc[i]),
    "pandas by row": (table, lambda frame, name, i: frame.iloc[i][name]),
    "a series": (lambda: table()["word"], lambda frame, name, i: frame.iloc[i]),
    "pyarrow": (in_arrow, lambda frame, name, i: frame[name][i].as_py()),
    "polars": (in_polars, lambda frame, name, i: frame[name][i]),
    "polars by row": (in_polars, lambda frame, name, i: frame.row(i, named=True)[name]),
}


def plain(held: Any) -> str:
    """All values of a table."""
    return str(
        held.to_pydict() if hasattr(held, "to_pydict") else held.to_dict(**AS_LISTS.get(type(held).__module__, {}))
    )


AS_LISTS: dict[str, dict[str, Any]] = {"polars.dataframe.frame": {"as_series": False}}


@pytest.mark.parametrize("name", TABLES)
def test_rows_and_columns_of_a_table(name: str) -> None:
    make, value_of = TABLES[name]
    held = make()
    before = plain(held)
    columns = getattr(held, "column_names", None) or getattr(held, "columns", ["word"])
    for column in columns:
        dataset = Held(lambda self, i: repr(value_of(self.table, self.column, i)), table=held, column=column)
        (leaf,) = traced(dataset).leaves
        (store,) = held_stores(dataset)
        assert (leaf.source, leaf.rows) == ("dataset.table", (INDEX,)), column
        assert [store.columns[number].partition(".")[0] for number in leaf.columns] == [column]
    assert plain(held) == before


@pytest.mark.parametrize("mapped", [False, True])
def test_rows_of_datasets(mapped: bool, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    pillow = pytest.importorskip("PIL.Image")
    images = [pillow.fromarray(image) for image in IMAGES]
    whole = datasets.Dataset.from_dict(
        {"image": images, "tokens": [[number, number + 1] for number in range(COUNT)], "label": LABELS.tolist()},
        features=datasets.Features(
            image=datasets.Image(), tokens=datasets.List(datasets.Value("int64")), label=datasets.Value("int64")
        ),
    )
    if mapped:
        whole.save_to_disk(tmp_path / "saved")
        whole = datasets.load_from_disk(str(tmp_path / "saved"))
    content = [path.read_bytes() for path in sorted(tmp_path.rglob("*.arrow"))]
    shuffled = whole.shuffle(seed=3)
    row = int(shuffled._indices.column(0)[INDEX].as_py())
    before = str(shuffled[INDEX]["tokens"]), np.asarray(shuffled[INDEX]["image"]).tobytes()
    found = rows_by_leaf(Held(lambda self, i: dict(self.table[i]), table=shuffled))
    one = (None, (row,))
    leaves = ["['label']", "['tokens'][0]", "['tokens'][1]"]
    assert {path: rows for (path, _), rows in found.items() if path in leaves} == dict.fromkeys(leaves, one)
    assert set(found.values()) == {one}
    assert (str(shuffled[INDEX]["tokens"]), np.asarray(shuffled[INDEX]["image"]).tobytes()) == before
    assert [path.read_bytes() for path in sorted(tmp_path.rglob("data*.arrow"))] == content[:1]


@pytest.mark.parametrize(
    "open_file",
    [
        pytest.param(lambda path: np.memmap(path, np.float32, "r", shape=(COUNT, 3)), id="memmap"),
        pytest.param(lambda path: np.memmap(path, np.float32, "r+", shape=(COUNT, 3)), id="memmap for writing"),
        pytest.param(lambda path: np.memmap(path, np.float32, "c", shape=(COUNT, 3)), id="memmap of copies"),
        pytest.param(
            lambda path: torch.from_file(str(path), True, COUNT * 3).reshape(COUNT, 3), id="from_file, shared"
        ),
        pytest.param(lambda path: torch.from_file(str(path), False, COUNT * 3).reshape(COUNT, 3), id="from_file"),
    ],
)
def test_a_mapped_file_never_changes(open_file: Any, tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    NUMBERS.tofile(path)
    other = np.memmap(path, np.float32, "r", shape=(COUNT, 3))
    seen = []

    def make(self: Any, index: int) -> Any:
        seen.append((path.read_bytes() == NUMBERS.tobytes(), bool((np.array(other) == NUMBERS).all())))
        return window(self.mapped, index) + 0

    dataset = Held(make, mapped=open_file(path))
    assert rows_by_leaf(dataset) == {("", "dataset.mapped"): (0, WINDOW)}
    assert set(seen) == {(True, True)}
    assert np.array_equal(dataset[INDEX], NUMBERS[INDEX : INDEX + WIDTH])


def test_a_mapped_arrow_file_never_changes(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    path = tmp_path / "table.arrow"
    whole = pa.table({"a": NUMBERS[:, 0], "word": [f"{number:03}" for number in range(COUNT)]})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, whole.schema) as writer:
        writer.write_table(whole)
    content, seen = path.read_bytes(), []
    mapped = pa.ipc.open_file(pa.memory_map(str(path))).read_all()

    def make(self: Any, index: int) -> Any:
        seen.append(path.read_bytes() == content)
        return self.mapped["a"][index].as_py(), self.mapped["word"][index].as_py()

    found = rows_by_leaf(Held(make, mapped=mapped))
    assert found == {(path, "dataset.mapped"): (None, (INDEX,)) for path in ("[0]", "[1]")}
    assert set(seen) == {True}
    assert mapped.equals(whole)


@pytest.mark.scan
def test_another_process_sees_no_change() -> None:
    shared = torch.tensor(NUMBERS).share_memory_()
    context = multiprocessing.get_context("fork")
    asked, answers = context.Queue(), context.Queue()

    def look() -> None:
        while asked.get():
            answers.put(bool((shared == torch.tensor(NUMBERS)).all()))

    process = context.Process(target=look)
    process.start()
    seen = []

    def make(self: Any, index: int) -> Any:
        asked.put(True)
        seen.append(answers.get(timeout=60))
        return window(self.shared, index)

    try:
        assert rows_by_leaf(Held(make, shared=shared)) == {("", "dataset.shared"): (0, WINDOW)}
    finally:
        asked.put(False)
        process.join(60)
    assert set(seen) == {True}


def test_rows_inside_other_datasets() -> None:
    x, y = torch.tensor(NUMBERS), torch.tensor(LABELS)
    pairs = TensorDataset(x, y)
    chosen = Subset(pairs, list(range(COUNT - 1, -1, -1)))
    row = (None, (COUNT - 1 - INDEX,))
    assert rows_by_leaf(chosen) == {
        ("[0]", "dataset.dataset.tensors[0]"): row,
        ("[1]", "dataset.dataset.tensors[1]"): row,
    }
    several: Dataset[Any] = ConcatDataset(
        [TensorDataset(torch.tensor(NUMBERS[start : start + 10])) for start in range(0, COUNT, 4)]
    )
    assert rows_by_leaf(several, 23) == {("[0]", "dataset.datasets[2].tensors[0]"): (None, (3,))}
    assert rows_by_leaf(Slotted()) == {("", "dataset._x"): (0, WINDOW)}


def test_a_window_of_two_arrays_and_an_image() -> None:
    def make(self: Any, index: int) -> Any:
        image = np.ascontiguousarray(self.images[index, ::-1].transpose(2, 0, 1))
        smaller = torch.nn.functional.avg_pool2d(torch.tensor(image, dtype=torch.float32) / 255, 2)
        return {"image": smaller, "label": int(self.labels[index + 1]), "mean": self.x[index : index + 2].mean()}

    found = rows_by_leaf(Held(make, images=IMAGES.copy(), labels=LABELS.copy(), x=NUMBERS.copy()))
    assert found == {
        ("['image']", "dataset.images"): (None, (INDEX,)),
        ("['label']", "dataset.labels"): (None, (INDEX + 1,)),
        ("['mean']", "dataset.x"): (None, (-2,)),
    }


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(np.linspace(0, 1, COUNT), id="floats"),
        pytest.param(np.arange(COUNT), id="integers"),
        pytest.param(np.arange(COUNT).astype("M8[h]"), id="times"),
        pytest.param(np.arange(COUNT, dtype=np.uint8), id="bytes"),
    ],
)
def test_differences_of_neighbours_depend_on_several_rows(held: Any) -> None:
    found = rows_by_leaf(Held(lambda self, i: np.diff(window(self.x, i)), x=held))
    assert found == {("", "dataset.x"): (None, (-2,))}


def test_cached_samples_are_unknown() -> None:
    cache: dict[int, Any] = {}

    def make(self: Any, index: int) -> Any:
        if index not in cache:
            cache[index] = self.x[index].copy()
        return cache[index]

    dataset = Held(make, x=NUMBERS.copy())
    _ = dataset[INDEX]
    assert rows_by_leaf(dataset) == {}


def test_a_dataset_that_raises_while_rows_are_changed() -> None:
    numbers = NUMBERS.copy()

    def make(self: Any, index: int) -> Any:
        if not np.array_equal(self.x, NUMBERS):
            raise ValueError("the checksum is wrong")
        return self.x[index]

    assert rows_by_leaf(Held(make, x=numbers)) == {}
    assert np.array_equal(numbers, NUMBERS)


@pytest.mark.parametrize("name", [*VIEWS, *TABLES])
def test_all_is_restored_after_an_exception(name: str) -> None:
    held = VIEWS[name][0] if name in VIEWS else TABLES[name][0]()
    store = store_of("x", held)
    assert store is not None
    before = repr(held)
    with pytest.raises(KeyboardInterrupt), store.changed(np.arange(3, COUNT)):
        raise KeyboardInterrupt
    assert repr(held) == before


class Opaque:
    """An object that raises when it is inspected."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __len__(self) -> int:
        raise RuntimeError

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.filterwarnings("ignore:.*quantized tensor")
@pytest.mark.filterwarnings("ignore:.*nested tensors")
def test_what_cannot_be_changed_is_left_out() -> None:
    sparse = torch.eye(COUNT).to_sparse()
    held = {
        "opaque": Opaque(),
        "lock": threading.Lock(),
        "opaques": [Opaque() for _ in range(COUNT)],
        "sparse": sparse,
        "meta": torch.empty(COUNT, device="meta"),
        "quantized": torch.quantize_per_tensor(torch.rand(COUNT), 0.1, 0, torch.qint8),
        "nested": torch.nested.nested_tensor([torch.rand(2), torch.rand(3)]),
        "conjugated": torch.rand(COUNT, dtype=torch.complex64).conj(),
        "expanded": torch.rand(1).expand(COUNT),
        "scalar": np.array(3.0),
        "empty": np.empty((0, 3)),
        "none": np.empty((COUNT, 0)),
        "objects": np.array([[None] * 3] * COUNT, object),
        "large": np.lib.stride_tricks.as_strided(np.zeros(1), (1 << 40,), (0,)),
        "huge integers": [1 << 200] * COUNT,
        "mixed": [1, "a", None, 2.5] * 3,
        "generator": (number for number in range(3)),
        "functions": [np.sin] * COUNT,
        "set": set(range(COUNT)),
        "x": NUMBERS.copy(),
    }
    threads: list[threading.Thread] = []

    def make(self: Any, index: int) -> Any:
        out: list[Any] = []
        thread = threading.Thread(target=lambda: out.append(self.x[index]))
        threads.append(thread)
        with self.lock:
            thread.start()
            thread.join()
        return out[0]

    assert rows_by_leaf(Held(make, **held)) == {("", "dataset.x"): (None, (INDEX,))}


def test_a_list_of_many_arrays() -> None:
    parts = [np.random.default_rng(number).random((5 + number % 3, 2)) for number in range(4096)]
    dataset = Held(lambda self, i: self.parts[i][1:4], parts=parts)
    (store,) = held_stores(dataset)
    first = store.starts[2000] + 1
    assert rows_by_leaf(dataset, 2000) == {("", "dataset.parts[*]"): (0, (first, first + 1, first + 2))}


@pytest.mark.parametrize("kind", [np.float32, np.uint8])
def test_a_large_array(kind: Any) -> None:
    """Of 150 MB: a second is left for it where a sample takes a millisecond (0.2 to 0.6 s were measured)."""
    rows = np.tile(np.arange(250).astype(kind), 600_000 // np.dtype(kind).itemsize).reshape(-1, 10, 10)
    dataset, row = Held(lambda self, i: self.rows[i : i + 3], rows=rows), len(rows) // 2
    assert rows_by_leaf(dataset, row) == {("", "dataset.rows"): (0, (row, row + 1, row + 2))}


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(np.array([0.1, 0.5, 0.9], np.float32), id="array"),
        pytest.param(np.array(0.5), id="array without an axis"),
        pytest.param(torch.tensor([[1, 2], [3, 4]], dtype=torch.uint8), id="tensor"),
        pytest.param(torch.tensor(0.5), id="tensor without an axis"),
        pytest.param([1, 2, 3], id="list"),
        pytest.param((16_000, np.arange(5)), id="sound and its rate"),
        pytest.param({"a": torch.rand(3), "b": [1.5, 2.5]}, id="dict"),
    ],
)
def test_other_values_have_the_same_type_and_shape(value: Any) -> None:
    other = altered(value, None)
    assert type(other) is type(value)
    assert repr(other) != repr(value)
    for path, before in values_of(value).items():
        after = values_of(other)[path]
        assert (after.dtype, after.shape) == (before.dtype, before.shape)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.int64, np.uint64, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("by_column", [False, True])
def test_each_moved_value_differs_and_stays_in_the_range(kind: Any, by_column: bool) -> None:
    values = (np.random.default_rng(0).random((2000, 3)) * [1, 5, 100]).astype(kind)
    values[:, 0] = np.arange(2000) % 2
    whole = range_of(values, by_column=by_column)
    moved = whole.moved(values, np.arange(len(values)))
    assert moved.dtype == values.dtype
    assert (moved != values).all()
    assert (moved >= whole.low).all()
    assert (moved <= whole.high).all()


class Nothing:
    """What a sample reads that keeps its file open: nothing, from the second read on."""

    path, count, bytes = "reads", 0, 0
    starts: tuple[int, ...] = ()
    columns: tuple[str, ...] = ()

    def changed(self, rows: np.ndarray, columns: Any = None) -> Any:
        raise AssertionError("there is nothing to change")


def test_nothing_is_changed_where_nothing_is_read() -> None:
    assert RowTracer(lambda _: torch.zeros(3), [Nothing()]).trace(0).leaves == ()
