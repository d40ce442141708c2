"""What is made of samples in a batch: rows recognised, leaves paired, mixed batches refused. All in this process."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from dataguard.checks.batches.pairing import mispaired, misread, missing
from dataguard.lab.batches.batch_rows import columns, holds
from dataguard.lab.batches.collate_observations import CollateObservations, observe_collate
from dataguard.lab.batches.collate_trials import Collation, Form, RecognizedLeaf
from dataguard.lab.batches.getitems import GetitemsReads
from dataguard.lab.batches.mixed_batches import MixedBatches, run_mixed_batches
from dataguard.lab.batches.shrinking import ExampleSearch
from dataguard.model import NotApplicable, Undecided

IMAGE, LABEL, MASK = b"image", b"label", b"mask"
ONE, TWO, THREE = (frozenset({number}) for number in range(3))


def collation(*recognized: tuple[bytes, Sequence[frozenset[int]]], alone: bool = True) -> Collation:
    """Three samples whose batch is made by place, leaf by leaf, whatever the order in which they are put in."""
    leaves = tuple(RecognizedLeaf(f"[{n}]", source, tuple(rows)) for n, (source, rows) in enumerate(recognized))
    reversed_rows = tuple(
        RecognizedLeaf(one.leaf, one.source, tuple(frozenset(2 - n for n in row) for row in one.rows)) for one in leaves
    )
    forms = {(seed, "in order"): Form((0, 1, 2), leaves) for seed in range(2)}
    forms |= {(seed, "reversed"): Form((2, 1, 0), reversed_rows) for seed in range(2)}
    equal_samples = {one.source: (ONE, TWO, THREE) for one in leaves}
    return Collation((0, 1, 2), ("0", "1", "2"), forms, alone, equal_samples)


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
    assert missing(collation((IMAGE, [ONE, TWO]), alone=False)) is None


@given(st.permutations(range(3)))
def test_any_order_of_whole_samples_is_fine(order: list[int]) -> None:
    rows = [frozenset({sample}) for sample in order]
    whole = collation((IMAGE, rows), (LABEL, rows), (MASK, rows))
    assert mispaired(whole) is None
    assert missing(whole) is None


@pytest.mark.parametrize(
    ("row", "content", "same"),
    [
        (torch.tensor([1, 2, 3]), torch.tensor([1, 2, 3]), True),
        (torch.tensor([1.0, 2.0]), torch.tensor([1, 2]), True),
        (torch.tensor([1, 2, 0, 0]), torch.tensor([1, 2]), True),
        (torch.tensor([0, 0, 1, 2]), torch.tensor([1, 2]), True),
        (torch.tensor([1, 2, 0, 7]), torch.tensor([1, 2]), False),
        (torch.tensor([1, 2]), torch.tensor([1, 2, 3]), True),
        (torch.tensor([1, 2]), torch.tensor([2, 1]), False),
        (torch.tensor([3]), torch.tensor(3), True),
        (torch.tensor([[1, 0], [2, 0], [0, 0]]), torch.tensor([[1], [2]]), True),
        (torch.tensor([torch.nan, 1]), torch.tensor([torch.nan, 1]), True),
        (torch.tensor([torch.nan, torch.nan]), torch.tensor([1.0]), False),
        (torch.tensor([5.0, torch.nan]), torch.tensor([5.0]), True),
        (torch.tensor([-100, -100]), torch.empty(0, dtype=torch.int64), True),
        (torch.tensor(0.1), torch.tensor(0.1, dtype=torch.float64), True),
        (torch.tensor(True), torch.tensor(1), True),
        (b"a", b"a", True),
        (b"a", b"b", False),
        (torch.tensor(1), b"a", False),
    ],
    ids=str,
)
def test_a_row_holds_a_content(row: Any, content: Any, same: bool) -> None:
    assert holds(row, content) is same


class Items(Dataset[Any]):
    """Sixteen samples of any kind, made by a function of their number."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        self.make = make

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> Any:
        return self.make(range(16)[index])


def picture(number: int) -> tuple[Tensor, int]:
    return torch.full((2, 2), number / 16), number % 3


def observed(
    tmp_path: Path, dataset: Dataset[Any], collate: Callable[[list[Any]], Any] | None = None
) -> CollateObservations:
    """Five samples, collated in this process."""
    loader = DataLoader(dataset, batch_size=5, collate_fn=collate)
    found = observe_collate(lambda: loader, tmp_path, (3, 1, 7, 5, 11), ascending=False)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("collate", "wrong"),
    [
        (default_collate, False),
        (lambda samples: default_collate(sorted(samples, key=lambda one: one[1])), False),
        (lambda samples: default_collate(random.sample(samples, len(samples))), False),
        (lambda samples: default_collate(random.sample(samples, 2)), False),
        (lambda samples: [samples, len(samples)], False),
        (lambda samples: default_collate([one for one in samples if one[1] != 2] or samples), False),
        (lambda samples: (default_collate(samples)[0], sorted(label for _, label in samples)), True),
        (lambda samples: (default_collate(samples)[0].flip(0), default_collate(samples)[1]), True),
        (lambda samples: default_collate(samples[1:] or samples), True),
        (lambda samples: (torch.stack([samples[0][0]] * len(samples)), default_collate(samples)[1]), True),
        (lambda samples: default_collate(list({label: (image, label) for image, label in samples}.values())), True),
    ],
    ids=[
        *("plain", "sorted", "shuffled", "sampled", "listed", "filtered"),
        *("sorted labels", "flipped", "short", "first only", "by label"),
    ],
)
def test_a_batch_is_judged_by_what_comes_out(tmp_path: Path, collate: Callable[[Any], Any], wrong: bool) -> None:
    seen = observed(tmp_path, Items(picture), collate).collation
    assert bool(mispaired(seen) or missing(seen)) is wrong


def test_random_augmentation_and_mixing_say_nothing(tmp_path: Path) -> None:
    def mix(samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor, Tensor]:
        images, labels = default_collate(samples)
        order = torch.randperm(len(samples))
        return 0.3 * images + 0.7 * images[order], labels, labels[order]

    seen = observed(tmp_path, Items(picture), mix).collation
    assert mispaired(seen) is None
    assert missing(seen) is None


def test_a_sample_of_a_kind_that_torch_cannot_compare_is_recognised(tmp_path: Path) -> None:
    def make(number: int) -> dict[str, Any]:
        return {
            "big": 2**70 + number,
            "raw": torch.tensor(number, dtype=torch.uint16),
            "half": torch.tensor([number]).half(),
        }

    seen = observed(tmp_path, Items(make), lambda samples: samples).collation
    leaves = {one.leaf for form in seen.forms.values() for one in form.recognized}
    assert {"[*]['big']", "[*]['raw']", "[*]['half']"} <= leaves


def test_a_sample_that_gives_nothing_alone_is_let_go(tmp_path: Path) -> None:
    dataset = Items(lambda number: None if number == 7 else picture(number))
    seen = observed(tmp_path, dataset, lambda samples: default_collate([one for one in samples if one is not None]))
    assert seen.collation.indices == (3, 1, 5, 11)


def test_writing_into_what_is_kept_is_seen_and_into_what_is_new_is_not(tmp_path: Path) -> None:
    kept = [torch.full((2,), float(number)) for number in range(16)]

    def halve(samples: list[Tensor]) -> Tensor:
        return torch.stack([sample.mul_(0.5) for sample in samples])

    assert observed(tmp_path, Items(lambda number: kept[number]), halve).collation.mutated == {"": 3}
    assert observed(tmp_path, Items(lambda number: torch.ones(2) * number), halve).collation.mutated == {}


def test_a_dataset_that_changes_by_itself_is_not_blamed_on_collate(tmp_path: Path) -> None:
    reads = iter(range(10_000))
    assert observed(tmp_path, Items(lambda number: torch.tensor([next(reads)]))).collation.mutated == {}


class Locks(IterableDataset[Any]):
    """A stream of samples that cannot be copied."""

    def __iter__(self) -> Iterator[Any]:
        return iter([threading.Lock(), threading.Lock()])


def test_samples_of_a_stream_that_cannot_be_copied_are_undecided(tmp_path: Path) -> None:
    loader = DataLoader(Locks(), batch_size=2, collate_fn=list)
    with pytest.raises(Undecided, match="cannot be copied"):
        observe_collate(lambda: loader, tmp_path, (None, None), ascending=True)


def test_samples_that_cannot_be_copied_are_read_again(tmp_path: Path) -> None:
    found = observed(
        tmp_path, Items(lambda number: (threading.Lock(), number)), lambda samples: [n for _, n in samples]
    )
    assert found.reads > 40
    assert mispaired(found.collation) is None


def test_samples_too_large_to_be_copied_are_left_alone(tmp_path: Path) -> None:
    dataset = Items(lambda number: torch.empty(1).expand(100_000_000))
    with pytest.raises(Undecided, match="400 MB"):
        observed(tmp_path, dataset)


@pytest.mark.parametrize(("reversed_rows", "wrong"), [(False, False), (True, True)])
def test_groups_of_samples_are_recognised(tmp_path: Path, reversed_rows: bool, wrong: bool) -> None:
    def in_groups(samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
        images, labels = default_collate(samples)
        return images.reshape(2, 3, 2, 2), (labels.reshape(3, 2).T if reversed_rows else labels.reshape(2, 3))

    loader = DataLoader(
        Items(lambda number: (torch.full((2, 2), number / 16), number)), batch_size=6, collate_fn=in_groups
    )
    found = observe_collate(lambda: loader, tmp_path, (3, 1, 7, 5, 11, 9), ascending=True)
    assert found is not None
    assert {len(form.recognized) for form in found.collation.forms.values()} == {2}
    assert bool(mispaired(found.collation)) is wrong


def test_sparse_rows_are_recognised(tmp_path: Path) -> None:
    def make(number: int) -> tuple[Tensor, int]:
        return torch.eye(16)[number].to_sparse(), number % 3

    def stack(samples: list[tuple[Tensor, int]]) -> tuple[Tensor, list[int]]:
        return torch.stack([row for row, _ in samples]), sorted(label for _, label in samples)

    assert mispaired(observed(tmp_path, Items(make), stack).collation)


def test_a_collate_that_insists_on_its_batch_is_undecided(tmp_path: Path) -> None:
    def whole(samples: list[Any]) -> Any:
        assert len(samples) == 12
        return samples

    loader = DataLoader(Items(picture), batch_size=12, collate_fn=whole)
    assert observe_collate(lambda: loader, tmp_path, tuple(range(12)), ascending=True)
    with pytest.raises(Undecided, match="no part of it"):
        observe_collate(lambda: loader, tmp_path, tuple(range(11)), ascending=True)


class Together16(Items):
    """Samples that come getitems, by a rule of their own."""

    def __init__(self, rule: Callable[[list[int]], Any]) -> None:
        super().__init__(picture)
        self.rule = rule

    def __getitems__(self, indices: list[int]) -> Any:
        return self.rule(indices)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda indices: [picture(index) for index in indices], None),
        (lambda indices: tuple(map(picture, indices)), None),
        (lambda indices: [(picture(index)[0] * torch.rand(()), index % 3) for index in indices], None),
        (lambda indices: [picture(index) for index in sorted(indices)], "returns dataset[1] where dataset[11]"),
        (lambda indices: [picture(index) for index in indices[:-1]], "samples for 5 indices"),
        (
            lambda indices: [(picture(a)[0], picture(b)[1]) for a, b in zip(indices, sorted(indices), strict=True)],
            "mixes samples",
        ),
    ],
    ids=["as asked", "tuple", "augmented", "sorted", "short", "mixed"],
)
def test_samples_that_come_together_are_those_asked_for(
    tmp_path: Path, rule: Callable[[list[int]], Any], words: str | None
) -> None:
    getitems = observed(tmp_path, Together16(rule)).getitems
    found = misread(getitems) if getitems else None
    assert (found is None) if words is None else (found is not None and words in found)


def test_whole_batches_from_the_dataset_are_not_taken_apart(tmp_path: Path) -> None:
    with pytest.raises(NotApplicable, match="whole batches"):
        observed(
            tmp_path, Together16(lambda indices: default_collate(list(map(picture, indices)))), lambda batch: batch
        )


def test_the_words_for_a_sample_at_a_wrong_place() -> None:
    assert misread(GetitemsReads((4, 2), ((4,), (2,)))) is None
    assert misread(GetitemsReads((4, 2), ((2,), (4,)))) == "returns dataset[2] where dataset[4] was requested"


def mixed_batches(tmp_path: Path, make: Callable[[int], Any], collate: Any = None, *, size: int = 4) -> MixedBatches:
    """Mixed batches of the first six samples."""
    loader = DataLoader(Items(make), batch_size=size, collate_fn=collate)
    return run_mixed_batches(lambda: loader, tmp_path, range(6), size, ExampleSearch(), single=False)


def test_the_smallest_clash_is_a_pair(tmp_path: Path) -> None:
    clash = mixed_batches(tmp_path, lambda number: torch.zeros(2 + (number == 4))).clash
    assert clash is not None
    assert clash.indices == (0, 4)
    assert "equal size" in clash.incident.message
    assert [leaf.shape for (leaf,) in clash.samples] == [(2,), (3,)]


def test_three_that_clash_are_found_and_made_small(tmp_path: Path) -> None:
    def at_most_two_kinds(samples: list[int]) -> list[int]:
        if len(set(samples)) > 2:
            raise ValueError("too many kinds")
        return samples

    clash = mixed_batches(tmp_path, lambda number: number, at_most_two_kinds).clash
    assert clash is not None
    assert len(clash.indices) == len(set(clash.indices)) == 3


def test_the_search_gives_the_same_every_time(tmp_path: Path) -> None:
    def no_sum(samples: list[int]) -> list[int]:
        if sum(samples) > 11:
            raise ValueError("too much")
        return samples

    found = [mixed_batches(tmp_path, lambda number: number, no_sum).clash for _ in range(2)]
    assert found[0] == found[1] is not None


def test_samples_that_are_filtered_away_are_no_clash(tmp_path: Path) -> None:
    def keep(samples: list[int | None]) -> Tensor:
        return torch.stack([torch.tensor(sample) for sample in samples if sample is not None])

    assert mixed_batches(tmp_path, lambda number: number if number > 3 else None, keep).clash is None


def test_a_collate_that_takes_whole_batches_only_gets_them(tmp_path: Path) -> None:
    def fours(samples: list[Tensor]) -> Tensor:
        return torch.stack(samples).reshape(2, 2, 2)

    assert mixed_batches(tmp_path, lambda number: torch.zeros(2), fours).clash is None
    clash = mixed_batches(tmp_path, lambda number: torch.zeros(2 + number % 2), fours).clash
    assert clash is not None
    assert clash.indices == (0, 0, 0, 1)


def test_collate_may_write_into_the_samples_of_a_trial(tmp_path: Path) -> None:
    def pop(samples: list[dict[str, Tensor]]) -> Tensor:
        return pad_sequence([sample.pop("x") for sample in samples])

    assert mixed_batches(tmp_path, lambda number: {"x": torch.zeros(2 + number)}, pop).clash is None


def test_channels_of_a_listed_image_are_no_rows_of_the_batch() -> None:
    images = [torch.full((4, 3, 3), float(number)) for number in range(4)]
    names = [column.name for column in columns({"image": images, "label": torch.arange(4)}, 4)]
    assert names == ["['label']", "['image'][*]"]
    assert "[0]" in [column.name for column in columns((torch.zeros(2, 3), torch.arange(2)), 2)]
