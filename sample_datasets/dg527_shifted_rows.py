"""DG527 shifted-rows: leaves that belong together come from different rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from torch.utils.data import DataLoader, Dataset

from sample_datasets._parts import scratch, stored

ROWS, WINDOW = 500, 12


class Series(Dataset[Any]):
    """Windows of values, and the time of each value."""

    shift = 0

    def __init__(self) -> None:
        random = np.random.default_rng(3)
        self.values = random.random((ROWS, 4), np.float32)
        self.times = np.arange(ROWS, dtype=np.float32) / 24

    def __len__(self) -> int:
        return ROWS - WINDOW

    def __getitem__(self, index: int) -> dict[str, Any]:
        first = range(len(self))[index]
        other = first + self.shift  # culprit
        return {"x": self.values[first : first + WINDOW], "x_mark": self.times[other : other + WINDOW]}  # culprit


class Shifted(Series):
    """Each value has the time of the next one."""

    shift = 1  # culprit


def loader(dataset: Dataset[Any]) -> DataLoader[Any]:
    return DataLoader(dataset, batch_size=16, shuffle=True)


def bad() -> DataLoader[Any]:
    """Times begin one row after the values."""
    return loader(Shifted())


def good() -> DataLoader[Any]:
    """Values and times come from the same rows."""
    return loader(Series())


class Weighted(Series):
    """One row, and the weight of the row before."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = range(len(self))[index]
        return {"value": self.values[row], "value_weight": self.times[row - 1]}  # culprit


def bad_weights() -> DataLoader[Any]:
    """Each row has the weight of another one."""
    return loader(Weighted())


class Steps(Series):
    """States, and the actions one row later."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        first = range(len(self))[index]
        return {
            "state": self.values[first : first + WINDOW],
            "action": self.times[first + 1 : first + 1 + WINDOW],
        }


def good_undeclared() -> DataLoader[Any]:
    """States and actions of another row: nothing says that they belong together, and a note names the offset."""
    return loader(Steps())


class NextStates(Series):
    """A state and the next one."""

    def __len__(self) -> int:
        return len(self.values) - 1

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = range(len(self))[index]
        return {"obs": self.values[row], "next_obs": self.values[row + 1]}


def good_next_states() -> DataLoader[Any]:
    """The next state is meant to come from the next row."""
    return loader(NextStates())


class Pieces(Series):
    """Values of a window, and the times of those in its middle, which are to be predicted."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        first = range(len(self))[index]
        return {"x": self.values[first : first + WINDOW], "x_time": self.times[first + 3 : first + WINDOW - 3]}


def good_part() -> DataLoader[Any]:
    """Times of a part of the window: positions are others."""
    return loader(Pieces())


class Patients(Dataset[Any]):
    """Measurements as an array, and outcomes as a column of pandas."""

    def __init__(self, table: pd.DataFrame, outcomes: pd.Series) -> None:
        self.measured = table[["age", "dose"]].to_numpy(np.float32)
        self.outcomes = outcomes

    def __len__(self) -> int:
        return len(self.measured)

    def __getitem__(self, index: int) -> Any:
        return self.measured[index], int(self.outcomes[int(index)])  # culprit


def patients() -> pd.DataFrame:
    """Patients in a random order, with the labels that they had before."""
    age, dose = np.random.default_rng(5).normal(size=(2, ROWS))
    table = pd.DataFrame({"age": age, "dose": dose, "outcome": (age + dose > 0).astype(int)})
    return table.sample(frac=1, random_state=1)


def bad_labels() -> DataLoader[Any]:
    """`outcomes[index]` looks up a label, and rows were shuffled."""
    table = patients()
    return loader(Patients(table, table["outcome"]))


def good_labels() -> DataLoader[Any]:
    """Labels are numbered anew."""
    table = patients().reset_index(drop=True)
    return loader(Patients(table, table["outcome"]))


def good_sorted_table() -> DataLoader[Any]:
    """Measurements are in the order of the labels, and only the outcomes are in another one."""
    table = patients()
    return loader(Patients(table.sort_index(), table["outcome"]))


class Measured(Dataset[Any]):
    """Measurements and outcomes of rows of a file, as arrays."""

    def __init__(self, table: pd.DataFrame, outcomes: pd.Series) -> None:
        self.measured, self.outcomes = table[["age", "dose"]].to_numpy(np.float32), outcomes.to_numpy()

    def __len__(self) -> int:
        return len(self.measured)

    def __getitem__(self, index: int) -> Any:
        return self.measured[index], int(self.outcomes[index])


def visits() -> pd.DataFrame:
    """Visits of patients in a file, in no order; some lack a dose."""
    drawn = np.random.default_rng(11)
    age, dose = drawn.normal(size=(2, ROWS))
    dose[drawn.random(ROWS) < 0.1] = np.nan
    table = pd.DataFrame({"age": age, "dose": dose, "outcome": (age > 0.4).astype(int)})
    table = table.assign(patient=[f"P{number % 60}" for number in range(ROWS)], day=np.arange(ROWS) // 60)
    table = table.sample(frac=1, random_state=1)
    return pd.read_csv(stored(scratch("dg527-") / "visits.csv", lambda path: table.to_csv(path, index=False)))


def bad_dropped() -> DataLoader[Any]:
    """Outcomes are taken before rows are dropped."""
    table = visits()
    outcomes = table["outcome"]
    table = table.dropna()  # culprit
    return loader(Measured(table, outcomes))


def good_dropped() -> DataLoader[Any]:
    """Outcomes are taken after rows are dropped."""
    table = visits().dropna()
    return loader(Measured(table, table["outcome"]))


def good_next_visit() -> DataLoader[Any]:
    """The outcome of the next visit of a patient, which stands anywhere in the file."""
    table = visits().sort_values(["patient", "day"])
    table = table.assign(outcome=table.groupby("patient")["outcome"].shift(-1)).dropna()
    return loader(Measured(table, table["outcome"]))
