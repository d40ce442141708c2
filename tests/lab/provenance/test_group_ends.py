"""Samples at the ends of groups: what names groups, which samples cross, and which are made so on purpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, SubsetRandomSampler

from dataguard.lab.process.isolation import isolated
from dataguard.lab.provenance.boundaries import GroupSearch, find_crossings
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rows.row_axes import find_axes
from dataguard.lab.rows.row_groups import find_groups, names_group

GROUPS, LENGTH, WINDOW = 9, 50, 6
ROWS = GROUPS * LENGTH


class Held(Dataset[Any]):
    """A dataset that holds what it is given, and makes samples by a function of itself and the index."""

    def __init__(self, sample: Callable[[Any, int], Any], length: int, **held: Any) -> None:
        self.__dict__.update(held)
        self.sample, self.length = sample, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.sample(self, range(self.length)[index])


def values(count: int = ROWS) -> np.ndarray:
    return np.random.default_rng(5).random((count, 3), np.float32)


def numbers() -> np.ndarray:
    return np.repeat(np.arange(GROUPS), LENGTH)


def window(self: Any, index: int) -> Any:
    return self.values[index : index + WINDOW]


def spectrum(self: Any, index: int) -> Any:
    return np.abs(np.fft.rfft(self.values[index : index + WINDOW], axis=0))


def flagged(self: Any, index: int) -> Any:
    return {"obs": window(self, index), "dones": self.dones[index : index + WINDOW]}


def squared(self: Any, index: int) -> Any:
    own = self.episode[index : index + WINDOW]
    return {"obs": window(self, index), "mask": own[:, None] == own}


def partnered(self: Any, index: int) -> Any:
    return self.values[index], self.values[(index + 1 + index * 7919 % 97) % ROWS]


def drawn(self: Any, index: int) -> Any:
    return self.values[index], self.values[np.random.randint(ROWS)]


def scaled(self: Any, index: int) -> Any:
    return (window(self, index) - self.values.mean(0)) / self.values.std(0)


def channels_first(self: Any, index: int) -> Any:
    return self.values[:, index : index + WINDOW]


def unfolded(self: Any, index: int) -> Any:
    return self.windows[index]


def shuffled(self: Any, index: int) -> Any:
    first = self.firsts[index]
    return self.values[first : first + WINDOW]


def spliced(self: Any, index: int) -> Any:
    """A window of steps, which a list of records holds by episode."""
    number, first = divmod(index, LENGTH)
    steps = np.concatenate([one["obs"] for one in self.episodes[number : number + 2]])
    return steps[first : first + WINDOW]


CROSSING = ROWS - WINDOW + 1
DONES = (np.arange(1, ROWS + 1) % LENGTH == 0).astype(np.float32)
ENDS = np.arange(LENGTH, ROWS + 1, LENGTH)
RECORDS = [{"obs": one} for one in np.split(values(), GROUPS)]
STARTS = [start for start in range(CROSSING) if start % LENGTH <= LENGTH - WINDOW]
FOUND: dict[str, tuple[Callable[[], DataLoader[Any]], bool]] = {
    "column": (lambda: DataLoader(Held(window, CROSSING, values=values(), episode=numbers())), True),
    "names": (lambda: DataLoader(Held(window, CROSSING, values=values(), subject=[f"s{n}" for n in numbers()])), True),
    "flags": (lambda: DataLoader(Held(window, CROSSING, values=values(), dones=DONES)), True),
    "ends": (
        lambda: DataLoader(Held(window, CROSSING, values=values(), ends=ENDS)),
        True,
    ),
    "index": (
        lambda: DataLoader(
            Held(window, CROSSING, values=values(), episode_data_index={"from": torch.arange(0, ROWS, LENGTH)})
        ),
        True,
    ),
    "channels first": (
        lambda: DataLoader(Held(channels_first, CROSSING, values=values().T.copy(), session=numbers())),
        True,
    ),
    "channels first, within groups": (
        lambda: DataLoader(
            Held(channels_first, CROSSING, values=values().T.copy(), session=numbers()),
            sampler=SubsetRandomSampler(STARTS),
        ),
        False,
    ),
    "spectrum": (lambda: DataLoader(Held(spectrum, CROSSING, values=values(), session=numbers())), True),
    "unfolded": (
        lambda: DataLoader(
            Held(unfolded, CROSSING, windows=torch.from_numpy(values()).unfold(0, WINDOW, 1), session_length=numbers())
        ),
        False,
    ),
    "view": (
        lambda: DataLoader(
            Held(unfolded, CROSSING, windows=torch.from_numpy(values()).unfold(0, WINDOW, 1), session=numbers())
        ),
        True,
    ),
    "shuffled": (
        lambda: DataLoader(
            Held(
                shuffled,
                CROSSING,
                values=values(),
                session=numbers(),
                firsts=np.random.default_rng(1).permutation(CROSSING),
            )
        ),
        True,
    ),
    "records": (lambda: DataLoader(Held(spliced, CROSSING, episodes=RECORDS)), True),
    "flagged": (lambda: DataLoader(Held(flagged, CROSSING, values=values(), dones=DONES)), False),
    "masked": (lambda: DataLoader(Held(squared, CROSSING, values=values(), episode=numbers())), False),
    "partnered": (lambda: DataLoader(Held(partnered, ROWS, values=values(), subject=numbers())), False),
    "drawn": (lambda: DataLoader(Held(drawn, ROWS, values=values(), subject=numbers())), False),
    "scaled": (lambda: DataLoader(Held(scaled, CROSSING, values=values(), session=numbers())), False),
    "tokens": (
        lambda: DataLoader(Held(window, CROSSING, values=np.arange(ROWS) % 97, file=numbers())),
        False,
    ),
    "sampled": (
        lambda: DataLoader(
            Held(window, CROSSING, values=values(), session=numbers()), sampler=SubsetRandomSampler(STARTS)
        ),
        False,
    ),
    "mixed": (
        lambda: DataLoader(Held(window, CROSSING, values=values(), subject=np.arange(ROWS) * 7 % GROUPS)),
        False,
    ),
}
"""Loaders by what is special about them, and whether a sample crosses the end of a group."""


@pytest.fixture(scope="module")
def searches(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[GroupSearch, ...]]:
    """What is found in all of them, by one process that may change them."""
    folder = tmp_path_factory.mktemp("searches")

    def search() -> dict[str, Any]:
        found = {}
        for name, (make, _) in FOUND.items():
            reader = Reader(loader := make(), folder)
            axes = find_axes(reader.read, reader.dataset, [7, 203, 391])
            found[name] = find_crossings(reader, set(loader.sampler), None, axes, affordable=True)
        return found

    return isolated(search, folder, timeout=100, allowed=100)


@pytest.mark.scan
@pytest.mark.parametrize("name", FOUND)
def test_samples_across_the_end_of_a_group(name: str, searches: dict[str, tuple[GroupSearch, ...]]) -> None:
    found = [
        one
        for search in searches[name]
        if 3 * search.spread_crossing <= search.spread
        for one in search.crossing
        if not one.marks
    ]
    assert bool(found) is FOUND[name][1], searches[name]
    ends = [] if name == "records" else [(one.before, one.after) for one in found]
    assert set(ends) <= {(start - 1, start) for start in range(LENGTH, ROWS, LENGTH)}


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("episode", True),
        ("episodeIds", True),
        ("trajectory_index", True),
        ("unique_id", True),
        ("unit_number", True),
        ("group_norm", False),
        ("session_length", False),
        ("day", False),
        ("document", False),
        ("class", False),
        ("id", False),
        ("", False),
    ],
)
def test_names_of_groups_of_rows(name: str, group: bool) -> None:
    assert names_group(name, None) is group


def test_other_columns_are_no_groups() -> None:
    held = Held(window, CROSSING, values=values(), day=numbers(), ends=np.array([3, 2]), dones=np.ones(ROWS))
    assert not find_groups(held, None)
    ((groups),) = find_groups(held, "day")
    assert groups.starts.tolist() == list(range(0, ROWS, LENGTH))


def test_a_list_of_the_rows_of_groups_is_no_list_of_groups() -> None:
    images = list(np.zeros((ROWS, 4, 3)))
    held = Held(window, CROSSING, values=images, done_idxs=np.arange(LENGTH, ROWS + 1, LENGTH))
    ((groups),) = find_groups(held, None)
    assert (groups.named, groups.starts.tolist()) == ("dataset.done_idxs", list(range(0, ROWS, LENGTH)))
