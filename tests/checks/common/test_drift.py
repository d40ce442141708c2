"""What counts as a drift, a shifted label or a mutated source: readings as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from dataguard.checks.common.drift import (
    Cause,
    _identifies,
    _is_label,
    _repeats,
    drifts,
    ignores_index,
    is_input,
    mutations,
    reads_agree,
    repeatable,
    shifts,
    shown,
)
from dataguard.core.model import NotApplicable, Undecided
from dataguard.lab.core.records import LeafRecord, SampleRecord
from dataguard.lab.dataset.repeated_reads import PASS_STATES, USUAL_AMOUNT, Change, Readings, Run
from dataguard.lab.reading.sample_reader import Answer

Give = Callable[[int, int, int, int], object]
"""A value by item, how often that was read before, how many reads there were in all, and the state of generators."""


def leaf(path: str, value: object, shape: tuple[int, ...] | None = None) -> LeafRecord:
    kind = type(value).__name__
    return LeafRecord(path, kind, None, shape, repr(value).encode(), shown=repr(value))


def answer(
    item: int, own: int, total: int, draw: int, gives: Mapping[str, tuple[Give, tuple[int, ...] | None]]
) -> Answer:
    leaves = tuple(leaf(path, give(item, own, total, draw), shape) for path, (give, shape) in gives.items())
    return Answer(item, leaves)


def run(
    gives: Mapping[str, tuple[Give, tuple[int, ...] | None]], draws: Sequence[int], *, backward: bool = False
) -> Run:
    order = list(range(USUAL_AMOUNT.items))[:: -1 if backward else 1]
    passes, total = [], 0
    for own, draw in enumerate(draws):
        answers = {}
        for item in order:
            answers[item] = answer(item, own, total, draw, gives)
            total += 1
        passes.append(tuple(answers[item] for item in range(USUAL_AMOUNT.items)))
    return Run(tuple(passes))


def lab(changes: Sequence[Change] = (), **leaves: Give) -> Any:
    """A lab of a dataset that gives these leaves; `image` is a large one."""
    gives = {path: (give, (3, 8, 8) if path == "image" else None) for path, give in leaves.items()}
    forward = run(gives, PASS_STATES)
    readings = Readings(
        tuple(range(USUAL_AMOUNT.items)), forward, run(gives, PASS_STATES[: USUAL_AMOUNT.backward], backward=True)
    )
    dataset = SimpleNamespace(
        readings=readings,
        reread=lambda _: forward,
        changed_content=lambda _: tuple(changes),
        changed_at_first=lambda _: (),
    )
    return SimpleNamespace(dataset=dataset, epoch=SimpleNamespace(samples=()))


def picture(item: int, own: int, total: int, draw: int) -> object:
    return f"picture {item}"


ROW = Change("dataset.images", None, rows=True)
ONE = Change("dataset.memory", None, rows=False)


def test_labels_in_the_order_of_reads_shift() -> None:
    found = shifts(lab(image=picture, label=lambda item, own, total, draw: total % 4))
    assert list(found) == ["label"]
    assert found["label"].drift.cause is Cause.OTHERS
    assert found["label"].input == "image"


def test_a_number_given_at_the_first_read_shifts_between_two_orders() -> None:
    def number(item: int, own: int, total: int, draw: int) -> object:
        return (total - own * USUAL_AMOUNT.items) // 2

    assert list(shifts(lab(image=picture, label=number))) == ["label"]


@pytest.mark.parametrize(
    "label",
    [
        lambda item, own, total, draw: item % 4,
        lambda item, own, total, draw: draw,
        lambda item, own, total, draw: total,
        lambda item, own, total, draw: own,
    ],
    ids=["looked up", "drawn", "a count of all reads", "a count of its own reads"],
)
def test_other_labels_do_not(label: Give) -> None:
    assert shifts(lab(image=picture, label=label)) == {}


def test_a_label_that_changes_with_its_input_does_not_shift() -> None:
    augmented: Give = lambda item, own, total, draw: (item, total % 4)  # noqa: E731
    assert shifts(lab(image=augmented, label=lambda item, own, total, draw: total % 4)) == {}


def test_samples_of_a_queue_do_not_shift() -> None:
    queue = lab(image=lambda item, own, total, draw: total, label=lambda item, own, total, draw: total % 4)
    assert shifts(queue) == {}
    assert ignores_index(queue)
    assert not ignores_index(lab(image=picture, label=lambda item, own, total, draw: total % 4))


def test_a_label_by_itself_is_no_label() -> None:
    assert shifts(lab(label=lambda item, own, total, draw: total % 4)) == {}


def test_entropy_is_no_state() -> None:
    shifting = lab(image=picture, label=lambda item, own, total, draw: total % 4)
    other = run({"label": (lambda item, own, total, draw: total % 3, None)}, PASS_STATES)
    shifting.dataset.reread = lambda number: other
    assert shifts(shifting) == {}
    assert not repeatable(shifting, drifts(shifting.dataset.readings, ())["label"])


def test_a_single_read_that_differs_is_too_little() -> None:
    once = lab(image=picture, label=lambda item, own, total, draw: (item, own) == (0, 3))
    drift = drifts(once.dataset.readings, ())["label"]
    with pytest.raises(Undecided, match="samplelabel varies in a few reads only"):
        repeatable(once, drift)


def test_a_sample_that_fades_and_whose_source_changes_is_mutated() -> None:
    fading: Give = lambda item, own, total, draw: (item, own)  # noqa: E731
    assert list(mutations(lab([ROW], image=fading))) == ["image"]
    assert mutations(lab(image=fading)) == {}


def test_a_sample_that_settles_is_not() -> None:
    settling: Give = lambda item, own, total, draw: (item, min(own, 1))  # noqa: E731
    assert mutations(lab([ROW], image=settling)) == {}


def test_what_hangs_on_all_reads_is_mutated_where_all_samples_lie_in_what_changes() -> None:
    moving: Give = lambda item, own, total, draw: (item, total)  # noqa: E731
    assert list(mutations(lab([ONE, ROW], image=moving))) == ["image"]
    assert mutations(lab([ONE], image=moving)) == {}


def test_the_input_is_the_largest_leaf() -> None:
    answers = [Answer(0, (leaf("a", 1), leaf("b", 2, (4,))))]
    assert not is_input("a", answers)
    assert is_input("b", answers)


def test_a_value_is_shown_as_it_is_where_it_can_be() -> None:
    assert shown(leaf("a", 3)) == "3"
    assert shown(LeafRecord("a", "Tensor", "int64", (2,), b"\x01\x02\x03\x04")) == "int64 010203"
    assert shown(None) == "absent"


class TestLabelsBesideInputs:
    """Which of two leaves is a label, by their sizes."""

    @pytest.mark.parametrize(
        ("label", "beside", "found"),
        [
            ((), (1,), True),
            ((1,), (8,), True),
            ((2,), (8,), False),
            ((4,), (32,), True),
            ((4,), (31,), False),
            ((8,), (4,), False),
            (None, (2,), True),
            ((2,), None, False),
        ],
    )
    def test_by_size(self, label: tuple[int, ...] | None, beside: tuple[int, ...] | None, found: bool) -> None:
        both = Answer(0, (leaf("a", 1, label), leaf("b", 2, beside)))
        assert _is_label("a", "b", both) is found

    def test_strings(self) -> None:
        short = LeafRecord("a", "str", None, None, b"", shown="'cat'")
        text = LeafRecord("b", "str", None, None, b"")
        assert _is_label("a", "b", Answer(0, (short, text)))
        assert not _is_label("b", "a", Answer(0, (short, text)))
        assert not _is_label("c", "b", Answer(0, (short, text)))
        assert _is_label("a", "a", Answer(0, (short,)))


@pytest.mark.parametrize(
    ("values", "found"), [("abcde", True), ("abcda", False), ("abcdefghij", True), ("aaaaa", False)]
)
def test_a_leaf_that_identifies_samples_differs_in_most_of_them(values: str, found: bool) -> None:
    assert _identifies([Answer(place, (leaf("a", one),)) for place, one in enumerate(values)], "a") is found


@pytest.mark.parametrize(("values", "found"), [("aaaab", True), ("aabb", False), ("aaab", False), ("abcd", False)])
def test_a_class_repeats_in_the_samples_of_a_worker(values: str, found: bool) -> None:
    samples = [SampleRecord(1, 0, 0, 0, at, "", 0.0, (leaf("a", one), leaf("b", at))) for at, one in enumerate(values)]
    assert _repeats("a", samples) is found
    assert _repeats("b", samples) is False


def test_reads_that_agree() -> None:
    assert reads_agree(lab(image=picture, label=lambda item, own, total, draw: draw))
    assert not reads_agree(lab(image=picture, label=lambda item, own, total, draw: total))

    def refuse() -> None:
        raise NotApplicable("no index")

    class Unread:
        readings = property(lambda _: refuse())

    unread: Any = SimpleNamespace(dataset=Unread())
    assert not reads_agree(unread)
    assert not ignores_index(unread)


def test_each_leaf_that_is_mutated_is_named() -> None:
    fading: Give = lambda item, own, total, draw: (item, own)  # noqa: E731
    settling: Give = lambda item, own, total, draw: (item, min(own, 1))  # noqa: E731
    assert list(mutations(lab([ROW], settled=settling, image=fading))) == ["image"]
