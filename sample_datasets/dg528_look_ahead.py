"""DG528 look-ahead: an input depends on the rows that are to be predicted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from sample_datasets._parts import scratch, stored

ROWS, PAST, NEXT = 410, 24, 8
FOLDER = scratch("dataguard-dg528-")


def series(columns: int = 3) -> np.ndarray:
    """A random walk: (ROWS, columns), float32."""
    return np.random.default_rng(7).normal(size=(ROWS, columns)).cumsum(0).astype(np.float32)


class Windows(Dataset[Any]):
    """The past of three series, and the future of the last one."""

    def __init__(self) -> None:
        self.values = series()

    def __len__(self) -> int:
        return ROWS - PAST - NEXT + 1

    def __getitem__(self, index: int) -> Any:
        first = range(len(self))[index]
        return self.pair(first, first + PAST)

    def pair(self, first: int, end: int) -> Any:
        """Input and target of a window whose future begins in this row."""
        return self.values[first:end], self.values[end : end + NEXT, -1]


def loader(dataset: Dataset[Any]) -> DataLoader[Any]:
    return DataLoader(dataset, batch_size=16, shuffle=True)


class OneTooLate(Windows):
    """The target begins one row too early."""

    def pair(self, first: int, end: int) -> Any:
        return self.values[first:end], self.values[end - 1 : end - 1 + NEXT, -1]  # culprit


def bad() -> DataLoader[Any]:
    """The last row of the input is the first one of the target."""
    return loader(OneTooLate())


def good() -> DataLoader[Any]:
    """The target begins where the input ends."""
    return loader(Windows())


class LastValue(Windows):
    """The value of the last row is to be predicted."""

    def pair(self, first: int, end: int) -> Any:
        return {"x": self.values[first:end], "y": self.values[end - 1, -1]}  # culprit


def bad_last_value() -> DataLoader[Any]:
    """The only value of the target stands in the input."""
    return loader(LastValue())


class Channels(Windows):
    """Series whose rows are along the second axis."""

    def pair(self, first: int, end: int) -> Any:
        return self.by_channel[:, first:end], self.by_channel[-1, end - 1 : end - 1 + NEXT]  # culprit

    def __init__(self) -> None:
        super().__init__()
        self.by_channel = self.values.T.copy()
        del self.values


def bad_channels_first() -> DataLoader[Any]:
    """The last row of the input is the first one of the target, in an array of channels."""
    return loader(Channels())


class Normalized(Windows):
    """Input and target are standardised together."""

    def pair(self, first: int, end: int) -> Any:
        window = self.values[first : end + NEXT]  # culprit
        window = (window - window.mean(0)) / window.std(0)  # culprit
        return {"past": window[:PAST], "future": window[PAST:, -1]}


def bad_normalized() -> DataLoader[Any]:
    """Mean and deviation of the input are those of the target, too."""
    return loader(Normalized())


class Smoothed(Windows):
    """A rolling mean over five rows, two of which are later."""

    def pair(self, first: int, end: int) -> Any:
        import pandas as pd

        table = pd.DataFrame(self.values[first : end + NEXT])
        smooth = table.rolling(5, center=True, min_periods=1).mean().to_numpy(np.float32)  # culprit
        return smooth[:PAST], self.values[end : end + NEXT, -1]


def bad_smoothed() -> DataLoader[Any]:
    """The last rows of the input are means over rows of the target."""
    return loader(Smoothed())


class Returns(Windows):
    """The past, and by how much the last series changes until a later row."""

    def pair(self, first: int, end: int) -> Any:
        return self.values[first:end], self.values[end + NEXT - 1, -1] - self.values[end - 1, -1]


def good_returns() -> DataLoader[Any]:
    """The target is a difference to the last row of the input, which is known."""
    return loader(Returns())


class NextValues(Windows):
    """At each position, the next value is to be predicted."""

    def pair(self, first: int, end: int) -> Any:
        return {"input": self.values[first:end], "labels": self.values[first + 1 : end + 1]}


def good_next_values() -> DataLoader[Any]:
    """Input and target are one window, shifted by one, as for a causal model."""
    return loader(NextValues())


class Overlapping(Windows):
    """The target begins with the last rows of the input, with which a decoder starts."""

    def pair(self, first: int, end: int) -> Any:
        return self.values[first:end], self.values[end - PAST // 2 : end + NEXT]


def good_decoder_start() -> DataLoader[Any]:
    """Half of the input is in the target on purpose."""
    return loader(Overlapping())


class Covariates(Windows):
    """Past and future of a series, and columns that are known beforehand."""

    def pair(self, first: int, end: int) -> Any:
        return {
            "past_target": self.values[first:end, -1],
            "feat_dynamic_real": self.values[first : end + NEXT, :2],
            "future_target": self.values[end : end + NEXT, -1],
        }


def good_covariates() -> DataLoader[Any]:
    """Other columns of the rows of the target are known beforehand."""
    return loader(Covariates())


class Labelled(Windows):
    """Windows with the class of their last row, which is no feature."""

    def pair(self, first: int, end: int) -> Any:
        return self.values[first:end, :2], int(self.values[end - 1, 2] > 0)


def good_labelled() -> DataLoader[Any]:
    """The class of the last row is another column."""
    return loader(Labelled())


class Restored(Windows):
    """Windows with noise, which is to be removed."""

    def pair(self, first: int, end: int) -> Any:
        window = torch.from_numpy(self.values[first:end])
        return window + torch.randn_like(window), window


def good_restored() -> DataLoader[Any]:
    """The target is all of the input."""
    return loader(Restored())


class Customers(Dataset[Any]):
    """Rows of a table of customers, and whether each has left."""

    def __init__(self, columns: Callable[[np.ndarray, np.ndarray], list[np.ndarray]]) -> None:
        drawn = np.random.default_rng(8)
        table, self.left = drawn.random((120, 3)), drawn.integers(0, 2, 120)
        self.table = np.column_stack(columns(table, self.left)).astype(np.float32)

    def __len__(self) -> int:
        return len(self.left)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        return self.table[index], int(self.left[index])  # culprit


def bad_column() -> DataLoader[Any]:
    """The column of the target stays in the table."""
    return DataLoader(Customers(lambda table, left: [table, left]), batch_size=16)


def good_column() -> DataLoader[Any]:
    """Other columns only."""
    return DataLoader(Customers(lambda table, left: [table]), batch_size=16)


def good_last_year() -> DataLoader[Any]:
    """Whether a customer had left a year before, which nearly always stays so."""
    return DataLoader(Customers(lambda table, left: [table, left | (table[:, 0] > 0.97)]), batch_size=16)


def good_threshold() -> DataLoader[Any]:
    """The target is a column rounded, and can be learned with no error."""
    return DataLoader(Customers(lambda table, left: [table, left + table[:, 0] / 3]), batch_size=16)


class Codes(Customers):
    """Rows that are encoded and restored."""

    def __getitem__(self, index: int) -> Any:
        return self.table[index], self.table[index]


def good_autoencoder() -> DataLoader[Any]:
    """All of the input is to be restored."""
    return DataLoader(Codes(lambda table, left: [table, left]), batch_size=16)


class Demand(Dataset[Any]):
    """A day's demand, with a feature computed for the whole table of a file, and the demand of the next day."""

    def __init__(self, features: Callable[[Any], Any]) -> None:
        import pandas as pd

        values = series()
        table = pd.DataFrame({"demand": values[:, 0], "price": values[:, 1]})
        stored(FOLDER / "demand.csv", lambda path: table.to_csv(path, index=False))
        frame = pd.read_csv(FOLDER / "demand.csv")
        frame = frame.assign(feature=features(frame), target=frame.demand.shift(-1)).dropna()  # culprit
        self.inputs = frame[["demand", "price", "feature"]].to_numpy(np.float32)
        self.targets = frame.target.to_numpy(np.float32)

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> Any:
        return self.inputs[index], self.targets[index]  # culprit


def bad_centred() -> DataLoader[Any]:
    """The mean of a week in whose middle the day stands."""
    return DataLoader(Demand(lambda table: table.demand.rolling(7, center=True).mean()), batch_size=16)


def good_trailing() -> DataLoader[Any]:
    """The mean of the week before."""
    return DataLoader(Demand(lambda table: table.demand.rolling(7).mean()), batch_size=16)


def good_scaled() -> DataLoader[Any]:
    """Scaled by the mean of all days, which depends on each target a little; DG521 compares splits."""
    return DataLoader(Demand(lambda table: table.demand - table.demand.mean()), batch_size=16)


def good_planned() -> DataLoader[Any]:
    """The price of the next day, which is known beforehand."""
    return DataLoader(Demand(lambda table: table.price.shift(-1)), batch_size=16)


class Growth(Demand):
    """The same with the growth of demand, which the file does not hold, in windows of a few days."""

    def __init__(self, features: Callable[[Any], Any], days: int = 5) -> None:
        import pandas as pd

        super().__init__(lambda table: table.price)
        frame = pd.read_csv(FOLDER / "demand.csv")
        growth = frame.demand.diff().fillna(0.0)
        self.inputs = pd.concat([growth, frame.price, features(growth)], axis=1).to_numpy(np.float32)  # culprit
        self.growth, self.days = growth.to_numpy(np.float32), days

    def __len__(self) -> int:
        return len(self.growth) - self.days

    def __getitem__(self, index: int) -> Any:
        end = range(len(self))[index] + self.days
        return self.inputs[end - self.days : end].copy(), self.growth[end]  # culprit


def bad_centred_growth() -> DataLoader[Any]:
    """The mean of the growth of a week in whose middle the day stands."""
    return DataLoader(Growth(lambda growth: growth.rolling(7, center=True, min_periods=1).mean()), batch_size=16)


def good_trailing_growth() -> DataLoader[Any]:
    """The mean of the growth of the week before."""
    return DataLoader(Growth(lambda growth: growth.rolling(7, min_periods=1).mean()), batch_size=16)


class Amid(Growth):
    """The growth of seven days, of which that in the middle is hidden, and is the target."""

    def __getitem__(self, index: int) -> Any:
        first = range(len(self))[index]
        window = self.growth[first : first + 7].copy()
        return np.delete(window, 3), window[3]

    def __len__(self) -> int:
        return super().__len__() - 7


def good_amid() -> DataLoader[Any]:
    """What is missing is restored from both sides."""
    return DataLoader(Amid(lambda growth: growth), batch_size=16)


def good_announced() -> DataLoader[Any]:
    """The growth of three days later is announced, and the model may know it."""
    return DataLoader(Growth(lambda growth: growth.shift(-3).fillna(0.0)), batch_size=16)


class Today(Demand):
    """The same with the demand of the day as target, and no other feature that knows it."""

    def __init__(self, features: Callable[[Any], Any]) -> None:
        super().__init__(features)
        self.targets, self.inputs = self.inputs[:, 0], self.inputs[:, 1:]


def bad_trailing_target() -> DataLoader[Any]:
    """The mean of the 30 days up to the one that is to be predicted."""
    return DataLoader(Today(lambda table: table.demand.rolling(30, min_periods=1).mean()), batch_size=16)


def good_days_before() -> DataLoader[Any]:
    """The mean of the 30 days before."""
    return DataLoader(
        Today(lambda table: table.demand.shift(1).rolling(30, min_periods=1).mean().fillna(0)), batch_size=16
    )
