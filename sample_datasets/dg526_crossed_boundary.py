"""DG526 crossed-boundary: a sample holds rows of two episodes, recordings or files."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from sample_datasets._parts import scratch, stored

EPISODES, STEPS, WINDOW = 12, 60, 8
FOLDER = scratch("dataguard-dg526-")


def steps(number: int, count: int = STEPS) -> np.ndarray:
    """The observations of an episode: (count, 3), float32."""
    return np.random.default_rng(number).random((count, 3), np.float32)


def loader(dataset: Dataset[Any]) -> DataLoader[Any]:
    return DataLoader(dataset, batch_size=16, shuffle=True)


class Episodes(Dataset[Any]):
    """Windows of observations and actions, cut from the rows of all episodes."""

    def __init__(self) -> None:
        rows = EPISODES * STEPS
        ends = np.arange(1, rows + 1) % STEPS == 0
        self.data = {
            "observations": np.concatenate([steps(number) for number in range(EPISODES)]),
            "actions": np.random.default_rng(99).random((rows, 2), np.float32),
            "terminals": ends & (np.arange(rows) // STEPS % 2 == 0),
            "timeouts": ends & (np.arange(rows) // STEPS % 2 == 1),
        }

    def __len__(self) -> int:
        return EPISODES * STEPS - WINDOW + 1  # culprit

    def first(self, index: int) -> int:
        """The first row of a window."""
        return range(len(self))[index]

    def __getitem__(self, index: int) -> dict[str, Any]:
        first = self.first(index)
        return {name: self.data[name][first : first + WINDOW] for name in ("observations", "actions")}  # culprit


def bad() -> DataLoader[Any]:
    """Windows run on from one episode into the next."""
    return loader(Episodes())


class Inside(Episodes):
    """The windows of each episode."""

    def __len__(self) -> int:
        return EPISODES * (STEPS - WINDOW + 1)

    def first(self, index: int) -> int:
        episode, first = divmod(range(len(self))[index], STEPS - WINDOW + 1)
        return episode * STEPS + first


def good() -> DataLoader[Any]:
    """No window leaves its episode."""
    return loader(Inside())


class Transitions(Episodes):
    """An observation, and the next one; `done` is true where an episode ended, and not where time ran out."""

    def __init__(self, *, timeouts: bool) -> None:
        super().__init__()
        self.timeouts = timeouts

    def __len__(self) -> int:
        return EPISODES * STEPS - 1

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = range(len(self))[index]
        done = self.data["terminals"][row] | (self.data["timeouts"][row] if self.timeouts else False)  # culprit
        observations = self.data["observations"]
        return {"state": observations[row], "next_state": observations[row + 1], "done": float(done)}  # culprit


def bad_transitions() -> DataLoader[Any]:
    """Where time ran out, the next observation is the first of another episode, and `done` is 0."""
    return loader(Transitions(timeouts=False))


def good_transitions() -> DataLoader[Any]:
    """The next observation after the last one is another episode's, and `done` says so."""
    return loader(Transitions(timeouts=True))


class Terminated(Episodes):
    """A step and the next, with a flag of real ends; `keeps` those steps, too, at which time ran out."""

    def __init__(self, *, keeps: bool) -> None:
        super().__init__()
        ends, episode = self.data["terminals"] | self.data["timeouts"], np.arange(EPISODES * STEPS) // STEPS
        self.data["terminals"], self.data["timeouts"] = ends & (episode % 3 != 1), ends & (episode % 3 == 1)
        starts = np.arange(EPISODES * STEPS - 1)
        self.starts = starts if keeps else starts[~self.data["timeouts"][:-1]]

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = self.starts[index]
        return {
            "observation": self.data["observations"][row],
            "action": self.data["actions"][row],
            "next_observation": self.data["observations"][row + 1],  # culprit
            "done": float(self.data["terminals"][row]),
        }


def bad_timeouts() -> DataLoader[Any]:
    """Where time ran out, the next observation is that of another episode, and nothing says so."""
    return loader(Terminated(keeps=True))


def good_timeouts() -> DataLoader[Any]:
    """Those steps are left out, and the flag says so of all others."""
    return loader(Terminated(keeps=False))


class Chunks(Episodes):
    """The next rows, and which of them are behind the end of the episode."""

    def __init__(self, *, masked: int = 0, named: str = "action_is_pad") -> None:
        super().__init__()
        self.masked, self.named = masked, named
        self.episode_ends = np.arange(1, EPISODES + 1) * STEPS

    def __len__(self) -> int:
        return EPISODES * STEPS

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = range(len(self))[index]
        end = self.episode_ends[np.searchsorted(self.episode_ends, row, "right")]
        rows = np.arange(row, row + WINDOW)
        padded = rows >= end - self.masked if rows[-1] >= end else np.zeros(WINDOW, bool)  # culprit
        return {
            "state": self.data["observations"][row],
            "action": self.data["actions"][rows.clip(max=end - 1)],
            self.named: padded,
        }


def bad_mask() -> DataLoader[Any]:
    """The mask begins two rows before the padding."""
    return loader(Chunks(masked=2))


def good_chunks() -> DataLoader[Any]:
    """The last row is repeated behind the end of its episode, and a mask says so."""
    return loader(Chunks())


class Recordings(Dataset[Any]):
    """Windows over arrays of several recordings, one after the other."""

    def __init__(self, step: int, marked: bool = False) -> None:
        self.recordings = [steps(number, STEPS + 3 * number) for number in range(EPISODES)]
        self.firsts = np.cumsum([0, *map(len, self.recordings)])
        self.step, self.marked = step, marked

    def __len__(self) -> int:
        return (int(self.firsts[-1]) - WINDOW) // self.step + 1

    def __getitem__(self, index: int) -> Any:
        first = range(len(self))[index] * self.step  # culprit
        rows = range(first, first + WINDOW)  # culprit
        numbers = np.searchsorted(self.firsts, rows, "right") - 1
        pairs = zip(numbers, rows, strict=True)
        window = np.stack([self.recordings[n][row - self.firsts[n]] for n, row in pairs])  # culprit
        return (window, numbers) if self.marked else window


def bad_recordings() -> DataLoader[Any]:
    """Recordings of different lengths, read as one."""
    return loader(Recordings(1))


def good_numbered() -> DataLoader[Any]:
    """Each row of a window has the number of its recording, so that the model can keep them apart."""
    return loader(Recordings(1, marked=True))


class Tickers(Dataset[Any]):
    """Windows over a table of several shares, below each other."""

    def __init__(self, column: str, length: int = WINDOW) -> None:
        import pandas as pd

        prices = np.concatenate([steps(number)[:, :2] for number in range(EPISODES)])
        self.frame = pd.DataFrame(prices, columns=["open", "close"])
        self.frame[column] = np.repeat([f"T{number}" for number in range(EPISODES)], STEPS)
        self.length = length

    def __len__(self) -> int:
        return len(self.frame) - self.length + 1  # culprit

    def __getitem__(self, index: int) -> torch.Tensor:
        first = range(len(self))[index]
        return torch.tensor(self.frame[["open", "close"]].iloc[first : first + self.length].to_numpy())  # culprit


def bad_table() -> DataLoader[Any]:
    """Windows run on from one share into the next."""
    return loader(Tickers("ticker"))


def good_days() -> DataLoader[Any]:
    """Windows run on from one day into the next, as they should."""
    return loader(Tickers("day"))


def good_long() -> DataLoader[Any]:
    """Windows are longer than most groups: they are meant to hold several."""
    return loader(Tickers("session", STEPS + 21))


class Files(Dataset[Any]):
    """Windows over the demonstrations in one HDF5 file."""

    def __init__(self, *, inside: bool) -> None:
        import h5py

        self.path = FOLDER / "demonstrations.hdf5"
        if not self.path.exists():
            with h5py.File(self.path, "w") as file:
                for number in range(EPISODES):
                    file[f"data/demo_{number}/obs"] = steps(number)
        self.per_demo = STEPS - WINDOW + 1 if inside else STEPS  # culprit

    def __len__(self) -> int:
        return EPISODES * self.per_demo - (WINDOW if self.per_demo == STEPS else 0)

    def __getitem__(self, index: int) -> Any:
        import h5py

        number, first = divmod(range(len(self))[index], self.per_demo)
        with h5py.File(self.path, "r") as file:
            window = file[f"data/demo_{number}/obs"][first : first + WINDOW]
            if len(window) < WINDOW:
                following = file[f"data/demo_{number + 1}/obs"]  # culprit
                window = np.concatenate([window, following[: WINDOW - len(window)]])  # culprit
        return window


def bad_members() -> DataLoader[Any]:
    """What a demonstration lacks is taken from the next."""
    return loader(Files(inside=False))


def good_members() -> DataLoader[Any]:
    """No window leaves its demonstration."""
    return loader(Files(inside=True))


class Loaded(Dataset[Any]):
    """Windows over one column of a table of several shops, below each other; only the file says where one ends."""

    def __init__(self, name: str, *, inside: bool = False, **columns: Any) -> None:
        import pandas as pd

        rows = EPISODES * STEPS
        table = pd.DataFrame({"sales": np.random.default_rng(5).random(rows), **columns})
        stored(FOLDER / f"{name}.csv", lambda path: table.to_csv(path, index=False))
        frame = pd.read_csv(FOLDER / f"{name}.csv")
        self.sales = frame["sales"].to_numpy(np.float32)
        windows = range(rows - WINDOW + 1)  # culprit
        self.windows = [first for first in windows if first % STEPS <= STEPS - WINDOW] if inside else windows

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, index: int) -> Any:
        first = self.windows[index]
        return self.sales[first : first + WINDOW]  # culprit


def days(count: int) -> list[str]:
    """So many dates, from one year's first on."""
    return [str(np.datetime64("2023-01-01") + number) for number in range(count)]


SHOPS = np.repeat([f"shop {number}" for number in range(EPISODES)], STEPS)


def bad_dates() -> DataLoader[Any]:
    """Dates begin again with each shop."""
    return loader(Loaded("shops", shop=SHOPS, date=days(STEPS) * EPISODES))


def good_dates() -> DataLoader[Any]:
    """No window leaves its shop."""
    return loader(Loaded("shops", shop=SHOPS, date=days(STEPS) * EPISODES, inside=True))


def good_hours() -> DataLoader[Any]:
    """Hours begin again with each day, and one day follows the other."""
    dates = np.repeat(days(EPISODES), STEPS)
    return loader(Loaded("hours", date=dates, hour=np.tile(np.arange(STEPS), EPISODES)))


def good_one_series() -> DataLoader[Any]:
    """One series, which a shop goes on with that has moved several times."""
    return loader(Loaded("moved", shop=SHOPS, date=days(STEPS * EPISODES)))


class Logged(Dataset[Any]):
    """Transitions of an archive of episodes, of which the dataset does not hold the ends."""

    def __init__(self, *, inside: bool) -> None:
        episodes = Episodes()
        terminals = np.arange(1, EPISODES * STEPS + 1) % STEPS == 0
        stored(FOLDER / "log.npz", lambda path: np.savez(path, obs=episodes.data["observations"], terminals=terminals))
        with np.load(FOLDER / "log.npz") as archive:
            self.obs = archive["obs"]
            self.rows = np.arange(len(self.obs) - 1)
            if inside:
                self.rows = self.rows[~archive["terminals"][:-1]]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        row = self.rows[index]
        return {"obs": self.obs[row], "next_obs": self.obs[row + 1]}  # culprit


def bad_archive() -> DataLoader[Any]:
    """The next observation of the last step is the first one of another episode."""
    return loader(Logged(inside=False))


def good_archive() -> DataLoader[Any]:
    """The last step of an episode is left out."""
    return loader(Logged(inside=True))


class Ring(Dataset[Any]):
    """Sequences of a replay buffer, whose oldest rows are overwritten by the newest ones."""

    def __init__(self, written: int, *, apart: bool) -> None:
        walk = np.cumsum(np.random.default_rng(5).normal(size=(written, 3)), axis=0).astype(np.float32)
        self.obs = np.zeros((400, 3), np.float32)
        for number, row in enumerate(walk):
            self.obs[number % 400] = row
        self.pos = written % 400
        filled = min(written, 400)
        firsts = np.arange(filled - WINDOW + 1)
        self.firsts = firsts[(firsts + WINDOW <= self.pos) | (firsts >= self.pos)] if apart else firsts

    def __len__(self) -> int:
        return len(self.firsts)

    def __getitem__(self, index: int) -> Any:
        first = self.firsts[index]
        return self.obs[first : first + WINDOW].copy()  # culprit


def bad_ring() -> DataLoader[Any]:
    """Sequences run on from the newest row to the oldest one."""
    return loader(Ring(550, apart=False))


def good_ring() -> DataLoader[Any]:
    """No sequence holds the newest and the oldest row."""
    return loader(Ring(550, apart=True))


def good_ring_not_full() -> DataLoader[Any]:
    """Nothing has been overwritten yet."""
    return loader(Ring(350, apart=False))


class Returns(Episodes):
    """The return of three steps; `stop`: of fewer at the end of an episode, of which a flag says."""

    def __init__(self, *, stop: bool) -> None:
        super().__init__()
        self.done = self.data["terminals"] | self.data["timeouts"]
        self.stop = stop

    def __len__(self) -> int:
        return EPISODES * STEPS - 3

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = range(len(self))[index]
        ends = np.flatnonzero(self.done[row : row + 3]).tolist() if self.stop else []
        last = row + min([*ends, 2])
        return {
            "obs": self.data["observations"][row],
            "gained": self.data["actions"][row : last + 1, 0].sum(),  # culprit
            "next_obs": self.data["observations"][last + 1],  # culprit
            "done": float(self.done[last]),
        }


def bad_returns() -> DataLoader[Any]:
    """Steps are counted over the end of an episode, and the flag is that of the last of them."""
    return loader(Returns(stop=False))


def good_returns() -> DataLoader[Any]:
    """They end with it, and so do those of the sample before."""
    return loader(Returns(stop=True))
