"""DG533 mixed-sound-channels: stereo files whose channels are joined along time, or lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from scipy.io import wavfile
from torch import Tensor
from torch.utils.data import DataLoader

from sample_datasets._sounds import Sounds, loader, recording, recordings, written

LENGTH = 8_000
STEREO = recordings("stereo", (16_000,), channels=2)
MONO = recordings("mono", (16_000,))
BOTH_ALIKE = [
    written(f"sound/alike/{number:02}.wav", recording(number, 16_000).repeat(2, 1), 16_000) for number in range(12)
]


def tensor(values: np.ndarray) -> Tensor:
    """The first values along the last axis as floats."""
    return torch.from_numpy(np.ascontiguousarray(values[..., :LENGTH]).astype(np.float32))


def bad() -> DataLoader[Any]:
    """(frames, channels) is flattened, so that left and right alternate."""
    return loader(STEREO, lambda path: tensor(soundfile.read(path)[0].reshape(-1)), shuffle=True)  # culprit


def bad_joined() -> DataLoader[Any]:
    """(channels, frames) is flattened: first the left channel, then the right one."""

    def load(path: Path) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(soundfile.read(path)[0].T).astype(np.float32)).flatten()  # culprit

    return loader(STEREO, load)


def bad_dropped() -> DataLoader[Any]:
    """The right channel is never heard."""
    return loader(STEREO, lambda path: tensor(soundfile.read(path)[0][:, 0]))  # culprit


def bad_time_averaged() -> DataLoader[Any]:
    """The mean over the first axis, which is time."""
    return loader(STEREO, lambda path: tensor(wavfile.read(path)[1].mean(0) / 32768))  # culprit


def good() -> DataLoader[Any]:
    """The mean over the channels."""
    return loader(STEREO, lambda path: tensor(soundfile.read(path)[0].mean(1)), shuffle=True)


def both(path: Path) -> Tensor:
    """Both channels, (channels, frames)."""
    return tensor(soundfile.read(path)[0].T)


def good_stereo() -> DataLoader[Any]:
    """Both channels, channels first."""
    return loader(STEREO, both)


def good_channels_last() -> DataLoader[Any]:
    """Both channels, channels last."""
    return loader(STEREO, lambda path: torch.from_numpy(soundfile.read(path, dtype="float32")[0][:LENGTH]))


def good_mono() -> DataLoader[Any]:
    """One channel, flattened."""
    return loader(MONO, lambda path: tensor(soundfile.read(path, always_2d=True)[0].reshape(-1)))


def good_alike() -> DataLoader[Any]:
    """Both channels hold the same, so that one is enough."""
    return loader(BOTH_ALIKE, lambda path: tensor(soundfile.read(path)[0][:, 0]))


class Chosen(Sounds):
    """One channel, chosen at random, as augmentation does on purpose."""

    def __getitem__(self, index: int) -> Any:
        return self.load(self.paths[index])[int(torch.randint(2, ()))], index % 3


def good_chosen() -> DataLoader[Any]:
    """A random channel."""
    return DataLoader(Chosen(STEREO, both), batch_size=4, num_workers=2)


class Sides(Sounds):
    """Each channel of each recording is a sample of its own, as the two ends of a telephone call are."""

    def __len__(self) -> int:
        return 2 * len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return self.load(self.paths[index // 2])[index % 2], index % 2


def good_sides() -> DataLoader[Any]:
    """The index chooses the channel."""
    return DataLoader(Sides(STEREO, both), batch_size=4)


def good_separated() -> DataLoader[Any]:
    """Left is the input, right the target."""

    def load(path: Path) -> tuple[Tensor, Tensor]:
        values = soundfile.read(path)[0]
        return tensor(values[:, 0]), tensor(values[:, 1])

    return loader(STEREO, load)
