"""What becomes of samples in a batch that collate_fn makes: recognised, lost, mutated. All in this process."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from dataguard.checks.batches.pairing import mispaired, misread, missing
from dataguard.core.model import NotApplicable, Undecided
from dataguard.lab.batches.collate_observations import CollateObservations, observe_collate
from dataguard.lab.batches.collate_trials import REREAD
from tests.support.items import Items


def picture(number: int) -> tuple[Tensor, int]:
    return torch.full((2, 2), number / 16), number % 3


def observed(
    tmp_path: Path, dataset: Dataset[Any], collate: Callable[[list[Any]], Any] | None = None
) -> CollateObservations:
    """Five samples, collated in this process."""
    loader = DataLoader(dataset, batch_size=5, collate_fn=collate)
    found = observe_collate(lambda: loader, tmp_path, (3, 1, 7, 5, 11), REREAD, ascending=False)
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
        observe_collate(lambda: loader, tmp_path, (None, None), REREAD, ascending=True)


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
    found = observe_collate(lambda: loader, tmp_path, (3, 1, 7, 5, 11, 9), REREAD, ascending=True)
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
    assert observe_collate(lambda: loader, tmp_path, tuple(range(12)), REREAD, ascending=True)
    with pytest.raises(Undecided, match="no part of it"):
        observe_collate(lambda: loader, tmp_path, tuple(range(11)), REREAD, ascending=True)


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
        (lambda indices: [picture(index) for index in indices[:-1]], "returns 4 samples for 5 indices"),
        (lambda indices: [picture(index) for index in [*indices, 15]], "returns 6 samples for 5 indices"),
        (lambda indices: [(torch.rand(2, 2), 1) for _ in [*indices, 15]], "returns 6 samples for 5 indices"),
        (lambda indices: [picture(index) for index in indices for _ in (0, 1)][:-1], "returns 9 samples for 5 indices"),
        (lambda indices: [(torch.rand(2, 2), 1) for _ in indices for _ in (0, 1)], None),
        (
            lambda indices: [(picture(a)[0], picture(b)[1]) for a, b in zip(indices, sorted(indices), strict=True)],
            "mixes samples",
        ),
    ],
    ids=[
        "as asked",
        "tuple",
        "augmented",
        "sorted",
        "short",
        "long",
        "random and long",
        "not two each",
        "two crops each",
        "mixed",
    ],
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
