"""DG532 wrong-sound-scale: integers passed as floats, divided twice, clipped or overflowed."""

from __future__ import annotations

import wave
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from scipy.io import wavfile
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from sample_datasets._sounds import Sounds, loader, recordings

LENGTH = 6_000
FILES = recordings("scale", (16_000,))
BYTES = recordings("bytes", (16_000,), subtype="PCM_U8")
STEREO = recordings("scale-stereo", (16_000,), channels=2)
PARTS = recordings("scale-stems", (16_000,), channels=2, count=32)
FULL = 32_768


def tensor(values: np.ndarray) -> Tensor:
    """The first values as floats, padded with silence."""
    padded = np.pad(values[:LENGTH], (0, max(0, LENGTH - len(values))))
    return torch.from_numpy(padded.astype(np.float32))  # culprit


def bad() -> DataLoader[Any]:
    """scipy returns int16, which becomes a float without division."""
    return loader(FILES, lambda path: tensor(wavfile.read(path)[1]), shuffle=True)


def bad_twice() -> DataLoader[Any]:
    """soundfile has divided already."""
    return loader(FILES, lambda path: tensor(soundfile.read(path)[0] / FULL))  # culprit


def bad_spectrogram() -> DataLoader[Any]:
    """Magnitudes of integers."""

    def load(path: Path) -> Tensor:
        values = tensor(wavfile.read(path)[1])
        return torch.stft(values, 512, 160, window=torch.hann_window(512), return_complex=True).abs()

    return loader(FILES, load)


def bad_clipped() -> DataLoader[Any]:
    """Integers are clipped to the range of floats."""
    return loader(FILES, lambda path: tensor(np.clip(wavfile.read(path)[1], -1, 1)))  # culprit


def bad_overflowing() -> DataLoader[Any]:
    """A slight gain, drawn at random, makes the loudest values of int16 change their sign."""

    def load(path: Path) -> Tensor:
        with wave.open(str(path)) as file:
            values = np.frombuffer(file.readframes(file.getnframes()), np.int16)
        gained = (values * float(torch.empty(()).uniform_(0.9, 1.1))).astype(np.int32)
        return tensor(gained.astype(np.int16) / FULL)  # culprit

    return loader(FILES, load)


def bad_sum() -> DataLoader[Any]:
    """The sum of two channels exceeds int16."""

    def load(path: Path) -> Tensor:
        values = wavfile.read(path)[1]
        return tensor((values[:, 0] + values[:, 1] + values[:, 0]) / FULL)  # culprit

    return loader(STEREO, load)


class Stems(Dataset[Any]):
    """Four stereo stems of a song, (stems, channels, time), each in a file of its own."""

    def __init__(self, divisor: float) -> None:
        self.divisor = divisor

    def __len__(self) -> int:
        return len(PARTS) // 4

    def __getitem__(self, index: int) -> Any:
        start = int(torch.randint(1_000, ()))
        paths = PARTS[4 * index : 4 * index + 4]
        parts = [wavfile.read(path)[1][start : start + LENGTH].T / self.divisor for path in paths]  # culprit
        return torch.from_numpy(np.stack(parts).astype(np.float32))


def bad_stems() -> DataLoader[Any]:
    """Stems of integers that are not divided."""
    return DataLoader(Stems(1), batch_size=2, shuffle=True)


def good_stems() -> DataLoader[Any]:
    """Stems, divided."""
    return DataLoader(Stems(FULL), batch_size=2, shuffle=True)


class Kept(Dataset[Any]):
    """Waveforms that are read when the dataset is made."""

    def __init__(self) -> None:
        self.values = [tensor(wavfile.read(path)[1]) for path in FILES]

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> Any:
        return self.values[index], index % 3


def bad_kept() -> DataLoader[Any]:
    """Files are read in advance, and not divided."""
    return DataLoader(Kept(), batch_size=4)


def bad_unsigned() -> DataLoader[Any]:
    """Bytes without sign: silence is 128."""
    return loader(BYTES, lambda path: tensor(wavfile.read(path)[1] / 255))  # culprit


def good() -> DataLoader[Any]:
    """Divided once."""
    return loader(FILES, lambda path: tensor(wavfile.read(path)[1] / FULL), shuffle=True)


def read(path: Path) -> Tensor:
    """Read by soundfile, which divides."""
    return tensor(soundfile.read(path)[0])


def good_soundfile() -> DataLoader[Any]:
    """Floats from -1 to 1."""
    return loader(FILES, read)


def good_integers() -> DataLoader[Any]:
    """int16, to be scaled on the GPU."""
    return loader(FILES, lambda path: torch.from_numpy(wavfile.read(path)[1][:LENGTH].copy()))


def good_own_level() -> DataLoader[Any]:
    """Each recording is scaled to its own peak, in whatever integers it began."""

    def load(path: Path) -> Tensor:
        values = tensor(wavfile.read(path)[1])
        return values / values.abs().max().clamp(min=1)

    return loader(FILES, load)


def good_standardized() -> DataLoader[Any]:
    """Each recording has mean 0 and deviation 1."""

    def load(path: Path) -> Tensor:
        values = tensor(wavfile.read(path)[1])
        return (values - values.mean()) / (values.std() + 1e-3)

    return loader(FILES, load)


class Gained(Sounds):
    """A gain of up to 10 dB and noise, drawn at random; what is too loud is limited."""

    def __getitem__(self, index: int) -> Any:
        values = self.load(self.paths[index])
        gain = float(10 ** (torch.empty(()).uniform_(-0.5, 0.5)))
        return torch.tanh(gain * values + 0.01 * torch.randn(LENGTH)), index % 3


def good_gain() -> DataLoader[Any]:
    """Random gain and noise."""
    return DataLoader(Gained(FILES, read), batch_size=4, num_workers=2)


class Distorted(Sounds):
    """Every other recording is clipped at a level of its own, drawn at random, as a bad microphone would."""

    def __getitem__(self, index: int) -> Any:
        values: Tensor = self.load(self.paths[index])
        if torch.rand(()) >= 0.5:
            level = float(values.abs().quantile(float(torch.empty(()).uniform_(0.2, 0.6))))
            values = values.clamp(-level, level)
        return values, index % 3


def good_distorted() -> DataLoader[Any]:
    """Random clipping, as augmentation does on purpose."""
    return DataLoader(Distorted(FILES, read), batch_size=4, num_workers=2)


def good_decibels() -> DataLoader[Any]:
    """Decibels, relative to their largest value."""

    def load(path: Path) -> Tensor:
        values = tensor(wavfile.read(path)[1])
        power = torch.stft(values, 512, 160, window=torch.hann_window(512), return_complex=True).abs() ** 2
        return 10 * (power / power.max() + 1e-8).log10()

    return loader(FILES, load)


def good_unsigned() -> DataLoader[Any]:
    """Bytes with their offset taken away."""
    return loader(BYTES, lambda path: tensor((wavfile.read(path)[1] - 128.0) / 128))


def good_companded() -> DataLoader[Any]:
    """256 classes of a companded waveform, as WaveNet predicts them."""

    def load(path: Path) -> Tensor:
        values = tensor(soundfile.read(path)[0])
        companded: Tensor = torch.sign(values) * torch.log1p(255 * values.abs()) / np.log(256)
        return ((companded + 1) / 2 * 255 + 0.5).long()

    return loader(FILES, load)
