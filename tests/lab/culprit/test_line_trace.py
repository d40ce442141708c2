"""The line that catches an error, drops a result, goes on with a generator, or gives a part to a loader."""

from __future__ import annotations

import contextlib
import linecache
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset

from dataguard.lab.culprit.construction import line_that_shares, place_of_part, selects
from dataguard.lab.culprit.line_trace import LineTrace, content_of, line_of_difference, line_only_in
from dataguard.lab.reading.open_files import opening_line

MARK = "# here"


def is_marked(place: Sequence[Any] | None) -> bool:
    return place is not None and MARK in linecache.getline(place[0], place[1])


def suppressing(path: str) -> str:
    text = "nothing"
    with contextlib.suppress(OSError):  # here
        text = Path(path).read_text(encoding="utf-8")
    return text


def catching(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:  # here
        return "nothing"


def passing_on(path: str) -> str:
    with contextlib.suppress(OSError), contextlib.ExitStack():
        return Path(path).read_text(encoding="utf-8")
    return "nothing"  # here


@pytest.mark.parametrize("read", [suppressing, catching, passing_on])
def test_the_line_that_catches_an_error(read: Callable[[str], str]) -> None:
    assert is_marked(line_only_in(lambda: read("missing"), lambda: read(__file__)))


def test_nothing_is_caught_in_two_equal_reads() -> None:
    assert line_only_in(lambda: suppressing("missing"), lambda: suppressing("missing")) is None


def flipped(mask: np.ndarray) -> np.ndarray:
    mask.sum(axis=0)  # here
    len(mask)
    np.negative(mask, out=mask)
    return mask


def test_a_result_that_is_dropped_is_computed_once_more() -> None:
    mask = np.arange(12.0).reshape(3, 4)
    trace = LineTrace(lambda array: array.shape if array.ndim else None, {}, dropping=True)
    with trace.following():
        flipped(mask)
    (look,) = trace.dropped()
    assert is_marked((look.file, look.line))
    assert look.state == (4,)


class Labels:
    """Labels that a generator yields, whatever the index."""

    def __init__(self) -> None:
        self.labels = self._labels()

    def _labels(self) -> Iterator[int]:
        while True:
            yield from range(5)

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index, next(self.labels)  # here


def test_a_generator_that_goes_on_is_a_state() -> None:
    labels = Labels()
    labels[0]
    assert is_marked(line_of_difference(lambda: labels[3], {"dataset": labels}))


def test_lists_of_arrays_in_a_dictionary_are_followed() -> None:
    def sample() -> dict[str, list[np.ndarray]]:
        return {"images": [np.full(3, 2.0) for _ in range(2)]}  # here

    trace = LineTrace(content_of, {})
    with trace.following():
        sample()
    assert "return['images'][1]" in [look.name for look in trace.looks if is_marked((look.file, look.line))]


class Rows(Dataset[int]):
    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __getitem__(self, index: int) -> Any:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)


def converted() -> DataLoader[Any]:
    rows = np.arange(8)
    chosen = rows[2:]  # here
    data = Rows(rows)
    return DataLoader(Subset(data, chosen.tolist()))


def selected() -> DataLoader[Any]:
    rows = np.arange(8)
    return DataLoader(Rows(rows[2:].tolist()))  # here


def half(rows: np.ndarray) -> Any:
    return rows[::2].tolist()


def chosen_by_function() -> DataLoader[Any]:
    rows = np.arange(8)
    return DataLoader(Rows(half(rows)))  # here


@pytest.mark.skipif("not hasattr(is_marked.__code__, 'co_positions')", reason="Python 3.10 knows no columns")
@pytest.mark.parametrize("factory", [converted, selected, chosen_by_function])
def test_a_converted_argument_is_decided_where_its_variable_is(factory: Callable[[], DataLoader[Any]]) -> None:
    found = place_of_part(factory, factory, lambda _: ["dataset"], selects)
    assert found
    assert is_marked(found[1])


class Once(Rows):
    """Rows that one line makes."""


def once() -> DataLoader[Any]:
    return DataLoader(Once([1, 2]))  # here


if __name__ == "__main__":
    Once([])


@pytest.mark.parametrize(("factory", "is_shown"), [(once, True), (selected, False)])
def test_without_another_call_of_the_factory_the_only_line_that_calls_a_class_is_shown(
    factory: Callable[[], DataLoader[Any]], is_shown: bool
) -> None:
    found = place_of_part(factory, None, lambda _: ["dataset"], selects)
    assert (found is not None) == is_shown
    assert found is None or is_marked(found[1])


def sharing() -> tuple[DataLoader[Any], DataLoader[Any]]:
    first, second = Rows([1, 2]), Rows([3, 4])
    training: DataLoader[Any] = DataLoader(ConcatDataset([first, second]))
    return DataLoader(second), training  # here


def apart() -> tuple[DataLoader[Any], DataLoader[Any]]:
    data = Rows(range(8))
    return DataLoader(Subset(data, [0, 1])), DataLoader(Subset(data, [2, 3]))


def test_a_dataset_that_two_loaders_have_is_shown_where_the_first_gets_it() -> None:
    assert is_marked(line_that_shares(sharing))
    assert line_that_shares(apart) is None


class Lines(Rows):
    def __init__(self, path: str) -> None:
        super().__init__(range(4))
        Path(path).read_bytes()
        self.file = open(path, "rb")  # noqa: SIM115, PTH123 # here


def test_the_line_that_opens_a_file(tmp_path: Path) -> None:
    loaders: list[DataLoader[Any]] = []

    def again() -> DataLoader[Any]:
        loaders.append(DataLoader(Lines(__file__)))
        return loaders[-1]

    assert is_marked(opening_line(again, tmp_path, "dataset.file"))
    assert opening_line(again, tmp_path, "dataset.other") is None
    for loader in loaders:
        loader.dataset.file.close()  # type: ignore[attr-defined]
