"""Rows and samples: which belong together, which are missing, and what is left out on purpose."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from dataguard.checks.batches.pairing import mispaired, misread, missing
from dataguard.lab.batches.collate_observations import GetitemsReads
from dataguard.lab.batches.collate_trials import Collation, Form, RecognizedLeaf

IMAGE, LABEL, MASK = b"image", b"label", b"mask"
ONE, TWO, THREE = (frozenset({number}) for number in range(3))


def collation(*recognized: tuple[bytes, Sequence[frozenset[int]]], collates_singly: bool = True) -> Collation:
    """Three samples whose batch is made by place, leaf by leaf, whatever the order in which they are put in."""
    leaves = tuple(RecognizedLeaf(f"[{n}]", source, tuple(rows)) for n, (source, rows) in enumerate(recognized))
    reversed_rows = tuple(
        RecognizedLeaf(one.leaf, one.source, tuple(frozenset(2 - n for n in row) for row in one.rows)) for one in leaves
    )
    forms = {(seed, "in order"): Form((0, 1, 2), leaves) for seed in range(2)}
    forms |= {(seed, "reversed"): Form((2, 1, 0), reversed_rows) for seed in range(2)}
    equal_samples = {one.source: (ONE, TWO, THREE) for one in leaves}
    return Collation((0, 1, 2), ("0", "1", "2"), forms, collates_singly, equal_samples)


def test_leaves_in_one_order_belong_together() -> None:
    assert mispaired(collation((IMAGE, [THREE, ONE, TWO]), (LABEL, [THREE, ONE | TWO, ONE | TWO]))) is None


def test_leaves_in_two_orders_do_not() -> None:
    found = mispaired(collation((IMAGE, [THREE, ONE, TWO]), (LABEL, [ONE, TWO, THREE])))
    assert found is not None
    assert (found.leaf, found.other, found.row, found.samples) == ("[0]", "[1]", 0, (2, 0))


def test_a_second_copy_in_another_order_is_on_purpose() -> None:
    negatives = (IMAGE, [THREE, ONE, TWO])
    assert mispaired(collation((IMAGE, [ONE, TWO, THREE]), negatives, (LABEL, [ONE, TWO, THREE]))) is None


def test_leaves_of_different_length_are_not_compared() -> None:
    assert mispaired(collation((IMAGE, [ONE, TWO, THREE]), (LABEL, [THREE, ONE]))) is None
    assert mispaired(collation((IMAGE, [ONE]), (LABEL, [THREE]))) is None


def test_a_mispair_that_comes_and_goes_with_the_seed_is_none() -> None:
    right, wrong = collation((IMAGE, [ONE]), (LABEL, [ONE])), collation((IMAGE, [ONE]), (LABEL, [TWO]))
    forms = {form: (wrong if form[0] else right).forms[form] for form in right.forms}
    assert mispaired(Collation(right.indices, right.shown, forms, True, right.equal_samples)) is None


@given(st.permutations(range(3)))
def test_a_permutation_in_the_batch_is_no_mispair(order: list[int]) -> None:
    rows = [frozenset({sample}) for sample in order]
    forms = {
        form: Form(
            (0, 1, 2),
            (RecognizedLeaf("x", IMAGE, tuple(rows)), RecognizedLeaf("y", LABEL, (ONE, TWO, THREE))),
            (tuple(order),),
        )
        for form in collation().forms
    }
    assert mispaired(Collation((0, 1, 2), ("0", "1", "2"), forms, True, {})) is None


def test_a_sample_without_a_row_is_missing() -> None:
    found = missing(collation((IMAGE, [ONE, TWO]), (LABEL, [ONE, TWO])))
    assert found is not None
    assert (found.samples, found.rows, found.repeated) == ((2,), 2, False)


def test_a_sample_that_is_lost_at_any_position_is_filtered_on_purpose() -> None:
    assert missing(collation((IMAGE, [ONE, THREE]))) is None


def test_a_sample_in_one_leaf_is_not_missing() -> None:
    assert missing(collation((IMAGE, [ONE]), (IMAGE, [TWO, THREE]))) is None


def test_rows_taken_by_others_are_missed() -> None:
    found = missing(collation((IMAGE, [ONE, ONE, ONE]), (LABEL, [ONE, TWO, THREE])))
    assert found is not None
    assert (found.samples, found.repeated) == ((1, 2), True)


def test_what_gives_nothing_alone_may_be_left_out() -> None:
    assert missing(collation((IMAGE, [ONE, TWO]), collates_singly=False)) is None


@given(st.permutations(range(3)))
def test_any_order_of_whole_samples_is_fine(order: list[int]) -> None:
    rows = [frozenset({sample}) for sample in order]
    whole = collation((IMAGE, rows), (LABEL, rows), (MASK, rows))
    assert mispaired(whole) is None
    assert missing(whole) is None


def test_the_words_for_a_sample_at_a_wrong_place() -> None:
    assert misread(GetitemsReads((4, 2), ((4,), (2,)))) is None
    assert misread(GetitemsReads((4, 2), ((2,), (4,)))) == "returns dataset[2] where dataset[4] was requested"
    mixed = GetitemsReads((4, 2), ((), ()), (("['x']", 4), ("['y']", 4), ("['z']", 2)))
    assert misread(mixed) == "mixes samples: sample['x'] is from dataset[4], sample['z'] from dataset[2]"
