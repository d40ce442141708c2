"""DG534 loud-padding: short recordings are followed by frames of 0, which is loud in a log-mel spectrogram."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import librosa
import numpy as np
import soundfile
import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.utils.data import DataLoader

from sample_datasets._sounds import Sounds, loader, recording, written

RATE, FRAMES = 16_000, 72
FILES = [
    written(f"sound/padded/{number:02}.wav", recording(number, RATE)[: 4_800 + 400 * number], RATE)
    for number in range(12)
]
FILTERS = torch.from_numpy(librosa.filters.mel(sr=RATE, n_fft=512, n_mels=64))
MEAN, STD = -5.4, 3.5
"""Statistics of the features of all recordings."""


def waveform(path: Path) -> Tensor:
    """A recording, (values,) from -1 to 1."""
    return torch.from_numpy(soundfile.read(path, dtype="float32")[0])


def powers(values: Tensor) -> Tensor:
    """A mel spectrogram, (64, frames)."""
    spectrum = torch.stft(values, 512, 160, window=torch.hann_window(512), return_complex=True)
    return FILTERS @ spectrum.abs() ** 2


def log_mel(values: Tensor) -> Tensor:
    """Its logarithm, (64, frames): silence is -11.5."""
    return torch.log(powers(values) + 1e-5)


def filled(features: Tensor, value: float = 0.0) -> Tensor:
    """The first frames of features, followed by frames of one value."""
    return pad(features[:, :FRAMES], (0, max(0, FRAMES - features.shape[1])), value=value)  # culprit


def bad() -> DataLoader[Any]:
    """Log-mel spectrograms are padded with zeros."""
    return loader(FILES, lambda path: filled(log_mel(waveform(path))), shuffle=True)


def bad_decibels() -> DataLoader[Any]:
    """Zeros are 100 dB louder than silence."""
    return loader(FILES, lambda path: filled(10 * torch.log10(powers(waveform(path)) + 1e-10)))


def good() -> DataLoader[Any]:
    """The waveform is padded, so that its features end with silence."""
    length = 160 * (FRAMES - 1)
    return loader(
        FILES,
        lambda path: log_mel(pad(waveform(path)[:length], (0, max(0, length - len(waveform(path)))))),
        shuffle=True,
    )


def good_normalized() -> DataLoader[Any]:
    """Zero is the mean of features that are normalized before."""
    return loader(FILES, lambda path: filled((log_mel(waveform(path)) - MEAN) / STD))


def good_powers() -> DataLoader[Any]:
    """Zero is silence where no logarithm was taken."""
    return loader(FILES, lambda path: filled(powers(waveform(path))))


class Masked(Sounds):
    """Features beside a mask of their frames."""

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        features = log_mel(waveform(self.paths[index]))
        return {"features": filled(features), "mask": torch.from_numpy(np.arange(FRAMES) < features.shape[1])}


def good_masked() -> DataLoader[Any]:
    """A mask hides the padding."""
    return DataLoader(Masked(FILES, waveform), batch_size=4)
