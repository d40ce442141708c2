"""Rows of tables that name files, and what a sample has of them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from dataguard.checks.common.next_rows import is_next as follows
from dataguard.lab.provenance.named_records import tables_of
from dataguard.lab.provenance.refitting import _is_filled

ROWS = [("a.png", "cat"), ("b.png", "dog"), ("c.png", "cow")]
TEXTS = {
    "comma": "".join(f"{name},{word}\n" for name, word in ROWS),
    "tab": "".join(f"img/{name}\t{word} on a mat, asleep\n" for name, word in ROWS),
    "blank": "".join(f"{name} {word}{' and more' * place}\n" for place, (name, word) in enumerate(ROWS)),
    "list": json.dumps([{"file": name, "label": word} for name, word in ROWS]),
    "lines": "".join(f"{json.dumps({'file': name, 'label': word})}\n" for name, word in ROWS),
    "names": json.dumps(dict(ROWS)),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_contents_of_rows_are_exchanged_and_names_stay(kind: str) -> None:
    table = tables_of("labels", TEXTS[kind])
    assert table is not None
    column, rows = table.named(["/data/a.png", "/data/b.png", "/data/other.png"])
    assert rows == {"/data/a.png": 0, "/data/b.png": 1}
    text = table.exchanged(column, {0: 1, 1: 0})
    again = tables_of("labels", text)
    assert again is not None
    assert again.named(["/data/a.png"])[1] == {"/data/a.png": 0}
    assert [again.contents(row, column) for row in (0, 1)] == [table.contents(row, column) for row in (1, 0)]
    assert again.contents(2, column) == table.contents(2, column)


def test_a_file_that_several_rows_name_has_no_row_of_its_own() -> None:
    boxes = tables_of("boxes", "a.png,1\na.png,2\nb.png,3\n")
    frames = tables_of("frames", "a.png,b.png,1\nb.png,c.png,2\nc.png,d.png,3\n")
    assert boxes is not None
    assert frames is not None
    assert boxes.named(["/a.png", "/b.png"])[1] == {"/b.png": 2}
    assert frames.named(["/b.png", "/c.png"])[1] == {}, "the next frame is named beside it"


@pytest.mark.parametrize(
    ("places", "is_next"),
    [
        ([(0, 1), (4, 5), (9, 10), (12, 13)], True),
        ([(0, 1), (4, 6), (9, 10), (12, 14)], True),
        ([(0, 1), (4, 4), (9, 10), (12, 13)], True),
        ([(0, 0), (4, 5), (9, 10), (12, 13)], True),
        ([(0, 0), (4, 4), (9, 10), (12, 13)], False),
        ([(0, 7), (4, 2), (9, 10), (12, 1)], False),
    ],
    ids=["next", "next of some", "last of an episode", "first of all", "a row is missing", "other order"],
)
def test_the_next_row_may_be_what_is_predicted(places: list[tuple[int, int]], is_next: bool) -> None:
    assert follows(places) is is_next


def samples(rows: np.ndarray) -> dict[Any, dict[str, np.ndarray]]:
    """Each row as the only leaf of a sample."""
    return {number: {"[0]": row} for number, row in enumerate(rows)}


def test_one_value_that_becomes_another_one_fills_gaps() -> None:
    rows = np.random.default_rng(0).normal(size=(12, 3))
    rows[::3, 1] = 0.5
    moved = rows.copy()
    moved[::3, 1] = 0.7
    some = moved.copy()
    some[0, 1] = 0.5
    base, after, partly, lifted = (samples(each) for each in (rows, moved, some, rows + 1))
    assert _is_filled(base, after, "[0]")
    assert not _is_filled(base, partly, "[0]")
    assert not _is_filled(base, lifted, "[0]"), "all moved"
