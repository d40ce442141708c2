"""Which parts of a concatenation have class names, and which labels come from each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset

from dataguard.lab.dataset.dataset_observations import find_parts, names_differ
from dataguard.lab.labels.declared_labels import find_class_names


class Kinds(Dataset[Any]):
    def __init__(self, *classes: str) -> None:
        self.classes = classes

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> tuple[float, int, str]:
        label = range(12)[index] % len(self.classes)
        return index / 7, label, self.classes[0]


class Around(Dataset[Any]):
    def __init__(self, inner: Dataset[Any]) -> None:
        self.inner = inner

    def __len__(self) -> int:
        return len(self.inner)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> Any:
        return self.inner[len(self) - 1 - index]


def test_parts_are_known_by_what_is_read_of_them(tmp_path: Path) -> None:
    pets, birds = Kinds("cat", "dog"), Kinds("owl", "crow", "jay")
    joined: Dataset[Any] = ConcatDataset([Subset(pets, range(6)), ConcatDataset([birds])])
    one, two = find_parts(DataLoader(Around(joined)), tmp_path)
    assert (one.path, two.path) == ("dataset.inner.datasets[0].dataset", "dataset.inner.datasets[1].datasets[0]")
    assert (one.numbers, two.numbers) == ({"[1]": (0, 1)}, {"[1]": (0, 1, 2)})
    assert (one.samples, two.samples) == (6, 12)
    assert set(one.constant) == {"[2]"}


def test_equal_names_do_not_differ() -> None:
    assert not names_differ(ConcatDataset([Kinds("cat", "dog"), Kinds("cat", "dog")]))
    assert not names_differ(Around(Kinds("cat", "dog")))
    assert names_differ(ConcatDataset([Kinds("cat", "dog"), Kinds("dog", "cat")]))


def test_the_names_of_one_part_are_not_those_of_all_samples() -> None:
    joined: Dataset[Any] = ConcatDataset([Kinds("cat", "dog"), Kinds("owl", "jay")])
    assert not find_class_names(lambda **_: DataLoader(joined))
    shards: Dataset[Any] = ConcatDataset([Kinds("cat", "dog"), Kinds("cat", "dog")])
    assert {one.count for one in find_class_names(lambda **_: DataLoader(shards))} == {2}
