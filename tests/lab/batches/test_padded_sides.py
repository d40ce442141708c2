"""Padding at different ends, and lengths and masks that are not those of a padded leaf."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from dataguard.lab.batches.batch_rows import columns
from dataguard.lab.batches.padded_sides import find_sides

LENGTHS = (3, 5, 7, 9, 4, 8)
WIDTH = 9


def rows(lengths: tuple[int, ...] = LENGTHS, *, at_end: bool = True, value: int = 3) -> Tensor:
    """Rows of positive numbers, padded with 0 at one end."""
    made = [torch.arange(length) % 5 + value for length in lengths]
    return torch.stack([pad(row, (0, WIDTH - len(row)) if at_end else (WIDTH - len(row), 0)) for row in made])


def found(**leaves: Tensor) -> tuple[list[str], list[str], list[str]]:
    """The leaves that are padded at another end, inverted masks, and lengths that are too long."""
    sides = find_sides(list(columns(leaves, len(LENGTHS))))
    return (
        [pair.other.leaf for pair in sides.opposite],
        [mask.mask for mask in sides.inverted],
        [one.lengths for one in sides.overlong],
    )


def test_the_leaf_that_fewer_agree_with_is_at_the_other_end() -> None:
    mask = (rows(at_end=False) > 0).long()
    assert found(x=rows(at_end=False), t=rows(value=9), mask=mask)[0] == ["['t']"]
    assert found(x=rows(at_end=False), t=rows(at_end=False, value=9), mask=mask.flip(1))[0] == ["['mask']"]
    assert found(x=rows(), back=rows(at_end=False))[0] == ["['back']"]


def test_each_end_may_have_its_own_mask() -> None:
    one, other = rows(), rows(at_end=False)
    assert found(x=one, x_mask=one > 0, back=other, back_mask=other > 0) == ([], [], [])


def test_contents_amid_padding_are_at_no_end() -> None:
    centred = torch.stack([pad(torch.ones(11 - 2 * edge), (edge, edge)) for edge in (1, 2, 3, 4, 2, 1)])
    assert found(image=2 * centred, depth=7 * centred) == ([], [], [])


def test_a_mask_is_inverted_by_its_name_or_another_one() -> None:
    padding = (rows() == 0).long()
    assert found(input_ids=rows(), attention_mask=padding)[1] == ["['attention_mask']"]
    assert found(input_ids=rows(), key_padding_mask=padding)[1] == []
    assert found(ids=rows(), mask=padding)[1] == []
    others = (7, 3, 9, 5, 6, 4)
    beside = {"tgt": rows(others), "tgt_mask": (rows(others) == 0).long()}
    assert found(src=rows(), src_mask=1 - padding, **beside)[1] == ["['tgt_mask']"]


def test_lengths_may_not_exceed_the_width_of_what_they_measure() -> None:
    late = torch.tensor([3, 5, 7, 14, 4, 8])
    assert found(x=rows(), lengths=late)[2] == ["['lengths']"]
    assert found(x=rows(), lengths=late.clamp(max=WIDTH))[2] == []
    assert found(x=rows(), total_len=late)[2] == []
    assert found(x=rows(), lengths=late + 1)[2] == [], "not those of the padding"
