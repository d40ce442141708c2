"""DG531 ignored-sample-rate: recordings of several sample rates, passed on at the speed of their files."""

from __future__ import annotations

import random
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from scipy import signal
from scipy.fft import dct
from scipy.io import wavfile
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from sample_datasets._sounds import Sounds, loader, recordings

RATE, LENGTH = 16_000, 6_000
MIXED = recordings("mixed", (16_000, 44_100, 16_000))
ONE_RATE = recordings("one", (16_000,))
FLACS = recordings("flac", (16_000, 22_050), suffix="flac")


def cropped(values: np.ndarray) -> Tensor:
    """The first values, padded with silence."""
    padded = np.pad(values[:LENGTH], (0, max(0, LENGTH - len(values))))
    return torch.from_numpy(padded.astype(np.float32))


def unresampled(path: Path) -> Tensor:
    """The rate is thrown away."""
    values, _ = soundfile.read(path)  # culprit
    return cropped(values)


def bad() -> DataLoader[Any]:
    """The sample rate that soundfile returns is not used."""
    return loader(MIXED, unresampled, shuffle=True)


def features(values: np.ndarray, bins: int = 512) -> Tensor:
    """The logarithm of the power in each bin of a Fourier transform."""
    window = torch.hann_window(bins)
    return (torch.stft(cropped(values), bins, 160, window=window, return_complex=True).abs() ** 2 + 1e-6).log()


def bad_features() -> DataLoader[Any]:
    """Features of a fixed rate, whatever rate the file has."""
    return loader(MIXED, lambda path: features(soundfile.read(path)[0]))  # culprit


def bad_cepstrum() -> DataLoader[Any]:
    """Cepstral coefficients, in which no tone can be seen."""
    return loader(FLACS, lambda path: cepstrum(soundfile.read(path)[0]))  # culprit


def cepstrum(values: np.ndarray) -> torch.Tensor:
    """The first 13 coefficients of each frame."""
    return torch.from_numpy(dct(features(values).numpy(), axis=0)[:13])


def bad_scipy() -> DataLoader[Any]:
    """Read by scipy, and divided."""
    return loader(MIXED, lambda path: cropped(wavfile.read(path)[1] / 32768))  # culprit


def bad_wave() -> DataLoader[Any]:
    """Read by the standard library, whose files know their rate."""

    def load(path: Path) -> Tensor:
        with wave.open(str(path)) as file:
            return cropped(np.frombuffer(file.readframes(file.getnframes()), np.int16) / 32768)  # culprit

    return loader(MIXED, load)


class Mixtures(Dataset[Tensor]):
    """Two recordings of a sample, added or side by side, with a second one that is drawn."""

    def __init__(self, load: Callable[[Path], Tensor]) -> None:
        self.load = load

    def __len__(self) -> int:
        return len(MIXED)

    def __getitem__(self, index: int) -> Tensor:
        first = self.load(MIXED[index])
        return torch.stack([first, first + 0.5 * self.load(random.choice(OTHERS))])


OTHERS = recordings("others", (16_000, 44_100))


def bad_mixture() -> DataLoader[Any]:
    """Two files make a sample, and the rates of both are thrown away."""
    return DataLoader(Mixtures(unresampled), batch_size=4)


class Stream(IterableDataset):
    """One recording after the other, of bytes that were read before."""

    def __iter__(self) -> Iterator[Tensor]:
        for path in MIXED:
            with path.open("rb") as file:
                yield cropped(soundfile.read(file)[0])  # culprit


def bad_stream() -> DataLoader[Any]:
    """A stream of recordings, opened by other code than decodes them."""
    return DataLoader(Stream(), batch_size=4)


def resampled(path: Path) -> np.ndarray:
    """A recording at the rate of the model."""
    values, rate = soundfile.read(path)
    return np.asarray(values if rate == RATE else signal.resample_poly(values, RATE, rate))


def good() -> DataLoader[Any]:
    """Resampled to the rate of the model."""
    return loader(MIXED, lambda path: cropped(resampled(path)), shuffle=True)


def good_mixture() -> DataLoader[Any]:
    """Both files are resampled before they are added."""
    return DataLoader(Mixtures(lambda path: cropped(resampled(path))), batch_size=4)


def good_features() -> DataLoader[Any]:
    """Features of the resampled recording."""
    return loader(MIXED, lambda path: features(resampled(path)))


def good_own_rate() -> DataLoader[Any]:
    """Windows of 20 ms whatever the rate: the bins have the same frequencies in Hz."""

    def load(path: Path) -> Tensor:
        values, rate = soundfile.read(path, dtype="float32")
        spectrum = torch.stft(torch.from_numpy(values[: rate // 5]), rate // 50, return_complex=True).abs()
        return spectrum[:150, :8]

    return loader(MIXED, load)


def good_one_rate() -> DataLoader[Any]:
    """All files have one rate: nothing is to be resampled."""
    return loader(ONE_RATE, unresampled)


def good_carried() -> DataLoader[Any]:
    """The sample rate goes to the model with the waveform, and the model resamples."""

    def load(path: Path) -> dict[str, Any]:
        values, rate = soundfile.read(path)
        return {"waveform": cropped(values), "sampling_rate": rate}

    return loader(MIXED, load)


class Faster(Sounds):
    """Played at another speed, drawn at random, as augmentation does on purpose."""

    def __getitem__(self, index: int) -> Any:
        values = resampled(self.paths[index])
        speed = (90, 100, 110)[int(torch.randint(3, ()))]
        return cropped(signal.resample_poly(values, 100, speed)), index % 3


def good_speed() -> DataLoader[Any]:
    """Speed is perturbed after resampling."""
    return DataLoader(Faster(MIXED, unresampled), batch_size=4, num_workers=2)


class Catalogued(Sounds):
    """Rates stand in a table that was written with the files, and decoders are not asked for them."""

    def __init__(self) -> None:
        super().__init__(MIXED, unresampled)
        self.rates = [soundfile.info(path).samplerate for path in MIXED]

    def __getitem__(self, index: int) -> Any:
        values, _ = soundfile.read(self.paths[index])
        return cropped(signal.resample_poly(values, RATE, self.rates[index])), index % 3


def good_catalogued() -> DataLoader[Any]:
    """Resampled by a rate from a table."""
    return DataLoader(Catalogued(), batch_size=4)
