"""Every decoder reads the tones that are put in place of a file, however it is held and given the file."""

from __future__ import annotations

import importlib
import wave
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import av
import datasets
import librosa
import numpy as np
import pytest
import soundfile
import torch
from scipy.io import wavfile
from torch import Tensor
from torch.utils.data import DataLoader

from dataguard.lab.decoding.file_substitution import SOUNDS
from dataguard.lab.files.file_survey import FileSurvey, SwappedFileReader, survey_files
from dataguard.lab.process.isolation import isolated
from dataguard.lab.sound.sound_charts import Heard, hear, values_of
from sample_datasets._sounds import Sounds, loader, recordings
from tests.support.faces import todays

pytestmark = [
    pytest.mark.scan,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # librosa imports modules that Python will remove
]

LENGTH = 6_000
RATES = (16_000, 44_100)


def tensor(values: Any) -> Tensor:
    """The first values of one channel, padded with silence."""
    first = torch.as_tensor(np.asarray(values)).reshape(-1)[:LENGTH].float()
    return torch.nn.functional.pad(first, (0, LENGTH - len(first)))


def by_wave(path: Path) -> Tensor:
    with wave.open(str(path)) as file:
        return tensor(np.frombuffer(file.readframes(-1), "<i2") / 32_768)


def by_pyav(path: Path) -> Tensor:
    with av.open(str(path)) as container:
        return tensor(np.concatenate([frame.to_ndarray().reshape(-1) for frame in container.decode(audio=0)]) / 32_768)


def in_parts(path: Path) -> Tensor:
    with soundfile.SoundFile(path) as file:
        file.seek(0)
        return tensor(file.read(LENGTH))


READ = partial(soundfile.read, dtype="float32")
"""Held before its function is redirected."""

LOADS: dict[str, tuple[Callable[[Path], Tensor], str]] = {
    "soundfile": (lambda path: tensor(soundfile.read(path)[0]), "flac"),
    "soundfile of an open file": (lambda path: tensor(soundfile.read(BytesIO(path.read_bytes()))[0]), "ogg"),
    "soundfile in parts": (in_parts, "mp3"),
    "soundfile held by reference": (lambda path: tensor(READ(path)[0]), "wav"),
    "librosa": (lambda path: tensor(librosa.load(path, sr=None)[0]), "mp3"),
    "scipy": (lambda path: tensor(wavfile.read(path)[1] / 32_768), "wav"),
    "wave": (by_wave, "wav"),
    "PyAV": (by_pyav, "wav"),
}


def observed(build: Callable[[], DataLoader[Any]], folder: Path) -> Heard:
    """How a sample of a loader follows tones, observed as a scan does."""

    def survey() -> FileSurvey[Any]:
        return survey_files(build, folder, range(6), 60, SOUNDS)

    def run() -> Heard:
        return hear(SwappedFileReader(build, folder, found.modules, SOUNDS, values_of), found)

    found = isolated(survey, folder, timeout=100, allowed=100)
    return isolated(run, folder, timeout=100, allowed=100)


@pytest.mark.parametrize("name", todays(LOADS, turns=4))
def test_a_decoder_reads_the_tones(name: str, tmp_path: Path) -> None:
    load, suffix = LOADS[name]
    paths = recordings(f"decoders-{suffix}", RATES, suffix=suffix, count=6)
    heard = observed(lambda: loader(paths, load), tmp_path)
    assert set(heard.rates) == set(RATES)
    (waveform,) = heard.waveforms
    assert waveform.rate == pytest.approx(heard.header.rate, rel=1e-3)
    assert waveform.full_scale == pytest.approx(1, rel=5e-3)
    assert heard.other.real
    assert heard.other.ignored == (waveform.path,)


def test_librosa_resamples_the_tones(tmp_path: Path) -> None:
    paths = recordings("decoders-wav", RATES, count=6)
    heard = observed(lambda: loader(paths, lambda path: tensor(librosa.load(path, sr=16_000)[0])), tmp_path)
    (waveform,) = heard.waveforms
    assert waveform.rate == pytest.approx(16_000, rel=1e-3)
    assert heard.other.ignored == ()


def importable(module: str, reason: str) -> Any:
    """A module, or skip the test: some refuse to be imported beside this torch, or without FFmpeg."""
    try:
        return importlib.import_module(module)
    except (ImportError, RuntimeError):
        return pytest.skip(reason)


def torchcodec() -> Any:
    return importable("torchcodec.decoders", "no torchcodec, or no FFmpeg")


@pytest.mark.parametrize("rate", [None, 16_000])
def test_torchcodec_reads_the_tones(rate: int | None, tmp_path: Path) -> None:
    decoders = torchcodec()

    def load(path: Path) -> Tensor:
        return tensor(decoders.AudioDecoder(path, sample_rate=rate).get_all_samples().data)

    paths = recordings("decoders-mp3", RATES, suffix="mp3", count=6)
    heard = observed(lambda: loader(paths, load), tmp_path)
    assert heard.waveforms[0].rate == pytest.approx(16_000, rel=1e-3)
    assert bool(heard.other.ignored) == (rate is None)


@pytest.mark.parametrize("rate", [None, 16_000])
def test_datasets_decode_the_tones(rate: int | None, tmp_path: Path) -> None:
    torchcodec()
    paths = [str(path) for path in recordings("decoders-wav", RATES, count=6)]
    rows = datasets.Dataset.from_dict({"audio": paths}).cast_column("audio", datasets.Audio(sampling_rate=rate))
    heard = observed(
        lambda: DataLoader(rows.with_transform(lambda batch: {"x": [tensor(one["array"]) for one in batch["audio"]]})),
        tmp_path,
    )
    assert bool(heard.other.ignored) == (rate is None)


@pytest.mark.parametrize("suffix", ["wav", "mp3"])
def test_pydub_reads_the_tones(suffix: str, tmp_path: Path) -> None:
    segments = importable("pydub", "no pydub for this Python").AudioSegment

    def load(path: Path) -> Tensor:
        return tensor(np.array(segments.from_file(path).get_array_of_samples()) / 32_768)

    paths = recordings(f"decoders-{suffix}", RATES, suffix=suffix, count=6)
    heard = observed(lambda: loader(paths, load), tmp_path)
    assert heard.other.real
    assert heard.other.ignored == (heard.waveforms[0].path,)


def test_torchaudio_reads_the_tones(tmp_path: Path) -> None:
    torchaudio = importable("torchaudio", "no torchaudio for this torch")
    paths = recordings("decoders-wav", RATES, count=6)
    heard = observed(lambda: loader(paths, lambda path: tensor(torchaudio.load(path)[0])), tmp_path)
    assert heard.other.ignored == ("[0]",)


def test_a_loader_that_refuses_a_rate(tmp_path: Path) -> None:
    def load(path: Path) -> Tensor:
        values, rate = soundfile.read(path)
        if rate != 16_000:
            raise ValueError(f"{rate} Hz")
        return tensor(values)

    paths = recordings("decoders-one", (16_000,), count=6)
    heard = observed(lambda: DataLoader(Sounds(paths, load)), tmp_path)
    assert heard.other.raised
    assert not heard.other.real
